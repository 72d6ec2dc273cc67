"""A folder that release 0.1 wrote becomes Delta tables with the same rows, wherever the migration dies."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from muster_pipeline import store
from muster_pipeline.__main__ import app
from muster_pipeline.cli.exits import Exit
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import BronzeInput
from muster_pipeline.store import delta
from muster_pipeline.store.migrate import migrate
from muster_pipeline.store.place import place
from muster_pipeline.tables.errors import BadInput, DamagedStore, NothingPublished, OldFolder
from muster_pipeline.transforms.settings import FoldSettings
from muster_pipeline.verify.tables import check
from typer.testing import CliRunner

from tests.pipeline.store import logfolder
from tests.pipeline.store.test_build import content
from tests.releases.packed import unpack

PACKED = Path(__file__).parents[2] / "releases" / "7d8ab59" / "pipeline.tar.xz"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    unpack(PACKED, folder)
    return folder / "tables"


@pytest.fixture
def old(packed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(packed, tmp_path / "tables"))


def test_rows_and_the_streams_place_are_those_of_the_old_folder(old: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    logfolder.make(log)
    told = json.loads((old / "manifest.json").read_text())
    with pytest.raises(OldFolder, match="muster pipeline migrate"):
        store.read("commits", old)
    cluster = told["run"]["settings"]["cluster"]
    for command in (["ingest", "--segments", str(log)], ["stream", "--bootstrap", "127.0.0.1:1"]):
        said = CliRunner().invoke(app, [*command, "--tables", str(old), "--cluster", cluster])
        assert (said.exit_code, "muster pipeline migrate" in said.stderr) == (Exit.USAGE, True), said.output
        assert "Spark" not in said.stderr
    found = migrate(place(old), 1, "t")
    assert (dict(found.settings), dict(found.input)) == (told["run"]["settings"], told["run"]["input"])
    assert found.input["ends"]
    counted = 0
    for stored_as, table in told["tables"].items():
        name = "log_end_offsets" if stored_as == "heads" else stored_as
        parts = [pq.read_table(old / one["path"], partitioning=None) for one in table["files"]]
        rows = store.read(name, old)
        counted += rows.num_rows
        known = pa.concat_tables(parts).column_names if parts else rows.column_names
        assert rows.select(known).to_pylist() == (pa.concat_tables(parts).to_pylist() if parts else []), name
        later = rows.drop_columns(known)
        assert all(column.null_count == rows.num_rows for column in later.columns), f"{name}: columns that came later"
    assert counted > 100
    assert all(one.holds for one in check(old))
    again = build(None, BronzeInput.published(old), old, FoldSettings(**told["run"]["settings"]))
    assert again.snapshot.made_of == found.input
    with pytest.raises(NothingPublished, match="nothing to migrate"):
        migrate(place(old), 2, "u")


class Dies(BaseException):
    pass


@pytest.mark.parametrize("at", ["files checked", "tables committed", "published"])
def test_a_migration_that_dies_is_run_again(
    at: str, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Path(shutil.copytree(old, tmp_path / "whole"))
    migrate(place(whole), 1, "t")

    def dies(what: str) -> None:
        if what == at:
            raise Dies

    with monkeypatch.context() as patched:
        patched.setattr(delta, "step", dies)
        with pytest.raises(Dies):
            migrate(place(old), 1, "t")
    migrate(place(old), 2, "u")
    assert content(old) == content(whole)
    assert not (old / "manifest.json").exists()


def test_what_cannot_be_migrated_is_said(old: Path, tmp_path: Path) -> None:
    with pytest.raises(NothingPublished, match="nothing to migrate"):
        migrate(place(tmp_path), 1, "t")
    with pytest.raises(BadInput, match="of this machine"):
        migrate(place("s3a://bucket/tables"), 1, "t")
    file = next((old / "data" / "commits").rglob("*.parquet"))
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    with pytest.raises(DamagedStore, match=r"cannot be read|were published"):
        migrate(place(old), 1, "t")
    file.write_bytes(data)
    manifest = old / "manifest.json"
    text = manifest.read_text()
    for wrong in ("{", '{"format": 2, "run": {"settings": {"cluster": "c"}}, "tables": {}}', "[]"):
        manifest.write_text(wrong)
        with pytest.raises(DamagedStore):
            migrate(place(old), 1, "t")
    manifest.write_text(text.replace('"commits": {', '"later": {', 1))
    with pytest.raises(BadInput, match="has table later"):
        migrate(place(old), 1, "t")
    assert not (old / "runs").exists(), "nothing was published"
