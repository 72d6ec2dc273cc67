"""When segments are flushed and state machines checkpointed, and in which order that becomes durable (decision 2).

Problem: a start replays the WAL from the last checkpoint and recovery point, and the WAL can drop a file only when all
its entries are covered by them; but writing whole states takes time and disk bandwidth from requests.

Flush: one job, when data is unflushed for `segment_flush_ms` or exceeds `segment_flush_bytes`; then the recovery point
goes into the WAL. Between flushes a segment is synced whenever `segment_sync_bytes` were appended, which makes no
recovery point: a flush that finds 64 MiB unwritten keeps the WAL from the disk meanwhile. Checkpoint: when
`checkpoint_bytes` were applied, the WAL needs room (`_find_pinned`), or a peer needs one; and after
`segment_flush_ms`, if enough was applied to be worth it (`_much`). At most `CHECKPOINTS_AT_ONCE` are written at once,
and none starts within `CHECKPOINT_PACE_MS` of another. A group that is still written to will soon need the next
checkpoint: by age alone such groups are checkpointed one at a time, round-robin, with a pause after each that grows
with the time it took. So a start replays a few minutes of entries, or less than half of a state's size. The replicas
of a group apply the same entries, and must not all write their checkpoint at the same moment: each has a share
(`wal_pins.share_of`) that makes its first checkpoint earlier and those by age later.

The snapshot and the recovery point are taken in one turn. Then: segments flushed -> recovery point durable -> file
written and published -> CHECKPOINT record durable -> the core may offer it and drop entries. Invariant: each step
starts when the one before is durable, so a crash at any point leaves the older checkpoint in force. Groups in which
nothing was applied cost nothing. What this does not do: protect a promise; the WAL holds the entries. So a write for
which the disk has no space is retried every `NO_SPACE_RETRY_MS`.
"""

from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Protocol

from muster_coordinator.errors import DiskFull, StorageFailed
from muster_coordinator.events import CHECKPOINT_POSTPONED, CHECKPOINT_STARTED, CHECKPOINT_WRITTEN
from muster_coordinator.groups.effects import CheckpointBody, CheckpointImage
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk, Loop
from muster_coordinator.raft.members import Placed
from muster_coordinator.replica import limits
from muster_coordinator.replica.folders import checkpoint_folder
from muster_coordinator.replica.multiraft.host import CHECKPOINT, SEGMENT, SIDECAR, Host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.replica.snapshots.wal_pins import WriteRate, share_of
from muster_coordinator.storage.checkpoint import CheckpointMeta, checkpoint_files, write_checkpoint
from muster_coordinator.storage.contract import GroupWrites, RecoveryPoint

LOOK_MS = 100
LOOKED_AT_A_TURN = 200
"""Groups that one turn looks at; they take about a millisecond."""
PINS_MS_PER_GROUP = 0.5
"""Time between two searches for the groups that keep old WAL files, for each group: a search takes some microseconds a
group."""
CHECKPOINTS_AT_ONCE = 2
"""Snapshots held at once; each keeps the dictionaries of one shard alive."""
REST_MS = 5_000
"""A group in which nothing was applied for this time is idle: its next checkpoint is likely to stay the newest."""
PAUSE_RATIO = 10
"""The pause after a checkpoint, as a multiple of the time it took. Without pauses, checkpoints by age of the partitions
of 100,000 groups took a sixth of a busy replica's time."""
AGE_SPREAD = 4
"""1 / this: by how much of `segment_flush_ms` a group's last replica waits longer than its first."""
ROUND_PAUSES_RATIO = 4
"""Bound on the pauses of one round over all active groups, as a multiple of `segment_flush_ms`."""


class Stateful(Protocol):
    """A machine of whose state a snapshot can be taken and restored."""

    def image(self) -> CheckpointImage: ...
    def restore(self, body: CheckpointBody) -> None: ...
    def state_hash(self) -> str: ...


class _Tracked:
    """One group's flushes and checkpoints."""

    __slots__ = (
        "applied_ms",
        "began_ms",
        "busy",
        "captured_before",
        "captured_bytes",
        "changed_ms",
        "file_bytes",
        "gone",
        "group",
        "machine",
        "offered",
        "postponed_until_ms",
        "recovery_point",
        "share",
        "since_ms",
        "state",
        "wanted",
    )  # fmt: skip

    def __init__(self, group: RaftGroup, machine: Stateful, state: PartitionState | None, share: float) -> None:
        self.share = share
        """From 0 to below 1, different on each replica of the group (`wal_pins.share_of`)."""
        self.group = group
        self.machine = machine
        self.state = state
        self.captured_bytes = 0
        """`applied_bytes` of the group when its last snapshot was taken."""
        self.captured_before = 0
        """While a checkpoint is written: `captured_bytes` before its snapshot, to go back to if the disk is full."""
        self.postponed_until_ms = 0
        """No flush or checkpoint starts before: the disk had no space for one."""
        self.file_bytes = 0
        """Size of the newest checkpoint: written here, found by the start, or fetched by an install."""
        self.applied_ms = 0
        """When an entry was last applied."""
        self.since_ms = 0
        """When the oldest unflushed entry was applied, roughly."""
        self.changed_ms: int | None = None
        """When the oldest entry after the last snapshot was applied, roughly. A flush does not reset it: due
        checkpoints wait for one of few slots, and a group that a flush made young again might never get one."""
        self.began_ms = 0
        """When the checkpoint under way, or the last one, was started."""
        self.busy = False
        """A flush or checkpoint is under way, or `hold` or `pause` keeps them off."""
        self.wanted: list[Callable[[], None]] = []
        """Called when a new checkpoint is published."""
        self.gone: Callable[[], None] | None = None
        """Set once the group is deleted: called when no job of it is under way."""
        self.offered: CheckpointMeta | None = None
        """The newest checkpoint published since the start."""
        self.recovery_point: RecoveryPoint | None = None
        """The recovery point that belongs to `offered`; None without one, or for a group without segments."""


class Checkpoints:
    """See the module."""

    def __init__(self, loop: Loop, disk: Disk, host: Host, settings: NodeSettings) -> None:
        self._loop = loop
        self._disk = disk
        self._host = host
        self._settings = settings
        self._tracked: dict[GroupNo, _Tracked] = {}
        self._active: dict[GroupNo, _Tracked] = {}
        """Groups in which something was applied since their last flush or checkpoint, the least recently checkpointed
        first."""
        self._running = 0
        self._start_from_ms = 0
        """No checkpoint starts before."""
        self._to_start: deque[_Tracked] = deque()
        """Groups that were due at the last look and found no free slot."""
        self._pumping = False
        self._pinned: set[GroupNo] = set()
        """Groups that keep old WAL files, as of the last search; a group whose checkpoint starts is removed."""
        self._in_order: list[_Tracked] = []
        """The groups found by that search, in the order in which they should be checkpointed."""
        self._pins_from_ms = 0
        """When the next search is due."""
        self._rates = [WriteRate() for _ in host.wal_writers]
        self._by_age_from_ms = 0
        """Before this time, a group that is still written to is not checkpointed because of its age alone."""
        self.made = 0
        self.flushes = 0
        self.syncs = 0
        """Of segments between flushes."""

    def start(self) -> None:
        self._host.applied = self._applied
        self._loop.call_at(self._loop.monotonic_ms() + LOOK_MS, self._look)

    def add(self, group: RaftGroup, machine: Stateful, state: PartitionState | None) -> None:
        share = share_of(self._settings.broker, group.voters, group.number)
        self._tracked[group.number] = tracked = _Tracked(group, machine, state, share)
        tracked.file_bytes = _newest_bytes(self._disk, group.number)

    def remove(self, group: RaftGroup, idle: Callable[[], None]) -> None:
        """The group is deleted; `idle` is called when no job of it is under way."""
        tracked = self._tracked.pop(group.number)
        self._active.pop(group.number, None)
        if tracked.busy:
            tracked.gone = idle
        else:
            idle()

    def newest(self, number: GroupNo) -> tuple[CheckpointMeta, RecoveryPoint | None] | None:
        """The newest checkpoint published since the start, and its recovery point."""
        tracked = self._tracked.get(number)
        return None if tracked is None or tracked.offered is None else (tracked.offered, tracked.recovery_point)

    def want(self, number: GroupNo, done: Callable[[], None]) -> None:
        """Make a checkpoint soon, and call `done` when it is published."""
        tracked = self._tracked.get(number)
        if tracked is not None:
            tracked.wanted.append(done)
            self._active[number] = tracked
            self._maybe(tracked, self._loop.monotonic_ms())
            if not tracked.busy:
                self._to_start.appendleft(tracked)
                self._pump_later()

    def hold(self, number: GroupNo) -> Callable[[], None] | None:
        """Stop flushes and checkpoints of a group whose files will be replaced, until the returned function is called.
        None: one is under way."""
        tracked = self._tracked[number]
        if tracked.busy:
            return None
        tracked.busy = True

        def release() -> None:
            tracked.captured_before = tracked.captured_bytes = tracked.group.applied_bytes
            tracked.file_bytes = _newest_bytes(self._disk, number)
            tracked.changed_ms = None
            tracked.offered = tracked.recovery_point = None
            self._rest(tracked)

        return release

    def pause(self, number: GroupNo) -> Callable[[], None] | None:
        """Stop flushes and checkpoints of a group while one of its files is replaced by an equal one, until the
        returned function is called. None: one is under way, or the group was removed."""
        tracked = self._tracked.get(number)
        if tracked is None or tracked.busy:
            return None
        tracked.busy = True

        def release() -> None:
            self._rest(tracked)

        return release

    # -- when ------------------------------------------------------------------------------------------------------

    def _applied(self, group: RaftGroup) -> None:
        tracked = self._tracked.get(group.number)
        if tracked is None:
            return
        now_ms = tracked.applied_ms = self._loop.monotonic_ms()
        if group.number not in self._active:
            tracked.since_ms = now_ms
            self._active[group.number] = tracked
        if tracked.changed_ms is None:
            tracked.changed_ms = now_ms
        if self._far(tracked):
            self._maybe(tracked, now_ms)

    def _look(self) -> None:
        now_ms = self._loop.monotonic_ms()
        pinned = self._find_pinned(now_ms)
        self._to_start.clear()
        others = (one for one in self._active.values() if one.group.number not in self._pinned)
        self._look_at(deque((*pinned, *others)), now_ms + LOOK_MS)

    def _look_at(self, left: deque[_Tracked], next_look_ms: int) -> None:
        """Look at the first of the groups in `left` in this turn, at the others in later turns, then schedule the next
        look."""
        now_ms = self._loop.monotonic_ms()
        for _ in range(min(LOOKED_AT_A_TURN, len(left))):
            tracked = left.popleft()
            if self._tracked.get(tracked.group.number) is not tracked:
                continue
            if self._maybe(tracked, now_ms):
                self._to_start.append(tracked)
        if left:
            self._loop.call_soon(lambda: self._look_at(left, next_look_ms))
        else:
            self._loop.call_at(next_look_ms, self._look)
        self._pump_later()

    def _find_pinned(self, now_ms: int) -> list[_Tracked]:
        """Groups that keep old WAL files. With many groups the search takes long, so its result is used for several
        looks."""
        for wal_writer in self._host.wal_writers:
            if wal_writer.wal.pressed():
                self._host.want_turn()  # turns carry entries and delete files, even if no proposals are admitted
        if now_ms >= self._pins_from_ms:
            self._pins_from_ms = now_ms + int(PINS_MS_PER_GROUP * len(self._tracked))
            self._in_order = self._ask_pinned(now_ms)
            self._pinned = {tracked.group.number for tracked in self._in_order}
        return [tracked for tracked in self._in_order if tracked.group.number in self._pinned]

    def _ask_pinned(self, now_ms: int) -> list[_Tracked]:
        """Search for the groups that keep old WAL files. Those that keep the oldest file come first, since the file
        goes only when none of them needs it; among these the largest first, since the WAL can carry small ones. Groups
        that no checkpoint can free are carried at once."""
        pinned: list[tuple[int, float, _Tracked]] = []
        for wal_writer, rate in zip(self._host.wal_writers, self._rates, strict=True):
            round_ms = limits.CHECKPOINT_PACE_MS * len(self._active)
            keepers = 0
            for number in wal_writer.wal.pinning(rate.grown(now_ms, wal_writer.wal.written_bytes, round_ms)):
                before = wal_writer.wal.files_before(number)
                keepers += not before
                tracked = self._tracked.get(number)
                if tracked is None or not _may_be_covered(tracked.group):
                    wal_writer.wal.carry(number)
                elif not tracked.busy:
                    self._active[number] = tracked
                    pinned.append((before, -_freed_bytes(tracked), tracked))
            wal_writer.admission.expect(keepers * limits.CHECKPOINT_PACE_MS)
        pinned.sort(key=itemgetter(0, 1))
        return [tracked for *_, tracked in pinned]

    def _pump_later(self) -> None:
        """Schedule the next waiting checkpoint for when the pace allows it."""
        if self._to_start and self._running < CHECKPOINTS_AT_ONCE and not self._pumping:
            self._pumping = True
            self._loop.call_at(max(self._start_from_ms, self._loop.monotonic_ms()), self._pump)

    def _pump(self) -> None:
        self._pumping = False
        now_ms = self._loop.monotonic_ms()
        while self._to_start and self._may_start(now_ms):
            tracked = self._to_start.popleft()
            present = self._tracked.get(tracked.group.number) is tracked
            if present and not tracked.busy and tracked.group.settled and self._due(tracked, now_ms):
                self._checkpoint(tracked)
        self._pump_later()

    def _may_start(self, now_ms: int) -> bool:
        return self._running < CHECKPOINTS_AT_ONCE and now_ms >= self._start_from_ms

    def _due(self, tracked: _Tracked, now_ms: int) -> bool:
        return bool(
            tracked.group.applied
            and now_ms >= tracked.postponed_until_ms
            and (
                tracked.wanted
                or tracked.group.number in self._pinned
                or self._far(tracked)
                or self._worth_it(tracked, now_ms)
            )
            and _knows_config(tracked.group)
        )

    def _maybe(self, tracked: _Tracked, now_ms: int) -> bool:
        """Start what is due and may start. True: a checkpoint is due, and nothing was started."""
        if tracked.busy or not tracked.group.settled or now_ms < tracked.postponed_until_ms:
            return False
        if tracked.group.applied == 0:
            return False
        due = self._due(tracked, now_ms)
        if due and self._may_start(now_ms):
            self._checkpoint(tracked)
            return False
        state = tracked.state
        if state is None:
            if not due:
                self._active.pop(tracked.group.number, None)
            return due
        unflushed = state.log.unflushed_bytes()
        old = now_ms - tracked.since_ms >= self._settings.segment_flush_ms
        if unflushed >= self._settings.segment_flush_bytes or (old and self._unclean(tracked.group, state)):
            self._flush(tracked, state, lambda recovery_point: self._rest(tracked), lambda: self._rest(tracked))
        elif not due and state.log.unsynced_bytes() >= self._settings.segment_sync_bytes:
            self._sync(tracked, state)
        elif old and not due and not self._much(tracked):
            self._active.pop(tracked.group.number, None)
        return due and not tracked.busy

    @staticmethod
    def _unclean(group: RaftGroup, state: PartitionState) -> bool:
        """Does a flush have anything to write?"""
        return group.applied > state.flushed or state.log.holds_garbage

    def _far(self, tracked: _Tracked) -> bool:
        """Were `checkpoint_bytes` applied since the last snapshot? For the first one, fewer by this replica's share."""
        far_bytes = self._settings.checkpoint_bytes
        if not tracked.captured_bytes:
            far_bytes -= int(tracked.share * far_bytes)
        return tracked.group.applied_bytes - tracked.captured_bytes >= far_bytes

    def _worth_it(self, tracked: _Tracked, now_ms: int) -> bool:
        """Were enough bytes applied, long enough ago, that a checkpoint by age is due?"""
        changed_ms = tracked.changed_ms
        return (
            tracked.state is not None
            and changed_ms is not None
            and now_ms - changed_ms >= self._settings.segment_flush_ms * (1 + tracked.share / AGE_SPREAD)
            and self._much(tracked)
            and (now_ms - tracked.applied_ms >= REST_MS or self._pause_over(now_ms))
        )

    def _pause_over(self, now_ms: int) -> bool:
        """May a group that is still written to be checkpointed because of its age?"""
        return not self._running and now_ms >= self._by_age_from_ms

    def _pause(self, took_ms: int) -> None:
        """A checkpoint was written in `took_ms`: set the pause after it."""
        round_ms = ROUND_PAUSES_RATIO * self._settings.segment_flush_ms
        pause_ms = min(PAUSE_RATIO * took_ms, round_ms // max(1, len(self._active)))
        self._by_age_from_ms = self._loop.monotonic_ms() + pause_ms

    @staticmethod
    def _much(tracked: _Tracked) -> bool:
        """Was at least half as much applied as writing the state costs? This bounds write amplification at 3x."""
        applied_bytes = tracked.group.applied_bytes - tracked.captured_bytes
        return applied_bytes >= max(limits.CHECKPOINT_BYTES_MIN, tracked.file_bytes // 2)

    def _rest(self, tracked: _Tracked) -> None:
        tracked.busy = False
        if tracked.gone is not None:
            tracked.gone()

    # -- how -------------------------------------------------------------------------------------------------------

    def _flush(
        self,
        tracked: _Tracked,
        state: PartitionState,
        done: Callable[[RecoveryPoint], None],
        gone: Callable[[], None],
    ) -> None:
        """Flush the segments, then make the recovery point durable and call `done`; call `gone` instead if the group
        was deleted in the meantime, or the disk has no space for the segments."""
        group = tracked.group
        tracked.busy = True
        applied = max(group.applied, state.flushed)
        if applied > group.applied:
            # Replay has not reached the recovery point: the segments are ahead of the state, nothing is to be flushed.
            self._rest(tracked)
            return
        log = state.log
        try:
            job = log.flush_job(applied)
        except DiskFull:
            self._postpone(tracked, SEGMENT)
            gone()
            return
        tracked.since_ms = self._loop.monotonic_ms()

        def synced(result: BaseException | None) -> None:
            self._check(result)
            state.log.flush_done()
            if job.without:
                state.log.left_out(job.without)
                self._host.no_space(SIDECAR, len(job.without))
            self.flushes += 1
            state.flushed = max(state.flushed, applied)
            group.core.log.shrink_cache(limits.GROUP_CACHE_FLUSHED_BYTES)
            if tracked.gone is not None:
                gone()
                return
            group.wal_writer.stage(GroupWrites(group.number, None, (), recovery_point=job.recovery_point), durable)
            self._host.want_turn()

        def durable() -> None:
            log.durable_segment = job.recovery_point.segment
            done(job.recovery_point)

        self._loop.submit("flush", job, synced)

    def _sync(self, tracked: _Tracked, state: PartitionState) -> None:
        """Sync what was appended since the last flush, and make nothing of it: a flush that finds all of it unwritten
        keeps the WAL, and so everybody's commits, from the disk for as long as it takes."""
        try:
            job = state.log.sync_job()
        except DiskFull:
            self._postpone(tracked, SEGMENT)
            return
        tracked.busy = True

        def synced(result: BaseException | None) -> None:
            self._check(result)
            state.log.flush_done()
            self.syncs += 1
            self._rest(tracked)

        self._loop.submit("flush", job, synced)

    def _checkpoint(self, tracked: _Tracked) -> None:
        group, state = tracked.group, tracked.state
        if state is not None and state.flushed > group.applied:
            return  # replay has not reached the recovery point: the segments are ahead of the state
        term = group.core.log.term_at(group.applied)
        assert term is not None, "applied entries are in the log"
        config = None if group.core.is_first_config(group.applied) else group.core.config_at(group.applied)
        meta = CheckpointMeta(GroupNo(group.number), group.applied, term, config=config)
        if state is not None:
            meta = meta._replace(
                next_offset=state.next_offset,
                log_start_offset=state.log_start,
                epochs=state.log.epochs(),
                roll=state.replicated_roll,
            )
        if tracked.offered is not None and tracked.offered.index == meta.index:
            self._answer(tracked)
            self._active.pop(group.number, None)
            return
        # Move the group to the end of `_active`: else the first groups would be due again before the last had a turn.
        self._active.pop(group.number, None)
        self._active[group.number] = tracked
        group.tell(CHECKPOINT_STARTED, applied=meta.index)
        image = tracked.machine.image()
        tracked.began_ms = self._loop.monotonic_ms()
        self._start_from_ms = tracked.began_ms + limits.CHECKPOINT_PACE_MS
        self._pinned.discard(group.number)
        self._running += 1
        tracked.busy = True
        tracked.captured_before, tracked.captured_bytes = tracked.captured_bytes, group.applied_bytes
        tracked.changed_ms = None
        if state is None:
            self._write(tracked, meta, image, None)
        else:
            self._flush(
                tracked,
                state,
                lambda recovery_point: self._write(tracked, meta, image, recovery_point),
                lambda: self._end(tracked),
            )

    def _write(
        self, tracked: _Tracked, meta: CheckpointMeta, image: CheckpointImage, recovery_point: RecoveryPoint | None
    ) -> None:
        group = tracked.group

        steps = write_checkpoint(self._disk, checkpoint_folder(group.number), meta, image)
        began_ms = self._loop.monotonic_ms()

        def written(result: int | BaseException) -> None:
            if isinstance(result, DiskFull):
                self._postpone(tracked, CHECKPOINT)
                self._end(tracked)
                return
            self._check(result)
            self._pause(self._loop.monotonic_ms() - began_ms)
            if isinstance(result, int):
                tracked.file_bytes = result
            if tracked.gone is not None:
                self._end(tracked)
                return
            config = None if meta.config is None else Placed(meta.index, meta.config)
            writes = GroupWrites(group.number, None, (), checkpoint=(meta.index, meta.term), config=config)
            group.wal_writer.stage(writes, lambda: self._published(tracked, meta, recovery_point))
            self._host.want_turn()

        self._loop.submit_paced("checkpoint", steps, written)

    def _postpone(self, tracked: _Tracked, what: str) -> None:
        """The disk has no space for `what`: retry after `NO_SPACE_RETRY_MS`, not at each look. The WAL keeps the
        entries."""
        now_ms = self._loop.monotonic_ms()
        tracked.postponed_until_ms = now_ms + limits.NO_SPACE_RETRY_MS
        tracked.captured_bytes = tracked.captured_before
        if tracked.changed_ms is None:
            tracked.changed_ms = now_ms
        tracked.group.tell(CHECKPOINT_POSTPONED, file=what)
        self._host.no_space(what)

    def _published(self, tracked: _Tracked, meta: CheckpointMeta, recovery_point: RecoveryPoint | None) -> None:
        group = tracked.group
        self.made += 1
        took_ms = self._loop.monotonic_ms() - tracked.began_ms
        group.tell(
            CHECKPOINT_WRITTEN, applied=meta.index, term=meta.term, size_bytes=tracked.file_bytes, took_ms=took_ms
        )
        tracked.offered, tracked.recovery_point = meta, recovery_point
        tracked.captured_before = tracked.captured_bytes
        group.core.checkpointed(meta.index, meta.term)
        group.release(min(meta.index - self._settings.trailing_entries, group.applied))
        self._answer(tracked)
        self._end(tracked)

    def _end(self, tracked: _Tracked) -> None:
        """A checkpoint was published, postponed, or its group was deleted: its slot is free."""
        self._running -= 1
        self._rest(tracked)
        self._pump_later()

    def _answer(self, tracked: _Tracked) -> None:
        wanted, tracked.wanted = tracked.wanted, []
        for done in wanted:
            done()

    def _check(self, result: object) -> None:
        if isinstance(result, BaseException):
            self._host.fatal(StorageFailed(str(result)) if isinstance(result, OSError) else result)


def _knows_config(group: RaftGroup) -> bool:
    """Who came into the group after the applied entry cannot say who its members were there, and makes no checkpoint
    until the entry that names them is applied too."""
    return group.core.config_at(group.applied) is not None


def _may_be_covered(group: RaftGroup) -> bool:
    """Is there anything that a new checkpoint would cover, and can one be made?"""
    return group.applied > group.core.log.checkpoint[0] and _knows_config(group)


def _newest_bytes(disk: Disk, number: GroupNo) -> int:
    """Size of the group's newest checkpoint file; 0 if there is none, or none that can be looked at."""
    try:
        for path in checkpoint_files(disk, checkpoint_folder(number)):
            file = disk.open(path)
            try:
                return file.size()
            finally:
                file.close()
    except OSError:
        pass
    return 0


def _freed_bytes(tracked: _Tracked) -> float:
    return (tracked.group.applied_bytes - tracked.captured_bytes) * (1 + tracked.share)
