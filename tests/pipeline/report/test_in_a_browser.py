"""The page as people see it: desktop and phone, light and dark; every section has its figures, nothing overflows."""

from pathlib import Path
from typing import Any

import pytest
from muster_pipeline.report.group_page import build_group, render_group
from muster_pipeline.report.page import About, build, render
from muster_pipeline.report.source import InMemory
from muster_pipeline.report.whatif import Alternative, Comparison

from tests.pipeline.report import browser
from tests.pipeline.report.browser import Look
from tests.pipeline.report.fleet_tables import (
    HOSTILE,
    START_MS,
    assignment,
    expiry_rows,
    fleet,
    lag_rows,
    status,
    table,
)

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]

LOOKS = [Look(width=width, dark=dark) for width in (1280, 390) for dark in (False, True)]
FIGURES = {
    "now": [
        *("4 ERR", "1 WARN", "1 unknown", "1 OK", "As of 2025-06-15", "STOP", "slow", "orders-0", "pod-0", "10.0.0.7"),
        *(
            "done in 90.0 s",
            "lost in 2.0 h",
            "10.00 read and 4.00 written a second",
            "nobody known",
            HOSTILE[:40],
            "session timeout",
        ),
    ],
    "find": ["Part of its name", "6 of 6 groups", "slow", "ERR"],
    "heat": ["a column 60.0 s from", "the newest first", "00:04", "00:00", "slow", "ERR", "1.2k", "910", "half", "·"],
    "quality": [
        "every byte accounted for",
        "60 B quarantined",
        "1 place that could not be read",
        "90 records",
        "10 offsets without a record",
    ],
    "fleet": ["slow", "lost", "Consumed: records by which", "blind", "unknown", "1,210", HOSTILE[:40]],
    "lag": ["slow", "1,210"],
    "rebalances": ["session timeout", "One line a group, one dot a rebalance", "avoided", "100 ms – 3.0 s", "6 → 7 *"],
    "churn": ["Members that came (up) and went (down)", "2025-06-15: 2 / 1"],
    "balance": ["1 – 7", "4 – 4", "yes"],
    "capacity": ["Needed for an hour", "slow", "no partition"],
    "whatif": ["recorded", "cooperative-sticky", "12", "1.5 s", "unknown"],
    "stalls": ["orders-0", "goes on", "4 min", "yes, proven"],
    "expiry": ["10 committed offsets; 7 stay", "2025-06-16: 1 · 2025-06-17: 1", "idle", "empty group"],
}
TABLES = {
    "now": 6,
    "find": 6,
    "heat": 4,
    "quality": 1,
    "fleet": 6,
    "rebalances": 4,
    "balance": 1,
    "capacity": 1,
    "whatif": 2,
    "stalls": 2,
    "expiry": 3,
}
DRAWN = ("lag", "rebalances", "churn", "expiry")


def alternatives() -> tuple[Alternative, ...]:
    names = (("recorded", 12, 1_500), ("cooperative-sticky", 3, None))
    return tuple(
        Alternative(
            assignor=name,
            rebalances=4,
            partitions_moved=moved,
            balance_score=1.5,
            paused_partitions=2.0,
            stall_ms=stall,
        )
        for name, moved, stall in names
    )


def page(folder: Path) -> Path:
    about = About(cluster="prod", source="5 segment files", run="abc", version="1.0")
    report = build(about, fleet(), [Comparison(group="slow", alternatives=alternatives())])
    path = folder / "report.html"
    path.write_text(render(report))
    return path


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[Look, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("report")
    return browser.measured(page(folder), LOOKS, folder)


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_nothing_overflows_is_cut_or_pale(look: Look, seen: dict[Look, dict[str, Any]]) -> None:
    found = seen[look]
    assert (found["width"], found["dark"]) == (look.width, look.dark), "the browser shows what was asked for"
    assert found["page"] <= look.width
    assert (found["overflows"], found["cut"], found["outside"], found["pale"]) == ([], [], [], [])
    assert found["requests"] == [], "the page needs no network"
    if look.width == 1280:
        assert found["scrolled"] == [], "on a desktop every table fits"


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_every_section_shows_its_figures(look: Look, seen: dict[Look, dict[str, Any]]) -> None:
    sections = seen[look]["sections"]
    assert list(sections) == list(FIGURES)
    for name, figures in FIGURES.items():
        for figure in figures:
            assert figure in sections[name]["text"], name
    assert {name: sections[name]["rows"] for name in TABLES} == TABLES
    for name in DRAWN:
        assert sections[name]["shapes"] >= 2, name
    assert sections["quality"]["cards"] == sections["now"]["cards"] == 4


OPENED_MS_MAX = 5_000
GROUP_FIGURES = {
    "now": ["1 STOP, 1 WARN", "orders-0", "pod-0", "lost in 2.0 h", "1,200"],
    "lag": ["Peak 1,210, last 1,210"],
    "owners": ["m-1", "m-2", "orders-0"],
    "commits": ["Records read a minute", "peak 5,000"],
    "rebalances": ["session timeout", "6 → 7 *"],
    "stalls": ["goes on"],
    "whatif": ["cooperative-sticky"],
}


def test_a_groups_own_page_is_as_sound(tmp_path: Path) -> None:
    path = tmp_path / "group.html"
    about = About(cluster="prod", source="5 segment files", run="abc", version="1.0")
    at_ms = {"append_timestamp_ms": START_MS}
    tables = fleet()
    owned = [assignment("slow", 7, f"m-{n % 2 + 1}", n) | at_ms for n in range(3)]
    tables._tables["assignments"] = table("assignments", owned)
    found = build_group(about, tables, "slow", Comparison(group="slow", alternatives=alternatives()))
    assert found is not None
    path.write_text(render_group(found, home="index.html"))
    for look, one in browser.measured(path, LOOKS, tmp_path).items():
        assert one["page"] <= look.width
        assert (one["overflows"], one["cut"], one["outside"], one["pale"], one["requests"]) == ([], [], [], [], [])
        assert list(one["sections"]) == list(GROUP_FIGURES)
        for name, figures in GROUP_FIGURES.items():
            for figure in figures:
                assert figure in one["sections"][name]["text"], name
        for name in ("lag", "owners", "commits"):
            assert one["sections"][name]["shapes"] >= 2, name


SEARCH = """
(() => {
  const type = (id, value, kind) => {
    const one = document.getElementById(id);
    one.value = value;
    one.dispatchEvent(new Event(kind));
  };
  const rows = () => [...document.querySelectorAll("#find-rows tr")];
  const seen = () => rows().map((row) => [...row.cells].map((one) => one.innerText));
  type("find-text", "GROUP-1999", "input");
  const named = seen(), count = document.getElementById("find-count").innerText;
  type("find-text", "", "input");
  type("find-status", "ERR", "change");
  const bad = seen();
  const link = document.querySelector("#find-rows a");
  const spent = performance.getEntriesByType("navigation")[0];
  return { named, count, bad, link: link && link.getAttribute("href"), nodes: document.querySelectorAll("*").length,
           opened_ms: spent.loadEventEnd - spent.startTime };
})()
"""


def test_one_of_twenty_thousand_groups_is_found_where_the_page_is(tmp_path: Path) -> None:
    """It opens in 0.3 s beside other work, of the 2 s that are allowed; the bound here is a slow machine's."""
    names = [f"group-{n}" for n in range(20_000)]
    bad = ("group-15001", "group-10001", "group-5001", "group-1")
    rows = [
        status(name, "STOP" if name in bad else "OK", 1 if name in bad else None, lag=n) for n, name in enumerate(names)
    ]
    offsets = [{"group_id": name, "topic": "orders", "partition": 0} for name in names]
    found = build(
        About(cluster="prod", source="5 segment files", run="abc", version="1.0"),
        InMemory(
            {
                "partition_status": table("partition_status", rows),
                "lag": table("lag", [lag_rows(name, [n])[0] for n, name in enumerate(names)]),
                "expiry": table("expiry", expiry_rows(offsets)),
            }
        ),
    )
    path = tmp_path / "report.html"
    path.write_text(render(found, {"group-15001": "groups/group-15001.html"}))
    look = Look(width=1280, dark=False)
    then = browser.measured(path, [look], tmp_path, SEARCH)[look]["then"]
    assert then["named"][0] == ["group-19999", "OK", "19,999", "unknown"]
    assert then["count"] == "11 of 20,000 groups"
    assert [tuple(row[:2]) for row in then["bad"]] == [(name, "ERR") for name in bad]
    assert then["link"] == "groups/group-15001.html"
    assert path.stat().st_size < 2 << 20
    assert then["nodes"] < 6_000
    assert then["opened_ms"] < OPENED_MS_MAX


def test_dark_is_another_page_than_light(seen: dict[Look, dict[str, Any]]) -> None:
    grounds = {look.dark: seen[look]["ground"] for look in LOOKS}
    assert grounds[True] != grounds[False]


def test_the_measure_sees_what_is_wrong(tmp_path: Path) -> None:
    """A page with every fault: too wide, cut off, pale, a label outside its drawing, and another file."""
    path = tmp_path / "bad.html"
    path.write_text(
        '<body style="margin:0;background:#fff"><main><section id="s"><div style="width:2000px">wide</div>'
        '<div style="overflow:hidden;width:20px;white-space:nowrap">cut off here</div><p style="color:#ddd">pale</p>'
        '<svg width="50" height="20"><text x="40" y="10">outside</text></svg><img src="x.png"></section></main>'
    )
    look = Look(width=390, dark=False)
    found = browser.measured(path, [look], tmp_path)[look]
    assert found["page"] > look.width
    for fault in ("overflows", "cut", "outside", "pale", "requests"):
        assert found[fault], fault
