"""`muster pipeline export`: a DuckDB file of one run a cluster, replaced as a whole under whoever reads it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from muster_pipeline import store
from muster_pipeline.__main__ import app
from muster_pipeline.cli import exporting
from muster_pipeline.cli.exits import Exit
from muster_pipeline.cli.querying import INSTALL
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.report import dashboard, table_dashboard
from muster_pipeline.transforms.settings import FoldSettings
from typer.testing import CliRunner, Result

from tests.pipeline.store import logfolder

TABLES = (*table_dashboard.TABLES, "runs")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cluster c as run 1 of a short log and run 2 of a longer one, cluster d as run 3."""
    root, folder = tmp_path_factory.mktemp("tables"), tmp_path_factory.mktemp("logs")
    logfolder.write(folder / "short", 3, [logfolder.commits(2, ["orders"], 2)])
    logfolder.write(folder / "long", 3, [logfolder.commits(3, ["orders"], 2)])
    logfolder.write(folder / "other", 5, [logfolder.commits(4, ["plain"], 1)])
    for name, cluster in (("short", "c"), ("long", "c"), ("other", "d")):
        build(None, SegmentInput.listed(str(folder / name), cluster), root, FoldSettings(cluster=cluster))
    return root


def export(tables: Path, file: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["export", "--tables", str(tables), "--duckdb", str(file), *options])


def rows(file: Path, statement: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(file), read_only=True) as connection:
        found: list[tuple[object, ...]] = connection.execute(statement).fetchall()
        return found


MINUTES = "SELECT cluster, group_id, count(DISTINCT minute_ms) FROM lag GROUP BY ALL ORDER BY ALL"
RUNS = "SELECT cluster, run, event FROM runs ORDER BY ALL"


def test_each_cluster_is_as_its_newest_run_published_it(tables: Path, tmp_path: Path) -> None:
    file = tmp_path / "muster.duckdb"
    done = export(tables, file)
    assert done.exit_code == 0, done.output
    assert done.stderr == f"9 tables of c (run 2), d (run 3) in {file}\n"
    assert rows(file, RUNS) == [("c", 2, "published"), ("d", 3, "published")]
    assert rows(file, MINUTES) == [("c", "orders", 3), ("d", "plain", 4)]
    assert {name for (name,) in rows(file, "SELECT table_name FROM information_schema.tables")} == set(TABLES)
    for name in table_dashboard.TABLES:
        expected = [
            tuple(row.values()) for cluster in ("c", "d")
            for row in store.read(name, store.published(tables, cluster)).to_pylist()
        ]  # fmt: skip
        assert sorted(map(repr, rows(file, f"FROM {name}"))) == sorted(map(repr, expected)), name
    (told,) = rows(file, "SELECT versions FROM runs WHERE cluster = 'c'")[0]
    assert json.loads(str(told)) == dict(store.published(tables, "c").versions)


def test_clusters_runs_and_more_tables_are_chosen(tables: Path, tmp_path: Path) -> None:
    file = tmp_path / "muster.duckdb"
    assert export(tables, file, "--cluster", "c").exit_code == 0
    assert rows(file, MINUTES) == [("c", "orders", 3)]
    assert (
        export(tables, file, "--run", "1", "--table", "heads", "--table", "commits", "--table", "runs").exit_code == 0
    )
    assert rows(file, RUNS) == [("c", 1, "published")]
    assert rows(file, MINUTES) == [("c", "orders", 2)]
    names = {name for (name,) in rows(file, "SELECT table_name FROM information_schema.tables")}
    assert names == {*TABLES, "log_end_offsets", "commits"}
    assert rows(file, "SELECT count(*) FROM commits") == [(4,)]


def test_who_reads_the_old_file_goes_on_and_the_new_one_is_later(tables: Path, tmp_path: Path) -> None:
    """Grafana's source looks at the file's time; one that came between draft and end must be seen too."""
    file = tmp_path / "muster.duckdb"
    assert export(tables, file, "--run", "1").exit_code == 0
    connection = duckdb.connect(str(file))
    before = file.stat()
    assert export(tables, file).exit_code == 0
    assert file.stat().st_ino != before.st_ino
    assert file.stat().st_mtime_ns > before.st_mtime_ns
    assert connection.execute(MINUTES).fetchall() == [("c", "orders", 2)], "still of one run"
    connection.close()
    assert rows(file, MINUTES) == [("c", "orders", 3), ("d", "plain", 4)]
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_what_somebody_wrote_into_the_old_file_is_not_taken_for_the_new_ones(tables: Path, tmp_path: Path) -> None:
    file = tmp_path / "muster.duckdb"
    assert export(tables, file).exit_code == 0
    program = (
        "import duckdb, os\n"
        f"connection = duckdb.connect({str(file)!r})\n"
        "connection.execute('CREATE TABLE mine AS SELECT 1')\n"
        "os._exit(0)  # no checkpoint: the log stays\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert Path(f"{file}.wal").exists()
    assert export(tables, file).exit_code == 0
    assert {name for (name,) in rows(file, "SELECT table_name FROM information_schema.tables")} == set(TABLES)
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_the_time_of_the_file_is_that_of_its_end(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that opened the old file while the draft was whole already looks for a later time than that."""
    file = tmp_path / "muster.duckdb"
    opened: list[int] = []
    replace = exporting.durable.sync_file

    def between(path: Path) -> None:
        replace(path)
        os.utime(path, (1, 1))
        opened.append(time.time_ns())

    monkeypatch.setattr(exporting.durable, "sync_file", between)
    assert export(tables, file).exit_code == 0
    assert file.stat().st_mtime_ns >= opened[0] - 100_000_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cluster", "nobody"), "nothing is published of cluster nobody"),
        (("--run", "9"), "there is no run 9"),
        (("--run", "1", "--cluster", "d"), "there is no run 1"),
        (("--run", "1", "--cluster", "c", "--cluster", "d"), "run 1 is of one cluster"),
        (("--table", "lags"), "no table 'lags'"),
    ],
)
def test_what_cannot_be_had_is_a_sentence_and_the_old_file_stays(
    options: tuple[str, ...], said: str, tables: Path, tmp_path: Path
) -> None:
    file = tmp_path / "muster.duckdb"
    file.write_text("old")
    done = export(tables, file, *options)
    assert (done.exit_code, said in done.stderr) == (Exit.USAGE, True), done.output
    assert done.stderr.count("\n") == 1
    assert file.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_a_folder_that_is_not_there_is_a_sentence(tables: Path, tmp_path: Path) -> None:
    done = export(tables, tmp_path / "none" / "muster.duckdb")
    assert done.exit_code == Exit.FAILED, done.output
    assert done.stderr.startswith(f"{tmp_path}/none/muster.duckdb was not written: IO Error")
    assert export(tmp_path, tmp_path / "muster.duckdb").exit_code == Exit.USAGE, "nothing is published there"


def test_without_duckdb_the_sentence_says_which_extra(tables: Path, tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['duckdb'] = None\n"
        "from muster_pipeline.__main__ import app\n"
        f"app(['export', '--duckdb', {str(tmp_path / 'f')!r}, '--tables', {str(tables)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (Exit.USAGE, "")
    assert done.stderr == f"muster pipeline export needs the package duckdb, which is not installed: {INSTALL}\n"


def test_both_dashboards_are_printed() -> None:
    for options, board in (((), dashboard), (("--sql",), table_dashboard)):
        done = CliRunner().invoke(app, ["dashboard", *options])
        assert (done.exit_code, done.stdout) == (0, board.text())
