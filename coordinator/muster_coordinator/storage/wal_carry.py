"""Carrying: the live tails of groups that keep the WAL's oldest file are written once more, into its newest one.

Problem: a file goes only when no group needs an entry of it. One group that writes little, or that cannot have a
checkpoint because nothing of it commits, would keep the oldest file for ever, and with it everything behind. Mechanism:
once the WAL is mostly used, each batch takes along a few such groups: all their entries above the checkpoint, in
ordinary ENTRY records. An ENTRY supersedes everything at and above its index, so a tail is carried whole and in one
batch: replay ends with the same entries whether it saw the copy or not, and a torn copy is a torn batch. The old places
count until the copy is durable. What it deliberately does not do: it takes no large tail, which a checkpoint frees for
less, unless it is told that no checkpoint can (`must`).
"""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import (
    WAL_CARRY_BATCH_BYTES,
    WAL_CARRY_BYTES_MAX,
    WAL_CARRY_ENTRIES_MAX,
    WAL_CARRY_LOOKS_MAX,
    WAL_CARRY_SHARE,
)
from muster_coordinator.storage.wal_format import RECORD_HEADER_BYTES
from muster_coordinator.storage.wal_index import UNPLACED, GroupLog

_MUST_SHARE = 2
"""A tail that no checkpoint can shorten is carried up to half a file."""
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

    def __init__(self, file_bytes: int) -> None:
        self._small_bytes = min(WAL_CARRY_BYTES_MAX, file_bytes // WAL_CARRY_SHARE)
        self._must_bytes = file_bytes // _MUST_SHARE
        self._sequence = 0
        self._queue: deque[GroupLog] = deque()
        self._must: set[GroupNo] = set()
        self.carried_bytes = 0
        """Since the start."""

    def must(self, group: GroupNo) -> None:
        """No checkpoint can free what this group keeps."""
        self._must.add(group)

    def forget(self, group: GroupNo) -> None:
        """The group was deleted, or a checkpoint of it counts."""
        self._must.discard(group)

    def negligible(self, log: GroupLog) -> bool:
        """Is so little of the group live that it is carried, and never checkpointed for the WAL's sake?"""
        return log.last - log.live_from < WAL_CARRY_ENTRIES_MAX and (
            _size(log, log.live_from, log.last + 1) * _NEGLIGIBLE_SHARE <= self._small_bytes
        )

    def choose(self, logs: Mapping[GroupNo, GroupLog], oldest: int) -> list[Tail]:
        """Tails that keep the file `oldest`; at least one if any is small enough, then up to a batch's share."""
        if self._sequence != oldest:
            self._sequence = oldest
            self._queue = deque(log for log in logs.values() if keeps(log, oldest))
        tails: list[Tail] = []
        size = entries = 0
        for _ in range(min(len(self._queue), WAL_CARRY_LOOKS_MAX)):
            log = self._queue.popleft()
            if logs.get(log.group) is not log or not keeps(log, oldest):
                continue
            self._queue.append(log)
            tail = self._tail(log)
            if tail is None:
                continue
            size += tail.size
            entries += tail.stop - tail.first
            if tails and (size > WAL_CARRY_BATCH_BYTES or entries > WAL_CARRY_ENTRIES_MAX):
                break
            tails.append(tail)
        return tails

    def _tail(self, log: GroupLog) -> Tail | None:
        """What is to be carried of a group; None when it is too much."""
        first, stop = log.live_from, log.placed_stop()
        must = log.group in self._must
        if stop - first > WAL_CARRY_ENTRIES_MAX and not must:
            return None
        size = _size(log, first, stop)
        return Tail(log, first, stop, size) if size <= (self._must_bytes if must else self._small_bytes) else None


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
