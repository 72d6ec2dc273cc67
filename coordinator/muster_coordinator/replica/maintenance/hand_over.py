"""Leadership transfers away from a replica whose disk is low, to replicas that have room.

Problem: a leader without room refuses every commit, while its followers could take it. Mechanism: while the disk is
low, each led group is transferred to the voter with the highest match that is linked, has not said that its disk is
low, is not draining, and has nearly caught up; `limits.DRAIN_TRANSFERS_AT_ONCE` at a time, the controller group last.
After a transfer was tried, the group is not tried again for `RETRY_MS`, because its requests wait during a transfer. If
all voters are low, the replica goes on leading: reads, heartbeats and commands that free space need a leader, and a
group never moves in circles. What it does not do: give leadership back; `preferred` does.
"""

from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo
from muster_coordinator.limits import DRAIN_TRANSFERS_AT_ONCE
from muster_coordinator.ports import Loop
from muster_coordinator.replica.maintenance.preferred import Preferred
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup

LOOK_MS = 100
"""Time between two looks; one without work costs a comparison."""
MOVING_LOOK_MS = 20
RETRY_MS = 5_000


class HandOver:
    """See the module."""

    def __init__(self, loop: Loop, host: Host, preferred: Preferred) -> None:
        self._loop = loop
        self._host = host
        self._preferred = preferred
        self._not_before_ms: dict[GroupNo, int] = {}
        """Groups whose transfer was tried -> when it may be tried again."""

    def start(self) -> None:
        self._look()

    def _look(self) -> None:
        now_ms = self._loop.monotonic_ms()
        moving = self._move(now_ms) if self._host.disk_low else False
        if not self._host.disk_low:
            self._not_before_ms.clear()
        self._loop.call_at(now_ms + (MOVING_LOOK_MS if moving else LOOK_MS), self._look)

    def _move(self, now_ms: int) -> bool:
        """Start the transfers that may start. True: some transfer is under way."""
        led = [self._host.groups[number] for number in self._host.heartbeats.led()]
        led.sort(key=lambda group: group.number == CONTROLLER_GROUP)
        moving = sum(group.transferring for group in led)
        for group in led:
            if moving >= DRAIN_TRANSFERS_AT_ONCE:
                break
            if group.transferring or now_ms < self._not_before_ms.get(group.number, 0):
                continue
            if group.number == CONTROLLER_GROUP and moving:
                break
            takers = self.takers(group)
            if takers and group.transfer(takers[0]):
                self._not_before_ms[group.number] = now_ms + RETRY_MS
                moving += 1
        return moving > 0

    def takers(self, group: RaftGroup) -> list[BrokerId]:
        """Voters that may lead instead, those with the highest match first."""
        fit = [
            (-progress.match, voter)
            for voter in group.voters
            if (progress := group.progress_of(voter)) is not None and self._preferred.fit(group, voter)
        ]
        return [voter for _, voter in sorted(fit)]
