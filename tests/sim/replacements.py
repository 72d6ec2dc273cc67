"""What an administrator does about a lost volume, while anything else happens: declares its folder gone for good.

Problem: a replica that lost its disk stays out until somebody says so, and a run in which nobody does shows only that.
Mechanism: some time after a loss the replica that leads the controller's group is asked again and again, and judges as
`muster cluster replace` has it judge (`admin.replacement`): it may refuse, end, or lose its leadership with the request
on its way. A folder that is lost before it was taken in is replaced in its turn; some that were lost are mounted again
later, by mistake. In some seeds (`plan`) one of these is sure to follow. When a group has committed its new voters,
nothing in it depends on what was lost; when all have, the harm is undone, and another replica may be harmed.
"""

import random
from collections.abc import Callable

from muster_coordinator.admin.controller_leader import elsewhere
from muster_coordinator.admin.replacement import command_for, judge, seat_of
from muster_coordinator.controller.image import Broker, ClusterImage
from muster_coordinator.ids import CONTROLLER_GROUP, FIRST_OFFSETS_GROUP, BrokerId, GroupNo, broker_of
from muster_coordinator.limits import PROPOSAL_TIMEOUT_MS
from muster_coordinator.replica.node import Node

from tests.sim.cluster import Cluster, Replica
from tests.sim.plan import LOST_AGAIN, MOUNTED

NOTICED_MS = (200, 5_000)
"""From the loss to the first request."""
LOST_AGAIN_SHARE = 0.3
LOST_AGAIN_MS = (500, 8_000)
MISTAKE_SHARE = 0.4
MISTAKE_MS = (300, 4_000)
"""Until a lost disk is mounted again, and then until that is noticed."""
LOOK_MS = 400
REPLACED_MS_MAX = 90_000
"""From the end of the storm until all groups have their new members."""


class Replacements:
    """`lost` after each lost disk."""

    def __init__(self, cluster: Cluster, seed: str, follows: str = "") -> None:
        self.cluster = cluster
        self._lose_new = follows == LOST_AGAIN
        """The next new folder that is bound is lost before all groups have taken it in."""
        self._mistake_share = 1.0 if follows == MOUNTED else MISTAKE_SHARE
        self._rand = random.Random(f"{seed}/replacements")
        self._moved: dict[BrokerId, set[GroupNo]] = {}
        """Of each broker that is being replaced the groups that have committed its new member."""
        self.over = False
        """The storm is: no more volumes are lost."""
        self._refused = ""
        """Why the last request was refused."""

    def lost(self, replica: Replica) -> None:
        is_new = replica.broker not in self._moved
        self._moved[replica.broker] = set()
        if is_new:
            self._again(replica, self._rand.randint(*NOTICED_MS))
            if self._rand.random() < LOST_AGAIN_SHARE:
                self._after(self._rand.randint(*LOST_AGAIN_MS), lambda: self._lose_again(replica))

    def _lose_again(self, replica: Replica) -> None:
        """The new volume is lost, too, as long as it is none that the groups need."""
        if replica.broker in self._moved and not self.over:
            replica.power_off()
            replica.lose_disk()
            self.lost(replica)

    def unfinished(self) -> list[str]:
        """Who is not replaced yet, and why."""
        return [f"{broker} is not replaced: {self._refused or sorted(moved)}" for broker, moved in self._moved.items()]

    def _known(self, broker: BrokerId) -> Broker | None:
        image = self._image()
        return None if image is None else image.brokers.get(broker)

    def _image(self) -> ClusterImage | None:
        leader = self.cluster.leader_of(CONTROLLER_GROUP)
        return None if leader is None else leader.node.image()

    def _again(self, replica: Replica, ms: int) -> None:
        self._after(ms, lambda: self._look(replica))

    def _after(self, ms: int, call: Callable[[], None]) -> None:
        world = self.cluster.world
        world.at(world.now_us + ms * 1_000, call)

    def _look(self, replica: Replica) -> None:
        leader = self.cluster.leader_of(CONTROLLER_GROUP)
        if leader is not None and leader.life is not None:
            node = leader.life.node
            leader.life.loop.call_soon(lambda: node.when_topics_current(lambda known: self._ask(node, replica, known)))
        if self._is_complete(replica):
            del self._moved[replica.broker]
            replica.emptied = False
            self.cluster.harm.undo(replica.broker)
            self.cluster.marks.add("a lost replica was replaced")
            if self._rand.random() < self._mistake_share:
                self._after(self._rand.randint(*MISTAKE_MS), lambda: self._mistake(replica))
        else:
            self._again(replica, LOOK_MS)
            if self._lose_new and self._is_bound_anew(replica):
                self._lose_new = False
                self._lose_again(replica)

    def _mistake(self, replica: Replica) -> None:
        """The disk that was lost turns up again, and somebody mounts it."""
        if self.over or replica.emptied or replica.spare is not None:
            return
        replica.kill()
        replica.mount_lost(self._rand.choice(replica.lost_disks))
        self.cluster.marks.add("a lost disk was mounted again")
        self._after(self._rand.randint(*MISTAKE_MS), lambda: self.end_mistake(replica))

    def end_mistake(self, replica: Replica) -> None:
        """The replica has its own disk again, if it had another."""
        if replica.spare is not None:
            replica.kill()
            replica.mount_own()

    def _ask(self, node: Node, replica: Replica, is_current: bool) -> None:
        """In a turn of the controller's leader."""
        image = node.image()
        known = None if image is None else seat_of(node, image, replica.broker)
        if not is_current or elsewhere(node) is not None or known is None:
            return
        gone = known.replica_uuid
        if not known.bound or gone not in replica.lost_folders:
            return
        refusal = judge(node, replica.broker, gone)
        self._refused = "" if refusal is None else refusal.message
        if refusal is not None:
            self.cluster.marks.add(f"replacing was refused: {refusal.error}")
            return
        if known.binding:
            self.cluster.marks.add("a new folder was replaced in its turn")
        node.submit(
            command_for(node, replica.broker, gone),
            deadline_ms=node.loop.monotonic_ms() + PROPOSAL_TIMEOUT_MS,
            done=lambda _: None,
        )

    def _is_bound_anew(self, replica: Replica) -> bool:
        known = self._known(replica.broker)
        return known is not None and known.bound and known.replica_uuid not in replica.lost_folders

    def _is_complete(self, replica: Replica) -> bool:
        image = self._image()
        known = self._known(replica.broker)
        if image is None or known is None or not self._is_bound_anew(replica):
            return False
        moved = self._moved[replica.broker]
        wanted = _groups(self.cluster, image)
        moved |= {group for group in wanted - moved if self._has_moved(group, known)}
        return wanted <= moved

    def _has_moved(self, group: GroupNo, known: Broker) -> bool:
        """The group's leader has committed a configuration in which this member votes, and no other of its broker."""
        leader = self.cluster.leader_of(group)
        held = None if leader is None else leader.node.host.groups.get(group)
        if held is None or not held.serves or held.core.commit < held.core.last_index:
            return False
        config = held.core.config
        own = [member for member in config.everyone() if broker_of(member) == known.broker]
        if group == CONTROLLER_GROUP:  # all are members of it, some without a vote
            wanted = config.voters if known.broker in self._holders(group) else config.learners
            return own == [known.member] and known.member in wanted and not config.outgoing
        if known.broker not in self._holders(group):
            return not own and not config.outgoing
        return own == [known.member] and known.member in config.voters and not config.outgoing

    def _holders(self, group: GroupNo) -> tuple[BrokerId, ...]:
        """By the controller's image; of the controller's group its voters."""
        image = self._image()
        for topic in () if image is None else image.topics.values():
            for partition in topic.partitions:
                if partition.group == group:
                    return partition.holders
        return () if image is None else image.voters


def _groups(cluster: Cluster, image: ClusterImage) -> set[GroupNo]:
    offsets = {GroupNo(FIRST_OFFSETS_GROUP + number) for number in range(cluster.setup.partitions)}
    topics = {GroupNo(place.group) for topic in image.topics.values() for place in topic.partitions}
    return {CONTROLLER_GROUP, *offsets, *topics}
