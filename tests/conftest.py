"""For all tests: `needs`, by which a test asks for a part of the machine, and the closing table of what was missing."""

import os
import re
from collections.abc import Callable

import pytest
from hypothesis import settings

from tests.machine_parts import require

# A property is never a timed test: a machine that stalls for 200 ms proves nothing.
settings.register_profile("muster", deadline=None)
settings.load_profile("muster")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On the compiled form (`make test-compiled`) there is no source to break."""
    if os.environ.get("MUSTER_FORM") == "compiled":
        left_out = [item for item in items if item.get_closest_marker("source") is not None]
        items[:] = [item for item in items if item.get_closest_marker("source") is None]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture
def needs() -> Callable[[str], None]:
    """`needs("java")` at the start of a test that cannot run without it."""
    return require


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The closing table, from the reasons of what was skipped here and in other workers."""
    missing: dict[str, str] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found = re.search(r"NOT RUN \(([^)]+)\): (.*)", reason)
        if found:
            missing[found[1]] = found[2]
    if missing:
        terminalreporter.section("not run: this machine lacks")
        for part, why in sorted(missing.items()):
            terminalreporter.write_line(f"  {part:<18} {why}")
