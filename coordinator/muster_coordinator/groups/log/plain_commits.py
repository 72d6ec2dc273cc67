"""Fast reader for the commonest batches of the offsets log: plain commits, and tombstones of committed offsets.

Problem: every replica applies every commit. Decoding key and value into objects, only to encode them again as rows,
took two fifths of a replica's work under commit load. Mechanism: one pass over the bytes that knows the layouts this
product writes (key type 1; values v3 and v4) and makes the rows directly. It accepts a whole batch or nothing: for
anything that is not exactly of that form, damaged bytes included, it returns None, and the general reader (`replay`)
decides. So it never judges a batch by itself; a property test holds both readers to the same result. Consecutive
records that differ only in partition, offset, epoch and time, as those of one commit do, are a *stretch*: they are
unpacked with one `struct` call each.
"""

import struct
from functools import lru_cache

from muster_coordinator.records.batch import HEADER_BYTES, NO_PRODUCER_ID, BatchHeader

_KEY_HEAD = struct.Struct(">hh").unpack_from
_I16 = struct.Struct(">h").unpack_from
_I32 = struct.Struct(">i").unpack_from
_I64 = struct.Struct(">q").unpack_from
_HEAD_V4 = struct.Struct(">hqi").unpack_from
_ROW = struct.Struct(">Bqqiq").pack
_BARE_V3 = struct.Struct(">BhqihqB")
_BARE_V4 = struct.Struct(">BhqiBq3s16sB")
"""End of a record whose commit has no metadata text, as nearly all: length of the value, value, number of headers."""
_NOT_SMALLEST = 0x81
"""Bits of a varint's first byte; if one is set, the number is negative or has more bytes."""
_NO_VALUE_NO_HEADERS = b"\x01\x00"
_OFFSET_COMMIT = 1
_V3_HEAD_BYTES, _V4_HEAD_BYTES = 16, 14
_TAGGED = b"\x01\x00\x10"
"""Tag section of v4: one tag, number 0, of 16 bytes: the topic's id."""
_NO_ID = bytes(16)
_IS_BARE_V3 = (2 * (_BARE_V3.size - 2), 3, 0, 0)
"""Length of the value as a varint, version, length of the text, headers."""
_IS_BARE_V4 = (2 * (_BARE_V4.size - 2), 4, 1, _TAGGED, 0)
_HAS_TOPIC_ID = 2
_STRETCH_ROW = struct.Struct(">Bq12s8s").pack
"""As `_ROW`, but offset with epoch, and time, are the bytes copied from the value."""
_V4_SIZED, _V4_NO_TEXT = bytes((2 * (_BARE_V4.size - 2), 0, 4)), b"\x01"
_V3_SIZED, _V3_NO_TEXT = bytes((2 * (_BARE_V3.size - 2), 0, 3)), b"\0\0"
_NO_HEADERS = b"\0"
_STRETCH_MIN = 4
"""Fewest remaining records for which trying a stretch pays off."""
_FORMS_KEPT = 256
"""Layouts of stretches that are kept; there is one per combination of name lengths."""

Commit = tuple[str, str, int, bytes | None]
"""(group, topic, partition, row); row None: a tombstone removed the offset."""


def plain_commits(batch: bytes, header: BatchHeader, base_offset: int) -> list[Commit] | None:
    """All records of a batch, in order, or None when one is anything else. `base_offset` is the offset that the batch
    has in the log. Never raises."""
    if header.is_control or header.compression or header.producer_id != NO_PRODUCER_ID:
        return None
    try:
        return _read(batch, header.count, base_offset)
    except (IndexError, struct.error, UnicodeDecodeError):
        return None


def _read(batch: bytes, count: int, base_offset: int) -> list[Commit] | None:
    found: list[Commit] = []
    position, size = HEADER_BYTES, len(batch)
    names = b""
    group = topic = ""
    while len(found) < count:
        start = position
        # The same varint code three times: a call for each would take a third of the loop.
        raw = batch[position]
        length, position = (raw >> 1, position + 1) if not raw & _NOT_SMALLEST else _small(batch, position)
        stop = position + length
        # Attributes are unused, and all records of our batches have the same timestamp, so its delta is 0.
        if length < 0 or stop > size or batch[position + 1] != 0:
            return None
        delta_at = position + 2
        raw = batch[delta_at]
        delta, position = (raw >> 1, position + 3) if not raw & _NOT_SMALLEST else _small(batch, position + 2)
        lead = position
        raw = batch[position]
        key_bytes, position = (raw >> 1, position + 1) if not raw & _NOT_SMALLEST else _small(batch, position)
        key_end = position + key_bytes
        if delta < 0 or key_bytes < 10 or key_end >= stop:
            return None
        # A batch names one group and few topics: decode names only when they change.
        if batch[position : key_end - 4] != names:
            named = _names(batch, position, key_end)
            if named is None:
                return None
            group, topic = named
            names = batch[position : key_end - 4]
        row: bytes | None = None
        if count - len(found) >= _STRETCH_MIN:
            read = _stretch(batch, (start, delta_at, lead, key_end, stop), count, base_offset, group, topic, found)
            if read:
                position = start + read
                continue
        if stop - key_end != 2 or batch[key_end : key_end + 2] != _NO_VALUE_NO_HEADERS:
            row = _value_row(batch, key_end, stop, base_offset + delta)
            if row is None:
                return None
        found.append((group, topic, _I32(batch, key_end - 4)[0], row))
        position = stop
    return found if position == size else None


@lru_cache(maxsize=_FORMS_KEPT)
def _form(head_bytes: int, delta_bytes: int, keyed_bytes: int, text_bytes: int, tail_bytes: int) -> struct.Struct:
    """Layout of one record of a stretch:

    Length and attributes | offset delta | length of the key and names | partition | length of the value and version
    | offset and epoch | metadata text | time | topic id and headers.
    """
    delta = "H" if delta_bytes == 2 else "B"
    return struct.Struct(f">{head_bytes}s{delta}{keyed_bytes}si3s12s{text_bytes}s8s{tail_bytes}s")


def _stretch(
    batch: bytes,
    places: tuple[int, int, int, int, int],
    count: int,
    base_offset: int,
    group: str,
    topic: str,
    found: list[Commit],
) -> int:
    """Read the record at hand and all that follow in the same form, into `found`. Returns the bytes read; 0 when the
    record has no such form. `places`: where the record, its offset delta, its key with length, and its value begin, and
    where it ends. The caller has judged this record and its key; the following ones must equal them byte by byte."""
    start, delta_at, lead, value_at, stop = places
    value_bytes = stop - value_at
    if value_bytes == _BARE_V4.size:
        flags, sized, no_text, tail = _HAS_TOPIC_ID, _V4_SIZED, _V4_NO_TEXT, batch[stop - 20 : stop]
        topic_id = tail[3:19]
        if tail[:3] != _TAGGED or topic_id == _NO_ID or tail[19]:
            return 0
    elif value_bytes == _BARE_V3.size:
        flags, sized, no_text, tail, topic_id = 0, _V3_SIZED, _V3_NO_TEXT, _NO_HEADERS, b""
    else:
        return 0
    wide = lead - delta_at == 2
    form = _form(delta_at - start, lead - delta_at, value_at - 4 - lead, len(no_text), len(tail))
    head, keyed = batch[start:delta_at], batch[lead : value_at - 4]
    same = min(count - len(found), (len(batch) - start) // form.size)
    rows = form.iter_unpack(memoryview(batch)[start : start + same * form.size])
    before = len(found)
    for head_, delta, keyed_, partition, sized_, place, text, time, tail_ in rows:
        if head_ != head or keyed_ != keyed or sized_ != sized or text != no_text or tail_ != tail:
            break
        if wide:
            if delta & 0x8180 != 0x8000:  # negative, or of another length
                break
            delta = (delta >> 8 & 0x7F | (delta & 0xFF) << 7) >> 1
        elif delta & _NOT_SMALLEST:
            break
        else:
            delta >>= 1
        found.append((group, topic, partition, _STRETCH_ROW(flags, base_offset + delta, place, time) + topic_id))
    return (len(found) - before) * form.size


def _names(batch: bytes, at: int, key_end: int) -> tuple[str, str] | None:
    """Group and topic of the key at `at`; None when it is not a key of type 1."""
    kind, group_bytes = _KEY_HEAD(batch, at)
    topic_at = at + 4 + group_bytes
    if kind != _OFFSET_COMMIT or group_bytes < 0 or topic_at + 6 > key_end:
        return None
    if _I16(batch, topic_at)[0] != key_end - topic_at - 6:
        return None
    return batch[at + 4 : topic_at].decode(), batch[topic_at + 2 : key_end - 4].decode()


def _value_row(batch: bytes, at: int, stop: int, record_offset: int) -> bytes | None:
    """The row of the value at `at`, given with its length and followed by no headers; None for any other form."""
    row: bytes
    if stop - at == _BARE_V4.size:
        size, version, offset, epoch, text, timestamp_ms, tagged, topic_id, headers = _BARE_V4.unpack_from(batch, at)
        if (size, version, text, tagged, headers) == _IS_BARE_V4 and topic_id != _NO_ID:
            row = _ROW(_HAS_TOPIC_ID, record_offset, offset, epoch, timestamp_ms) + topic_id
            return row
    elif stop - at == _BARE_V3.size:
        size, version, offset, epoch, text, timestamp_ms, headers = _BARE_V3.unpack_from(batch, at)
        if (size, version, text, headers) == _IS_BARE_V3:
            row = _ROW(0, record_offset, offset, epoch, timestamp_ms)
            return row
    value_bytes, position = _small(batch, at)
    end = position + value_bytes
    if value_bytes < 0 or end + 1 != stop or batch[end] != 0:
        return None
    return _row(batch, position, end, record_offset)


def _row(batch: bytes, at: int, end: int, record_offset: int) -> bytes | None:
    """The row (`offset_row`) of a value of v3 or v4; None for any other form."""
    version, offset, epoch = _HEAD_V4(batch, at)
    if version == 3:
        text_at = at + _V3_HEAD_BYTES
        text_bytes = _I16(batch, at + _V4_HEAD_BYTES)[0]
        text_end = text_at + text_bytes
        if text_bytes < 0 or text_end + 8 != end:
            return None
        flags, topic_id = 0, b""
    elif version == 4:
        text_at = at + _V4_HEAD_BYTES + 1
        text_bytes = batch[text_at - 1] - 1
        text_end = text_at + text_bytes
        # Checked before any slice: in compiled code a slice that ends before it begins raises.
        if not 0 <= text_bytes < 127 or text_end + 27 != end:
            return None
        flags, topic_id = _HAS_TOPIC_ID, batch[text_end + 11 : end]
        if batch[text_end + 8 : text_end + 11] != _TAGGED or topic_id == _NO_ID:
            return None
    else:
        return None
    text = batch[text_at:text_end]
    if text and not text.isascii():
        text.decode()
    return _ROW(flags, record_offset, offset, epoch, _I64(batch, text_end)[0]) + topic_id + text


def _small(data: bytes, position: int) -> tuple[int, int]:
    """A signed varint of at most two bytes. Raises IndexError for a longer one: the general reader then decides."""
    raw = data[position]
    position += 1
    if raw > 127:
        more = data[position]
        if more > 127:
            raise IndexError(position)
        raw, position = raw & 127 | more << 7, position + 1
    return (~(raw >> 1) if raw & 1 else raw >> 1), position
