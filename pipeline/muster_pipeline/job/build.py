"""A whole run on the driver: log end offsets, tasks, publication. With `spark` None the tasks run in this process."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from muster_pipeline.job import distribute, stage
from muster_pipeline.job.inputs import Input
from muster_pipeline.job.stage import Done, Stage
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.store import manifest as manifests
from muster_pipeline.store.keeping import writing
from muster_pipeline.store.limits import NO_LOG_PARTITION
from muster_pipeline.store.manifest import EMPTY, FileEntry, Manifest
from muster_pipeline.store.writer import TableWriter
from muster_pipeline.tables.errors import BadInput, NothingPublished
from muster_pipeline.transforms.settings import FoldSettings

_LOG_END_OFFSETS: Final = "log_end_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a run published."""

    manifest: Manifest
    records: int
    log_partitions: tuple[int, ...]
    worker_rss_bytes_max: int


def build(
    spark: SparkSession | None,
    source: Input,
    root: Path | str,
    settings: FoldSettings,
    log_ends: pa.Table | None = None,
) -> Built:
    """Make every table of every log partition of `source` and publish them together.

    `log_ends` (schema LOG_END_OFFSETS) replaces the published samples; None keeps them. Log partitions that the source
    lacks stay as published. Raises TablesError, OSError; the tables published before are unchanged then.
    """
    base = Path(root)
    with writing(base):
        before = _published(base)
        log_end_files = _log_ends(base, before, log_ends)
        task = Stage(
            input=source,
            root=str(base.resolve()),
            settings=settings,
            log_end_files=tuple(entry.path for entry in log_end_files),
        )
        numbers = distribute.ordered(task)
        done = _run(spark, task, numbers)
        if {one.log_partition for one in done} != set(numbers):
            raise AssertionError(f"{len(numbers)} log partitions have tasks, {len(done)} have results")
        made = [entry for one in done for entry in one.files]
        run = {"settings": asdict(settings), "input": dict(source.describe())}
        after = before.with_partitions(task.tables(), made, numbers, run)
        after = after.with_partitions([_LOG_END_OFFSETS], log_end_files, [NO_LOG_PARTITION], {})
        manifests.publish(base, after)
    return Built(
        manifest=after,
        records=sum(one.records for one in done),
        log_partitions=tuple(sorted(numbers)),
        worker_rss_bytes_max=max((one.peak_rss_bytes for one in done), default=0),
    )


def _run(spark: SparkSession | None, task: Stage, numbers: tuple[int, ...]) -> tuple[Done, ...]:
    if not numbers:
        raise BadInput("the input has no log partition")
    if spark is None:
        return tuple(stage.run(task, number, stage.attempt_name(0)) for number in numbers)
    return distribute.collect(distribute.frame(spark, task, numbers))


def _published(base: Path) -> Manifest:
    try:
        return manifests.load(base)
    except NothingPublished:
        return EMPTY


def _log_ends(base: Path, before: Manifest, log_ends: pa.Table | None) -> tuple[FileEntry, ...]:
    if log_ends is None:
        return before.of(_LOG_END_OFFSETS)
    writer = TableWriter(base, _LOG_END_OFFSETS, NO_LOG_PARTITION, stage.attempt_name(0))
    writer.write(log_ends.select(LOG_END_OFFSETS.names).cast(LOG_END_OFFSETS))
    return writer.close()
