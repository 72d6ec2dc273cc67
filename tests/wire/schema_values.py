"""Random values for any schema, small enough to be quick and wide enough to reach every branch of a codec."""

from typing import Any

from hypothesis import strategies as st
from muster_coordinator.wire.schema import Entity, Field

_INTS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_UNSIGNED = {"uint16": 16, "uint32": 32}
_ERRORS = st.sampled_from([-1, 0, 3, 6, 16, 25, 79, 100])
_NEVER_ABSENT = "transaction_start_time_ms"
"""kio reads no -1 there, which a coordinator tells of a transaction that has not begun."""
_MS_MAX = 4_000_000_000_000
"""Kept below kio's year 9999 and float rounding."""


def _scalar(field: Field, *, nullable: bool) -> st.SearchStrategy[Any]:
    if field.kind == "string":
        values: st.SearchStrategy[Any] = st.text(max_size=6)
    elif field.kind == "bytes":
        values = st.binary(max_size=6)
    elif field.kind == "float64":
        values = st.floats(allow_nan=False)
    elif field.kind == "bool":
        values = st.booleans()
    elif field.kind == "uuid":
        values = st.binary(min_size=16, max_size=16)
    elif field.kind == "entity":
        assert field.entity is not None
        values = entity_values(field.entity)
    elif field.name.endswith("error_code") and field.name != "topic_config_error_code":
        values = _ERRORS
    elif field.name.endswith("_ms") and field.kind == "int64":
        values = st.integers(0 if field.name == _NEVER_ABSENT else -1, _MS_MAX)
    elif field.kind in _INTS:
        values = st.integers(-(1 << _INTS[field.kind]), (1 << _INTS[field.kind]) - 1)
    else:
        values = st.integers(0, (1 << _UNSIGNED[field.kind]) - 1)
    return st.none() | values if nullable else values


def field_values(field: Field) -> st.SearchStrategy[Any]:
    """Values of one field, null where the schema allows it."""
    if not field.array:
        return _scalar(field, nullable=field.nullable)
    lists = st.lists(_scalar(field, nullable=False), max_size=3).map(tuple)
    return st.none() | lists if field.nullable else lists


def entity_values(entity: Entity) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings with every field."""
    return st.fixed_dictionaries({f.name: field_values(f) for f in entity.fields + entity.tagged})


def as_mapping(value: Any) -> Any:
    """What a reader made, as nested mappings of the fields that its version has."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: as_mapping(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple):
        return tuple(as_mapping(one) for one in value)
    return value
