"""Values at the ends of what a field can hold, for any schema, and frames that are nearly requests.

A sane request is a mapping that the product's own writer encodes. `bend` replaces a few of its fields, wherever they
are nested, by extremes of their kind; `spoil` changes the bytes of a frame. Everything is drawn from one `Random`, so a
seed is a run.
"""

import struct
from random import Random
from typing import Any

from muster_coordinator.wire.schema import Entity, Field, Value, schema
from muster_coordinator.wire.writer import writer

I16_MAX = 2**15 - 1
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_UNSIGNED = {"uint16": 16, "uint32": 32}
LONG_TEXT_BYTES = (249, 250, 4_096, 32_730, 32_731, I16_MAX, I16_MAX + 1, 70_000)
TEXTS = ("", "\0", ".", "..", "é" * 16_384, "\U0001f600" * 60, "a b/c%", "__consumer_offsets", "\n{}", "-1", "null")


def text(rand: Random, *, flexible: bool) -> str:
    """Short and odd, or as long as something allows."""
    if rand.random() < 0.6:
        return rand.choice(TEXTS)
    size = rand.choice(LONG_TEXT_BYTES)
    return rand.choice("xé") * (size if flexible else min(size, I16_MAX // 2))


def data(rand: Random) -> bytes:
    """Often empty, sometimes what a batch or a subscription begins like, seldom large."""
    kind = rand.randrange(6)
    if kind == 0:
        return b""
    if kind == 1:
        return rand.randbytes(rand.randrange(1, 200))
    if kind == 2:
        return struct.pack(">qi", 0, rand.choice((-1, 0, 49, 2**31 - 1))) + rand.randbytes(61)
    if kind == 3:
        return b"\xff" * rand.randrange(1, 80)
    if kind == 4:
        return b"\0" * rand.choice((1, 61, 4_096))
    return rand.randbytes(rand.choice((1_000, 40_000)) if rand.random() < 0.1 else 16)


def scalar(rand: Random, field: Field, *, flexible: bool) -> Value:
    """An extreme of the field's kind."""
    kind = field.kind
    if field.nullable and rand.random() < 0.2:
        return None
    if kind in _BITS:
        top = (1 << _BITS[kind]) - 1
        return rand.choice((top, -top - 1, -1, 0, 1, -2, top - 1, rand.randint(-top - 1, top)))
    if kind in _UNSIGNED:
        return rand.choice((0, 1, (1 << _UNSIGNED[kind]) - 1))
    if kind == "bool":
        return rand.random() < 0.5
    if kind == "uuid":
        return rand.choice((bytes(16), b"\xff" * 16, rand.randbytes(16)))
    if kind == "string":
        return text(rand, flexible=flexible)
    if kind == "float64":
        return rand.choice((0.0, -1.0, 1e308, float("inf"), float("nan")))
    return data(rand)


def ends(field: Field, *, flexible: bool) -> list[Value]:
    """All values at which a field of this kind may break: to be tried one by one."""
    kind = field.kind
    found: list[Value] = [None] if field.nullable else []
    if kind == "entity":
        return found
    if kind in _BITS:
        top = (1 << _BITS[kind]) - 1
        found += (top, -top - 1, -2, -1, 0, 1)
    elif kind in _UNSIGNED:
        found += (0, (1 << _UNSIGNED[kind]) - 1)
    elif kind == "bool":
        found += (False, True)
    elif kind == "uuid":
        found += (bytes(16), b"\xff" * 16)
    elif kind == "float64":
        found += (0.0, float("inf"), float("nan"))
    elif kind == "string":
        found += ("", "\0", "x" * (I16_MAX - 37), "x" * (I16_MAX - 36), "é" * (I16_MAX // 2), "x" * I16_MAX)
        found += ("x" * (I16_MAX + 1), "é" * I16_MAX) if flexible else ()
    else:
        found += (b"", b"\0", b"\xff" * 61, b"\0" * 70_000)
    if field.array:
        return [None, (), *((one,) for one in found if one is not None), tuple(found[-1:]) * 100]
    return found


def places(entity: Entity, values: dict[str, Any]) -> list[tuple[dict[str, Any], Field, bool]]:
    """Every field of a request's mapping: (the mapping that holds it, field, whether its version is flexible)."""
    found: list[tuple[dict[str, Any], Field, bool]] = []
    _places(entity, values, found)
    return found


def anything(rand: Random, field: Field, *, flexible: bool, depth: int = 0) -> Value:
    """A field that nobody described: its default often, else anything."""
    if field.array:
        if field.nullable and rand.random() < 0.2:
            return None
        return tuple(one(rand, field, depth) for _ in range(rand.choice((0, 1, 1, 2, 5)) if depth < 3 else 0))
    return one(rand, field, depth, flexible=flexible)


def one(rand: Random, field: Field, depth: int, *, flexible: bool = True) -> Value:
    """One element."""
    if field.kind != "entity":
        return scalar(rand, field, flexible=flexible)
    assert field.entity is not None
    return {
        inner.name: anything(rand, inner, flexible=field.entity.flexible, depth=depth + 1)
        for inner in (*field.entity.fields, *field.entity.tagged)
    }


def _places(entity: Entity, values: dict[str, Any], found: list[tuple[dict[str, Any], Field, bool]]) -> None:
    for field in (*entity.fields, *entity.tagged):
        found.append((values, field, entity.flexible))
        inner = values.get(field.name)
        if field.entity is None or inner is None:
            continue
        for each in inner if field.array else (inner,):
            _places(field.entity, each, found)


def bend(rand: Random, api: int, version: int, values: dict[str, Any]) -> None:
    """Replace one to three fields by extremes."""
    entity = schema(api, version, "request")
    for _ in range(rand.choice((1, 1, 1, 2, 3))):
        there = places(entity, values)
        if not there:
            return
        holder, field, flexible = rand.choice(there)
        before = holder.get(field.name)
        if field.array and before and rand.random() < 0.5:
            holder[field.name] = tuple(before) * rand.choice((0, 2, 3, 40))
        else:
            holder[field.name] = anything(rand, field, flexible=flexible)


def frame(api: int, version: int, values: dict[str, Any], correlation: int, client_id: str | None) -> bytes:
    """The request's bytes. struct.error or AssertionError when the version cannot carry such values."""
    body = bytearray(struct.pack(">hhi", api, version, correlation))
    raw = b"" if client_id is None else client_id.encode()
    body += struct.pack(">h", -1 if client_id is None else len(raw)) + raw
    if schema(api, version, "request").flexible:
        body.append(0)
    writer(api, version, "request")(body, values)
    return struct.pack(">i", len(body)) + body


def spoil(rand: Random, whole: bytes) -> bytes:
    """Flip, cut, repeat or lengthen bytes behind the frame's length, which is put right again, mostly."""
    body = bytearray(whole[4:])
    for _ in range(rand.choice((1, 1, 2, 4))):
        at = rand.randrange(8, len(body)) if len(body) > 8 else 0
        kind = rand.randrange(5)
        if kind == 0:
            body[at] ^= 1 << rand.randrange(8)
        elif kind == 1:
            del body[at : at + rand.choice((1, 2, 4, 8))]
        elif kind == 2:
            body[at:at] = body[at : at + rand.choice((1, 4, 16))]
        elif kind == 3:
            body[at : at + 4] = struct.pack(">i", rand.choice((-1, 0, 1, 2**31 - 1, -(2**31))))
        else:
            body[at:at] = rand.randbytes(rand.choice((1, 3)))
        if len(body) < 9:
            break
    size = len(body) if rand.random() < 0.98 else rand.choice((0, -1, len(body) + 1, 2**31 - 1))
    return struct.pack(">i", size) + bytes(body)
