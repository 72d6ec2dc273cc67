"""What failed, once more in a few lines after all other output.

Problem: suites run one after another and beside each other, and of a long output CI keeps the beginning and the end: of
a test that failed in the middle nobody learns why, and by then its replicas' logs are gone. Mechanism: a report of a
failure gets the last lines of each cluster that lives at that moment; and with MUSTER_FAILURES=file each run of pytest
adds its failures to that file, which the Makefile prints at the very end. What is added has bounds, so that a hundred
failures are still read. It does not judge: exit codes do.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

FILE_VARIABLE = "MUSTER_FAILURES"
LAST_LINES = 12
"""Of a traceback, and of each cluster's output."""
LINE_CHARACTERS_MAX = 400
TOLD_MAX = 10
"""Failures of one run that are told; of further ones only the names."""
CLUSTER = "what a cluster said last: "
TAIL_BYTES = 64 * 1024


def last_lines(text: str) -> str:
    return "\n".join(line[:LINE_CHARACTERS_MAX] for line in text.rstrip().splitlines()[-LAST_LINES:])


def add_clusters(report: pytest.TestReport) -> None:
    """To a report of a failure, while the fixtures still live."""
    module: Any = sys.modules.get("tests.cluster")
    for cluster in () if module is None else list(module.LIVE):
        for path in (cluster.output, *sorted(cluster.folder.glob("replica-*/server.log"))):
            report.sections.append((f"{CLUSTER}{path.parent.name}/{path.name}", last_lines(_end_of(path))))


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError as error:
        return str(error)


def write_file(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> None:
    """Adds the failures of this run to the file that MUSTER_FAILURES names; nothing without it, or without one."""
    name = os.environ.get(FILE_VARIABLE)
    told = [_told(report, whole=at < TOLD_MAX) for at, report in enumerate(reports)]
    if name and told:
        with Path(name).open("a", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in told)


def _told(report: pytest.TestReport | pytest.CollectReport, *, whole: bool) -> str:
    lines = [f"--- {report.nodeid} ({report.when or 'collect'})"]
    if whole:
        lines.append(last_lines(report.longreprtext))
        for title, text in report.sections:
            if title.startswith(CLUSTER):
                lines += [title, text]
    return "\n".join(lines)
