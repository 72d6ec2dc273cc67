"""Where the demo's flights are: what is done to that place in a run, what its offsets mean, what it says at the end.

Problem: the same run is shown over logs of Muster's own and over Redis, which may die too, and whose offsets count no
records. Mechanism: the demo (`run`) knows clients and the coordinator, and asks a `Store` for the rest: `EmbeddedLogs`
here, streams in `redis_store`. What this does not do: start or end anything.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from muster_coordinator.cli.demo.clients import FinalOffsets
from muster_coordinator.cli.demo.flights import FLIGHTS

Progress = tuple[int, int | None]
"""Of one partition: its log end offset, and the committed one (None: no commit)."""


class Finding(NamedTuple):
    """One condition of the verdict."""

    holds: bool
    sentence: str


class Moment(NamedTuple):
    """How far the run has come."""

    elapsed_s: float
    seen: int
    acknowledged: int
    moved: bool
    """The coordinator was killed, and the group has found another one."""


class Meaning(Protocol):
    """What the offsets of some partitions say to a reader of the table."""

    def committed(self, offsets: Sequence[int]) -> int | str:
        """Of committed offsets, at least one."""

    def lag(self, partitions: Iterable[Progress]) -> int | str | None:
        """Of the partitions of one member; None: unknown."""


class Store(Meaning, Protocol):
    """See the module."""

    deadline_s: float
    """Counted from the first line: when the run has failed."""

    @property
    def loaded_max(self) -> int:
        """How many flights may be loaded by now."""

    @property
    def done(self) -> bool:
        """Whether everything was done to it that belongs to the run."""

    def act(self, moment: Moment) -> None:
        """Called some times a second. Raises CliError when the store is broken."""

    def end(self) -> None:
        """Called once when all clients have ended, before `findings` and `closing`."""

    def findings(self, offsets: FinalOffsets) -> list[Finding]:
        """Its part of the verdict."""

    def closing(self) -> list[str]:
        """Lines to be printed above the verdict."""


class EmbeddedLogs:
    """Logs of Muster's own: offsets count records, and the first is 0. A whole run takes less than 90 s."""

    deadline_s = 80.0
    loaded_max = FLIGHTS
    done = True

    def act(self, moment: Moment) -> None:
        pass

    def end(self) -> None:
        pass

    def closing(self) -> list[str]:
        return []

    def findings(self, offsets: FinalOffsets) -> list[Finding]:
        loaded = sum(offsets.ends.values())
        return [Finding(loaded == FLIGHTS, f"the logs hold {loaded:,} records: every flight once")]

    def committed(self, offsets: Sequence[int]) -> int:
        return sum(offsets)

    def lag(self, partitions: Iterable[Progress]) -> int:
        """A reader's log end is as of its last fetch; a higher commit proves that the log is longer by now."""
        return sum(max(end - (committed or 0), 0) for end, committed in partitions)
