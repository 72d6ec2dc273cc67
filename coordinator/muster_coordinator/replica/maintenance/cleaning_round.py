"""One round of log cleaning of one partition, from its plan to the end: jobs in a thread of their own, paced.

Problem: a round reads and writes gigabytes beside requests, for minutes, while the partition goes on: it is written,
retained, deleted, installed anew. Mechanism: the steps of `storage.cleaning` in slices of at most `tick_bytes`,
one each `CLEAN_TICK_MS`. What is put in place is put while flushes and checkpoints of the group are paused and no
follower fetches its files, for a few operations of the disk. After each wait the round looks whether the partition is
still the one it began with; if not, it ends, and what it wrote is removed. Which transactions were aborted is taken
from the log segment by segment, before the segment is read: of a long log they are not all in memory at once. What it
does not do: choose the partition (`cleaner`), or decide what stays (`topics.cleaning`).

The order of what becomes durable: `touched_to` of the whole round, then segment by segment from the log's begin, then
`cleaned_to`. So a crash leaves a log whose beginning is clean, and no tombstone is gone before what it deletes.
"""

import errno
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple

from muster_coordinator.errors import SegmentDamaged, StorageFailed
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk, Loop
from muster_coordinator.replica import limits
from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.storage import cleaned, cleaning
from muster_coordinator.storage.aborted import AbortedLists
from muster_coordinator.storage.cleaning import CleanedSegments
from muster_coordinator.storage.segment import SegmentSummary
from muster_coordinator.topics.cleaning.plan import Cleanable, groups
from muster_coordinator.topics.cleaning.rounds import Round

Slice = tuple[int, bool, Any]
"""(bytes of this slice, have the steps ended, their result)."""
GONE = "the partition is no longer as it was"


class Outcome(NamedTuple):
    """How a round ended."""

    error: BaseException | None = None
    """None: all of it was done, or as much as the memory for keys allowed."""
    put_aside: str = ""
    """Why it was not ended, if nothing failed."""
    before_bytes: int = 0
    after_bytes: int = 0
    before_segments: int = 0
    after_segments: int = 0
    keys: int = 0
    cleaned_to: int = 0
    done_bytes: int = 0
    """Read and written."""


class Group(NamedTuple):
    """What a round needs of the partition's group."""

    number: GroupNo
    state: PartitionState
    present: Callable[[], bool]
    """Is the partition still there, with this log, and not under install?"""
    pause: Callable[[], Callable[[], None] | None]
    """Keeps flushes and checkpoints off until the returned function is called; None: not now."""


class CleaningRound:
    """See the module. `done` is called once, on the loop. Errors of the disk that end the process are its business."""

    def __init__(
        self,
        loop: Loop,
        disk: Disk,
        group: Group,
        plan: Cleanable,
        round_: Round,
        *,
        segment_bytes: int,
        tick_bytes: int,
        spare_bytes: int,
        done: Callable[[Outcome], None],
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._group = group
        self._plan = plan
        self._round = round_
        self._segment_bytes = segment_bytes
        self._tick_bytes = max(1, tick_bytes)
        self._spare_bytes = spare_bytes
        self._done = done
        self._log = group.state.log
        self._folder = group.state.folder
        views = {view.base_offset for view in plan.segments}
        self._segments = [summary for summary in self._log.sealed() if summary.base in views]
        self._dirty = [summary for summary in self._segments if summary.next_offset > plan.first_dirty]
        self._todo: list[tuple[SegmentSummary, ...]] = []
        self._opened: tuple[tuple[int, int], ...] = ()
        """(producer, first offset) of what is open where the cleaned part ends so far."""
        self._sizes: list[tuple[int, int]] = []
        self._writing = -1
        """Base of the segment that is written beside the log; -1 for none."""
        self.bytes_done = 0

    def start(self) -> None:
        self._look(True)

    def _look(self, room: bool) -> None:
        """The keys of the next dirty segment, if there is one and the map has room."""
        if self._ended():
            return
        if not self._dirty or not room:
            self._looked()
            return
        segment = self._dirty.pop(0)
        aborted = self._aborted((segment,))
        if aborted is not None:
            first = self._plan.first_dirty
            self._steps(cleaning.look(self._disk, self._folder, (segment,), first, self._round, aborted[0]), self._look)

    def _aborted(self, segments: tuple[SegmentSummary, ...]) -> list[AbortedLists] | None:
        """Of each segment. None: a file of the log is damaged, and the round has ended."""
        try:
            return [self._log.aborted_lists(segment) for segment in segments]
        except SegmentDamaged as error:
            self._failed(error)
            return None

    # -- pace ----------------------------------------------------------------------------------------------------------

    def _steps(self, steps: Generator[int, None, Any], then: Callable[[Any], None]) -> None:
        """Run `steps` slice by slice, then `then(their result)`."""
        if self._ended():
            return
        job = _slice(steps, self._tick_bytes)
        self._loop.submit_paced("clean", job, partial(self._sliced, steps, then))

    def _sliced(
        self, steps: Generator[int, None, Any], then: Callable[[Any], None], result: Slice | BaseException
    ) -> None:
        if isinstance(result, BaseException):
            self._failed(result)
            return
        took, ended, value = result
        self.bytes_done += took
        wait_ms = max(1, limits.CLEAN_TICK_MS * took // self._tick_bytes)
        go_on = partial(then, value) if ended else partial(self._steps, steps, then)
        self._loop.call_at(self._loop.monotonic_ms() + wait_ms, go_on)

    def _job(self, job: Callable[[], None], then: Callable[[], None]) -> None:
        def done(result: BaseException | None) -> None:
            if isinstance(result, BaseException):
                self._failed(result)
            else:
                then()

        self._loop.submit("clean", job, done)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _looked(self) -> None:
        mapped_to = self._round.mapped_to
        self._segments = [summary for summary in self._segments if summary.base < mapped_to]
        if mapped_to <= self._plan.first_dirty or not self._segments:
            self._end(Outcome(put_aside="the first batch cannot be cleaned"))
            return
        some = {summary.base: summary for summary in self._segments}
        views = [view for view in self._plan.segments if view.base_offset in some]
        self._todo = [tuple(some[view.base_offset] for view in group) for group in groups(views, self._segment_bytes)]
        known = self._log.cleaned
        touched = known._replace(touched_to=max(known.touched_to, mapped_to))

        def written() -> None:
            if not self._ended():
                self._log.cleaned = touched
                self._next()

        self._job(partial(cleaned.write, self._disk, self._folder, touched), written)

    def _next(self) -> None:
        if self._ended():
            return
        if not self._todo:
            self._finish()
            return
        segments = self._todo.pop(0)
        aborted = self._aborted(segments)
        if aborted is not None:
            self._writing = segments[0].base
            self._steps(self._clean(segments, aborted), self._cleaned)

    def _clean(
        self, segments: tuple[SegmentSummary, ...], aborted: list[AbortedLists]
    ) -> Generator[int, None, CleanedSegments]:
        size = sum(summary.size for summary in segments)
        free = self._disk.free_bytes()
        if free < size + self._spare_bytes:
            raise OSError(errno.ENOSPC, f"cleaning {size} bytes, {free} are free", self._folder)
        return (yield from cleaning.clean(self._disk, self._folder, segments, self._round, aborted, self._opened))

    def _cleaned(self, some: CleanedSegments) -> None:
        self._opened = some.opened.pairs()
        if not some.changed:
            self._sizes.append((some.new.base, some.new.size))
            self._job(partial(cleaning.discard, self._disk, self._folder, some.new.base), self._next)
            return
        if self._ended():
            return
        release = self._group.pause()
        if release is None:
            when_ms = self._loop.monotonic_ms() + limits.CLEAN_PAUSE_RETRY_MS
            self._loop.call_at(when_ms, partial(self._cleaned, some))
            return
        prepare = partial(cleaning.prepare, self._disk, self._folder, some.new.base)
        self._loop.submit("clean", prepare, partial(self._put, some, release))

    def _put(self, some: CleanedSegments, release: Callable[[], None], result: BaseException | None) -> None:
        if isinstance(result, BaseException):
            release()
            self._failed(result)
        elif not self._group.present() or not self._log.put_cleaned(some):
            release()
            self._stop()
        else:
            replaced = [summary.base for summary in some.old[1:]]
            finish = partial(cleaning.finish, self._disk, self._folder, some.new.base, replaced)
            self._loop.submit("clean", finish, partial(self._was_put, some, release))

    def _was_put(self, some: CleanedSegments, release: Callable[[], None], result: BaseException | None) -> None:
        release()
        if isinstance(result, BaseException):
            self._failed(result)
            return
        self._writing = -1
        self._sizes.append((some.new.base, some.new.size))
        self._next()

    def _finish(self) -> None:
        clean = cleaned.Cleaned(self._round.mapped_to, self._log.cleaned.touched_to, tuple(self._sizes))

        def written() -> None:
            if self._ended():
                return
            self._log.cleaned = clean
            before = [summary.size for summary in self._segments]
            after = [size for _, size in self._sizes]
            self._end(
                Outcome(None, "", sum(before), sum(after), len(before), len(after), self._round.keys, clean.cleaned_to)
            )

        self._job(partial(cleaned.write, self._disk, self._folder, clean), written)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _ended(self) -> bool:
        """True, and the round has ended, if the partition is no longer as it was."""
        if self._group.present():
            return False
        self._stop()
        return True

    def _stop(self) -> None:
        self._discard(Outcome(put_aside=GONE))

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, StorageFailed):
            self._end(Outcome(error))  # The process ends: nothing is written any more.
        else:
            self._discard(Outcome(error))

    def _discard(self, outcome: Outcome) -> None:
        """End, and remove what was being written. That this fails does no harm: the next round begins it anew, and a
        start removes it."""
        if self._writing < 0:
            self._end(outcome)
            return
        job = partial(cleaning.discard, self._disk, self._folder, self._writing)
        self._writing = -1
        self._loop.submit("clean", job, lambda _: self._end(outcome))

    def _end(self, outcome: Outcome) -> None:
        self._done(outcome._replace(done_bytes=self.bytes_done))


def _slice(steps: Generator[int, None, Any], bytes_max: int) -> Generator[None, None, Slice]:
    """Job in steps: run `steps` until they have read and written `bytes_max`."""
    took = 0
    while took < bytes_max:
        try:
            took += next(steps)
        except StopIteration as stop:
            return took, True, stop.value
        yield
    return took, False, None
