"""Preferred leaders: they lead the groups of a new cluster, and get leadership back later (decision 18).

Problem: leaderships must be spread evenly over the replicas, at the start and after failures. Mechanism: the preferred
leader of a partition's group is what the controller's image says (`Partition.preferred`); of the controller's group,
and of all before there is an image, it is `voters[group mod n]`. In a new cluster it campaigns as soon as every voter
is known to be formed, so that leaders are spread evenly and each group needs only one term; likewise in the groups of a
new topic. Later, another leader transfers leadership to the preferred replica when that has been linked, not draining,
caught up and with room on its disk for `takeback_ms`; at most `TAKEBACKS_AT_ONCE` at a time. If a client asks for it
(ElectLeaders), it need not have been so for a while, and more go at a time. What it does not do: move leadership by
load.
"""

from collections.abc import Mapping

from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo
from muster_coordinator.ports import Loop
from muster_coordinator.raft.messages import NOBODY
from muster_coordinator.raft.progress import Progress, ProgressState
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.settings import NodeSettings

LOOK_MS = 1_000
TAKEBACKS_AT_ONCE = 2
ELECTIONS_AT_ONCE = 20
"""Transfers that clients have asked for: each is done within some round trips, and nobody is served meanwhile."""
ELECTION_LOOK_MS = 50
ELECTION_MS_MAX = 10_000
"""So long a wanted election waits for its preferred replica to be fit."""
BORN_RETRY_MS = 50
BORN_TRIES_MAX = 20
"""All tries together take one election timeout; after them the group elects a leader like any other."""
BORN_GRACE_MS = 5_000
LAG_ENTRIES_MAX = 1_000
"""A follower that lacks at most this many entries counts as caught up: in a busy log it hardly ever has all of them."""


def _preferred_of(group: RaftGroup, wanted: BrokerId | None) -> BrokerId:
    """The broker that is to lead the group; `wanted` is whom the image prefers, if it knows the group. Nobody (-1)
    while that one is not in the group, as its partition is being moved, and at a member that knows no configuration
    yet."""
    voters = group.voters
    if wanted is None and voters:
        return voters[group.number % len(voters)]
    return wanted if wanted is not None and wanted in voters else BrokerId(NOBODY)


def _preferences_of(image: ClusterImage | None) -> Mapping[GroupNo, BrokerId]:
    """Whom the image prefers in each partition's group. O(partitions)."""
    topics = () if image is None else image.topics.values()
    return {partition.group: partition.preferred for topic in topics for partition in topic.partitions}


def is_level(group: RaftGroup, progress: Progress | None) -> bool:
    """Has the follower caught up, as its leader sees it?"""
    return (
        progress is not None
        and progress.state is ProgressState.REPLICATE
        and group.core.last_index - progress.match <= LAG_ENTRIES_MAX
    )


class Preferred:
    """See the module."""

    def __init__(self, loop: Loop, host: Host, controller: ControllerMachine, settings: NodeSettings) -> None:
        self._loop = loop
        self._host = host
        self._controller = controller
        self._settings = settings
        self._topics: Mapping[str, Topic] | None = None
        self._preferences: Mapping[GroupNo, BrokerId] = {}
        """Of `_topics`."""
        self._since: dict[GroupNo, int] = {}
        """Led groups with another preferred leader -> since when that has been fit, as checked every `LOOK_MS`."""
        self._asked: dict[GroupNo, int] = {}
        """Groups whose preferred replica is to lead now -> until when that is tried; in the order of asking."""

    def start(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + LOOK_MS, self._look)

    def of(self, group: RaftGroup) -> BrokerId:
        """The group's preferred leader, -1 for nobody."""
        image = self._controller.cluster
        topics = None if image is None else image.topics
        if topics is not self._topics:
            self._topics, self._preferences = topics, _preferences_of(image)
        return _preferred_of(group, self._preferences.get(group.number))

    def all_formed(self) -> None:
        """All voters have formed: campaign in the groups that prefer this replica and have had no term yet."""
        for group in self._host.groups.values():
            if group.core.term == 0 and not self._host.disk_low and self.of(group) == self._host.broker:
                group.campaign()

    def born(self, group: RaftGroup) -> None:
        """The group of a new topic was just made here. Its preferred leader campaigns again and again until the other
        voters have made the group too: they learn of the topic with the next heartbeat, and drop messages for a group
        that they do not have. The other voters stand back for `BORN_GRACE_MS`: the preferred leader may need seconds to
        make a thousand partitions, and other leaders elected meanwhile would all have to be moved again."""
        preferred = self.of(group)
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
            elif self.of(group) != self._host.broker and self.fit(group, self.of(group)):
                fit[number] = self._since.get(number, now_ms)
        self._since = fit
        for number, since_ms in fit.items():
            if moving >= TAKEBACKS_AT_ONCE:
                break
            if now_ms - since_ms >= self._settings.takeback_ms:
                moving += self._host.groups[number].transfer(self.of(self._host.groups[number]))

    def asked(self, number: GroupNo) -> None:
        """A client asks that the preferred replica leads. Nothing is answered: who asks sees who leads."""
        if number in self._host.groups:
            idle = not self._asked
            self._asked[number] = self._loop.monotonic_ms() + ELECTION_MS_MAX
            if idle:
                self._elect()

    def _elect(self) -> None:
        now_ms = self._loop.monotonic_ms()
        moving = sum(self._host.groups[number].transferring for number in self._host.heartbeats.led())
        for number, until_ms in list(self._asked.items()):
            if moving >= ELECTIONS_AT_ONCE:
                break
            group = self._host.groups.get(number)
            if group is None or not group.leads or now_ms >= until_ms or self.of(group) == self._host.broker:
                del self._asked[number]
            elif not group.transferring and self.fit(group, self.of(group)):
                moving += group.transfer(self.of(group))
        if self._asked:
            self._loop.call_at(now_ms + ELECTION_LOOK_MS, self._elect)

    def fit(self, group: RaftGroup, target: BrokerId) -> bool:
        """May leadership of a group that this replica leads go to `target`: is it linked, not draining, caught up, and
        its disk not low?"""
        if not group.serves or target not in self._host.peers or target in self._host.low_peers:
            return False
        if self._draining(target):
            return False
        return is_level(group, group.progress_of(target))

    def _draining(self, broker: BrokerId) -> bool:
        image = self._controller.cluster
        if image is None or self._host.groups.get(CONTROLLER_GROUP) is None:
            return True
        known = image.brokers.get(broker)
        return known is None or known.draining
