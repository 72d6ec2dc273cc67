"""The samples of log end offsets that a run publishes: given ones, those of before, or both.

A stream appends a file each round and reads nothing of what is there. When there are many files, or more rows than a
worker may load, they are read once, thinned (`transforms.sample_retention`) to half the limit, and written as one. A
recorded file that has grown since the round before is continued alike, and never thinned.
"""

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.job.stage import LogEnds, Stage, attempt_name
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
    task: Stage, before: Snapshot | None, given: pa.Table | None, *, is_appended: bool, is_round: bool
) -> LogEnds:
    """The table's files from now on. Raises LimitReached, DamagedStore."""
    known = () if before is None else before.of(NAME)
    if given is None:
        return LogEnds(files=known)
    rows = given.select(LOG_END_OFFSETS.names).cast(LOG_END_OFFSETS)
    new = LogEnds(new_from_ms=pc.min(rows["sample_timestamp_ms"]).as_py(), more_follow=is_round)
    if not known or before is None:
        return replace(new, files=_written(task, rows, 0))
    if not is_appended:
        count = sum(entry.rows for entry in known)
        if not (is_round and rows.slice(0, count).equals(reader.read(NAME, before))):
            return replace(new, files=_written(task, rows, 0), continues=False)
        rows = rows.slice(count)
        new = replace(new, new_from_ms=pc.min(rows["sample_timestamp_ms"]).as_py())
        if rows.num_rows == 0:
            return replace(new, files=known)
    count = sum(entry.rows for entry in known) + rows.num_rows
    if count <= LOG_END_SAMPLES_MAX and len(known) < LOG_END_FILES_MAX:
        return replace(new, files=(*known, *_written(task, rows, known[-1].number + 1)))
    both = pa.concat_tables([reader.read(NAME, before), rows])
    return replace(new, files=_written(task, thinned(both, LOG_END_SAMPLES_MAX // 2) if is_appended else both, 0))


def _written(task: Stage, rows: pa.Table, first: int) -> tuple[FileEntry, ...]:
    writer = TableWriter(task.place, NAME, task.settings.cluster, NO_LOG_PARTITION, attempt_name(0), task.token, first)
    writer.write(rows)
    return writer.close()
