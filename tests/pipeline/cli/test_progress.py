"""What a person is told while tasks run."""

import pytest
from muster_pipeline.cli.progress import Ended, Sizes, duration, eta_s, line


def test_the_rest_takes_as_long_as_what_is_done_says() -> None:
    assert eta_s(25, 100, 10.0) == 30.0
    assert eta_s(100, 100, 10.0) == 0.0
    assert eta_s(0, 100, 10.0) is None, "unknown is not 0"
    assert eta_s(1, 0, 10.0) is None


def test_tasks_that_ended_are_the_largest_ones() -> None:
    sizes = Sizes({3: 10, 1: 60, 2: 30})
    assert [sizes.done(count) for count in range(5)] == [0, 60, 90, 100, 100]
    assert line("reading", 1, sizes, 6.0) == "reading: 1 of 3 log partitions, 60 %, 6 s so far, 4 s left"
    assert line("reading", 0, sizes, 6.0).endswith("unknown left")


def test_empty_log_partitions_are_work_too() -> None:
    assert Sizes({0: 0, 1: 0}).total == 2
    assert Sizes({}).total == 0


def test_a_stage_that_spark_has_forgotten_is_over() -> None:
    """While its tables are published nothing runs, and that is not the begin."""
    seen = Ended(29)
    assert [seen.of(told) for told in (None, 0, 12, None, None)] == [0, 0, 12, 29, 29]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "unknown"), (0.2, "0 s"), (59.6, "1 min 0 s"), (75, "1 min 15 s"), (7_260, "2 h 1 min")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text
