"""When segments are flushed and state machines checkpointed, and in which order that becomes durable (decision 2).

Flush: after `segment_flush_ms` or `segment_flush_bytes` unflushed, one job; then its recovery point goes into the WAL.
Checkpoint: after `checkpoint_bytes` applied, when the WAL needs room (`pins`), or when a peer needs one; and after
`segment_flush_ms`, when so much was applied that writing it costs less than replaying it would. Few are written at
once, and none starts within `CHECKPOINT_PACE_MS` of another; the next one starts as soon as one ends. A group that is
still written to needs another checkpoint soon: such groups are checkpointed one at a time, round-robin, and the pause
after each grows with the time that it took. So a start replays a few minutes, or less than half of a
state, and not all that the WAL holds. The replicas of a group apply alike, and shall not write the same checkpoint at
the same moment: each begins at another point of the way to its first one, and waits differently long. The snapshot and
the recovery point are taken in one turn, then: segments flushed -> recovery point durable -> file written and published
-> CHECKPOINT record durable -> the core may offer it and forget entries. Each step starts when the one before is
durable, so a crash anywhere leaves the older checkpoint in force. Groups in which nothing was applied cost nothing
here. No promise hangs on any of it, since the WAL holds the entries: what the disk has no space for is tried again
every `NO_SPACE_RETRY_MS`.
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
from muster_coordinator.replica import limits
from muster_coordinator.replica.folders import checkpoint_folder
from muster_coordinator.replica.multiraft.host import CHECKPOINT, SEGMENT, SIDECAR, Host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.replica.snapshots.wal_pins import WriteRate, share_of
from muster_coordinator.storage.checkpoint import CheckpointMeta, write_checkpoint
from muster_coordinator.storage.contract import GroupWrites, RecoveryPoint

LOOK_MS = 100
LOOKED_AT_A_TURN = 200
"""Groups, about a millisecond."""
PINS_MS_PER_GROUP = 0.5
"""Between two questions who keeps old WAL files, for each group: the answer costs some microseconds a group."""
CHECKPOINTS_AT_ONCE = 2
"""Snapshots that are held at once; each pins one shard's dictionaries."""
REST_MS = 5_000
"""A group in which nothing was applied for so long is at rest: its checkpoint will stay good."""
PAUSE_RATIO = 10
"""A pause takes so many times what the checkpoint before it took. Without pauses the aged partitions of 100,000 groups
took a sixth of a busy replica's time."""
AGE_SPREAD = 4
"""The oldest of a group's replicas waits at most so much, as a part, longer than the first."""
ROUND_PAUSES_RATIO = 4
"""The pauses of one round over all active groups take at most so many times `segment_flush_ms`."""


class Stateful(Protocol):
    """A machine whose state can be captured."""

    def image(self) -> CheckpointImage: ...
    def restore(self, body: CheckpointBody) -> None: ...
    def state_hash(self) -> str: ...


class _Tracked:
    """One group's part."""

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
        """From 0 to below 1: how much earlier, or later, than on other replicas (`wal_pins.share_of`)."""
        self.group = group
        self.machine = machine
        self.state = state
        self.captured_bytes = 0
        """`applied_bytes` of the group when its last snapshot was taken."""
        self.captured_before = 0
        """The same of the one before, until the last one is written."""
        self.postponed_until_ms = 0
        """No flush or checkpoint before: the disk had no space for one."""
        self.file_bytes = 0
        """Of the newest checkpoint of this life."""
        self.applied_ms = 0
        """When something was applied last."""
        self.since_ms = 0
        """When the oldest unflushed entry was applied, roughly."""
        self.changed_ms: int | None = None
        """When the oldest entry after the last snapshot was applied, roughly. Flushes do not end its age: checkpoints
        that are due wait for one of few slots, and whoever lost the race once would lose it for ever."""
        self.began_ms = 0
        """When the checkpoint under way, or the last one, was begun."""
        self.busy = False
        self.wanted: list[Callable[[], None]] = []
        """Who waits for a fresh checkpoint."""
        self.gone: Callable[[], None] | None = None
        self.offered: CheckpointMeta | None = None
        """The newest published checkpoint of this life, and ..."""
        self.recovery_point: RecoveryPoint | None = None
        """... where the segments were then; None without one or without segments."""


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
        """No checkpoint before."""
        self._to_start: deque[_Tracked] = deque()
        """Due at the last look, and not begun for want of a slot."""
        self._pumping = False
        self._pinned: set[GroupNo] = set()
        """Groups that keep old WAL files, as of the last look."""
        self._in_order: list[_Tracked] = []
        """The same, those first that are to be checkpointed first; some have been since."""
        self._pins_from_ms = 0
        self._rates = [WriteRate() for _ in host.wal_writers]
        self._by_age_from_ms = 0
        """Until then age alone is no reason while a group is written to."""
        self.made = 0
        self.flushes = 0

    def start(self) -> None:
        self._host.applied = self._applied
        self._loop.call_at(self._loop.monotonic_ms() + LOOK_MS, self._look)

    def add(self, group: RaftGroup, machine: Stateful, state: PartitionState | None) -> None:
        share = share_of(self._settings.broker, group.voters, group.number)
        self._tracked[group.number] = _Tracked(group, machine, state, share)

    def remove(self, group: RaftGroup, idle: Callable[[], None]) -> None:
        """The group is deleted; `idle` is called once no job of it is under way."""
        tracked = self._tracked.pop(group.number)
        self._active.pop(group.number, None)
        if tracked.busy:
            tracked.gone = idle
        else:
            idle()

    def newest(self, number: GroupNo) -> tuple[CheckpointMeta, RecoveryPoint | None] | None:
        """The newest checkpoint that was published in this life."""
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
        """Keep flushes and checkpoints off a group whose files are about to be replaced, until the call that is
        returned. None: one is under way."""
        tracked = self._tracked[number]
        if tracked.busy:
            return None
        tracked.busy = True

        def release() -> None:
            tracked.captured_bytes = tracked.group.applied_bytes
            tracked.changed_ms = None
            tracked.offered = tracked.recovery_point = None
            self._rest(tracked)

        return release

    def pause(self, number: GroupNo) -> Callable[[], None] | None:
        """Keep flushes and checkpoints off a group of which one file is replaced by its equal, until the call that is
        returned. None: one is under way, or the group is not there any more."""
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
        """Some of the groups, in this turn; the next look begins after all of them."""
        now_ms = self._loop.monotonic_ms()
        for _ in range(min(LOOKED_AT_A_TURN, len(left))):
            tracked = left.popleft()
            if self._tracked.get(tracked.group.number) is not tracked:
                continue
            self._maybe(tracked, now_ms)
            if not tracked.busy and self._due(tracked, now_ms):
                self._to_start.append(tracked)
        if left:
            self._loop.call_soon(lambda: self._look_at(left, next_look_ms))
        else:
            self._loop.call_at(next_look_ms, self._look)
        self._pump_later()

    def _find_pinned(self, now_ms: int) -> list[_Tracked]:
        """Groups that keep old WAL files. Asking for all of them takes a while when they are many; then the answer
        serves for several looks."""
        for wal_writer in self._host.wal_writers:
            if wal_writer.wal.pressed():
                self._host.want_turn()  # it carries, and lets go of files, also when nobody may write
        if now_ms >= self._pins_from_ms:
            self._pins_from_ms = now_ms + int(PINS_MS_PER_GROUP * len(self._tracked))
            self._in_order = self._ask_pinned(now_ms)
            self._pinned = {tracked.group.number for tracked in self._in_order}
        return [tracked for tracked in self._in_order if tracked.group.number in self._pinned]

    def _ask_pinned(self, now_ms: int) -> list[_Tracked]:
        """Those of the oldest file first, since only all of its keepers together free it, and of these the largest,
        since the WAL carries the rest. So it does with what no checkpoint can free."""
        pinned: list[tuple[int, float, _Tracked]] = []
        for wal_writer, rate in zip(self._host.wal_writers, self._rates, strict=True):
            round_ms = limits.CHECKPOINT_PACE_MS * len(self._active)
            keepers = 0
            for number in wal_writer.wal.pinning(rate.grown(now_ms, wal_writer.wal.written_bytes, round_ms)):
                before = wal_writer.wal.files_before(number)
                keepers += not before
                tracked = self._tracked.get(number)
                if tracked is None or tracked.group.applied <= tracked.group.core.log.checkpoint[0]:
                    wal_writer.wal.carry(number)
                elif not tracked.busy:
                    self._active[number] = tracked
                    pinned.append((before, -_freed_bytes(tracked), tracked))
            wal_writer.admission.expect(keepers * limits.CHECKPOINT_PACE_MS)
        pinned.sort(key=itemgetter(0, 1))
        return [tracked for *_, tracked in pinned]

    def _pump_later(self) -> None:
        """The next one that waits begins when it may."""
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
        )

    def _maybe(self, tracked: _Tracked, now_ms: int) -> None:
        if tracked.busy or not tracked.group.settled or now_ms < tracked.postponed_until_ms:
            return
        if tracked.group.applied == 0:
            return
        due = self._due(tracked, now_ms)
        if due and self._may_start(now_ms):
            self._checkpoint(tracked)
            return
        state = tracked.state
        if state is None:
            if not due:
                self._active.pop(tracked.group.number, None)
            return
        unflushed = state.log.unflushed_bytes()
        old = now_ms - tracked.since_ms >= self._settings.segment_flush_ms
        if unflushed >= self._settings.segment_flush_bytes or (old and self._unclean(tracked.group, state)):
            self._flush(tracked, state, lambda recovery_point: self._rest(tracked), lambda: self._rest(tracked))
        elif old and not due and not self._much(tracked):
            self._active.pop(tracked.group.number, None)

    @staticmethod
    def _unclean(group: RaftGroup, state: PartitionState) -> bool:
        """Would a flush change anything?"""
        return group.applied > state.flushed or state.log.holds_garbage

    def _far(self, tracked: _Tracked) -> bool:
        """Has so much been applied that replaying it would take long?"""
        far_bytes = self._settings.checkpoint_bytes
        if not tracked.captured_bytes:
            far_bytes -= int(tracked.share * far_bytes)
        return tracked.group.applied_bytes - tracked.captured_bytes >= far_bytes

    def _worth_it(self, tracked: _Tracked, now_ms: int) -> bool:
        """Is it old, and much?"""
        changed_ms = tracked.changed_ms
        return (
            tracked.state is not None
            and changed_ms is not None
            and now_ms - changed_ms >= self._settings.segment_flush_ms * (1 + tracked.share / AGE_SPREAD)
            and self._much(tracked)
            and (now_ms - tracked.applied_ms >= REST_MS or self._pause_over(now_ms))
        )

    def _pause_over(self, now_ms: int) -> bool:
        """May a group that is still written to have its turn?"""
        return not self._running and now_ms >= self._by_age_from_ms

    def _pause(self, took_ms: int) -> None:
        """A checkpoint was written."""
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
        """Segments, then the recovery point; `gone` instead of `done` when the group was deleted meanwhile, or the disk
        has no space for the segments."""
        group = tracked.group
        tracked.busy = True
        applied = max(group.applied, state.flushed)
        if applied > group.applied:
            # Replay has not reached the old recovery point yet: the segments are ahead of the state; nothing to add.
            self._rest(tracked)
            return
        try:
            job = state.log.flush_job(applied)
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
            group.wal_writer.stage(
                GroupWrites(group.number, None, (), recovery_point=job.recovery_point), lambda: done(job.recovery_point)
            )
            self._host.want_turn()

        self._loop.submit("flush", job, synced)

    def _checkpoint(self, tracked: _Tracked) -> None:
        group, state = tracked.group, tracked.state
        if state is not None and state.flushed > group.applied:
            return  # replaying up to the recovery point first
        term = group.core.log.term_at(group.applied)
        assert term is not None, "what is applied is in the log"
        meta = CheckpointMeta(GroupNo(group.number), group.applied, term)
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
        # To the end: the first would else be old again, and taken again, before the last had its turn.
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
            writes = GroupWrites(group.number, None, (), checkpoint=(meta.index, meta.term))
            group.wal_writer.stage(writes, lambda: self._published(tracked, meta, recovery_point))
            self._host.want_turn()

        self._loop.submit_paced("checkpoint", steps, written)

    def _postpone(self, tracked: _Tracked, what: str) -> None:
        """The WAL goes on holding what should have been written elsewhere; tried again after a while, not at each
        look."""
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
        """A checkpoint was published, or its group is deleted: its slot is free."""
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


def _freed_bytes(tracked: _Tracked) -> float:
    return (tracked.group.applied_bytes - tracked.captured_bytes) * (1 + tracked.share)
