"""Spark data source `muster.segments`: offsets logs from folders, as any table of the decoder.

    spark.dataSource.register(SegmentsDataSource)
    spark.read.format("muster.segments").option("path", DIR).option("cluster", "prod").load()

One task per log partition, its segments in offset order (so a task's rows are ordered), or one per segment with
`split=segment`. Batch only; see `muster.offsets` for streams.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from typing_extensions import override

from muster_pipeline.schemas.spark import struct_type
from muster_pipeline.sources import outputs
from muster_pipeline.sources.folder import OFFSETS_TOPIC, SegmentFile, list_segments
from muster_pipeline.sources.options import Options

NAME: Final = "muster.segments"
KNOWN: Final = {
    "path": "folder or URI below which the log's partition folders lie",
    "cluster": "name of the cluster, for column `cluster`",
    "table": f"one of {', '.join(outputs.TABLES)} (default records)",
    "topic": f"topic of the log (default {OFFSETS_TOPIC})",
    "split": "partition (default) or segment: what one task reads",
}


class SegmentsPartition(InputPartition):
    """What one task reads."""

    def __init__(self, segments: tuple[SegmentFile, ...]) -> None:
        super().__init__(segments)
        self.segments = segments


class SegmentsDataSource(DataSource):
    """See the module."""

    @classmethod
    @override
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def _options(self) -> Options:
        return Options(NAME, self.options, KNOWN)

    @override
    def schema(self) -> StructType:
        """Of the chosen table."""
        return struct_type(outputs.TABLES[self._options().one_of("table", outputs.TABLES, "records")])

    @override
    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader; every option is checked here, on the driver."""
        options = self._options()
        return SegmentsReader(
            path=options.text("path"),
            cluster=options.text("cluster"),
            table=options.one_of("table", outputs.TABLES, "records"),
            topic=options.text("topic", OFFSETS_TOPIC),
            by_segment=options.one_of("split", ("partition", "segment"), "partition") == "segment",
        )


class SegmentsReader(DataSourceReader):
    """Lists on the driver, reads on the workers."""

    def __init__(self, *, path: str, cluster: str, table: str, topic: str, by_segment: bool) -> None:
        self.path = path
        self.cluster = cluster
        self.table = table
        self.topic = topic
        self.by_segment = by_segment

    @override
    def partitions(self) -> list[InputPartition]:
        """Raises NoLog, AmbiguousLog."""
        found = list_segments(self.path, self.topic).values()
        if self.by_segment:
            return [SegmentsPartition((one,)) for segments in found for one in segments]
        return [SegmentsPartition(segments) for segments in found]

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches of the table."""
        assert isinstance(partition, SegmentsPartition)
        wanted = outputs.columns_of(self.table)
        for one in partition.segments:
            yield from outputs.batches(self.table, one.origin(self.cluster), one.pieces(self.cluster, wanted))
