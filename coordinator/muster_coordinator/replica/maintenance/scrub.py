"""The scrub: every sealed segment is read and checked regularly.

Problem: damage of a segment that nobody reads is found only when it is needed, and by then the peers' copies may be
damaged too. Mechanism: a pass over all partitions, one segment after another, at `scrub_rate` bytes a second (0: never)
in a thread of its own. Damaged segments are reported to `damage`, and fetched again by `repair`. Segments that were
read or appended since the start are checked like the others, since bytes may change after that. What it does not find:
damage on the disk under a page that is still in the page cache, which no reader sees either; and damage of the active
segment, which is checked once it is sealed. The position of a pass is not stored: a start begins a new pass.
"""

import errno
from collections import deque
from collections.abc import Generator
from functools import partial

from muster_coordinator.errors import Corruption, SegmentDamaged
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk, Loop
from muster_coordinator.replica import limits
from muster_coordinator.replica.group_manager import GroupManager
from muster_coordinator.storage.partition_log import PartitionLog
from muster_coordinator.storage.segment import SegmentSummary
from muster_coordinator.storage.segment_check import CheckedSegment, check_segment
from muster_coordinator.storage.segment_index import segment_name

Steps = Generator[int, None, CheckedSegment]
Slice = tuple[int, CheckedSegment | None]
"""(bytes checked in this slice, the checked segment if the slice has reached its end)."""


class _Under:
    """The segment that is being checked."""

    __slots__ = ("generation", "group", "log", "steps", "summary")

    def __init__(self, group: GroupNo, log: PartitionLog, summary: SegmentSummary, steps: Steps) -> None:
        self.group = group
        self.generation = log.generation
        """What was cleaned since was checked as it was before."""
        self.log = log
        self.summary = summary
        self.steps = steps


class Scrub:
    """See the module."""

    def __init__(self, loop: Loop, disk: Disk, group_manager: GroupManager, rate: int) -> None:
        """`rate`: bytes a second; 0: never."""
        self._loop = loop
        self._disk = disk
        self._group_manager = group_manager
        self._tick_bytes = rate * limits.SCRUB_TICK_MS // 1_000
        self._groups: deque[GroupNo] = deque()
        self._segments: deque[tuple[GroupNo, PartitionLog, int]] = deque()
        """Segments of the current group that are still to be checked: (group, log, base offset)."""
        self._under: _Under | None = None
        self._began_ms = 0
        self.bytes_checked = 0
        self.passes = 0
        """Complete passes since the start."""

    def start(self) -> None:
        if self._tick_bytes:
            self._loop.call_at(self._loop.monotonic_ms() + limits.SCRUB_FIRST_MS, self._begin)

    def _begin(self) -> None:
        self._began_ms = self._loop.monotonic_ms()
        self._groups.extend(sorted(self._group_manager.states))
        self._go_on()

    def _go_on(self) -> None:
        under = self._under = self._under or self._next()
        if under is None:
            self.passes += 1
            now_ms = self._loop.monotonic_ms()
            self._loop.call_at(max(self._began_ms + limits.SCRUB_PASS_MS, now_ms + limits.SCRUB_TICK_MS), self._begin)
            return
        self._loop.submit_paced("scrub", _slice(under.steps, self._tick_bytes), partial(self._checked, under))

    def _next(self) -> _Under | None:
        """The next segment to check that still exists."""
        while self._segments or self._groups:
            if not self._segments:
                number = self._groups.popleft()
                state = self._group_manager.states.get(number)
                if state is not None and not state.closed:
                    self._segments.extend((number, state.log, summary.base) for summary in state.log.sealed())
                continue
            number, log, base = self._segments.popleft()
            summary = self._wanted(number, log, base)
            if summary is not None:
                folder = self._group_manager.states[number].folder
                steps = check_segment(self._disk, f"{folder}/{segment_name(base)}", folder, summary)
                return _Under(number, log, summary, steps)
        return None

    def _wanted(self, number: GroupNo, log: PartitionLog, base: int) -> SegmentSummary | None:
        """The segment, unless retention, a deletion or a snapshot install has removed it."""
        state = self._group_manager.states.get(number)
        return log.sealed_at(base) if state is not None and not state.closed and state.log is log else None

    def _checked(self, under: _Under, result: Slice | BaseException) -> None:
        took = self._tick_bytes
        if isinstance(result, tuple):
            took, whole = result
            self.bytes_checked += took
            if whole is not None:
                self._under = None
        else:
            self._under = None
            self._failed(under, result)
        wait_ms = limits.SCRUB_TICK_MS * took // self._tick_bytes
        self._loop.call_at(self._loop.monotonic_ms() + max(1, wait_ms), self._go_on)

    def _failed(self, under: _Under, error: BaseException) -> None:
        """The segment cannot be read or is damaged. The process goes on, since no promise rests on this read."""
        base = under.summary.base
        if not isinstance(error, Corruption | OSError):
            raise error  # a bug
        if isinstance(error, OSError) and error.errno not in (errno.EIO, errno.ENOENT):
            return  # a shortage of the process (such as file descriptors), not damage; the next pass tries again
        if self._wanted(under.group, under.log, base) == under.summary and under.log.generation == under.generation:
            self._group_manager.damage.report(under.group, SegmentDamaged(base, str(error)))


def _slice(steps: Steps, bytes_max: int) -> Generator[None, None, Slice]:
    """Job in steps: run `steps` until they have checked `bytes_max`."""
    checked = 0
    while checked < bytes_max:
        try:
            checked += next(steps)
        except StopIteration as stop:
            return checked, stop.value
        yield
    return checked, None
