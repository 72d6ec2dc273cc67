"""A log that a real Apache Kafka broker wrote decodes completely, and says what `kafka-consumer-groups` says."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from muster_pipeline import store
from muster_pipeline.decode.segment import Account
from muster_pipeline.job.build import build
from muster_pipeline.job.live import LiveInput
from muster_pipeline.job.stage import DECODERS
from muster_pipeline.schemas.records import RECORDS
from muster_pipeline.sources.cluster import LATEST, Cluster
from muster_pipeline.sources.folder import OFFSETS_TOPIC
from muster_pipeline.tables.catalog import DERIVED
from muster_pipeline.transforms.fold import PartitionFold
from muster_pipeline.transforms.log_end_offsets import LogEndSamples
from muster_pipeline.transforms.settings import FoldSettings
from pyspark.sql import DataFrame, SparkSession

from tests.kafka_broker import KafkaBroker
from tests.pipeline.golden.life import ODD_NAMES, Described, Life, live_on
from tests.pipeline.golden.log_view import LogView, check_states, read

pytestmark = [pytest.mark.pipeline, pytest.mark.java, pytest.mark.clients, pytest.mark.timeout(600)]

SETTINGS = {
    "offsets.retention.check.interval.ms": "300",
    "log.segment.bytes": "1048576",
    "log.cleaner.enable": "false",
}


@dataclass(frozen=True, kw_only=True)
class Golden:
    """The broker's answers and the log as decoded while the members were still there."""

    life: Life
    described: Described
    folder: Path
    view: LogView
    accounts: list[Account]
    damages: list[object]


def topic_names(folder: Path) -> dict[str, str]:
    """Topic id -> name, from the files that the broker keeps beside its logs."""
    found = {}
    for path in folder.glob("*/partition.metadata"):
        ids = [line.split(": ")[1] for line in path.read_text().splitlines() if line.startswith("topic_id")]
        found[ids[0]] = path.parent.name.rpartition("-")[0]
    return found


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Golden]:
    with (
        KafkaBroker(tmp_path_factory.mktemp("kafka"), SETTINGS) as broker,
        live_on(broker.bootstrap, modern=True) as (life, described),
    ):
        view, accounts, damages = read(broker.data, topic_names(broker.data))
        yield Golden(life=life, described=described, folder=broker.data, view=view, accounts=accounts, damages=damages)


def test_every_byte_is_decoded(golden: Golden) -> None:
    assert golden.damages == golden.view.damages == []
    assert all(account.bytes_decoded == account.bytes_in for account in golden.accounts)
    assert golden.view.key_types == {1, 2, 3, 5, 6, 7, 8, 16}
    assert golden.view.transactions == {0: 1, 1: 1}


def test_groups_are_those_that_kafka_lists(golden: Golden) -> None:
    assert golden.view.groups() == set(golden.described.states)
    assert golden.view.groups() == {"classic", "static", "left", "next-gen", "by-pattern", "trimmed", *ODD_NAMES}


def test_committed_offsets_of_every_group_and_partition_are_kafkas(golden: Golden) -> None:
    assert golden.view.offsets == golden.described.offsets
    assert 1000 in golden.view.offsets.values(), "the committed transaction"
    assert not {1001, 1002} & set(golden.view.offsets.values()), "the aborted and the open one"


def test_members_and_assignments_of_every_group_are_kafkas(golden: Golden) -> None:
    assert golden.view.all_members() == golden.described.members
    assert {one.instance_id for one in golden.described.members.values()} == {None, "pod-0", "i:1"}


def test_states_assignors_and_epochs_are_kafkas(golden: Golden) -> None:
    check_states(golden.view, golden.described.states)


def test_generations_are_the_coordinators(golden: Golden) -> None:
    """The tool does not print a classic group's generation, but a heartbeat is accepted with the right one only."""
    checked = 0
    for group, row in golden.view.generations.items():
        for one in row["members"]:
            who = (one["member_id"], one["instance_id"])
            assert golden.life.heartbeat(group, row["generation"], *who) == 0
            assert golden.life.heartbeat(group, row["generation"] + 1, *who) == 22
            checked += 1
    assert checked == 3


def test_the_live_log_gives_the_same_rows_as_its_files(golden: Golden, spark: SparkSession, tmp_path: Path) -> None:
    """By Fetch, in one batch and as a stream in small micro-batches over two runs of one checkpoint."""
    files = spark.read.format("muster.segments").option("path", str(golden.folder)).option("cluster", "g").load()
    options = {"bootstrap": golden.life.bootstrap, "cluster": "g", "rowsPerTrigger": "60"}
    batch = spark.read.format("muster.offsets").options(**options).load()
    stream = spark.readStream.format("muster.offsets").options(**options).load()
    expected = table_of(files.toArrow())
    assert expected.num_rows > 60
    assert table_of(batch.toArrow()) == expected
    out = str(tmp_path / "out")
    for _ in range(2):
        query = (
            stream.writeStream.format("parquet")
            .option("path", out)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None
    assert table_of(spark.read.parquet(out).toArrow()) == expected


def test_tables_made_of_sparks_micro_batches_are_those_of_a_batch(
    golden: Golden, spark: SparkSession, tmp_path: Path
) -> None:
    """`foreachBatch` over small micro-batches, two runs of one checkpoint, the fold fed with what each brought."""
    settings = FoldSettings(cluster="g")
    options = {"bootstrap": golden.life.bootstrap, "cluster": "g", "rowsPerTrigger": "13"}
    stream = spark.readStream.format("muster.offsets").options(**options).load()
    brought: dict[int, pa.Table] = {}

    def take(frame: DataFrame, number: int) -> None:
        brought[number] = frame.toArrow()

    for _ in range(2):
        query = (
            stream.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None
    assert len(brought) > 3, "several cuts"
    assert sorted(brought) == list(range(len(brought)))
    source = LiveInput.whole(golden.life.bootstrap, "g")
    ranges = {number: (start, read_to(brought, number, start)) for number, (start, _) in source.ranges.items()}
    build(None, replace(source, ranges=ranges), tmp_path / "batch", settings)
    made: dict[str, list[pa.Table]] = {name: [] for name in DERIVED}
    for log_partition in store.read("records", tmp_path / "batch")["log_partition"].unique().sort().to_pylist():
        fold = PartitionFold(log_partition, settings, LogEndSamples(None, "g"), DECODERS)
        for _, rows in sorted(brought.items()):
            mine = rows.filter(pc.equal(rows["log_partition"], log_partition)).select(RECORDS.names)
            tell(made, fold.feed(mine.cast(RECORDS)).tables)
        tell(made, fold.finish())
    for name, parts in made.items():
        expected = store.read(name, tmp_path / "batch")
        assert pa.concat_tables([expected.schema.empty_table(), *parts]).equals(expected), name
        assert name == "stalls" or expected.num_rows > 0, name


def test_nothing_is_withdrawn_that_is_there_and_groups_are_as_kafka_says(golden: Golden, tmp_path: Path) -> None:
    """Kafka's own answers to OffsetForLeaderEpoch, and its id of the topic."""
    source = LiveInput.whole(golden.life.bootstrap, "g")
    assert source.topic_id is not None
    build(None, source, tmp_path, FoldSettings(cluster="g"))
    again = LiveInput.onward(golden.life.bootstrap, "g", str(tmp_path))
    assert (again.withdrawn, again.topic_id) == ({}, source.topic_id)
    with Cluster(golden.life.bootstrap) as cluster:
        (number, *_) = cluster.partitions(OFFSETS_TOPIC)
        end = cluster.bound(OFFSETS_TOPIC, [number], LATEST)[number]
        epoch = store.read("records", tmp_path)["leader_epoch"][-1].as_py()
        asked = {number: epoch}
        assert cluster.epoch_ends(OFFSETS_TOPIC, asked)[number].end_offset >= end
        assert cluster.epoch_ends(OFFSETS_TOPIC, {number: epoch + 1_000})[number].epoch == -1
    # Groups of this release are born with epoch 2, and their first rebalance has whole history.
    rows = [row for row in store.read("rebalances", tmp_path).to_pylist() if row["group_kind"] == "consumer"]
    first = {row["group_id"]: row for row in reversed(rows)}
    assert {(row["generation_from"], row["generation_to"]) for row in first.values()} == {(None, 2)}
    assert all(row["history_complete"] and row["partitions_gained"] is not None for row in first.values())
    states = {row["group_id"]: row["group_state"] for row in store.read("expiry", tmp_path).to_pylist()}
    for group, (state, *_) in golden.described.states.items():
        if group in first and group in states:
            assert states[group] == state.lower(), group


def read_to(brought: dict[int, pa.Table], log_partition: int, start: int) -> int:
    """Where the stream stands: a broker goes on writing, and ends a transaction that nobody ends."""
    offsets = [
        rows.filter(pc.equal(rows["log_partition"], log_partition))["log_offset"].to_pylist()
        for rows in brought.values()
    ]
    return max((offset + 1 for one in offsets for offset in one), default=start)


def tell(made: dict[str, list[pa.Table]], tables: dict[str, pa.Table]) -> None:
    for name, rows in tables.items():
        made[name].append(rows)


def table_of(rows: pa.Table) -> pa.Table:
    """Sorted, without the one column that tells a file from a fetch."""
    named = rows.select([name for name in RECORDS.names if name != "segment_base"])
    return named.sort_by([("log_partition", "ascending"), ("log_offset", "ascending")]).combine_chunks()


def test_heads_are_the_log_ends(golden: Golden, spark: SparkSession) -> None:
    options = {"bootstrap": golden.life.bootstrap, "cluster": "g"}
    found = spark.read.format("muster.log_end_offsets").options(**options).load().collect()
    ends = {(row.topic, row.partition): (row.start_offset, row.end_offset, row.error) for row in found}
    counts = {("flights", 0): 33, ("flights", 1): 33, ("flights", 2): 0, ("weather", 0): 17, ("weather", 1): 17}
    assert ends == {place: (0, count, None) for place, count in counts.items()}
