"""A partition whose stored batches are damaged here: told, answered with a typed error, and led elsewhere.

Problem: bytes at rest change; a reader must neither get them nor be told that there is nothing, and another replica
holds the same segment undamaged. Mechanism: whoever meets the damage reports it here. The first report of a partition
in `TELL_AGAIN_MS` is a notice (log line and counter), and its leadership goes to the best-matched voter whose link is
up; readers were answered KAFKA_STORAGE_ERROR, with which clients look for the leader anew. Replication goes on: what
the group is about to write, its WAL and its state machine are sound. It does not mend: the files stay as they are.
"""

from muster_coordinator.errors import Corruption
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.ports import Notice
from muster_coordinator.raft.progress import ProgressState
from muster_coordinator.replica.host import Host

TELL_AGAIN_MS = 30_000
"""Leaderships come back to their preferred replica; without a bound a reader could have them move all the time."""
WHAT = "stored batches are damaged"


class Damage:
    """See the module."""

    def __init__(self, host: Host, notice: Notice) -> None:
        self._host = host
        self._notice = notice
        self._told_ms: dict[GroupNo, int] = {}
        self.found: dict[GroupNo, str] = {}
        """What was found last in each partition, since the start."""

    def report(self, number: GroupNo, error: Corruption) -> None:
        """Somebody met it."""
        now_ms = self._host.now_ms()
        told_ms = self._told_ms.get(number)
        if told_ms is not None and now_ms - told_ms < TELL_AGAIN_MS:
            return
        self._told_ms[number] = now_ms
        self.found[number] = str(error)
        target = self._hand_over(number)
        self._notice(WHAT, {"group": number, "damage": str(error), "led_by_now": target}, None)

    def forget(self, number: GroupNo) -> None:
        """The group was deleted, or its files replaced."""
        self._told_ms.pop(number, None)
        self.found.pop(number, None)

    def _hand_over(self, number: GroupNo) -> int | None:
        """Who is asked to lead from here on, if anybody can."""
        group = self._host.groups.get(number)
        if group is None or not group.serves or group.transferring:
            return None
        fit = [
            (progress.match, broker)
            for broker, progress in group.core.progresses.items()
            if broker in self._host.peers and progress.state is ProgressState.REPLICATE
        ]
        if not fit:
            return None
        target = BrokerId(max(fit)[1])
        return target if group.transfer(target) else None
