"""`ports.Loop` on asyncio (uvloop where it is installed): one thread of calls, and one worker thread per I/O queue.

* Timers are in one heap behind one loop timer, so that ten thousand session deadlines cost one system timer and equal
  deadlines fire in the order they were set. Cancelled timers are dropped when they reach the top of the heap, or all
  together when they outnumber the others.
* Workers put results on a queue and wake the loop once for all results in it: a loaded turn takes one wake-up, not one
  per fsync.
* An exception that escapes any call ends the process (`on_fatal`): the state that it left may break an invariant, and
  a restart recovers it from the log. Errors of foreign tasks (an HTTP client that disconnected) are logged.

What it does not do: bound its queues. Every caller bounds what it submits (`limits`). A queue runs one job at a time.
"""

import asyncio
import heapq
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import Any, TypeVar

from muster_coordinator.histogram import Histogram
from muster_coordinator.runtime import limits

T = TypeVar("T")
_log = logging.getLogger(__name__)

SWITCH_INTERVAL_SECONDS = 0.0001
"""Decision 21: a worker that returns from fdatasync must not wait for the GIL for Python's default of 5 ms."""
_COMPACT_TIMERS_MIN = 1_024


class _Timer:
    """A heap entry's call; None once it was made or cancelled."""

    __slots__ = ("_loop", "call")

    def __init__(self, loop: "AsyncLoop", call: Callable[[], None]) -> None:
        self._loop = loop
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        if self.call is not None:
            self.call = None
            self._loop.timer_cancelled()


class _IoQueue:
    """One worker thread and its queue; started with its first job."""

    def __init__(self, name: str, report: Callable[[Callable[[], None]], None]) -> None:
        self._name = name
        self._report = report
        self.seconds = Histogram()
        """Run time of jobs; written by the worker only."""
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"queue-{self._name}", daemon=True)
            self._thread.start()
        self._jobs.put((job, done))

    def close(self, timeout_seconds: float) -> None:
        """Run the queued jobs, then end the thread; after `timeout_seconds` it is abandoned."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(timeout_seconds)

    def _work(self) -> None:
        while True:
            item = self._jobs.get()
            if item is None:
                return
            job, done = item
            began_ns = time.monotonic_ns()
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001  # `done` gets it, on the loop.
                result = error
            self.seconds.observe((time.monotonic_ns() - began_ns) / 1e9)
            self._report(_bound(done, result))
            del item, job, done, result


def _bound(done: Callable[[Any], None], result: object) -> Callable[[], None]:
    return lambda: done(result)


def _paced(steps: Generator[None, None, T]) -> T:
    """Run steps in a worker, with a pause between two: a sleep always releases the GIL, a job's own calls only if they
    block."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        time.sleep(limits.PACED_PAUSE_MS / 1000)


class AsyncLoop:
    """`ports.Loop` over a running or not yet running event loop. Made and closed in the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, on_fatal: Callable[[BaseException, str], None]) -> None:
        self.asyncio_loop = loop
        self._on_fatal = on_fatal
        self._timers: list[tuple[int, int, _Timer]] = []
        """(deadline ms, sequence, timer)"""
        self._sequence = 0
        self._cancelled = 0
        self._armed: asyncio.TimerHandle | None = None
        self._armed_ms = 0
        self._firing = False
        self._queues = {name: _IoQueue(name, self._completed) for name in limits.IO_QUEUES}
        self._completions: deque[Callable[[], None]] = deque()
        self._woken = False
        self._closed = False
        loop.set_exception_handler(self._escaped)

    # -- ports.Clock -----------------------------------------------------------------------------------------------

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # -- ports.Loop ------------------------------------------------------------------------------------------------

    def call_soon(self, call: Callable[[], None]) -> None:
        self.asyncio_loop.call_soon(call)

    def call_at(self, monotonic_ms: int, call: Callable[[], None]) -> _Timer:
        self._sequence += 1
        timer = _Timer(self, call)
        heapq.heappush(self._timers, (monotonic_ms, self._sequence, timer))
        self._arm_if_earlier(monotonic_ms)
        return timer

    def submit(self, queue: str, job: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        # After `close` nothing is written: a turn that was queued before stages writes whose answers cannot leave.
        if not self._closed:
            self._queues[queue].put(job, done)

    def submit_paced(
        self, queue: str, steps: Generator[None, None, T], done: Callable[[T | BaseException], None]
    ) -> None:
        self.submit(queue, lambda: _paced(steps), done)

    # -- the driver's side -----------------------------------------------------------------------------------------

    def close(self, timeout_seconds: float = 5.0) -> None:
        """End the workers after their queued jobs. Completions are not delivered any more."""
        self._closed = True
        if self._armed is not None:
            self._armed.cancel()
        for queue in self._queues.values():
            queue.close(timeout_seconds)

    def queue_seconds(self) -> dict[str, Histogram]:
        """How long the jobs of each queue ran."""
        return {name: queue.seconds for name, queue in self._queues.items()}

    def fatal(self, error: BaseException, where: str) -> None:
        """Report a failure that the process must not survive."""
        self._on_fatal(error, where)

    def timer_cancelled(self) -> None:
        """Called by a cancelled timer: drop all cancelled timers when they outnumber the others."""
        self._cancelled += 1
        if self._cancelled > _COMPACT_TIMERS_MIN and self._cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2].call is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _arm_if_earlier(self, deadline_ms: int) -> None:
        if self._firing:
            return  # armed once, at its end: each call sets its next deadline, and mostly not the earliest
        if self._armed is not None:
            if deadline_ms >= self._armed_ms:
                return
            self._armed.cancel()
        self._armed_ms = deadline_ms
        wait_ms = max(0, deadline_ms - self.monotonic_ms())
        self._armed = self.asyncio_loop.call_later(wait_ms / 1000, self._fire)

    def _fire(self) -> None:
        """Make every call that is due. Timers set by these calls wait for the next turn, so that a turn always ends."""
        self._armed = None
        self._firing = True
        try:
            self._call_due()
        finally:
            self._firing = False
            if self._timers:
                self._arm_if_earlier(self._timers[0][0])

    def _call_due(self) -> None:
        now_ms = self.monotonic_ms()
        newest = self._sequence
        while self._timers:
            deadline_ms, sequence, timer = self._timers[0]
            if timer.call is None:
                heapq.heappop(self._timers)
                self._cancelled -= 1
                continue
            if deadline_ms > now_ms or sequence > newest:
                break
            heapq.heappop(self._timers)
            call, timer.call = timer.call, None
            call()

    def _completed(self, call: Callable[[], None]) -> None:
        """In a worker: hand `call` to the loop. The flag is read after the append, and `_deliver` clears it before it
        reads, so no result is left behind."""
        self._completions.append(call)
        if not self._woken:
            self._woken = True
            try:
                self.asyncio_loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                if not self._closed:
                    raise

    def _deliver(self) -> None:
        self._woken = False
        completions = self._completions
        while completions and not self._closed:
            completions.popleft()()

    def _escaped(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        where = str(context.get("message", "event loop"))
        foreign = "task" in context or "future" in context
        # An OSError of a transport or an accept (too many open files) is an environment fault and only logged. One
        # that escaped a call of ours (`handle`) is fatal.
        if error is None or foreign or (isinstance(error, OSError) and "handle" not in context):
            _log.warning("event loop: %s", where, exc_info=error)
        else:
            self._on_fatal(error, where)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's event loop, or asyncio's where uvloop is not installed; sets the GIL switch interval of decision 21."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
