"""Carrying: the live tails of groups that keep the WAL's oldest file are written once more, into its newest one.

Problem: a file goes only when no group needs an entry of it. One group that writes little, or that cannot have a
checkpoint because nothing of it commits, would keep the oldest file for ever, and with it everything behind. Mechanism:
once the WAL is mostly used, each batch takes along a few such groups: all their entries above the checkpoint, in
ordinary ENTRY records. An ENTRY supersedes everything at and above its index, so a tail is carried whole and in one
batch: replay ends with the same entries whether it saw the copy or not, and a torn copy is a torn batch. The old places
count until the copy is durable.

Carrying must gain room, and writes before it frees. So for one file, at most half of its bytes are carried, smallest
tails first; who keeps it with a larger one needs a checkpoint. What a file's keepers cost is counted a few groups a
batch (a census), and anew when what was affordable is carried and the file is still there. A tail that no checkpoint
can free (`must`) is carried whatever it costs, unless such tails fill half of the WAL: then going round would be all
that it does. What cannot be read back is told once, and left where it is.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from muster_coordinator.ids import GroupNo
from muster_coordinator.storage.limits import (
    WAL_CARRY_BATCH_BYTES,
    WAL_CARRY_BYTES_MAX,
    WAL_CARRY_ENTRIES_MAX,
    WAL_CARRY_GAIN_SHARE,
    WAL_CARRY_LOOKS_MAX,
    WAL_CARRY_MUST_BYTES_MAX,
    WAL_CARRY_SHARE,
    WAL_FILES_MIN,
)
from muster_coordinator.storage.wal_format import RECORD_HEADER_BYTES
from muster_coordinator.storage.wal_index import UNPLACED, GroupLog

_MUST_SHARE = 2
"""Tails that no checkpoint can shorten are carried as long as all of them are no more than half of the WAL."""
_FIRST_FEW = 16
_NEGLIGIBLE_SHARE = 16
"""A tail below this share of what is carried at all is not worth a checkpoint."""


class Tail(NamedTuple):
    """Entries [first, stop) of a group, all of them placed."""

    log: GroupLog
    first: int
    stop: int
    size: int
    """Bytes in the batch, at least."""


class Carrier:
    """Chooses what the next batch takes along. Looks at few groups a batch, however many there are."""

    def __init__(self, file_bytes: int, bytes_max: int) -> None:
        self._small_bytes = min(WAL_CARRY_BYTES_MAX, file_bytes // WAL_CARRY_SHARE)
        self._must_bytes = min(WAL_CARRY_MUST_BYTES_MAX, bytes_max // WAL_FILES_MIN)
        self._musts_bytes_max = bytes_max // _MUST_SHARE
        self._must: set[GroupNo] = set()
        self._unreadable: set[GroupNo] = set()
        self._sequence = 0
        self.spent_bytes = 0
        """Carried for the sake of the file `_sequence`, but for what must be."""
        self._census = _Census(())
        self._affordable: deque[GroupNo] = deque()
        self.carried_bytes = 0
        """Since the start."""

    def must(self, group: GroupNo) -> None:
        """No checkpoint can free what this group keeps."""
        self._must.add(group)

    def forget(self, group: GroupNo) -> None:
        """The group was deleted, or a checkpoint of it counts."""
        self._must.discard(group)
        self._unreadable.discard(group)

    def unreadable(self, group: GroupNo) -> bool:
        """An entry of the group's tail does not read back: it is not chosen again. True for the first time."""
        first = group not in self._unreadable
        self._unreadable.add(group)
        return first

    def negligible(
        self, keepers: Mapping[GroupLog, int], oldest: int, bytes_of: Callable[[int], int], room_bytes: int
    ) -> set[GroupNo]:
        """Of the groups that keep a file (its number is the value): those of which so little is live that it is
        carried, and never checkpointed for the WAL's sake. As many a file as `choose` would take: whom both pass over
        keeps the file for ever."""
        small = sorted(
            (sequence, size, log.group)
            for log, sequence in keepers.items()
            if (size := self._negligible_bytes(log)) is not None
        )
        found: set[GroupNo] = set()
        present, left = 0, 0
        for sequence, size, group in small:
            if sequence != present:
                present, left = sequence, bytes_of(sequence) // WAL_CARRY_GAIN_SHARE
                if sequence == self._sequence:
                    left -= self.spent_bytes
                if sequence == oldest:
                    left = min(left, room_bytes)
            left -= size
            if left >= 0:
                found.add(group)
        return found

    def _negligible_bytes(self, log: GroupLog) -> int | None:
        """Live bytes of the group; None when they are not so few. Mostly the first entries tell."""
        first, stop = log.live_from, log.last + 1
        if stop - first > WAL_CARRY_ENTRIES_MAX or log.group in self._unreadable:
            return None
        size = 0
        for end in (min(first + _FIRST_FEW, stop), stop):
            size = _size(log, first, end)
            if size * _NEGLIGIBLE_SHARE > self._small_bytes:
                return None
        return size

    def choose(self, logs: Mapping[GroupNo, GroupLog], oldest: int, *, gain_bytes: int, room_bytes: int) -> list[Tail]:
        """Tails that keep the file `oldest`, whose end frees `gain_bytes`: up to a batch's share, or one larger. What
        need not be is carried within `room_bytes` only."""
        if self._sequence != oldest:
            self._sequence, self.spent_bytes = oldest, 0
            self._affordable.clear()
            self._census = _Census(logs.values())
        left_bytes = min(gain_bytes // WAL_CARRY_GAIN_SHARE - self.spent_bytes, room_bytes)
        if not self._affordable:
            self._count(logs, left_bytes)
        tails: list[Tail] = []
        size = entries = 0
        while self._affordable:
            tail = self._tail(logs.get(self._affordable[0]))
            if tail is not None:
                size += tail.size
                entries += tail.stop - tail.first
                if tails and (size > WAL_CARRY_BATCH_BYTES or entries > WAL_CARRY_ENTRIES_MAX):
                    break
                if tail.log.group not in self._must:
                    if tail.size > left_bytes:
                        self._affordable.clear()  # the others are no smaller
                        break
                    left_bytes -= tail.size
                tails.append(tail)
            self._affordable.popleft()
        return tails

    def carried(self, tail: Tail) -> None:
        """The batch takes it along."""
        self.carried_bytes += tail.size
        if tail.log.group not in self._must:
            self.spent_bytes += tail.size

    def _count(self, logs: Mapping[GroupNo, GroupLog], left_bytes: int) -> None:
        """Go on with the census; when it is complete: who can be carried, smallest first behind those that must."""
        census = self._census
        for _ in range(min(len(census.queue), WAL_CARRY_LOOKS_MAX)):
            log = census.queue.popleft()
            if logs.get(log.group) is not log:
                continue
            must = log.group in self._must
            if must:
                census.musts_bytes += _size(log, log.live_from, log.last + 1)
            tail = self._tail(log)
            if tail is not None:
                (census.musts if must else census.small).append((tail.size, log.group))
        if census.queue:
            return
        if census.musts_bytes <= self._musts_bytes_max:
            self._affordable.extend(group for _size, group in sorted(census.musts))
        for size, group in sorted(census.small):
            left_bytes -= size
            if left_bytes < 0:
                break
            self._affordable.append(group)
        self._census = _Census(logs.values())

    def _tail(self, log: GroupLog | None) -> Tail | None:
        """What is to be carried of a group, if it keeps the oldest file; None also when it is too much."""
        if log is None or log.group in self._unreadable or not keeps(log, self._sequence):
            return None
        first, stop = log.live_from, log.placed_stop()
        must = log.group in self._must
        if stop - first > WAL_CARRY_ENTRIES_MAX and not must:
            return None
        size = _size(log, first, stop)
        return Tail(log, first, stop, size) if size <= (self._must_bytes if must else self._small_bytes) else None


class _Census:
    """One pass over all groups."""

    def __init__(self, logs: Iterable[GroupLog]) -> None:
        self.queue = deque(logs)
        """Not looked at yet."""
        self.small: list[tuple[int, GroupNo]] = []
        """Bytes and number of who keeps the file and can be carried; `musts`: and must be."""
        self.musts: list[tuple[int, GroupNo]] = []
        self.musts_bytes = 0
        """Of all that must be carried some time, whichever file it keeps."""


def keeps(log: GroupLog, sequence: int) -> bool:
    """Does the group need an entry of the file?"""
    index = log.live_from
    if index > log.last:
        return False
    place = log.place_at(index)
    return place != UNPLACED and place >> 32 == sequence


def _size(log: GroupLog, first: int, stop: int) -> int:
    at = first - log.first
    return sum(log.lengths[at : at + stop - first]) + (RECORD_HEADER_BYTES + 8) * (stop - first)
