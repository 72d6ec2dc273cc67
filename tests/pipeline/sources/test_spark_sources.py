"""The sources inside Spark: schemas, tasks, tables, options, and a stream over a real broker's log."""

import json
from pathlib import Path

import pytest
from muster_pipeline.schemas.heads import HEADS
from muster_pipeline.schemas.records import RECORDS
from muster_pipeline.schemas.spark import struct_type
from muster_pipeline.sources import outputs
from muster_pipeline.sources.folder import list_segments
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline import logs, oracle

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(600)]


def write_log(root: Path, partitions: int = 3, segments: int = 2) -> dict[tuple[int, int], bytes]:
    """Segments with commits, a group's generations and unknown kinds; returns (partition, base) -> bytes."""
    written = {}
    for partition in range(partitions):
        folder = root / f"__consumer_offsets-{partition}"
        folder.mkdir(parents=True)
        base = 0
        for number in range(segments):
            batches = [
                logs.Batch(
                    records=[logs.commit(f"g{partition}", "t", k, n) for k in range(5)], codec=n % 5, timestamp_ms=n + 1
                )
                for n in range(300)
            ]
            empty = bytes.fromhex("00030008636f6e73756d657200000002ffffffff0000018bcfe5680000000000")
            others = [
                logs.Record(key=b"\x00\x02\x00\x01g", value=empty),
                logs.Record(key=b"\x00\x02\x00\x01h", value=b"\x00\x09"),
                logs.Record(key=b"\x00\x09??", value=None),
            ]
            batches.append(logs.Batch(records=others))
            data = logs.log_of(batches, base)
            written[partition, base] = data
            (folder / f"{base:020d}.log").write_bytes(data)
            base += 1503 + number
    return written


def load(spark: SparkSession, root: Path, **options: str) -> DataFrame:
    reader = spark.read.format("muster.segments").option("path", str(root)).option("cluster", "c1")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


@pytest.mark.parametrize("split", ["partition", "segment"])
def test_records_are_the_oracles_rows_in_order_and_one_task_reads_each_part(
    spark: SparkSession, tmp_path: Path, split: str
) -> None:
    written = write_log(tmp_path)
    found = load(spark, tmp_path, split=split)
    assert found.schema == struct_type(RECORDS)
    assert found.rdd.getNumPartitions() == (3 if split == "partition" else 6)
    rows = [
        {name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.asDict().items()}
        for row in found.collect()
    ]
    expected = [
        {name: row[name] for name in RECORDS.names}
        for (partition, base), data in sorted(written.items())
        for row in oracle.read(data, "c1", partition, base)
    ]
    assert rows == expected


def test_every_table_has_its_schema_and_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path)
    counts = {"records": 3 * 2 * 1503, "quarantine": 6, "files": 6, "generation_records": 6, "consumer_records": 0}
    assert set(counts) == set(outputs.TABLES)
    for table, count in counts.items():
        found = load(spark, tmp_path, table=table)
        assert found.schema == struct_type(outputs.TABLES[table])
        assert found.count() == count, table
    account = load(spark, tmp_path, table="files").collect()
    assert all(row.bytes_in == row.bytes_decoded for row in account)
    damage = load(spark, tmp_path, table="quarantine").collect()
    assert {(row.reason, row.scope) for row in damage} == {("value_schema", "record")}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tabel": "records"}, "unknown option 'tabel'"),
        ({"table": "nothing"}, "table is 'nothing'; possible: records"),
        ({"split": "row"}, "split is 'row'"),
        ({"topic": "other"}, "no folder other-N"),
    ],
)
def test_a_wrong_option_is_told(spark: SparkSession, tmp_path: Path, options: dict[str, str], text: str) -> None:
    write_log(tmp_path, 1, 1)
    with pytest.raises(Exception, match=text):
        load(spark, tmp_path, **options).count()


def test_recorded_heads(spark: SparkSession, tmp_path: Path) -> None:
    sample = {"cluster": "c", "topic": "t", "partition": 1, "sample_timestamp_ms": 5, "end_offset": 7}
    path = tmp_path / "heads.jsonl"
    path.write_text(json.dumps(sample) + "\n" + json.dumps(sample | {"end_offset": None, "error": "Later"}) + "\n")
    found = spark.read.format("muster.heads").option("path", str(path)).load()
    assert found.schema == struct_type(HEADS)
    assert [(row.end_offset, row.start_offset, row.error) for row in found.collect()] == [
        (7, None, None),
        (None, None, "Later"),
    ]


def test_the_log_of_a_listing_is_what_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    """Names with a leading underscore are read, all of them (Spark's own listing passes over them)."""
    write_log(tmp_path, 4, 1)
    seen = {row.log_partition for row in load(spark, tmp_path).select("log_partition").distinct().collect()}
    assert seen == set(list_segments(str(tmp_path))) == {0, 1, 2, 3}
