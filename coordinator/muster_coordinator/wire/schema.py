"""Kafka's message schemas as plain descriptions, taken from kio's generated entity classes.

Problem: every API has up to 15 versions; a hand-written codec for each would be thousands of lines, and kio's own
reader cannot be let near a client's bytes (`heap_budget`), while its entities differ in name, type and fields from
version to version. Mechanism: read kio's dataclasses once per (API, version) and keep names, kinds, tags and
defaults; `reader` and `writer` compile these descriptions. Times become plain integers, with `_ms` at the end of the
name; UUIDs become 16 bytes, zero for none; error codes become integers. So a handler sees one shape for all versions
of an API. Not done here: validation of values.
"""

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal

from kio.index import load_request_schema, load_response_schema

from muster_coordinator.wire.versions import VERSIONS

Direction = Literal["request", "response"]


Value = Any
"""What a schema that is known at run time only describes: plain values, tuples and mappings of them."""
REQUIRED: Value = object()
"""Marks a field without a default."""
_EMPTY_UUID = bytes(16)
_RENAMED = {
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
    "error_code": "int16",
    "records": "bytes",
}
_TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field in wire order."""

    name: str
    kind: str
    """int8, int16, uint16, int32, uint32, int64, float64, bool, uuid, string, bytes, or "entity"."""
    array: bool
    nullable: bool
    """The array, string, bytes or single entity may be null. Never set for tagged fields, which are absent instead."""
    entity: "Entity | None"
    tag: int | None
    default: Any
    """REQUIRED, or the value that an absent field stands for."""


@dataclass(frozen=True, slots=True, eq=False)
class Entity:
    """A message or a structure inside one."""

    name: str
    flexible: bool
    fields: tuple[Field, ...]
    tagged: tuple[Field, ...]
    """By ascending tag."""


def _strip_none(annotation: Value) -> tuple[Value, bool]:
    origin: Value = typing.get_origin(annotation)
    if origin in (types.UnionType, typing.Union):
        inner = [a for a in typing.get_args(annotation) if a is not type(None)]
        assert len(inner) == 1, annotation
        return inner[0], True
    return annotation, False


def _plain(value: Value, kind: str) -> Value:
    """A kio default as the plain value that our side uses."""
    if kind in ("timedelta_i32", "timedelta_i64"):
        return round(value.total_seconds() * 1000)
    if kind == "datetime_i64":
        return -1 if value is None else round(value.timestamp() * 1000)
    if kind == "uuid":
        return _EMPTY_UUID if value is None else value.bytes
    if kind == "error_code":
        return int(value.value)
    if kind.startswith(("int", "uint")):
        return int(value)
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    return value


def _field(source: Value) -> Field:
    annotation, nullable = _strip_none(source.type)
    origin: Value = typing.get_origin(annotation)
    array = origin is tuple
    if array:
        annotation, _ = _strip_none(typing.get_args(annotation)[0])
    tag = source.metadata.get("tag")
    if is_dataclass(annotation):
        raw, kind, entity = "entity", "entity", _entity(typing.cast(Value, annotation))
    else:
        raw = source.metadata["kafka_type"]
        kind, entity = _RENAMED.get(raw, raw), None
    default = REQUIRED if source.default is MISSING else source.default
    if default is not REQUIRED and not array:
        default = _plain(default, raw)
    if default is REQUIRED and not array:
        # A missing id is none; quotas do not exist, so nobody is ever throttled.
        default = _EMPTY_UUID if raw == "uuid" else 0 if source.name.startswith("throttle_time") else REQUIRED
    return Field(
        name=source.name + "_ms" if raw in _TIMES else source.name,
        kind=kind,
        array=array,
        nullable=nullable and tag is None and (array or kind in ("string", "bytes", "entity")),
        entity=entity,
        tag=tag,
        default=default,
    )


@cache
def _entity(kio_class: Value) -> Entity:
    all_fields = [_field(f) for f in fields(kio_class)]
    tagged = sorted((f for f in all_fields if f.tag is not None), key=lambda f: f.tag or 0)
    assert kio_class.__flexible__ or not tagged
    return Entity(
        kio_class.__name__, kio_class.__flexible__, tuple(f for f in all_fields if f.tag is None), tuple(tagged)
    )


@cache
def schema(api: int, version: int, direction: Direction) -> Entity:
    """The message of one advertised version."""
    load: Any = load_request_schema if direction == "request" else load_response_schema
    return _entity(load(api, version))


def _walk(entity: Entity) -> typing.Iterator[Entity]:
    yield entity
    for field in entity.fields + entity.tagged:
        if field.entity is not None:
            yield from _walk(field.entity)


def zero_of(field: Field) -> Value:
    """What a field means in a version that does not have it and in none that gives it a default."""
    if field.default is not REQUIRED:
        return field.default
    if field.array:
        return None if field.nullable else ()
    if field.nullable:
        return None
    return {"string": "", "bytes": b"", "bool": False, "uuid": _EMPTY_UUID, "entity": None, "float64": 0.0}.get(
        field.kind, 0
    )


@cache
def all_fields(api: int, direction: Direction) -> Mapping[str, Mapping[str, Any]]:
    """For every structure of an API: each field that any served version has, with the value it stands for when
    absent."""
    union: dict[str, dict[str, Any]] = {}
    for version in range(VERSIONS[api].min, VERSIONS[api].max + 1):
        for entity in _walk(schema(api, version, direction)):
            names = union.setdefault(entity.name, {})
            for field in entity.fields + entity.tagged:
                names[field.name] = zero_of(field)
    return union
