"""`spark-submit --master yarn` with the archive of `make pipeline-archive`, on a YARN and an HDFS of their own: nodes
whose Python has no Muster. Only in `make lake` (in the nightly)."""

from pathlib import Path

import pytest
from muster_pipeline import store
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.transforms.settings import FoldSettings

from tests.pipeline.cli import yarn
from tests.pipeline.cli.test_archive import bare_python, made, ran
from tests.pipeline.store import hdfs, logfolder
from tests.pipeline.store.lake_contract import WHOLE, published_bytes
from tests.pipeline.store.test_build import spark_home

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not WHOLE, reason="YARN and HDFS are slow to start: make lake, in the nightly"),
]
EXECUTORS = 2


def test_driver_and_executors_in_containers_publish_the_bytes_of_a_plain_process(
    java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page says it; the job's own files are staged in HDFS, where its tables are too."""
    monkeypatch.setenv("HADOOP_USER_NAME", hdfs.USER)
    log, plain = tmp_path / "log", tmp_path / "plain"
    logfolder.make(log)
    build(None, SegmentInput.listed(str(log), "c"), plain, FoldSettings(cluster="c"))
    archive, script = made(tmp_path / "dist")
    home, python = spark_home(tmp_path / "spark"), bare_python(tmp_path / "bare")
    server = hdfs.Server(tmp_path)
    server.start()
    file_system = f"hdfs://127.0.0.1:{server.port}"
    settings = {
        "spark.yarn.jars": f"local:{home}/jars/*", "spark.executor.instances": str(EXECUTORS),
        "spark.driver.memory": "512m", "spark.executor.memory": "512m",
        **{f"spark.{who}.HADOOP_USER_NAME": hdfs.USER for who in ("yarn.appMasterEnv", "executorEnv")},
    }  # fmt: skip
    command = [home / "bin" / "spark-submit", "--master", "yarn", "--deploy-mode", "cluster"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    out = f"{file_system}/tables"
    job = ["ingest", "--segments", log, "--tables", out, "--cluster", "c", "--master", "submit"]
    try:
        with yarn.started(tmp_path / "yarn", file_system, nodes=2) as cluster:
            done = ran(
                [*command, "--py-files", archive, script, *job], tmp_path,
                SPARK_HOME=str(home), PYSPARK_PYTHON=str(python), HADOOP_CONF_DIR=str(cluster.settings),
            )  # fmt: skip
            told = cluster.logs()
            assert done.returncode == 0, done.stderr[-3000:] + "".join(text[-1500:] for text in told.values())
            assert len(told) == 1 + EXECUTORS, "each in a container of its own"
            assert list(cluster.folder.rglob(archive.name)) != [], "the archive lies in the nodes' folders"
        assert published_bytes(store.published(out)) == published_bytes(store.published(plain))
    finally:
        server.close()
