"""Brokers that join the cluster while anything else happens (ADR 41), and end and come back as they please.

They have no vote, so nothing of what is said of quorums counts them; clients ask them like any other broker, and when
all is healed they must have joined, be linked with everybody, and have the controller's log as all others do.
"""

import random
from collections.abc import Callable

from muster_coordinator.ids import CONTROLLER_GROUP

from tests.sim.cluster import Cluster, Replica

FIRST_MS = (300, 6_000)
"""From the start of the run to the first start of one of them."""
UNFORMED_MS = 300
"""Until it is tried again, while nobody knows a cluster to join."""
END_SHARE = 0.7
LIFE_MS = (100, 5_000)
DOWN_MS = (50, 2_000)
JOINED_MS_MAX = 30_000
"""From the end of the storm until all have joined."""


class Observers:
    """`arm` before the run, `heal` after the storm."""

    def __init__(self, cluster: Cluster, seed: str) -> None:
        self.cluster = cluster
        self._rand = random.Random(f"{seed}/joining")
        self._over = False

    def arm(self) -> None:
        for replica in self.cluster.observers:
            self._after(self._rand.randint(*FIRST_MS), lambda replica=replica: self._start(replica))

    def _after(self, ms: int, call: Callable[[], None]) -> None:
        world = self.cluster.world
        world.at(world.now_us + ms * 1_000, call)

    def _start(self, replica: Replica) -> None:
        if self.cluster.cluster_id() is None:
            self._after(UNFORMED_MS, lambda: self._start(replica))
            return
        replica.start()
        if not self._over and self._rand.random() < END_SHARE:
            self._after(self._rand.randint(*LIFE_MS), lambda: self._end(replica))

    def _end(self, replica: Replica) -> None:
        if self._over or replica.life is None:
            return
        if self._rand.random() < 0.5:
            replica.power_off()
        else:
            replica.kill()
        self._after(self._rand.randint(*DOWN_MS), lambda: self._start(replica))

    def heal(self) -> None:
        self._over = True
        for replica in self.cluster.observers:
            self._start(replica)

    def unfinished(self) -> list[str]:
        """Who has not joined yet, and why."""
        leader = self.cluster.leader_of(CONTROLLER_GROUP)
        members = () if leader is None else leader.node.host.groups[CONTROLLER_GROUP].core.config.everyone()
        found = []
        for replica in self.cluster.observers:
            why = replica.node.not_ready() if replica.up else ("it is down",)
            if why or int(replica.broker) not in members:
                found.append(f"{replica.broker} has not joined: {why}, members are {members}")
            else:
                self.cluster.marks.add("a broker joined")
        return found
