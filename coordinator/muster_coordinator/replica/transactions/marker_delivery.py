"""Markers from the coordinators of this replica to the leaders of partitions, here or over a peer link.

Problem: a transaction whose outcome is decided keeps readers back in every partition that lacks its marker, and the
partitions' leaders move and die. Mechanism: each marker is tried until its partition has it, or does not exist any
more, or its coordinator was deposed; those for one peer travel together. Pauses between tries grow. That a partition
does not exist is believed only after a round with the controller's leader. Three errors end the tries. 47: the
partition has something newer of this producer; 17: it takes no transactions. In both cases there is nothing open that
this marker could end. 52: a later coordinator has written its marker there, and this one will hear that it was deposed.

What it does not do: know transactions. The coordinator counts what is missing, and a new leader sends all markers anew.
"""

import heapq
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice

from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.links import channels
from muster_coordinator.ports import Loop, PeerNet, Timer
from muster_coordinator.records.control import TransactionMarker
from muster_coordinator.records.transaction_log import TopicPartition
from muster_coordinator.replica.group_manager import GroupManager
from muster_coordinator.replica.multiraft.leaders import Leaders
from muster_coordinator.replica.multiraft.status import LateMarker
from muster_coordinator.replica.transactions import limits
from muster_coordinator.replica.transactions.transaction_payloads import (
    MarkerRow,
    decode_markers,
    decode_markers_result,
    encode_markers,
    encode_markers_result,
)

_DONE = (Code.NONE, Code.INVALID_PRODUCER_EPOCH, Code.INVALID_TOPIC_EXCEPTION)


class _Job:
    """One marker for one partition."""

    __slots__ = ("begun_ms", "done", "marker", "partition", "tries", "wanted")

    def __init__(
        self,
        marker: TransactionMarker,
        partition: TopicPartition,
        wanted: Callable[[], bool],
        done: Callable[[], None],
        begun_ms: int,
    ) -> None:
        self.begun_ms = begun_ms
        self.marker = marker
        self.partition = partition
        self.wanted = wanted
        self.done = done
        self.tries = 0


class _Frame:
    """Markers that were sent to a peer, which has not answered."""

    __slots__ = ("jobs", "peer", "timer")

    def __init__(self, peer: BrokerId, jobs: list[_Job], timer: Timer) -> None:
        self.peer = peer
        self.jobs = jobs
        self.timer = timer


class MarkerDelivery:
    """See the module. `when_current(call)`: as `surface.Surface.when_topics_current`."""

    def __init__(
        self,
        loop: Loop,
        net: PeerNet,
        broker: BrokerId,
        leaders: Leaders,
        groups: GroupManager,
        when_current: Callable[[Callable[[bool], None]], None],
    ) -> None:
        self._loop = loop
        self._net = net
        self._broker = broker
        self._leaders = leaders
        self._groups = groups
        self._when_current = when_current
        self._ready: deque[_Job] = deque()
        self._later: list[tuple[int, int, _Job]] = []
        """Heap of (due, number, job)."""
        self._count = 0
        self._passing = False
        self._frames: dict[int, _Frame] = {}
        self._unwritten: dict[_Job, None] = {}
        """All that are neither done nor known to be unwanted, the oldest first."""
        self._served = 0

    # -- sending ---------------------------------------------------------------------------------------------------

    def send(
        self,
        marker: TransactionMarker,
        partition: TopicPartition,
        wanted: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        """See `transaction_groups.TransactionServices`."""
        job = _Job(marker, partition, wanted, done, self._loop.monotonic_ms())
        self._unwritten[job] = None
        self._ready.append(job)
        self._pass_soon()

    def late(self) -> list[LateMarker]:
        """The partitions whose oldest marker is not written after `limits.MARKER_LATE_MS`."""
        found: dict[TopicPartition, LateMarker] = {}
        now_ms = self._loop.monotonic_ms()
        for job in islice(self._unwritten, 10 * limits.LATE_PARTITIONS_MAX):
            late_ms = now_ms - job.begun_ms
            if late_ms < limits.MARKER_LATE_MS or len(found) == limits.LATE_PARTITIONS_MAX:
                break
            if job.wanted():
                found.setdefault(job.partition, LateMarker(*job.partition, late_ms))
        return list(found.values())

    def _is_wanted(self, job: _Job) -> bool:
        wanted = job.wanted()
        if not wanted:
            self._unwritten.pop(job, None)
        return wanted

    def _finish(self, job: _Job) -> None:
        self._unwritten.pop(job, None)
        job.done()

    def _pass_soon(self) -> None:
        if not self._passing:
            self._passing = True
            self._loop.call_soon(self._pass)

    def _pass(self) -> None:
        self._passing = False
        batches: dict[BrokerId, list[tuple[GroupNo, _Job]]] = {}
        for _ in range(min(limits.MARKERS_PER_TURN, len(self._ready))):
            job = self._ready.popleft()
            if not self._is_wanted(job):
                continue
            group = self._group_of(job.partition)
            if group is None:
                self._look_whether_gone(job)
                continue
            leader = self._leaders.of(group).leader
            if leader is None:
                self._again(job)
            elif leader == self._broker:
                self._write(group, job)
            else:
                batches.setdefault(leader, []).append((group, job))
        for peer, rows in batches.items():
            for start in range(0, len(rows), limits.MARKERS_PER_FRAME_MAX):
                self._send(peer, rows[start : start + limits.MARKERS_PER_FRAME_MAX])
        if self._ready:
            self._pass_soon()

    def _group_of(self, partition: TopicPartition) -> GroupNo | None:
        image = self._groups.image
        topic = None if image is None else image.topics.get(partition[0])
        if topic is None or not 0 <= partition[1] < len(topic.partitions):
            return None
        return topic.partitions[partition[1]].group

    def _look_whether_gone(self, job: _Job) -> None:
        def current(confirmed: bool) -> None:
            if not self._is_wanted(job):
                return
            if confirmed and self._group_of(job.partition) is None:
                self._finish(job)
            else:
                self._again(job)

        self._when_current(current)

    def _write(self, group: GroupNo, job: _Job) -> None:
        log = self._groups.logs.get(group)
        if log is None:
            self._again(job)
            return
        deadline_ms = self._loop.monotonic_ms() + limits.MARKER_WRITE_MS
        log.write_marker(job.marker, deadline_ms=deadline_ms, done=lambda code: self._answered(job, code))

    def _send(self, peer: BrokerId, rows: list[tuple[GroupNo, _Job]]) -> None:
        jobs = [job for _, job in rows]
        markers: list[MarkerRow] = [(group, job.marker) for group, job in rows]
        self._count += 1
        number = self._count
        room = len(self._frames) < limits.MARKER_FRAMES_UNANSWERED_MAX
        if not room or not self._net.send(peer, channels.FORWARD, encode_markers(number, markers)):
            for job in jobs:
                self._again(job)
            return
        due_ms = self._loop.monotonic_ms() + limits.MARKER_ANSWER_MS
        self._frames[number] = _Frame(peer, jobs, self._loop.call_at(due_ms, lambda: self._lost(number)))

    def _answered(self, job: _Job, code: int) -> None:
        if not self._is_wanted(job):
            return
        if code in _DONE:
            self._finish(job)
        else:
            self._again(job)

    def _again(self, job: _Job) -> None:
        """Try again after a pause."""
        pause_ms = min(limits.MARKER_RETRY_MS << min(job.tries, 10), limits.MARKER_RETRY_MS_MAX)
        job.tries += 1
        self._count += 1
        due_ms = self._loop.monotonic_ms() + pause_ms
        first = not self._later or due_ms < self._later[0][0]
        heapq.heappush(self._later, (due_ms, self._count, job))
        if first:
            self._loop.call_at(due_ms, self._retry)

    def _retry(self) -> None:
        now_ms, later = self._loop.monotonic_ms(), self._later
        while later and later[0][0] <= now_ms:
            self._ready.append(heapq.heappop(later)[2])
        if self._ready:
            self._pass_soon()
        if later:
            self._loop.call_at(later[0][0], self._retry)

    def _lost(self, number: int) -> None:
        """The frame's fate is unknown: a marker that comes again does no harm."""
        frame = self._frames.pop(number, None)
        if frame is not None:
            frame.timer.cancel()
            for job in frame.jobs:
                self._again(job)

    def peer_down(self, peer: BrokerId) -> None:
        """The link to `peer` is down."""
        for number in [number for number, frame in self._frames.items() if frame.peer == peer]:
            self._lost(number)

    def result(self, peer: BrokerId, payload: bytes) -> None:
        """A peer answers. Raises `WireError`."""
        number, codes = decode_markers_result(payload)
        frame = self._frames.get(number)
        if frame is None or frame.peer != peer:
            return
        if len(codes) != len(frame.jobs):
            self._lost(number)
            return
        del self._frames[number]
        frame.timer.cancel()
        for job, code in zip(frame.jobs, codes, strict=True):
            self._answered(job, code)

    # -- serving peers ---------------------------------------------------------------------------------------------

    def received(self, peer: BrokerId, payload: bytes) -> None:
        """Write a peer's markers, and answer when the fate of each is known. Raises `WireError`."""
        number, rows = decode_markers(payload)
        codes: list[int] = [Code.NOT_LEADER_OR_FOLLOWER] * len(rows)
        left = len(rows)
        full = self._served + left > limits.MARKERS_SERVED_MAX

        def answered(index: int, code: int, *, served: bool) -> None:
            nonlocal left
            codes[index] = code
            left -= 1
            self._served -= served
            if left == 0:
                self._net.send(peer, channels.FORWARD, encode_markers_result(number, codes))

        deadline_ms = self._loop.monotonic_ms() + limits.MARKER_WRITE_MS
        for index, (group, marker) in enumerate(rows):
            log = self._groups.logs.get(group)
            if log is None or full:
                answered(index, Code.NOT_LEADER_OR_FOLLOWER, served=False)
                continue
            self._served += 1
            log.write_marker(marker, deadline_ms=deadline_ms, done=partial(answered, index, served=True))
