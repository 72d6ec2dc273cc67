"""Segments damaged here: told, answered with a typed error, led elsewhere, and remembered until they are whole.

Problem: bytes at rest change; a reader must neither get them nor be told that there is nothing, and another replica
holds the same segment undamaged. Mechanism: whoever meets damage (a reader, a look-up by time, the scrub, a peer that
wants a copy) reports it here. It is a notice (log line and counter) once for each segment and again once in
`TELL_AGAIN_MS` a partition, and leadership of the partition goes to the best-matched voter whose link is up; readers
were answered KAFKA_STORAGE_ERROR, with which clients look for the leader anew. Replication goes on: what the group is
about to write, its WAL and its state machine are sound. What is remembered is what `repair` fetches again, and what
status pages show.
"""

from dataclasses import dataclass

from muster_coordinator.errors import Corruption, SegmentDamaged
from muster_coordinator.events import SEGMENT_DAMAGED
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.ports import Notice
from muster_coordinator.raft.progress import ProgressState
from muster_coordinator.replica.limits import DAMAGED_SEGMENTS_MAX
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.status import DamagedFile
from muster_coordinator.storage.segment_index import segment_name

TELL_AGAIN_MS = 30_000
"""Leaderships come back to their preferred replica; without a bound a reader could have them move all the time."""
WHAT = "stored batches are damaged"
TO_BE_FETCHED = "waits to be fetched from a peer"


@dataclass(slots=True)
class Finding:
    """One segment that is not whole."""

    group: GroupNo
    base: int
    damage: str
    """What was found, where."""
    repair: str = TO_BE_FETCHED
    """How far its repair is, in words."""
    not_before_ms: int = 0
    """It is not tried before."""


class Damage:
    """See the module."""

    def __init__(self, host: Host, notice: Notice) -> None:
        self._host = host
        self._notice = notice
        self._told_ms: dict[GroupNo, int] = {}
        self.found: dict[tuple[GroupNo, int], Finding] = {}
        """By group and base offset; those found first, first."""

    def report(self, number: GroupNo, error: Corruption) -> None:
        """Somebody met it."""
        now_ms = self._host.now_ms()
        new = self._remember(number, error)
        told_ms = self._told_ms.get(number)
        again = told_ms is None or now_ms - told_ms >= TELL_AGAIN_MS
        if not new and not again:
            return
        target = None
        if again:
            self._told_ms[number] = now_ms
            target = self._hand_over(number)
        self._notice(WHAT, {"group": number, "damage": str(error), "led_by_now": target}, None)
        group = self._host.groups.get(number)
        if group is not None:
            group.tell(SEGMENT_DAMAGED, damage=str(error), target=target)

    def _remember(self, number: GroupNo, error: Corruption) -> bool:
        """Is this segment of it a new one?"""
        if not isinstance(error, SegmentDamaged) or (number, error.base) in self.found:
            return False
        if len(self.found) >= DAMAGED_SEGMENTS_MAX:
            return False
        self.found[number, error.base] = Finding(number, error.base, str(error))
        return True

    def whole(self, number: GroupNo, base: int) -> None:
        """This segment is as it was written, or is not there any more."""
        self.found.pop((number, base), None)
        if not any(group == number for group, _ in self.found):
            self._told_ms.pop(number, None)

    def forget(self, number: GroupNo) -> None:
        """The group was deleted, or its files replaced."""
        self._told_ms.pop(number, None)
        for key in [key for key in self.found if key[0] == number]:
            del self.found[key]

    def files(self) -> dict[GroupNo, list[DamagedFile]]:
        """What is not whole, for status pages."""
        files: dict[GroupNo, list[DamagedFile]] = {}
        for finding in self.found.values():
            file = DamagedFile(segment_name(finding.base), finding.damage, finding.repair)
            files.setdefault(finding.group, []).append(file)
        return files

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
