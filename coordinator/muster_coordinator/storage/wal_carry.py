"""Carrying: the live tails of groups that keep the WAL's oldest file are written again, into its newest file.

Problem: a file is deleted only when no group needs an entry of it. One group that writes little, or that cannot be
checkpointed because nothing of it commits, would keep the oldest file, and every file after it, for ever. Mechanism:
once three quarters of the WAL are used, each batch carries the tails of a few such groups: all their entries above the
checkpoint, as ordinary ENTRY records. An ENTRY supersedes everything at and above its index, so a tail is carried whole
and in one batch: replay ends with the same entries whether it saw the copy or not, and a torn copy is a torn batch.
Entries are read from their old places until the copy is durable.

Carrying writes before it frees, and must free more than it writes. So for one file at most half of its bytes are
carried, smallest tails first; a group that keeps the file with a larger tail needs a checkpoint. The size of those
tails is measured a few groups a batch (a census), and again when the affordable tails were carried and the file is
still there. A tail that no checkpoint can free (`must`) is carried at any cost, unless such tails fill half of the WAL:
then the WAL would do nothing else. A tail that cannot be read back is reported once and stays where it is.
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
"""Tails that no checkpoint can shorten are carried while together they are at most this share (half) of the WAL."""
_FIRST_FEW = 16
_NEGLIGIBLE_SHARE = 16
"""A tail of at most this share of the largest tail that is carried is not worth a checkpoint."""


class Tail(NamedTuple):
    """Entries [first, stop) of a group; none is UNPLACED."""

    log: GroupLog
    first: int
    stop: int
    size: int
    """Lower bound of its bytes in the batch."""


class Carrier:
    """Chooses the tails that the next batch carries. Looks at WAL_CARRY_LOOKS_MAX groups a batch at most."""

    def __init__(self, file_bytes: int, bytes_max: int) -> None:
        self._small_bytes = min(WAL_CARRY_BYTES_MAX, file_bytes // WAL_CARRY_SHARE)
        self._must_bytes = min(WAL_CARRY_MUST_BYTES_MAX, bytes_max // WAL_FILES_MIN)
        self._musts_bytes_max = bytes_max // _MUST_SHARE
        self._must: set[GroupNo] = set()
        self._unreadable: set[GroupNo] = set()
        self._sequence = 0
        self.spent_bytes = 0
        """Carried so that the file `_sequence` can be deleted; `must` tails are not counted."""
        self._census = _Census(())
        self._affordable: deque[GroupNo] = deque()
        self.carried_bytes = 0
        """Since the start."""

    def must(self, group: GroupNo) -> None:
        """No checkpoint can free what this group keeps."""
        self._must.add(group)

    def forget(self, group: GroupNo) -> None:
        """The group was deleted, or a new checkpoint of it was staged."""
        self._must.discard(group)
        self._unreadable.discard(group)

    def unreadable(self, group: GroupNo) -> bool:
        """An entry of the group's tail cannot be read back: do not choose it again. True at the first call."""
        first = group not in self._unreadable
        self._unreadable.add(group)
        return first

    def negligible(
        self, keepers: Mapping[GroupLog, int], oldest: int, bytes_of: Callable[[int], int], room_bytes: int
    ) -> set[GroupNo]:
        """Of `keepers` (group -> number of the file it keeps): groups whose tail is so small that it is carried, and
        the group is not checkpointed for the WAL's sake. Per file only as many as `choose` affords: a group that is
        neither carried nor checkpointed would keep the file for ever."""
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
        """Live bytes of the group; None when they are not negligible. The first few entries decide it mostly."""
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
        """Tails that keep the file `oldest`, whose deletion frees `gain_bytes`: up to WAL_CARRY_BATCH_BYTES, or one
        larger tail. Tails that are not a `must` are carried only within `room_bytes`."""
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
                        self._affordable.clear()  # They are sorted by size: the others are no smaller.
                        break
                    left_bytes -= tail.size
                tails.append(tail)
            self._affordable.popleft()
        return tails

    def carried(self, tail: Tail) -> None:
        """The batch carries `tail`."""
        self.carried_bytes += tail.size
        if tail.log.group not in self._must:
            self.spent_bytes += tail.size

    def _count(self, logs: Mapping[GroupNo, GroupLog], left_bytes: int) -> None:
        """Continue the census; when it is complete, queue the groups to carry: `must` first, then smallest first."""
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
        """The group's tail if the group keeps the oldest file; None when it does not, or when the tail is too large."""
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
        """Groups not looked at yet."""
        self.small: list[tuple[int, GroupNo]] = []
        """(bytes, group) of tails that keep the file and can be carried."""
        self.musts: list[tuple[int, GroupNo]] = []
        """The same for `must` groups."""
        self.musts_bytes = 0
        """Live bytes of all `must` groups, whichever file they keep."""


def keeps(log: GroupLog, sequence: int) -> bool:
    """Does the group's oldest live entry lie in the file?"""
    index = log.live_from
    if index > log.last:
        return False
    place = log.place_at(index)
    return place != UNPLACED and place >> 32 == sequence


def _size(log: GroupLog, first: int, stop: int) -> int:
    at = first - log.first
    return sum(log.lengths[at : at + stop - first]) + (RECORD_HEADER_BYTES + 8) * (stop - first)
