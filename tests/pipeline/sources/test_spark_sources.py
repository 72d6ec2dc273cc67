"""The sources inside Spark: schemas, tasks, tables, options, and a stream over a real broker's log."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.schemas.records import RECORDS
from muster_pipeline.schemas.spark import struct_type
from muster_pipeline.sources import outputs
from muster_pipeline.sources.errors import BadOption, NoLog
from muster_pipeline.sources.segments import SegmentsDataSource
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
                logs.Record(key=b"\x00\x18??", value=None),
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


def read_here(root: Path, **options: str) -> pa.Table:
    """The source's own reader without Spark around it: what every task would hand over, put together."""
    source = SegmentsDataSource({"path": str(root), "cluster": "c1", **options})
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches, outputs.TABLES[options.get("table", "records")])


def test_in_spark_records_are_the_oracles_rows_in_order_and_one_task_reads_each_partition(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Names with a leading underscore are read, all of them (Spark's own listing passes over them)."""
    written = write_log(tmp_path)
    found = load(spark, tmp_path)
    assert found.schema == struct_type(RECORDS)
    table = found.toArrow()
    assert found.rdd.getNumPartitions() == 3
    assert table.to_pylist() == [
        {name: row[name] for name in RECORDS.names}
        for (partition, base), data in sorted(written.items())
        for row in oracle.read(data, "c1", partition, base)
    ]


def test_in_spark_nested_columns_survive(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path, 1, 1)
    found = load(spark, tmp_path, table="generation_records").toArrow()
    assert found.to_pylist() == read_here(tmp_path, table="generation_records").to_pylist()
    assert found.num_rows == 1


def test_tasks_by_segment(tmp_path: Path) -> None:
    write_log(tmp_path)
    source = SegmentsDataSource({"path": str(tmp_path), "cluster": "c1", "split": "segment"})
    assert len(source.reader(source.schema()).partitions()) == 6
    assert read_here(tmp_path, split="segment").equals(read_here(tmp_path))


def test_every_table_has_its_schema_and_its_rows(tmp_path: Path) -> None:
    write_log(tmp_path)
    counts = {"records": 3 * 2 * 1503, "quarantine": 6, "files": 6, "generation_records": 6, "consumer_records": 0}
    assert set(counts) == set(outputs.TABLES)
    for table, count in counts.items():
        assert read_here(tmp_path, table=table).num_rows == count, table
    assert all(row["bytes_in"] == row["bytes_decoded"] for row in read_here(tmp_path, table="files").to_pylist())
    damage = read_here(tmp_path, table="quarantine").to_pylist()
    assert {(row["reason"], row["scope"]) for row in damage} == {("value_schema", "record")}


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"tabel": "records"}, BadOption, "unknown option 'tabel'"),
        ({"table": "nothing"}, BadOption, "table is 'nothing'; possible: records"),
        ({"split": "row"}, BadOption, "split is 'row'"),
        ({"cluster": ""}, BadOption, "'cluster' is missing: name of the cluster"),
        ({"topic": "other"}, NoLog, "no folder other-N"),
    ],
)
def test_a_wrong_option_is_told(tmp_path: Path, options: dict[str, str], error: type[Exception], text: str) -> None:
    write_log(tmp_path, 1, 1)
    with pytest.raises(error, match=text):
        read_here(tmp_path, **options)


@pytest.mark.parametrize("name", ["muster.log_end_offsets", "muster.heads"])
def test_recorded_log_end_offsets(name: str, spark: SparkSession, tmp_path: Path) -> None:
    sample = {"cluster": "c", "topic": "t", "partition": 1, "sample_timestamp_ms": 5, "end_offset": 7}
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(sample) + "\n" + json.dumps(sample | {"end_offset": None, "error": "Later"}) + "\n")
    found = spark.read.format(name).option("path", str(path)).load()
    assert found.schema == struct_type(LOG_END_OFFSETS)
    assert [(row.end_offset, row.start_offset, row.error, row.has_gaps) for row in found.collect()] == [
        (7, None, None, None),
        (None, None, "Later", None),
    ]


@pytest.mark.parametrize("name", ["muster.log_end_offsets", "muster.heads"])
def test_an_option_of_log_end_offsets_is_refused_under_the_name_that_was_asked(name: str, spark: SparkSession) -> None:
    with pytest.raises(Exception, match=f"{name}: give either bootstrap or path"):
        spark.read.format(name).load().collect()
