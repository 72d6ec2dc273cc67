"""Damaged segments of this replica: reported, refused to readers, led elsewhere, and listed until they are repaired.

Problem: bytes on a disk change. A reader must not get them, nor be told that there are no records, while another
replica holds the same segment undamaged. Mechanism: all parts that find damage (reads, look-ups by time, the scrub, the
check before a segment is given to a peer) report it here. It is written to the log and counted once for each segment,
and at most every `TELL_AGAIN_MS` for a partition that is reported again; with that, leadership of the partition is
transferred to the voter with the highest match whose link is up. Readers get KAFKA_STORAGE_ERROR, after which clients
look up the leader again. Replication goes on, since damage of stored segments affects neither new entries, nor the WAL,
nor the state machine. The list is what `repair` works on and status pages show. What this does not do: repair.
"""

from dataclasses import dataclass

from muster_coordinator.errors import Corruption, SegmentDamaged
from muster_coordinator.events import SEGMENT_DAMAGED
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Notice
from muster_coordinator.raft.progress import ProgressState
from muster_coordinator.replica.limits import DAMAGED_SEGMENTS_MAX
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.status import DamagedFile
from muster_coordinator.storage.segment_index import segment_name

TELL_AGAIN_MS = 30_000
"""Leadership goes back to the preferred replica after a while; without this bound each read of the damage would move it
again."""
WHAT = "stored batches are damaged"
TO_BE_FETCHED = "waits to be fetched from a peer"


@dataclass(slots=True)
class Finding:
    """One damaged segment."""

    group: GroupNo
    base: int
    damage: str
    """What is damaged and where, in words."""
    repair: str = TO_BE_FETCHED
    """State of its repair, in words."""
    not_before_ms: int = 0
    """No repair of it starts before."""


class Damage:
    """See the module."""

    def __init__(self, host: Host, notice: Notice) -> None:
        self._host = host
        self._notice = notice
        self._told_ms: dict[GroupNo, int] = {}
        self.found: dict[tuple[GroupNo, int], Finding] = {}
        """(group, base offset) -> finding, in the order in which they were found."""

    def report(self, number: GroupNo, error: Corruption) -> None:
        """Damage was found in the segments of this group."""
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
        """List the segment. True: it was not listed before."""
        if not isinstance(error, SegmentDamaged) or (number, error.base) in self.found:
            return False
        if len(self.found) >= DAMAGED_SEGMENTS_MAX:
            return False
        self.found[number, error.base] = Finding(number, error.base, str(error))
        return True

    def whole(self, number: GroupNo, base: int) -> None:
        """This segment is undamaged, or was removed."""
        self.found.pop((number, base), None)
        if not any(group == number for group, _ in self.found):
            self._told_ms.pop(number, None)

    def forget(self, number: GroupNo) -> None:
        """The group was deleted, or its files replaced."""
        self._told_ms.pop(number, None)
        for key in [key for key in self.found if key[0] == number]:
            del self.found[key]

    def files(self) -> dict[GroupNo, list[DamagedFile]]:
        """Group -> its damaged segments, for status pages."""
        files: dict[GroupNo, list[DamagedFile]] = {}
        for finding in self.found.values():
            file = DamagedFile(segment_name(finding.base), finding.damage, finding.repair)
            files.setdefault(finding.group, []).append(file)
        return files

    def _hand_over(self, number: GroupNo) -> int | None:
        """Start a leadership transfer, if this replica leads and a voter is fit; returns its target, or None."""
        group = self._host.groups.get(number)
        if group is None or not group.serves or group.transferring:
            return None
        fit = [
            (progress.match, peer)
            for peer in self._host.peers
            if (progress := group.progress_of(peer)) is not None and progress.state is ProgressState.REPLICATE
        ]
        if not fit:
            return None
        target = max(fit)[1]
        return target if group.transfer(target) else None
