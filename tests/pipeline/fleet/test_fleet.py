"""Ten thousand groups, both protocols, transactions, tombstones, flipped bits, torn tails: three readers agree.

The product's tables are compared with readers that go record by record (`tests.pipeline.oracle`, `tables.oracle`,
`fleet.reader`, `fleet.groups`) and with DuckDB's statements (`fleet.sql`), row by row, in the tables' order.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from muster_pipeline import store
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.tables.catalog import TABLES
from muster_pipeline.transforms.settings import FoldSettings

from tests.pipeline import oracle as bytes_oracle
from tests.pipeline.fleet import damaged, lives, sql
from tests.pipeline.fleet.groups import Gold, expiry
from tests.pipeline.fleet.reader import Silver
from tests.pipeline.tables import burrow, oracle
from tests.pipeline.tables.generated import log_end_table

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(600)]
GROUPS = 10_000
CLUSTER = "c"
HOURS_MS = 2 * 3_600_000
ORACLES = (
    "oracle.py",
    "logs.py",
    "tables/oracle.py",
    "tables/burrow.py",
    "fleet/reader.py",
    "fleet/groups.py",
    "fleet/sql.py",
)

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The log's files and sound rows by log partition, and the tables the product made."""

    files: dict[int, list[damaged.File]]
    rows: dict[int, list[Row]]
    samples: list[tuple[str, int, int, int, int | None]]
    clocks: dict[int, oracle.Clock]
    root: Path

    def made(self, name: str, log_partition: int | None = None) -> pa.Table:
        table = store.read(name, self.root)
        return table if log_partition is None else table.filter(pc.equal(table["log_partition"], log_partition))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = tmp_path_factory.mktemp("fleet")
    files, rows = {}, {}
    for number in range(lives.PARTITIONS):
        batches = lives.batches(GROUPS, number)
        files[number] = damaged.write(folder / f"__consumer_offsets-{number}", batches, number)
        rows[number] = [
            row for file in files[number] for row in bytes_oracle.read(file.sound, CLUSTER, number, file.base)
        ]
    samples = lives.samples(lives.START_MS + HOURS_MS)
    settings = FoldSettings(cluster=CLUSTER, stall_min_ms=sql.STALL_MIN_MS, offsets_retention_ms=sql.RETENTION_MS)
    root = folder / "tables"
    build(None, SegmentInput.listed(str(folder), CLUSTER), root, settings, log_end_table(samples))
    clocks = {number: oracle.Clock(found) for number, found in rows.items()}
    return Fleet(files=files, rows=rows, samples=samples, clocks=clocks, root=root)


@pytest.fixture(scope="module")
def warehouse(fleet: Fleet) -> Iterator[sql.Warehouse]:
    names = ("records", "log_end_offsets", "generations", "memberships", "assignments")
    rows = [
        {"log_partition": number, "log_offset": row["log_offset"], "clock_ms": at}
        for number, found in fleet.rows.items()
        for row, at in zip(found, fleet.clocks[number].at, strict=True)
    ]
    clock = pa.Table.from_pylist(rows)
    found = sql.Warehouse({name: store.files(name, fleet.root) for name in names}, CLUSTER, clock)
    yield found
    found.close()


def assert_same(made: pa.Table, expected: pa.Table) -> None:
    if made.equals(expected):
        return
    assert made.num_rows == expected.num_rows
    for number, (one, other) in enumerate(zip(made.to_pylist(), expected.to_pylist(), strict=True)):
        assert one == other, f"row {number}"


def assert_told(made: pa.Table, expected: list[Row]) -> None:
    """The columns that the oracle tells; null and a column it does not tell are different things."""
    schema = pa.schema([field for field in made.schema if field.name in expected[0]])
    assert_same(made.select(schema.names), pa.Table.from_pylist(expected, schema=schema))


def test_no_oracle_knows_the_product() -> None:
    for name in ORACLES:
        tree = ast.parse((Path(__file__).parents[1] / name).read_text())
        found = {one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
        found |= {alias.name for one in ast.walk(tree) if isinstance(one, ast.Import) for alias in one.names}
        assert not {one for one in found if one.startswith("muster")}, name


def test_the_log_is_what_it_is_said_to_be(fleet: Fleet) -> None:
    """Otherwise agreement would say little."""
    rows = [row for found in fleet.rows.values() for row in found]
    assert len({row["group_id"] for row in rows} - {None}) > GROUPS * 0.99
    kinds = {*range(1, 9), *range(10, 16), 17, *range(19, 25), 1000, 1001}
    assert {row["key_type"] for row in rows} == {None, *kinds}
    assert {row["control_type"] for row in rows} == {None, 0, 1}
    for kind in (1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 17, 19, 20, 21, 22, 23, 1000):
        assert any(row["key_type"] == kind and row["is_tombstone"] for row in rows), kind
    outcomes = set(fleet.made("commits")["outcome"].to_pylist())
    assert outcomes == {
        *("committed", "tombstone", "txn_committed", "txn_superseded", "txn_replaced", "txn_aborted", "txn_removed"),
        "txn_open",
    }
    assert set(fleet.made("rebalances")["group_kind"].to_pylist()) == {"classic", "consumer", "share", "streams"}
    assert all(clock.wrong and clock.raised and clock.behind for clock in fleet.clocks.values())
    states = {
        "stable",
        "empty",
        "assigning",
        "reconciling",
        "not_ready",
        "preparing",
        "completing",
        "simple",
        "unknown",
    }
    assert set(fleet.made("expiry")["group_state"].to_pylist()) >= states - {"preparing", "completing"}
    assert set(fleet.made("lag")["quality"].to_pylist()) == {"exact", "interpolated", "lower_bound", "unknown"}
    assert set(fleet.made("stalls")["ended_by"].to_pylist()) == {"advance", "rewind", "removal", "log_end"}
    assert fleet.made("expiry").num_rows > GROUPS


def test_every_byte_is_decoded_quarantined_or_pending(fleet: Fleet) -> None:
    accounts = {(row["log_partition"], row["segment_base"]): row for row in fleet.made("files").to_pylist()}
    for number, files in fleet.files.items():
        for file in files:
            told = accounts[number, file.base]
            assert told["bytes_in"] == file.size
            assert told["bytes_quarantined"] == file.quarantined > 0
            assert told["bytes_pending"] == file.pending
            assert told["bytes_decoded"] == file.size - file.quarantined - file.pending == len(file.sound)
    assert sum(file.pending > 0 for files in fleet.files.values() for file in files) == lives.PARTITIONS


@pytest.mark.parametrize("number", range(lives.PARTITIONS))
def test_bronze_and_silver_are_what_a_plain_reader_says(fleet: Fleet, number: int) -> None:
    rows = fleet.rows[number]
    names = TABLES["records"].schema.names
    assert_told(fleet.made("records", number), [{name: row[name] for name in names} for row in rows])
    silver = Silver(rows)
    assert_told(fleet.made("generations", number), silver.generations)
    assert_told(fleet.made("memberships", number), silver.memberships)
    assert_told(fleet.made("assignments", number), silver.assignments)


@pytest.mark.parametrize("number", range(lives.PARTITIONS))
def test_gold_is_what_a_plain_reader_says(fleet: Fleet, number: int) -> None:
    rows = fleet.rows[number]
    groups = Gold(Silver(rows), fleet.clocks[number].wrong)
    assert_told(fleet.made("rebalances", number), groups.rebalances)
    assert_told(fleet.made("balance", number), groups.balance)
    commits, log_ends = oracle.Commits(rows), oracle.LogEnds(fleet.samples)
    assert_told(fleet.made("commits", number), commits.rows)
    assert_told(fleet.made("commit_rate", number), oracle.rate(rows, commits))
    assert_told(fleet.made("lag", number), oracle.lag(rows, commits, log_ends))
    offsets = expiry(rows, commits, groups, sql.RETENTION_MS)
    assert_told(fleet.made("expiry", number), offsets)
    assert_told(fleet.made("partition_status", number), burrow.statuses(offsets, commits, log_ends))
    assert_told(fleet.made("stalls", number), oracle.stalls(rows, commits, log_ends, sql.STALL_MIN_MS))


@pytest.mark.parametrize("name", sql.STATEMENTS)
def test_duckdb_says_the_same(fleet: Fleet, warehouse: sql.Warehouse, name: str) -> None:
    made = fleet.made(name)
    if name in ("rebalances", "balance"):
        made = made.filter(pc.equal(made["group_kind"], "classic"))
    left_out = sql.LEFT_OUT.get(name, frozenset())
    schema = pa.schema([field for field in made.schema if field.name not in left_out])
    assert made.num_rows > 1_000
    expected = warehouse.table(name, schema)
    assert made.num_rows == expected.num_rows
    known = pa.array([told_by_sql(fleet, name, row) for row in made.to_pylist()])
    assert pc.sum(known).as_py() > 0.8 * made.num_rows
    assert_same(made.select(schema.names).filter(known), expected.filter(known))


def told_by_sql(fleet: Fleet, name: str, row: Row) -> bool:
    """Rows that wrong clocks touch, and the states of groups that a server assigns, are the plain reader's alone."""
    wrong = fleet.clocks[row["log_partition"]].wrong
    places = {
        "rebalances": ("ended_log_offset",),
        "balance": ("log_offset",),
        "stalls": ("started_log_offset", "ended_log_offset"),
    }
    if name == "expiry":
        return row["group_kind"] in ("classic", "simple") or (
            row["group_state"] in ("stable", "empty") and (row["group_kind"] == "consumer")
        )
    if name == "lag":
        return bool(row["detail"] != "clock")
    return not any(row[place] in wrong for place in places.get(name, ()))


def test_what_is_wrong_with_clocks_is_a_finding(fleet: Fleet) -> None:
    for number, clock in fleet.clocks.items():
        table = fleet.made("quarantine", number)
        found = table.filter(pc.equal(table["reason"], "clock")).to_pylist()
        assert {row["scope"] for row in found} == {"finding"}
        assert {row["first_offset"] for row in found} <= clock.wrong.keys()
        assert {row["last_offset"] for row in found} <= clock.wrong.keys()
        assert sum("ahead of" in row["detail"] for row in found) == len(clock.raised)
        assert sum("behind" in row["detail"] for row in found) == len(found) - len(clock.raised) > 0


def test_records_of_types_that_are_not_known_are_findings(fleet: Fleet) -> None:
    for number, rows in fleet.rows.items():
        table = fleet.made("quarantine", number)
        found = table.filter(pc.equal(table["reason"], "unknown_type"))
        assert found["first_offset"].to_pylist() == [row["log_offset"] for row in rows if row["key_type"] == 24]
        assert found.num_rows > 100
