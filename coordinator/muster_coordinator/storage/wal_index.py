"""What the WAL keeps in memory of one group: position, term and length of each entry, and the newest entries.

Problem: a million entries must be found by index without a million objects. Mechanism: three arrays (16 bytes an
entry) and a dictionary of the newest entries, whose bytes over all groups `EntryCache` bounds. Superseded entries are
cut at the arrays' ends; deletion of old files cuts their fronts.
"""

from array import array
from bisect import bisect_left
from collections import deque

from muster_coordinator.errors import Corruption
from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.members import Placed, decode_config
from muster_coordinator.raft.messages import NOBODY, Entry, HardState
from muster_coordinator.storage.contract import NO_RECOVERY_POINT, RecoveryPoint
from muster_coordinator.storage.limits import WAL_READ_GAP_BYTES
from muster_coordinator.storage.wal_format import RECORD_HEADER_BYTES

NO_CHECKPOINT = (0, 0)
NO_HARD_STATE = HardState(0, NOBODY, 0)
NO_CONFIG = (0, b"")
UNPLACED = 0
"""Place of an entry that is staged and in no job yet."""
_ENTRY_OVERHEAD_BYTES = 192
"""Of an entry in memory besides its data: tuple, index, header of the bytes, place in the dict."""
_RANGE_OVERHEAD_BYTES = 128
"""Of what says that entries are durable: a group that gets one entry a batch has as many of these as entries."""


def place_of(sequence: int, position: int) -> int:
    """File number and position as one number; places ascend with the order of writing."""
    return sequence << 32 | position


class GroupState:
    """A group's state as every file repeats it (`wal_opening`)."""

    __slots__ = ("checkpoint", "config", "hard_state", "recovery_point")

    def __init__(self) -> None:
        self.hard_state = NO_HARD_STATE
        self.recovery_point: RecoveryPoint = NO_RECOVERY_POINT
        self.checkpoint = NO_CHECKPOINT
        self.config = NO_CONFIG
        """Index and data of the configuration at `checkpoint` (`raft.members`). Invariant: whoever writes a CHECKPOINT
        writes this beside it in the same batch, so no damage parts the two."""


class GroupLog:
    """One group's entries [first, last]; `compacted_term` is the term of first - 1.

    Invariant: `terms`, `places` and `lengths` have one item per entry; `places` ascends, UNPLACED items are at its end.
    """

    __slots__ = (
        "cached",
        "compacted_term",
        "confs",
        "first",
        "group",
        "lengths",
        "places",
        "skips",
        "terms",
        "written",
    )  # fmt: skip

    def __init__(self, group: GroupNo) -> None:
        self.group = group
        self.first = 1
        self.compacted_term = 0
        self.terms = array("I")
        self.places = array("Q")
        self.lengths = array("I")
        """Payload bytes."""
        self.skips: set[int] = set()
        """Indexes at which the start found a SKIP, superseded or not."""
        self.confs: dict[tuple[int, int], bytes] = {}
        """(index, term) -> data of each CONF that the start found, superseded or not."""
        self.cached: dict[int, Entry] = {}
        self.written = GroupState()
        """As of the last job taken: the next file repeats it."""

    @property
    def last(self) -> int:
        return self.first + len(self.terms) - 1

    @property
    def live_from(self) -> int:
        """Index of the first entry above the checkpoint; `last` + 1 when there is none."""
        return max(self.written.checkpoint[0] + 1, self.first)

    def configs(self) -> tuple[Placed, ...]:
        """As `RecoveredGroup.configs`; right only until entries are written after the start. Raises Corruption if one
        cannot be read."""
        # A term has one leader, who writes an index once: of the CONF entries met, these pairs tell those still here.
        found = {
            index: data
            for (index, term), data in self.confs.items()
            if index >= self.first and self.term_at(index) == term
        }
        index, data = self.written.config
        if data:
            found[index] = data
        try:
            return tuple(Placed(index, decode_config(found[index])) for index in sorted(found))
        except Corruption as error:
            raise Corruption(f"group {self.group}: {error}") from error

    def placed_stop(self) -> int:
        """1 + the index of the last entry that is in a job or on disk; `first` when there is none."""
        stop = self.last + 1
        while stop > self.first and self.places[stop - 1 - self.first] == UNPLACED:
            stop -= 1
        return stop

    def move(self, first: int, old: "array[int]", new: "array[int]") -> None:
        """Give entries from `first` on their new places; entries superseded meanwhile no longer have the old one."""
        for at, (before, after) in enumerate(zip(old, new, strict=True), first - self.first):
            if 0 <= at < len(self.places) and self.places[at] == before:
                self.places[at] = after

    def term_at(self, index: int) -> int | None:
        at = index - self.first
        if at == -1:
            return self.compacted_term
        return self.terms[at] if 0 <= at < len(self.terms) else None

    def place_at(self, index: int) -> int:
        return self.places[index - self.first]

    def near(self, index: int, stop: int, max_bytes: int) -> list[int]:
        """Positions of the entry at `index`, which is on disk, and of those behind it, below `stop`, that one read of
        the file should take along: none of them is in memory, each begins at most `WAL_READ_GAP_BYTES` behind the one
        before, and the last one ends within `max_bytes`."""
        at = index - self.first
        sequence, begin = self.places[at] >> 32, self.places[at] & 0xFFFFFFFF
        end = begin + RECORD_HEADER_BYTES + self.lengths[at]
        positions = [begin]
        for following in range(index + 1, stop):
            at += 1
            place, size = self.places[at], RECORD_HEADER_BYTES + self.lengths[at]
            position = place & 0xFFFFFFFF
            if place >> 32 != sequence or following in self.cached:
                break
            if position - end > WAL_READ_GAP_BYTES or position + size - begin > max_bytes:
                break
            positions.append(position)
            end = position + size
        return positions

    def append(self, term: int, place: int, length: int) -> None:
        self.terms.append(term)
        self.places.append(place)
        self.lengths.append(length)

    def cut_from(self, index: int) -> None:
        """Forget the entries at and above `index`."""
        at = max(index - self.first, 0)
        del self.terms[at:], self.places[at:], self.lengths[at:]

    def reset(self, index: int, term: int) -> None:
        """Forget all entries: the log begins anew after a checkpoint at (index, term)."""
        self.cut_from(self.first)
        self.first = index + 1
        self.compacted_term = term

    def copy(self) -> "GroupLog":
        """A copy of the entries, without `written`."""
        copy = GroupLog(self.group)
        copy.first, copy.compacted_term = self.first, self.compacted_term
        copy.terms, copy.places, copy.lengths = self.terms[:], self.places[:], self.lengths[:]
        return copy

    def take(self, other: "GroupLog") -> None:
        """Take over the entries of `other`, which must not be used any more."""
        self.first, self.compacted_term = other.first, other.compacted_term
        self.terms, self.places, self.lengths = other.terms, other.places, other.lengths

    def drop_through_file(self, sequence: int) -> bool:
        """Forget the entries in files up to `sequence`; False if there are none."""
        dropped = self.entries_through_file(sequence)
        if dropped:
            self.compacted_term = self.terms[dropped - 1]
            self.first += dropped
            del self.terms[:dropped], self.places[:dropped], self.lengths[:dropped]
        return dropped > 0

    def entries_through_file(self, sequence: int) -> int:
        """Number of oldest entries in files up to `sequence`. No entry may be UNPLACED."""
        return bisect_left(self.places, place_of(sequence + 1, 0))


class EntryCache:
    """Bounds the memory of entries that all groups keep. Only durable entries are evicted."""

    __slots__ = ("_bytes_max", "_durable", "bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._durable: deque[tuple[GroupLog, int, int]] = deque()
        self.bytes = 0

    def put(self, log: GroupLog, entry: Entry) -> None:
        log.cached[entry.index] = entry
        self.bytes += len(entry.data) + _ENTRY_OVERHEAD_BYTES

    def forget_from(self, log: GroupLog, index: int) -> None:
        """Entries at and above `index` were cut."""
        for gone in range(index, log.last + 1):
            self._forget(log, gone)

    def forget_group(self, log: GroupLog) -> None:
        for index in tuple(log.cached):
            self._forget(log, index)

    def durable(self, log: GroupLog, low: int, high: int) -> None:
        """Entries [low, high) are on disk now. Evict the oldest durable ones while the bound is exceeded."""
        self._durable.append((log, low, high))
        self.bytes += _RANGE_OVERHEAD_BYTES
        while self.bytes > self._bytes_max and self._durable:
            oldest, first, stop = self._durable.popleft()
            self.bytes -= _RANGE_OVERHEAD_BYTES
            for index in range(first, stop):
                at = index - oldest.first
                if 0 <= at < len(oldest.places) and oldest.places[at] == UNPLACED:
                    continue  # superseded by a staged entry at the same index, which is not durable yet
                self._forget(oldest, index)

    def _forget(self, log: GroupLog, index: int) -> None:
        entry = log.cached.pop(index, None)
        if entry is not None:
            self.bytes -= len(entry.data) + _ENTRY_OVERHEAD_BYTES
