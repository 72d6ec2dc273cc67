"""A week and the one before: planted troubles and changes are told with their rows, and nothing is told of what the log
does not reach."""

import json
from pathlib import Path
from typing import Any

import pytest
from muster_pipeline.report.source import InMemory
from muster_pipeline.report.weekly import CHANGES_MAX, WEEK_MS, WORST_MAX, Summary, weekly
from typer.testing import CliRunner

from tests.pipeline.report.fleet_tables import START_MS, rebalance, table

HOUR_MS = 3_600_000
UNTIL_MS = START_MS + 1
NOW_MS, BEFORE_MS = START_MS - HOUR_MS, START_MS - WEEK_MS - HOUR_MS
LONG_AGO_MS = UNTIL_MS - 2 * WEEK_MS


def rate(group: str, at_ms: int, messages: int = 10, **more: Any) -> dict[str, Any]:
    return {"group_id": group, "topic": "t", "minute_ms": at_ms, "commits": 1, "messages": messages, **more}


def lag(group: str, at_ms: int, value: int | None, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "topic": "t",
        "minute_ms": at_ms,
        "at_ms": at_ms,
        "lag": value,
        "quality": "exact",
        **more,
    }


def stall(group: str, from_ms: int, until_ms: int | None, duration_ms: int, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group, "topic": "t", "started_at_ms": from_ms, "ended_at_ms": until_ms, "duration_ms": duration_ms,
        "ended_by": "advance", "evidence": "behind", **more,
    }  # fmt: skip


def moved(group: str, at_ms: int, **more: Any) -> dict[str, Any]:
    return rebalance(group, 0, 2) | {"ended_at_ms": at_ms} | more


def of(**tables: list[dict[str, Any]]) -> InMemory:
    return InMemory({name: table(name, rows) for name, rows in tables.items()})


def told(tables: InMemory, until_ms: int | None = UNTIL_MS) -> Summary:
    found = weekly(tables, until_ms)
    assert found is not None
    return found


def both(group: str, **more: Any) -> list[dict[str, Any]]:
    """It committed in both weeks, and the log reaches back."""
    return [rate(group, at, **more) for at in (LONG_AGO_MS, BEFORE_MS, NOW_MS)]


def changed(tables: InMemory) -> list[tuple[str, str, int | None, int | None]]:
    return [(one.group, one.what, one.now, one.before) for one in told(tables).changes]


def test_the_worst_lost_records_then_stood_still_then_were_behind() -> None:
    found = told(
        of(
            commit_rate=[*both("behind"), *both("still"), *both("lost"), *both("fine")],
            lag=[lag("behind", NOW_MS, 9_000), lag("behind", NOW_MS + 1, 70), lag("fine", NOW_MS, 0),
                 lag("lost", NOW_MS, 5, is_below_start=True), lag("still", NOW_MS, 3)],
            stalls=[stall("still", NOW_MS, None, HOUR_MS), stall("fine", NOW_MS, None, HOUR_MS, evidence="unknown")],
        )
    )  # fmt: skip
    assert [name for name, _ in found.worst] == ["lost", "still", "behind"]
    assert (found.groups, found.bad) == (4, 3)
    text = "\n".join(found.sentences)
    assert "4 groups committed, 3 were in trouble" in text
    assert "2. still: 3 records behind on a partition at most, stood still for 1.0 hours" in text
    assert "3. behind: 9,000 records" in text
    proof = [(name, row["group_id"], row.get("lag")) for name, row in found.proof]
    assert ("lag", "behind", 9_000) in proof
    assert ("stalls", "still", None) in proof
    assert ("lag", "behind", 70) not in proof, "the row that tells most of it"


def test_what_changed_is_told_both_ways_worse_first() -> None:
    found = changed(
        of(
            commit_rate=[
                *both("worse"), *both("better"), *both("same"),
                rate("slow", LONG_AGO_MS, 50_000), rate("slow", NOW_MS, 20_000),
                rate("new", NOW_MS), rate("gone", BEFORE_MS),
            ],
            lag=[lag("worse", BEFORE_MS, 400), lag("worse", NOW_MS, 4_000), lag("better", BEFORE_MS, 900),
                 lag("better", NOW_MS, 0), lag("same", BEFORE_MS, 1_000), lag("same", NOW_MS, 1_900)],
            rebalances=[moved("worse", NOW_MS + n) for n in range(3)] + [moved("same", NOW_MS + n) for n in range(2)]
            + [moved("better", NOW_MS + n, is_avoided=True) for n in range(9)],
        )
    )  # fmt: skip
    assert found == [
        ("worse", "peak", 4_000, 400),
        ("worse", "rebalances", 3, 0),
        ("slow", "read", 20_000, 50_000),
        ("gone", "gone", None, None),
        ("better", "peak", 0, 900),
        ("new", "new", None, None),
    ]


@pytest.mark.parametrize(
    ("now", "before", "is_told"),
    [(200, 100, True), (199, 100, False), (198, 99, False), (100, 0, True), (99, 0, False)],
)
def test_a_change_is_two_fold_and_no_trifle(now: int, before: int, is_told: bool) -> None:
    rows = [lag("g", NOW_MS, now), lag("g", BEFORE_MS, before)]
    assert bool(changed(of(commit_rate=both("g"), lag=rows))) == is_told


def test_a_standstill_counts_in_each_week_as_far_as_it_lies_there() -> None:
    border = UNTIL_MS - WEEK_MS
    rows = [stall("g", border - 3 * HOUR_MS, border + HOUR_MS, 4 * HOUR_MS)]
    found = told(of(commit_rate=both("g"), stalls=rows))
    assert found.worst[0][1].stalled_ms == HOUR_MS
    assert [(one.what, one.now, one.before) for one in found.changes] == [("stalled_ms", HOUR_MS, 3 * HOUR_MS)]
    assert "stood still for 1.0 hours, stood still for 3.0 hours the week before" in found.changes[0].sentence


def test_weeks_end_where_they_end() -> None:
    """A row at the end is in the next week, one at the begin in this."""
    rows = [lag("g", UNTIL_MS, 7_000), lag("g", UNTIL_MS - WEEK_MS, 200), lag("g", UNTIL_MS - WEEK_MS - 1, 5)]
    found = told(of(commit_rate=both("g"), lag=rows))
    assert found.worst[0][1].peak == 200
    assert [(one.now, one.before) for one in found.changes] == [(200, 5)]


def test_a_log_that_does_not_reach_back_compares_nothing() -> None:
    rows = [rate("g", LONG_AGO_MS + 1), rate("g", NOW_MS)]
    lags = [lag("g", LONG_AGO_MS + 1, 1), lag("g", NOW_MS, 90_000)]
    found = told(of(commit_rate=rows, lag=lags))
    assert (found.is_before_known, list(found.changes)) == (False, [])
    assert "What changed is unknown: what was read begins at" in found.sentences[-1]
    assert [name for name, _ in found.worst] == ["g"], "this week is told all the same"


def test_unknown_lag_is_neither_worst_nor_a_change() -> None:
    found = told(of(commit_rate=both("g"), lag=[lag("g", NOW_MS, None), lag("g", BEFORE_MS, 9_000)]))
    assert (list(found.worst), list(found.changes)) == ([], [])
    assert found.sentences[-1] == "Nothing changed against the week before."


def test_records_are_not_counted_where_offsets_have_gaps() -> None:
    """Neither as read nor as rewound; the group committed all the same."""
    grown = [rate("g", LONG_AGO_MS), rate("g", BEFORE_MS, 5_000), rate("g", NOW_MS, 1_000_000, messages_rewound=90_000)]
    assert {one.what for one in told(of(commit_rate=grown)).changes} == {"read", "rewound"}
    judged = [{"group_id": "g", "topic": "t", "has_gaps": True}, {"group_id": "g", "topic": "u", "has_gaps": None}]
    found = told(of(commit_rate=grown, partition_status=judged))
    assert (found.changes, found.groups) == ([], 1)


def test_what_is_left_out_is_counted() -> None:
    names = [f"g{n:03}" for n in range(60)]
    rates = [one for name in names for one in both(name)]
    found = told(of(commit_rate=rates, lag=[lag(name, NOW_MS, 1_000 + n) for n, name in enumerate(names)]
                    + [lag(name, BEFORE_MS, 10) for name in names]))  # fmt: skip
    assert (len(found.worst), found.bad, found.worst[0][0]) == (WORST_MAX, 60, "g059")
    assert (len(found.changes), found.changes_hidden) == (CHANGES_MAX, 60 - CHANGES_MAX)
    assert f"{60 - CHANGES_MAX} smaller changes are not shown" in found.sentences[-1]


def test_nothing_by_then_is_none() -> None:
    assert weekly(of(), None) is None
    assert weekly(of(commit_rate=[rate("g", NOW_MS)]), NOW_MS) is None
    assert told(of(commit_rate=[rate("g", NOW_MS)]), None).until_ms == NOW_MS + 1


def test_the_command_tells_a_folders_week(tmp_path: Path) -> None:
    from muster_pipeline.__main__ import app
    from muster_pipeline.job.build import build
    from muster_pipeline.job.inputs import SegmentInput
    from muster_pipeline.transforms.settings import FoldSettings

    from tests.pipeline.store import logfolder

    logfolder.make(tmp_path / "log")
    build(None, SegmentInput.listed(str(tmp_path / "log"), "c"), tmp_path / "out", FoldSettings(cluster="c"))

    def run(*more: str) -> Any:
        return CliRunner().invoke(app, ["weekly", "--tables", str(tmp_path / "out"), *more])

    done = run()
    assert done.exit_code == 0, done.output
    assert "groups committed, 0 were in trouble." in done.stdout, "without samples lag is unknown, not trouble"
    assert "What changed is unknown" in done.stdout
    document = json.loads(run("--json").stdout)
    assert (document["cluster"], document["isWeekBeforeKnown"], document["groups"]) == ("c", False, 25)
    refused = run("--at", "1999-01-01")
    assert (refused.exit_code, refused.stderr) == (2, "nothing was committed up to 1999-01-01\n")
