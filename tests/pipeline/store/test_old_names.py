"""A table that was renamed goes by its old name for one release."""

from pathlib import Path

import pyarrow as pa
from muster_pipeline import store
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.store.publish import targets
from muster_pipeline.store.reader import Published
from muster_pipeline.tables.catalog import OLD_NAMES, TABLES, table
from muster_pipeline.transforms.settings import FoldSettings

from tests.pipeline.store import logfolder
from tests.pipeline.tables.generated import log_end_table

SAMPLES = log_end_table([("t", 0, logfolder.NOW_MS + 60_500, 50, 0)])
NAMES = ("log_end_offsets", "heads")


def test_the_table_is_read_and_replaced_by_either_name(tmp_path: Path) -> None:
    logfolder.make(tmp_path / "log")
    source, root = SegmentInput.listed(str(tmp_path / "log"), "c"), tmp_path / "tables"
    build(None, source, root, FoldSettings(cluster="c"), log_ends=SAMPLES)
    known = store.published(root)
    for name in NAMES:
        assert store.read(name, root).equals(SAMPLES)
        assert store.files(name, root) == store.files("log_end_offsets", root) != []
        assert pa.Table.from_batches(Published(root).batches(name, SAMPLES.column_names)).equals(SAMPLES)
        assert [entry.table for entry in known.of(name)] == ["log_end_offsets"]
        assert table(name).name == "log_end_offsets"
        assert targets(known, [name], [], [-1])["log_end_offsets"] == ()
    assert {"log_end_offsets"} == store.tables(root) & set(NAMES)


def test_an_old_name_is_none_of_a_table_of_today() -> None:
    assert OLD_NAMES == {"heads": "log_end_offsets"}
    assert not set(OLD_NAMES) & set(TABLES)
    assert set(OLD_NAMES.values()) <= set(TABLES)
