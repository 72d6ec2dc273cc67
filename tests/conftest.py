"""For all tests: what they ask of the machine, and the closing table of what was missing.

`needs` is how a test asks for a part of it. Modules and tests that import a package of an extra that is not installed
are skipped here for all rooms at once, so that the tests of one part run with that part's extra.

`--suite NAME` imports only files that may have a test of that suite, and begins with the longest (`tests/suites.py`).
"""

import gc
import os
import re
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import event_fields, failures
from tests.machine_parts import excuse, require
from tests.suites import be_patient, has_none_of, longest_first

# A property is never a timed test: a machine that stalls for 200 ms proves nothing.
settings.register_profile("muster", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("muster")

event_fields.hold()

pytest.register_assert_rewrite("tests.api.store_contract")

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
"""Kopf imports kubernetes, that kubernetes-validate, that jsonschema, and that the grammars of international addresses,
when it finds them: 1.5 s of each worker's start, for a format that no schema here has."""

for _name in ("no_proxy", "NO_PROXY"):
    os.environ[_name] = ",".join(filter(None, (os.environ.get(_name, ""), "127.0.0.1", "localhost")))
"""A machine may have a proxy for package registries; what a test asks of itself does not go there."""

OF_A_TEST = "PYTEST_CURRENT_TEST" in os.environ
"""A test began this run. It is there only until this run has tests of its own."""
COLLECT_AFTER = 10_000
"""Objects made before the collector looks again."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--suite", metavar="NAME", help="import only files that name this marker, the longest first")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    suite = config.getoption("suite")
    return True if suite and has_none_of(suite, collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("suite"):
        items[:] = longest_first(items)
    be_patient(items, os.nice(0))
    leave_out_mutants(config, items)


def pytest_collection_finish() -> None:
    """Modules and collected tests live to the end: a seventh of the units' processor time was the collector's, which
    went over them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


def leave_out_mutants(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On the compiled form (`make test-compiled`) there is no source to break."""
    if os.environ.get("MUSTER_FORM") == "compiled":
        left_out = [item for item in items if item.get_closest_marker("source") is not None]
        items[:] = [item for item in items if item.get_closest_marker("source") is None]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture
def needs() -> Callable[[str], None]:
    """`needs("java")` at the start of a test that cannot run without it."""
    return require


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that cannot be imported for want of an extra is skipped, not an error."""
    report = yield
    call = getattr(report, "call", None)
    reason = excuse(call.excinfo.value) if report.failed and call is not None and call.excinfo is not None else None
    if reason is not None:
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"Skipped: {reason}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """So is a test, or a fixture of it, that imports one when it runs."""
    report = yield
    reason = excuse(call.excinfo.value) if report.failed and call.excinfo is not None else None
    if reason is not None:
        report.outcome, report.longrepr = "skipped", (str(item.path), item.reportinfo()[1] or 0, f"Skipped: {reason}")
    if report.failed:
        failures.add_clusters(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The closing table, from the reasons of what was skipped here and in other workers; and what failed."""
    stats = terminalreporter.stats
    # xdist's workers have such a reporter each, too; and a run that a test began, as of a mutant, is that test's own.
    if not hasattr(terminalreporter.config, "workerinput") and not OF_A_TEST:
        failures.write_file([*stats.get("failed", []), *stats.get("error", [])])
    missing: dict[str, str] = {}
    for report in stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found = re.search(r"NOT RUN \(([^)]+)\): (.*)", reason)
        if found:
            missing[found[1]] = found[2]
    if missing:
        terminalreporter.section("not run: this machine lacks")
        for part, why in sorted(missing.items()):
            terminalreporter.write_line(f"  {part:<18} {why}")
