"""Deleting the WAL's oldest file: ask every group whether it needs an entry of it, then shorten every group's log.

Problem: with ten thousand groups, asking and shortening all of them at once takes tens of milliseconds of one turn.
Mechanism: a few groups a batch. First all groups are asked, in order; a group that needs the file stops the walk, and
is asked again in the next batch. Then all are shortened. A group that does not need the file will not need it later
(its entries there are below its checkpoint, new ones go to newer files), unless its checkpoint turns out to be damaged:
so each group is asked again before it is shortened. Readers lose a group's entries when it is shortened; the file is
deleted once the last group was.
"""

from collections import deque
from collections.abc import Mapping

from muster_coordinator.ids import GroupNo
from muster_coordinator.storage.wal_index import GroupLog


class Leaving:
    """The walk for the oldest file. `looks_max`: groups that are asked or shortened in one batch."""

    def __init__(self, looks_max: int) -> None:
        self._looks_max = looks_max
        self._sequence = 0
        self._asked = False
        """All groups were asked: now they are shortened."""
        self._queue: deque[GroupLog] = deque()
        self.shortened: list[GroupNo] = []
        """Shortened groups that `Wal.take_shortened` has not reported yet."""

    def step(self, logs: Mapping[GroupNo, GroupLog], sequence: int, *, held: bool) -> tuple[bool, bool]:
        """Look at further groups. Returns (all groups are shortened, so the file `sequence` can be deleted; there are
        more groups to look at now). `held`: keep the file for now, even if no group needs it."""
        if self._sequence != sequence:
            self._begin(logs, sequence)
        for _ in range(self._looks_max):
            if not self._queue and not self._turn(logs, held=held):
                return self._asked, False
            log = self._queue[0]
            if logs.get(log.group) is log:
                if needs(log, sequence):
                    if self._asked:
                        self._begin(logs, sequence)
                    return False, False
                if self._asked and log.drop_through_file(sequence):
                    self.shortened.append(log.group)
            self._queue.popleft()
        if self._queue:
            return False, True
        return self._asked, not self._asked

    def _begin(self, logs: Mapping[GroupNo, GroupLog], sequence: int) -> None:
        self._sequence, self._asked = sequence, False
        self._queue = deque(logs.values())

    def _turn(self, logs: Mapping[GroupNo, GroupLog], *, held: bool) -> bool:
        """All groups were asked: begin to shorten them. False: all are shortened already, or the file is held."""
        if self._asked or held:
            return False
        self._asked = True
        self._queue = deque(logs.values())
        return bool(self._queue)


def needs(log: GroupLog, sequence: int) -> bool:
    """Does an entry above the group's checkpoint lie in the file or an older one? No entry may be UNPLACED."""
    through = log.first - 1 + log.entries_through_file(sequence)
    return through >= log.first and through > log.written.checkpoint[0]
