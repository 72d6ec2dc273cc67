"""A record as the fields of a stream's entry, and back.

Problem: Kafka's records tell null from empty, have headers of any name, more than one of a name, and their own times;
an entry is a list of (name, value), and whoever reads it by XREAD wants to see it plainly. Mechanism, in this order:

| field | holds |
|---|---|
| `t` | the record's time in ms, where it is not that of the entry's id |
| `k` | the key, if it is not null |
| `v` | the value; if it is null there is `null` instead, with an empty value |
| `h:NAME` | a header, in its place among the headers; `n:NAME` with an empty value is one whose value is null |

An entry of exactly this shape is a record of ours. Any other was written by somebody else: its value is one field that
the topic declares, as it is, or all of them as JSON: an array of [name, value] pairs in their order, since a name may
occur twice; bytes that are not UTF-8 as {"base64": ...}. Its key is null and its time that of its id. What this does
not do: guess (an entry with `k` and `v` and one field more is somebody else's), or choose ids.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets

KEY, VALUE, NULL_VALUE, TIME = b"k", b"v", b"null", b"t"
HEADER, NULL_HEADER = b"h:", b"n:"
Field = tuple[bytes, bytes]
Headers = tuple[tuple[bytes, bytes | None], ...]
_TIME_CHARS_MAX, _SURELY_FITS = 20, 18
_ZERO = b"0"[0]


NO_ENTRIES = (ValueError, TypeError, AttributeError, LookupError)
"""Errors over a list that is none of entries."""
Parts = tuple[int, bytes | None, bytes | None, Headers]
"""A `StreamRecord` without names, which costs less to make."""


class StreamRecord(NamedTuple):
    """A record without its place; names of headers are bytes, since clients may send any."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def fields_of(record: StreamRecord) -> list[bytes]:
    """Names and values in turn, but for `t`: whether that is needed is known when the id is."""
    fields: list[bytes] = []
    if record.key is not None:
        fields += (KEY, record.key)
    fields += (NULL_VALUE, b"") if record.value is None else (VALUE, record.value)
    for name, value in record.headers:
        fields += (NULL_HEADER + name, b"") if value is None else (HEADER + name, value)
    return fields


def record_of(entry: EntryId, fields: Sequence[bytes], value_field: bytes | None = None) -> StreamRecord:
    """The record of an entry; `fields` has names and values in turn. `value_field`: what the topic declares as the
    value of entries that are not ours."""
    ours = _ours(entry, fields)
    if ours is not None:
        return ours
    pairs = list(zip(fields[::2], fields[1::2], strict=True))
    if value_field is not None:
        found = [value for name, value in pairs if name == value_field]
        if found:
            return StreamRecord(entry.milliseconds, None, found[0])
    return StreamRecord(entry.milliseconds, None, _json(pairs))


Told = Sequence[Any]
"""Entries as `read.lua` tells them: of each its id, how many texts follow, and these: names and values in turn."""


def ids_of(entries: Told) -> Iterator[tuple[int, EntryId]]:
    """Of each entry where it begins, and its id. Raises one of `NO_ENTRIES` at what is none."""
    at = 0
    while at < len(entries):
        yield at, EntryId.parse(entries[at])
        at += 2 + _texts(entries, at)


def _texts(entries: Told, at: int) -> int:
    count: int = entries[at + 1]
    if not 0 <= count <= len(entries) - at - 2:
        raise ValueError(f"an entry of {count} texts")
    return count


def records_of(
    entries: Told, offsets: Offsets, stream: str, value_field: bytes | None = None
) -> Iterator[tuple[int, Parts]]:
    """(offset, record) of each entry. EntryBeyondOffsets at one that has none; `NO_ENTRIES` at what are none.

    The same as `record_of`, by a shorter way for entries of ours without headers, and once for times that entries have
    in common: this runs for each record of each Fetch.
    """
    bits, sequence_max, milliseconds_max = offsets.bits, offsets.sequence_max, offsets.milliseconds_max
    head_before: bytes | None = None
    milliseconds = 0
    time_before: bytes | None = None
    time_ms: int | None = None
    begin = 0
    while begin < len(entries):
        text: bytes = entries[begin]
        count = _texts(entries, begin)
        fields: Sequence[bytes] = entries[begin + 2 : begin + 2 + count]
        begin += 2 + count
        head, _, tail = text.partition(b"-")
        if head != head_before or not tail.isdigit():
            milliseconds, _ = EntryId.parse(text)
            head_before = head
        sequence = int(tail)
        if sequence > sequence_max or milliseconds > milliseconds_max:
            offsets.offset_of(EntryId(milliseconds, sequence), stream)  # raises
        at = 0
        timestamp_ms: int | None = milliseconds
        if count and fields[0] == TIME:
            if fields[1] != time_before:
                time_before, time_ms = fields[1], _time(fields[1])
            timestamp_ms, at = time_ms, 2
        key: bytes | None = None
        if count == at + 4 and fields[at] == KEY:
            key = fields[at + 1]
            at += 2
        record: Parts
        if timestamp_ms is not None and count == at + 2 and fields[at] == VALUE:
            record = (timestamp_ms, key, fields[at + 1], ())
        else:
            record = record_of(EntryId(milliseconds, sequence), fields, value_field)
        yield milliseconds << bits | sequence, record


def _ours(entry: EntryId, fields: Sequence[bytes]) -> StreamRecord | None:
    """None: it has another shape."""
    count = len(fields)
    at = 0
    timestamp_ms: int | None = entry.milliseconds
    if count and fields[0] == TIME:
        timestamp_ms = _time(fields[1])
        at = 2
    key: bytes | None = None
    if at < count and fields[at] == KEY:
        key = fields[at + 1]
        at += 2
    if timestamp_ms is None or at == count:
        return None
    name, value = fields[at], fields[at + 1]
    if name != VALUE and (name != NULL_VALUE or value):
        return None
    headers = _headers(fields, at + 2) if at + 2 < count else ()
    if headers is None:
        return None
    return StreamRecord(timestamp_ms, key, value if name == VALUE else None, headers)


def _headers(fields: Sequence[bytes], at: int) -> Headers | None:
    """None: one of them is no header."""
    headers: list[tuple[bytes, bytes | None]] = []
    for name, value in zip(fields[at::2], fields[at + 1 :: 2], strict=True):
        if name.startswith(HEADER):
            headers.append((name[len(HEADER) :], value))
        elif name.startswith(NULL_HEADER) and not value:
            headers.append((name[len(NULL_HEADER) :], None))
        else:
            return None
    return tuple(headers)


def _time(text: bytes) -> int | None:
    """Decimal, as `append.lua` writes it, of 64 bits."""
    if len(text) <= _SURELY_FITS and text.isdigit() and text[0] != _ZERO:
        return int(text)  # a positive number without a leading zero is written in no second way
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(text) > _TIME_CHARS_MAX:
        return None
    value = int(text)
    return value if str(value).encode() == text and -(1 << 63) <= value < 1 << 63 else None


def _json(pairs: list[Field]) -> bytes:
    return json.dumps([[_text(name), _text(value)] for name, value in pairs], separators=(",", ":")).encode()


def _text(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
