"""A table that was renamed goes by its old name for one release, and a folder of either release is read by both."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from muster_pipeline import store
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import BronzeInput, SegmentInput
from muster_pipeline.store.manifest import EMPTY, Manifest, decode, encode
from muster_pipeline.store.reader import Published
from muster_pipeline.tables.catalog import OLD_NAMES, TABLES, table
from muster_pipeline.tables.errors import DamagedStore
from muster_pipeline.transforms.settings import FoldSettings

from tests.pipeline.store import logfolder
from tests.pipeline.tables.generated import log_end_table

SETTINGS = FoldSettings(cluster="c")
SAMPLES = log_end_table([("t", 0, logfolder.NOW_MS + 60_500, 50, 0)])
NAMES = ("log_end_offsets", "heads")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    log = tmp_path / "log"
    logfolder.make(log)
    build(None, SegmentInput.listed(str(log), "c"), tmp_path / "tables", SETTINGS, log_ends=SAMPLES)
    return tmp_path / "tables"


def on_disk(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "manifest.json").read_text())
    return found


def stored_as(root: Path, name: str) -> None:
    """The manifest as a release writes it that calls the table so on disk."""
    body = on_disk(root)
    body["tables"][name] = body["tables"].pop("heads")
    (root / "manifest.json").write_text(json.dumps(body))


def test_the_table_is_read_by_either_name(root: Path) -> None:
    for name in NAMES:
        assert store.read(name, root).equals(SAMPLES)
        assert store.files(name, root) == store.files("log_end_offsets", root) != []
        assert pa.Table.from_batches(Published(root).batches(name, SAMPLES.column_names)).equals(SAMPLES)
        assert [entry.table for entry in store.published(root).of(name)] == ["log_end_offsets"]
        assert table(name).name == "log_end_offsets"
    assert set(TABLES) & set(NAMES) == {"log_end_offsets"}
    assert {"log_end_offsets"} == store.tables(root) & set(NAMES)


def test_an_old_name_is_none_of_a_table_of_today() -> None:
    assert OLD_NAMES == {"heads": "log_end_offsets"}
    assert not set(OLD_NAMES) & set(TABLES)
    assert set(OLD_NAMES.values()) <= set(TABLES)


def test_the_release_before_finds_the_table_where_it_looks(root: Path) -> None:
    """It knows no table but its own, and ends with a KeyError when it publishes into a manifest that names another."""
    tables = on_disk(root)["tables"]
    assert set(tables) & set(NAMES) == {"heads"}
    assert [one["path"].split("/")[:2] for one in tables["heads"]["files"]] == [["data", "heads"]]


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_the_release_before_and_of_the_next_one_goes_on(root: Path, name: str) -> None:
    stored_as(root, name)
    before = store.read("lag", root)
    assert "exact" in before["quality"].to_pylist()
    for known in NAMES:
        assert store.read(known, root).equals(SAMPLES)
    build(None, BronzeInput(root=str(root)), root, SETTINGS)
    assert store.read("lag", root).equals(before), "the samples were carried along"
    assert set(on_disk(root)["tables"]) & set(NAMES) == {"heads"}


def test_a_manifest_with_both_names_is_damaged(root: Path) -> None:
    body = on_disk(root)
    body["tables"]["log_end_offsets"] = body["tables"]["heads"]
    (root / "manifest.json").write_text(json.dumps(body))
    with pytest.raises(DamagedStore, match="table log_end_offsets twice"):
        store.read("log_end_offsets", root)


def test_files_of_a_table_are_replaced_under_either_name(root: Path) -> None:
    known = store.published(root)
    for name in NAMES:
        after: Manifest = known.with_partitions([name], [], [-1], {})
        assert after.of("log_end_offsets") == ()
        assert after.tables == known.tables


def test_a_manifest_with_a_table_that_this_release_does_not_know_is_refused_in_words() -> None:
    """A later release may have made it; what it cannot be is written again."""
    later = decode(
        encode(EMPTY).replace(b'"tables": {}', b'"tables": {"later": {"schema": "x", "rows": 0, "files": []}}')
    )
    assert later.tables == {"later"}
    with pytest.raises(DamagedStore, match="names later, of which this release does not know the columns"):
        encode(later)
