"""One group's page: its own rows only, owners over time as the records say, bounds that say what they leave out."""

from typing import Any

import pytest
from muster_pipeline.report import limits
from muster_pipeline.report.group_page import OneGroup, build_group, by_group, render_group
from muster_pipeline.report.ownership import spans
from muster_pipeline.report.page import About
from muster_pipeline.report.source import InMemory, rows

from tests.pipeline.report.fleet_tables import HOSTILE, START_MS, assignment, fleet, membership, status, table

ABOUT = About(cluster="main", source="a folder", run="run-1", version="0.1.0")
SECOND = 1_000


def owned(assigned: list[dict[str, Any]], **more: list[dict[str, Any]]) -> list[tuple[int, str, int, int | None]]:
    """(partition, owner, from, until), in seconds; record `n` is of second `n`."""
    tables = {"assignments": assigned, "generations": [], "memberships": []} | more
    timed = {
        name: table(name, [one | {"append_timestamp_ms": one["log_offset"] * SECOND, "group_id": "g"} for one in found])
        for name, found in tables.items()
    }
    return [
        (one.partition, one.owner, one.from_ms // SECOND, None if one.until_ms is None else one.until_ms // SECOND)
        for one in spans(InMemory(timed), "g")
    ]


def test_owners_of_a_classic_group_change_with_its_generations() -> None:
    first = [assignment("g", 1, "a", 0), assignment("g", 1, "a", 1)]
    second = [assignment("g", 5, "a", 0), assignment("g", 5, "b", 1)]
    third = [assignment("g", 9, "b", 1)]
    assert owned([*first, *second, *third]) == [(0, "a", 1, 9), (1, "a", 1, 5), (1, "b", 5, None)]


def test_a_static_member_that_comes_back_under_another_id_goes_on_owning() -> None:
    first = [assignment("g", 1, "a-1", 0, instance_id="pod-0")]
    assert owned([*first, assignment("g", 4, "a-2", 0, instance_id="pod-0")]) == [(0, "pod-0", 1, None)]


@pytest.mark.parametrize("stage", ["empty", "deleted"])
def test_an_empty_or_deleted_group_owns_nothing(stage: str) -> None:
    gone = [{"log_offset": 7, "stage": stage}]
    assert owned([assignment("g", 1, "a", 0)], generations=gone) == [(0, "a", 1, 7)]


def test_where_the_server_assigns_a_record_is_all_that_a_member_owns() -> None:
    kind = {"group_kind": "consumer", "kind": "current"}
    assigned = [
        *(assignment("g", 1, "a", partition, **kind) for partition in (0, 1)),
        assignment("g", 3, "a", 0, **kind),
        assignment("g", 3, "a", 1, group_kind="consumer", kind="revoking"),
        assignment("g", 4, "b", 1, **kind),
        assignment("g", 4, "b", 2, group_kind="consumer", kind="target"),
    ]
    left = [membership("g", 6, "a", "left", group_kind="consumer")]
    assert owned(assigned, memberships=left) == [(0, "a", 1, 6), (1, "a", 1, 3), (1, "b", 4, None)]


def test_only_the_groups_own_rows_are_read() -> None:
    for tables in (OneGroup(fleet(), "slow"), by_group(fleet(), ["slow", "lost"])["slow"]):
        assert {group for (group,) in rows(tables, "lag", ("group_id",))} == {"slow"}
        assert [status for (status,) in rows(tables, "partition_status", ("status",))] == ["STOP", "WARN"]


def test_the_page_of_a_group_in_trouble() -> None:
    page = build_group(ABOUT, fleet(), "slow")
    assert page is not None
    assert [(one.status, one.partition) for one in page.partitions] == [("STOP", 0), ("WARN", 1)]
    assert page.partitions[0].owner is not None
    assert page.statuses == [("STOP", 1), ("WARN", 1)]
    assert [one.generation_to for one in page.rebalances] == [7, 2, 2]
    assert page.lag.points[-1][1] == 1_210
    text = " ".join(render_group(page).split())
    assert "1 STOP, 1 WARN." in text
    assert "group slow was 1,210 records behind on 2 partitions" in text
    assert text.count('class="mark"') == 2, "an avoided rebalance is none"
    assert "pod-0" in text


def test_names_are_escaped_and_unknown_groups_have_no_page() -> None:
    page = build_group(ABOUT, fleet(), HOSTILE)
    assert page is not None
    text = render_group(page)
    assert text.count("<script") == 1, "that which tells its age: ours"
    assert "<script>alert(" not in text
    assert build_group(ABOUT, fleet(), "nobody") is None


def test_what_is_left_out_is_counted() -> None:
    most, drawn = limits.PARTITIONS_SHOWN_MAX, limits.OWNED_SHOWN_MAX
    many = [status("g", "OK", partition=n, lag=n) for n in range(most + 30)]
    assigned = [assignment("g", 1, f"m{n}", n, append_timestamp_ms=START_MS) for n in range(drawn + 7)]
    tables = InMemory(
        {"partition_status": table("partition_status", many), "assignments": table("assignments", assigned)}
    )
    page = build_group(ABOUT, tables, "g")
    assert page is not None
    assert (len(page.partitions), page.partitions_hidden) == (most, 30)
    assert [one.lag for one in page.partitions[:2]] == [most + 29, most + 28], "those furthest behind are shown"
    assert (len(page.owned), page.owned_hidden) == (drawn, 7)
