"""The workers: take a due key from the queue, run one pass, put the key back. N at a time, and one per object.

`run` runs until it is cancelled; `drain` runs what is due now and returns, which is what a test on a virtual clock
needs. A pass that meets a bug is logged with its traceback and retried with back-off; it does not stop the management
of the other objects.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from muster_operator.limits import KAFKA_WAITING_MAX, WORKERS_DEFAULT
from muster_operator.ports import Clock
from muster_operator.runtime.keys import OwnerKey
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.reconcile import Outcome, Reconciler
from muster_operator.runtime.work_queue import WorkQueue

_log = logging.getLogger("muster.operator.runner")
_IDLE_S = 60.0


class Runner:
    def __init__(
        self, reconciler: Reconciler, *, clock: Clock, metrics: Metrics, workers: int = WORKERS_DEFAULT
    ) -> None:
        self.queue: WorkQueue[OwnerKey] = WorkQueue()
        self._reconciler = reconciler
        self._clock = clock
        self._metrics = metrics
        self._workers = workers
        self._wake = asyncio.Event()
        self._aside = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._fatal: BaseException | None = None

    def enqueue(self, keys: Iterable[OwnerKey], after_ms: int = 0) -> None:
        """Queue a pass over `keys`. A full queue drops them; the resync brings them back."""
        now = self._clock.monotonic_ms()
        for key in keys:
            if not self.queue.add(key, now, after_ms):
                _log.error("queue full", extra={"object": "/".join(key)})
        self._wake.set()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """For the part of a pass that waits for a cluster which may not answer: meanwhile the pass does not count as a
        worker."""
        lent = self._aside < KAFKA_WAITING_MAX
        self._aside += lent
        self._wake.set()
        try:
            yield
        finally:
            self._aside -= lent

    async def run(self) -> None:
        """Run until cancelled; then the passes in progress are cancelled and awaited."""
        try:
            while True:
                self._wake.clear()
                if self._fatal is not None:
                    raise self._fatal
                self._start_due()
                await self._wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def drain(self) -> int:
        """Run everything that is due now, including what becomes due by it; returns the number of passes."""
        passes = 0
        while True:
            self._start_due()
            if not self._tasks:
                return passes
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            passes += len(done)
            for task in done:
                task.result()

    def observe_queue(self) -> None:
        """Copy the queue's numbers into the metrics."""
        now = self._clock.monotonic_ms()
        self._metrics.queue_depth.set(self.queue.depth(now))
        self._metrics.queue_oldest.set(self.queue.oldest_ms(now) / 1_000)

    def _free(self) -> bool:
        return len(self._tasks) - self._aside < self._workers

    def _start_due(self) -> None:
        while self._free():
            key = self.queue.take(self._clock.monotonic_ms())
            if key is None:
                return
            task = asyncio.create_task(self._one(key), name="/".join(key))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fatal = task.exception()  # not a bug in a pass: the process has to end, as with SystemExit
        self._wake.set()

    async def _wait(self) -> None:
        due = self.queue.next_due_ms()
        timeout_s = _IDLE_S
        if due is not None and self._free():
            timeout_s = max(0.0, (due - self._clock.monotonic_ms()) / 1_000)
        with suppress(TimeoutError):
            async with asyncio.timeout(
                timeout_s
            ):  # `wait_for` may lose a cancellation that arrives together with the wake-up
                await self._wake.wait()

    async def _one(self, key: OwnerKey) -> None:
        started = self._clock.monotonic_ms()
        try:
            outcome = await self._reconciler.reconcile(key)
        except Exception:  # noqa: BLE001 (the outermost loop of a pass)
            _log.exception("bug in a pass", extra={"object": "/".join(key)})
            outcome = Outcome(result="bug", failed=True)
        now = self._clock.monotonic_ms()
        if outcome.gone:
            self.queue.forget(key)
            self.queue.done(key, now)
        elif outcome.failed:
            self.queue.failed(key, now, at_least_ms=outcome.at_least_ms)
        else:
            self.queue.done(key, now, requeue_after_ms=outcome.requeue_after_ms)
        self._metrics.reconciled(key.kind, outcome.result, (now - started) / 1_000)
