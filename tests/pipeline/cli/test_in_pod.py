"""`muster driver` and `muster executor`, as Spark's Kubernetes scheduler calls them: the processes that they become."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest
from muster_pipeline import __main__ as program
from muster_pipeline.cli.exits import Exit
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.session import pod
from muster_pipeline.tables.errors import BadInput
from muster_pipeline.transforms.settings import FoldSettings

from tests.pipeline.store import logfolder
from tests.pipeline.store.test_build import content

HOME = str(Path(pyspark.__file__).parent)
OF_AN_EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver.lake.svc:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_APPLICATION_ID": "spark-1f",
    "SPARK_EXECUTOR_POD_IP": "10.88.0.9",
    "SPARK_EXECUTOR_POD_NAME": "p-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_CONF_DIR": "/opt/spark/conf",
}
"""What Spark 4.3's scheduler sets."""
WORDS = (
    "--driver-url", "spark://CoarseGrainedScheduler@driver.lake.svc:7078", "--executor-id", "3", "--cores", "2",
    "--app-id", "spark-1f", "--hostname", "10.88.0.9", "--resourceProfileId", "0", "--podName", "p-exec-3",
)  # fmt: skip


def muster(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "muster_coordinator.cli.main", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def java_home(tmp_path: Path) -> Path:
    """A Java that tells what it was called with, and by whom."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$SPARK_HOME" "$PYSPARK_PYTHON" "$@"\n')
    java.chmod(0o755)
    return tmp_path


def test_an_executor_is_the_jvm_that_the_scheduler_asks_for(java_home: Path) -> None:
    """Options of the JVM in the order of their numbers, not of their names."""
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dof={number}" for number in (10, 2, 0)}
    told = muster("executor", **OF_AN_EXECUTOR, **options, JAVA_HOME=str(java_home), SPARK_CLASSPATH="/more.jar")
    assert told.returncode == Exit.OK, told.stderr
    assert told.stdout.splitlines() == [
        HOME, sys.executable, "-Dof=0", "-Dof=2", "-Dof=10", "-Xms1024m", "-Xmx1024m",
        "-cp", f"/more.jar:/opt/spark/conf:{HOME}/jars/*", pod.BACKEND, *WORDS,
    ]  # fmt: skip


def test_the_classes_that_are_named_are_in_pysparks_package() -> None:
    (jar,) = Path(HOME, "jars").glob("spark-kubernetes_*.jar")
    assert f"{pod.BACKEND.replace('.', '/')}.class" in zipfile.ZipFile(jar).namelist()


@pytest.mark.parametrize("missing", [name for name in OF_AN_EXECUTOR if name != "SPARK_CONF_DIR"])
def test_outside_such_a_pod_it_is_refused(missing: str, java_home: Path) -> None:
    without = {name: value for name, value in OF_AN_EXECUTOR.items() if name != missing}
    with pytest.raises(BadInput, match=f"{missing} is not set: this command is for pods"):
        pod.executor(without)


def test_a_refusal_is_a_sentence_and_an_exit_code(tmp_path: Path) -> None:
    told = muster("driver", "--properties-file", "x")
    assert (told.returncode, "SPARK_DRIVER_BIND_ADDRESS is not set" in told.stderr) == (Exit.USAGE, True), told.stderr
    told = muster("executor", **OF_AN_EXECUTOR, JAVA_HOME=str(tmp_path))
    assert (told.returncode, "which has no bin/java" in told.stderr) == (Exit.NO_SPARK, True), told.stderr


def test_who_asks_for_help_is_not_told_of_them() -> None:
    told = muster("--help", PATH=os.environ["PATH"], COLUMNS="120")
    assert (told.returncode, "pipeline" in told.stdout, "executor" in told.stdout) == (Exit.OK, True, False)


@pytest.mark.pipeline
@pytest.mark.timeout(400)
def test_a_driver_runs_the_command_with_the_settings_of_its_file(java: None, tmp_path: Path) -> None:
    """The words that the scheduler gives; an option of ours after the program is not taken for one of spark-submit."""
    log, plain, out = (tmp_path / name for name in ("log", "plain", "out"))
    logfolder.make(log)
    build(None, SegmentInput.listed(str(log), "c"), plain, FoldSettings(cluster="c"))
    properties = tmp_path / "spark.properties"
    properties.write_text("spark.master=local[2]\nspark.driver.host=127.0.0.1\n")
    told = muster(
        "driver", "--properties-file", properties, "--class", "org.apache.spark.deploy.PythonRunner", program.__file__,
        "ingest", "--segments", log, "--tables", out, "--cluster", "c", "--master", "submit", "--strict",
        **{**os.environ, "SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1", "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    assert told.returncode == Exit.QUARANTINE, told.stderr[-3000:]
    assert content(out) == content(plain)
