"""Preferred leaders: who leads a fresh cluster, and who gets leadership back later (decision 18).

The preferred leader of a group is `voters[group mod n]`. In a fresh cluster it campaigns as soon as every voter is
heard formed, so that leaders come out even and every group has one term; likewise for the groups of a new topic. Later
a leader that is not the preferred one hands over when the preferred replica has been linked, not draining, caught up
and with room on its disk for `takeback_ms`, at most `TAKEBACKS_AT_ONCE` at a time. Draining replicas get nothing.
"""

from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo
from muster_coordinator.ports import Loop
from muster_coordinator.raft.progress import ProgressState
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.settings import NodeSettings

LOOK_MS = 1_000
TAKEBACKS_AT_ONCE = 2
BORN_RETRY_MS = 50
BORN_TRIES_MAX = 20
"""Within an election timeout; then the group is like any other without a leader."""
BORN_GRACE_MS = 5_000
LAG_ENTRIES_MAX = 1_000
"""A follower this close behind counts as caught up: a busy log's follower is hardly ever level."""


def preferred_of(group: RaftGroup) -> BrokerId:
    return group.voters[group.number % len(group.voters)]


class Preferred:
    """See the module."""

    def __init__(self, loop: Loop, host: Host, controller: ControllerMachine, settings: NodeSettings) -> None:
        self._loop = loop
        self._host = host
        self._controller = controller
        self._settings = settings
        self._since: dict[GroupNo, int] = {}
        """Led groups that belong elsewhere: since when their preferred replica is fit, looked at every `LOOK_MS`"""

    def start(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + LOOK_MS, self._look)

    def all_formed(self) -> None:
        """The cluster was formed just now, if no group has had a term yet."""
        for group in self._host.groups.values():
            if group.core.term == 0 and not self._host.disk_low and preferred_of(group) == self._host.broker:
                group.campaign()

    def born(self, group: RaftGroup) -> None:
        """The group of a new topic was made here just now. Its preferred leader campaigns until the other voters have
        made it too: they learn of the topic with the next heartbeat; what comes for a group that is not there is lost.
        The others give it time: a thousand partitions take it seconds to make, and leaders elected meanwhile would all
        have to be moved again."""
        preferred = preferred_of(group)
        if preferred == self._host.broker and not self._host.disk_low:
            self._bring_up(group, BORN_TRIES_MAX)
        elif preferred in self._host.peers and preferred not in self._host.low_peers:
            group.stand_back(self._loop.monotonic_ms() + BORN_GRACE_MS)

    def _bring_up(self, group: RaftGroup, tries: int) -> None:
        fresh = group.core.term == 0 and group.core.leader < 0
        if not fresh or tries == 0 or self._host.groups.get(group.number) is not group:
            return
        group.campaign()
        self._loop.call_at(self._loop.monotonic_ms() + BORN_RETRY_MS, lambda: self._bring_up(group, tries - 1))

    def _look(self) -> None:
        now_ms = self._loop.monotonic_ms()
        self._loop.call_at(now_ms + LOOK_MS, self._look)
        fit: dict[GroupNo, int] = {}
        moving = 0
        for number in self._host.heartbeats.led():
            group = self._host.groups[number]
            if group.transferring:
                moving += 1
            elif preferred_of(group) != self._host.broker and self.fit(group, preferred_of(group)):
                fit[number] = self._since.get(number, now_ms)
        self._since = fit
        for number, since_ms in fit.items():
            if moving >= TAKEBACKS_AT_ONCE:
                break
            if now_ms - since_ms >= self._settings.takeback_ms:
                moving += self._host.groups[number].transfer(preferred_of(self._host.groups[number]))

    def fit(self, group: RaftGroup, target: BrokerId) -> bool:
        """May this other voter be given a group that is led here? It is there, has room, and is nearly level."""
        if not group.serves or target not in self._host.peers or target in self._host.low_peers:
            return False
        if self._draining(target):
            return False
        progress = group.core.progresses.get(target)
        return (
            progress is not None
            and progress.state is ProgressState.REPLICATE
            and group.core.last_index - progress.match <= LAG_ENTRIES_MAX
        )

    def _draining(self, broker: BrokerId) -> bool:
        image = self._controller.cluster
        if image is None or self._host.groups.get(CONTROLLER_GROUP) is None:
            return True
        known = image.brokers.get(broker)
        return known is None or known.draining
