"""One heap of lazily re-armed timers."""

from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.groups.live.deadlines import Deadlines, Timer, TimerKind


def pop(deadlines: Deadlines, now: int) -> Timer | None:
    return next(deadlines.due(now, 10_000), None)


def timer(name: str = "") -> Timer:
    return Timer(TimerKind.SESSION, "g", name)


def test_fires_in_order_of_time_and_then_of_arming():
    deadlines = Deadlines()
    for name, at in (("late", 30), ("first", 10), ("second", 10)):
        deadlines.arm(timer(name), at)
    assert deadlines.next_ms() == 10
    assert [pop(deadlines, 20).member for _ in range(2)] == ["first", "second"]
    assert pop(deadlines, 20) is None
    assert pop(deadlines, 30).member == "late"


def test_moving_a_deadline_later_pushes_nothing_and_still_holds():
    deadlines = Deadlines()
    moved = timer()
    deadlines.arm(moved, 10)
    for at in range(11, 500):
        deadlines.arm(moved, at)
    assert len(deadlines._heap) == 1
    assert pop(deadlines, 498) is None
    assert deadlines.next_ms() == 499
    assert pop(deadlines, 499) is moved
    assert (moved.due_ms, moved.at_ms) == (499, None)


def test_moving_a_deadline_earlier_holds_and_fires_once():
    deadlines = Deadlines()
    moved = timer()
    deadlines.arm(moved, 100)
    deadlines.arm(moved, 5)
    assert deadlines.next_ms() == 5
    assert pop(deadlines, 5) is moved
    assert pop(deadlines, 1_000) is None


def test_a_cancelled_timer_never_fires_until_armed_again():
    deadlines = Deadlines()
    cancelled = timer()
    deadlines.arm(cancelled, 10)
    deadlines.cancel(cancelled)
    assert deadlines.next_ms() is None
    assert pop(deadlines, 100) is None
    deadlines.arm(cancelled, 20)
    assert pop(deadlines, 20) is cancelled


def test_one_turn_moves_a_bounded_number_of_entries():
    deadlines = Deadlines()
    for number in range(100):
        moved = timer(str(number))
        deadlines.arm(moved, 10)
        if number < 50:
            deadlines.arm(moved, 20)
    fired = [list(deadlines.due(15, 40)) for _ in range(3)]
    assert [len(some) for some in fired] == [0, 30, 20]
    assert deadlines.next_ms() == 20


def test_a_timer_that_an_earlier_one_cancels_does_not_fire():
    deadlines = Deadlines()
    first, second = timer("first"), timer("second")
    deadlines.arm(first, 10)
    deadlines.arm(second, 10)
    for fired in deadlines.due(10, 100):
        assert fired is first
        deadlines.cancel(second)


def test_dead_entries_do_not_pile_up():
    deadlines = Deadlines()
    kept = timer("kept")
    deadlines.arm(kept, 10_000)
    for _ in range(5_000):
        dead = timer("dead")
        deadlines.arm(dead, 9_000)
        deadlines.cancel(dead)
    assert len(deadlines._heap) <= 128
    assert pop(deadlines, 10_000) is kept


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["arm", "cancel", "pass"]), st.integers(0, 60)), max_size=120)
)
def test_behaves_as_a_plain_table_of_deadlines(steps):
    deadlines = Deadlines()
    timers = [timer(str(n)) for n in range(5)]
    model: dict[int, int] = {}
    now = 0
    for which, action, amount in steps:
        if action == "arm":
            deadlines.arm(timers[which], now + amount)
            model[which] = now + amount
        elif action == "cancel":
            deadlines.cancel(timers[which])
            model.pop(which, None)
        else:
            now += amount
            fired = set()
            while (popped := pop(deadlines, now)) is not None:
                fired.add(int(popped.member))
                assert popped.due_ms == model[int(popped.member)]
            assert fired == {n for n, at in model.items() if at <= now}
            model = {n: at for n, at in model.items() if at > now}
        earliest = deadlines.next_ms()
        assert (earliest is None) == (not model)
        assert earliest is None or earliest <= min(model.values())
