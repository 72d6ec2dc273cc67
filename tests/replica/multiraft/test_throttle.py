"""A pace lets through what its rate allows, whatever the pieces; a change of the rate holds for the next piece."""

import random
from itertools import pairwise

import pytest
from muster_coordinator.replica.multiraft.throttle import BURST_US, Pace


@pytest.mark.parametrize("rate", [262_144, 1_000_000, 123_456_789])
@pytest.mark.parametrize("seed", range(5))
def test_in_any_stretch_no_more_than_the_rate_and_a_burst_goes(rate: int, seed: int) -> None:
    rand = random.Random(seed)
    pace, now_ms = Pace(rate), 5_000
    gone: list[tuple[int, int]] = []
    for _ in range(400):
        now_ms += rand.choice((0, 0, 1, 30, 2_000))
        size = rand.randrange(1, rate // 4)
        wait_ms = pace.wait_ms(now_ms, size)
        gone.append((now_ms + wait_ms, size))
        if rand.random() < 0.7:
            now_ms += wait_ms
    for at in range(0, len(gone), 7):
        sent = 0
        for when_ms, size in gone[at:]:
            sent += size
            passed_ms = when_ms - gone[at][0]
            allowed = rate * (passed_ms + BURST_US // 1_000 + 1) // 1_000
            assert sent - gone[at][1] <= allowed + 1, "what came before it had been paid for by then"


def test_what_waits_for_each_other_goes_at_the_rate_in_all() -> None:
    pace, waits = Pace(1_000_000), []
    for _ in range(100):
        waits.append(pace.wait_ms(7_000, 50_000))
    assert waits[0] == 0
    assert 4_850 <= waits[-1] <= 5_000
    assert all(later - before in (49, 50, 51) for before, later in pairwise(waits[5:]))


def test_no_rate_is_no_wait_and_a_new_rate_forgets_what_was_owed() -> None:
    pace = Pace()
    assert pace.wait_ms(1, 1 << 40) == 0
    pace.change(1_000_000)
    assert pace.wait_ms(1_000, 10_000_000) > 9_000
    pace.change(1_000_000)
    assert pace.wait_ms(1_000, 1) > 9_000, "the same rate is no change"
    pace.change(2_000_000)
    assert pace.wait_ms(1_000, 1) == 0
    pace.change(None)
    assert pace.wait_ms(1_000, 1 << 40) == 0
