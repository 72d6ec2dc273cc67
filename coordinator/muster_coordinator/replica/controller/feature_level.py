"""Raising the cluster's feature level when every replica runs a release that supports a higher one (decision 16).

Problem: an older release cannot read the new formats of a newer one. So they are written only from a feature level on
that all replicas have agreed on, and once the level is raised, no replica can go back to the older release. Mechanism:
the controller's leader compares the levels that the brokers have registered. When all of them are linked and have
supported a higher level for `finalize_ms` without a break, it proposes `FinalizeFeatures`; apply checks the condition
again. Until then a replica goes back to the older release by a restart. A new leader starts the wait anew. What it does
not do: write new formats; each writer compares the level.
"""

from muster_coordinator.controller.commands import CommandResult, FinalizeFeatures
from muster_coordinator.controller.image import ClusterImage, observers
from muster_coordinator.ports import Loop
from muster_coordinator.replica.controller.controller_group import ControllerGroup
from muster_coordinator.replica.multiraft.host import Host

LOOK_MS = 1_000
NEVER_MS = -1


def common_level(cluster: ClusterImage) -> int:
    """The highest level that all brokers support; the cluster's current level while a voter has never registered."""
    brokers = [cluster.brokers.get(broker) for broker in (*cluster.voters, *observers(cluster))]
    return min(cluster.feature_level if broker is None else broker.feature_max for broker in brokers)


class FeatureLevel:
    """See the module. `finalize_ms` may be `NEVER_MS`."""

    def __init__(self, loop: Loop, host: Host, controller: ControllerGroup, finalize_ms: int) -> None:
        self._loop = loop
        self._host = host
        self._controller = controller
        self._finalize_ms = finalize_ms
        self._wanted: tuple[int, int] | None = None
        """(a level above the current one, since when all voters have supported it)"""
        self._proposed = False

    def start(self) -> None:
        if self._finalize_ms != NEVER_MS:
            self._look_later()

    def _look_later(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + LOOK_MS, self._look)

    def _look(self) -> None:
        self._look_later()
        cluster, group = self._controller.machine.cluster, self._controller.group
        if cluster is None or not group.serves:
            self._wanted = None
            return
        level = common_level(cluster)
        brokers = (*cluster.voters, *observers(cluster))
        linked = all(broker == self._host.broker or broker in self._host.peers for broker in brokers)
        if level <= cluster.feature_level or not linked:
            self._wanted = None
            return
        now_ms = self._loop.monotonic_ms()
        if self._wanted is None or self._wanted[0] != level:
            self._wanted = (level, now_ms)
        if now_ms - self._wanted[1] >= self._finalize_ms and not self._proposed:
            self._proposed = self._controller.propose(FinalizeFeatures(feature_level=level), self._answered) is None

    def _answered(self, _result: CommandResult) -> None:
        """Whatever the result is, the next look compares the levels again."""
        self._proposed = False
