"""Somebody moves partitions between the brokers while anything else happens (ADR 42, ADR 45), and changes their mind.
Where topics are placed (ADR 44), also without moves, their replicas are in the end where they were placed and nowhere
else. The rates that copies keep to change as well (ADR 46).

So does who votes in the controller's group (ADR 45). Moves are made only where brokers join a cluster of three: its
groups have three replicas, and one broker at most is harmed at a time; so a group never loses more than a minority.
When all is healed every move must be completed, with replicas where they are wanted and nowhere else; what is still on
a broker whose disk was lost for good is moved away first.
"""

import random
from collections.abc import Callable, Iterator

from muster_coordinator.controller.broker_configs import FOLLOWER_RATE, LEADER_RATE
from muster_coordinator.controller.commands import (
    AlterBrokerConfigs,
    CommandResult,
    MovePartition,
    PauseBalancer,
    SetControllerVoters,
)
from muster_coordinator.controller.image import EVERY_BROKER, MEMBERS_LEVEL, ClusterImage, Partition
from muster_coordinator.controller.limits import THROTTLE_BYTES_PER_SECOND_MIN
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, broker_of
from muster_coordinator.limits import PROPOSAL_TIMEOUT_MS

from tests.sim.cluster import Cluster

VOTERS = 3
EVERY_MS = (200, 2_500)
CANCEL_SHARE = 0.1
VOTERS_EVERY_MS = (1_500, 6_000)
THROTTLE_SHARE = 0.4
MOVED_MS_MAX = 60_000
"""From the end of the storm until all partitions are where they are wanted."""


class Moves:
    """`arm` before the run, `over` at the end of the storm, `heal` when lost replicas are replaced."""

    def __init__(self, cluster: Cluster, seed: str) -> None:
        self.cluster = cluster
        self.enabled = cluster.moves = cluster.setup.nodes == VOTERS and bool(cluster.observers)
        self._rand = random.Random(f"{seed}/moves")
        self._voters_rand = random.Random(f"{seed}/controller-voters")
        self._throttle_rand = random.Random(f"{seed}/throttles")
        self.over = False
        """The storm is: nobody has new wishes."""

    def arm(self) -> None:
        if self.enabled:
            self._after(self._rand.randint(*EVERY_MS), self._again)
            self._after(self._voters_rand.randint(*VOTERS_EVERY_MS), self._others_vote)

    def _after(self, ms: int, call: Callable[[], None]) -> None:
        world = self.cluster.world
        world.at(world.now_us + ms * 1_000, call)

    def _again(self) -> None:
        if self.over:
            return
        self._after(self._rand.randint(*EVERY_MS), self._again)
        image = self._image()
        places = [] if image is None else list(_places(image))
        if image is None or not places:
            return
        self._throttle(image)
        topic_id, index, place = self._rand.choice(places)
        if place.moves and self._rand.random() < CANCEL_SHARE:
            self._ask(MovePartition(topic_id=topic_id, partition=index, voters=()), "a move was cancelled")
            return
        present = self._present(image)
        if len(present) >= VOTERS:
            voters = tuple(self._rand.sample(present, VOTERS))
            self._ask(MovePartition(topic_id=topic_id, partition=index, voters=voters), "a partition was moved")

    def _others_vote(self) -> None:
        if self.over:
            return
        self._after(self._voters_rand.randint(*VOTERS_EVERY_MS), self._others_vote)
        image = self._image()
        present = [] if image is None else self._present(image)
        if len(present) >= VOTERS:
            voters = tuple(self._voters_rand.sample(present, VOTERS))
            self._ask(SetControllerVoters(voters=voters), "others vote in the controller's group")

    def _throttle(self, image: ClusterImage) -> None:
        """Now and then another rate for some broker, or for all, or none any more."""
        rand = self._throttle_rand
        if rand.random() > THROTTLE_SHARE:
            return
        broker = rand.choice((EVERY_BROKER, *sorted(image.brokers)))
        rate = str(rand.choice((THROTTLE_BYTES_PER_SECOND_MIN, 10 * THROTTLE_BYTES_PER_SECOND_MIN)))
        configs = tuple((name, rate) for name in (FOLLOWER_RATE, LEADER_RATE) if rand.random() < 0.5)
        expected = image.broker_configs.get(broker, ())
        self._ask(AlterBrokerConfigs(broker=broker, expected=expected, configs=configs), "a throttle was changed")

    def _image(self) -> ClusterImage | None:
        leader = self.cluster.leader_of(CONTROLLER_GROUP)
        return None if leader is None else leader.node.image()

    def _present(self, image: ClusterImage) -> list[BrokerId]:
        """Brokers whose disks are not lost, as far as he who asks knows."""
        return [
            replica.broker
            for replica in self.cluster.everyone
            if not replica.emptied and (known := image.brokers.get(replica.broker)) is not None and known.bound
        ]

    def _ask(
        self, command: MovePartition | PauseBalancer | SetControllerVoters | AlterBrokerConfigs, mark: str
    ) -> None:
        leader = self.cluster.leader_of(CONTROLLER_GROUP)
        if leader is None or leader.life is None:
            return
        node = leader.life.node

        def done(result: CommandResult) -> None:
            if not result.error:
                self.cluster.marks.add(mark)

        leader.life.loop.call_soon(
            lambda: node.submit(command, deadline_ms=node.loop.monotonic_ms() + PROPOSAL_TIMEOUT_MS, done=done)
        )

    def heal(self) -> None:
        """From now on nothing is moved by itself either (ADR 47), so that what is under way comes to an end."""
        self._pause()
        if self.enabled:
            self._finish()

    def _pause(self) -> None:
        image = self._image()
        if image is None or self._goes_on(image):
            self._ask(PauseBalancer(paused=True), "the balancer was paused")
            self._after(EVERY_MS[0], self._pause)

    def _finish(self) -> None:
        """Nothing is to be on a broker that does not come back, now that nobody is about to replace one."""
        image = self._image()
        lost = {replica.broker for replica in self.cluster.everyone if replica.emptied}
        for topic_id, index, place in () if image is None else _places(image):
            present = self._present(image) if image is not None else []
            if lost & {*place.voters} and len(present) >= VOTERS:
                kept = [broker for broker in place.voters if broker in present]
                others = [broker for broker in present if broker not in kept]
                voters = tuple((kept + others)[:VOTERS])
                self._ask(
                    MovePartition(topic_id=topic_id, partition=index, voters=voters), "a lost copy was made up for"
                )
        present = self._present(image) if image is not None else []
        if image is not None and lost & {*image.voters} and len(present) >= VOTERS:
            self._ask(SetControllerVoters(voters=tuple(present[:VOTERS])), "a lost voter was made up for")
        if self.unfinished():
            self._after(EVERY_MS[0], self._finish)

    def unfinished(self) -> list[str]:
        """Partitions that are not where they are wanted, and what is where it is not."""
        image = self._image()
        if image is None:
            return ["nobody leads the controller's group"]
        if self._goes_on(image):
            return ["the balancer goes on"]
        found = []
        if image.former_voters or self._voters() != {*image.voters}:
            found.append(
                f"{self._voters()} vote in the controller's group, wanted: {image.voters}, {image.former_voters}"
            )
        lost = {replica.broker for replica in self.cluster.everyone if replica.emptied}
        for _, index, place in _places(image):
            here = {
                replica.broker
                for replica in self.cluster.everyone
                if replica.life is not None and place.group in replica.node.host.groups
            }
            if place.moves or here != {*place.voters} - lost:
                found.append(f"partition {index}, group {place.group}: {place}, replicas are on {sorted(here)}")
        return found

    @staticmethod
    def _goes_on(image: ClusterImage) -> bool:
        """May the balancer still begin a move?"""
        return image.feature_level >= MEMBERS_LEVEL and not image.balancer_paused

    def _voters(self) -> set[BrokerId]:
        """As the leader of the controller's group has committed them; nobody while they change."""
        leader = self.cluster.leader_of(CONTROLLER_GROUP)
        core = None if leader is None else leader.node.host.groups[CONTROLLER_GROUP].core
        if core is None or core.config.outgoing or core.members.newest.at > core.commit:
            return set()
        return {broker_of(member) for member in core.config.voters}


def _places(image: ClusterImage) -> Iterator[tuple[bytes, int, Partition]]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield topic.topic_id, index, partition
