"""The suites of the Makefile: which files have a test of one, and in which order they are begun.

A suite is what a marker names. Its tests are few among ten thousand in hundreds of files, and each worker of
pytest-xdist would import them all. And a file of two minutes that is begun when the others are done is two minutes of
one processor. Only files whose own text names the marker can have such a test (tidy/test_suites.py). `-m` selects the
tests themselves.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest


def has_none_of(suite: str, path: Path) -> bool:
    """Whether no test of a module can be one of the suite."""
    return path.suffix == ".py" and f"mark.{suite}" not in path.read_text(encoding="utf-8")


def longest_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Whole files, by the longest time-out in each; among equal ones the order stays."""
    given = list(items)
    seconds: dict[Path, float] = {}
    for item in given:
        marker = item.get_closest_marker("timeout")
        seconds[item.path] = max(seconds.get(item.path, 0.0), float(marker.args[0]) if marker else 0.0)
    return sorted(given, key=lambda item: -seconds[item.path])
