"""What is removed and what never is: pins of runs, of a stream and of readers; logs and files stay few for ever."""

import os
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable
from muster_pipeline import store
from muster_pipeline.__main__ import app
from muster_pipeline.cli.exits import Exit
from muster_pipeline.store import delta, runs, vacuum
from muster_pipeline.store.limits import KEPT_MS
from muster_pipeline.store.optimize import optimize
from muster_pipeline.store.place import place
from muster_pipeline.store.publish import publish, targets
from muster_pipeline.tables.errors import BadInput, DamagedStore, RunExpired
from typer.testing import CliRunner, Result

from tests.pipeline.store import small

DAY_MS = 86_400_000
NAMES = ("commits", "lag")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def on_disk(root: Path) -> int:
    return len(data_files(root))


def data_files(root: Path) -> list[Path]:
    return [path for name in NAMES for path in (root / name / "c").rglob("*.parquet")]


def aged(root: Path) -> None:
    """Files of three days ago, so that what no version names is removed too."""
    then = time.time_ns() - 3 * DAY_MS * 1_000_000
    for path in data_files(root):
        os.utime(path, ns=(then, then))


def test_nothing_goes_for_seven_days_and_the_newest_run_never(tmp_path: Path) -> None:
    for mark in range(4):
        small.run(tmp_path, mark, now_ms=mark * DAY_MS)
    where = place(tmp_path)
    orphan = small.write(where, "lag", 9, "c", [small.rows("lag", 1, cluster="c", log_partition=9)])
    aged(tmp_path)
    new = small.write(where, "lag", 9, "c", [small.rows("lag", 2, cluster="c", log_partition=9)])
    assert vacuum.vacuum(where, KEPT_MS - 1, "t").expired == ()
    assert not (tmp_path / "lag" / orphan[0].path).exists(), "a dead run's"
    assert (tmp_path / "lag" / new[0].path).exists(), "perhaps of a run that is about to commit it"
    assert on_disk(tmp_path) == 4 * len(NAMES) + 1
    assert [small.marks(store.published(tmp_path, run=number)) for number in (1, 2, 3, 4)] == [
        {"0"},
        {"1"},
        {"2"},
        {"3"},
    ]
    done = vacuum.vacuum(where, KEPT_MS + DAY_MS, "t")
    assert done.expired == (1, 2)
    assert on_disk(tmp_path) == 2 * len(NAMES) + 1
    with pytest.raises(
        RunExpired, match=r"run 1 of cluster c expired at 1970-01-09 .*: its files may be gone; the oldest"
    ):
        store.published(tmp_path, run=1)
    for number, mark in ((3, "2"), (4, "3")):
        assert small.marks(store.published(tmp_path, run=number)) == {mark}
    last = vacuum.vacuum(where, 1_000 * DAY_MS, "t")
    assert last.expired == (3,)
    assert small.marks(store.published(tmp_path)) == {"3"}
    assert on_disk(tmp_path) == len(NAMES) + 1
    small.run(tmp_path, 9, now_ms=1_001 * DAY_MS)
    assert small.marks(store.published(tmp_path)) == {"9"}, "the stream goes on from a run of long ago"


def test_a_lease_holds_a_run_and_only_force_breaks_it(tmp_path: Path) -> None:
    first = small.run(tmp_path, 1, kept_ms=10)
    small.run(tmp_path, 2, now_ms=5)
    where = place(tmp_path)
    assert vacuum.lease(where, 1, None, "me", 1_000, 6, "a") == 1
    assert vacuum.vacuum(where, 999, "t").expired == ()
    assert small.marks(first) == {"1"}
    with pytest.raises(BadInput, match=r"--force is needed, .* run 1 is held by me until 1970-01-01 00:00:01 UTC"):
        vacuum.vacuum(where, 900, "t", older_than_ms=0)
    with pytest.raises(BadInput, match="you does not hold run 1"):
        vacuum.release(where, 1, "you", 900, "b")
    assert vacuum.vacuum(where, 900, "t", older_than_ms=0, force=True, dry=True).expired == (1,)
    assert small.marks(first) == {"1"}, "a dry run removes nothing"
    vacuum.release(where, 1, "me", 901, "b")
    assert vacuum.vacuum(where, 902, "t").expired == (1,)
    with pytest.raises(DamagedStore, match=r"the file is gone; if run 1 is not the newest one, it may have expired"):
        small.marks(first)
    with pytest.raises(RunExpired):
        vacuum.lease(where, 1, None, "me", 2_000, 1_000, "c")
    assert small.marks(store.published(tmp_path)) == {"2"}


def test_a_run_of_another_cluster_pins_too(tmp_path: Path) -> None:
    """Its newest run is of long ago, and pins versions from before the others' runs."""
    small.run(tmp_path, 1, cluster="quiet")
    for mark in range(3):
        small.run(tmp_path, mark, now_ms=mark, kept_ms=1)
    assert vacuum.vacuum(place(tmp_path), KEPT_MS * 9, "t").expired == (2, 3)
    assert small.marks(store.published(tmp_path, "quiet")) == {"1"}
    assert small.marks(store.published(tmp_path, "c")) == {"2"}


def test_a_run_that_has_not_committed_yet_loses_nothing_to_a_vacuum(tmp_path: Path) -> None:
    """Executors wrote; meanwhile old runs are removed; the commit goes through and every file is there."""
    small.run(tmp_path, 1, kept_ms=1)
    known = small.run(tmp_path, 2, now_ms=5)
    where = place(tmp_path)
    files = small.write(where, "lag", 8, "c", [small.rows("lag", 2, cluster="c", log_partition=8)])
    assert vacuum.vacuum(where, 1_000, "t").expired == (1,)
    found = publish(small.publication(where, known, "c", 2, now_ms=1_001), targets(known, ["lag"], files, [8]))
    assert store.damages(found) == []
    assert store.read("lag", found).num_rows == 5


@pytest.mark.computes
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rounds_leave_few_files_and_a_short_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of ten seconds, each kept for a cycle of twenty, with a vacuum at its end, as a stream makes them. From
    one cycle to the next nothing grows but the rows of `runs`: so it is after twenty-four hours."""
    monkeypatch.setattr(runs, "RUNS_FILE_BYTES_MAX", 1 << 14)
    monkeypatch.setitem(delta._CONFIGURATION, "delta.checkpointInterval", "10")
    where, cycle = place(tmp_path), 20
    begin_ms = time.time_ns() // 1_000_000 - 1_200_000
    sizes = []
    for number in range(4 * cycle):
        now_ms = begin_ms + number * 10_000
        small.run(tmp_path, number, now_ms=now_ms, kept_ms=cycle * 10_000, names=("lag",))
        if number % cycle == cycle - 1:
            vacuum.vacuum(where, now_ms, f"t{number}")
            log = [path.name for path in (tmp_path / "lag" / "_delta_log").iterdir()]
            assert any(".checkpoint." in name for name in log)
            live = {name: len(DeltaTable(str(tmp_path / name)).file_uris()) for name in ("lag", "runs")}
            sizes.append((live["lag"], len(log), len(list((tmp_path / "lag" / "c").rglob("*.parquet")))))
            assert live["lag"] <= 200
            assert live["runs"] <= 8
    assert [one[0] for one in sizes] == [1] * 4
    assert sizes[3][1] <= sizes[1][1] + 10, f"the log grows: {sizes}"
    assert sizes[3][2] == sizes[1][2] <= cycle + 1, f"files stay: {sizes}"
    assert len(runs.load(where).published()) == 4 * cycle  # type: ignore[union-attr]


def test_small_files_are_merged_in_order_and_earlier_runs_stay(tmp_path: Path) -> None:
    where = place(tmp_path)
    parts = [small.rows("lag", 2, cluster="c", log_partition=7, minute_ms=number) for number in range(9)]
    files = small.write(where, "lag", 7, "c", parts)
    first = publish(small.publication(where, None, "c", 1), targets(None, ["lag"], files, [7]))
    rows = store.read("lag", first)
    found, fewer = optimize(first, 5, "t")
    assert (fewer, len(found.of("lag"))) == (8, 1)
    assert store.read("lag", tmp_path).equals(rows)
    assert store.read("lag", store.published(tmp_path, run=1)).equals(rows)
    assert found.input == first.input, "the stream's place stays"
    assert optimize(found, 6, "u") == (found, 0)


def test_the_commands(tmp_path: Path) -> None:
    root = tmp_path / "tables"
    for command in ("runs", "vacuum", "optimize", "migrate"):
        found = run(command, "--tables", root)
        assert (found.exit_code, "noth" in found.stderr) == (Exit.USAGE, True), found.output
        refused = run(command, "--tables", "ftp://h/p")
        assert (refused.exit_code, "is not supported" in refused.stderr) == (Exit.USAGE, True), refused.output
    assert not root.exists()
    small.run(root, 1, now_ms=1)
    small.run(root, 2, now_ms=2)
    leased = run("lease", "--tables", root, "--run", 1, "--holder", "me", "--hours", 1)
    assert (leased.exit_code, leased.stdout) == (0, "1\n"), leased.output
    listed = run("runs", "--tables", root).stdout.splitlines()
    assert [line.split()[:2] for line in listed] == [["run", "1"], ["run", "2"]]
    assert "held by me" in listed[0]
    files = run("files", "lag", "--tables", root, "--run", 1).stdout.splitlines()
    assert files == store.files("lag", store.published(root, run=1))
    kept = run("vacuum", "--tables", root, "--older-than-hours", 0)
    assert kept.exit_code == Exit.USAGE
    assert "run 1 is held by me" in kept.stderr
    assert run("vacuum", "--tables", root, "--older-than-hours", 0, "--force").exit_code == 0
    gone = run("files", "lag", "--tables", root, "--run", 1)
    assert (gone.exit_code, "run 1 of cluster c expired" in gone.stderr) == (Exit.USAGE, True)
    assert "expired" in run("runs", "--tables", root).stdout
    assert "no file to merge" in run("optimize", "--tables", root).stderr
    assert run("lease", "--tables", root, "--holder", "me", "--release").exit_code == Exit.USAGE
