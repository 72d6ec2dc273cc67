"""Spark data source `muster.offsets`: the offsets log of a live cluster (Muster or Kafka) by Fetch, batch and stream.

    spark.readStream.format("muster.offsets").option("bootstrap", "h:9092").option("cluster", "prod").load()

Positions are log offsets per partition, kept in Spark's checkpoint ({"0": 1234, ...}); it uses no consumer group and
commits nothing to the cluster. One task per log partition. `rowsPerTrigger` bounds a micro-batch; it is divided over
the partitions in proportion to the offsets that each has left.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType
from typing_extensions import override

from muster_pipeline.schemas.spark import struct_type
from muster_pipeline.sources import live, outputs
from muster_pipeline.sources.cluster import EARLIEST, LATEST, PROPERTY_PREFIX, Cluster
from muster_pipeline.sources.folder import OFFSETS_TOPIC
from muster_pipeline.sources.options import Options

NAME: Final = "muster.offsets"
ROWS_PER_TRIGGER_DEFAULT: Final = 1_000_000
ROWS_PER_TRIGGER_MAX: Final = 1_000_000_000
KNOWN: Final = {
    "bootstrap": "host:port,host:port of the cluster",
    "cluster": "name of the cluster, for column `cluster`",
    "table": f"one of {', '.join(outputs.TABLES)} (default records)",
    "topic": f"topic of the log (default {OFFSETS_TOPIC})",
    "start": "earliest (default) or latest: where a new stream begins; batches always begin at the earliest",
    "gaps": "row (default): offsets deleted before they were read give a quarantine row; fail: they end the run",
    "rowsPerTrigger": f"records of one micro-batch at most (default {ROWS_PER_TRIGGER_DEFAULT})",
}

Positions = dict[str, int]
"""Log partition, as text (Spark keeps offsets as JSON), to next log offset."""


class RangePartition(InputPartition):
    """What one task reads: [start, end) of a log partition."""

    def __init__(self, log_partition: int, start: int, end: int) -> None:
        super().__init__((log_partition, start, end))
        self.log_partition = log_partition
        self.start = start
        self.end = end


class Settings:
    """The options, checked. Picklable."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.properties = {
            name[len(PROPERTY_PREFIX) :]: value
            for name, value in given.items()
            if name.lower().startswith(PROPERTY_PREFIX)
        }
        plain = {name: value for name, value in given.items() if not name.lower().startswith(PROPERTY_PREFIX)}
        options = Options(NAME, plain, KNOWN)
        self.table = options.one_of("table", outputs.TABLES, "records")
        self.bootstrap = options.text("bootstrap")
        self.cluster = options.text("cluster")
        self.topic = options.text("topic", OFFSETS_TOPIC)
        self.start = options.one_of("start", ("earliest", "latest"), "earliest")
        self.strict = options.one_of("gaps", ("row", "fail"), "row") == "fail"
        self.rows = options.number("rowsPerTrigger", ROWS_PER_TRIGGER_DEFAULT, 1, ROWS_PER_TRIGGER_MAX)

    def connect(self) -> Cluster:
        """A connection of its own."""
        return Cluster(self.bootstrap, self.properties)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A task's rows, on a worker."""
        assert isinstance(partition, RangePartition)
        where = live.origin(self.cluster, partition.log_partition)
        with self.connect() as cluster:
            found = live.pieces(
                cluster,
                self.topic,
                where,
                partition.start,
                partition.end,
                strict=self.strict,
                columns=outputs.columns_of(self.table),
            )
            yield from outputs.batches(self.table, where, found)


class OffsetsDataSource(DataSource):
    """See the module."""

    @classmethod
    @override
    def name(cls) -> str:
        """The format's name."""
        return NAME

    @override
    def schema(self) -> StructType:
        """Of the chosen table."""
        return struct_type(outputs.TABLES[Settings(self.options).table])

    @override
    def reader(self, schema: StructType) -> DataSourceReader:
        """From the log's start to its end as of now."""
        return OffsetsReader(Settings(self.options))

    @override
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Micro-batches."""
        return OffsetsStreamReader(Settings(self.options))


class OffsetsReader(DataSourceReader):
    """Everything the cluster has."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @override
    def partitions(self) -> list[InputPartition]:
        """One per log partition. Raises NoLog, ClusterUnreachable."""
        topic = self.settings.topic
        with self.settings.connect() as cluster:
            numbers = cluster.partitions(topic)
            starts, ends = cluster.bound(topic, numbers, EARLIEST), cluster.bound(topic, numbers, LATEST)
        return [RangePartition(number, starts[number], ends[number]) for number in numbers]

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches of the table."""
        return self.settings.read(partition)


class OffsetsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Positions on the driver, rows on the workers."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._target: Positions | None = None

    def _bound(self, timestamp: int) -> Positions:
        with self.settings.connect() as cluster:
            numbers = cluster.partitions(self.settings.topic)
            return {str(number): at for number, at in cluster.bound(self.settings.topic, numbers, timestamp).items()}

    @override
    def initialOffset(self) -> dict[str, Any]:
        """Where a stream without a checkpoint begins."""
        return dict(self._bound(EARLIEST if self.settings.start == "earliest" else LATEST))

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        """`rowsPerTrigger`."""
        return ReadMaxRows(self.settings.rows)

    @override
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next micro-batch goes."""
        ends = self._target if self._target is not None else self._bound(LATEST)
        if isinstance(limit, ReadMaxRows):
            return dict(admitted(start, ends, limit.max_rows))
        assert isinstance(limit, ReadAllAvailable), "Spark asks by the default limit, or for all"
        return dict(admitted(start, ends, None))

    @override
    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For the progress report: the cluster's ends."""
        return dict(self._bound(LATEST))

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        """The ends as of now are the target of the whole query."""
        self._target = self._bound(LATEST)

    @override
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One per log partition that moves; a partition that appeared begins at 0."""
        return [
            RangePartition(int(number), int(start.get(number, 0)), int(to))
            for number, to in sorted(end.items(), key=lambda entry: int(entry[0]))
            if int(to) > int(start.get(number, 0))
        ]

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches of the table."""
        return self.settings.read(partition)


def admitted(start: Mapping[str, int], ends: Mapping[str, int], rows: int | None) -> Positions:
    """Ends of the next micro-batch: all of `ends`, or at most `rows` offsets further than `start` in all.

    Shares are in proportion to the offsets left, rounded up while rows remain, so that every partition with new offsets
    advances before any advances twice. Positions never go back: a partition whose end is below its start stays.
    """
    left = {number: max(0, end - start.get(number, 0)) for number, end in ends.items()}
    total = sum(left.values())
    found = {number: start[number] for number in start} | {number: start.get(number, 0) for number in ends}
    if rows is None or total <= rows:
        return {number: at + left.get(number, 0) for number, at in found.items()}
    budget = rows
    for number in sorted(left, key=lambda one: (-left[one], int(one))):
        share = min(left[number], -(-left[number] * rows // total), budget)
        found[number] += share
        budget -= share
    return found
