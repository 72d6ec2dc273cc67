"""The interface from which sections read: named tables, in batches of the catalogue's schemas."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa


class Tables(Protocol):
    """Published tables. `batches` yields nothing for a table that was published empty."""

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...


class InMemory:
    """Tables in memory, by name; a missing table is empty. For tests and small runs."""

    def __init__(self, tables: dict[str, pa.Table]) -> None:
        self._tables = tables

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Batches of the columns asked for."""
        table = self._tables.get(name)
        if table is not None:
            yield from table.select(list(columns)).to_batches()


def rows(tables: Tables, name: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Rows as tuples in the order of `columns`, a batch at a time."""
    for batch in tables.batches(name, columns):
        yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
