"""The leader's side of snapshot install: a checkpoint and the segments up to it, read in chunks off the loop.

Problem: a follower needs files that the leader goes on changing and removing, and afterwards the entries that followed
them. Mechanism: an offer names byte ranges that never change: a published checkpoint, sealed segments, and the active
segment up to the recovery point taken with the checkpoint. If a file is removed in the meantime (by a newer checkpoint
or retention), the install is refused and the follower starts again with a newer offer; files of equal names that it has
staged are used again. While a follower fetches, the core keeps the entries after the offered index
(`RaftGroup.hold_from`), and the WAL its files while it has room, so that replication can continue from there; after the
install they are kept for as long as the follower catches up. A single sealed segment is given to any voter that asks,
also by a follower, after all of it was checked. Files are read by a thread of their own; all chunks together keep to
`install_rate`, and to the broker's throttle. What this does not do: decide that a follower needs an install; the core's
progress does.
"""

from collections.abc import Callable

from crc32c import crc32c

from muster_coordinator.errors import Corruption, SegmentDamaged
from muster_coordinator.events import SNAPSHOT_OFFERED
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.links import channels
from muster_coordinator.ports import Disk, File, Loop, Notice, PeerNet, unnoticed
from muster_coordinator.raft.progress import ProgressState
from muster_coordinator.replica import limits
from muster_coordinator.replica.folders import checkpoint_folder
from muster_coordinator.replica.group_manager import GroupManager
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.multiraft.throttle import Pace
from muster_coordinator.replica.snapshots import install_payload as wire
from muster_coordinator.replica.snapshots.install_payload import Check, Chunk, FileKind, Offer, OfferedFile
from muster_coordinator.storage.checkpoint import CheckpointMeta, checkpoint_name
from muster_coordinator.storage.contract import RecoveryPoint
from muster_coordinator.storage.segment_check import CheckedSegment, check_segment, unpaced
from muster_coordinator.storage.segment_index import segment_name

TOO_MANY = "a partition has too many segments for a snapshot install; raise its segment.bytes or shorten its retention"
FOLLOW_MS = 5_000
"""How often a follower that catches up after an install is checked."""
SEND_RETRY_MS = 20
CLEANED_HERE = "cleaned here"
"""Why a segment is not given: it may not be mixed with the peer's others."""
SEND_TRIES_MAX = 250
"""Five seconds of a full bulk channel; then the chunk is dropped, and the follower gives the install up for silence."""


class _Session:
    """One follower's install, or its fetch of one segment."""

    __slots__ = ("checkpoint", "group", "index", "install", "paths", "peer", "reading", "sizes", "used_ms")

    def __init__(
        self,
        peer: BrokerId,
        install: int,
        group: GroupNo,
        index: int | None,
        checkpoint: File,
        paths: list[str],
        sizes: list[int],
    ) -> None:
        self.checkpoint = checkpoint
        """The checkpoint, or the one segment, kept open so that it can be read after its removal; `paths[0]` is its
        path.
        """
        self.group = group
        self.index = index
        """Index of the checkpoint; None for a fetch of one segment."""
        self.peer = peer
        self.install = install
        self.paths = paths
        self.sizes = sizes
        self.used_ms = 0
        self.reading: set[tuple[int, int]] = set()
        """(file, offset) of chunks that were asked for and are not read yet: whoever asks again while the throttle
        delays one is not sent it twice."""


class InstallSource:
    """See the module."""

    def __init__(
        self,
        loop: Loop,
        disk: Disk,
        net: PeerNet,
        host: Host,
        group_manager: GroupManager,
        rate: int,
        notice: Notice = unnoticed,
    ) -> None:
        """`rate`: bytes a second, by the broker's file; its throttle may be slower."""
        self._notice = notice
        self._pace = Pace(rate)
        self._loop = loop
        self._disk = disk
        self._net = net
        self._host = host
        self._group_manager = group_manager
        self._sessions: dict[tuple[BrokerId, int], _Session] = {}
        self.bytes_sent = 0
        self._checking = False
        """A segment is being checked for a peer; one at a time."""

    def peer_down(self, peer: BrokerId) -> None:
        for key in [key for key in self._sessions if key[0] == peer]:
            self._end(*key)

    def serves(self, number: GroupNo) -> bool:
        """Does a follower fetch a checkpoint and segments of this group?"""
        return any(session.group == number and session.index is not None for session in self._sessions.values())

    def ask(self, peer: BrokerId, payload: bytes) -> None:
        """A follower asks for a checkpoint of at least some index, or a voter for one segment."""
        install, number, index = wire.decode_ask(payload)
        group = self._host.groups.get(GroupNo(number))
        if index & wire.SEGMENT_ASKED:
            self._segment_ask(peer, install, group, index ^ wire.SEGMENT_ASKED)
            return
        if group is None or not group.leads or group.progress_of(peer) is None:
            self._refuse(peer, install, "not led here")
            return
        if self._usable(group.number, index) is None:
            if group.applied < index:
                self._refuse(peer, install, "not applied so far yet")
                return
            self._group_manager.checkpoints.want(group.number, lambda: self._offer(peer, install, group.number, index))
            return
        self._offer(peer, install, group.number, index)

    def _segment_ask(self, peer: BrokerId, install: int, group: RaftGroup | None, base: int) -> None:
        """A voter's segment is damaged and it asks for this replica's. The own segment is given only if all of it
        proves undamaged; damage found in it is reported."""
        state = None if group is None else self._group_manager.states.get(group.number)
        if group is None or state is None or state.closed or peer not in group.voters:
            self._refuse(peer, install, "not held here")
            return
        log, folder, number = state.log, state.folder, group.number
        summary = log.sealed_at(base)
        if summary is None or self._checking or len(self._sessions) >= limits.INSTALLS_MAX:
            self._refuse(peer, install, "no such segment" if summary is None else "others are being served")
            return
        if log.touched(base):
            self._refuse(peer, install, CLEANED_HERE)
            return
        path = f"{folder}/{segment_name(base)}"
        self._checking = True

        def checked(result: CheckedSegment | BaseException) -> None:
            self._checking = False
            if not isinstance(result, BaseException):
                self._give(peer, install, number, path, summary.size, result.checksum)
                return
            self._refuse(peer, install, f"not whole here: {result}")
            if not isinstance(result, Corruption | OSError):
                raise result
            if isinstance(result, Corruption) and state.log is log and log.holds(base):
                self._group_manager.damage.report(number, SegmentDamaged(base, str(result)))

        self._loop.submit_paced("scrub", unpaced(check_segment(self._disk, path, folder, summary)), checked)

    def _give(self, peer: BrokerId, install: int, number: GroupNo, path: str, size: int, checksum: int) -> None:
        if len(self._sessions) >= limits.INSTALLS_MAX:
            self._refuse(peer, install, "others are being served")
            return
        try:
            file = self._disk.open(path)
        except OSError as error:
            self._refuse(peer, install, str(error))
            return
        self._admit(_Session(peer, install, number, None, file, [path], [size]))
        self._net.send(peer, channels.BULK, wire.encode_check(Check(install, 0, 0, size, checksum)))

    def _usable(self, number: GroupNo, index: int) -> tuple[CheckpointMeta, RecoveryPoint | None] | None:
        """The newest checkpoint, if it reaches `index` and the log still has the segment of its recovery point. If
        retention has removed that segment, only a newer checkpoint is of use to a follower."""
        newest = self._group_manager.checkpoints.newest(number)
        state = self._group_manager.states.get(number)
        if newest is None or newest[0].index < index:
            return None
        if state is not None and newest[1] is not None and not state.log.reaches_back_to(newest[1]):
            return None
        return newest

    def _offer(self, peer: BrokerId, install: int, number: GroupNo, index: int) -> None:
        newest = self._usable(number, index)
        if newest is None:
            self._refuse(peer, install, "no checkpoint reaches so far")
            return
        meta, recovery_point = newest
        name = checkpoint_name(meta.index, meta.term)
        paths = [f"{checkpoint_folder(number)}/{name}"]
        kinds = [FileKind.CHECKPOINT]
        if not self._disk.exists(paths[0]):
            self._refuse(peer, install, "the checkpoint is not there any more")
            return
        checkpoint = self._disk.open(paths[0])
        sizes = [checkpoint.size()]
        state = self._group_manager.states.get(number)
        if state is not None and recovery_point is not None:
            for path, written in state.log.files():
                base = int(path.rpartition("/")[2].removesuffix(".log"))
                if base <= recovery_point.segment:
                    paths.append(path)
                    kinds.append(FileKind.SEGMENT)
                    sizes.append(recovery_point.position if base == recovery_point.segment else written)
        if len(paths) > limits.INSTALL_FILES_MAX:
            checkpoint.close()
            self._notice(TOO_MANY, {"group": number, "files": len(paths), "most": limits.INSTALL_FILES_MAX}, None)
            self._refuse(peer, install, f"{TOO_MANY}: {len(paths)} files, {limits.INSTALL_FILES_MAX} at most")
            return
        session = _Session(peer, install, GroupNo(number), meta.index, checkpoint, paths, sizes)
        self._admit(session)
        group = self._host.groups.get(GroupNo(number))
        if group is not None:
            group.tell(SNAPSHOT_OFFERED, target=int(peer), applied=meta.index, files=len(paths), size_bytes=sum(sizes))
        files = tuple(
            OfferedFile(kind, path.rpartition("/")[2], size)
            for kind, path, size in zip(kinds, paths, sizes, strict=True)
        )
        state = self._group_manager.states.get(number)
        cleaned = state is not None and state.log.cleaned.touched_to > 0
        offer = Offer(
            install, number, meta.index, meta.term, recovery_point, files, True, config=meta.config, cleaned=cleaned
        )
        self._send_offer(session, [wire.encode_offer(part) for part in wire.parts(offer)], SEND_TRIES_MAX)

    def _send_offer(self, session: _Session, frames: list[bytes], tries: int) -> None:
        """Send an offer's frames in order, as the bulk channel takes them, while the session lasts."""
        if not frames or self._sessions.get((session.peer, session.install)) is not session:
            return
        rest, left = frames, tries - 1
        if self._net.send(session.peer, channels.BULK, frames[0]):
            self._used(session)
            rest, left = frames[1:], SEND_TRIES_MAX
        if left:
            when_ms = self._loop.monotonic_ms() + (SEND_RETRY_MS if rest is frames else 0)
            self._loop.call_at(when_ms, lambda: self._send_offer(session, rest, left))

    def _admit(self, session: _Session) -> None:
        """Add a session. At most `INSTALLS_MAX` exist: the one that was unused for the longest is ended."""
        while len(self._sessions) >= limits.INSTALLS_MAX:
            oldest = min(self._sessions.values(), key=lambda known: known.used_ms)
            self._end(oldest.peer, oldest.install)
            self._refuse(oldest.peer, oldest.install, "others are being served")
        self._sessions[session.peer, session.install] = session
        self._used(session)
        self._look_again(session)

    def _look_again(self, session: _Session) -> None:
        """End the session, and close its file, when it was unused for `INSTALL_HOLD_MS`."""
        key = session.peer, session.install

        def look() -> None:
            if self._sessions.get(key) is not session:
                return
            if self._loop.monotonic_ms() - session.used_ms >= limits.INSTALL_HOLD_MS:
                self._end(*key)
                self._await_install(session, session.used_ms + limits.INSTALL_MS_MAX)
            else:
                self._look_again(session)

        self._loop.call_at(session.used_ms + limits.INSTALL_HOLD_MS, look)

    def _used(self, session: _Session) -> None:
        """The follower uses the session: keep it, and the entries after its checkpoint."""
        session.used_ms = self._loop.monotonic_ms()
        group = self._host.groups.get(session.group)
        if group is not None and session.index is not None:
            until_ms = session.used_ms + limits.INSTALL_HOLD_MS + FOLLOW_MS
            group.hold_from(session.peer, session.index, until_ms)

    def _await_install(self, session: _Session, until_ms: int) -> None:
        """Keep the entries after the checkpoint while the follower verifies the files and puts them in place, in which
        time it sends nothing; until its core has the checkpoint, or `until_ms`."""
        peer, index = session.peer, session.index
        group = self._host.groups.get(session.group)
        progress = group.progress_of(peer) if group is not None and group.leads else None
        if group is None or progress is None or index is None or peer not in self._host.peers:
            return
        now_ms = self._loop.monotonic_ms()
        if progress.state is not ProgressState.SNAPSHOT:
            self._follow(peer, session.group, -1)
        elif now_ms < until_ms:
            group.hold_from(peer, index, now_ms + 2 * FOLLOW_MS)
            self._loop.call_at(now_ms + FOLLOW_MS, lambda: self._await_install(session, until_ms))

    def _follow(self, peer: BrokerId, number: GroupNo, before: int) -> None:
        """After an install: keep the entries that the follower still lacks, for as long as its match advances.
        `before`: its match at the last check."""
        group = self._host.groups.get(number)
        progress = group.progress_of(peer) if group is not None and group.leads else None
        if group is None or progress is None or progress.state is ProgressState.SNAPSHOT or progress.match <= before:
            return
        if group.core.last_index - progress.match <= limits.FOLLOWED_ENTRIES:
            return
        now_ms, match = self._loop.monotonic_ms(), progress.match
        group.hold_from(peer, match, now_ms + 2 * FOLLOW_MS)
        self._loop.call_at(now_ms + FOLLOW_MS, lambda: self._follow(peer, number, match))

    def _end(self, peer: BrokerId, install: int) -> None:
        """End a session. The reading thread closes its file, after the reads that were submitted before."""
        session = self._sessions.pop((peer, install), None)
        if session is not None:
            self._loop.submit("transfer-source", session.checkpoint.close, _ignore)

    def _job(self, session: _Session, number: int, offset: int, length: int) -> Callable[[], tuple[bytes, int]]:
        if number:
            return read_job(self._disk, session.paths[number], offset, length)
        return lambda: _read(session.checkpoint, session.paths[0], offset, length)

    def chunk_ask(self, peer: BrokerId, payload: bytes) -> None:
        """Read a chunk off the loop and send it."""
        install, number, offset, length = wire.decode_chunk_ask(payload)
        session = self._sessions.get((peer, install))
        if session is None or number >= len(session.paths) or offset + length > session.sizes[number]:
            self._refuse(peer, install, "no such transfer")
            return
        self._used(session)
        if (number, offset) in session.reading:
            return
        session.reading.add((number, offset))

        def read(result: tuple[bytes, int] | BaseException) -> None:
            session.reading.discard((number, offset))
            if isinstance(result, BaseException):
                self._end(peer, install)
                self._refuse(peer, install, "a file is not there any more")
            else:
                data, checksum = result
                self._send(peer, wire.encode_chunk(Chunk(install, number, offset, checksum, data)), SEND_TRIES_MAX)

        job = self._job(session, number, offset, length)
        wait_ms = self._wait_ms(length)
        if wait_ms:
            when_ms = self._loop.monotonic_ms() + wait_ms
            self._loop.call_at(when_ms, lambda: self._loop.submit("transfer-source", job, read))
        else:
            self._loop.submit("transfer-source", job, read)

    def _wait_ms(self, length: int) -> int:
        """How long a read of `length` bytes must wait to keep to the rates."""
        now_ms = self._loop.monotonic_ms()
        return max(self._pace.wait_ms(now_ms, length), self._host.throttle.sends.wait_ms(now_ms, length))

    def check_ask(self, peer: BrokerId, payload: bytes) -> None:
        """Read a range off the loop and send its checksum."""
        install, number, offset, length = wire.decode_check_ask(payload)
        session = self._sessions.get((peer, install))
        if session is None or number >= len(session.paths) or offset + length > session.sizes[number]:
            self._refuse(peer, install, "no such transfer")
            return
        self._used(session)

        def read(result: tuple[bytes, int] | BaseException) -> None:
            if isinstance(result, BaseException):
                self._end(peer, install)
                self._refuse(peer, install, "a file is not there any more")
            else:
                self._send(peer, wire.encode_check(Check(install, number, offset, length, result[1])), SEND_TRIES_MAX)

        self._loop.submit("transfer-source", self._job(session, number, offset, length), read)

    def _send(self, peer: BrokerId, payload: bytes, tries: int) -> None:
        if self._net.send(peer, channels.BULK, payload):
            self.bytes_sent += len(payload)
        elif tries and self._net.is_up(peer):
            when_ms = self._loop.monotonic_ms() + SEND_RETRY_MS
            self._loop.call_at(when_ms, lambda: self._send(peer, payload, tries - 1))

    def _refuse(self, peer: BrokerId, install: int, why: str) -> None:
        self._net.send(peer, channels.BULK, wire.encode_refusal(install, why))


def read_job(disk: Disk, path: str, offset: int, length: int) -> Callable[[], tuple[bytes, int]]:
    """Job: read a range; returns its bytes and their CRC32C. Raises FileNotFoundError also if the file is shorter."""

    def job() -> tuple[bytes, int]:
        file = disk.open(path)
        try:
            return _read(file, path, offset, length)
        finally:
            file.close()

    return job


def _read(file: File, path: str, offset: int, length: int) -> tuple[bytes, int]:
    data = file.pread(offset, length)
    if len(data) != length:
        raise FileNotFoundError(path)
    return data, crc32c(data)


def _ignore(result: BaseException | None) -> None:
    """Errors of closing a file that was only read do not matter."""
