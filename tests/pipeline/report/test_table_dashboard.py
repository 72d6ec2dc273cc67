"""The SQL dashboard over tables of a real run: every panel gives the numbers of the page, or of a plain loop over rows.

Two clusters are read from logs and exported into one file, which DuckDB opens as Grafana's data source does; each
panel's SQL is what that source would send. A made-up fleet beside them has what a log of two hours lacks.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest
from muster_pipeline.cli import exporting
from muster_pipeline.job.build import build as run
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.report import limits, table_dashboard, table_queries
from muster_pipeline.report.lag import series
from muster_pipeline.report.owners import owners
from muster_pipeline.report.page import About, Report, build
from muster_pipeline.report.source import InMemory
from muster_pipeline.report.troubles import LEVELS, LEVELS_WORST_FIRST
from muster_pipeline.store.place import place
from muster_pipeline.store.reader import published, read
from muster_pipeline.tables.catalog import TABLES
from muster_pipeline.transforms.settings import FoldSettings

from tests.pipeline.fleet import damaged, lives
from tests.pipeline.report.fleet_tables import START_MS, assignment, fleet, membership, table
from tests.pipeline.report.grafana_source import Chosen, expanded, rows
from tests.pipeline.store import logfolder
from tests.pipeline.tables.generated import log_end_table

Row = dict[str, Any]
GROUPS = 300
CLOSED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoload_known_extensions": False,
    "enable_external_access": False,
}
"""As docs/pipeline.md has the file opened, and nothing is fetched."""
EPOCH = datetime.fromtimestamp(0, UTC)
HOURS_MS = 2 * 3_600_000
ALL: Chosen = {"cluster": None, "group": None, "old_after_s": [str(1 << 40)]}
BOARD = table_dashboard.board()
PANELS = {one["title"]: one["targets"][0]["rawSql"] for one in BOARD["panels"]}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a data source has open, and the same tables by cluster for a plain reader."""

    connection: duckdb.DuckDBPyConnection
    tables: dict[str, InMemory]
    from_ms: int
    to_ms: int

    def ask(self, title: str, chosen: Chosen = ALL, from_ms: int | None = None, to_ms: int | None = None) -> list[Row]:
        start = self.from_ms if from_ms is None else from_ms
        end = self.to_ms if to_ms is None else to_ms
        return rows(self.connection, expanded(PANELS[title], BOARD, {**ALL, **chosen}, start, end))

    def rows(self, name: str) -> list[Row]:
        """Of all clusters, in the tables' order."""
        return [
            row for _, of in sorted(self.tables.items()) if name in of._tables for row in of._tables[name].to_pylist()
        ]

    @cached_property
    def reports(self) -> dict[str, Report]:
        return {
            name: build(About(cluster=name, source="files", run="1", version="0"), tables)
            for name, tables in self.tables.items()
        }

    def over(self, changed: dict[str, pa.Table]) -> "Asked":
        """A data source with other tables of these names; close its connection."""
        cursor = self.connection.cursor()
        (tables,) = self.tables.values()
        for name in table_dashboard.TABLES:
            cursor.register(name, changed.get(name, tables._tables.get(name, TABLES[name].schema.empty_table())))
        cursor.register("runs", changed.get("runs", tables._tables["runs"]))
        return Asked(connection=cursor, tables=self.tables, from_ms=self.from_ms, to_ms=self.to_ms)


@pytest.fixture(scope="module", autouse=True)
def whole_pages() -> Iterator[None]:
    """Pages that show all, not only the worst."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("TROUBLES_SHOWN_MAX", "REBALANCES_SHOWN_MAX", "SERIES_POINTS_MAX"):
            patched.setattr(limits, name, 1 << 20)
        yield


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """Cluster c: hundreds of groups of all kinds, with samples of log ends; cluster d: a small log without."""
    folder = tmp_path_factory.mktemp("real")
    for number in range(lives.PARTITIONS):
        damaged.write(folder / "c" / f"__consumer_offsets-{number}", lives.batches(GROUPS, number), number)
    logfolder.make(folder / "d")
    root = folder / "tables"
    samples = log_end_table(lives.samples(lives.START_MS + HOURS_MS))
    run(None, SegmentInput.listed(str(folder / "c"), "c"), root, FoldSettings(cluster="c"), samples)
    run(None, SegmentInput.listed(str(folder / "d"), "d"), root, FoldSettings(cluster="d"))
    exporting.export(place(root), folder / "tables.duckdb", (), (), None)
    connection = duckdb.connect(str(folder / "tables.duckdb"), read_only=True, config=CLOSED)
    names = (*table_dashboard.TABLES, "expiry", "files", "quarantine")
    tables = {name: InMemory({one: read(one, published(root, name)) for one in names}) for name in ("c", "d")}
    yield Asked(connection=connection, tables=tables, from_ms=lives.START_MS - 60_000, to_ms=lives.START_MS + HOURS_MS)
    connection.close()


@pytest.fixture(scope="module")
def made() -> Iterator[Asked]:
    """A row of each status, and groups whose names are meant to break what quotes them."""
    tables = fleet()
    lag = tables._tables["lag"].to_pylist()
    grown = [row | {"time_lag_ms": 30 * row["lag"], "log_end_offset": 9 * row["committed_offset"]}
             for row in lag if row["lag"] is not None]  # fmt: skip
    tables._tables["lag"] = table("lag", grown)
    tables._tables.update(changing_hands())
    event = {"run": 1, "event": "published", "at_ms": START_MS, "input": '{"files": ["x"], "kind": "segments"}'}
    tables._tables["runs"] = table("runs", [event])
    with duckdb.connect(config=CLOSED) as connection:
        asked = Asked(connection=connection, tables={"": tables}, from_ms=START_MS, to_ms=START_MS + 3_600_000)
        yield asked.over({})


def changing_hands() -> dict[str, pa.Table]:
    """`slow` and `half` are classic, `half` beside a candidate; `idle` is deleted and `gone` empty; `stuck` became one
    of KIP-848 and `lost` a classic one again; of `blind` one member has left, and one has a target alone."""
    late = {"group_kind": "consumer"}
    members = [
        membership("slow", 7, "m-1", instance_id="pod-0"),
        membership("slow", 7, "m-2"),
        membership("half", 3, "a"),
        membership("half", 5, "a", "candidate", client_host="/elsewhere"),
        *(membership(group, 3, "a") for group in ("idle", "gone", "stuck")),
        membership("stuck", 6, "a", "joined", **late),
        membership("lost", 3, "a", "joined", **late),
        membership("lost", 6, "a", "left", client_host=None, client_id=None, **late),
        membership("lost", 7, "a"),
        *(membership("blind", at, f"m-{at}", "joined", **late) for at in (1, 2, 3)),
        membership("blind", 9, "m-2", "left", client_host=None, client_id=None, **late),
    ]
    assigned = [
        assignment("slow", 7, "m-1", 0),
        assignment("slow", 2, "m-9", 1),
        *(assignment(group, 3, "a", number) for group in ("half", "idle", "gone", "stuck") for number in (0, 1)),
        assignment("stuck", 7, "a", 1, kind="current", **late),
        assignment("lost", 4, "a", 1, kind="current", **late),
        assignment("lost", 7, "a", 0),
        *(assignment("blind", 3 + at, f"m-{at}", at, kind="current", **late) for at in (1, 2)),
        assignment("blind", 8, "m-3", 1, kind="target", **late),
    ]
    ended = [
        {"group_id": group, "log_offset": 5, "stage": stage, "group_kind": kind}
        for group, stage, kind in (
            *(("idle", "deleted", "classic"), ("gone", "empty", "classic")),
            *(("stuck", "deleted", "classic"), ("lost", "deleted", "consumer")),
        )
    ]
    return {
        "memberships": table("memberships", members),
        "assignments": table("assignments", assigned),
        "generations": table("generations", ended),
    }


def test_owners_of_groups_that_changed_hands(made: Asked) -> None:
    """So that the comparison with the page's owners, below, is about these too."""
    found = {(row["group"], row["partition"]): row["owner"] for row in made.ask("Owners of partitions")}
    assert found == {
        ("slow", 0): "pod-0",
        ("half", 0): "a",
        ("half", 1): "a",
        ("stuck", 1): "a",
        ("lost", 0): "a",
        ("blind", 1): "m-1",
    }


@pytest.fixture(params=["real", "made"])
def asked(request: pytest.FixtureRequest) -> Asked:
    found: Asked = request.getfixturevalue(request.param)
    return found


def whole(monkeypatch: pytest.MonkeyPatch, title: str) -> None:
    """The panel's rows without its bound."""
    sql = PANELS[title]
    bound = f"LIMIT {table_queries.ROWS_MAX}"
    assert sql.endswith(bound)
    monkeypatch.setitem(PANELS, title, sql.removesuffix(bound))


def ms(moment: datetime | None) -> int | None:
    """Of a time without zone, which is UTC."""
    return None if moment is None else (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


def same(found: Sequence[Row], expected: Sequence[Row]) -> None:
    """The same rows, whatever their order; floats as they are."""
    assert found
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.mark.parametrize(
    ("title", "level"),
    [("Groups in ERR", "ERR"), ("Groups in WARN", "WARN"), ("Groups of which nothing is proven", "UNKNOWN")],
)
def test_groups_are_counted_as_the_page_counts_them(asked: Asked, title: str, level: str) -> None:
    expected = sum(one.troubles.count(level) for one in asked.reports.values())
    assert asked.ask(title) == [{"groups": expected}]
    assert expected


def test_old_numbers_are_not_there(asked: Asked) -> None:
    """Files of years ago: no row, so no green zero."""
    for title in ("Groups in ERR", "Groups in WARN", "Groups of which nothing is proven"):
        for choice in table_dashboard.OLD_AFTER_S:
            assert asked.ask(title, {"old_after_s": [str(choice)]}) == []
    seen = min(one.troubles.now_ms for one in asked.reports.values() if one.troubles.now_ms is not None)
    (age,) = (row["age"] for row in asked.ask("Age of the numbers"))
    assert age == pytest.approx(time.time_ns() / 1e9 - seen / 1_000, abs=60)


@pytest.mark.parametrize("told", ['{"kind": "live"}', '{"kind": "bronze", "of": {"kind": "live"}}'])
def test_a_live_log_is_as_of_its_run(made: Asked, told: str) -> None:
    at_ms = time.time_ns() // 1_000_000 - 300_000
    event = {"run": 1, "event": "published", "at_ms": at_ms, "input": told}
    young = made.over({"runs": table("runs", [event])})
    (age,) = (row["age"] for row in young.ask("Age of the numbers"))
    assert age == pytest.approx(300, abs=60)
    assert young.ask("Groups in ERR", {"old_after_s": ["3600"]}) == made.ask("Groups in ERR")
    assert young.ask("Groups in ERR", {"old_after_s": ["240"]}) == []
    young.connection.close()


def test_groups_now_are_those_of_the_page(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    whole(monkeypatch, "Groups now")
    found = asked.ask("Groups now")
    by_group: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in asked.rows("partition_status"):
        by_group[row["cluster"], row["group_id"]].append(row)
    expected = []
    for name, report in asked.reports.items():
        for group, one in report.troubles.groups.items():
            mine = by_group[name, group]
            known = [row["lag"] for row in mine if row["lag"] is not None]
            expected.append(
                {
                    "cluster": name,
                    "group": group,
                    "status": one.status,
                    "since": one.since_ms,
                    "partitions": len(one.partitions),
                    "in trouble": sum(LEVELS[word] in ("ERR", "WARN") for word in one.partitions.values()),
                    "records behind": sum(known) if known else None,
                    "lag unknown": len(mine) - len(known),
                    "gone in": max(
                        (row["drained_in_ms"] for row in mine if row["drained_in_ms"] is not None), default=None
                    ),
                    "lost in": min((row["lost_in_ms"] for row in mine if row["lost_in_ms"] is not None), default=None),
                }
            )
    same([{**row, "since": ms(row["since"])} for row in found], expected)
    places = [LEVELS_WORST_FIRST.index(row["status"]) for row in found]
    assert places == sorted(places), "the worst first"


def test_partitions_in_trouble_are_those_of_the_page_with_their_owners(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole(monkeypatch, "Partitions in trouble")
    found = asked.ask("Partitions in trouble")
    expected = [
        {
            "cluster": name,
            "group": one.group,
            "topic": one.topic,
            "partition": one.partition,
            "status": one.status,
            "since": one.since_ms,
            "records behind": one.lag,
            "owner": None if one.owner is None else one.owner.name,
            "host": None if one.owner is None else one.owner.host,
            "read": one.read_per_s,
            "written": one.written_per_s,
            "gone in": one.drained_in_ms,
            "lost in": one.lost_in_ms,
        }
        for name, report in asked.reports.items()
        for one in report.troubles.newest
    ]
    told = [{**row, "since": ms(row["since"])} for row in found]
    same(told, expected)
    assert [row["since"] for row in told] == sorted((row["since"] for row in told), reverse=True)
    assert any(row["owner"] for row in found)


def test_owners_are_those_of_the_page(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    whole(monkeypatch, "Owners of partitions")
    expected = []
    for name, tables in asked.tables.items():
        groups = {row["group_id"] for row in asked.rows("assignments") if row["cluster"] == name}
        for (group, topic, partition), one in owners(tables, groups).items():
            expected.append(
                {"cluster": name, "group": group, "topic": topic, "partition": partition, "owner": one.name}
                | {"member": one.member_id, "client": one.client_id, "host": one.host}
            )
    same(asked.ask("Owners of partitions"), expected)


def drawn(found: Sequence[Row], value: str) -> dict[tuple[str, str], dict[int, Any]]:
    """Series by (cluster, group); times rise, as the source wants them."""
    series_of: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
    times = [row["time"] for row in found]
    assert times == sorted(times)
    for row in found:
        at = ms(row["time"])
        assert at is not None
        assert at not in series_of[row["cluster"], row["group"]]
        series_of[row["cluster"], row["group"]][at] = row[value]
    return dict(series_of)


def highest(asked: Asked, column: str) -> list[tuple[str, str]]:
    """Groups whose highest value is the highest."""
    peaks: Counter[tuple[str, str]] = Counter()
    for row in asked.rows("lag"):
        key = row["cluster"], row["group_id"]
        peaks[key] = max(peaks[key], row[column] or 0)
    ranked = sorted((key for key, peak in peaks.items() if peak), key=lambda key: (-peaks[key], key))
    return ranked[: table_queries.GROUPS_DRAWN_MAX]


def course(asked: Asked, groups: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[int, int]]:
    """As the page draws it, minute by minute."""
    found = {}
    for name, tables in asked.tables.items():
        for one in series(tables, [group for of, group in groups if of == name]):
            assert one.interval_ms == 60_000
            found[name, one.group] = dict(one.points)
    return found


def test_records_behind_are_the_course_of_the_page(asked: Asked) -> None:
    found = drawn(asked.ask("Records behind"), "records")
    assert set(found) == set(highest(asked, "lag"))
    assert found == course(asked, found)


def test_a_later_window_carries_what_was_before_it(real: Asked) -> None:
    start, end = lives.START_MS + HOURS_MS // 3, lives.START_MS + HOURS_MS // 2
    found = drawn(real.ask("Records behind", from_ms=start, to_ms=end), "records")
    assert found
    every = course(real, found)
    assert found == {key: {at: lag for at, lag in every[key].items() if start <= at <= end} for key in found}


def test_many_minutes_are_merged_into_few_with_the_highest_of_each(asked: Asked) -> None:
    """A range of 7,000 minutes in 1,000 points."""
    first = asked.from_ms // 60_000 * 60_000
    found = drawn(asked.ask("Records behind", from_ms=first, to_ms=first + 7_000 * 60_000), "records")
    expected: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for key, points in course(asked, found).items():
        for at, lag in points.items():
            start = first + (at - first) // 420_000 * 420_000
            expected[key][start] = max(expected[key].get(start, 0), lag)
    assert found == expected


def test_time_behind_is_that_of_the_worst_partition(asked: Asked) -> None:
    found = drawn(asked.ask("Time behind"), "seconds")
    assert set(found) == set(highest(asked, "time_lag_ms"))
    expected: dict[tuple[str, str], dict[int, float]] = {key: {} for key in found}
    for row in asked.rows("lag"):
        key = row["cluster"], row["group_id"]
        if key in expected and row["time_lag_ms"] is not None:
            before = expected[key].get(row["minute_ms"], 0.0)
            expected[key][row["minute_ms"]] = max(before, row["time_lag_ms"] / 1_000)
    assert found == expected


def moved(steps: Sequence[tuple[tuple[str, str], int, int]]) -> dict[tuple[str, str], dict[int, float]]:
    """((cluster, group), minute, records) as rates of the groups with the most."""
    totals: Counter[tuple[str, str]] = Counter()
    sums: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for key, minute, records in steps:
        totals[key] += records
        sums[key][minute] += records
    ranked = sorted((key for key, total in totals.items() if total), key=lambda key: (-totals[key], key))
    return {
        key: {minute: records / 60 for minute, records in sums[key].items()}
        for key in ranked[: table_queries.GROUPS_DRAWN_MAX]
    }


def close(found: dict[tuple[str, str], dict[int, Any]], expected: dict[tuple[str, str], dict[int, float]]) -> None:
    assert found
    assert found.keys() == expected.keys()
    for key, points in expected.items():
        assert found[key] == pytest.approx(points), key


def test_what_is_read_is_what_commits_went_on_by(asked: Asked) -> None:
    steps = [
        ((row["cluster"], row["group_id"]), row["minute_ms"], row["messages"]) for row in asked.rows("commit_rate")
    ]
    close(drawn(asked.ask("Read, records a second"), "per_s"), moved(steps))


def test_what_is_written_is_what_log_ends_grew_by(asked: Asked) -> None:
    ends: dict[tuple[str, str, str, int], int] = {}
    steps = []
    for row in sorted(asked.rows("lag"), key=lambda row: row["minute_ms"]):
        end = row["log_end_offset"]
        if end is None:
            continue
        key = row["cluster"], row["group_id"], row["topic"], row["partition"]
        grown = max(0, end - ends[key]) if key in ends else 0
        ends[key] = end
        steps.append(((key[0], key[1]), row["minute_ms"], grown))
    close(drawn(asked.ask("Written, records a second"), "per_s"), moved(steps))


def test_offsets_with_gaps_are_no_records(made: Asked) -> None:
    """The same tables, but topic `orders` is in Redis."""
    status = [row | {"has_gaps": True} for row in made.rows("partition_status")]
    in_redis = made.over({"partition_status": table("partition_status", status)})
    for title in ("Read, records a second", "Written, records a second"):
        assert made.ask(title)
        assert in_redis.ask(title) == []
    in_redis.connection.close()


def test_what_will_be_lost_first_comes_first(asked: Asked) -> None:
    found = asked.ask("Records will be lost in")
    expected = [
        {"cluster": row["cluster"], "group": row["group_id"], "topic": row["topic"], "partition": row["partition"]}
        | {"lost in": row["lost_in_ms"], "records behind": row["lag"], "read": row["read_per_s"]}
        | {"status": row["status"]}
        for row in asked.rows("partition_status")
        if row["lost_in_ms"] is not None
    ]
    same(found, expected)
    assert [row["lost in"] for row in found] == sorted(row["lost in"] for row in found)


def test_rebalances_are_those_of_the_page_with_their_causes(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    whole(monkeypatch, "Rebalances")
    found = asked.ask("Rebalances")
    expected = [
        {
            "ended": one.ended_at_ms,
            "cluster": name,
            "group": one.group,
            "cause": "avoided" if one.is_avoided else one.trigger,
            "evidence": one.evidence,
            "from": one.generation_from,
            "to": one.generation_to,
            "came": ", ".join(one.members_in),
            "left": ", ".join(one.members_out),
            "members": one.members_after,
            "moved": one.partitions_moved,
            "lasted": one.duration_ms,
            "at least": one.duration_min_ms,
            "at most": one.duration_max_ms,
        }
        for name, report in asked.reports.items()
        for one in report.rebalances.newest
        if asked.from_ms <= one.ended_at_ms <= asked.to_ms
    ]
    told = [{**row, "ended": ms(row["ended"])} for row in found]
    same(told, expected)
    assert [row["ended"] for row in told] == sorted((row["ended"] for row in told), reverse=True)
    counted: Counter[tuple[int, str]] = Counter()
    for row in asked.ask("Rebalances by cause"):
        at = ms(row["time"])
        assert at is not None
        counted[at, row["cause"]] += row["rebalances"]
    assert counted == Counter((one["ended"] // 60_000 * 60_000, one["cause"]) for one in expected)


def test_stalls_are_those_that_reach_into_the_chosen_time(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    whole(monkeypatch, "Stalls")
    middle = (asked.from_ms + asked.to_ms) // 2 // 1_000 * 1_000
    for start, end in ((asked.from_ms, asked.to_ms), (asked.from_ms, middle), (middle, asked.to_ms)):
        expected = [
            {
                "started": row["started_at_ms"],
                "ended": row["ended_at_ms"],
                "lasted": row["duration_ms"],
                "cluster": row["cluster"],
                "group": row["group_id"],
                "topic": row["topic"],
                "partition": row["partition"],
                "offset": row["committed_offset"],
                "idle commits": row["idle_commits"],
                "ended by": row["ended_by"],
                "evidence": row["evidence"],
            }
            for row in asked.rows("stalls")
            if row["started_at_ms"] <= end and (row["ended_at_ms"] is None or row["ended_at_ms"] >= start)
        ]
        found = asked.ask("Stalls", from_ms=start, to_ms=end)
        same([{**row, "started": ms(row["started"]), "ended": ms(row["ended"])} for row in found], expected)


def test_consumers_needed_are_those_of_the_page(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    whole(monkeypatch, "Consumers needed")
    found = {(row["cluster"], row["group"]): row for row in asked.ask("Consumers needed")}
    expected = {
        (name, group): {
            "cluster": name,
            "group": group,
            "reading": one.members - one.idle,
            "idle": one.idle,
            "partitions": one.partitions,
            "needed": one.needed,
            "needed for an hour": one.needed_to_drain,
            "to add": one.missing,
            "note": "more than partitions" if one.is_limited else "not behind: at most" if one.is_upper_bound else None,
            "records behind": one.lag,
            "read": pytest.approx(one.read_per_s),
            "written": pytest.approx(one.written_per_s),
        }
        for name, report in asked.reports.items()
        for group, one in report.capacity.items()
    }
    assert found == expected
    assert found


def test_variables_name_every_cluster_and_group_and_choose_among_them(asked: Asked) -> None:
    known = {one["name"]: one["query"] for one in BOARD["templating"]["list"]}
    clusters = [row["cluster"] for row in rows(asked.connection, expanded(known["cluster"], BOARD, ALL, 0, 0))]
    assert clusters == sorted(asked.tables)
    for name in clusters:
        only: Chosen = {**ALL, "cluster": [name]}
        found = [row["group_id"] for row in rows(asked.connection, expanded(known["group"], BOARD, only, 0, 0))]
        tables = [row for of in ("lag", "rebalances") for row in asked.rows(of) if row["cluster"] == name]
        assert found == sorted({row["group_id"] for row in tables})
        group = max(found, key=len)
        for title in PANELS:
            every = asked.ask(title, only)
            mine = asked.ask(title, {"cluster": [name], "group": [group]})
            if every and "group" in every[0] and title not in ("Groups now", "Rebalances", "Stalls"):
                assert {row["group"] for row in mine} <= {group}, title
        (one,) = asked.ask("Groups now", {"cluster": [name], "group": [group]})
        assert (one["cluster"], one["group"]) == (name, group)


@pytest.mark.parametrize("title", PANELS)
def test_no_panel_is_empty_over_a_real_log(title: str, real: Asked) -> None:
    found = real.ask(title)
    assert found
    assert len(found) <= max(table_queries.ROWS_MAX, 2 * 60 * table_queries.GROUPS_DRAWN_MAX)
    assert real.ask(title, {"cluster": ["nobody"], "group": ["nobody"]}) in ([], [{"age": None}])
