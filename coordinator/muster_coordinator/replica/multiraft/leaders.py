"""The leader of each group, as far as this replica knows it from its own cores and from gossip (decision 18).

Problem: any replica must name a group's leader to a client, also of groups whose core it does not hold. Mechanism: the
highest term wins; within a term a leader, once known, never changes, so lost or reordered gossip does no harm. Changes
are sent at the end of the turn, the whole table every `GOSSIP_FULL_MS`. A leader whose link is down counts as unknown
until a leader is named again, because clients cannot use an address that does not answer. What it does not do: elect,
or guarantee that the named leader still leads.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.ports import Loop, Timer
from muster_coordinator.replica.multiraft.payloads import LeaderNews


class Leadership(NamedTuple):
    """The highest term seen for a group, by own core or gossip, and its leader if known (decision 18)."""

    leader: BrokerId | None
    term: int


NONE_KNOWN = Leadership(None, 0)


class _Waiter:
    __slots__ = ("call", "timer")

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.timer: Timer | None = None


class Leaders:
    """See the module. `changed`: groups whose entry changed since `take_changed`."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._known: dict[GroupNo, Leadership] = {}
        self._changed: dict[GroupNo, None] = {}
        self._waiters: dict[GroupNo, list[_Waiter]] = {}

    def of(self, group: GroupNo) -> Leadership:
        return self._known.get(group, NONE_KNOWN)

    def note(self, group: GroupNo, term: int, leader: BrokerId | None) -> bool:
        """Take in what an own core or a peer says. True if it changed the entry."""
        known = self._known.get(group, NONE_KNOWN)
        if term < known.term or (term == known.term and (leader is None or known.leader is not None)):
            return False
        self._known[group] = Leadership(leader, term)
        if leader is not None:
            self._changed[group] = None
            self._wake(group)
        return True

    def left(self, group: GroupNo, term: int) -> None:
        """This replica's core has stepped down in `term`: from now on that term has no leader."""
        known = self._known.get(group, NONE_KNOWN)
        if term >= known.term:
            self._known[group] = Leadership(None, term)

    def broker_gone(self, broker: BrokerId) -> None:
        """The link to `broker` is down: the groups that it led have no known leader."""
        for group, known in self._known.items():
            if known.leader == broker:
                self._known[group] = Leadership(None, known.term)

    def forget(self, group: GroupNo) -> None:
        """The group was deleted."""
        self._known.pop(group, None)
        self._changed.pop(group, None)

    def prune(self, deleted: Callable[[GroupNo], bool]) -> None:
        """Forget deleted groups: late gossip may have named them again after `forget`."""
        for group in [group for group in self._known if deleted(group)]:
            self.forget(group)

    def take_changed(self) -> list[LeaderNews]:
        """The changes since the last call, to be sent to the peers."""
        if not self._changed:
            return []
        changed, self._changed = self._changed, {}
        return list(self._news(changed))

    def table(self) -> list[LeaderNews]:
        """All known leaders."""
        return list(self._news(self._known))

    def _news(self, groups: Iterable[GroupNo]) -> Iterable[LeaderNews]:
        for group in groups:
            known = self._known.get(group, NONE_KNOWN)
            if known.leader is not None:
                yield LeaderNews(group, known.term, known.leader)

    def when_known(self, group: GroupNo, wait_ms: int, call: Callable[[], None]) -> None:
        """Call `call` once: when a leader is known (at once if one is), or after `wait_ms`."""
        if self.of(group).leader is not None or wait_ms <= 0:
            call()
            return
        waiter = _Waiter(call)

        def expired() -> None:
            waiters = self._waiters.get(group)
            if waiters is not None and waiter in waiters:
                waiters.remove(waiter)
                if not waiters:
                    del self._waiters[group]
                call()

        waiter.timer = self._loop.call_at(self._loop.monotonic_ms() + wait_ms, expired)
        self._waiters.setdefault(group, []).append(waiter)

    def _wake(self, group: GroupNo) -> None:
        for waiter in self._waiters.pop(group, ()):
            if waiter.timer is not None:
                waiter.timer.cancel()
            waiter.call()
