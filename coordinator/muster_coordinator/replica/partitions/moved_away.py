"""Removes the replicas of partitions that were moved to other brokers (ADR 42).

Problem: a replica that is not wanted any more has given votes and acknowledgements, and may be wanted again before it
knows that it was let go; the group's leader then counts on them. Mechanism: stand aside, prove, drop. First the replica
is suspended (`raft.suspension`), durably: from then on it promises nothing, and whatever replica of this group is here
later begins suspended as well, until a leader has made good for what was forgotten. Then a round to the controller's
leader shows that the image here is current. If the replica is still not wanted by that image, whoever wants it later
does so after it stood aside, and finds it suspended: so its entries and its files may go. If it is wanted again, it
stays, and its leader releases it.

What this does not do: decide who is wanted (`controller.moves`), or know when the group's log has let a replica go (the
group's leader says so with CompleteMove, and only then it leaves the image's holders).
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from muster_coordinator.events import REPLICA_REMOVED, Event
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Loop
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.storage.contract import WalStore

RETRY_MS = 1_000
"""Until a group is tried again whose suspension could not be stored, or for which the controller's leader did not
answer."""
AT_ONCE_MAX = 64
"""Groups on their way out at a time; the others follow."""


class Leaving(Protocol):
    """The part of the group manager that is needed here."""

    def leaving(self) -> Iterable[GroupNo]:
        """Groups that have something here, and are not to be here by the image that is applied now. Empty while the
        controller's group has not caught up since the start."""

    def leaves(self, number: GroupNo) -> bool:
        """Is it one of these?"""
        ...

    def wal_of(self, number: GroupNo) -> WalStore:
        """Where its entries are."""
        ...

    def drop_replica(self, number: GroupNo) -> None:
        """Remove its entries from the WAL, and then its files."""


class MovedAway:
    """See the module. `look` is to be called whenever the controller's group has applied entries."""

    def __init__(
        self,
        loop: Loop,
        host: Host,
        groups: Leaving,
        current: Callable[[Callable[[bool], None]], None],
    ) -> None:
        """`current(call)`: `call(True)` once the image here has all that the controller's leader had committed when
        this was called, `call(False)` when that could not be found out."""
        self._loop = loop
        self._host = host
        self._groups = groups
        self._current = current
        self._under_way: set[GroupNo] = set()
        self._aside: list[GroupNo] = []
        """Suspended durably; they share the next round."""
        self._asked = False

    def look(self) -> None:
        for number in self._groups.leaving():
            if len(self._under_way) >= AT_ONCE_MAX:
                return
            if number not in self._under_way:
                self._under_way.add(number)
                self._stand_aside(number)

    def _stand_aside(self, number: GroupNo) -> None:
        group = self._host.groups.get(number)
        if group is not None and not stands_aside(group):
            group.step_down()  # a leader that the log has let go leads no more, unless it has not heard of that
            group.core.suspend()
            group.suspended = True  # as wanted: the host reports a loss otherwise
            self._host.touch(group)
        wal = self._groups.wal_of(number)
        self._loop.submit("transfer", wal.suspend(number, True), partial(self._stood_aside, number))

    def _stood_aside(self, number: GroupNo, result: BaseException | None) -> None:
        if isinstance(result, OSError):
            self._later([number])
        elif isinstance(result, BaseException):
            self._host.fatal(result)
        else:
            self._aside.append(number)
            self._prove()

    def _prove(self) -> None:
        if self._asked or not self._aside:
            return
        # Invariant: the round begins after all of these are suspended durably.
        numbers, self._aside = self._aside, []
        self._asked = True
        self._current(partial(self._proven, numbers))

    def _proven(self, numbers: list[GroupNo], current: bool) -> None:
        self._asked = False
        if not current:
            self._later(numbers)
        else:
            for number in numbers:
                group = self._host.groups.get(number)
                if group is not None and not stands_aside(group):
                    self._later([number])  # a leader that had it as a member released it meanwhile
                    continue
                self._under_way.discard(number)
                if self._groups.leaves(number):
                    self._drop(number)
            self.look()
        self._prove()

    def _drop(self, number: GroupNo) -> None:
        group = self._host.groups.get(number)
        name = "" if group is None else group.name
        self._groups.drop_replica(number)
        self._host.tell(Event(REPLICA_REMOVED, {"raft_group": int(number), "partition": name}))

    def _later(self, numbers: list[GroupNo]) -> None:
        """Begin anew with these, if they still leave by then."""

        def again() -> None:
            self._under_way.difference_update(numbers)
            self.look()

        self._loop.call_at(self._loop.monotonic_ms() + RETRY_MS, again)


def stands_aside(group: RaftGroup) -> bool:
    """Is it suspended, and not about to be released? A release that is told is given up when it is suspended anew."""
    return bool(group.core.suspended) and not group.core.release_told
