"""Strings, bytes and counts for the hand-written codecs, read and written in the flexible or the old form."""

import struct
from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.errors import WireError
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.reader import (
    TEXT_BYTES_MAX,
    length_compact,
    length_i16,
    length_i32,
    read_uvarint,
    text,
)
from muster_coordinator.wire.writer import write_bytes, write_compact, write_compact_text, write_text, write_uvarint

_PACK_I32 = struct.Struct(">i").pack
Length = Callable[[Frame, int], tuple[int, int]]


def _text_reader(length: Length) -> Callable[[Frame, int], tuple[str | None, int]]:
    def read(frame: Frame, pos: int) -> tuple[str | None, int]:
        size, pos = length(frame, pos)
        stop = pos + size
        if size < 0:
            if size != -1:
                raise WireError("negative length")
            return None, pos
        if stop > frame.end or size > TEXT_BYTES_MAX:
            raise WireError("string is longer than its frame or its limit")
        return text(frame, pos, size), stop

    return read


def _bytes_reader(length: Length) -> Callable[[Frame, int], tuple[bytes, int]]:
    def read(frame: Frame, pos: int) -> tuple[bytes, int]:
        size, pos = length(frame, pos)
        stop = pos + size
        if size < 0 or stop > frame.end:
            raise WireError("bytes are null or longer than their frame")
        return frame.data[pos:stop], stop

    return read


def _required(read: Callable[[Frame, int], tuple[str | None, int]]) -> Callable[[Frame, int], tuple[str, int]]:
    def checked(frame: Frame, pos: int) -> tuple[str, int]:
        value, pos = read(frame, pos)
        if value is None:
            raise WireError("null where a string must be")
        return value, pos

    return checked


def _skip_tags(frame: Frame, pos: int) -> int:
    data = frame.data
    if data[pos] == 0:
        return pos + 1
    count, pos = read_uvarint(data, pos)
    if count * 2 > frame.end - pos:
        raise WireError("more tags than bytes")
    for _ in range(count):
        _, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        pos += size
        if pos > frame.end:
            raise WireError("tag is longer than its frame")
    return pos


def _no_tags(_: Frame, pos: int) -> int:
    return pos


def _write_count(out: bytearray, count: int) -> None:
    out += _PACK_I32(count)


def _write_compact_count(out: bytearray, count: int) -> None:
    write_uvarint(out, count + 1)


def _write_tags(out: bytearray) -> None:
    out.append(0)


def _write_no_tags(_: bytearray) -> None:
    return


class Form(NamedTuple):
    """One of the two forms of variable-length fields: `OLD` or `COMPACT`."""

    text: Callable[[Frame, int], tuple[str, int]]
    nullable_text: Callable[[Frame, int], tuple[str | None, int]]
    blob: Callable[[Frame, int], tuple[bytes, int]]
    length: Length
    """Array length; -1 is null."""
    tags: Callable[[Frame, int], int]
    """Skip a tag section."""
    text_size: int
    """Bytes of the smallest string."""
    bytes_size: int
    tags_size: int
    write_text: Callable[[bytearray, str | None], None]
    write_bytes: Callable[[bytearray, bytes | None], None]
    write_count: Callable[[bytearray, int], None]
    write_tags: Callable[[bytearray], None]


_OLD_TEXT, _COMPACT_TEXT = _text_reader(length_i16), _text_reader(length_compact)
OLD = Form(
    _required(_OLD_TEXT), _OLD_TEXT, _bytes_reader(length_i32), length_i32, _no_tags, 2, 4, 0,
    write_text, write_bytes, _write_count, _write_no_tags,
)  # fmt: skip
COMPACT = Form(
    _required(_COMPACT_TEXT), _COMPACT_TEXT, _bytes_reader(length_compact), length_compact, _skip_tags, 1, 1, 1,
    write_compact_text, write_compact, _write_compact_count, _write_tags,
)  # fmt: skip


def form(*, flexible: bool) -> Form:
    """The form that a version uses."""
    return COMPACT if flexible else OLD


def count_of(frame: Frame, pos: int, length: Length, smallest: int, cost: int) -> tuple[int, int]:
    """Length of an array that must not be null, after its elements were claimed from the heap budget."""
    count, pos = length(frame, pos)
    if count < 0:
        raise WireError("null or negative array")
    frame.claim(pos, count, smallest, cost)
    return count, pos
