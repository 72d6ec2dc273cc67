"""Who leads each group, as far as this replica knows: own cores and gossip (decision 18).

The highest term wins; within a term a leader, once known, never changes, so order and loss of gossip do not matter.
What changed leaves at once with the turn, the whole table every `GOSSIP_FULL_MS`. A leader whose link is gone counts as
unknown until somebody names one again: an address that does not answer helps no client.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.ports import Loop, Timer
from muster_coordinator.replica.multiraft.payloads import LeaderNews


class Leadership(NamedTuple):
    """Highest term seen for a group, by own core or gossip (decision 18)."""

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
        """An own core or a peer says so. True when that was news."""
        known = self._known.get(group, NONE_KNOWN)
        if term < known.term or (term == known.term and (leader is None or known.leader is not None)):
            return False
        self._known[group] = Leadership(leader, term)
        if leader is not None:
            self._changed[group] = None
            self._wake(group)
        return True

    def left(self, group: GroupNo, term: int) -> None:
        """The own core gave up leading in `term`; nobody leads that term any more."""
        known = self._known.get(group, NONE_KNOWN)
        if term >= known.term:
            self._known[group] = Leadership(None, term)

    def broker_gone(self, broker: BrokerId) -> None:
        """Nobody can be sent there now."""
        for group, known in self._known.items():
            if known.leader == broker:
                self._known[group] = Leadership(None, known.term)

    def forget(self, group: GroupNo) -> None:
        """The group was deleted."""
        self._known.pop(group, None)
        self._changed.pop(group, None)

    def prune(self, deleted: Callable[[GroupNo], bool]) -> None:
        """Forget groups that no image will name again: peers that were late told of them after `forget`."""
        for group in [group for group in self._known if deleted(group)]:
            self.forget(group)

    def take_changed(self) -> list[LeaderNews]:
        """News for the peers, each given once."""
        if not self._changed:
            return []
        changed, self._changed = self._changed, {}
        return list(self._news(changed))

    def table(self) -> list[LeaderNews]:
        """Everything known."""
        return list(self._news(self._known))

    def _news(self, groups: Iterable[GroupNo]) -> Iterable[LeaderNews]:
        for group in groups:
            known = self._known.get(group, NONE_KNOWN)
            if known.leader is not None:
                yield LeaderNews(group, known.term, known.leader)

    def when_known(self, group: GroupNo, wait_ms: int, call: Callable[[], None]) -> None:
        """Call once a leader is known, now if it is, or after `wait_ms`."""
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
