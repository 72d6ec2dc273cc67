"""Which own segments are known to be the offered ones without a question: those that hold applied batches only.

Problem: a follower that is offered one checkpoint after the other holds nearly everything, and comparing that with its
leader each time costs as much as the log is long: rounds stop to shrink. Mechanism: only applied, thus committed,
entries come into segments; committed entries are equal on all replicas, and segments end at the same batches. So a
sealed own segment that begins where the offered one begins, has its size, and ends where the next offered one begins
holds the same batches; that its bytes are as they were written is proven here: every batch's CRC, and the whole sidecar
for epochs, which no CRC covers. The segment that still grows is looked at in the same way, as far as it is written,
and copied. What was verified once is known by the file's identity for as long as
installs follow one another. What it does not take: anything of a group with damage, without a state, or whose promises
were lost, nor after what was staged turned out to be damaged; then the leader is asked (`install_reuse`).
"""

from collections.abc import Generator, Mapping
from typing import NamedTuple

from muster_coordinator.errors import Corruption, SegmentDamaged
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Clock, Disk
from muster_coordinator.replica import limits
from muster_coordinator.replica.group_manager import GroupManager
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.snapshots.install_payload import FileKind, Offer
from muster_coordinator.replica.snapshots.staging import Prefix, Verified, verify_segment
from muster_coordinator.storage.segment import SegmentSummary
from muster_coordinator.storage.segment_check import check_segment

REMEMBER_MS = 600_000
"""After the last offer to a group nothing is known of its files any more: the next install is another one."""


class Plan(NamedTuple):
    """What of an offer is probably here; numbers are those of its files."""

    folder: str
    sealed: tuple[tuple[int, SegmentSummary], ...]
    growing: tuple[tuple[int, Prefix], ...]
    """At most one: the file, and what is written of it."""


NOTHING = Plan("", (), ())


class OwnSegments:
    """What is known of this replica's own files; lives on the loop."""

    def __init__(self, clock: Clock, group_manager: GroupManager) -> None:
        self._clock = clock
        self._group_manager = group_manager
        self._verified: dict[GroupNo, dict[str, Verified]] = {}
        self._used_ms: dict[GroupNo, int] = {}
        self._distrusted: set[GroupNo] = set()

    def plan(self, group: RaftGroup, offer: Offer) -> Plan:
        """Of an offer to a group: what may be taken from here."""
        number, now_ms = group.number, self._clock.monotonic_ms()
        for other in [known for known, used_ms in self._used_ms.items() if now_ms - used_ms > REMEMBER_MS]:
            self._forget(other)
        self._used_ms[number] = now_ms
        state, recovery_point = self._group_manager.states.get(number), offer.recovery_point
        told = any(known == number for known, _ in self._group_manager.damage.found)
        if state is None or recovery_point is None or state.closed or group.trouble or group.suspended or told:
            self._verified.pop(number, None)
            return NOTHING
        names = {file.name for file in offer.files}
        known = self._verified.get(number, {})
        self._verified[number] = {name: one for name, one in known.items() if name in names}
        if number in self._distrusted:
            return NOTHING
        at_of = {int(file.name[:20]): at for at, file in enumerate(offer.files) if file.kind == FileKind.SEGMENT}
        bases = sorted(at_of)
        ends = dict(zip(bases, (*bases[1:], recovery_point.next_offset), strict=True))
        sealed = tuple(
            (at_of[one.base], one)
            for one in state.log.sealed()
            if one.base in at_of and offer.files[at_of[one.base]].size == one.size and ends[one.base] == one.next_offset
        )
        base, prefix = state.log.growing()
        fits = base in at_of and 0 < prefix.size <= offer.files[at_of[base]].size
        return Plan(state.folder, sealed, ((at_of[base], Prefix(*prefix)),) if fits else ())

    def known(self, number: GroupNo) -> Mapping[str, Verified]:
        """Files that need not be verified again, while their identity is the same."""
        return self._verified.get(number, {})

    def verified(self, number: GroupNo, found: Mapping[str, Verified]) -> None:
        """These are whole: own ones, or what is staged and will take their place."""
        self._verified.setdefault(number, {}).update(found)

    def distrust(self, number: GroupNo) -> None:
        """What was staged is damaged, maybe by what lay here: the leader is asked about everything from now on."""
        self._verified.pop(number, None)
        self._distrusted.add(number)

    def _forget(self, number: GroupNo) -> None:
        self._verified.pop(number, None)
        self._used_ms.pop(number, None)
        self._distrusted.discard(number)


def verify(
    disk: Disk, folder: str, summary: SegmentSummary, name: str, known: Verified | None
) -> Generator[None, None, Verified | None]:
    """Steps: is this own segment as it was written? None when it is not, when it has no sidecar to prove its epochs, or
    when it is not there any more."""
    path = f"{folder}/{name}"
    try:
        identity = disk.identity(path)
        if known is not None and known.identity == identity:
            return known
        checking, checked_bytes = check_segment(disk, path, folder, summary), 0
        while True:
            try:
                checked_bytes += next(checking)
            except StopIteration as stop:
                whole = bool(stop.value.sidecar) and disk.identity(path) == identity
                return Verified(identity, summary.next_offset, False) if whole else None
            if checked_bytes >= limits.INSTALL_VERIFY_STEP_BYTES:
                checked_bytes = 0
                yield
    except (SegmentDamaged, Corruption, OSError):
        return None


def verify_growing(disk: Disk, folder: str, name: str, prefix: Prefix) -> Generator[None, None, int]:
    """Steps: the bytes of the own segment that grows which are as they were written: all of the prefix, or none."""
    try:
        index = yield from verify_segment(disk, f"{folder}/{name}", int(name[:20]), prefix.size, prefix)
    except (SegmentDamaged, Corruption, OSError):
        return 0
    return index.size
