"""As of when a page is true, and after how long it is old: by the rounds of a stream, by what is said, else an hour."""

from pathlib import Path

import pytest
from muster_pipeline.cli.reporting import about
from muster_pipeline.report.age import OLD_AFTER_MS
from muster_pipeline.report.page import About, build, render
from muster_pipeline.report.source import InMemory
from muster_pipeline.store import published
from muster_pipeline.store.limits import KEPT_MS, ROUND_KEPT_MS

from tests.pipeline.report.fleet_tables import START_MS, fleet
from tests.pipeline.store import small


def rounds(root: Path, times_s: list[float], kept_ms: int = ROUND_KEPT_MS) -> None:
    for mark, at_s in enumerate(times_s):
        small.run(root, mark, now_ms=START_MS + int(at_s * 1_000), kept_ms=kept_ms)


@pytest.mark.parametrize(
    ("times_s", "every_ms"),
    [
        ([0, 30, 60, 90], 30_000),
        ([0, 30, 60, 400, 430], 30_000),  # a pause: the middle of the intervals
        ([0, 300, 600, 610, 620, 630, 640, 650], 10_000),  # the last ones count
        ([0], None),
    ],
)
def test_the_rhythm_is_that_of_the_last_rounds(times_s: list[float], every_ms: int | None, tmp_path: Path) -> None:
    rounds(tmp_path, times_s)
    found = about(published(tmp_path))
    assert found.every_ms == every_ms
    assert found.old_after_ms == (OLD_AFTER_MS if every_ms is None else 2 * every_ms)


def test_runs_that_somebody_made_have_no_rhythm_unless_they_say_so(tmp_path: Path) -> None:
    rounds(tmp_path, [0, 30, 60], KEPT_MS)
    assert about(published(tmp_path)).every_ms is None
    assert about(published(tmp_path), 15.0).every_ms == 15_000
    rounds(tmp_path, [90, 120])
    assert about(published(tmp_path)).every_ms == 30_000
    assert about(published(tmp_path, run=2)).every_ms is None, "as that run published them"


def test_a_page_of_files_is_true_as_of_the_newest_time_in_them() -> None:
    files = About(cluster="c", source="5 segment files", run="r", version="1")
    assert build(files, fleet()).about.as_of_ms == START_MS + 300_000
    live = About(cluster="c", source="a live cluster", run="r", version="1", as_of_ms=7)
    assert build(live, fleet()).about.as_of_ms == 7
    nothing = render(build(files, InMemory({})))
    assert 'class="old" role="status" data-as-of=""' in nothing


def test_without_scripts_nothing_is_green() -> None:
    """Green is a colour that only the script can give."""
    page = render(build(About(cluster="c", source="x", run="r", version="1"), fleet()))
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert style.count("--good:") == 2
    assert "--good:var(--dim)" in style
    assert ":root.young{--good:var(--sound)}" in style
    assert style.count("var(--sound)") == 1
    assert '<p id="age" class="old"' in page
    assert '<html lang="en">' in page
