"""How the WAL's oldest file goes: every group is asked whether it needs an entry of it, and then lets go of its own.

Problem: with ten thousand groups, asking all and shortening all takes a turn of the loop tens of milliseconds.
Mechanism: a few groups a batch. First all are asked, in order; the first that needs the file holds up the others, and
is asked again. Then all let go. Who did not need the file does not need it later (entries below a checkpoint only leave
it, new ones lie elsewhere), but for one whose checkpoint turns out to be damaged: so each is asked once more when it
lets go. Entries that are let go of are gone for readers at once, while the file stays until the last group has let go.
"""

from collections import deque
from collections.abc import Mapping

from muster_coordinator.ids import GroupNo
from muster_coordinator.storage.wal_index import GroupLog


class Leaving:
    """Of the oldest file. `looks_max`: groups that are asked, or let go, in one batch."""

    def __init__(self, looks_max: int) -> None:
        self._looks_max = looks_max
        self._sequence = 0
        self._asked = False
        """All were, and now they let go."""
        self._queue: deque[GroupLog] = deque()
        self.shortened: list[GroupNo] = []
        """Who has let go and has not been told of yet."""

    def step(self, logs: Mapping[GroupNo, GroupLog], sequence: int, *, held: bool) -> tuple[bool, bool]:
        """Look at some more groups. (Has everybody let go of the file `sequence`?, is it worth going on without any
        change?) `held`: it is to stay for now, whoever needs it."""
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
        """All were asked: they begin to let go. False: all have, or it is to stay."""
        if self._asked or held:
            return False
        self._asked = True
        self._queue = deque(logs.values())
        return bool(self._queue)


def needs(log: GroupLog, sequence: int) -> bool:
    """Does the group need an entry of the file, or of one before it? No entry may be UNPLACED."""
    through = log.first - 1 + log.entries_through_file(sequence)
    return through >= log.first and through > log.written.checkpoint[0]
