"""A run over many clusters: the tables that each would have by itself, whatever its neighbours' logs are like."""

import json
import shutil
from pathlib import Path

import pytest
from muster_pipeline import store
from muster_pipeline.__main__ import app
from muster_pipeline.cli.exits import Exit
from muster_pipeline.job import fleet, packing
from muster_pipeline.job.build import build
from muster_pipeline.job.fleet_file import listed, named
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.store.place import place
from muster_pipeline.store.publish import writing
from muster_pipeline.transforms.settings import FoldSettings
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.pipeline.store import logfolder

NAMES = ("eu", "us", "small", "ü/x")
Content = dict[tuple[str, int, int], bytes]


def settings(cluster: str) -> FoldSettings:
    return FoldSettings(cluster=cluster)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two logs with everything in them, two of one log partition; and the file that names them."""
    root = tmp_path_factory.mktemp("logs")
    logfolder.make(root / "0")
    shutil.copytree(root / "0", root / "1")
    for number in (2, 3):
        logfolder.write(root / str(number), 4, [logfolder.commits(number, ["g"], 2)])
    rows = [{"cluster": name, "segments": str(root / str(at))} for at, name in enumerate(NAMES)]
    (root / "fleet.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return root


@pytest.fixture(scope="module")
def alone(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Content]:
    """What each cluster's own run publishes."""
    root = tmp_path_factory.mktemp("alone")
    for at, name in enumerate(NAMES):
        build(None, SegmentInput.listed(str(logs / str(at)), name), root, settings(name))
    return {name: content(root, name) for name in NAMES}


def content(root: Path, cluster: str) -> Content:
    """Every published byte of a cluster."""
    return {
        (entry.table, entry.log_partition, entry.number): (root / entry.table / entry.path).read_bytes()
        for entry in store.published(root, cluster).files
    }


def ran(spark: SparkSession | None, file: Path, root: Path) -> dict[str, str | None]:
    """Cluster -> why it failed."""
    found = listed(named(str(file)))
    told = {one.cluster: one.failed for one in fleet.run(spark, found.inputs, place(root), settings)}
    return {**found.failed, **told}


def test_each_cluster_has_the_bytes_of_its_own_run(
    logs: Path, alone: dict[str, Content], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In waves of two clusters, and in tasks that hold log partitions of both."""
    monkeypatch.setattr(packing, "WAVE_CLUSTERS_MAX", 2)
    assert ran(None, logs / "fleet.jsonl", tmp_path) == dict.fromkeys(NAMES)
    assert {name: content(tmp_path, name) for name in NAMES} == alone
    assert ran(None, logs / "fleet.jsonl", tmp_path) == dict.fromkeys(NAMES), "a re-run"
    assert {name: content(tmp_path, name) for name in NAMES} == alone
    assert [store.damages(store.published(tmp_path, name)) for name in NAMES] == [[]] * len(NAMES)


def test_what_fails_of_one_cluster_leaves_the_others_and_what_it_had(
    logs: Path, alone: dict[str, Content], tmp_path: Path
) -> None:
    """A folder that is not there, one that another run holds, a file that is cut between its listing and its task."""
    copied, out = tmp_path / "logs", tmp_path / "out"
    shutil.copytree(logs, copied)
    rows = [{"cluster": name, "segments": str(copied / str(at))} for at, name in enumerate(NAMES)]
    rows.append({"cluster": "gone", "segments": str(tmp_path / "nowhere")})
    file = tmp_path / "fleet.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    build(None, SegmentInput.listed(str(logs / "0"), "eu"), out, settings("eu"))
    found = listed(named(str(file)))
    cut = max((copied / "0").rglob("*.log"), key=lambda path: path.stat().st_size)
    with cut.open("r+b") as log:
        log.truncate(cut.stat().st_size - 1)
    with writing(place(out), "us"):
        told = {one.cluster: one.failed for one in fleet.run(None, found.inputs, place(out), settings)}
    assert "is no folder" in found.failed["gone"]
    assert told["eu"] is not None
    assert "run again, or read a copy" in told["eu"]
    assert told["us"] is not None
    assert "another run of cluster us writes" in told["us"]
    assert {name: content(out, name) for name in ("eu", "small", "ü/x")} == {
        name: alone[name] for name in ("eu", "small", "ü/x")
    }
    assert store.published(out, "eu").number == 1, "as it was before"


def test_sizes_can_only_be_planned(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "fleet.jsonl"
    file.write_text('{"cluster": "c", "log_partitions": {"0": 1}}')
    done = CliRunner().invoke(app, ["fleet", "--clusters", str(file), "--tables", str(tmp_path / "out")])
    assert done.exit_code == Exit.USAGE, done.output
    assert "cluster c has sizes and no `segments`: that can only be planned (--dry-run)" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_plan_of_folders_is_what_would_be_read(logs: Path, tmp_path: Path) -> None:
    given = ["fleet", "--clusters", str(logs / "fleet.jsonl"), "--tables", str(tmp_path / "out"), "--dry-run", "--json"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["clusters"], told["logPartitions"], told["tasks"]["count"]) == (4, 8, 1)
    assert told["bytes"] == sum(path.stat().st_size for path in logs.rglob("*.log"))


@pytest.mark.pipeline
@pytest.mark.timeout(600)
def test_sparks_tasks_give_the_same_bytes(
    spark: SparkSession, logs: Path, alone: dict[str, Content], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three tasks of several log partitions each; a log partition that fails is told and ends no task."""
    monkeypatch.setattr(packing, "TASK_BYTES", packing.TASK_AS_BYTES * 3)
    out = tmp_path / "out"
    found = listed(named(str(logs / "fleet.jsonl")))
    loads = packing.packed(packing.pieces_of(found.sizes, sorted(found.sizes)))
    assert [len(load.pieces) for load in loads] == [3, 3, 2]
    gone = SegmentInput.listed(str(logs / "0"), "gone")
    for number, files in gone.segments.items():
        if number == 7:
            object.__setattr__(files[0], "path", files[0].path + ".gone")
    told = {one.cluster: one.failed for one in fleet.run(spark, {**found.inputs, "gone": gone}, place(out), settings)}
    failed = told.pop("gone")
    assert failed is not None
    assert failed.startswith("log partition 7: ")
    assert told == dict.fromkeys(NAMES)
    assert {name: content(out, name) for name in NAMES} == alone
