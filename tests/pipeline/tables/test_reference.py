"""docs/tables.md is what the schemas say, and the schemas say enough."""

from pathlib import Path

import pyarrow as pa
import pytest
from muster_pipeline.schemas.history import is_historic
from muster_pipeline.schemas.spark import struct_type
from muster_pipeline.tables.catalog import TABLES, table
from muster_pipeline.tables.errors import UnknownTable
from muster_pipeline.tables.reference import render

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "tables.md"


def test_the_reference_is_generated_from_the_schemas() -> None:
    assert REFERENCE.read_text() == render()


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_column_has_a_comment_and_times_name_their_unit(name: str) -> None:
    for field in table(name).schema:
        comment = field.metadata[b"comment"].decode()
        assert len(comment) > 1, field.name
        if field.name.endswith("_ms"):
            assert "ms" in comment, field.name
        if field.nullable and table(name).layer == "gold":
            assert "null" in comment, f"{field.name} must say what null means"
    assert [one.name for one in struct_type(table(name).schema)] == table(name).schema.names


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("commit_rate", {"commits", "messages", "rewinds", "interval_max_ms"}),
        ("rebalances", {"generation_from", "members_in", "members_out", "partitions_moved", "partitions_kept"}),
        ("stalls", {"started_at_ms", "duration_ms", "idle_commits"}),
        ("lag", {"committed_offset"}),
        ("balance", {"generation"}),
        ("commits", {"committed_offset"}),
        ("generations", {"generation"}),
    ],
)
def test_columns_that_compaction_can_change_say_so(name: str, columns: set[str]) -> None:
    marked = {field.name for field in table(name).schema if is_historic(field.metadata[b"comment"].decode())}
    assert columns <= marked
    assert marked < set(table(name).schema.names), "not everything depends on history"


def test_an_unknown_table_is_refused_by_name() -> None:
    with pytest.raises(UnknownTable, match="no table 'comits'; there are records"):
        table("comits")


def test_no_two_tables_share_a_schema_by_accident() -> None:
    schemas: list[pa.Schema] = [one.schema for one in TABLES.values()]
    assert len({tuple(schema.names) for schema in schemas}) == len(schemas)
