"""SIGKILL of the driver at every step of a publication, and of a Python worker at three points: what is readable is
what was published before, or all of what is published now; the next run is whole."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from muster_pipeline import store
from muster_pipeline.cli.exits import worker_error
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import Input, Part, SegmentInput
from muster_pipeline.transforms.settings import FoldSettings
from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.pipeline.store import logfolder
from tests.pipeline.store.test_build import content

BEFORE, NOW = FoldSettings(cluster="c", stall_min_ms=1_000), FoldSettings(cluster="c")
PROGRAM = """
import os, signal, sys
from muster_pipeline.job import build as job, stage
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.store import delta
from muster_pipeline.transforms.settings import FoldSettings
def dies(*_):
    os.kill(os.getpid(), signal.SIGKILL)
{point}
job.build(None, SegmentInput.listed(sys.argv[1], 'c'), sys.argv[2], FoldSettings(cluster='c'))
"""
AT_STEP = "delta.step = lambda what: dies() if what == {!r} or what.startswith({!r} + ' ') else None"
POINTS = {
    "while a task writes": ("stage.files = dies", False),
    "before the first commit": (AT_STEP.format("files checked", "-"), False),
    "when one table is committed": (AT_STEP.format("-", "commits"), False),
    "when the last of all tables is committed": (AT_STEP.format("tables committed", "-"), False),
    "before runs names them": (AT_STEP.format("row written", "-"), False),
    "right after it did": (AT_STEP.format("-", "runs"), True),
    "at the end": (AT_STEP.format("published", "-"), True),
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    logfolder.make(folder)
    return folder


def tables(log: Path, root: Path, settings: FoldSettings) -> dict[Any, Any]:
    build(None, SegmentInput.listed(str(log), "c"), root, settings)
    return content(root)


@pytest.fixture(scope="module")
def known(log: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[Any, Any], dict[Any, Any]]:
    """A folder of the run before, what it holds, and what the next run makes."""
    root = tmp_path_factory.mktemp("known")
    before = tables(log, root / "before", BEFORE)
    return root / "before", before, tables(log, root / "whole", NOW)


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_driver(
    point: str, log: Path, known: tuple[Path, dict[Any, Any], dict[Any, Any]], tmp_path: Path
) -> None:
    folder, before, whole = known
    shutil.copytree(folder, tmp_path / "out")
    assert before != whole
    change, is_published = POINTS[point]
    command = [sys.executable, "-c", PROGRAM.format(point=change), str(log), str(tmp_path / "out")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert content(tmp_path / "out") == (whole if is_published else before)
    assert content(tmp_path / "out", run=1) == before, "the run before stays readable"
    assert store.damages(tmp_path / "out") == []
    assert tables(log, tmp_path / "out", NOW) == whole


class Killer:
    """An input whose reader kills its process at one part of log partition 23, once."""

    def __init__(self, inner: Input, at: int, marker: Path) -> None:
        self.inner, self.at, self.marker = inner, at, str(marker)
        self.sizes, self.makes_bronze, self.describe = inner.sizes, inner.makes_bronze, inner.describe

    def parts(self, log_partition: int) -> Iterator[Part]:
        for count, part in enumerate(self.inner.parts(log_partition)):
            self._perhaps(log_partition, count)
            yield part
        self._perhaps(log_partition, -1)

    def _perhaps(self, log_partition: int, count: int) -> None:
        if log_partition == 23 and count == self.at and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.pipeline
@pytest.mark.timeout(600)
@pytest.mark.parametrize("at", [0, 1, -1], ids=["before the first row", "between chunks", "behind the last row"])
def test_a_killed_worker(spark: SparkSession, at: int, log: Path, tmp_path: Path) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    whole = tables(log, tmp_path / "whole", NOW)
    before = tables(log, tmp_path / "out", BEFORE)
    source = Killer(SegmentInput.listed(str(log), "c"), at, tmp_path / "killed")
    with pytest.raises((PySparkException, Py4JJavaError), match="Python worker exited unexpectedly") as failed:
        build(spark, source, tmp_path / "out", NOW)
    assert worker_error(str(failed.value)).startswith("Python worker exited unexpectedly")
    assert content(tmp_path / "out") == before
    build(spark, source, tmp_path / "out", NOW)
    assert content(tmp_path / "out") == whole, "nothing lost, nothing doubled"
