"""Own segments that are known to equal the offered ones without asking the leader.

Problem: a follower that is offered one checkpoint after another holds nearly all segments already. Comparing them with
the leader's each time takes time in proportion to the whole log, so it never catches up. Mechanism: segments hold only
applied, thus committed, entries; these are equal on all replicas, and segments end at the same batches everywhere. So a
sealed own segment with the same base offset and size as the offered one, which ends where the next offered segment
begins, holds the same batches. That its bytes are undamaged is verified here: the CRC of each batch, and a valid
sidecar for the leader epochs, which no batch CRC covers. The growing segment is verified in the same way as far as it
is written, and copied. A verified file is known by its identity for as long as installs follow one another. What this
does not use: files of a group that is damaged, without a state or suspended, or whose last staged files proved to be
damaged; nor any for an offer with cleaned segments, nor own cleaned segments. Then the leader is asked
(`install_reuse`).
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
"""How long after the last offer to a group its verified files are remembered."""


class Plan(NamedTuple):
    """The files of an offer that own segments should equal; files are given by their number in the offer."""

    folder: str
    sealed: tuple[tuple[int, SegmentSummary], ...]
    """(file, the own segment)"""
    growing: tuple[tuple[int, Prefix], ...]
    """At most one (file, what is written of the own segment)."""


NOTHING = Plan("", (), ())


class OwnSegments:
    """What is known of this replica's own files; used on the loop only."""

    def __init__(self, clock: Clock, group_manager: GroupManager) -> None:
        self._clock = clock
        self._group_manager = group_manager
        self._verified: dict[GroupNo, dict[str, Verified]] = {}
        self._used_ms: dict[GroupNo, int] = {}
        self._distrusted: set[GroupNo] = set()

    def plan(self, group: RaftGroup, offer: Offer) -> Plan:
        """The own segments that may be used for an offer; they are still to be verified."""
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
        if number in self._distrusted or offer.cleaned:
            return NOTHING
        at_of = {int(file.name[:20]): at for at, file in enumerate(offer.files) if file.kind == FileKind.SEGMENT}
        bases = sorted(at_of)
        ends = dict(zip(bases, (*bases[1:], recovery_point.next_offset), strict=True))
        sealed = tuple(
            (at_of[one.base], one)
            for one in state.log.sealed()
            if one.base in at_of
            and not state.log.touched(one.base)
            and offer.files[at_of[one.base]].size == one.size
            and ends[one.base] == one.next_offset
        )
        base, prefix = state.log.growing()
        fits = base in at_of and 0 < prefix.size <= offer.files[at_of[base]].size
        return Plan(state.folder, sealed, ((at_of[base], Prefix(*prefix)),) if fits else ())

    def known(self, number: GroupNo) -> Mapping[str, Verified]:
        """name -> files of the group that need not be verified again while their identity is the same."""
        return self._verified.get(number, {})

    def verified(self, number: GroupNo, found: Mapping[str, Verified]) -> None:
        """Remember verified files: own ones, or staged ones that will replace them."""
        self._verified.setdefault(number, {}).update(found)

    def distrust(self, number: GroupNo) -> None:
        """The staged files proved to be damaged, perhaps because own files are: ask the leader about all files of this
        group from now on."""
        self._verified.pop(number, None)
        self._distrusted.add(number)

    def _forget(self, number: GroupNo) -> None:
        self._verified.pop(number, None)
        self._used_ms.pop(number, None)
        self._distrusted.discard(number)


def verify(
    disk: Disk, folder: str, summary: SegmentSummary, name: str, known: Verified | None
) -> Generator[None, None, Verified | None]:
    """Job in steps: verify an own segment. None if it is damaged, has no valid sidecar to verify its leader epochs, or
    was removed."""
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
    """Job in steps: verify the written part of the growing own segment; returns its size, or 0 if it is damaged."""
    try:
        index = yield from verify_segment(disk, f"{folder}/{name}", int(name[:20]), prefix.size, prefix)
    except (SegmentDamaged, Corruption, OSError):
        return 0
    return index.size
