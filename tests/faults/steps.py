"""Kills whoever carries out a step of a move, at the moment when it says in its log that it begins it.

A move of a partition goes through six hands: the controller's leader wants it, the leader of the group takes the new
member in as a learner, sends it a copy, has the voters changed (jointly), tells the controller that it is done, and who
is let go frees its disk. Each says so in an event, and the logs of all processes are read as they grow. So a kill comes
some milliseconds after the line: within the step or right behind it.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

POLL_S = 0.002
OVER_EVERY_S = 0.5


class Step(NamedTuple):
    """A step of a move: its name for people, and the event of whoever carries it out."""

    name: str
    event: str
    reason: str = ""
    """How the event's reason begins; empty: any."""

    def is_in(self, line: bytes) -> int | None:
        """The broker that says in this line that it is at this step of a partition's move; None: nobody does."""
        if self.event.encode() not in line:
            return None
        try:
            told = json.loads(line)
        except ValueError:
            return None  # of another process' output
        if told.get("message") != self.event or not str(told.get("reason", "")).startswith(self.reason):
            return None
        # The controller's own group changes as well, when a broker joins: that is no move of a partition.
        about = told.get("moved_partition") if self.event == WANTED.event else told.get("raft_group")
        return None if about is None or (self.event != WANTED.event and about == 0) else int(told["broker"])


WANTED = Step("the controller's leader wants it", "balancer moves")
LEARNS = Step("a new member learns the log", "members change", "new members learn")
COPIES = Step("a copy is sent", "snapshot offered")
CHANGES = Step("the voters change jointly", "members change", "all new members are level")
COMPLETE = Step("the leader says that it is complete", "move complete")
REMOVED = Step("who was let go frees its disk", "replica removed")


class Logs:
    """What the processes of a cluster write from now on: founders into their folders, others into the cluster's."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._at = {path: path.stat().st_size for path in paths}
        self._rest = dict.fromkeys(self._at, b"")

    def lines(self) -> Iterator[bytes]:
        """Whole lines that came since the last call."""
        for path, at in self._at.items():
            if path.stat().st_size == at:
                continue
            with path.open("rb") as file:
                file.seek(at)
                data = file.read()
            self._at[path] += len(data)
            *whole, self._rest[path] = (self._rest[path] + data).split(b"\n")
            yield from whole

    def await_step(self, step: Step, seconds: float, over: Callable[[], bool]) -> int | None:
        """The broker that comes to this step next, since these logs are read. None if nobody did within the time, or
        before `over`."""
        deadline = time.monotonic() + seconds
        looked = time.monotonic()
        while time.monotonic() < deadline:
            for line in self.lines():
                broker = step.is_in(line)
                if broker is not None:
                    return broker
            if time.monotonic() > looked + OVER_EVERY_S:
                looked = time.monotonic()
                if over():
                    return None
            time.sleep(POLL_S)
        return None


ALL: Sequence[Step] = (WANTED, LEARNS, COPIES, CHANGES, COMPLETE, REMOVED)
