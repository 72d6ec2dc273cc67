"""How many consumers a group needs, by its rates; unknown rates give no number."""

import json
from typing import Any

import pytest
from muster_pipeline.report import limits
from muster_pipeline.report.capacity import Capacity, shown
from muster_pipeline.report.group_status import group_status
from muster_pipeline.report.page import About, Report, build, render
from muster_pipeline.report.source import InMemory

from tests.pipeline.report.fleet_tables import balance, status, table

ABOUT = About(cluster="main", source="a folder", run="run-1", version="0.1.0")


def report_of(partitions: list[dict[str, Any]], members: int = 2, idle: int = 0) -> Report:
    rows = [status("g", one.pop("word", "WARN"), 1, partition=n, **one) for n, one in enumerate(partitions)]
    share = balance("g", 1, 1, 1, members=members, members_idle=idle)
    return build(
        ABOUT, InMemory({"partition_status": table("partition_status", rows), "balance": table("balance", [share])})
    )


def rates(lag: int | None, read: float | None, written: float | None, **more: Any) -> dict[str, Any]:
    return {"lag": lag, "read_per_s": read, "written_per_s": written, **more}


def test_a_group_that_falls_behind_needs_what_its_consumers_cannot_read() -> None:
    """Two consumers read 100 a second each of 6 partitions; 450 a second are written, 720,000 wait for them."""
    one = report_of([rates(120_000, 200 / 6, 75.0) for _ in range(6)]).capacity["g"]
    assert (one.lag, one.read_per_s, one.written_per_s) == (720_000, pytest.approx(200), 450.0)
    assert (one.needed, one.needed_to_drain) == (5, 7), "450 / 100, and 450 + 720,000 / 3,600 s, each rounded up"
    assert one.is_limited, "six partitions"
    assert (one.missing, one.is_upper_bound) == (4, False)


def test_members_without_a_partition_read_nothing() -> None:
    one = report_of([rates(10, 50.0, 50.0), rates(10, 50.0, 50.0)], members=5, idle=3).capacity["g"]
    assert (one.needed, one.members - one.idle) == (2, 2), "each of two reads 50"


def test_of_a_group_that_is_not_behind_the_number_is_an_upper_bound() -> None:
    one = report_of([rates(0, 30.0, 30.0), rates(0, 30.0, 20.0)]).capacity["g"]
    assert (one.needed, one.needed_to_drain, one.is_upper_bound, one.missing) == (2, 2, True, 0)


def test_nothing_written_needs_nobody_and_nothing_read_tells_nothing() -> None:
    assert report_of([rates(0, 0.0, 0.0)]).capacity["g"].needed == 0
    stopped = report_of([rates(500, 0.0, 3.0)]).capacity["g"]
    assert (stopped.needed, stopped.needed_to_drain, stopped.is_limited) == (None, None, False)


@pytest.mark.parametrize("missing", [rates(None, 1.0, 1.0), rates(5, None, 1.0), rates(5, 1.0, None)])
def test_without_all_rates_there_is_no_number(missing: dict[str, Any]) -> None:
    report = report_of([rates(5, 1.0, 1.0), missing])
    assert report.capacity == {}
    told = json.loads(group_status(report, "g"))
    assert (told["consumersNeeded"], told["consumersNeededToDrain"]) == (None, None)
    assert "No group is known to need more consumers" in render(report)


def test_the_page_says_what_to_add() -> None:
    report = report_of([rates(120_000, 200 / 6, 75.0) for _ in range(6)])
    page = " ".join(render(report).split())
    assert "add 4 consumers, and add partitions, or make each faster" in page
    assert json.loads(group_status(report, "g"))["consumersNeededToDrain"] == 7


def test_of_many_those_that_lack_the_most_are_shown() -> None:
    most = limits.CAPACITY_SHOWN_MAX
    found = {
        f"g{n}": Capacity(
            group=f"g{n}", members=1, idle=0, partitions=10 * most, lag=1, read_per_s=1.0, written_per_s=1.0, needed=n,
            needed_to_drain=n, is_upper_bound=False,
        )
        for n in range(3 * most)
    }  # fmt: skip
    told, hidden = shown(found)
    assert [one.needed for one in told] == list(range(3 * most - 1, 2 * most - 1, -1))
    assert hidden == 2 * most - 2, "two groups lack nobody"
