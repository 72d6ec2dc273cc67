"""The replication factor grows from three to five while anything else happens, and shrinks again (ADR 48).

Only in seeds in which two brokers join three and the balancer runs, since it carries the wish out, and in a share of
those that is drawn here. At most one broker is harmed in them (`moves`), so of five replicas a group loses no more than
of three. What is under way when the storm ends stays as it is then: `moves` pauses the balancer, and judges that
replicas are where the log says and nowhere else.
"""

import random
from collections.abc import Callable

from muster_coordinator.controller.commands import CommandResult, SetReplicationFactor
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.ids import CONTROLLER_GROUP
from muster_coordinator.limits import PROPOSAL_TIMEOUT_MS

from tests.sim.cluster import Cluster

FACTOR = 5
SHARE = 0.6
FIRST_MS = (2_000, 6_000)
AGAIN_MS = 300
"""Until it is asked for again, when not all have joined or nobody answered."""
BACK_SHARE = 0.4
BACK_MS = (2_000, 6_000)
LOOK_MS = 100
MARK = "the replication factor grew"
GROWN = "a group grew to five replicas"
SHRUNK = "the replication factor shrank"


class Growth:
    """`arm` before the run; `over` at the end of the storm."""

    def __init__(self, cluster: Cluster, seed: str) -> None:
        self.cluster = cluster
        self._rand = random.Random(f"{seed}/growth")
        brokers = len(cluster.replicas) + len(cluster.observers)
        moves = cluster.moves and cluster.setup.node.get("balancer_quiet_ms", -1) >= 0
        # Seeds with names are aimed at something (`tests.mutants`), and stay as they were.
        self.enabled = seed.isdigit() and moves and brokers == FACTOR and self._rand.random() < SHARE
        if self.enabled:
            cluster.factors.add(FACTOR)
        self.over = False

    def arm(self) -> None:
        if self.enabled:
            self._after(self._rand.randint(*FIRST_MS), lambda: self._want(FACTOR))
            self._after(LOOK_MS, self._look)

    def _after(self, ms: int, call: Callable[[], None]) -> None:
        world = self.cluster.world
        world.at(world.now_us + ms * 1_000, lambda: None if self.over else call())

    def _want(self, factor: int) -> None:
        self._after(AGAIN_MS, lambda: self._unless_wanted(factor))
        leader = self.cluster.leader_of(CONTROLLER_GROUP)
        if leader is None or leader.life is None:
            return
        node = leader.life.node
        command = SetReplicationFactor(factor=factor, every_topic=True)

        def done(result: CommandResult) -> None:
            if not result.error:
                self.cluster.marks.add(MARK if factor == FACTOR else SHRUNK)

        leader.life.loop.call_soon(
            lambda: node.submit(command, deadline_ms=node.loop.monotonic_ms() + PROPOSAL_TIMEOUT_MS, done=done)
        )

    def _unless_wanted(self, factor: int) -> None:
        image = self._image()
        if image is None or image.replication_factor != factor:
            self._want(factor)
        elif factor == FACTOR and self._rand.random() < BACK_SHARE:
            self._after(self._rand.randint(*BACK_MS), lambda: self._want(len(self.cluster.replicas)))

    def _look(self) -> None:
        self._after(LOOK_MS, self._look)
        image = self._image()
        places = [] if image is None else [one for topic in image.topics.values() for one in topic.partitions]
        if any(len(place.voters) == FACTOR and place.move is not None and not place.moves for place in places):
            self.cluster.marks.add(GROWN)

    def _image(self) -> ClusterImage | None:
        leader = self.cluster.leader_of(CONTROLLER_GROUP)
        return None if leader is None else leader.node.image()
