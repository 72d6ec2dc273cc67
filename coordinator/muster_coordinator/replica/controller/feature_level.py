"""Raises the cluster's feature level once every replica runs a release that can do more (decision 16).

Problem: what a new release writes, the release before cannot read, so it is written only above a level that all agreed
on, and after that nobody goes back. Mechanism: the controller's leader looks at what the voters registered. When all of
them are linked and have been able to do a higher level for `finalize_ms` without a break, it proposes
`FinalizeFeatures`; the rules at apply look once more. Until then a return to the release before is a restart like any
other. A new leader begins to wait anew.
"""

from muster_coordinator.controller.commands import CommandResult, FinalizeFeatures
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.ports import Loop
from muster_coordinator.replica.controller.controller_group import ControllerGroup
from muster_coordinator.replica.multiraft.host import Host

LOOK_MS = 1_000
NEVER_MS = -1


def common_level(cluster: ClusterImage) -> int:
    """The highest level that every voter's binary can do; the present one while a voter has never registered."""
    brokers = [cluster.brokers.get(voter) for voter in cluster.voters]
    return min(cluster.feature_level if broker is None else broker.feature_max for broker in brokers)


class FeatureLevel:
    """See the module. `finalize_ms` may be `NEVER_MS`."""

    def __init__(self, loop: Loop, host: Host, controller: ControllerGroup, finalize_ms: int) -> None:
        self._loop = loop
        self._host = host
        self._controller = controller
        self._finalize_ms = finalize_ms
        self._wanted: tuple[int, int] | None = None
        """(level above the present one, since when all can do it)"""
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
        linked = all(voter == self._host.broker or voter in self._host.peers for voter in cluster.voters)
        if level <= cluster.feature_level or not linked:
            self._wanted = None
            return
        now_ms = self._loop.monotonic_ms()
        if self._wanted is None or self._wanted[0] != level:
            self._wanted = (level, now_ms)
        if now_ms - self._wanted[1] >= self._finalize_ms and not self._proposed:
            self._proposed = self._controller.propose(FinalizeFeatures(feature_level=level), self._answered) is None

    def _answered(self, _result: CommandResult) -> None:
        """Refused, unknown or done: the next look sees what holds."""
        self._proposed = False
