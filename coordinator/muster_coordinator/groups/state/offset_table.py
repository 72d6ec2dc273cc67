"""The committed offsets of one group: a table while in use, one byte string otherwise.

Packed form (part of the checkpoint format; equal content gives equal bytes, whatever the order of changes):

    count u32 | oldest commit timestamp i64 | holds expire timestamps u8
    per topic, by name:      name length u16 | name | rows u32
      per row, by partition: partition i32 | row length u16 | row (`offset_row`)

The head lets the expiry sweep skip a packed group without unpacking it. A table that a checkpoint's snapshot refers
to is *frozen*: `offsets_store` copies it before the next change.
"""

import struct
from collections.abc import Iterator, Sequence

from muster_coordinator.groups.state.offset_row import lifetime_of

_HEAD = struct.Struct(">IqB")
_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_ROW = struct.Struct(">iH")
_NEVER_MS = (1 << 63) - 1
Row = tuple[str, int, bytes]
"""(topic, partition, row)"""


class OffsetTable:
    """Topic → partition → row. `oldest_ms` is a lower bound of the commit timestamps, exact after `unpack`."""

    __slots__ = ("count", "epoch", "expires", "oldest_ms", "topics", "touched")

    def __init__(self, epoch: int) -> None:
        self.topics: dict[str, dict[int, bytes]] = {}
        self.count = 0
        self.oldest_ms = _NEVER_MS
        self.expires = False
        """Whether a row may have an expire timestamp."""
        self.epoch = epoch
        """Number of snapshots taken before this table was made; below the store's number the table is frozen."""
        self.touched = True

    def get(self, topic: str, partition: int) -> bytes | None:
        rows = self.topics.get(topic)
        return None if rows is None else rows.get(partition)

    def put_all(self, rows: Sequence[Row]) -> int:
        """Put rows in order. Returns how many partitions are new to the table."""
        known = self.count
        topics = self.topics
        for topic, partition, row in rows:
            found = topics.get(topic)
            if found is None:
                found = topics[topic] = {}
            if partition not in found:
                self.count += 1
            found[partition] = row
            timestamp_ms, expires = lifetime_of(row)
            if timestamp_ms < self.oldest_ms:
                self.oldest_ms = timestamp_ms
            if expires:
                self.expires = True
        return self.count - known

    def remove(self, topic: str, partition: int) -> int:
        """Returns 1 when the row existed, else 0."""
        rows = self.topics.get(topic)
        if rows is None or rows.pop(partition, None) is None:
            return 0
        if not rows:
            del self.topics[topic]
        self.count -= 1
        return 1

    def rows(self) -> Iterator[tuple[str, int, bytes]]:
        for topic, rows in self.topics.items():
            for partition, row in rows.items():
                yield topic, partition, row

    def copy(self, epoch: int) -> "OffsetTable":
        """A table to change, while a snapshot keeps this one."""
        twin = OffsetTable(epoch)
        twin.topics = {topic: rows.copy() for topic, rows in self.topics.items()}
        twin.count = self.count
        twin.oldest_ms = self.oldest_ms
        twin.expires = self.expires
        return twin

    def pack(self) -> bytes:
        """The packed form. Runs on an I/O thread when the table is frozen."""
        oldest_ms = _NEVER_MS
        expires = 0
        parts = [b""]
        for topic, rows in sorted((topic.encode(), rows) for topic, rows in self.topics.items()):
            parts.append(_U16.pack(len(topic)) + topic + _U32.pack(len(rows)))
            for partition in sorted(rows):
                row = rows[partition]
                parts.append(_ROW.pack(partition, len(row)) + row)
                timestamp_ms, expires_itself = lifetime_of(row)
                if timestamp_ms < oldest_ms:
                    oldest_ms = timestamp_ms
                expires |= expires_itself
        parts[0] = _HEAD.pack(self.count, oldest_ms, expires)
        return b"".join(parts)


def unpack(packed: bytes, epoch: int) -> OffsetTable:
    """Inverse of `OffsetTable.pack`."""
    table = OffsetTable(epoch)
    count, table.oldest_ms, expires = _HEAD.unpack_from(packed)
    table.count = count
    table.expires = bool(expires)
    at = _HEAD.size
    seen = 0
    while at < len(packed):
        name_bytes = _U16.unpack_from(packed, at)[0]
        at += 2
        topic = packed[at : at + name_bytes].decode()
        at += name_bytes
        rows_count = _U32.unpack_from(packed, at)[0]
        at += 4
        rows = table.topics[topic] = {}
        for _ in range(rows_count):
            partition, row_bytes = _ROW.unpack_from(packed, at)
            at += _ROW.size
            rows[partition] = packed[at : at + row_bytes]
            at += row_bytes
        seen += rows_count
    assert (seen, at) == (count, len(packed)), "a packed offset table of the wrong length"
    return table


def packed_count(packed: bytes) -> int:
    """Number of offsets in a packed table."""
    return int(_U32.unpack_from(packed)[0])


def packed_oldest_ms(packed: bytes) -> tuple[int, bool]:
    """(oldest commit timestamp, whether a row has an expire timestamp)."""
    _, oldest_ms, expires = _HEAD.unpack_from(packed)
    return oldest_ms, bool(expires)
