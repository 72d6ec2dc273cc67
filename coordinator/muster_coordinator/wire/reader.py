"""Compiles a schema into a function that turns a client's bytes into plain immutable values, within a heap budget.

A structure becomes a tuple with named fields; fields that only other versions of the API have are class attributes with
their default values, so handlers read `request.reason` in any version. Runs of fixed-size fields are one `struct` call.
Invariant (P2): any byte string gives a value or WireError. Bytes after the last field are ignored, as in Kafka.
"""

import struct
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from muster_coordinator.errors import WireError
from muster_coordinator.wire.heap_budget import INT_COST, POINTER_COST, STRUCT_COST, TEXT_COST, Frame
from muster_coordinator.wire.schema import REQUIRED, Direction, Entity, Field, Value, all_fields, schema, zero_of

Step = Callable[[Frame, int, list[Any]], int]
"""Reads one field or a run of them at a position, appends the values, returns the position after them."""

FIXED = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}
_UNPACK_I16 = struct.Struct(">h").unpack_from
_UNPACK_I32 = struct.Struct(">i").unpack_from
_VARINT_BYTES_MAX = 5
TEXT_BYTES_MAX = 0x7FFF
"""Kafka's limit of every string. It applies to compact strings too, because such a string may have to be sent in the
old form."""
_NEW: Callable[[type, list[Any]], Any] = tuple.__new__
_RECORD: Callable[[str, list[str]], type] = namedtuple
"""An alias: the type checker takes a call of `namedtuple` itself for a declaration."""


def read_uvarint(data: bytes, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits, and the position after it."""
    byte = data[pos]
    if byte < 0x80:
        return byte, pos + 1
    value, shift = byte & 0x7F, 7
    for i in range(pos + 1, pos + _VARINT_BYTES_MAX):
        byte = data[i]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, i + 1
        shift += 7
    raise WireError("varint is longer than 32 bits")


def length_i16(frame: Frame, pos: int) -> tuple[int, int]:
    """Old string length; -1 is null."""
    return _UNPACK_I16(frame.data, pos)[0], pos + 2


def length_i32(frame: Frame, pos: int) -> tuple[int, int]:
    """Old bytes and array length; -1 is null."""
    return _UNPACK_I32(frame.data, pos)[0], pos + 4


def length_compact(frame: Frame, pos: int) -> tuple[int, int]:
    """Compact length: the wire has length + 1, and 0 for null, which is -1 here."""
    value, pos = read_uvarint(frame.data, pos)
    return value - 1, pos


def text(frame: Frame, pos: int, size: int) -> str:
    """Decode strict UTF-8. Text that is not ASCII is charged at four bytes a character, as CPython may store it."""
    value = frame.data[pos : pos + size].decode()
    if len(value) != size:
        frame.charge(size, 4)
    return value


def fixed_step(codes: str) -> Step:
    """A run of fixed-size fields."""
    layout = struct.Struct(">" + codes)
    unpack, size = layout.unpack_from, layout.size

    def step(frame: Frame, pos: int, out: list[Any]) -> int:
        out += unpack(frame.data, pos)
        return pos + size

    return step


def sized_step(kind: str, *, compact: bool, nullable: bool) -> Step:
    """A string or a byte string."""
    length = length_compact if compact else length_i16 if kind == "string" else length_i32
    is_text = kind == "string"

    def step(frame: Frame, pos: int, out: list[Any]) -> int:
        size, pos = length(frame, pos)
        if size < 0:
            if size != -1 or not nullable:
                raise WireError("null or negative length")
            out.append(None)
            return pos
        stop = pos + size
        if stop > frame.end or (is_text and size > TEXT_BYTES_MAX):
            raise WireError("string is longer than its frame or its limit")
        out.append(text(frame, pos, size) if is_text else frame.data[pos:stop])
        return stop

    return step


def array_step(item: Step, *, compact: bool, nullable: bool, smallest: int, cost: int) -> Step:
    """An array, read element by element."""
    length = length_compact if compact else length_i32

    def step(frame: Frame, pos: int, out: list[Any]) -> int:
        count, pos = length(frame, pos)
        if count < 0:
            if count != -1 or not nullable:
                raise WireError("null or negative array")
            out.append(None)
            return pos
        frame.claim(pos, count, smallest, cost)
        items: list[Any] = []
        for _ in range(count):
            pos = item(frame, pos, items)
        out.append(tuple(items))
        return pos

    return step


def fixed_array_step(code: str, *, compact: bool, nullable: bool) -> Step:
    """An array of numbers in one `struct` call."""
    length = length_compact if compact else length_i32
    size = struct.calcsize(">" + code)

    def step(frame: Frame, pos: int, out: list[Any]) -> int:
        count, pos = length(frame, pos)
        if count < 0:
            if count != -1 or not nullable:
                raise WireError("null or negative array")
            out.append(None)
            return pos
        frame.claim(pos, count, size, INT_COST + POINTER_COST)
        out.append(struct.unpack_from(f">{count}{code}", frame.data, pos))
        return pos + count * size

    return step


def nullable_entity_step(item: Step) -> Step:
    """A structure that may be null: a marker byte precedes it (KIP-893)."""

    def step(frame: Frame, pos: int, out: list[Any]) -> int:
        marker = frame.data[pos]
        if marker == 1:
            return item(frame, pos + 1, out)
        if marker != 0xFF:
            raise WireError("bad null marker")
        out.append(None)
        return pos + 1

    return step


def tags_step(known: Mapping[int, tuple[int, Step]], defaults: tuple[Any, ...]) -> Step:
    """The tagged fields at the end of a flexible structure; unknown tags are skipped. `known`: tag → (place, step)."""

    def step(frame: Frame, pos: int, out: list[Any]) -> int:
        data = frame.data
        count, pos = read_uvarint(data, pos)
        base = len(out)
        out += defaults
        if not count:
            return pos
        if count * 2 > frame.end - pos:
            raise WireError("more tags than bytes")
        for _ in range(count):
            tag, pos = read_uvarint(data, pos)
            size, pos = read_uvarint(data, pos)
            stop = pos + size
            if stop > frame.end:
                raise WireError("tag is longer than its frame")
            place = known.get(tag)
            if place is not None:
                value: list[Any] = []
                if place[1](frame, pos, value) != stop:
                    raise WireError("a tag's size differs from its value's")
                out[base + place[0]] = value[0]
            pos = stop
        return pos

    return step


class _Compiler:
    """Builds the steps of one message. `absent`: per structure, the fields of all versions with their defaults."""

    def __init__(self, absent: Mapping[str, Mapping[str, Any]]) -> None:
        self._absent = absent

    def entity(self, entity: Entity) -> tuple[Step, int, int]:
        """The step, the smallest wire size and the estimated heap cost of one instance."""
        steps, smallest, cost = self._steps(entity)
        record = self._record(entity)

        def step(frame: Frame, pos: int, out: list[Any]) -> int:
            values: list[Any] = []
            for one in steps:
                pos = one(frame, pos, values)
            out.append(_NEW(record, values))
            return pos

        return step, smallest, cost

    def _record(self, entity: Entity) -> type:
        names = [f.name for f in entity.fields + entity.tagged]
        base = _RECORD(entity.name, names)
        absent = {k: v for k, v in self._absent.get(entity.name, {}).items() if k not in names}
        return type(entity.name, (base,), {"__slots__": (), **absent})

    def _steps(self, entity: Entity) -> tuple[tuple[Step, ...], int, int]:
        steps: list[Step] = []
        run, smallest, cost = "", 0, STRUCT_COST
        for field in entity.fields:
            cost += POINTER_COST
            if not field.array and field.kind in FIXED:
                run += FIXED[field.kind]
                cost += INT_COST
                continue
            if run:
                steps.append(fixed_step(run))
                smallest += struct.calcsize(">" + run)
                run = ""
            step, least, extra = self._field(field, flexible=entity.flexible)
            steps.append(step)
            smallest += least
            cost += extra
        if run:
            steps.append(fixed_step(run))
            smallest += struct.calcsize(">" + run)
        if entity.flexible:
            known, defaults = {}, []
            for place, field in enumerate(entity.tagged):
                known[field.tag or 0] = (place, self._field(field, flexible=True)[0])
                defaults.append(self._tag_default(field))
                cost += POINTER_COST
            steps.append(tags_step(known, tuple(defaults)))
            smallest += 1
        return tuple(steps), smallest, cost

    def _tag_default(self, field: Field) -> Value:
        if field.entity is not None and not field.array:
            values = [zero_of(f) for f in field.entity.fields + field.entity.tagged]
            return _NEW(self._record(field.entity), values)
        return None if field.default is REQUIRED else field.default

    def _field(self, field: Field, *, flexible: bool) -> tuple[Step, int, int]:
        if field.entity is not None:
            item, least, cost = self.entity(field.entity)
        elif field.kind in FIXED:
            code = FIXED[field.kind]
            if field.array and code != "16s":
                return (
                    fixed_array_step(code, compact=flexible, nullable=field.nullable),
                    1 if flexible else 4,
                    STRUCT_COST,
                )
            item, least, cost = fixed_step(code), struct.calcsize(">" + code), INT_COST
        else:
            item = sized_step(
                field.kind, compact=flexible, nullable=(field.nullable or field.tag is not None) and not field.array
            )
            least, cost = (1 if flexible else 2 if field.kind == "string" else 4), TEXT_COST
        if field.array:
            assert least > 0, field.name
            array = array_step(
                item, compact=flexible, nullable=field.nullable, smallest=least, cost=cost + POINTER_COST
            )
            return array, 1 if flexible else 4, STRUCT_COST
        if field.kind == "entity" and field.nullable:
            return nullable_entity_step(item), 1, cost
        return item, least, cost


@cache
def reader(api: int, version: int, direction: Direction = "request") -> Callable[[Frame, int], Any]:
    """The function that decodes one message of a served version from `pos` on. It raises WireError, nothing else."""
    step, _, _ = _Compiler(all_fields(api, direction)).entity(schema(api, version, direction))

    def read(frame: Frame, pos: int) -> Value:
        out: list[Any] = []
        try:
            pos = step(frame, pos, out)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise WireError(f"request ends early or is no UTF-8: {error}") from error
        if pos > frame.end:
            raise WireError("request is longer than its frame")
        return out[0]

    return read
