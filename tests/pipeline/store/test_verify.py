"""Invariants hold for what the pipeline makes, and each check finds what it is for."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from muster_pipeline import store
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import BronzeInput, SegmentInput
from muster_pipeline.transforms.settings import FoldSettings
from muster_pipeline.verify.assignments import moves_counted, one_owner
from muster_pipeline.verify.bronze import bytes_conserved, offsets_once
from muster_pipeline.verify.tables import check, same_bytes, same_rows

from tests.pipeline.store import logfolder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify")
    logfolder.make(folder / "log")
    build(None, SegmentInput.listed(str(folder / "log"), "c"), folder / "out", FoldSettings(cluster="c"))
    return folder / "out"


def replaced(table: pa.Table, column: str, row: int, value: object) -> pa.Table:
    """The table with one cell changed."""
    cells = table[column].to_pylist()
    cells[row] = value
    place = table.schema.get_field_index(column)
    return table.set_column(place, table.schema.field(place), pa.array(cells, table.schema.field(place).type))


def test_tables_as_made_keep_every_invariant(root: Path) -> None:
    verdicts = check(root)
    assert [verdict.invariant for verdict in verdicts] == ["I3", "I1", "I2", "I5", "I6"]
    assert [verdict.findings for verdict in verdicts] == [()] * 5
    assert all(verdict.checked for verdict in verdicts)


def test_a_lost_byte_is_found(root: Path) -> None:
    files, quarantine = store.read("files", root), store.read("quarantine", root)
    less = replaced(files, "bytes_decoded", 0, files["bytes_decoded"][0].as_py() - 1)
    assert "bytes in" in bytes_conserved(less, quarantine).findings[0].what
    assert "by its rows" in bytes_conserved(files, quarantine.slice(0, 0)).findings[0].what
    assert "no account" in bytes_conserved(files.slice(0, 0), quarantine).findings[0].what


def test_a_lost_and_a_doubled_record_are_found(root: Path) -> None:
    tables = [store.read(name, root) for name in ("files", "quarantine")]
    records = store.read("records", root)
    assert offsets_once(records, *tables).holds
    assert not offsets_once(records.slice(1), *tables).holds
    assert not offsets_once(pa.concat_tables([records.slice(0, 3), records.slice(2)]), *tables).holds


def test_two_owners_of_a_partition_are_found(root: Path) -> None:
    assignments = store.read("assignments", root)
    twice = pa.concat_tables([assignments, replaced(assignments.slice(0, 1), "member_id", 0, "thief")])
    (finding,) = one_owner(twice).findings
    assert finding.what == "t-0 has owners a and thief"


def test_a_miscounted_move_is_found(root: Path) -> None:
    rebalances, *others = (store.read(name, root) for name in ("rebalances", "assignments", "memberships"))
    assert moves_counted(rebalances, *others).holds
    (finding,) = moves_counted(replaced(rebalances, "partitions_moved", 1, 9), *others).findings
    assert "'moved': 9" in finding.what


def test_equal_and_different_runs_are_told_apart(root: Path, tmp_path: Path) -> None:
    build(None, SegmentInput.listed(str(root.parent / "log"), "c"), tmp_path, FoldSettings(cluster="c"))
    assert same_bytes(root, tmp_path).holds
    assert same_rows(root, tmp_path).holds
    build(None, BronzeInput.published(tmp_path), tmp_path, FoldSettings(cluster="c", stall_min_ms=1))
    assert not same_bytes(root, tmp_path).holds
    assert [finding.where for finding in same_rows(root, tmp_path).findings] == ["table stalls"]


def test_reading_can_choose_columns_rows_and_log_partitions(root: Path) -> None:
    some = store.read("commits", root, columns=["group_id"], where=pc.field("group_id") == "g3", log_partitions=[23])
    assert some.column_names == ["group_id"]
    assert some.num_rows == 30 * 8
    batches = list(store.Published(root).batches("commits", ["partition", "topic"]))
    assert sum(batch.num_rows for batch in batches) == store.read("commits", root).num_rows
    assert batches[0].schema.names == ["partition", "topic"]
