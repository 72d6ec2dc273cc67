"""All committed offsets of a shard, by group; most of them packed (decision 20).

A group is unpacked on its first use. While more than `limits.UNPACKED_OFFSETS_MAX` offsets are unpacked, the clock
algorithm packs groups that were not used since its hand last passed them: one or two steps per applied record, so no
turn pays for many. Which groups are packed depends on reads and differs between replicas; the packed bytes do not.

A checkpoint's snapshot is a copy of the outer dict, taken in one turn. Incrementing `epoch` freezes all its tables; the
first change of each table after that copies it.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from muster_coordinator.groups import limits
from muster_coordinator.groups.state.offset_table import OffsetTable, Row, packed_count, packed_oldest_ms, unpack

PackedOrTable = bytes | OffsetTable
Place = tuple[str, str, int]
"""(group, topic, partition)"""


class OffsetsStore:
    """Durable state; changed only by replay."""

    __slots__ = ("_epoch", "_groups", "_hand", "_peeked", "_unpacked", "changes")

    def __init__(self) -> None:
        self._groups: dict[str, PackedOrTable] = {}
        self._hand: OrderedDict[str, None] = OrderedDict()
        """Unpacked groups in the order in which the clock hand visits them."""
        self._unpacked = 0
        """Offsets in unpacked tables."""
        self._epoch = 0
        self._peeked: tuple[bytes, OffsetTable] | None = None
        self.changes: dict[Place, None] | None = None
        """What was put or removed since it was taken; None: nobody asks. It is no state: replay does not read it."""

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def groups(self) -> Iterator[str]:
        return iter(self._groups)

    def get(self, group: str, topic: str, partition: int) -> bytes | None:
        """The row, or None."""
        table = self.table(group)
        return None if table is None else table.get(topic, partition)

    def table(self, group: str) -> OffsetTable | None:
        """The group's table, for reading only: it may be frozen."""
        found = self._groups.get(group)
        if found is None:
            return None
        if isinstance(found, bytes):
            found = self._unpack(group, found)
        found.touched = True
        return found

    def peek(self, group: str) -> OffsetTable | None:
        """The table for a one-off read: a packed one is unpacked for the caller and not cached, but for the last one,
        since some ask for one partition after the other."""
        found = self._groups.get(group)
        if not isinstance(found, bytes):
            return found
        if self._peeked is None or self._peeked[0] is not found:
            self._peeked = found, unpack(found, self._epoch)
        return self._peeked[1]

    def size(self, group: str) -> int:
        """Number of offsets, without unpacking."""
        found = self._groups.get(group)
        if found is None:
            return 0
        return packed_count(found) if isinstance(found, bytes) else found.count

    def oldest_ms(self, group: str) -> tuple[int, bool]:
        """(lower bound of the commit timestamps, whether expire timestamps may occur), without unpacking."""
        found = self._groups[group]
        return packed_oldest_ms(found) if isinstance(found, bytes) else (found.oldest_ms, found.expires)

    def mentions(self, group: str, topic_id: bytes) -> bool:
        """Whether a row may have this topic id: False is certain, True is not. Never unpacks."""
        found = self._groups.get(group)
        if found is None:
            return False
        if isinstance(found, bytes):
            return topic_id in found
        return any(topic_id in row for _, _, row in found.rows())

    def names(self, group: str, topic: str) -> bool:
        """Whether a row may be of this topic: False is certain, True is not. Never unpacks."""
        found = self._groups.get(group)
        if found is None:
            return False
        if isinstance(found, bytes):
            return topic.encode() in found
        return any(name == topic for name, _, _ in found.rows())

    def put(self, group: str, topic: str, partition: int, row: bytes) -> None:
        self.put_all(group, ((topic, partition, row),))

    def put_all(self, group: str, rows: Sequence[Row]) -> None:
        """Put rows of one group, in order."""
        if not rows:
            return
        self._unpacked += self._writable(group).put_all(rows)
        if self.changes is not None:
            for topic, partition, _ in rows:
                self.changes[group, topic, partition] = None
        for _ in rows:
            if self._unpacked <= limits.UNPACKED_OFFSETS_MAX:
                break
            self._turn_hand(group)

    def remove(self, group: str, topic: str, partition: int) -> None:
        """No effect when the row does not exist."""
        if group not in self._groups:
            return
        table = self._writable(group)
        self._unpacked -= table.remove(topic, partition)
        if self.changes is not None:
            self.changes[group, topic, partition] = None
        if not table.count:
            del self._groups[group]
            self._hand.pop(group, None)

    def snapshot(self) -> dict[str, PackedOrTable]:
        """An immutable copy: all its tables are frozen from now on."""
        self._epoch += 1
        return self._groups.copy()

    def restore(self, group: str, packed: bytes) -> None:
        """Add a group from a checkpoint; it must not exist yet."""
        assert group not in self._groups
        self._groups[group] = packed

    def _writable(self, group: str) -> OffsetTable:
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = OffsetTable(self._epoch)
            self._hand[group] = None
        elif isinstance(found, bytes):
            found = self._unpack(group, found)
        elif found.epoch != self._epoch:
            found = self._groups[group] = found.copy(self._epoch)
        found.touched = True
        return found

    def _unpack(self, group: str, packed: bytes) -> OffsetTable:
        table = self._groups[group] = unpack(packed, self._epoch)
        self._unpacked += table.count
        self._hand[group] = None
        return table

    def _turn_hand(self, spared: str) -> None:
        """Two steps of the clock: pack groups not used since its last visit, except the group being written."""
        for _ in range(min(2, len(self._hand))):
            group, _ = self._hand.popitem(last=False)
            found = self._groups[group]
            assert not isinstance(found, bytes), "the clock hand points at a packed group"
            if found.touched or group == spared:
                found.touched = False
                self._hand[group] = None
                continue
            self._groups[group] = found.pack()
            self._unpacked -= found.count
