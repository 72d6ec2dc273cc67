"""Repair of damaged segments: each is fetched from a peer and renamed over the damaged file.

Problem: `damage` lists damaged segments; the other voters hold the same bytes, since segments are equal on all
replicas. Mechanism: segments are repaired one at a time. The own file is checked once more, since a disk may succeed in
reading what it failed to read before. Then the voters whose links are up are asked for the segment, one by one. A peer
verifies its whole copy before it offers its size and CRC; a copy of another size ends at another batch and is not used.
The chunks arrive under `repair/`. The copy is verified like any segment and against the own sidecar, synced, and
renamed over the damaged file while no flush or checkpoint of the group is under way. Until then nothing has changed,
and a crash at any point leaves the damaged file or the copy. It does not matter which replica leads; a leader with
damage has transferred leadership. If no peer has an undamaged copy, or the disk has no room, the damage stays listed,
reads of it stay refused, and the repair is tried again later.

A segment that was cleaned, here or at the peers, differs from their copies, and must not be mixed with them: then all
of the leader's files are taken, by a snapshot install.

What it does not do: repair segments that still grow or are not flushed (they are repaired once sealed), or logs whose
segments end at other batches than on every peer (docs/runbooks.md).
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from crc32c import crc32c

from muster_coordinator.errors import Corruption
from muster_coordinator.events import SEGMENT_REPAIRED
from muster_coordinator.ids import BrokerId, broker_of
from muster_coordinator.limits import ERROR_MESSAGE_CHARS_MAX
from muster_coordinator.links import channels
from muster_coordinator.ports import Disk, Loop, Notice, PeerNet, Timer
from muster_coordinator.replica import limits
from muster_coordinator.replica.group_manager import GroupManager
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.replica.snapshots import install_payload as wire
from muster_coordinator.replica.snapshots import repair_files
from muster_coordinator.replica.snapshots.damage import TO_BE_FETCHED, Finding
from muster_coordinator.replica.snapshots.install_payload import Check, Chunk
from muster_coordinator.replica.snapshots.install_source import CLEANED_HERE
from muster_coordinator.replica.snapshots.staging import write_chunk
from muster_coordinator.storage.segment import SegmentSummary
from muster_coordinator.storage.segment_check import CheckedSegment, check_segment, unpaced
from muster_coordinator.storage.segment_index import segment_name

REPAIRED = "a damaged segment was fetched again from a peer"
SOUND = "a segment that was found damaged is undamaged when read again"
FAILED = "a damaged segment could not be fetched again"
NO_COPY = "no peer has a whole copy"
HOLD_RETRY_MS = 50
NUMBERS_FROM = 1 << 63
"""Repairs number their requests from here; the installs of `install` have lower numbers."""


class _Asked(NamedTuple):
    """A peer was asked for the segment and has not answered yet."""

    peer: BrokerId
    install: int


class _Fetch(NamedTuple):
    """A peer has offered the segment: its chunks are fetched."""

    peer: BrokerId
    install: int
    checksum: int
    """CRC32C of the whole file."""
    todo: deque[tuple[int, int]]
    """(offset, length) of the chunks not asked for yet."""
    asked: dict[int, int]
    """Offset -> length of the chunks that were asked for and are not written yet."""


class _Repair:
    """The segment under repair."""

    __slots__ = ("finding", "group", "log", "refusals", "source", "state", "summary", "timer", "tried")

    def __init__(self, finding: Finding, group: RaftGroup, state: PartitionState, summary: SegmentSummary) -> None:
        self.finding = finding
        self.group = group
        self.state = state
        self.log = state.log
        self.summary = summary
        self.tried: set[int] = set()
        self.refusals: list[str] = []
        self.source: _Asked | _Fetch | None = None
        """The peer that was asked, or that sends; None while own files are checked or the copy is put in place."""
        self.timer: Timer | None = None

    @property
    def own(self) -> str:
        return f"{self.state.folder}/{segment_name(self.summary.base)}"

    @property
    def staged(self) -> str:
        return repair_files.staged_name(self.group.number, self.summary.base)


class Repairs:
    """See the module."""

    def __init__(
        self, loop: Loop, disk: Disk, net: PeerNet, host: Host, group_manager: GroupManager, notice: Notice
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._net = net
        self._host = host
        self._group_manager = group_manager
        self._damage = group_manager.damage
        self._notice = notice
        self._numbers = NUMBERS_FROM
        self._repair: _Repair | None = None
        self.repaired = 0
        self.failures = 0

    def start(self) -> None:
        """Remove the copies that a crash has left, then look for damage regularly."""
        self._loop.submit("transfer", partial(repair_files.clear, self._disk), lambda _: self._look())

    def _look(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + limits.REPAIR_LOOK_MS, self._look)
        now_ms = self._loop.monotonic_ms()
        for finding in list(self._damage.found.values()):
            if self._repair is not None:
                return
            if finding.not_before_ms <= now_ms:
                self._begin(finding)

    def _begin(self, finding: Finding) -> None:
        group, state = self._host.groups.get(finding.group), self._group_manager.states.get(finding.group)
        if group is None or state is None:
            self._damage.forget(finding.group)
            return
        if state.closed or group.installing:
            return
        summary = state.log.sealed_at(finding.base)
        if summary is None:
            if not state.log.holds(finding.base):
                self._damage.whole(finding.group, finding.base)  # retention or cleaning has removed it
            return
        self._repair = repair = _Repair(finding, group, state, summary)
        finding.repair = "is being fetched"
        steps = unpaced(check_segment(self._disk, repair.own, state.folder, summary))
        self._loop.submit_paced("scrub", steps, partial(self._own_checked, repair))

    def _own_checked(self, repair: _Repair, result: CheckedSegment | BaseException) -> None:
        if not self._present(repair):
            return
        if isinstance(result, CheckedSegment):
            repair.log.replaced(repair.summary.base)
            self._notice(SOUND, {"group": repair.group.number, "file": repair.own}, None)
            self._whole(repair)
        elif isinstance(result, Corruption | OSError):
            repair.finding.damage = str(result)
            self._ask_next(repair)
        else:
            self._host.fatal(result)

    # -- fetching --------------------------------------------------------------------------------------------------

    def _useless(self, repair: _Repair, peer: BrokerId, why: str) -> None:
        """This peer cannot give the segment: ask the next one."""
        if self._present(repair):
            repair.refusals.append(f"{peer}: {why}")
            self._ask_next(repair)

    def _ask_next(self, repair: _Repair) -> None:
        """Ask the first voter that was not asked yet and whose link is up; fail if there is none."""
        self._stop_listening(repair)
        if repair.log.touched(repair.summary.base):
            self._take_all(repair)
            return
        for peer in repair.group.voters:
            if peer == self._host.broker or peer in repair.tried or peer not in self._host.peers:
                continue
            repair.tried.add(peer)
            self._numbers += 1
            ask = wire.encode_segment_ask(self._numbers, repair.group.number, repair.summary.base)
            if self._net.send(peer, channels.BULK, ask):
                repair.source = _Asked(peer, self._numbers)
                self._listen(repair, peer)
                return
        if any(CLEANED_HERE in refusal for refusal in repair.refusals):
            self._take_all(repair)
            return
        self._fail(repair, "; ".join((NO_COPY, *repair.refusals)))

    def _take_all(self, repair: _Repair) -> None:
        """The segment was cleaned, here or at the others, so no single copy fits: take all of the leader's files, by a
        snapshot install, in place of the own ones. Until it has come, nothing is read or applied here; a restart would
        go on with the damaged files. A leader gives its leadership away first."""
        group = repair.group
        if group.core.leader < 0 or broker_of(group.core.leader) == self._host.broker:
            self._fail(repair, "it was cleaned, so all segments are needed, and no other replica leads")
            return
        repair.finding.repair = "all segments are being fetched: it was cleaned"
        self._group_manager.take_anew(group, f"a cleaned segment is damaged: {repair.finding.damage}")
        self._end(repair)

    def _listen(self, repair: _Repair, peer: BrokerId) -> None:
        if repair.timer is not None:
            repair.timer.cancel()
        when_ms = self._loop.monotonic_ms() + limits.REPAIR_SILENCE_MS
        repair.timer = self._loop.call_at(when_ms, lambda: self._useless(repair, peer, "it is silent"))

    @staticmethod
    def _stop_listening(repair: _Repair) -> None:
        if repair.timer is not None:
            repair.timer.cancel()
        repair.timer = repair.source = None

    def _of(self, peer: BrokerId, install: int) -> _Repair | None:
        """The repair, if it waits for this answer of this peer."""
        repair = self._repair
        source = None if repair is None else repair.source
        if repair is None or source is None or source.peer != peer or source.install != install:
            return None
        return repair if self._present(repair) else None

    def peer_down(self, peer: BrokerId) -> None:
        repair = self._repair
        if repair is not None and repair.source is not None and repair.source.peer == peer:
            self._useless(repair, peer, "its link is down")

    def refused(self, peer: BrokerId, install: int, why: str) -> None:
        repair = self._of(peer, install)
        if repair is not None:
            self._useless(repair, peer, why)

    def offered(self, peer: BrokerId, check: Check) -> bool:
        """A peer offers the segment. False: the message belongs to an install, not to a repair."""
        repair = self._of(peer, check.install)
        if repair is None or isinstance(repair.source, _Fetch) or (check.file, check.offset) != (0, 0):
            return check.install >= NUMBERS_FROM
        size = repair.summary.size
        if check.length != size:
            self._useless(repair, peer, f"its segment has {check.length} bytes, expected {size}")
            return True
        todo = deque(
            (offset, min(limits.INSTALL_CHUNK_BYTES, size - offset))
            for offset in range(0, size, limits.INSTALL_CHUNK_BYTES)
        )
        repair.source = fetch = _Fetch(peer, check.install, check.checksum, todo, {})
        job = partial(repair_files.begin, self._disk, repair.staged, size, self._group_manager.disk_low_bytes)
        self._loop.submit("transfer", job, partial(self._begun, repair, fetch))
        return True

    def _begun(self, repair: _Repair, fetch: _Fetch, result: BaseException | None) -> None:
        if not self._failed(repair, fetch, result):
            self._ask_more(repair, fetch)

    def _ask_more(self, repair: _Repair, fetch: _Fetch) -> None:
        self._listen(repair, fetch.peer)
        while fetch.todo and len(fetch.asked) < limits.REPAIR_CHUNKS_IN_FLIGHT_MAX:
            offset, length = fetch.todo.popleft()
            fetch.asked[offset] = length
            self._net.send(fetch.peer, channels.BULK, wire.encode_chunk_ask(fetch.install, 0, offset, length))
        if not fetch.asked:
            self._check(repair, fetch)

    def chunk(self, peer: BrokerId, chunk: Chunk) -> bool:
        """A chunk of the segment. False: the message belongs to an install, not to a repair."""
        repair = self._of(peer, chunk.install)
        if repair is None:
            return chunk.install >= NUMBERS_FROM
        fetch = repair.source
        if not isinstance(fetch, _Fetch):
            return True
        if fetch.asked.get(chunk.offset) == len(chunk.data) and crc32c(chunk.data) == chunk.checksum:
            job = partial(write_chunk, self._disk, repair.staged, chunk.offset, chunk.data)
            self._loop.submit("transfer", job, partial(self._written, repair, fetch, chunk.offset))
        return True

    def _written(self, repair: _Repair, fetch: _Fetch, offset: int, result: BaseException | None) -> None:
        if not self._failed(repair, fetch, result) and offset in fetch.asked:
            del fetch.asked[offset]
            self._ask_more(repair, fetch)

    def _failed(self, repair: _Repair, fetch: _Fetch, result: object) -> bool:
        """True if this attempt must not go on: it has ended, or the disk has failed."""
        if not self._present(repair) or repair.source is not fetch:
            return True
        if isinstance(result, OSError):
            self._fail(repair, str(result))
            return True
        if isinstance(result, BaseException):
            self._host.fatal(result)
        return False

    # -- putting in place ------------------------------------------------------------------------------------------

    def _check(self, repair: _Repair, fetch: _Fetch) -> None:
        self._stop_listening(repair)
        steps = repair_files.prove(self._disk, repair.staged, repair.state.folder, repair.summary, fetch.checksum)
        self._loop.submit_paced("transfer", steps, partial(self._proven, repair, fetch.peer))

    def _proven(self, repair: _Repair, peer: BrokerId, result: CheckedSegment | BaseException) -> None:
        if not self._present(repair):
            return
        if isinstance(result, Corruption):
            self._useless(repair, peer, str(result))
        elif isinstance(result, OSError):
            self._fail(repair, str(result))
        elif isinstance(result, BaseException):
            self._host.fatal(result)
        else:
            self._put(repair, peer, result)

    def _put(self, repair: _Repair, peer: BrokerId, checked: CheckedSegment) -> None:
        """Put the copy in place when no flush or checkpoint of the group is under way. Invariant: no flush runs between
        the check that the segment still exists and the rename, because a flush removes files by name."""
        if not self._present(repair):
            return
        release = self._group_manager.checkpoints.pause(repair.group.number)
        if release is None:
            when_ms = self._loop.monotonic_ms() + HOLD_RETRY_MS
            self._loop.call_at(when_ms, lambda: self._put(repair, peer, checked))
            return
        job = partial(repair_files.put, self._disk, repair.staged, repair.state.folder, checked)
        self._loop.submit("transfer", job, partial(self._was_put, repair, peer, release))

    def _was_put(
        self, repair: _Repair, peer: BrokerId, release: Callable[[], None], result: BaseException | None
    ) -> None:
        held = repair.state.log is repair.log and not repair.state.closed
        if held and repair.log.holds(repair.summary.base):
            repair.log.replaced(repair.summary.base)  # even after an error, since the rename may have been done
        release()
        if not self._present(repair):
            return
        if isinstance(result, OSError):
            self._fail(repair, str(result))
            return
        if isinstance(result, BaseException):
            self._host.fatal(result)
        self.repaired += 1
        details = {
            "group": repair.group.number,
            "file": repair.own,
            "bytes": repair.summary.size,
            "from": int(peer),
            "damage": repair.finding.damage,
        }
        self._notice(REPAIRED, details, None)
        self._whole(repair)

    # -- ending ----------------------------------------------------------------------------------------------------

    def _present(self, repair: _Repair) -> bool:
        """Is the segment still part of this log, as it was? If retention, deletion, cleaning or a snapshot install has
        removed or replaced it, end the repair."""
        if self._repair is not repair:
            return False
        same = self._group_manager.states.get(repair.group.number) is repair.state and repair.state.log is repair.log
        if same and not repair.state.closed and repair.log.sealed_at(repair.summary.base) == repair.summary:
            return True
        if same and repair.log.sealed_at(repair.summary.base) != repair.summary:
            self._damage.whole(repair.group.number, repair.summary.base)
        repair.finding.repair = TO_BE_FETCHED  # if it is still listed, until the next look
        self._end(repair)
        return False

    def _whole(self, repair: _Repair) -> None:
        repair.group.tell(SEGMENT_REPAIRED, file=repair.own)
        self._damage.whole(repair.group.number, repair.summary.base)
        self._end(repair)

    def _fail(self, repair: _Repair, why: str) -> None:
        """The repair has failed: report it, and retry it after `REPAIR_RETRY_MS`. Reads stay refused."""
        finding = repair.finding
        self.failures += 1
        finding.not_before_ms = self._loop.monotonic_ms() + limits.REPAIR_RETRY_MS
        finding.repair = why[:ERROR_MESSAGE_CHARS_MAX]
        details = {"group": finding.group, "file": repair.own, "damage": finding.damage, "why": finding.repair}
        self._notice(FAILED, details, None)
        self._end(repair)

    def _end(self, repair: _Repair) -> None:
        self._stop_listening(repair)
        self._repair = None
        self._loop.submit("transfer", partial(repair_files.remove, self._disk, repair.staged), _ignore)


def _ignore(_: BaseException | None) -> None:
    """An error of removing the copy does not matter: the next start removes it."""
