"""What is wrong now: the newest first, a group by its worst partition, and who owns what at the end of the log."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from muster_pipeline.report import limits
from muster_pipeline.report.group_status import group_status
from muster_pipeline.report.owners import owners
from muster_pipeline.report.page import About, Report, build
from muster_pipeline.report.prometheus import prometheus_text
from muster_pipeline.report.source import InMemory
from muster_pipeline.report.troubles import LEVELS, WHAT_TO_DO, WHY, troubles
from muster_pipeline.schemas.status import STATUSES

from tests.pipeline.report.fleet_tables import START_MS, assignment, fleet, membership, status, table

ABOUT = About(cluster="main", source="a folder", run="run-1", version="0.1.0")


@pytest.fixture(scope="module")
def report() -> Report:
    return build(ABOUT, fleet())


def test_every_status_has_a_level_and_every_trouble_its_words() -> None:
    assert set(LEVELS) == set(STATUSES)
    assert set(WHY) == set(WHAT_TO_DO) == {one for one, level in LEVELS.items() if level in ("ERR", "WARN")}


def test_the_newest_come_first_and_sound_partitions_are_no_trouble(report: Report) -> None:
    found = report.troubles
    assert [(one.group, one.status) for one in found.newest[:2]] == [("slow", "STOP"), ("lost", "TRUNCATED")]
    assert [one.since_ms for one in found.newest] == sorted((one.since_ms for one in found.newest), reverse=True)
    assert {one.status for one in found.newest} == set(WHY)
    assert found.now_ms == START_MS + 300_000


def test_a_group_is_as_bad_as_its_worst_partition(report: Report) -> None:
    groups = report.troubles.groups
    assert (groups["slow"].status, groups["slow"].since_ms) == ("ERR", START_MS + 60_000)
    assert {name: groups[name].status for name in ("idle", "blind", "gone", "half")} == {
        "idle": "WARN", "blind": "UNKNOWN", "gone": "ABANDONED", "half": "OK"
    }  # fmt: skip
    told = json.loads(group_status(report, "slow"))
    assert (told["status"], told["partitionsByStatus"]) == ("ERR", {"STOP": 1, "WARN": 1})
    text = prometheus_text(report).decode()
    assert 'muster_pipeline_group_partitions{cluster_name="main",group="slow",status="STOP"} 1.0' in text
    assert 'group_partitions{cluster_name="main",group="half"' not in text


def test_of_many_the_newest_are_told_and_the_rest_is_counted() -> None:
    most = limits.TROUBLES_SHOWN_MAX
    rows = [status(f"g{n}", "STOP", n % 1_000) for n in range(9 * most)]
    found = troubles(InMemory({"partition_status": table("partition_status", rows)}))
    assert (len(found.newest), found.hidden, found.count("ERR")) == (most, 8 * most, 9 * most)
    newest = sorted((row["since_ms"] for row in rows), reverse=True)[:most]
    assert [one.since_ms for one in found.newest] == newest


def test_an_empty_table_says_nothing() -> None:
    found = troubles(InMemory({}))
    assert (found.now_ms, found.newest, found.total) == (None, (), 0)


def owned(members: list[dict[str, Any]], assigned: list[dict[str, Any]], stages: Sequence[tuple[int, str]] = ()) -> Any:
    generations = [{"group_id": "g", "log_offset": at, "stage": stage} for at, stage in stages]
    tables = {
        "memberships": table("memberships", members),
        "assignments": table("assignments", assigned),
        "generations": table("generations", generations),
    }
    return {place[2]: one.name for place, one in owners(InMemory(tables), {"g"}).items()}


def test_owners_of_a_classic_group_are_those_of_its_last_generation() -> None:
    members = [membership("g", 1, "a"), membership("g", 1, "b", instance_id="pod-1"), membership("g", 5, "c")]
    assigned = [assignment("g", 1, "a", 0), assignment("g", 1, "b", 1), assignment("g", 5, "c", 0)]
    assert owned(members[:2], assigned[:2]) == {0: "a", 1: "pod-1"}
    assert owned(members, assigned) == {0: "c"}, "partition 1 has nobody in the generation of offset 5"


def test_a_rebalance_takes_nothing_away_before_it_ends() -> None:
    members = [membership("g", 1, "a"), membership("g", 3, "a", "candidate"), membership("g", 3, "b", "candidate")]
    assigned = [assignment("g", 1, "a", 0)]
    assert owned(members, assigned, [(1, "completed"), (2, "rebalance"), (3, "candidate")]) == {0: "a"}


@pytest.mark.parametrize("stage", ["empty", "deleted"])
def test_an_empty_or_deleted_group_has_no_owners(stage: str) -> None:
    assert owned([membership("g", 1, "a")], [assignment("g", 1, "a", 0)], [(1, "completed"), (2, stage)]) == {}


def test_owners_where_the_server_assigns_are_the_last_record_of_a_member_that_is_there() -> None:
    kind = {"group_kind": "consumer"}
    members = [membership("g", at, name, "joined", **kind) for at, name in ((1, "a"), (2, "b"))]
    assigned = [
        assignment("g", at, name, partition, kind=word, **kind)
        for at, name, partition, word in ((3, "a", 0, "current"), (4, "b", 0, "target"), (5, "a", 1, "current"))
    ]
    assert owned(members, assigned) == {0: "a", 1: "a"}, "a target is not owned yet"
    taken = [*assigned, assignment("g", 6, "b", 0, kind="current", **kind)]
    assert owned(members, taken) == {0: "b", 1: "a"}
    gone = [*members, membership("g", 7, "a", "left", client_host=None, client_id=None, **kind)]
    assert owned(gone, taken) == {0: "b"}


def test_a_group_that_became_one_of_kip_848_has_the_owners_of_its_later_records() -> None:
    kind = {"group_kind": "consumer"}
    members = [membership("g", 1, "a"), membership("g", 1, "b"), membership("g", 4, "a", "joined", **kind)]
    assigned = [assignment("g", 1, "a", 0), assignment("g", 1, "b", 1)]
    steps = [(1, "completed"), (3, "deleted")]
    assert owned(members, assigned, steps) == {}, "the classic group is gone"
    later = [*assigned, assignment("g", 5, "a", 0, kind="current", **kind)]
    assert owned(members, later, steps) == {0: "a"}
    back = [*members, membership("g", 7, "a", "left", **kind), membership("g", 8, "a")]
    again = [*later, assignment("g", 8, "a", 0), assignment("g", 8, "a", 1)]
    assert owned(back, again, [*steps, (8, "completed")]) == {0: "a", 1: "a"}, "and back to a classic one"
