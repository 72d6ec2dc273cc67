"""What every store of tables owes to readers and writers; the tests of a store are a subclass.

The rows of a local folder, readable by others; kills of the driver in a publication; executors that share nothing but
the store; writers beside each other; what vacuum and optimize leave. A subclass brings `root`, and how others read it.
In `make test` few kills and runs are made; MUSTER_LAKE=whole (`make lake`) makes them all.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable
from muster_pipeline import store
from muster_pipeline.job import submit
from muster_pipeline.job.build import build, now_ms
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.store import exclusion, runs
from muster_pipeline.store.optimize import optimize
from muster_pipeline.store.place import place
from muster_pipeline.store.reader import Snapshot
from muster_pipeline.store.vacuum import vacuum
from muster_pipeline.tables.errors import StoreBusy
from muster_pipeline.transforms.settings import FoldSettings
from pyarrow import fs

from tests.pipeline.store import logfolder, small
from tests.pipeline.store.test_build import spark_home
from tests.pipeline.store.test_kills import BEFORE, NOW, POINTS, PROGRAM

WHOLE = os.environ.get("MUSTER_LAKE") == "whole"
COMMITS = 34 if WHOLE else 2
"""Of each of three writers."""
KILLS = list(POINTS) if WHOLE else ["when one table is committed"]
DAY_MS = 86_400_000


def built(log: Path, root: str, settings: FoldSettings) -> None:
    build(None, SegmentInput.listed(str(log), "c"), root, settings)


def content(root: str, run: int | None = None) -> dict[Any, Any]:
    """Every published byte, and what the run was made of."""
    found = store.published(root, run=run)
    return {"settings": found.settings, "input": found.input, "tables": found.tables, **published_bytes(found)}


def published_bytes(found: Snapshot) -> dict[Any, Any]:
    """Of each file, by table, log partition and place."""
    told = {}
    for entry in found.files:
        with found.place.files(entry.table).open_input_stream(entry.path) as file:
            told[entry.table, entry.log_partition, entry.number] = file.read()
    return told


def stored(root: str, folder: str = "") -> list[str]:
    """Paths of all files below a folder of the tables, published or not, as the store itself lists them."""
    found = place(root).files(folder).get_file_info(fs.FileSelector("", allow_not_found=True, recursive=True))
    return sorted(one.path for one in found if one.type == fs.FileType.File)


class LakeContract:
    """A subclass has the fixture `root`: the tables' URI, a folder of its own for each test."""

    secret: ClassVar[str] = ""
    """What no executor may tell; empty where the store has no credentials."""

    @pytest.fixture(scope="class")
    @classmethod
    def log(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        made = tmp_path_factory.mktemp("log")
        logfolder.make(made)
        return made

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """The tables in a folder of this machine."""
        found = tmp_path_factory.mktemp("local")
        built(log, str(found / "before"), BEFORE)
        built(log, str(found / "now"), NOW)
        return found

    def test_the_rows_of_a_local_folder_for_every_reader(self, log: Path, folder: Path, root: str) -> None:
        built(log, root, NOW)
        assert [path for path in stored(root) if exclusion.PROBE in path] == []
        assert content(root) == content(str(folder / "now"))
        assert store.damages(root) == []
        found = store.published(root)
        read = [name for name in found.tables if found.of(name)]
        assert len(read) >= 11
        for name in read:
            expected = sorted(map(str, store.read(name, folder / "now").to_pylist()))
            assert sorted(map(str, store.read(name, root).to_pylist())) == expected, name
            table = DeltaTable(f"{root}/{name}", version=found.versions[name])
            by_duckdb = duckdb.from_arrow(table.to_pyarrow_dataset()).to_arrow_table()
            assert sorted(map(str, by_duckdb.to_pylist())) == expected, name
            by_polars = self.scanned(f"{root}/{name}", found.versions[name]).collect()
            assert sorted(map(str, by_polars.to_dicts())) == expected, name
            assert sorted(map(str, table.to_pyarrow_table().to_pylist())) == expected, name

    def scanned(self, table: str, version: int) -> pl.LazyFrame:
        """The table as Polars reads it."""
        return pl.scan_delta(table, version=version)

    def test_three_executors_share_the_store_and_nothing_else(
        self, java: None, log: Path, folder: Path, root: str, tmp_path: Path
    ) -> None:
        """Executors have their credentials from the
        environment; a folder of this machine is not theirs to write into."""
        home = spark_home(tmp_path / "spark")
        settings = ("driver.host=127.0.0.1", "driver.bindAddress=127.0.0.1", "executor.memory=512m", "log.level=ERROR")
        command = [home / "bin" / "spark-submit", "--master", "local-cluster[3,1,1024]"]
        for setting in settings:
            command += ["--conf", f"spark.{setting}"]
        command += [submit.__file__, "--segments", log, "--tables", root, "--cluster", "c"]
        spark = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            command, env={**os.environ, **spark}, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=500
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert content(root) == content(str(folder / "now"))
        if self.secret:
            logs = [path.read_text(errors="replace") for path in (tmp_path / "spark").rglob("std*")]
            assert self.secret not in "".join([done.stdout, done.stderr, *logs])

    @pytest.mark.parametrize("point", KILLS)
    def test_a_killed_driver(self, point: str, log: Path, folder: Path, root: str) -> None:
        built(log, root, BEFORE)
        before, whole = content(str(folder / "before")), content(str(folder / "now"))
        change, is_published = POINTS[point]
        command = [sys.executable, "-c", PROGRAM.format(point=change), str(log), root]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert content(root) == (whole if is_published else before)
        assert content(root, run=1) == before, "the run before stays readable"
        built(log, root, NOW)
        assert content(root) == whole
        assert store.damages(root) == []

    @pytest.mark.timeout(1800)
    def test_two_writers_and_a_reader_that_never_sees_a_mix(self, root: str) -> None:
        """Two processes write one cluster, each tries again when it was second; a third writes another cluster. No run
        is lost, none is published on top of one that it did not know, and whatever a reader takes is one run's."""
        small.run(root, 0)
        sides = [("c", 1), ("c", 2), ("d", 1)]
        writers = [_writer(root, cluster, mark) for cluster, mark in sides]
        seen: list[str] = []
        try:
            while any(one.poll() is None for one in writers):
                found = store.published(root, "c")
                marks = small.marks(found)
                assert len(marks) == 1, f"run {found.number} is a mix of {sorted(marks)}"
                seen += marks
                if len(set(seen)) > 1 or any(one.poll() for one in writers):
                    end_inputs(writers)
        except BaseException:
            for one in writers:
                one.kill()
                one.communicate()
            raise
        told = [one.communicate() for one in writers]
        assert [one.returncode for one in writers] == [0, 0, 0], [error[-2000:] for _, error in told]
        made = [[int(word) for word in out.split()[:-1]] for out, _ in told]
        ledger = runs.load(place(root))
        assert ledger is not None
        assert [one.run for one in ledger.published("c")] == sorted([1, *made[0], *made[1]])
        assert [one.run for one in ledger.published("d")] == made[2]
        assert len({one.run for one in ledger.published()}) == 1 + sum(map(len, made))
        assert min(map(len, made)) >= COMMITS
        assert len(set(seen)) > 1, "the reader saw runs come"
        for one in ledger.published("c"):
            assert small.marks(store.published(root, "c", one.run)) == {str(one.input["mark"])}

    def test_the_second_run_of_a_cluster_publishes_nothing(self, root: str) -> None:
        first = small.run(root, 1)
        small.run(root, 2, on=first)
        with pytest.raises(StoreBusy, match="another run of cluster c has published"):
            small.run(root, 3, on=first)
        assert small.marks(store.published(root)) == {"2"}

    def test_old_files_go_and_small_ones_are_merged(self, root: str) -> None:
        now = now_ms()
        for mark in range(3):
            small.run(root, mark, now_ms=now - 9 * DAY_MS, kept_ms=1)
        assert vacuum(place(root), now, "t").expired == (1, 2)
        assert [path for path in stored(root, "commits") if path.endswith(".parquet")], (
            "those that a run may still be about to name stay for an hour"
        )
        assert small.marks(store.published(root)) == {"2"}
        _, fewer = optimize(store.published(root), now, "t2")
        assert fewer == 0
        assert small.marks(store.published(root)) == {"2"}


WRITER = """
import select, sys
from muster_pipeline.tables.errors import StoreBusy
from tests.pipeline.store import small
root, cluster, mark, commits = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
done, busy = [], 0
while len(done) < commits or not select.select([sys.stdin], [], [], 0)[0]:
    try:
        done.append(small.run(root, mark, cluster=cluster).number)
    except StoreBusy:
        busy += 1
    mark += 2
print(*done, busy)
"""
"""It goes on until its input has ended, too, so that a reader that is slow sees it at work."""


def _writer(root: str, cluster: str, mark: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, root, cluster, str(mark), str(COMMITS)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def end_inputs(writers: list[subprocess.Popen[str]]) -> None:
    for one in writers:
        if one.stdin is not None:
            one.stdin.close()
            one.stdin = None
