"""Spark data source `muster.log_end_offsets`: log end offsets of topics, sampled live by ListOffsets or from a
recorded file.

    spark.read.format("muster.log_end_offsets").option("bootstrap", "h:9092").option("cluster", "prod").load()
    spark.read.format("muster.log_end_offsets").option("path", "samples.parquet").load()

Lag needs them, and the offsets log does not contain them. A value that the cluster did not give is null, with the error
in its own column, never 0. A live read is one sample of every partition; `sample` makes the same rows for recording.
The source also goes by its old name `muster.heads` for one release.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from typing_extensions import override

from muster_pipeline.decode.limits import SPARK_ROWS_MAX
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.schemas.spark import struct_type
from muster_pipeline.sources.cluster import EARLIEST, LATEST, MAX_TIMESTAMP, PROPERTY_PREFIX, Cluster
from muster_pipeline.sources.errors import BadOption
from muster_pipeline.sources.options import Options

NAME: Final = "muster.log_end_offsets"
OLD_NAME: Final = "muster.heads"
STORE_CONFIG: Final = "topic.store"
WITH_GAPS: Final = ("redis",)
"""Of Muster's stores of topics those in which an offset is made of a time."""
KNOWN: Final = {
    "bootstrap": "host:port,host:port of the cluster (or give path)",
    "path": "a recorded file: Parquet, or JSON lines if its name ends with .jsonl (or give bootstrap)",
    "cluster": "name of the cluster, for column `cluster`",
    "topics": "names separated by commas (default: all but internal ones)",
}


def sample(cluster: Cluster, name: str, topics: Sequence[str] | None, now_ms: Callable[[], int]) -> pa.Table:
    """One row per partition of `topics` (None: all but internal ones). Each leader gets a request for each kind of
    offset, with all its partitions; log ends last, and their time is when the last answer came. Before that one broker
    is asked where the topics are stored. Raises ClusterUnreachable, NoLog."""
    places = cluster.all_partitions(topics)
    stores = cluster.configs(list(places), STORE_CONFIG)
    starts, latest, ends = (
        cluster.list_all_offsets(places, timestamp) for timestamp in (EARLIEST, MAX_TIMESTAMP, LATEST)
    )
    taken = now_ms()
    rows = []
    for place in ((topic, number) for topic, numbers in places.items() for number in numbers):
        errors = {listed[place].error for listed in (starts, ends, latest)} - {None}
        rows.append(
            {
                "cluster": name,
                "topic": place[0],
                "partition": place[1],
                "sample_timestamp_ms": taken,
                "start_offset": starts[place].offset,
                "end_offset": ends[place].offset,
                "max_timestamp_offset": latest[place].offset,
                "max_timestamp_ms": latest[place].timestamp_ms,
                "error": ", ".join(sorted(str(error) for error in errors)) or None,
                "has_gaps": None if (told := stores[place[0]]) is None else told in WITH_GAPS,
            }
        )
    return pa.Table.from_pylist(rows, schema=LOG_END_OFFSETS)


def recorded(path: str) -> pa.Table:
    """Samples from a recorded file. Raises BadOption if the file cannot be read as one."""
    try:
        if path.endswith(".jsonl"):
            options = pj.ParseOptions(explicit_schema=LOG_END_OFFSETS, unexpected_field_behavior="error")
            return _completed(pj.read_json(path, parse_options=options))
        return _completed(pq.read_table(path))
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        raise BadOption(f"{path} is no file of log end offsets: {error}") from error


def _completed(rows: pa.Table) -> pa.Table:
    """With the column that files recorded by 0.2 do not have."""
    if "has_gaps" not in rows.column_names:
        rows = rows.append_column("has_gaps", pa.nulls(rows.num_rows, pa.bool_()))
    return rows.select(LOG_END_OFFSETS.names).cast(LOG_END_OFFSETS)


class LogEndOffsetsDataSource(DataSource):
    """See the module."""

    @classmethod
    @override
    def name(cls) -> str:
        """The format's name."""
        return NAME

    @override
    def schema(self) -> StructType:
        """Always the same."""
        return struct_type(LOG_END_OFFSETS)

    @override
    def reader(self, schema: StructType) -> DataSourceReader:
        """Checks the options."""
        properties = {
            name[len(PROPERTY_PREFIX) :]: value
            for name, value in self.options.items()
            if name.lower().startswith(PROPERTY_PREFIX)
        }
        plain = {name: value for name, value in self.options.items() if not name.lower().startswith(PROPERTY_PREFIX)}
        options = Options(self.name(), plain, KNOWN)
        if ("path" in plain) == ("bootstrap" in plain):
            raise BadOption(f"{self.name()}: give either bootstrap or path")
        if "path" in plain:
            return RecordedReader(str(Path(options.text("path")).absolute()))
        topics = [one.strip() for one in options.text("topics", ",").split(",") if one.strip()]
        return LiveReader(options.text("bootstrap"), properties, options.text("cluster"), topics or None)


class HeadsDataSource(LogEndOffsetsDataSource):
    """The same under its old name."""

    @classmethod
    @override
    def name(cls) -> str:
        """The format's old name."""
        return OLD_NAME


class RecordedReader(DataSourceReader):
    """One task: a file of samples is small."""

    def __init__(self, path: str) -> None:
        self.path = path

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The file's rows."""
        yield from recorded(self.path).to_batches(max_chunksize=SPARK_ROWS_MAX)


class LiveReader(DataSourceReader):
    """One task: one sample of all partitions."""

    def __init__(self, bootstrap: str, properties: dict[str, str], cluster: str, topics: list[str] | None) -> None:
        self.bootstrap = bootstrap
        self.properties = properties
        self.cluster = cluster
        self.topics = topics

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Asks the cluster."""
        with Cluster(self.bootstrap, self.properties) as cluster:
            rows = sample(cluster, self.cluster, self.topics, lambda: time.time_ns() // 1_000_000)
        yield from rows.to_batches(max_chunksize=SPARK_ROWS_MAX)
