"""The samples of log end offsets that a run publishes: given ones, those of before, or both.

A stream appends a file each round and reads nothing of what is there. When there are many files, or more rows than a
worker may load, they are read once, thinned (`transforms.sample_retention`) to half the limit, and written as one.
"""

from typing import Final

import pyarrow as pa

from muster_pipeline.job.stage import Stage, attempt_name
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.store import reader
from muster_pipeline.store.files import FileEntry
from muster_pipeline.store.limits import LOG_END_FILES_MAX, NO_LOG_PARTITION
from muster_pipeline.store.reader import Snapshot
from muster_pipeline.store.writer import TableWriter
from muster_pipeline.transforms.limits import LOG_END_SAMPLES_MAX
from muster_pipeline.transforms.sample_retention import thinned

NAME: Final = "log_end_offsets"


def published_with(
    task: Stage, before: Snapshot | None, given: pa.Table | None, *, is_appended: bool
) -> tuple[FileEntry, ...]:
    """The table's files from now on. Raises LimitReached, DamagedStore."""
    known = () if before is None else before.of(NAME)
    if given is None:
        return known
    rows = given.select(LOG_END_OFFSETS.names).cast(LOG_END_OFFSETS)
    if not is_appended or not known or before is None:
        return _written(task, rows, 0)
    count = sum(entry.rows for entry in known) + rows.num_rows
    if count <= LOG_END_SAMPLES_MAX and len(known) < LOG_END_FILES_MAX:
        return (*known, *_written(task, rows, known[-1].number + 1))
    both = pa.concat_tables([reader.read(NAME, before), rows])
    return _written(task, thinned(both, LOG_END_SAMPLES_MAX // 2), 0)


def _written(task: Stage, rows: pa.Table, first: int) -> tuple[FileEntry, ...]:
    writer = TableWriter(task.place, NAME, task.settings.cluster, NO_LOG_PARTITION, attempt_name(0), task.token, first)
    writer.write(rows)
    return writer.close()
