"""Prometheus names of three exporters: what their dashboards ask for is there, and means what it means there."""

import json
import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from muster_pipeline.report import dashboard, peer_metrics, prometheus
from muster_pipeline.report.owners import owners
from muster_pipeline.report.page import About, build
from muster_pipeline.report.peer_metrics import BURROW_STATUS
from muster_pipeline.report.peer_names import Peer
from muster_pipeline.report.prometheus import exported, prometheus_text
from muster_pipeline.report.source import InMemory
from muster_pipeline.report.troubles import LEVELS
from prometheus_client.parser import text_string_to_metric_families

from tests.pipeline.report.fleet_tables import HOSTILE, expiry_rows, fleet, lag_rows, status, table
from tests.pipeline.report.peer_dashboards import ASKED, NOT_TOLD

ROOT = Path(__file__).resolve().parents[3]
ABOUT = About(cluster="main", source="a folder", run="run-1", version="0.1.0")
Scrape = dict[str, dict[tuple[tuple[str, str], ...], float]]
"""Name of a sample -> labels -> value."""


def scraped(tables: InMemory, peers: tuple[Peer, ...] = tuple(Peer)) -> Scrape:
    report = build(ABOUT, tables)
    text = prometheus_text(report, peers, owners(tables, set(exported(report)))).decode()
    found: Scrape = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found[sample.name], "one value for each series"
            found[sample.name][labels] = sample.value
    return found


def ends(row: dict[str, Any]) -> dict[str, Any]:
    lag = row["lag"]
    if lag is None:
        return {}
    return {"log_end_offset": row["committed_offset"] + lag, "log_start_offset": 90, "time_lag_ms": 30 * lag}


def with_ends() -> InMemory:
    """The fleet, with what samples of log ends tell, and a group that has left."""
    tables = fleet()
    told = [
        *lag_rows("slow", [50, 1_200]),
        *lag_rows("slow", [10], partition=1),
        *lag_rows("half", [7]),
        *lag_rows("half", [None], partition=1),
        *lag_rows("blind", [None]),
        *lag_rows(HOSTILE, [3]),
    ]
    lag = [row | ends(row) for row in told]
    empty = lag_rows("left", [40])
    tables._tables["lag"] = table("lag", lag + empty)
    tables._tables["expiry"] = table("expiry", expiry_rows(lag) + expiry_rows(empty, "empty"))
    return tables


@pytest.fixture(scope="module")
def scrape() -> Scrape:
    return scraped(with_ends())


def of(scrape: Scrape, name: str, **labels: str) -> list[float]:
    return [value for found, value in scrape[name].items() if labels.items() <= set(found)]


@pytest.mark.parametrize("peer", Peer)
def test_every_name_that_dashboards_ask_for_is_there_with_its_labels(peer: Peer, scrape: Scrape) -> None:
    asked = ASKED[peer]
    missing = {name for name in asked if not scrape[name]}
    assert not missing
    for name, labels in asked.items():
        for found in scrape[name]:
            assert {label for label, _ in found} - {"cluster_name"} == set(labels) - {"cluster_name"}, name


def test_what_cannot_be_told_is_not_there_and_the_documents_say_so(scrape: Scrape) -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text()
    every = {name for asked in ASKED.values() for name in asked}
    for name in (*every, *NOT_TOLD):
        assert f"`{name}`" in page, f"docs/pipeline.md has a row for {name}"
    assert not [name for name in NOT_TOLD if scrape[name]]
    told = {name for name in scrape if scrape[name] and not name.startswith("muster_")}
    assert told == every, "and nothing else is told under their names"


def test_only_the_peers_that_are_asked_for_are_told() -> None:
    for peer in Peer:
        told = {name for name in scraped(with_ends(), (peer,)) if not name.startswith("muster_")}
        assert told == set(ASKED[peer]), peer
    assert all(name.startswith("muster_") for name in scraped(with_ends(), ()))


def test_lag_and_offsets_are_those_of_the_tables(scrape: Scrape) -> None:
    place = {"group": "slow", "topic": "orders", "partition": "0"}
    assert of(scrape, "kafka_consumergroup_group_lag", **place) == [1_200]
    assert of(
        scrape, "kafka_consumergroup_group_lag", **place, consumer_id="m-1", member_host="/10.0.0.7", client_id="shop"
    )
    assert of(scrape, "kafka_consumergroup_group_lag_seconds", **place) == [36]
    assert of(scrape, "kafka_consumergroup_group_offset", **place) == [101]
    assert of(scrape, "kafka_partition_latest_offset", topic="orders", partition="0") == [1_301], (
        "the newest of all groups"
    )
    assert of(scrape, "kafka_partition_earliest_offset", topic="orders", partition="0") == [90]
    assert of(scrape, "kafka_consumergroup_group_topic_sum_lag", group="slow") == [1_210]
    assert of(scrape, "kafka_consumergroup_group_max_lag_seconds", group="slow") == [36]
    assert of(scrape, "kafka_consumergroup_group_lag", group="half") == [7], "unknown has no sample"
    assert of(scrape, "kafka_consumergroup_group_sum_lag", group="blind") == []
    assert of(scrape, "kminion_kafka_consumer_group_topic_lag", group_id="slow") == [1_210]
    assert of(scrape, "kminion_kafka_topic_high_water_mark_sum", topic_name="orders") == [1_301 + 110]
    assert of(scrape, "burrow_kafka_consumer_lag_total", consumer_group="slow") == [1_210]


def test_states_and_members_are_those_of_the_log(scrape: Scrape) -> None:
    (info,) = (labels for labels in scrape["kminion_kafka_consumer_group_info"] if ("group_id", "slow") in labels)
    assert ("state", "Stable") in info
    assert scrape["kminion_kafka_consumer_group_info"][info] == 1
    assert of(scrape, "kminion_kafka_consumer_group_members", group_id="slow") == [2]
    assert of(scrape, "kminion_kafka_consumer_group_empty_members", group_id="slow") == [1]
    assert of(scrape, "kminion_kafka_consumer_group_topic_members", group_id="slow") == [1]
    assert of(scrape, "kminion_kafka_consumer_group_topic_assigned_partitions", group_id="slow") == [1]


def test_statuses_are_burrows_numbers(scrape: Scrape) -> None:
    """OK 1, WARN 2, ERR 3, STOP 4, STALL 5, REWIND 6 (Burrow's core/protocol/evaluator.go); one more before it."""
    place = {"topic": "orders", "partition": "0"}
    assert of(scrape, "burrow_kafka_topic_partition_status", consumer_group="slow", **place) == [4]
    assert of(scrape, "kafka_burrow_partition_status", group="slow", **place) == [5]
    assert of(scrape, "burrow_kafka_consumer_status", consumer_group="slow") == [3]
    assert of(scrape, "kafka_burrow_status", group="half") == [2]
    assert of(scrape, "burrow_kafka_topic_partition_status", consumer_group=HOSTILE, **place) == [6]
    assert of(scrape, "burrow_kafka_topic_partition_status", consumer_group="blind") == [], "unknown is no status"
    assert set(BURROW_STATUS) == set(LEVELS) - {"UNKNOWN", "ABANDONED"}


def test_partitions_and_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_metrics, "PARTITIONS_MAX", 3)
    monkeypatch.setattr(prometheus, "GROUPS_MAX", 2)
    lag = [one for n in range(4) for one in lag_rows(f"g{n}", [10 * n])]
    lag += lag_rows("g3", [5], partition=1) + lag_rows("g3", [None], partition=2)
    tables = InMemory({"lag": table("lag", lag), "expiry": table("expiry", expiry_rows(lag)),
                       "partition_status": table("partition_status", [status("g3", "OK")])})  # fmt: skip
    scrape = scraped(tables)
    named = {(dict(one)["group"], dict(one)["partition"]) for one in scrape["kafka_consumergroup_group_offset"]}
    assert named == {("g3", "0"), ("g2", "0"), ("g3", "1")}, "those furthest behind"
    assert of(scrape, "kafka_consumergroup_group_sum_lag", group="(other)") == [10]
    assert of(scrape, "muster_pipeline_group_lag", group="(other)") == [10]
    assert {dict(one)["group_id"] for one in scrape["kminion_kafka_consumer_group_info"]} == {"g2", "g3"}


NAME = re.compile(r"\b(muster_pipeline_[a-z_]+)\b(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


def queries() -> list[str]:
    board = json.loads(dashboard.text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return found + [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]


@pytest.mark.parametrize("query", queries())
def test_every_query_of_our_own_dashboard_finds_something(query: str, scrape: Scrape) -> None:
    assert "kafka_" not in query, "our own names only"
    names = NAME.findall(query)
    assert names
    grouped = {label.strip() for found in GROUPING.findall(query) for label in found.split(",")}
    for name, matchers in names:
        series = [dict(one) for one in scrape[name]]
        assert series, name
        assert grouped <= set(series[0]), (name, grouped)
        for label, operator, wanted in re.findall(r'(\w+)(=~|=)"([^"]*)"', matchers):
            pattern = ".*" if wanted.startswith("$") else wanted
            fits = re.compile(pattern if operator == "=~" or wanted.startswith("$") else re.escape(wanted))
            assert any(fits.fullmatch(one[label]) for one in series), (name, label, wanted)


def test_every_metric_of_ours_is_on_the_dashboard_and_no_panels_overlap(scrape: Scrape) -> None:
    asked = {name for query in queries() for name, _ in NAME.findall(query)}
    assert asked == {name for name, series in scrape.items() if series and name.startswith("muster_")}
    panels = json.loads(dashboard.text())["panels"]
    assert [one["id"] for one in panels] == list(range(1, len(panels) + 1))
    places = [one["gridPos"] for one in panels]
    assert all(one["x"] + one["w"] <= 24 for one in places)
    for one, other in pairwise(places):
        assert one["x"] + one["w"] <= other["x"] or other["y"] >= one["y"] + one["h"], (one, other)
    old = [query for query in queries() if 'status="ERR"' in query]
    assert old
    assert all("muster_pipeline_as_of_timestamp_seconds" in query for query in old), "old numbers are no green ones"
