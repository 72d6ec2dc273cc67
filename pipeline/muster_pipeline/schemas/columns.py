"""Columns with a comment, and Arrow schemas made of such columns.

Every table's schema is data: name, type, whether null is allowed, and a comment with unit and source. The comment
becomes Arrow field metadata (`comment`), and so part of the Parquet files and of the generated table reference.
Constraints between columns are not here; tests check them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. `comment` gives meaning, unit and source; for a `nullable` column also the meaning of null."""

    name: str
    type: pa.DataType
    comment: str
    nullable: bool = False

    def field(self) -> pa.Field:
        """The Arrow field, comment included."""
        return pa.field(self.name, self.type, self.nullable, metadata={"comment": self.comment})


def required(name: str, type_: pa.DataType, comment: str) -> Column:
    """A column that is never null."""
    return Column(name=name, type=type_, comment=comment)


def optional(name: str, type_: pa.DataType, comment: str) -> Column:
    """A column that may be null."""
    return Column(name=name, type=type_, comment=comment, nullable=True)


def schema(columns: Sequence[Column], *, comment: str) -> pa.Schema:
    """An Arrow schema; `comment` says what one row is."""
    return pa.schema([column.field() for column in columns], metadata={"comment": comment})


def struct(columns: Sequence[Column]) -> pa.StructType:
    """A struct type made of columns, for lists of members and the like."""
    return pa.struct([column.field() for column in columns])


def list_of(item: pa.DataType) -> pa.ListType:
    """A list whose elements are never null."""
    return pa.list_(pa.field("element", item, nullable=False))
