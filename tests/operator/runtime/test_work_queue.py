"""The queue holds each key once, hands it to one worker, forgets no wake-up, and waits longer for what fails."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_operator.limits import BACKOFF_FIRST_MS, BACKOFF_MAX_MS
from muster_operator.runtime.work_queue import WorkQueue, backoff_ms


def test_a_key_added_twice_is_taken_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", 0)
    queue.add("a", 0)
    assert queue.take(0) == "a"
    assert queue.take(0) is None
    queue.done("a", 0)
    assert queue.take(10**9) is None


def test_a_key_added_while_it_runs_is_looked_at_once_more() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", 0)
    assert queue.take(0) == "a"
    queue.add("a", 5)
    assert queue.take(5) is None, "two workers must never have one key"
    queue.done("a", 7)
    assert queue.take(7) == "a"


def test_the_earlier_of_two_dates_wins() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", 0, after_ms=1_000)
    queue.add("a", 0, after_ms=5_000)
    assert queue.next_due_ms() == 1_000
    queue.add("a", 0, after_ms=10)
    assert (queue.take(9), queue.take(10)) == (None, "a")


def test_failures_wait_one_second_to_five_minutes_and_success_forgets_them() -> None:
    queue: WorkQueue[str] = WorkQueue()
    now, waits = 0, []
    queue.add("a", now)
    for _ in range(12):
        assert queue.take(now) == "a"
        waits.append(queue.failed("a", now))
        now += waits[-1]
    assert waits == [min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS * 2**n) for n in range(12)]
    assert queue.take(now) == "a"
    queue.done("a", now)
    queue.add("a", now)
    assert queue.take(now) == "a"
    assert queue.failed("a", now) == BACKOFF_FIRST_MS


def test_a_wait_that_the_other_side_asked_for_is_kept() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", 0)
    queue.take(0)
    assert queue.failed("a", 0, at_least_ms=30_000) == 30_000
    assert queue.take(29_999) is None


def test_a_change_brings_a_failing_key_forward_but_not_below_the_first_step() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", 0)
    queue.take(0)
    queue.add("a", 0)
    queue.failed("a", 0, at_least_ms=BACKOFF_MAX_MS)
    assert queue.next_due_ms() == BACKOFF_FIRST_MS


def test_a_full_queue_refuses_new_keys_and_keeps_the_old() -> None:
    queue: WorkQueue[int] = WorkQueue(keys_max=2)
    assert [queue.add(n, 0) for n in range(3)] == [True, True, False]
    assert queue.add(1, 0)


def test_a_forgotten_key_leaves_nothing() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", 0)
    queue.take(0)
    queue.add("a", 0)
    queue.forget("a")
    queue.done("a", 0)
    assert (len(queue), queue.next_due_ms()) == (0, None)


def test_ages_count_from_when_a_key_was_due() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", 0, after_ms=100)
    assert (queue.oldest_ms(50), queue.depth(50)) == (0, 0)
    assert (queue.oldest_ms(400), queue.depth(400)) == (300, 1)
    queue.take(400)
    assert (queue.oldest_ms(500), queue.longest_running_ms(500)) == (0, 100)


@pytest.mark.parametrize(("failures", "wait"), [(0, 1_000), (3, 8_000), (8, 256_000), (9, 300_000), (10_000, 300_000)])
def test_backoff(failures: int, wait: int) -> None:
    assert backoff_ms(failures) == wait


@given(st.lists(st.tuples(st.sampled_from("atdf"), st.integers(0, 4), st.integers(0, 3_000)), max_size=120))
def test_no_wake_up_is_lost_and_no_key_runs_twice(steps: list[tuple[str, int, int]]) -> None:
    """Against a plain model: whatever was added after its last start is taken again."""
    queue: WorkQueue[int] = WorkQueue()
    now, running, owed = 0, set[int](), set[int]()
    for what, key, wait in steps:
        now += wait
        if what == "a":
            queue.add(key, now)
            owed.add(key)
        elif what == "t":
            taken = queue.take(now)
            if taken is not None:
                assert taken not in running
                running.add(taken)
                owed.discard(taken)
        elif key in running:
            running.discard(key)
            if what == "d":
                queue.done(key, now)
            else:
                queue.failed(key, now)
                owed.add(key)
    for key in sorted(running):
        queue.done(key, now)
    now += BACKOFF_MAX_MS
    left = set()
    while (taken := queue.take(now)) is not None:
        left.add(taken)
        queue.done(taken, now)
    assert left == owed
