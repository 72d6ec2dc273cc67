"""All committed offsets of a shard, by group; most of them packed (decision 20).

A group is unpacked when touched. Once more than a bounded number of offsets are unpacked, a clock hand packs groups
that were not touched since it last came by: one or two steps an applied record, so no turn pays for many. What is
packed and what not depends on who read what; the packed bytes do not.

A checkpoint's snapshot is a copy of the outer dict in one turn. Tables in it are frozen by counting `epoch` up; the
first change of each afterwards copies that one table.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from muster_coordinator.groups import limits
from muster_coordinator.groups.state.offset_table import OffsetTable, Row, packed_count, packed_oldest_ms, unpack

PackedOrTable = bytes | OffsetTable


class OffsetsStore:
    """Durable state; changed only by replay."""

    __slots__ = ("_epoch", "_groups", "_hand", "_unpacked")

    def __init__(self) -> None:
        self._groups: dict[str, PackedOrTable] = {}
        self._hand: OrderedDict[str, None] = OrderedDict()
        """Unpacked groups in the order in which the clock hand visits them."""
        self._unpacked = 0
        """Offsets in unpacked tables."""
        self._epoch = 0

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
        """For reading: a frozen table is returned as it is."""
        found = self._groups.get(group)
        if found is None:
            return None
        if isinstance(found, bytes):
            found = self._unpack(group, found)
        found.touched = True
        return found

    def peek(self, group: str) -> OffsetTable | None:
        """A one-off read: a packed table is unpacked for the caller and not cached."""
        found = self._groups.get(group)
        return unpack(found, self._epoch) if isinstance(found, bytes) else found

    def size(self, group: str) -> int:
        """Number of offsets, without unpacking."""
        found = self._groups.get(group)
        if found is None:
            return 0
        return packed_count(found) if isinstance(found, bytes) else found.count

    def oldest_ms(self, group: str) -> tuple[int, bool]:
        """Lower bound of the commit timestamps, and whether expire timestamps may occur; without unpacking."""
        found = self._groups[group]
        return packed_oldest_ms(found) if isinstance(found, bytes) else (found.oldest_ms, found.expires)

    def mentions(self, group: str, topic_id: bytes) -> bool:
        """May some row carry this id? False is certain; never unpacks."""
        found = self._groups.get(group)
        if found is None:
            return False
        if isinstance(found, bytes):
            return topic_id in found
        return any(topic_id in row for _, _, row in found.rows())

    def put(self, group: str, topic: str, partition: int, row: bytes) -> None:
        self.put_all(group, ((topic, partition, row),))

    def put_all(self, group: str, rows: Sequence[Row]) -> None:
        """Of one group, in order; harmless when there is none."""
        if not rows:
            return
        self._unpacked += self._writable(group).put_all(rows)
        for _ in rows:
            if self._unpacked <= limits.UNPACKED_OFFSETS_MAX:
                break
            self._turn_hand(group)

    def remove(self, group: str, topic: str, partition: int) -> None:
        """Harmless when absent."""
        if group not in self._groups:
            return
        table = self._writable(group)
        self._unpacked -= table.remove(topic, partition)
        if not table.count:
            del self._groups[group]
            self._hand.pop(group, None)

    def snapshot(self) -> dict[str, PackedOrTable]:
        """An immutable copy: every table in it is frozen from now on."""
        self._epoch += 1
        return self._groups.copy()

    def restore(self, group: str, packed: bytes) -> None:
        """From a checkpoint; the group must be new."""
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
        """Two steps: pack what was not touched since the last visit, except the group being written."""
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
