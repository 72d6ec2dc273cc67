"""One Spark task per log partition, without a shuffle.

`spark.range` with as many partitions as tasks gives every task its number; `mapInArrow` runs the stage on the worker.
It returns the entries of the files written (a few per task), not data. So the physical plan has no exchange, which
`plan` shows and a test asserts. Tasks are ordered by size, largest first, so that the last one to start is short.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from muster_pipeline.job.rounds import run
from muster_pipeline.job.stage import Done, Stage, attempt_name
from muster_pipeline.schemas.columns import optional, required, schema
from muster_pipeline.schemas.spark import struct_type
from muster_pipeline.store.files import FileEntry

COLUMNS: Final = (
    required("log_partition", pa.int32(), "task"),
    required("records", pa.int64(), "records read"),
    required("peak_rss_bytes", pa.int64(), "of the worker process so far, bytes"),
    optional("table", pa.string(), "of a file; null: the task wrote none"),
    optional("path", pa.string(), "relative to the table's folder"),
    optional("rows", pa.int64(), "of the file"),
    optional("bytes", pa.int64(), "of the file"),
    optional("statistics", pa.string(), "of the file, Delta's JSON"),
)
DONE: Final = schema(COLUMNS, comment="one file that a task wrote")


def ordered(stage: Stage) -> tuple[int, ...]:
    """The log partitions, largest first."""
    sizes = stage.input.sizes()
    return tuple(sorted(sizes, key=lambda number: (-sizes[number], number)))


def frame(spark: SparkSession, stage: Stage, log_partitions: Sequence[int]) -> DataFrame:
    """The lazily evaluated stage; one row of DONE for each file."""

    def tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name = task_attempt()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _rows(run(stage, log_partitions[number], name))

    numbers = spark.range(0, len(log_partitions), 1, numPartitions=max(1, len(log_partitions)))
    return numbers.mapInArrow(tasks, struct_type(DONE))


def task_attempt() -> str:
    """The name of the attempt of the task that calls it."""
    context = TaskContext.get()
    assert context is not None, "Spark calls this in a task"
    return attempt_name(context.taskAttemptId())


def plan(frame: DataFrame) -> str:
    """Spark's physical plan as text."""
    text = io.StringIO()
    with redirect_stdout(text):
        frame.explain("formatted")
    return text.getvalue()


def collect(frame: DataFrame) -> tuple[Done, ...]:
    """Run the stage. The result does not depend on the order in which tasks end."""
    return results(frame.toArrow().to_pylist())


def results(rows: Iterable[Mapping[str, Any]]) -> tuple[Done, ...]:
    """Of rows of DONE, of one cluster."""
    found: dict[int, Done] = {}
    for row in sorted(rows, key=lambda one: (one["log_partition"], one["path"] or "")):
        number = row["log_partition"]
        known = found.get(number)
        entries = () if known is None else known.files
        if row["path"] is not None:
            names = ("table", "log_partition", "path", "rows", "bytes", "statistics")
            entries = (*entries, FileEntry(**{name: row[name] for name in names}))
        found[number] = Done(
            log_partition=number, files=entries, records=row["records"], peak_rss_bytes=row["peak_rss_bytes"]
        )
    return tuple(found.values())


def _rows(done: Done) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows_of(done), schema=DONE)


def rows_of(done: Done) -> list[dict[str, Any]]:
    """A task's result as rows of DONE."""
    task = {"log_partition": done.log_partition, "records": done.records, "peak_rss_bytes": done.peak_rss_bytes}
    names = ("table", "path", "rows", "bytes", "statistics")
    rows = [{**task, **{name: getattr(entry, name) for name in names}} for entry in done.files]
    return rows or [task]
