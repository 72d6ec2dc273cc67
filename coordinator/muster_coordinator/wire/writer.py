"""Compiles a schema into a function that appends an answer to a buffer.

An answer is a mapping from field names to plain values, nested mappings and lists, the same for all versions of an
API: the writer takes the fields that its version has and ignores the rest. A field with a default may be left out; a
missing field without one is a bug of the handler (KeyError). Runs of fixed-size fields are one `struct` call.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from operator import itemgetter
from typing import Any

from muster_coordinator.limits import ERROR_MESSAGE_CHARS_MAX
from muster_coordinator.wire.reader import FIXED
from muster_coordinator.wire.schema import REQUIRED, Direction, Entity, Field, Value, schema

Write = Callable[[bytearray, Any], None]
Answer = Mapping[str, Any]

_PACK_I16 = struct.Struct(">h").pack
_PACK_I32 = struct.Struct(">i").pack


def write_uvarint(out: bytearray, value: int) -> None:
    """An unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_compact(out: bytearray, value: bytes | None) -> None:
    """Compact bytes, null allowed."""
    if value is None:
        out.append(0)
        return
    size = len(value) + 1
    if size <= 0x7F:
        out.append(size)
    else:
        write_uvarint(out, size)
    out += value


def write_compact_text(out: bytearray, value: str | None) -> None:
    """A compact string, null allowed."""
    if value is None:
        out.append(0)
        return
    raw = value.encode()
    size = len(raw) + 1
    if size <= 0x7F:  # A list of groups is made of these: no call for a length of one byte.
        out.append(size)
    else:
        write_uvarint(out, size)
    out += raw


def write_text(out: bytearray, value: str | None) -> None:
    """An old string, null allowed. Raises struct.error above 32,767 bytes, which is our bug: no string of ours is so
    long."""
    if value is None:
        out += b"\xff\xff"
        return
    raw = value.encode()
    out += _PACK_I16(len(raw))
    out += raw


def write_bytes(out: bytearray, value: bytes | None) -> None:
    """Old bytes, null allowed."""
    if value is None:
        out += b"\xff\xff\xff\xff"
        return
    out += _PACK_I32(len(value))
    out += value


_SIZED: Mapping[tuple[str, bool], Write] = {
    ("string", True): write_compact_text,
    ("string", False): write_text,
    ("bytes", True): write_compact,
    ("bytes", False): write_bytes,
}


def _brief(write: Write) -> Write:
    def cut(out: bytearray, value: Value) -> None:
        write(out, value if value is None else value[:ERROR_MESSAGE_CHARS_MAX])

    return cut


def _never_null(write: Write, name: str) -> Write:
    def checked(out: bytearray, value: Value) -> None:
        assert value is not None, name
        write(out, value)

    return checked


def _array(item: Write, *, compact: bool, name: str, nullable: bool) -> Write:
    def write(out: bytearray, value: Value) -> None:
        if value is None:
            assert nullable, name
            out += b"\x00" if compact else b"\xff\xff\xff\xff"
            return
        size = len(value)
        if not compact:
            out += _PACK_I32(size)
        elif size < 0x7F:
            out.append(size + 1)
        else:
            write_uvarint(out, size + 1)
        for one in value:
            item(out, one)

    return write


def _fixed_array(code: str, *, compact: bool, name: str, nullable: bool) -> Write:
    def write(out: bytearray, value: Value) -> None:
        if value is None:
            assert nullable, name
            out += b"\x00" if compact else b"\xff\xff\xff\xff"
            return
        size = len(value)
        if not compact:
            out += _PACK_I32(size)
        elif size < 0x7F:
            out.append(size + 1)
        else:
            write_uvarint(out, size + 1)
        out += struct.pack(f">{size}{code}", *value)

    return write


def _nullable_entity(item: Write) -> Write:
    def write(out: bytearray, value: Value) -> None:
        if value is None:
            out.append(0xFF)
            return
        out.append(1)
        item(out, value)

    return write


def _field_writer(field: Field, *, flexible: bool) -> Write:
    if field.entity is not None:
        item = entity_writer(field.entity)
        if field.nullable and not field.array:
            return _nullable_entity(item)
    elif field.kind in FIXED:
        code = FIXED[field.kind]
        if field.array:
            return _fixed_array(code, compact=flexible, name=field.name, nullable=field.nullable)
        pack = struct.Struct(">" + code).pack

        def item(out: bytearray, value: Value) -> None:
            out += pack(value)

    else:
        item = _SIZED[field.kind, flexible]
        if field.name == "error_message":
            item = _brief(item)
        if field.array or not field.nullable:
            item = _never_null(item, field.name)
    if field.array:
        return _array(item, compact=flexible, name=field.name, nullable=field.nullable)
    return item


Part = Callable[[bytearray, Answer], None]


def _run_part(run: list[Field]) -> Part:
    pack = struct.Struct(">" + "".join(FIXED[f.kind] for f in run)).pack
    names = [(f.name, None if f.default is REQUIRED else f.default, f.default is REQUIRED) for f in run]
    if len(run) == 1:
        name, default, needed = names[0]
        if needed:
            return lambda out, answer: out.extend(pack(answer[name]))
        return lambda out, answer: out.extend(pack(answer.get(name, default)))
    all_of = itemgetter(*(f.name for f in run))

    def part(out: bytearray, answer: Answer) -> None:
        try:
            values = all_of(answer)
        except KeyError:
            # Some fields are left to their defaults; the frequent answers give all of them and take the fast path.
            values = [answer[name] if needed else answer.get(name, default) for name, default, needed in names]
        out += pack(*values)

    return part


def _text_part(name: str, *, flexible: bool) -> Part:
    """A string that is always given and never null, in one call: a list of groups has four in each row."""

    def compact(out: bytearray, answer: Answer) -> None:
        value = answer[name]
        assert isinstance(value, str), name
        raw = value.encode()
        size = len(raw) + 1
        if size <= 0x7F:
            out.append(size)
        else:
            write_uvarint(out, size)
        out += raw

    def old(out: bytearray, answer: Answer) -> None:
        value = answer[name]
        assert isinstance(value, str), name
        raw = value.encode()
        out += _PACK_I16(len(raw))
        out += raw

    return compact if flexible else old


def _single_part(field: Field, *, flexible: bool) -> Part:
    is_text = field.kind == "string" and field.entity is None and not field.array
    if is_text and field.default is REQUIRED and not field.nullable and field.name != "error_message":
        return _text_part(field.name, flexible=flexible)
    write, name, default = _field_writer(field, flexible=flexible), field.name, field.default
    if default is REQUIRED:
        return lambda out, answer: write(out, answer[name])
    return lambda out, answer: write(out, answer.get(name, default))


def _tags_part(tagged: tuple[Field, ...]) -> Part:
    writers = [(f.tag or 0, f.name, _field_writer(f, flexible=True)) for f in tagged]

    names = frozenset(f.name for f in tagged)

    def part(out: bytearray, answer: Answer) -> None:
        if names.isdisjoint(answer):
            out.append(0)
            return
        present = [(tag, answer[name], write) for tag, name, write in writers if answer.get(name) is not None]
        write_uvarint(out, len(present))
        for tag, value, write in present:
            body = bytearray()
            write(body, value)
            write_uvarint(out, tag)
            write_uvarint(out, len(body))
            out += body

    return part


@cache
def entity_writer(entity: Entity) -> Write:
    """The function that appends one structure. Tagged fields are written when given and not None."""
    parts: list[Part] = []
    run: list[Field] = []
    for field in entity.fields:
        if not field.array and field.kind in FIXED:
            run.append(field)
            continue
        if run:
            parts.append(_run_part(run))
            run = []
        parts.append(_single_part(field, flexible=entity.flexible))
    if run:
        parts.append(_run_part(run))
    if entity.flexible:
        parts.append(_tags_part(entity.tagged) if entity.tagged else lambda out, _: out.append(0))

    def write(out: bytearray, answer: Answer) -> None:
        for part in parts:
            part(out, answer)

    return write


@cache
def writer(api: int, version: int, direction: Direction = "response") -> Write:
    """The function that appends one message of a served version."""
    return entity_writer(schema(api, version, direction))
