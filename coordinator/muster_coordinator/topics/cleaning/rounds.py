"""One round of cleaning: first the keys of the dirty range, then what is left of every batch from the log's begin on.

Problem: a value may go only when a later one of its key is known to stay. Mechanism: `look` maps the last offset of
each key in the dirty range, until the map is full; `clean` then takes all batches of the segments below where the map
ends, in offset order, and gives what is to be written in their place. A tombstone goes only in a round whose map, or
an earlier one's, has covered it, so each value before it went with or before it: a round that ends half-way leaves a
log that means the same. What it does not do: read or write files, decide what may be cleaned (`plan`).
"""

from collections.abc import Iterable, Mapping

from muster_coordinator.records.batch import check
from muster_coordinator.topics.cleaning.batches import Gaps, Keeps, LastOfProducer, is_filler, left_of
from muster_coordinator.topics.cleaning.key_map import KeyMap
from muster_coordinator.topics.cleaning.records import area
from muster_coordinator.topics.cleaning.transactions import AbortedTransaction, Transactions, may_go


class Round:
    """See the module. Both walks raise MalformedError on a batch that is not sound."""

    def __init__(
        self,
        *,
        now_ms: int,
        delete_retention_ms: int,
        memory_bytes: int,
        first_dirty: int,
        aborted: Iterable[AbortedTransaction] = (),
        producers: Mapping[int, LastOfProducer],
    ) -> None:
        """`first_dirty`: the log is clean below. `aborted`: aborted transactions of the log; others, or all of them,
        come by `add_aborted`, so that not all of a long log must be in memory."""
        self._aborted = tuple(aborted)
        self._keeps = Keeps(KeyMap(memory_bytes), first_dirty, now_ms, delete_retention_ms, producers)
        self._walk = Transactions(self._aborted)
        self._cleaning = False
        self._gaps = Gaps()
        self._changed = False
        self._read_bytes = self._written_bytes = 0

    @property
    def keys(self) -> int:
        return len(self._keeps.keys)

    @property
    def mapped_to(self) -> int:
        """The offset up to which the log is clean once all segments below it are."""
        return self._keeps.mapped_to

    @property
    def unchanged(self) -> bool:
        """Of the segments since `begin_segments`, whose end was reached: is what is to be written what was read?"""
        return not self._changed and self._read_bytes == self._written_bytes

    def add_aborted(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Before `look`, and again after `begin_segments` before `clean`: the aborted transactions that the batches
        which follow may be part of, or end. One may be handed in again."""
        self._walk.add(aborted)

    # -- the keys ------------------------------------------------------------------------------------------------------

    def look(self, batch: bytes) -> bool:
        """The next batch of the dirty range, which begins with the one that holds `first_dirty`. False: the map has
        no room for its keys, and the range ends before it."""
        assert not self._cleaning
        header = check(batch)
        goes = may_go(self._walk, header, batch)
        if not goes and not header.is_control and header.count:
            found = area(batch, header)
            base = header.base_offset
            places = () if found is None else found.places
            if not self._keeps.keys.put((place[4], base + place[3]) for place in places if place[4] is not None):
                return False
        self._keeps = self._keeps._replace(mapped_to=header.next_offset)
        return True

    # -- what is left --------------------------------------------------------------------------------------------------

    def begin_segments(self) -> None:
        """The segments that follow, in offset order, become one."""
        if not self._cleaning:
            self._cleaning = True
            self._walk = Transactions(self._aborted)
        self._changed = False
        self._read_bytes = self._written_bytes = 0

    def clean(self, batch: bytes) -> list[bytes]:
        """The next batch of the segments: what is to be written now."""
        header = check(batch)
        self._read_bytes += len(batch)
        left: bytes | None = batch
        if header.base_offset < self._keeps.mapped_to:
            left = left_of(self._keeps, batch, header, may_go(self._walk, header, batch))
        if left is None:
            # The empty batch of an earlier round is written as it was, or joined with others, which shows in the bytes.
            self._changed = self._changed or not is_filler(header)
            return self._counted(self._gaps.goes(header))
        self._changed = self._changed or left != batch
        return self._counted(self._gaps.stays(left))

    def end_segments(self) -> list[bytes]:
        return self._counted(self._gaps.end())

    def _counted(self, written: list[bytes]) -> list[bytes]:
        self._written_bytes += sum(map(len, written))
        return written
