"""Kafka's message schemas as plain descriptions, one for each (API, version, direction) that we serve.

Problem: every API has up to 15 versions, and a hand-written codec for each would be thousands of lines. kio's own
reader is not safe for a client's bytes (`heap_budget`), and its entities differ in name, type and fields between
versions. Mechanism: `schemas.json` beside this file holds names, kinds, tags and defaults of kio's generated entities;
`reader` and `writer` compile these descriptions. Times are plain integers, with `_ms` at the end of the name; UUIDs are
16 bytes, zero for none; error codes are integers. So a handler sees one shape for all versions of an API.
`tests/wire/schemas_from_kio.py` makes the file, and a test compares it with the installed kio. At run time kio's
thousand classes are not imported, which took half of the processor time of a start. What it does not do: validate
values.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, Literal

from muster_coordinator.wire.versions import VERSIONS

Direction = Literal["request", "response"]


Value = Any
"""A value whose schema is known only at run time: a plain value, or tuples and mappings of such."""
REQUIRED: Value = object()
"""Marks a field without a default."""
EMPTY_UUID: Final = bytes(16)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field in wire order."""

    name: str
    kind: str
    """int8, int16, uint16, int32, uint32, int64, float64, bool, uuid, string, bytes, or "entity"."""
    array: bool
    nullable: bool
    """The array, string, bytes or single entity may be null. False for tagged fields, which may be absent instead."""
    entity: "Entity | None"
    """Of kind "entity", and of no other."""
    tag: int | None
    default: Any
    """The value that stands for an absent field, or REQUIRED."""


@dataclass(frozen=True, slots=True, eq=False)
class Entity:
    """A message or a structure inside one. Equal structures of several versions are one object."""

    name: str
    flexible: bool
    fields: tuple[Field, ...]
    tagged: tuple[Field, ...]
    """By ascending tag."""


def _field(row: Mapping[str, Any], entities: Sequence[Entity]) -> Field:
    kind, array, default = row["kind"], row.get("array", False), row.get("default", REQUIRED)
    if default is not REQUIRED:
        if array and default is not None:
            default = tuple(default)
        elif kind == "uuid":
            default = bytes.fromhex(default)
    entity = entities[row["structure"]] if kind == "entity" else None
    return Field(row["name"], kind, array, row.get("nullable", False), entity, row.get("tag"), default)


@cache
def _messages() -> Mapping[str, Entity]:
    """ "api.version.direction" → its message. In the file a structure follows all structures that it contains."""
    table = json.loads(resources.files(__package__).joinpath("schemas.json").read_bytes())
    entities: list[Entity] = []
    for row in table["structures"]:
        fields = [_field(one, entities) for one in row["fields"]]
        tagged = sorted((f for f in fields if f.tag is not None), key=lambda f: f.tag or 0)
        untagged = tuple(f for f in fields if f.tag is None)
        entities.append(Entity(row["name"], row["flexible"], untagged, tuple(tagged)))
    return {name: entities[place] for name, place in table["messages"].items()}


def schema(api: int, version: int, direction: Direction) -> Entity:
    """The message of one served version."""
    return _messages()[f"{int(api)}.{version}.{direction}"]


def _walk(entity: Entity) -> Iterator[Entity]:
    yield entity
    for field in entity.fields + entity.tagged:
        if field.entity is not None:
            yield from _walk(field.entity)


def zero_of(field: Field) -> Value:
    """The value of a field in versions that lack it: its default, or else null, zero or empty."""
    if field.default is not REQUIRED:
        return field.default
    if field.array:
        return None if field.nullable else ()
    if field.nullable:
        return None
    return {"string": "", "bytes": b"", "bool": False, "uuid": EMPTY_UUID, "entity": None, "float64": 0.0}.get(
        field.kind, 0
    )


@cache
def all_fields(api: int, direction: Direction) -> Mapping[str, Mapping[str, Any]]:
    """For every structure of an API: each field of any served version, with the value that stands for its absence."""
    union: dict[str, dict[str, Any]] = {}
    for version in range(VERSIONS[api].min, VERSIONS[api].max + 1):
        for entity in _walk(schema(api, version, direction)):
            names = union.setdefault(entity.name, {})
            for field in entity.fields + entity.tagged:
                names[field.name] = zero_of(field)
    return union
