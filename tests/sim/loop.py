"""Virtual time for whole clusters: one `World` holds the clock and the queue, each replica a `SimLoop`.

Time moves only when nothing is left to do at the present instant. Calls of one replica run in the order they were made;
the order between replicas at the same instant is drawn from the seed. I/O jobs run whole at the instant they complete,
after a drawn latency, one at a time a queue, like a thread a queue. A killed loop runs nothing any more: neither queued
calls, nor timers, nor the completion of a job (a job that has not run by then never happened).
"""

import random
from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush, heappushpop
from typing import Any, TypeVar

from tests.sim.slices import SlicedJob

STEPS_MIN = 50_000
STEPS_PER_MS_MAX = 1_000
"""More events than these in a stretch of virtual time are a circle, and no work."""


def unexpected(what: str, details: Mapping[str, object], error: BaseException | None) -> None:
    """A `ports.Notice`: what is contained in production ends the run here."""
    raise AssertionError(f"{what}: {dict(details)}") from error


class SimTimer:
    """A scheduled call; cancelling forgets it."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


@dataclass(slots=True)
class Latency:
    """How long an I/O job takes, drawn uniformly, in microseconds of virtual time."""

    low_us: int = 100
    high_us: int = 400


_Event = tuple[int, float, int, Callable[[], None]]
"""(instant, drawn order at that instant, number, what happens)"""


class World:
    """The clock in microseconds, the queue, and the randomness of everything that is not the product's own."""

    def __init__(self, seed: int | str = 0) -> None:
        self.now_us = 1_000_000_000
        self.rand = random.Random(seed)
        self.tracer: Callable[[str, bytes], None] | None = None
        """Called as tracer(what, bytes) by everything that happens; the hash of it all is a run's identity."""
        self._heap: list[_Event] = []
        self._next: _Event | None = None
        """An event of this instant that is not in the heap: nearly always it is the next one anyway."""
        self._count = 0
        self._tie = self.rand.random
        self._bits = self.rand.getrandbits
        self.steps = 0

    def at(self, when_us: int, call: Callable[[], None], *, order: float | None = None) -> None:
        """Run `call` at `when_us`; ties are broken by a drawn number, or by `order`."""
        self._count = count = self._count + 1
        if when_us < self.now_us:
            when_us = self.now_us
        heappush(self._heap, (when_us, self._tie() if order is None else order, count, call))

    def soon(self, call: Callable[[], None]) -> None:
        """Run `call` at this instant, when its turn comes: as `at`, for the commonest of all events."""
        self._count = count = self._count + 1
        event = (self.now_us, self._tie(), count, call)
        if self._next is None:
            self._next = event
        else:
            heappush(self._heap, event)

    def between(self, low: int, high: int) -> int:
        """What `rand.randint(low, high)` gives and draws, at a third of its cost: one for every message and job."""
        width = high - low + 1
        bits = width.bit_length()
        drawn = self._bits(bits)
        while drawn >= width:
            drawn = self._bits(bits)
        return low + drawn

    def step(self) -> bool:
        """Run one event. False when nothing is left."""
        self._settle()
        if not self._heap:
            return False
        when, _, _, call = heappop(self._heap)
        self.now_us = max(self.now_us, when)
        self.steps += 1
        call()
        return True

    def _settle(self) -> None:
        """Every event is in the heap."""
        event, self._next = self._next, None
        if event is not None:
            heappush(self._heap, event)

    def run_for(self, ms: float) -> None:
        """Let `ms` of virtual time pass."""
        until = self.now_us + int(ms * 1000)
        enough = self.steps + STEPS_MIN + int(ms * STEPS_PER_MS_MAX)
        heap = self._heap
        while True:
            event = self._next
            if event is not None:
                self._next = None
                event = heappushpop(heap, event)
            elif heap:
                event = heappop(heap)
            else:
                break
            if event[0] > until:
                heappush(heap, event)
                break
            self.now_us = event[0]  # as `step`; nothing is queued for the past
            self.steps += 1
            event[3]()
            assert self.steps < enough, f"something turns in circles at {self.now_us} us"
        self.now_us = until

    def run_until(self, what: str, check: Callable[[], Any], ms: float = 60_000) -> Any:
        """Run until `check()` is true and return it; AssertionError after `ms` of virtual time."""
        until = self.now_us + int(ms * 1000)
        while True:
            found = check()
            if found:
                return found
            self._settle()
            if not self._heap or self._heap[0][0] > until:
                raise AssertionError(f"not within {ms} ms of virtual time: {what}")
            self.step()


T = TypeVar("T")


def finish(steps: Generator[None, None, T]) -> T:
    """Take every step; what the generator returned."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


@dataclass(slots=True)
class _IoQueue:
    jobs: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = field(default_factory=deque)
    busy: bool = False


class SimLoop:
    """`ports.Loop` of one replica's life. `skew_us` shifts its clocks; `kill` ends the life.

    `escaped(error)` gets what a call or a job lets out (also `disk.PowerLoss`), and has to end the life; without it
    the error goes up through `World.step`.
    """

    def __init__(
        self,
        world: World,
        *,
        skew_us: int = 0,
        wall_us: int = 1_700_000_000_000_000,
        escaped: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.world = world
        self._escaped = escaped
        self.alive = True
        self.paused = False
        self.latency: dict[str, Latency] = {}
        self.default_latency = Latency()
        self._skew_us = skew_us
        self._drift_ppm = 0
        self._rebased = (0, skew_us)
        """Time of the world, and own time at that instant, since which the present drift holds."""
        self._ahead_us = skew_us
        """Own time less that of the world; only without a drift."""
        self._wall_us = wall_us
        self._soon: deque[Callable[[], None]] = deque()
        self._running = False
        self._queues: dict[str, _IoQueue] = {}
        self.place: Callable[[str, Latency], int | None] | None = None
        """What the next job of a queue takes, if its latency is not to be drawn (`rare_orders`)."""
        self.slice_us: tuple[int, int] | None = None
        """Drawn time between two disk operations of a job, during which the loop goes on; None: jobs run whole."""
        self._sliced: list[SlicedJob] = []

    def monotonic_ms(self) -> int:
        return (self._own_us() if self._drift_ppm else self.world.now_us + self._ahead_us) // 1000

    def wall_ms(self) -> int:
        own_us = self._own_us() if self._drift_ppm else self.world.now_us + self._ahead_us
        return (own_us - self._skew_us + self._wall_us) // 1000

    def drift(self, parts_per_million: int) -> None:
        """Both clocks run so much faster than the world from now on."""
        self._rebased = world_us, own_us = (self.world.now_us, self._own_us())
        self._ahead_us = own_us - world_us
        self._drift_ppm = parts_per_million

    def _own_us(self) -> int:
        if not self._drift_ppm:
            return self.world.now_us + self._ahead_us
        world_us, own_us = self._rebased
        passed_us = self.world.now_us - world_us
        return own_us + passed_us + passed_us * self._drift_ppm // 1_000_000

    def _world_us(self, wanted_us: int) -> int:
        """When the own clock will show `wanted_us`, unless its drift changes before."""
        if not self._drift_ppm:
            return wanted_us - self._ahead_us
        world_us, own_us = self._rebased
        return world_us - (own_us - wanted_us) * 1_000_000 // (1_000_000 + self._drift_ppm)

    def step_wall(self, ms: int) -> None:
        """Somebody set the machine's clock."""
        self._wall_us += ms * 1000

    def call_soon(self, call: Callable[[], None]) -> None:
        self._soon.append(call)
        if not self._running and self.alive and not self.paused:  # as `_wake`
            self._running = True
            self.world.soon(self._turn)

    def call_at(self, monotonic_ms: int, call: Callable[[], None]) -> SimTimer:
        timer = SimTimer(call)

        def fire() -> None:
            if timer.call is None:
                return
            if self.alive and self.monotonic_ms() < monotonic_ms:
                self.world.at(self._world_us(monotonic_ms * 1000) + 1, fire)  # the clock runs slower than it did
                return
            call, timer.call = timer.call, None
            self.call_soon(call)

        self.world.at(self._world_us(monotonic_ms * 1000), fire)
        return timer

    def submit(self, queue: str, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        state = self._queues.get(queue)
        if state is None:
            state = self._queues[queue] = _IoQueue()
        state.jobs.append((job, done))
        if not state.busy:
            self._next_job(queue, state)

    def submit_paced(self, queue: str, steps: Generator[None, None, Any], done: Callable[[Any], None]) -> None:
        self.submit(queue, lambda: finish(steps), done)

    def kill(self) -> None:
        """The process is gone: nothing of it runs again."""
        self.alive = False
        self._soon.clear()
        sliced, self._sliced = self._sliced, []
        for job in sliced:
            job.abort()

    def pause(self) -> None:
        """Like SIGSTOP: nothing runs, I/O that was handed out completes, time goes on."""
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self._wake()

    def _next_job(self, queue: str, state: _IoQueue) -> None:
        if state.busy or not state.jobs or not self.alive:
            return
        state.busy = True
        job, done = state.jobs.popleft()
        latency = self.latency.get(queue, self.default_latency)
        world = self.world
        wait_us = None if self.place is None else self.place(queue, latency)
        if wait_us is None:
            wait_us = world.between(latency.low_us, latency.high_us)
        world.at(world.now_us + wait_us, partial(self._run_job, queue, state, job, done))

    def _run_job(self, queue: str, state: _IoQueue, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if not self.alive:
            return
        if self.slice_us is not None:
            sliced = SlicedJob(job)
            self._sliced.append(sliced)
            self._slice(queue, state, sliced, done)
            return
        result: Any
        try:
            result = job()
        except Exception as error:  # noqa: BLE001  # the port hands the job's error to `done`
            result = error
        except BaseException as error:
            if self._escaped is None:
                raise
            self._escaped(error)
            return
        if not self.alive:
            return  # the job pulled the plug itself
        self._completed(queue, state, result, done)

    def _completed(self, queue: str, state: _IoQueue, result: Any, done: Callable[[Any], None]) -> None:
        state.busy = False
        self.call_soon(partial(done, result))
        if state.jobs:
            self._next_job(queue, state)

    def _slice(self, queue: str, state: _IoQueue, job: SlicedJob, done: Callable[[Any], None]) -> None:
        """The next piece of a job, up to its next disk operation."""
        if not self.alive:
            return
        if not job.step():
            assert self.slice_us is not None
            wait_us = self.world.between(*self.slice_us)
            self.world.at(self.world.now_us + wait_us, partial(self._slice, queue, state, job, done))
            return
        self._sliced.remove(job)
        if job.error is None or isinstance(job.error, Exception):
            self._completed(queue, state, job.result if job.error is None else job.error, done)
        elif self._escaped is None:
            raise job.error
        else:
            self._escaped(job.error)

    def _wake(self) -> None:
        if not self._running and self.alive and not self.paused:
            self._running = True
            self.world.soon(self._turn)

    def _turn(self) -> None:
        """Run the calls that are queued now; what they queue runs in the next turn."""
        self._running = False
        if self.paused:
            return
        soon = self._soon
        left = len(soon)
        try:
            while left and self.alive:
                left -= 1
                soon.popleft()()
            if not self.alive:
                return
        except BaseException as error:
            if self._escaped is None:
                raise
            self._escaped(error)
            return
        if soon and not self._running:
            self._wake()
