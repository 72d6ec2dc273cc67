"""Conversions between Arrow columns and numpy arrays, and array idioms that several folds share."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

NONE: Final = -(1 << 63)
"""In state arrays: no value. No Kafka offset or time is that small."""


def ints(column: pa.ChunkedArray | pa.Array, null: int = NONE) -> Ints:
    """An integer column as int64, nulls as `null`."""
    if column.null_count:
        column = column.fill_null(null) if pa.types.is_int64(column.type) else column.cast(pa.int64()).fill_null(null)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def bools(column: pa.ChunkedArray | pa.Array) -> Bools:
    """A boolean column without nulls."""
    return np.asarray(column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy())


def masked(values: npt.NDArray[Any], is_null: Bools, type_: pa.DataType) -> pa.Array:
    """An Arrow array of `type_`, null where `is_null`."""
    return pa.array(values, mask=is_null).cast(type_)


def nullable(values: Ints, type_: pa.DataType | None = None) -> pa.Array:
    """An Arrow array, null where the value is NONE."""
    is_null = values == NONE
    return masked(np.where(is_null, 0, values), is_null, type_ or pa.int64())


def words(codes: npt.NDArray[np.int8], names: Sequence[str]) -> pa.Array:
    """Strings from small codes, without a Python object per row."""
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(list(names))).cast(pa.string())


def table(schema: pa.Schema, columns: Mapping[str, pa.Array]) -> pa.Table:
    """A table of that schema; `KeyError` if a column is absent, casts where only the width differs."""
    arrays = []
    for field in schema:
        array = columns[field.name]
        arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def constant(value: str | int, count: int, type_: pa.DataType) -> pa.Array:
    """The same value `count` times."""
    return pa.repeat(pa.scalar(value, type_), count)


def run_starts(*keys: Ints) -> npt.NDArray[np.intp]:
    """The first index of every run of equal combinations of values in parallel arrays."""
    size = len(keys[0])
    if size == 0:
        return np.empty(0, dtype=np.intp)
    is_new = np.zeros(size, dtype=np.bool_)
    is_new[0] = True
    for key in keys:
        is_new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(is_new)


def run_ends(starts: npt.NDArray[np.intp], size: int) -> npt.NDArray[np.intp]:
    """The index after the last one of every run."""
    return np.append(starts[1:], size) if len(starts) else starts
