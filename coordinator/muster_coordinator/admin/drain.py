"""Draining: transferring every leadership of this replica away, before it stops or while it must not lead
(architecture "Drain").

Steps 1-3: mark the replica as draining in the controller log (without a controller quorum continue after `MARK_MS`, and
propose the mark again until it is applied: without the mark the other replicas transfer leaderships back). Then
transfer leaderships, `limits.DRAIN_TRANSFERS_AT_ONCE` at a time, each to the best-matched live voter that is not
draining; the controller group's is the last. A group that no voter can take now is tried again until the caller stops
waiting: meanwhile this replica still serves it. Groups without a voter that is not draining are skipped.

A drain of a process that ends (`for_good`) is not undone: whoever waits for its end would wait in vain, and then take
its leaderships with it. Callers read the state (`phase`, `left()`); only `finished` is a callback, called once.
"""

from collections.abc import Callable
from enum import StrEnum

from muster_coordinator.admin.view import AdminReplica
from muster_coordinator.controller.commands import CommandResult, SetDraining
from muster_coordinator.errors import Code
from muster_coordinator.events import DRAIN_STARTED, DRAIN_UNDONE, DRAINED, Event, Tell, untold
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo
from muster_coordinator.limits import DRAIN_TRANSFERS_AT_ONCE, PROPOSAL_TIMEOUT_MS
from muster_coordinator.ports import Timer
from muster_coordinator.replica.multiraft.status import GroupStatus

MARK_MS = 2_000
"""Timeout of one proposal of the mark; without a controller quorum, transfers begin after it."""
MARK_RETRY_MS = 200
"""Pause after a refused proposal during the first `MARK_MS`; after those it is `LATE_MARK_LOOK_MS`."""
LOOK_MS = 20
"""How often progress is checked while transfers are under way."""
DRAINED_LOOK_MS = 100
"""How often a drained replica checks whether it has won an election that was under way, and transfers that too."""
LATE_MARK_LOOK_MS = 1_000
"""How often an undrained replica checks whether a late proposal has marked it again."""
TRANSFER_PATIENCE_MS = 2_500
"""A transfer without effect for so long is started again (Raft aborts it after an election timeout)."""


class DrainPhase(StrEnum):
    IDLE = "idle"
    MARKING = "marking"
    TRANSFERRING = "transferring"
    DRAINED = "drained"


class Drain:
    """One replica's drain. `start` and `undo` may be called in any phase."""

    def __init__(self, replica: AdminReplica, tell: Tell = untold) -> None:
        self._replica = replica
        self._tell = tell
        self._began_ms = 0
        self._loop = replica.loop
        self.phase = DrainPhase.IDLE
        self._when_drained: list[Callable[[], None]] = []
        self._moving: dict[GroupNo, int] = {}
        """Group -> monotonic ms at which its transfer is considered failed."""
        self._timer: Timer | None = None
        self._round = 0
        self.for_good = False
        """The process ends after this drain."""
        self._proposed = 0
        """Number of proposals of the mark so far."""
        self._look_later(LATE_MARK_LOOK_MS)

    def start(self, finished: Callable[[], None] = lambda: None, *, for_good: bool = False) -> None:
        """Begin the drain, or join one under way. `finished` is called once, when no leadership is left to transfer; in
        phase DRAINED that is checked again, because the replica may just have won an election."""
        self._when_drained.append(finished)
        self.for_good = self.for_good or for_good
        if self.phase == DrainPhase.DRAINED:
            self._stop_timer()
            self._timer = self._loop.call_at(self._loop.monotonic_ms(), self._look)
        if self.phase != DrainPhase.IDLE:
            return
        self.phase = DrainPhase.MARKING
        self._round += 1
        self._began_ms = self._loop.monotonic_ms()
        self._tell(Event(DRAIN_STARTED, {"leaderships": self.left()}))
        until_ms = self._began_ms + MARK_MS
        self._mark(self._round)
        self._look_for_mark(self._round, until_ms)

    def undo(self, done: Callable[[CommandResult], None]) -> None:
        """Clear the mark; leaderships return by the rules of decision 18. Not for a drain that is `for_good`.

        `done` is called when this replica has applied the change too, or with the command's error.
        """
        assert not self.for_good, "the process ends"
        if self.phase != DrainPhase.IDLE:
            self._tell(Event(DRAIN_UNDONE, {"leaderships": self.left()}))
        self.phase = DrainPhase.IDLE
        self._round += 1
        self._when_drained.clear()
        self._moving.clear()
        self._stop_timer()
        deadline_ms = self._loop.monotonic_ms() + PROPOSAL_TIMEOUT_MS

        def cleared(result: CommandResult) -> None:
            if result.error != Code.NONE or not self._is_marked() or self._loop.monotonic_ms() >= deadline_ms:
                done(result)
            else:
                self._loop.call_at(self._loop.monotonic_ms() + LOOK_MS, lambda: cleared(result))

        self._clear(deadline_ms, cleared)
        self._look_later(PROPOSAL_TIMEOUT_MS)

    def _clear(self, deadline_ms: int, done: Callable[[CommandResult], None]) -> None:
        mark = SetDraining(broker=self._replica.broker, draining=False)
        self._replica.submit(mark, deadline_ms=deadline_ms, done=done)

    def _look_later(self, pause_ms: int) -> None:
        this_round = self._round
        self._loop.call_at(self._loop.monotonic_ms() + pause_ms, lambda: self._look_for_late_mark(this_round))

    def _look_for_late_mark(self, this_round: int) -> None:
        """A mark whose proposal had an unknown outcome may be applied after the undrain, or after the start of the next
        life and its registration: clear it then. It is ours, because no other replica marks this one."""
        if self._round != this_round:
            return
        if self._is_marked():
            self._clear(self._loop.monotonic_ms() + LATE_MARK_LOOK_MS, lambda _: None)
        self._look_later(LATE_MARK_LOOK_MS)

    def left(self) -> int:
        """Raft groups still led here."""
        return self._replica.leaderships()

    def _mark(self, this_round: int) -> None:
        """Propose the mark, again and again until it is applied here or the drain is undone. One proposal at a time:
        the next one follows a refusal or the previous one's timeout."""
        if self._round != this_round or self._is_marked():
            return
        self._proposed += 1
        this_one, begun_ms = self._proposed, self._loop.monotonic_ms()

        def again() -> None:
            if self._proposed == this_one:
                self._mark(this_round)

        def done(result: CommandResult) -> None:
            if result.error != Code.NONE and self._round == this_round:
                marking = self.phase == DrainPhase.MARKING
                pause_ms = MARK_RETRY_MS if marking else LATE_MARK_LOOK_MS
                self._loop.call_at(self._loop.monotonic_ms() + pause_ms, again)

        mark = SetDraining(broker=self._replica.broker, draining=True)
        self._loop.call_at(begun_ms + MARK_MS, again)
        self._replica.submit(mark, deadline_ms=begun_ms + MARK_MS, done=done)

    def _look_for_mark(self, this_round: int, until_ms: int) -> None:
        """Begin transfers when the mark is applied here, whoever proposed it, or at `until_ms`."""
        if not self._is_marking(this_round):
            return
        now_ms = self._loop.monotonic_ms()
        if self._is_marked() or now_ms >= until_ms:
            self.phase = DrainPhase.TRANSFERRING
            self._look()
        else:
            next_ms = min(now_ms + LOOK_MS, until_ms)
            self._timer = self._loop.call_at(next_ms, lambda: self._look_for_mark(this_round, until_ms))

    def _is_marking(self, this_round: int) -> bool:
        return self._round == this_round and self.phase == DrainPhase.MARKING

    def _is_marked(self) -> bool:
        image = self._replica.image()
        own = image.brokers.get(self._replica.broker) if image is not None else None
        return own is not None and own.draining

    def _look(self) -> None:
        """Drop transfers that have ended, start others, and finish when no group is left to transfer."""
        self._timer = None
        if self.phase == DrainPhase.IDLE:
            return
        now_ms = self._loop.monotonic_ms()
        led = [group for group in self._replica.local_groups() if group.role == "leader"]
        still = {group.group for group in led}
        self._moving = {
            group: deadline_ms for group, deadline_ms in self._moving.items() if group in still and deadline_ms > now_ms
        }
        wanted = [group for group in led if group.group not in self._moving and takers(self._replica, group)]
        others = [group for group in wanted if group.group != CONTROLLER_GROUP]
        for group in others if others or self._moving else wanted:
            if len(self._moving) >= DRAIN_TRANSFERS_AT_ONCE:
                break
            self._transfer(group, now_ms)
        if not self._moving and not wanted:
            self._finish()
        else:
            self._timer = self._loop.call_at(now_ms + LOOK_MS, self._look)

    def _transfer(self, group: GroupStatus, now_ms: int) -> None:
        for target in takers(self._replica, group):
            if self._replica.alive(target) and self._replica.transfer(group.group, target):
                self._moving[group.group] = now_ms + TRANSFER_PATIENCE_MS
                return

    def _finish(self) -> None:
        if self.phase != DrainPhase.DRAINED:
            took_ms = self._loop.monotonic_ms() - self._began_ms
            self._tell(Event(DRAINED, {"leaderships": self.left(), "took_ms": took_ms}))
        self.phase = DrainPhase.DRAINED
        self._timer = self._loop.call_at(self._loop.monotonic_ms() + DRAINED_LOOK_MS, self._look)
        when_drained, self._when_drained = self._when_drained, []
        for finished in when_drained:
            finished()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def takers(replica: AdminReplica, group: GroupStatus) -> list[BrokerId]:
    """Voters to which `group` may be transferred, the best first: not draining; disks that are not low first, then by
    match index. Voters that are down are included, because they may come back."""
    image = replica.image()
    brokers = image.brokers if image is not None else {}
    found = [
        voter
        for voter in group.voters
        if voter != replica.broker and not (voter in brokers and brokers[voter].draining)
    ]
    low = replica.low_disks()
    return sorted(found, key=lambda voter: (voter in low, -group.match.get(voter, 0), voter))
