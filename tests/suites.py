"""The suites of the Makefile: which files have a test of one, and in which order they are begun.

A suite is what a marker names. Its tests are few among ten thousand in hundreds of files, and each worker of
pytest-xdist would import them all, with each folder's `conftest.py`. And a file of two minutes that is begun when the
others are done is two minutes of one processor. Only files whose own text names the marker can have such a test, and no
suite but Spark's one of a file that is Spark's as a whole (tidy/test_suites.py). `-m` selects the tests themselves.

What computes runs on what others leave of the processors (`nice`), which may be nothing for minutes: on a slow day a
test of 22 seconds was ended after 300. There a time-out finds only what never ends.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

SPARK = "pipeline"
"""The marker of what no other suite takes."""
LOW_PRIORITY = 10
"""The niceness from which on a process computes on what others leave."""
PATIENCE_S = 1_400
"""The least time-out of a test there: about what all runs beside it take, and less than `faulthandler_timeout`."""


def has_none_of(suite: str, path: Path) -> bool:
    """Whether no test of a module, or of any module below a folder, can be one of the suite. With a folder its
    `conftest.py` is imported: that of the pipeline imports Spark."""
    if path.is_dir():
        return all(has_none_of(suite, module) for module in path.rglob("*.py"))
    return path.suffix == ".py" and suite not in _suites_of(path)


@cache
def _suites_of(path: Path) -> frozenset[str]:
    """Markers that the module names."""
    text = path.read_text(encoding="utf-8")
    if re.search(rf"^pytestmark = .*\bmark\.{SPARK}\b", text, re.MULTILINE):
        return frozenset({SPARK})
    return frozenset(re.findall(r"\bmark\.(\w+)", text))


def longest_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Whole files, by the longest time-out in each; among equal ones the order stays."""
    given = list(items)
    seconds: dict[Path, float] = {}
    for item in given:
        marker = item.get_closest_marker("timeout")
        seconds[item.path] = max(seconds.get(item.path, 0.0), float(marker.args[0]) if marker else 0.0)
    return sorted(given, key=lambda item: -seconds[item.path])


def be_patient(items: Iterable[pytest.Item], niceness: int) -> None:
    """At a low priority no test is ended earlier than after `PATIENCE_S`."""
    if niceness < LOW_PRIORITY:
        return
    for item in items:
        marker = item.get_closest_marker("timeout")
        own_s = float(marker.args[0]) if marker else 0.0
        item.add_marker(pytest.mark.timeout(max(own_s, PATIENCE_S)), append=False)
