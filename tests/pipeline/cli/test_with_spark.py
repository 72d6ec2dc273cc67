"""`muster pipeline ingest` as a person types it, with Spark: tables, exit code, and the same by spark-submit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from muster_pipeline import __main__ as program
from muster_pipeline.cli.exits import Exit
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.transforms.settings import FoldSettings

from tests.pipeline.store import logfolder
from tests.pipeline.store.test_build import content, spark_home

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]


def test_ingest_gold_and_submit_publish_the_bytes_of_a_plain_process(java: None, tmp_path: Path) -> None:
    log, plain, out, submitted = (tmp_path / name for name in ("log", "plain", "out", "submitted"))
    logfolder.make(log)
    build(None, SegmentInput.listed(str(log), "c"), plain, FoldSettings(cluster="c"))
    arguments = ["ingest", "--segments", log, "--cluster", "c", "--tables"]
    command = [sys.executable, "-m", "muster_coordinator.cli.main", "pipeline", *arguments, out, "--strict"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == Exit.QUARANTINE, done.stderr[-3000:]
    assert "1 rows in quarantine" in done.stderr
    assert "records of 3 log partitions in" in done.stderr
    assert content(out) == content(plain)
    home = spark_home(tmp_path / "spark")
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", program.__file__, *map(str, arguments)]
    done = subprocess.run(
        [*command, str(submitted), "--master", "submit"],
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert content(submitted) == content(plain)
