"""A whole run: equal bytes whoever distributes it, and nothing half-published ever."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pyspark
import pytest
from deltalake import DeltaTable
from muster_pipeline import store
from muster_pipeline.job import distribute
from muster_pipeline.job import samples as samples_of_runs
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import BronzeInput, SegmentInput
from muster_pipeline.job.stage import LogEnds, Stage, log_ends
from muster_pipeline.store.files import FileEntry
from muster_pipeline.store.place import place
from muster_pipeline.store.publish import writing
from muster_pipeline.tables.catalog import DERIVED
from muster_pipeline.tables.errors import BadInput, DamagedStore, NothingPublished, StoreBusy
from muster_pipeline.transforms import limits
from muster_pipeline.transforms.settings import FoldSettings
from muster_pipeline.verify.tables import check
from pyspark.sql import SparkSession

from tests.pipeline.store import logfolder
from tests.pipeline.tables.generated import log_end_table

SETTINGS = FoldSettings(cluster="c")
WORKER_RSS_MAX = 600 << 20


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    logfolder.make(folder)
    return folder


@pytest.fixture(scope="module")
def plain(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables made in this process, without Spark."""
    root = tmp_path_factory.mktemp("plain")
    build(None, SegmentInput.listed(str(log), "c"), root, SETTINGS)
    return root


def content(root: Path, run: int | None = None) -> dict[Any, Any]:
    """Every published byte, and what the run was made of; without what differs between equal runs: names and times."""
    found = store.published(root, run=run)
    told = {
        (entry.table, entry.log_partition, entry.number): (root / entry.table / entry.path).read_bytes()
        for entry in found.files
    }
    return {**told, "settings": found.settings, "input": found.input, "tables": found.tables}


def unnamed(root: Path) -> list[Path]:
    """Data files that no version of a table has."""
    named = {root / entry.table / entry.path for entry in store.published(root).files}
    runs = {Path(name) for name in DeltaTable(str(root / "runs")).file_uris()}
    found = (
        path for path in root.rglob("*") if path.suffix in (".parquet", ".draft") and "_delta_log" not in path.parts
    )
    return sorted(set(found) - named - runs)


@pytest.mark.pipeline
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_local_threads_of_spark_give_the_bytes_of_a_plain_process(
    spark: SparkSession, log: Path, plain: Path, tmp_path: Path
) -> None:
    built = build(spark, SegmentInput.listed(str(log), "c"), tmp_path, SETTINGS)
    assert content(tmp_path) == content(plain)
    assert built.log_partitions == (0, 7, 23)
    assert 0 < built.worker_rss_bytes_max < WORKER_RSS_MAX
    again = build(spark, SegmentInput.listed(str(log), "c"), tmp_path, SETTINGS)
    assert content(tmp_path) == content(plain), "a re-run changes nothing"
    assert again.snapshot.identity() == built.snapshot.identity()
    assert again.snapshot.number == built.snapshot.number + 1


def spark_home(folder: Path) -> Path:
    """PySpark's own installation through links: a local cluster writes its executors' folders into SPARK_HOME."""
    folder.mkdir()
    for child in Path(pyspark.__file__).parent.iterdir():
        (folder / child.name).symlink_to(child)
    return folder


@pytest.mark.pipeline
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_plan_of_the_stage_has_no_exchange(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    task = Stage(input=SegmentInput.listed(str(log), "c"), place=place(tmp_path), settings=SETTINGS, token="t")
    frame = distribute.frame(spark, task, distribute.ordered(task))
    plan = distribute.plan(frame)
    assert "MapInArrow" in plan
    assert "Exchange" not in plan
    assert "Exchange" in distribute.plan(frame.groupBy("table").count()), "the check would see one"
    assert frame.rdd.getNumPartitions() == 3


def test_duckdb_and_polars_read_every_file_as_arrow_does(plain: Path) -> None:
    for name in store.published(plain).tables:
        paths = store.files(name, plain)
        if paths:
            rows = store.read(name, plain).to_pylist()
            assert duckdb.read_parquet(paths, hive_partitioning=False).to_arrow_table().to_pylist() == rows, name
            assert pl.read_parquet(paths, hive_partitioning=False).to_dicts() == rows, name


@pytest.mark.pipeline
@pytest.mark.timeout(600)
def test_spark_reads_every_file_as_arrow_does(spark: SparkSession, plain: Path) -> None:
    for name in store.published(plain).tables:
        paths = store.files(name, plain)
        if paths:
            found = spark.read.parquet(*paths).toArrow().to_pylist()
            assert sorted(found, key=str) == sorted(store.read(name, plain).to_pylist(), key=str), name


def test_gold_made_from_bronze_is_gold_made_from_the_log(plain: Path, tmp_path: Path) -> None:
    shutil.copytree(plain, tmp_path, dirs_exist_ok=True)
    build(None, BronzeInput.published(tmp_path), tmp_path, SETTINGS)
    before, after = store.published(plain), store.published(tmp_path)
    assert [one.content for one in after.files] == [one.content for one in before.files]
    assert after.input["kind"] == "bronze"
    assert after.made_of == before.input
    assert {entry.table for entry in after.files} & set(DERIVED)


def test_every_record_is_in_bronze_and_every_commit_in_silver(plain: Path) -> None:
    records, files = store.read("records", plain), store.read("files", plain)
    assert records.num_rows == sum(files["records"].to_pylist()) > 4_000
    assert records["log_partition"].unique().to_pylist() == [0, 7, 23]
    commits = [one for one in records["topic"].to_pylist() if one is not None]
    assert store.read("commits", plain).num_rows == len(commits)
    assert store.read("quarantine", plain)["reason"].to_pylist() == ["framing"]


def test_samples_of_log_ends_are_kept_for_the_next_run(log: Path, tmp_path: Path) -> None:
    samples = log_end_table([("t", 0, logfolder.NOW_MS + 60_500, 50, 0)])
    build(None, SegmentInput.listed(str(log), "c"), tmp_path, SETTINGS, log_ends=samples)
    first = store.read("lag", tmp_path)
    assert "exact" in first["quality"].to_pylist()
    build(None, BronzeInput.published(tmp_path), tmp_path, SETTINGS)
    assert store.read("lag", tmp_path).equals(first)
    assert store.read("log_end_offsets", tmp_path).equals(samples)


def test_a_stream_appends_its_samples_and_never_has_too_many(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of before stay as they are, until there are many or rows come near to what a worker may load."""
    monkeypatch.setattr(samples_of_runs, "LOG_END_FILES_MAX", 3)
    monkeypatch.setattr(samples_of_runs, "LOG_END_SAMPLES_MAX", 8)
    monkeypatch.setattr(limits, "LOG_END_SAMPLES_MAX", 8)
    small = tmp_path / "log"
    logfolder.write(small, 3, [logfolder.commits(2, ["g"], 1)])
    counts, times = [], []
    for number in range(12):
        times.append(logfolder.NOW_MS + 60_000 * number)
        sample = log_end_table([("t", part, times[-1], 50 + number, 0) for part in range(2)])
        source = SegmentInput.listed(str(small), "c")
        known = store.published(tmp_path / "t").of("log_end_offsets") if number else ()
        build(None, source, tmp_path / "t", SETTINGS, log_ends=sample, is_appended=True, is_round=True)
        entries = store.published(tmp_path / "t").of("log_end_offsets")
        assert len(entries) == 1 or set(known) < set(entries)
        counts.append((len(entries), sum(entry.rows for entry in entries)))
        told = store.read("log_end_offsets", tmp_path / "t")["sample_timestamp_ms"].to_pylist()
        assert told.count(times[-1]) == 2, "the newest of each is there"
        assert set(told) <= set(times)
    assert max(rows for _, rows in counts) <= 8
    assert max(files for files, _ in counts) == 3
    assert counts[:4] == [(1, 2), (2, 4), (3, 6), (1, 4)]
    assert all(one.holds for one in check(tmp_path / "t"))


def test_what_fails_leaves_what_was_published(log: Path, plain: Path, tmp_path: Path) -> None:
    shutil.copytree(plain, tmp_path / "out", dirs_exist_ok=True)
    shutil.copytree(log, tmp_path / "log")
    source = SegmentInput.listed(str(tmp_path / "log"), "c")
    (tmp_path / "log" / "__consumer_offsets-0" / f"{0:020}.log").unlink()
    with pytest.raises(Exception, match="gone since it was listed"):
        build(None, source, tmp_path / "out", FoldSettings(cluster="c", stall_min_ms=1))
    assert content(tmp_path / "out") == content(plain)


def test_a_killed_run_leaves_nothing_readable(log: Path, tmp_path: Path) -> None:
    """The process dies before it publishes: its files are there, its tables are not; a second run is whole."""
    program = (
        "import os, signal, sys\n"
        "from muster_pipeline.job import build as job\n"
        "from muster_pipeline.job.inputs import SegmentInput\n"
        "from muster_pipeline.transforms.settings import FoldSettings\n"
        "job.publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "job.build(None, SegmentInput.listed(sys.argv[1], 'c'), sys.argv[2], FoldSettings(cluster='c'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(log), str(tmp_path)], check=False, capture_output=True)
    assert done.returncode == -9, done.stderr
    assert list(tmp_path.rglob("*.parquet"))
    with pytest.raises(NothingPublished):
        store.read("commits", tmp_path)
    build(None, SegmentInput.listed(str(log), "c"), tmp_path, SETTINGS)
    assert unnamed(tmp_path), "what the dead run wrote stays until it is a day old"


def test_one_writer_at_a_time(log: Path, tmp_path: Path) -> None:
    with writing(place(tmp_path), "c"), pytest.raises(StoreBusy):
        build(None, SegmentInput.listed(str(log), "c"), tmp_path, SETTINGS)


def test_a_changed_or_missing_file_is_told(plain: Path, tmp_path: Path) -> None:
    shutil.copytree(plain, tmp_path, dirs_exist_ok=True)
    assert store.damages(tmp_path) == []
    path = Path(store.files("commits", tmp_path)[0])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert store.damages(tmp_path) == [f"{path.relative_to(tmp_path)}: the content has changed"]
    path.write_bytes(data[:-1])
    with pytest.raises(DamagedStore, match="were published"):
        store.read("commits", tmp_path)
    path.unlink()
    with pytest.raises(DamagedStore, match="gone"):
        store.read("commits", tmp_path)


def test_samples_of_another_cluster_are_refused(log: Path, tmp_path: Path) -> None:
    samples = log_end_table([("t", 0, logfolder.NOW_MS, 50, 0)])
    with pytest.raises(BadInput, match="of cluster c, the run is of cluster d"):
        build(None, SegmentInput.listed(str(log), "d"), tmp_path, FoldSettings(cluster="d"), log_ends=samples)


def test_samples_of_an_earlier_release_are_beside_those_of_this_one(log: Path, tmp_path: Path) -> None:
    """A column that it did not write is null, in a worker too."""
    rows = log_end_table([("t", 0, 1_000, 7, None, True)])
    files = []
    for name, part in (("old", rows.drop_columns(["has_gaps"])), ("new", rows)):
        (tmp_path / "log_end_offsets").mkdir(exist_ok=True)
        pq.write_table(part, tmp_path / "log_end_offsets" / f"{name}.parquet")
        files.append(FileEntry(table="log_end_offsets", log_partition=-1, path=f"{name}.parquet", rows=1, bytes=1))
    stage = Stage(
        input=SegmentInput.listed(str(log), "c"), place=place(tmp_path), settings=SETTINGS, token="t",
        log_ends=LogEnds(files=tuple(files)),
    )  # fmt: skip
    found = log_ends(stage)
    assert found.have_gaps(np.array([found.number("t", 0)])).tolist() == [True]
