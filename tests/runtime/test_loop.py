"""The real loop: order of calls and timers, queues, completions, and what happens to an exception nobody caught."""

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator

import pytest
from muster_coordinator.ports import Timer
from muster_coordinator.runtime.loop import AsyncLoop, new_event_loop

WAIT_SECONDS = 10


class Harness:
    """Runs the loop until `done` is called."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.fatal: list[tuple[BaseException, str]] = []
        self.loop = AsyncLoop(loop, on_fatal=self._on_fatal)
        self._finished = loop.create_future()

    def _on_fatal(self, error: BaseException, where: str) -> None:
        self.fatal.append((error, where))
        self.done()

    def done(self) -> None:
        if not self._finished.done():
            self._finished.set_result(None)

    def run(self) -> None:
        self.loop.asyncio_loop.run_until_complete(asyncio.wait_for(self._finished, WAIT_SECONDS))


@pytest.fixture(params=["uvloop", "asyncio"])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    loop = new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()
    made = Harness(loop)
    yield made
    made.loop.close()
    loop.close()


def test_a_paced_job_leaves_the_interpreter_to_the_loop_between_its_steps(harness: Harness) -> None:
    loop, seen = harness.loop, []

    def steps() -> Generator[None, None, str]:
        for n in range(3):
            asked = threading.Event()
            loop.asyncio_loop.call_soon_threadsafe(lambda n=n, asked=asked: (seen.append(n), asked.set()))
            assert asked.wait(WAIT_SECONDS)
            yield
        return "all"

    def done(result: object) -> None:
        seen.append(result)
        harness.done()

    loop.submit_paced("flush", steps(), done)
    harness.run()
    assert seen == [0, 1, 2, "all"]


def test_the_error_of_a_paced_job_is_its_result(harness: Harness) -> None:
    results: list[object] = []

    def steps() -> Generator[None, None, None]:
        yield
        raise OSError(5, "gone")

    harness.loop.submit_paced("flush", steps(), lambda result: (results.append(result), harness.done()))
    harness.run()
    assert [type(result) for result in results] == [OSError]


def test_calls_run_in_the_order_they_were_made(harness: Harness) -> None:
    seen: list[int] = []
    for n in range(5):
        harness.loop.call_soon(lambda n=n: seen.append(n))
    harness.loop.call_soon(harness.done)
    harness.run()
    assert seen == [0, 1, 2, 3, 4]


def test_timers_fire_by_deadline_then_by_age_and_never_early(harness: Harness) -> None:
    loop, seen = harness.loop, []
    now_ms = loop.monotonic_ms()

    def at(wait_ms: int, name: str) -> None:
        def fire() -> None:
            assert loop.monotonic_ms() >= now_ms + wait_ms
            seen.append(name)

        loop.call_at(now_ms + wait_ms, fire)

    at(20, "late")
    at(5, "first of two")
    at(5, "second of two")
    at(-10, "overdue")
    loop.call_at(now_ms + 25, harness.done)
    harness.run()
    assert seen == ["overdue", "first of two", "second of two", "late"]
    assert not harness.fatal


def test_a_cancelled_timer_does_not_fire_even_when_it_was_the_next(harness: Harness) -> None:
    loop, seen = harness.loop, []
    now_ms = loop.monotonic_ms()
    loop.call_at(now_ms + 2, lambda: seen.append("cancelled")).cancel()
    loop.call_at(now_ms + 4, lambda: seen.append("kept"))
    loop.call_at(now_ms + 6, harness.done)
    harness.run()
    assert seen == ["kept"]


def test_a_timer_may_cancel_another_that_is_due_in_the_same_turn(harness: Harness) -> None:
    loop, seen = harness.loop, []
    now_ms = loop.monotonic_ms()
    timers: list[Timer] = []
    loop.call_at(now_ms + 3, lambda: [timer.cancel() for timer in timers])
    timers.append(loop.call_at(now_ms + 3, lambda: seen.append("second")))
    loop.call_at(now_ms + 5, harness.done)
    harness.run()
    assert seen == []


def test_a_timer_that_sets_itself_for_now_does_not_starve_the_loop(harness: Harness) -> None:
    loop, rounds = harness.loop, []

    def again() -> None:
        rounds.append(1)
        if len(rounds) < 1_000_000 and not stopped:
            loop.call_at(loop.monotonic_ms(), again)

    stopped: list[int] = []
    loop.call_at(loop.monotonic_ms(), again)
    loop.call_soon(lambda: loop.call_soon(lambda: (stopped.append(1), harness.done())))  # type: ignore[func-returns-value]
    harness.run()
    assert len(rounds) < 1_000_000


def test_what_timers_set_in_one_turn_is_armed_once_and_fires() -> None:
    """However many timers they set, the latest first: an idle replica's turns mostly set timers."""
    loop, armed = new_event_loop(), []

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(loop, name)

        def call_later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
            armed.append(seconds)
            return loop.call_later(seconds, call)

    harness = Harness(loop)
    harness.loop.asyncio_loop = Counting()  # type: ignore[assignment]
    seen: list[int] = []

    def fire() -> None:
        armed.clear()
        now_ms = harness.loop.monotonic_ms()
        for wait_ms in (30_000, 20_000, 10_000):
            harness.loop.call_at(now_ms + wait_ms, harness.done)
        harness.loop.call_at(now_ms + 1, last)

    def last() -> None:
        seen.append(len(armed))
        harness.done()

    harness.loop.call_at(harness.loop.monotonic_ms(), fire)
    loop.run_until_complete(asyncio.wait_for(harness._finished, WAIT_SECONDS))
    assert seen == [1]
    harness.loop.close()
    loop.close()


def test_many_cancelled_timers_do_not_stay_in_memory(harness: Harness) -> None:
    loop = harness.loop
    far_ms = loop.monotonic_ms() + 3_600_000
    for _ in range(10_000):
        loop.call_at(far_ms, harness.done).cancel()
    assert len(loop._timers) < 3_000


def test_jobs_of_one_queue_run_in_order_one_at_a_time_off_the_loop(harness: Harness) -> None:
    loop, running, seen = harness.loop, [], []
    loop_thread = threading.get_ident()

    def job(n: int) -> Callable[[], int]:
        def run() -> int:
            assert threading.get_ident() != loop_thread
            running.append(n)
            assert running == [n], "another job of the queue runs at the same time"
            running.remove(n)
            return n

        return run

    def finished(result: object) -> None:
        assert threading.get_ident() == loop_thread
        seen.append(result)
        if len(seen) == 50:
            harness.done()

    for n in range(50):
        loop.submit("wal-offsets", job(n), finished)
    harness.run()
    assert seen == list(range(50))


def test_a_stuck_queue_does_not_hold_up_another(harness: Harness) -> None:
    loop, release, seen = harness.loop, threading.Event(), []

    def fast(_: object) -> None:
        seen.append("flush")
        release.set()

    def slow(_: object) -> None:
        seen.append("wal")
        harness.done()

    loop.submit("wal-offsets", lambda: release.wait(WAIT_SECONDS), slow)
    loop.submit("flush", lambda: None, fast)
    harness.run()
    assert seen == ["flush", "wal"]


def test_a_jobs_exception_is_handed_to_done_and_not_raised(harness: Harness) -> None:
    seen: list[object] = []

    def fail() -> None:
        raise OSError("disk on fire")

    def done(result: object) -> None:
        seen.append(result)
        harness.done()

    harness.loop.submit("flush", fail, done)
    harness.run()
    assert isinstance(seen[0], OSError)
    assert not harness.fatal


def test_completions_of_a_turn_share_one_wake_up() -> None:
    loop = new_event_loop()
    wakes: list[int] = []

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(loop, name)

        def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
            wakes.append(1)
            loop.call_soon_threadsafe(call)

    harness = Harness(loop)
    harness.loop.asyncio_loop = Counting()  # type: ignore[assignment]
    finished = threading.Semaphore(0)
    count = 20

    def job() -> None:
        finished.release()

    seen: list[object] = []

    def done(result: object) -> None:
        seen.append(result)
        if len(seen) == count + 1:
            harness.done()

    for _ in range(count):
        harness.loop.submit("flush", job, done)
    for _ in range(count):
        assert finished.acquire(timeout=WAIT_SECONDS)
    harness.loop.submit("flush", job, done)
    assert finished.acquire(timeout=WAIT_SECONDS)
    harness.loop.asyncio_loop = loop
    harness.run()
    assert len(seen) == count + 1
    assert len(wakes) == 1, "the loop was not running, so every result waited behind one wake-up"
    harness.loop.close()
    loop.close()


def test_an_exception_that_escapes_a_call_is_fatal(harness: Harness) -> None:
    def bug() -> None:
        raise AssertionError("an invariant")

    harness.loop.call_soon(bug)
    harness.run()
    error, _ = harness.fatal[0]
    assert str(error) == "an invariant"


def test_an_exception_that_escapes_a_timer_or_a_completion_is_fatal(harness: Harness) -> None:
    def bug(*_: object) -> None:
        raise AssertionError("an invariant")

    harness.loop.submit("flush", lambda: None, bug)
    harness.run()
    assert len(harness.fatal) == 1


def test_a_failed_disk_that_somebody_raised_is_fatal(harness: Harness) -> None:
    def raised(*_: object) -> None:
        raise OSError("no space left")

    harness.loop.submit("flush", lambda: None, raised)
    harness.run()
    assert isinstance(harness.fatal[0][0], OSError)


def test_a_connection_that_fails_is_not_fatal(harness: Harness) -> None:
    context = {"message": "Fatal error on transport", "exception": ConnectionResetError()}
    harness.loop.asyncio_loop.call_exception_handler(context)
    assert not harness.fatal


def test_a_job_that_comes_after_the_end_is_not_begun(harness: Harness) -> None:
    """A replica that stops under load: a turn of the host that was queued already still stages its writes."""
    begun: list[int] = []
    harness.loop.call_soon(lambda: harness.loop.submit("wal", lambda: begun.append(1), lambda _: begun.append(2)))
    harness.loop.call_soon(harness.done)
    harness.loop.close()
    harness.run()
    assert (begun, harness.fatal) == ([], [])
