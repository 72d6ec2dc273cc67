"""What each section makes of the tables; unknown stays unknown, and what is not shown is counted."""

import json
from html.parser import HTMLParser

import pytest
from muster_pipeline.report import limits
from muster_pipeline.report.group_page import _commits
from muster_pipeline.report.group_status import group_status
from muster_pipeline.report.page import About, Report, build, render, seconds, size
from muster_pipeline.report.prometheus import prometheus_text
from muster_pipeline.report.source import InMemory
from muster_pipeline.report.whatif import Alternative, Comparison

from tests.pipeline.report.fleet_tables import HOSTILE, START_MS, expiry_rows, fleet, lag_rows, rebalance, table

DAY_MS = 86_400_000
ABOUT = About(cluster="main", source="a folder", run="run-1", version="0.1.0")
WHATIF = (
    Comparison(
        group="slow",
        alternatives=(
            Alternative(
                assignor="recorded", rebalances=2, partitions_moved=6, balance_score=3.0, paused_partitions=8.0
            ),
            Alternative(assignor="sticky", rebalances=2, partitions_moved=2, balance_score=0.0, paused_partitions=8.0),
        ),
    ),
)


@pytest.fixture(scope="module")
def report() -> Report:
    return build(ABOUT, fleet(), WHATIF)


def test_quality_conserves_bytes_and_shows_damage(report: Report) -> None:
    assert report.quality.is_conserved
    assert report.quality.compaction_gap_ratio == 0.1
    assert report.quality.damages_by_reason == (("crc", 1),)
    broken = fleet()
    broken._tables["files"] = table("files", [{"bytes_in": 10, "bytes_decoded": 9}])
    assert not build(ABOUT, broken).quality.is_conserved


def test_lag_is_a_sum_of_what_is_known_and_says_when_it_is_not_all(report: Report) -> None:
    lag = report.lag
    assert (lag["slow"].total, lag["slow"].quality) == (1_210, "exact")
    assert (lag["blind"].total, lag["blind"].quality) == (None, "unknown")
    assert (lag["half"].total, lag["half"].quality) == (7, "lower_bound")


def left_groups() -> InMemory:
    """Groups that lag and are deleted, empty, abandoned; and one that lost one of its partitions' offsets."""
    lag = [
        *lag_rows("deleted", [100]),
        *lag_rows("reset", [9]),
        *lag_rows("empty", [20]),
        *lag_rows("abandoned", [3]),
        *lag_rows("by hand", [4]),
        *lag_rows("here", [5_000], partition=1),
        *lag_rows("here", [7]),
        {**lag_rows("here", [7])[0], "minute_ms": START_MS + 2 * DAY_MS, "at_ms": START_MS + 2 * DAY_MS},
    ]
    old, fresh = [{"commit_timestamp_ms": START_MS + days * DAY_MS} for days in (0, 1)]
    expiry = [
        *expiry_rows(lag_rows("empty", [20]), "empty"),
        *(one | old for one in expiry_rows(lag_rows("abandoned", [3]), "simple")),
        *(one | fresh for one in expiry_rows(lag_rows("by hand", [3]), "simple")),
        *expiry_rows(lag_rows("here", [7])),
    ]
    moves = [rebalance(name, 1, 2) for name in ("deleted", "empty", "here")]
    stages = [
        {"group_id": group, "stage": stage, "log_offset": at}
        for at, (group, stage) in enumerate(
            [("deleted", "completed"), ("reset", "completed"), ("deleted", "deleted"), ("deleted", "settled")]
        )
    ]
    stalled = {"topic": "orders", "started_at_ms": START_MS, "ended_by": "log_end", "evidence": "behind"}
    return InMemory(
        {
            "lag": table("lag", lag),
            "expiry": table("expiry", expiry),
            "rebalances": table("rebalances", moves),
            "generations": table("generations", stages),
            "stalls": table("stalls", [stalled | {"group_id": "empty"}]),
        }
    )


def test_deleted_empty_and_abandoned_groups_leave_lag_totals_and_prometheus() -> None:
    report = build(ABOUT, left_groups())
    assert {name: one.total for name, one in report.lag.items()} == {"here": 7, "by hand": 4}
    assert {name: one.why for name, one in report.left.items()} == {
        "deleted": "deleted", "empty": "empty", "abandoned": "abandoned", "reset": "no_offsets"
    }  # fmt: skip
    assert "11 records behind in all, without 4 that" in " ".join(render(report).split())
    assert {one.group for one in report.series} == {"here", "by hand"}
    text = prometheus_text(report).decode()
    for name in report.left:
        assert f'sum_lag{{cluster_name="main",group="{name}"}}' not in text
    assert 'rebalances{cluster_name="main",group="deleted"}' not in text
    assert 'muster_pipeline_group_left_behind{cluster_name="main",group="empty",why="empty"} 20.0' in text
    assert 'muster_pipeline_group_left_behind{cluster_name="main",group="abandoned",why="abandoned"} 3.0' in text
    assert 'left_behind{cluster_name="main",group="deleted"' not in text
    assert 'muster_pipeline_groups_left{cluster_name="main",why="deleted"} 1.0' in text


def test_the_state_of_a_group_is_that_at_the_end_of_the_log() -> None:
    report = build(ABOUT, left_groups())
    rows = {row.group: row for row in report.fleet}
    assert [rows[name].state for name in ("deleted", "empty", "abandoned", "here")] == [
        "deleted", "empty", "simple", "stable"
    ]  # fmt: skip
    assert (rows["deleted"].members, rows["empty"].members, rows["here"].members) == (0, 0, 2)
    assert (rows["empty"].left_lag, rows["empty"].lag, rows["empty"].open_stalls) == (20, None, 0)
    told = {name: json.loads(group_status(report, name)) for name in rows}
    assert (told["deleted"]["state"], told["deleted"]["partitions"], told["deleted"]["lag"]) == ("deleted", 0, None)
    assert (told["empty"]["left"], told["empty"]["lag"], told["empty"]["members"]) == ("empty", 20, 0)
    assert (told["here"]["left"], told["here"]["partitions"]) == (None, 1)


def test_over_time_a_partition_keeps_its_last_lag(report: Report) -> None:
    series = {one.group: one for one in report.series}
    assert [value for _, value in series["slow"].points] == [10, 60, 410, 910, 1_210]
    assert "blind" not in series


def test_long_series_are_merged_and_keep_their_peaks() -> None:
    lags: list[int | None] = [1] * 5_000
    lags[3_333] = 9_999
    rows = lag_rows("g", lags)
    long = InMemory({"lag": table("lag", rows), "expiry": table("expiry", expiry_rows(rows))})
    (series,) = build(ABOUT, long).series
    assert len(series.points) <= limits.SERIES_POINTS_MAX
    assert max(value for _, value in series.points) == 9_999


def test_rebalances_are_counted_avoided_ones_apart(report: Report) -> None:
    found = report.rebalances
    assert (found.total, found.avoided, found.hidden) == (3, 1, 0)
    assert [one.group for one in found.newest] == ["slow", HOSTILE, "slow", "slow"]
    assert found.churn == ((START_MS, 2, 1),)
    slow = found.groups["slow"]
    assert (slow.count, slow.avoided, slow.moved) == (2, 1, 6)
    assert slow.last is not None
    assert slow.last.trigger == "session_timeout"


def test_what_nobody_has_counted_is_unknown_in_the_fleet_and_left_out_of_a_groups_chart() -> None:
    """Offsets with gaps: commits count, records do not."""
    tables = {
        "commit_rate": table(
            "commit_rate",
            [
                {"group_id": group, "topic": topic, "minute_ms": START_MS, "commits": 2, "messages": 1_000}
                for group, topic in (("one", "gapped"), ("one", "plain"), ("two", "plain"))
            ],
        ),
        "partition_status": table(
            "partition_status", [{"group_id": "one", "topic": "gapped", "status": "OK", "has_gaps": True}]
        ),
    }
    rows = {row.group: row for row in build(ABOUT, InMemory(tables)).fleet}
    assert (rows["one"].messages, rows["one"].commits) == (None, 4)
    assert (rows["two"].messages, rows["two"].commits) == (1_000, 2)
    of_one = {**tables, "commit_rate": tables["commit_rate"].slice(0, 2)}
    assert _commits(InMemory(of_one)) == [(START_MS, 4, 1_000)]


def test_only_the_newest_rebalances_are_kept() -> None:
    many = [rebalance("g", i % 977, i) for i in range(limits.REBALANCES_SHOWN_MAX * 3)]
    found = build(ABOUT, InMemory({"rebalances": table("rebalances", many)})).rebalances
    assert len(found.newest) == limits.REBALANCES_SHOWN_MAX
    assert found.hidden == len(many) - limits.REBALANCES_SHOWN_MAX
    times = [one.ended_at_ms for one in found.newest]
    assert times == sorted((row["ended_at_ms"] for row in many), reverse=True)[: len(times)]


def test_balance_before_and_after(report: Report) -> None:
    slow = report.balance["slow"]
    assert slow.before is not None
    assert (slow.before.balance_score, slow.now.balance_score) == (0, 6)


def test_the_calendar_counts_days_and_keeps_the_soonest(report: Report) -> None:
    calendar = report.calendar
    assert (calendar.offsets, calendar.never, len(calendar.days)) == (10, 7, 3)
    assert [one.partition for one in calendar.soonest] == [0, 1, 2]


def test_stalls_with_nothing_to_read_are_none(report: Report) -> None:
    assert report.stalls.total == 2
    assert report.stalls.open_by_group == {"slow": 1}
    assert [one.partition for one in report.stalls.worst] == [0, 2]


def test_the_most_troubling_group_stands_first(report: Report) -> None:
    assert [row.group for row in report.fleet][:3] == ["lost", "slow", "half"]
    blind = next(row for row in report.fleet if row.group == "blind")
    assert blind.lag is None


class Words(HTMLParser):
    """Text, tags and ids of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[str] = []
        self.ids: set[str] = set()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for key, value in attrs:
            if key == "id" and value:
                self.ids.add(value)
            if key in ("src", "href") and value and not value.startswith("#"):
                self.outside.append(value)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_is_whole_needs_no_network_and_runs_nobodys_script(report: Report) -> None:
    words = Words()
    page = render(report)
    words.feed(page)
    assert words.outside == []
    assert page.count("<script") == words.tags.count("script") == 3, "its age, the search and what it searches: ours"
    assert "alert(" not in page.replace("\\u003c", "<").split("<script>")[-1].split("</script>")[0]
    assert "url(" not in page
    sections = {
        "now",
        "find",
        "heat",
        "quality",
        "fleet",
        "lag",
        "rebalances",
        "churn",
        "balance",
        "capacity",
        "whatif",
        "stalls",
        "expiry",
    }
    parts = {one for one in words.ids if not one.startswith(("find-", "trouble-"))}
    assert parts - {"groups", "age"} == sections
    text = " ".join(" ".join(words.text).split())
    for expected in ("1,210", "every byte accounted for", "records lost on 1 partition", "session timeout", "sticky"):
        assert expected in text


def test_an_empty_log_makes_a_page_too() -> None:
    page = render(build(ABOUT, InMemory({})))
    for expected in ("No group in the log", "No rebalance in the log", "no offsets at all"):
        assert expected in page


def test_the_page_is_the_same_for_the_same_tables(report: Report) -> None:
    assert render(report) == render(build(ABOUT, fleet(), WHATIF))


def test_prometheus_has_no_sample_for_what_is_unknown(report: Report) -> None:
    text = prometheus_text(report).decode()
    assert 'kafka_consumergroup_group_sum_lag{cluster_name="main",group="slow"} 1210.0' in text
    assert 'kafka_consumergroup_group_max_lag{cluster_name="main",group="slow"} 1200.0' in text
    assert 'sum_lag{cluster_name="main",group="blind"}' not in text
    assert 'muster_pipeline_group_partitions_lag_unknown{cluster_name="main",group="blind"} 1.0' in text


def test_a_groups_json_fits_and_keeps_its_worst_partitions() -> None:
    rows = [lag_rows(HOSTILE, [i], partition=i)[0] for i in range(2_000)]
    report = build(ABOUT, InMemory({"lag": table("lag", rows), "expiry": table("expiry", expiry_rows(rows))}))
    encoded = group_status(report, HOSTILE)
    assert len(encoded) <= limits.STATUS_BYTES_MAX
    document = json.loads(encoded)
    assert document["lag"] == sum(range(2_000))
    assert document["worstPartitions"][0]["partition"] == 1_999
    assert json.loads(group_status(report, "nobody"))["lag"] is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, "unknown"), (0, "0 ms"), (999, "999 ms"), (1_500, "1.5 s"), (150_000, "2 min"), (9_000_000, "2.5 h")],
)
def test_durations_for_people(given: int | None, expected: str) -> None:
    assert seconds(given) == expected


def test_sizes_for_people() -> None:
    assert [size(n) for n in (0, 1_023, 1_024, 5 << 30, 7 << 40)] == ["0 B", "1,023 B", "1.0 KiB", "5.0 GiB", "7.0 TiB"]
