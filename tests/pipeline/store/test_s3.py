"""Tables behind a real S3 API: the rows of a local folder, readable by others; kills of driver and server in a commit;
two writers; a store that excludes nobody; credentials.

The server is versitygw (`s3`), which keeps objects on disk and decides `If-None-Match` under a lock. In `make test` few
kills and runs are made; MUSTER_LAKE=whole (`make lake`) makes them all.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable
from muster_pipeline import store
from muster_pipeline.__main__ import app
from muster_pipeline.cli.exits import Exit
from muster_pipeline.job import submit
from muster_pipeline.job.build import build, now_ms
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.store import exclusion, runs
from muster_pipeline.store.optimize import optimize
from muster_pipeline.store.place import place
from muster_pipeline.store.vacuum import vacuum
from muster_pipeline.tables.errors import StoreBusy
from muster_pipeline.transforms.settings import FoldSettings
from typer.testing import CliRunner

from tests.pipeline.store import logfolder, s3, small
from tests.pipeline.store.test_build import spark_home
from tests.pipeline.store.test_kills import BEFORE, NOW, POINTS, PROGRAM

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]
WHOLE = os.environ.get("MUSTER_LAKE") == "whole"
COMMITS = 34 if WHOLE else 2
"""Of each of three writers."""
KILLS = list(POINTS) if WHOLE else ["when one table is committed"]
MOMENTS = [(name, is_after) for name in ("commits", "lag", "runs") for is_after in (False, True)]
CUTS = MOMENTS if WHOLE else [("runs", True)]
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.Server]:
    found = s3.Server(tmp_path_factory.mktemp("s3"))
    found.start()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def _store(server: s3.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, server.port)


def use(monkeypatch: pytest.MonkeyPatch, port: int, **changed: str) -> None:
    for name, value in s3.environment(port, **changed).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str:
    """A folder of its own for each test."""
    return f"s3a://{s3.BUCKET}/{abs(hash(request.node.nodeid)):x}/tables"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    logfolder.make(folder)
    return folder


@pytest.fixture(scope="module")
def folder(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables in a folder of this machine."""
    found = tmp_path_factory.mktemp("local")
    built(log, str(found / "before"), BEFORE)
    built(log, str(found / "now"), NOW)
    return found


def built(log: Path, root: str, settings: FoldSettings) -> None:
    build(None, SegmentInput.listed(str(log), "c"), root, settings)


def content(root: str, run: int | None = None) -> dict[Any, Any]:
    """Every published byte, and what the run was made of."""
    found = store.published(root, run=run)
    told: dict[Any, Any] = {"settings": found.settings, "input": found.input, "tables": found.tables}
    for entry in found.files:
        with found.place.files(entry.table).open_input_stream(entry.path) as file:
            told[entry.table, entry.log_partition, entry.number] = file.read()
    return told


def test_the_rows_of_a_local_folder_for_every_reader(log: Path, folder: Path, server: s3.Server, root: str) -> None:
    built(log, root, NOW)
    assert [one for one in server.root.rglob("*") if exclusion.PROBE in str(one) and one.is_file()] == []
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
        by_polars = pl.scan_delta(f"{root}/{name}", version=found.versions[name]).collect()
        assert sorted(map(str, by_polars.to_dicts())) == expected, name
        assert sorted(map(str, table.to_pyarrow_table().to_pylist())) == expected, name


def test_three_executors_share_the_store_and_nothing_else(
    java: None, log: Path, folder: Path, root: str, tmp_path: Path
) -> None:
    """Executors have their credentials from the
    environment; a folder of this machine is not theirs to write into."""
    home = spark_home(tmp_path / "spark")
    settings = ("driver.host=127.0.0.1", "driver.bindAddress=127.0.0.1", "executor.memory=512m", "log.level=ERROR")
    command = [home / "bin" / "spark-submit", "--master", "local-cluster[3,1,1024]"]
    for setting in settings:
        command += ["--conf", f"spark.{setting}"]
    command += [submit.__file__, "--segments", log, "--tables", root, "--cluster", "c"]
    done = subprocess.run(
        command,
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert content(root) == content(str(folder / "now"))
    told = [path for path in (tmp_path / "spark").rglob("std*") if s3.SECRET_KEY in path.read_text(errors="replace")]
    assert s3.SECRET_KEY not in done.stdout + done.stderr
    assert told == [], "logs of executors"


@pytest.mark.parametrize("point", KILLS)
def test_a_killed_driver(point: str, log: Path, folder: Path, root: str) -> None:
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


@pytest.mark.parametrize(("table", "is_after"), CUTS)
def test_the_server_dies_in_a_commit_and_comes_back(
    table: str, is_after: bool, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after it has stored the commit and before it says so: the driver asks again, is told that the version
    exists, and must find out that it is its own."""
    entry = f"/{table}/_delta_log/{1:020}.json" if table != "runs" else f"/{table}/_delta_log/{2:020}.json"
    with s3.fronted(tmp_path, s3.Fault(killed_at=entry, is_after=is_after)) as port:
        use(monkeypatch, port)
        assert small.run(root, 1).number == 1
        assert small.run(root, 2).number == 2
        assert len([path for path in s3.puts(tmp_path) if entry in path]) >= 2, "it was asked again"
        assert small.marks(store.published(root)) == {"2"}
        assert small.marks(store.published(root, run=1)) == {"1"}
        ledger = runs.load(place(root))
    assert ledger is not None
    assert [one.run for one in ledger.published()] == [1, 2], "each once"


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


@pytest.mark.timeout(1800)
def test_two_writers_and_a_reader_that_never_sees_a_mix(root: str) -> None:
    """Two processes write one cluster, each tries again when it was second; a third writes another cluster. No run is
    lost, none is published on top of one that it did not know, and whatever a reader takes is one run's."""
    small.run(root, 0)
    sides = [("c", 1), ("c", 2), ("d", 1)]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, root, cluster, str(mark), str(COMMITS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for cluster, mark in sides
    ]  # fmt: skip
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


def end_inputs(writers: list[subprocess.Popen[str]]) -> None:
    for one in writers:
        if one.stdin is not None:
            one.stdin.close()
            one.stdin = None


def test_the_second_run_of_a_cluster_publishes_nothing(root: str) -> None:
    first = small.run(root, 1)
    small.run(root, 2, on=first)
    with pytest.raises(StoreBusy, match="another run of cluster c has published"):
        small.run(root, 3, on=first)
    assert small.marks(store.published(root)) == {"2"}


def test_old_files_go_and_small_ones_are_merged(server: s3.Server, root: str) -> None:
    now = now_ms()
    for mark in range(3):
        small.run(root, mark, now_ms=now - 9 * DAY_MS, kept_ms=1)
    assert vacuum(place(root), now, "t").expired == (1, 2)
    files = [one for one in server.root.rglob("*.parquet") if f"/{root.split('/')[3]}/tables/commits/" in str(one)]
    assert files, "those that a run may still be about to name stay for an hour"
    assert small.marks(store.published(root)) == {"2"}
    _, fewer = optimize(store.published(root), now, "t2")
    assert fewer == 0
    assert small.marks(store.published(root)) == {"2"}


def test_a_store_that_excludes_nobody_is_refused(
    log: Path, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own answers, without the header that would let one of two writers fail."""
    exclusion.forget()
    with s3.fronted(tmp_path, s3.Fault(left_out="if-none-match")) as port:
        use(monkeypatch, port, AWS_SKIP_SIGNATURE="true")
        arguments = ["ingest", "--segments", str(log), "--tables", root, "--cluster", "c"]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == Exit.USAGE, done.output
        assert "this store lets two writers make the same version of a table" in done.output
        assert "starting Spark" not in done.output
    asked = s3.puts(tmp_path)
    assert asked, "it was tried"
    assert all(exclusion.PROBE in path for path in asked), "and nothing else written"
    exclusion.forget()


def test_no_credential_is_told(
    log: Path, server: s3.Server, root: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built(log, root, NOW)
    told = [path for path in server.root.rglob("*") if path.is_file() and s3.SECRET_KEY.encode() in path.read_bytes()]
    assert told == [], "neither in tables nor in logs of tables"
    wrong = "wrong-secret-77aa"
    use(monkeypatch, server.port, AWS_SECRET_ACCESS_KEY=wrong)
    exclusion.forget()
    for arguments in (["report"], ["ingest", "--segments", str(log), "--cluster", "c"], ["runs"], ["vacuum"]):
        done = CliRunner().invoke(app, [*arguments, "--tables", root])
        assert done.exit_code == Exit.FAILED, done.output
        assert wrong not in done.output
        assert s3.ACCESS_KEY not in done.output or "AccessKeyId" in done.output
        assert len(done.output) < 1_000
    exclusion.forget()
