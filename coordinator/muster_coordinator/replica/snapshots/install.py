"""Snapshot install to this replica: fetch a leader's checkpoint and segments, then put them in place (decision 2).

Problem: a follower needs entries that its leader has compacted, or has lost its state. Mechanism: the leader offers a
checkpoint (SNAPSHOT). The follower asks for it, pulls the files in chunks of `INSTALL_CHUNK_BYTES` over the bulk
channel, with `CHUNKS_IN_FLIGHT_MAX` chunks in flight and for at most `INSTALLS_MAX` groups at once, and stages them
(`staging`). After an interruption, staged segments are used again: segments never change, so for a later offer with the
same names only the missing bytes are fetched. Votes, appends and heartbeats go on; applying pauses while the files are
swapped. Invariant: no file is put in place before all its checksums match.

If the disk is full or fails while files arrive, the install is given up. While files are put in place it is retried
until it succeeds, because the group's own files are removed by then. A group without a state (`GroupManager.troubled`)
is healed here: its sealed install is put in place if there is one, otherwise its leader is asked. What this does not
do: decide that a checkpoint is needed; the core does that (`RaftCore.snapshot_offer`).
"""

from collections import Counter, deque
from collections.abc import Callable
from errno import EDQUOT, ENOSPC
from functools import partial

from crc32c import crc32c

from muster_coordinator.errors import Corruption, SegmentDamaged, StorageFailed, WireError
from muster_coordinator.events import INSTALL_FAILED, INSTALL_STARTED, INSTALLED
from muster_coordinator.ids import BrokerId, GroupNo, broker_of
from muster_coordinator.links import channels
from muster_coordinator.ports import Disk, Loop, Notice, PeerNet, Timer, unnoticed
from muster_coordinator.raft.core import TERM_MAX
from muster_coordinator.replica import limits
from muster_coordinator.replica.group_manager import GroupManager, Swapped
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.payloads import Kind
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.snapshots import install_own, staging
from muster_coordinator.replica.snapshots import install_payload as wire
from muster_coordinator.replica.snapshots.install_own import OwnSegments
from muster_coordinator.replica.snapshots.install_payload import Check, Chunk, FileKind, Offer
from muster_coordinator.replica.snapshots.install_reuse import Reuse
from muster_coordinator.replica.snapshots.install_source import InstallSource
from muster_coordinator.replica.snapshots.repair import Repairs
from muster_coordinator.replica.snapshots.staging import Prefix, Staged, Verified
from muster_coordinator.storage.segment import SegmentSummary

CHUNKS_IN_FLIGHT_MAX = 8
ALIVE_MS = 1_000
"""How often a follower that checks its own segments sends the leader a message, to keep the install alive."""
SILENCE_MS = 5_000
"""An install without a message from the leader for this time is given up; the leader offers again."""
CHUNK_AGAIN_MS = 2_000
"""After this time without a message from the leader, the chunks that have not come are asked for again."""
HOLD_RETRY_MS = 50
SILENT = f"no message from the leader for {SILENCE_MS // 1_000} seconds"
NOT_AS_WRITTEN = "fetched files of a snapshot install are damaged: they are fetched again"
GIVEN_UP = "a snapshot install is given up for now: the disk is full or has failed"
SWAP_RETRY_MS = 1_000
HEAL_MS = 500
"""How often the groups without a state are looked at."""
ROOM_RETRY_MS = 5_000
"""How long a group is not asked for again after the disk had no room for its install, or failed."""


class _Ask:
    """A request to a leader for a checkpoint of one group, until the offer has come."""

    __slots__ = ("group", "leader", "number", "parts", "timer")

    def __init__(self, number: int, group: RaftGroup, leader: BrokerId) -> None:
        self.number = number
        self.group = group
        self.leader = leader
        self.parts: Offer | None = None
        """The frames received so far of an offer that needs several."""
        self.timer: Timer | None = None
        """Gives the install up after `SILENCE_MS`."""


class _Pull(_Ask):
    """An install whose offer has come: its files are fetched."""

    __slots__ = ("asked", "awaited", "equal", "heard_ms", "looks", "offer", "own", "paced", "reuse", "todo", "todo_own")

    def __init__(self, ask: _Ask, offer: Offer) -> None:
        """Replaces `ask` and takes over its timer."""
        super().__init__(ask.number, ask.group, ask.leader)
        self.timer = ask.timer
        self.offer = offer
        self.todo: deque[tuple[int, int, int]] = deque()
        """(file, offset, length) not asked for yet"""
        self.asked: dict[tuple[int, int], int] = {}
        """(file, offset) -> length of chunks that were asked for and are not written yet"""
        self.awaited: dict[tuple[int, int], int] = {}
        """The part of `asked` that has not come"""
        self.heard_ms = 0
        """When the last chunk came, or chunks were asked for again"""
        self.reuse: Reuse | None = None
        self.own = install_own.NOTHING
        self.paced = False
        """The throttle delays the next request."""
        self.looks = False
        """Own files are being checked or copied: no chunk is asked for yet."""
        self.todo_own: deque[tuple[int, SegmentSummary | Prefix]] = deque()
        """Own segments that are still to be checked: (file, what they should be)."""
        self.equal: dict[int, int] = {}
        """file -> its first bytes that own segments hold, proven without asking the leader"""


class SnapshotInstalls:
    """Both sides of snapshot install; the leader's is `source`. `repairs` mends single segments."""

    def __init__(
        self, loop: Loop, disk: Disk, net: PeerNet, host: Host, group_manager: GroupManager, notice: Notice = unnoticed
    ) -> None:
        self._notice = notice
        self._loop = loop
        self._disk = disk
        self._net = net
        self._host = host
        self._group_manager = group_manager
        self.source = InstallSource(loop, disk, net, host, group_manager, group_manager.install_rate, notice)
        self.repairs = Repairs(loop, disk, net, host, group_manager, notice)
        self._own = OwnSegments(loop, group_manager)
        self._pulls: dict[int, _Ask] = {}
        """number of the install -> its state: `_Ask`, and `_Pull` from its offer on"""
        self._installing: set[GroupNo] = set()
        """Groups whose fetched files are verified or put in place; no other install of them starts."""
        self._have: dict[GroupNo, dict[str, int]] = {}
        """group -> file name -> bytes staged without a gap since the start, of this install and interrupted ones"""
        self._cleaned: set[GroupNo] = set()
        """Groups of whose staged files some are cleaned ones: they are of use to the install that fetched them only."""
        self._put_off: dict[GroupNo, None] = {}
        """Groups whose offers found `INSTALLS_MAX` under way, in their order: the next place is theirs. A leader
        repeats its offer only after an election timeout, and may need this replica for its quorum."""
        self._not_before_ms: dict[GroupNo, int] = {}
        """group -> no install of it starts before"""
        self._numbers = 0
        self.installed: Counter[GroupNo] = Counter()
        """group -> checkpoints fetched and put in place since the start"""
        self.bytes_received = 0
        self.bytes_reused = 0
        """Bytes of installs that own files held already."""
        self.given_up = 0
        """Installs given up because the disk was full or failed."""

    # -- beginning and ending --------------------------------------------------------------------------------------

    def offered(self, number: GroupNo) -> None:
        """The core of this group has a leader's offer of a checkpoint: start an install."""
        group = self._host.groups.get(number)
        offer = group.core.snapshot_offer if group is not None else None
        if group is None or offer is None or number in self._installing:
            return
        self._pull_from(group, broker_of(offer[0]), offer[1])

    def fetches(self, number: GroupNo) -> bool:
        """Does this replica fetch or put in place files of this group, or read its own for that?"""
        return number in self._installing or any(pull.group.number == number for pull in self._pulls.values())

    def start(self) -> None:
        """Start the timers that heal groups without a state, and damaged segments."""
        self.repairs.start()
        self._loop.call_at(self._loop.monotonic_ms() + HEAL_MS, self._heal)

    def _heal(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + HEAL_MS, self._heal)
        for number, sealed in list(self._group_manager.troubled.items()):
            group = self._host.groups[number]
            if number in self._installing:
                continue
            if sealed is not None:
                self._group_manager.troubled[number] = None
                self._installing.add(number)
                self._sealed(sealed, None)
            elif group.core.leader >= 0 and broker_of(group.core.leader) != self._host.broker:
                self._pull_from(group, broker_of(group.core.leader), group.core.applied)

    def _pull_from(self, group: RaftGroup, leader: BrokerId, index: int) -> None:
        """Ask `leader` for a checkpoint of at least `index`, unless an install from it is under way."""
        number = group.number
        if self._loop.monotonic_ms() < self._not_before_ms.get(number, 0):
            return
        for pull in list(self._pulls.values()):
            if pull.group is group:
                if pull.leader == leader:
                    return
                self._fail(pull, "another replica leads now")
        if len(self._pulls) >= limits.INSTALLS_MAX:
            self._put_off[number] = None
            return
        self._numbers += 1
        ask = _Ask(self._numbers, group, leader)
        self._pulls[ask.number] = ask
        self._listen(ask)
        self._net.send(leader, channels.BULK, wire.encode_ask(ask.number, number, index))

    def _listen(self, pull: _Ask) -> None:
        """Restart the timer that gives the install up: a message has come, or one is expected from now on."""
        if pull.timer is not None:
            pull.timer.cancel()
        when_ms = self._loop.monotonic_ms() + SILENCE_MS
        pull.timer = self._loop.call_at(when_ms, partial(self._silent, pull.number))

    def _silent(self, number: int) -> None:
        pull = self._pulls.get(number)
        if pull is not None:
            self._fail(pull, SILENT)

    def _fail(self, pull: _Ask, reason: str) -> None:
        """End an install without a result; told to the log if its offer had come."""
        if pull.number in self._pulls and isinstance(pull, _Pull):
            pull.group.tell(INSTALL_FAILED, reason=reason)
        self._drop(pull)

    def _drop(self, pull: _Ask) -> None:
        if pull.timer is not None:
            pull.timer.cancel()
            pull.timer = None
        self._pulls.pop(pull.number, None)
        if self._put_off:
            self._loop.call_at(self._loop.monotonic_ms(), self._take_up)

    def _take_up(self) -> None:
        """Start installs that were put off, as far as there are places. Those that need none any more start none."""
        while self._put_off and len(self._pulls) < limits.INSTALLS_MAX:
            number = next(iter(self._put_off))
            del self._put_off[number]
            self.offered(number)

    def peer_down(self, peer: BrokerId) -> None:
        self.source.peer_down(peer)
        self.repairs.peer_down(peer)
        for pull in [pull for pull in self._pulls.values() if pull.leader == peer]:
            self._fail(pull, "the link to the leader is down")

    # -- messages --------------------------------------------------------------------------------------------------

    def received(self, peer: BrokerId, kind: Kind, payload: bytes) -> None:
        """An install message of a trusted peer. Raises `WireError` if it is malformed."""
        match kind:
            case Kind.INSTALL_ASK:
                self.source.ask(peer, payload)
            case Kind.CHUNK_ASK:
                self.source.chunk_ask(peer, payload)
            case Kind.CHECK_ASK:
                self.source.check_ask(peer, payload)
            case Kind.CHECK:
                check = wire.decode_check(payload)
                if not self.repairs.offered(peer, check):
                    self._checked(peer, check)
            case Kind.INSTALL_OFFER:
                self._offer(peer, wire.decode_offer(payload))
            case Kind.CHUNK:
                chunk = wire.decode_chunk(payload)
                if not self.repairs.chunk(peer, chunk):
                    self._chunk(peer, chunk)
            case Kind.INSTALL_REFUSAL:
                install, why = wire.decode_refusal(payload)
                self.repairs.refused(peer, install, why)
                pull = self._pulls.get(install)
                if pull is not None and pull.leader == peer:
                    self._fail(pull, f"refused: {why}")
            case _:
                raise AssertionError(kind)

    def _offer(self, peer: BrokerId, offer: Offer) -> None:
        ask = self._pulls.get(offer.install)
        if ask is None or ask.leader != peer or isinstance(ask, _Pull) or ask.group.number != offer.group:
            return
        if ask.parts is not None:
            try:
                offer = wire.joined(ask.parts, offer)
            except WireError:
                self._drop(ask)
                raise
        if offer.more:
            ask.parts = offer
            self._listen(ask)
            return
        has_segments = offer.group in self._group_manager.states
        outdated = not self._of_use(ask.group, offer) or offer.term > TERM_MAX or not _may_follow(ask.group, offer)
        if has_segments != (offer.recovery_point is not None) or outdated:
            self._drop(ask)
            return
        self._pulls[ask.number] = pull = _Pull(ask, offer)
        self._begin(pull)

    def _begin(self, pull: _Pull) -> None:
        """Start fetching: remove staged files that this offer does not name, then find out what is here already."""
        offer, number = pull.offer, pull.group.number
        pull.group.tell(
            INSTALL_STARTED,
            leader=int(pull.leader),
            applied=offer.index,
            files=len(offer.files),
            size_bytes=sum(file.size for file in offer.files),
        )
        if offer.cleaned or number in self._cleaned:
            self._have.pop(number, None)
        if offer.cleaned:
            self._cleaned.add(number)
        else:
            self._cleaned.discard(number)
        have = {
            file.name: min(file.size, self._have.get(number, {}).get(file.name, 0))
            for file in offer.files
            if file.kind == FileKind.SEGMENT
        }
        self._have[number] = {name: size for name, size in have.items() if size}
        keep = frozenset(self._have[number])
        state = self._group_manager.states.get(number)
        folder = state.folder if state is not None and offer.checks else ""
        if folder:
            pull.own = self._own.plan(pull.group, offer)

        def job() -> dict[str, int]:
            staging.begin(self._disk, number, keep)
            return staging.sizes(self._disk, folder) if folder else {}

        self._loop.submit("transfer", job, partial(self._begun, pull, folder))

    def _begun(self, pull: _Pull, folder: str, result: dict[str, int] | BaseException) -> None:
        """Staged files that are not needed are removed; now check which own segments in `folder` can be used."""
        if self._failed(pull.group.number, pull, result) or pull.number not in self._pulls:
            return
        assert not isinstance(result, BaseException)
        have = self._have.get(pull.group.number, {})
        names = [file.name for file in pull.offer.files]
        rows: list[tuple[int, SegmentSummary | Prefix]] = [*pull.own.sealed, *pull.own.growing]
        pull.todo_own.extend(
            (at, own) for at, own in rows if own.size <= result.get(names[at], 0) and names[at] not in have
        )
        pull.looks = folder != ""
        self._look_alive(pull)
        self._next_own(pull, folder, result)

    def _look_alive(self, pull: _Pull) -> None:
        """Keep the install alive on both sides while nothing is expected of the leader: own files are checked and
        copied, all chunks that were asked for have come and this disk is slow to take them, or a throttle delays
        them. Ask for the checksum of one byte every `ALIVE_MS`; else the leader would end the session, and this replica
        the install, for silence."""
        if pull.number not in self._pulls:
            return
        if pull.looks or not pull.awaited or self._host.throttle.is_set:
            self._listen(pull)
            if pull.offer.checks:  # a leader of an earlier release would close the link
                self._net.send(pull.leader, channels.BULK, wire.encode_check_ask(pull.number, 0, 0, 1))
            if pull.reuse is not None:
                pull.reuse.ask_again()
        self._loop.call_at(self._loop.monotonic_ms() + ALIVE_MS, lambda: self._look_alive(pull))

    def _next_own(self, pull: _Pull, folder: str, here: dict[str, int]) -> None:
        """Check the next own segment in a job of its own; after the last, ask the leader about the other files."""
        if pull.number not in self._pulls:
            return
        files, number = pull.offer.files, pull.group.number
        if not pull.todo_own:
            have = self._have.get(number, {})
            both = [
                (at, f"{folder}/{file.name}", min(file.size, here[file.name]))
                for at, file in enumerate(files)
                if file.name in here and file.name not in have and at not in pull.equal
            ]
            self._listen(pull)
            done = partial(self._adopt, pull, folder, here)
            pull.reuse = Reuse(self._loop, self._disk, self._net, pull.leader, pull.number, both, done)
            pull.reuse.go_on()
            return
        at, own = pull.todo_own[0]
        name = files[at].name

        def looked(result: Verified | int | BaseException | None) -> None:
            self._check(result if isinstance(result, BaseException) else None)
            pull.todo_own.popleft()
            if isinstance(result, Verified):
                self._own.verified(number, {name: result})
            if result:
                pull.equal[at] = own.size
            self._next_own(pull, folder, here)

        if isinstance(own, Prefix):
            self._loop.submit_paced("transfer", install_own.verify_growing(self._disk, folder, name, own), looked)
        else:
            known = self._own.known(number).get(name)
            self._loop.submit_paced("transfer", install_own.verify(self._disk, folder, own, name, known), looked)

    def _adopt(self, pull: _Pull, folder: str, here: dict[str, int], equal: dict[int, int]) -> None:
        if pull.number not in self._pulls:
            return
        files, number = pull.offer.files, pull.group.number
        have = self._have.get(number, {})
        equal = equal | pull.equal
        usable = [(files[at], size) for at, size in equal.items()]
        whole = sum(file.size for file, size in usable if size == file.size and staging.sealed(here, file))
        needed_bytes = sum(file.size - have.get(file.name, 0) for file in files) - whole
        steps = staging.adopt(self._disk, number, folder, usable, needed_bytes, self._group_manager.disk_low_bytes)
        self._loop.submit_paced("transfer", steps, partial(self._adopted, pull))

    def _adopted(self, pull: _Pull, result: dict[str, int] | BaseException) -> None:
        """Own files are staged: ask for the missing chunks. Invariant: no chunk is written to a staged file that is a
        hard link to an own segment; such a file is complete, and is not entered in `_have`."""
        pull.looks = False
        number = pull.group.number
        if self._failed(number, pull, result) or pull.number not in self._pulls:
            return
        assert not isinstance(result, BaseException)
        pull.group.has_room()
        have = self._have.setdefault(number, {})
        for at, file in enumerate(pull.offer.files):
            staged = max(have.get(file.name, 0), result.get(file.name, 0))
            self.bytes_reused += result.get(file.name, 0)
            if 0 < staged < file.size:
                have[file.name] = staged
            for offset in range(staged, file.size, limits.INSTALL_CHUNK_BYTES):
                pull.todo.append((at, offset, min(limits.INSTALL_CHUNK_BYTES, file.size - offset)))
        self._listen(pull)
        pull.heard_ms = self._loop.monotonic_ms()
        self._ask_more(pull)
        self._ask_again(pull)

    def _ask_again(self, pull: _Pull) -> None:
        """Ask again for the chunks that have not come, if none came for `CHUNK_AGAIN_MS`: the link may have refused a
        request or a chunk. This does not keep the install alive: without an answer it ends after `SILENCE_MS`."""
        if pull.number not in self._pulls:
            return
        now_ms = self._loop.monotonic_ms()
        if now_ms - pull.heard_ms >= CHUNK_AGAIN_MS:
            pull.heard_ms = now_ms
            for (file, offset), length in pull.awaited.items():
                self._ask_chunk(pull, file, offset, length)
        self._loop.call_at(pull.heard_ms + CHUNK_AGAIN_MS, partial(self._ask_again, pull))

    def _ask_chunk(self, pull: _Pull, file: int, offset: int, length: int) -> None:
        """A request that the link refuses is repeated by `_ask_again`."""
        self._net.send(pull.leader, channels.BULK, wire.encode_chunk_ask(pull.number, file, offset, length))

    def _checked(self, peer: BrokerId, check: Check) -> None:
        pull = self._pulls.get(check.install)
        if isinstance(pull, _Pull) and pull.leader == peer and pull.reuse is not None:
            self._listen(pull)
            pull.reuse.answered(check)

    @staticmethod
    def _of_use(group: RaftGroup, offer: Offer) -> bool:
        """Is the offer newer than the group's commit index, or not older than its applied state if that is lost?"""
        return offer.index >= group.core.applied if group.trouble else offer.index > group.core.commit

    def _failed(self, number: GroupNo, pull: _Pull | None, result: object) -> bool:
        """True if a staging job failed with an OSError. No promise rests on staged files, so only the install is given
        up, and not started again for `ROOM_RETRY_MS`. Any other error is fatal."""
        if isinstance(result, OSError):
            self._have.pop(number, None)
            self._not_before_ms[number] = self._loop.monotonic_ms() + ROOM_RETRY_MS
            self.given_up += 1
            self._notice(GIVEN_UP, {"group": number, "why": str(result)}, None)
            group = self._host.groups.get(number)
            if group is not None:
                group.tell(INSTALL_FAILED, reason=str(result))
            if group is not None and result.errno in (ENOSPC, EDQUOT):
                group.wait_for_room(str(result))
            if pull is not None:
                self._drop(pull)
            return True
        self._check(result if isinstance(result, BaseException) else None)
        return False

    def _ask_more(self, pull: _Pull) -> None:
        if pull.number not in self._pulls:
            return
        while pull.todo and len(pull.asked) < CHUNKS_IN_FLIGHT_MAX and not pull.paced:
            file, offset, length = pull.todo.popleft()
            pull.asked[file, offset] = pull.awaited[file, offset] = length
            self._ask_chunk(pull, file, offset, length)
            wait_ms = self._host.throttle.takes.wait_ms(self._loop.monotonic_ms(), length) if pull.todo else 0
            if wait_ms:
                pull.paced = True
                self._loop.call_at(self._loop.monotonic_ms() + wait_ms, partial(self._go_on, pull))
        if not pull.asked and not pull.todo:
            self._complete(pull)

    def _go_on(self, pull: _Pull) -> None:
        pull.paced = False
        self._ask_more(pull)

    def _chunk(self, peer: BrokerId, chunk: Chunk) -> None:
        pull = self._pulls.get(chunk.install)
        if not isinstance(pull, _Pull) or pull.leader != peer:
            return
        key = (chunk.file, chunk.offset)
        if pull.awaited.get(key) != len(chunk.data) or crc32c(chunk.data) != chunk.checksum:
            return  # not asked for, a second answer, or damaged
        del pull.awaited[key]
        self._listen(pull)
        pull.heard_ms = self._loop.monotonic_ms()
        self.bytes_received += len(chunk.data)
        name = pull.offer.files[chunk.file].name
        self._loop.submit(
            "transfer",
            partial(staging.write, self._disk, pull.group.number, name, chunk.offset, chunk.data),
            partial(self._written, pull, key, name),
        )

    def _written(self, pull: _Pull, key: tuple[int, int], name: str, result: BaseException | None) -> None:
        if self._failed(pull.group.number, pull, result):
            return
        if pull.number not in self._pulls:
            return  # the group's next install may have begun: it keeps only the files that were in `_have` by then
        length = pull.asked.pop(key, 0)
        have = self._have.setdefault(pull.group.number, {})
        if have.get(name, 0) == key[1]:  # only bytes without a gap before them can be used after an interruption
            have[name] = key[1] + length
        self._ask_more(pull)

    # -- putting in place ------------------------------------------------------------------------------------------

    def _complete(self, pull: _Pull) -> None:
        """All files have arrived: verify and seal them."""
        offer = pull.offer
        self._drop(pull)
        number = pull.group.number
        self._installing.add(number)
        self._have.pop(number, None)
        prefixes = {offer.files[at].name: prefix for at, prefix in pull.own.growing if at in pull.equal}
        steps = staging.seal(self._disk, offer, self._own.known(number), prefixes)
        self._loop.submit_paced("transfer", steps, partial(self._sealed, offer))

    def _sealed(self, offer: Offer, result: dict[str, Verified] | BaseException | None) -> None:
        """The files are sealed: put them in place when no flush or checkpoint is under way. `result` is None if they
        were verified before: by an earlier process, or before a retry."""
        number = GroupNo(offer.group)
        if isinstance(result, dict):
            self._own.verified(number, result)
        if isinstance(result, Corruption):
            self._own.distrust(number)
        if isinstance(result, Corruption) or self._failed(number, None, result):
            self._installing.discard(number)  # the leader offers again, and all files are fetched anew
            if isinstance(result, Corruption):
                self._not_as_written(number, result)
            return
        group = self._host.groups.get(number)
        if group is None or not self._of_use(group, offer):
            if group is not None:
                group.tell(INSTALL_FAILED, reason="not needed any more: the log has reached the checkpoint's index")
            self._give_up(number)
            return
        release = self._group_manager.checkpoints.hold(number)
        if release is None:
            when_ms = self._loop.monotonic_ms() + HOLD_RETRY_MS
            self._loop.call_at(when_ms, lambda: self._sealed(offer, None))
            return
        group.installing = True
        self._swap(group, self._group_manager.swap_job(offer), release)

    def _not_as_written(self, number: GroupNo, error: Corruption) -> None:
        """The fetched files are damaged, perhaps because the leader's are: a chunk's CRC covers the bytes as the leader
        read them. So ask the leader for that one segment: it then checks its own file, and if that is damaged, hands
        leadership away and repairs it. Without this every further install would fail alike."""
        self._notice(NOT_AS_WRITTEN, {"group": number, "why": str(error)}, None)
        group = self._host.groups.get(number)
        if group is not None:
            group.tell(INSTALL_FAILED, reason=str(error))
        if group is not None and group.core.leader >= 0 and isinstance(error, SegmentDamaged):
            self._net.send(broker_of(group.core.leader), channels.BULK, wire.encode_segment_ask(0, number, error.base))

    def _swap(self, group: RaftGroup, job: Callable[[], Swapped], release: Callable[[], None]) -> None:
        self._loop.submit("transfer", job, partial(self._swapped, group, job, release))

    def _swapped(
        self,
        group: RaftGroup,
        job: Callable[[], Swapped],
        release: Callable[[], None],
        result: Swapped | BaseException,
    ) -> None:
        number = group.number
        if number not in self._host.groups:
            if isinstance(result, Swapped) and result.segments is not None:
                result.segments.log.close()
            release()
            self._give_up(number)
            return
        if isinstance(result, Corruption):
            # The sealed files are damaged, and the group's own are removed: it needs another install.
            self._group_manager.lose_state(group, str(result))
            release()
            self._give_up(number)
            return
        if isinstance(result, OSError | StorageFailed):
            group.trouble = f"a fetched checkpoint cannot be put in place: {result}"
            group.tell(INSTALL_FAILED, reason=group.trouble)
            when_ms = self._loop.monotonic_ms() + SWAP_RETRY_MS
            self._loop.call_at(when_ms, partial(self._swap, group, job, release))
            return
        if isinstance(result, BaseException):
            self._host.fatal(result)
            return
        self._group_manager.install(group, result, partial(self._durable, group, result.staged, release))
        self._host.want_turn()

    def _durable(self, group: RaftGroup, staged: Staged, release: Callable[[], None]) -> None:
        number = group.number
        group.tell(INSTALLED, applied=staged.meta.index, term=staged.meta.term)
        self.installed[number] += 1
        release()
        self._give_up(number)

    def _give_up(self, number: GroupNo) -> None:
        """Remove the staged files, which are not needed any more."""

        def finished(result: BaseException | None) -> None:
            self._failed(number, None, result)
            self._installing.discard(number)

        self._loop.submit("transfer", partial(staging.finish, self._disk, number), finished)

    def _check(self, result: BaseException | None) -> None:
        if isinstance(result, BaseException):
            self._host.fatal(StorageFailed(str(result)) if isinstance(result, OSError) else result)


def _may_follow(group: RaftGroup, offer: Offer) -> bool:
    """Can the group go on with the offer's configuration? Not if its members are fixed here, and not if it has none
    although an entry that was applied here brought one: then it is not of a leader of this group."""
    core = group.core
    return core.is_first_config(core.applied) if offer.config is None else core.may_change


assert CHUNK_AGAIN_MS < SILENCE_MS
