"""A run over many clusters: tasks of about equal work, each cluster published by itself.

Clusters are read in waves (`job.packing`). A wave is one Spark job; its tasks fold one log partition after the other
and return entries of files, as `job.distribute`'s do. When a wave ends, each of its clusters is published with all its
log partitions, or not at all: one that cannot be read, that another run holds, or of which a log partition failed is
told and left as it was, and the others go on. Who dies in a wave has published the waves before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from muster_pipeline.job import distribute, stage
from muster_pipeline.job.build import Begun, Built, begin, complete, now_ms
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.job.packing import Load, packed, pieces_of, waves
from muster_pipeline.job.stage import Stage, attempt_name
from muster_pipeline.schemas.columns import optional, required, schema
from muster_pipeline.schemas.spark import struct_type
from muster_pipeline.sources.errors import SourceError
from muster_pipeline.store.place import Place
from muster_pipeline.store.publish import writing
from muster_pipeline.tables.errors import TablesError
from muster_pipeline.transforms.settings import FoldSettings

DONE: Final = schema(
    (
        required("cluster", pa.string(), "of the log partition"),
        *distribute.COLUMNS,
        optional("failed", pa.string(), "why the log partition has no files"),
    ),
    comment="one file that a task wrote, or a log partition that failed",
)
_FAILURES: Final = (TablesError, SourceError, OSError)
"""Of one log partition's log or tables; anything else is a bug, and ends the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one cluster."""

    cluster: str
    built: Built | None
    failed: str | None
    """Why nothing of it is published; None: it is."""


def run(
    spark: SparkSession | None,
    inputs: Mapping[str, SegmentInput],
    where: Place,
    settings: Callable[[str], FoldSettings],
    *,
    clock_ms: Callable[[], int] = now_ms,
) -> Iterator[Result]:
    """Read and publish every cluster, wave by wave. With `spark` None the tasks run in this process.

    Raises what Spark raises, and AssertionError; what was published before then stays.
    """
    sizes = {cluster: source.sizes() for cluster, source in inputs.items()}
    for names in waves(sizes):
        with ExitStack() as held:
            begun: dict[str, Begun] = {}
            for cluster in names:
                try:
                    held.enter_context(writing(where, cluster))
                    begun[cluster] = begin(inputs[cluster], where, settings(cluster))
                except (TablesError, OSError) as error:
                    yield Result(cluster=cluster, built=None, failed=str(error))
            loads = packed(pieces_of(sizes, sorted(begun)))
            rows = _rows_by_cluster(spark, {cluster: one.task for cluster, one in begun.items()}, loads)
            for cluster in sorted(begun):
                yield _published(cluster, begun[cluster], rows.get(cluster, ()), clock_ms)


def frame(spark: SparkSession, stages: Mapping[str, Stage], loads: Sequence[Load]) -> DataFrame:
    """The lazily evaluated tasks; rows of DONE."""

    def tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name = distribute.task_attempt()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist(carried_out(stages, loads[number], name), schema=DONE)

    numbers = spark.range(0, len(loads), 1, numPartitions=max(1, len(loads)))
    return numbers.mapInArrow(tasks, struct_type(DONE))


def carried_out(stages: Mapping[str, Stage], load: Load, attempt: str) -> list[dict[str, Any]]:
    """One task: rows of DONE. A log partition that fails is a row, and the others go on."""
    rows: list[dict[str, Any]] = []
    for piece in load.pieces:
        which = {"cluster": piece.cluster, "log_partition": piece.log_partition}
        try:
            done = stage.run(stages[piece.cluster], piece.log_partition, attempt)
        except _FAILURES as error:
            rows.append({**which, "records": 0, "peak_rss_bytes": 0, "failed": str(error) or type(error).__name__})
        else:
            rows += [{**which, **row} for row in distribute.rows_of(done)]
    return rows


def _rows_by_cluster(
    spark: SparkSession | None, stages: Mapping[str, Stage], loads: Sequence[Load]
) -> dict[str, list[dict[str, Any]]]:
    if spark is None or not loads:
        rows = [row for load in loads for row in carried_out(stages, load, attempt_name(0))]
    else:
        rows = frame(spark, stages, loads).toArrow().to_pylist()
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["cluster"], []).append(row)
    return found


def _published(cluster: str, begun: Begun, rows: Sequence[Mapping[str, Any]], clock_ms: Callable[[], int]) -> Result:
    failed = sorted((row["log_partition"], row["failed"]) for row in rows if row.get("failed") is not None)
    if failed:
        number, why = failed[0]
        more = f", and {len(failed) - 1} more log partitions failed" if len(failed) > 1 else ""
        return Result(cluster=cluster, built=None, failed=f"log partition {number}: {why}{more}")
    try:
        built = complete(begun, distribute.results([{"path": None, **row} for row in rows]), clock_ms)
    except (TablesError, OSError) as error:
        return Result(cluster=cluster, built=None, failed=str(error))
    return Result(cluster=cluster, built=built, failed=None)
