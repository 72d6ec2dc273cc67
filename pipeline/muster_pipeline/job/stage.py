"""One log partition, in one process: read, decode, fold, write files. It publishes nothing.

Memory: one chunk, the fold's state, and a row group per table. Every output file is durable when `run` returns; if it
raises or is killed, it leaves only drafts and files that no version of a table names, which no reader sees.
"""

import os
import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from muster_pipeline.decode.consumer_groups import decode_consumer_groups
from muster_pipeline.decode.generations import decode_generations
from muster_pipeline.decode.origin import Damage, quarantine
from muster_pipeline.decode.segment import files
from muster_pipeline.decode.unknown import decode_unknown
from muster_pipeline.job.heap import give_back
from muster_pipeline.job.inputs import FileAccount, Input, Part
from muster_pipeline.job.limits import CHUNKS_BETWEEN_TRIMS
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.store.files import FileEntry
from muster_pipeline.store.place import Place, Untyped
from muster_pipeline.store.writer import TableWriter, close_all
from muster_pipeline.tables.catalog import BRONZE, DERIVED, STATES_TABLE
from muster_pipeline.tables.errors import NotShared
from muster_pipeline.transforms.fold import GroupDecoders, PartitionFold
from muster_pipeline.transforms.log_end_offsets import LogEndSamples
from muster_pipeline.transforms.settings import FoldSettings

DECODERS: Final = GroupDecoders(
    generations=decode_generations, consumer_groups=decode_consumer_groups, unknown=decode_unknown
)
_OF_LOG: Final = tuple(name for name in BRONZE if name != "log_end_offsets")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """The samples of log end offsets of a run: files of table `log_end_offsets`."""

    files: tuple[FileEntry, ...] = ()
    continues: bool = True
    """They are those that were published before, or what is kept of them, and newer ones."""
    new_from_ms: int | None = None
    """Time of the first one that was not published before; None if there is none."""
    more_follow: bool = False
    """The next round brings newer ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The values that all tasks of a run share; sent to the workers."""

    input: Input
    place: Place
    settings: FoldSettings
    token: str
    """Of the run, for the names of its files."""
    log_ends: LogEnds = LogEnds()
    keeps_state: bool = False
    """A round of a stream: it goes on from the state of the round before (`job.rounds`)."""

    def tables(self) -> tuple[str, ...]:
        """Names of the tables that a task writes."""
        made = (*_OF_LOG, *DERIVED) if self.input.makes_bronze() else DERIVED
        return (*made, STATES_TABLE) if self.keeps_state else made


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of one task: the files it wrote, and the peak memory of its process."""

    log_partition: int
    files: tuple[FileEntry, ...]
    records: int
    peak_rss_bytes: int


def run(stage: Stage, log_partition: int, attempt: str) -> Done:
    """Run one task. `attempt` is unique among attempts that may run at the same time. Raises TablesError, OSError."""
    with ExitStack() as drafts:
        writers = {
            name: TableWriter(stage.place, name, stage.settings.cluster, log_partition, attempt, stage.token)
            for name in stage.tables()
        }
        for writer in writers.values():
            drafts.callback(writer.abort)
        fold = PartitionFold(log_partition, stage.settings, log_ends(stage), DECODERS)
        records, read = fed(fold, writers, stage.input.parts(log_partition))
        give_back()
        write(writers, fold.finish())
        told(writers, read, fold.findings)
        made = close_all(writers.values())
    return Done(log_partition=log_partition, files=made, records=records, peak_rss_bytes=peak_rss_bytes())


def fed(
    fold: PartitionFold,
    writers: Mapping[str, TableWriter],
    parts: Iterable[Part],
    see: Callable[[pa.Table], None] | None = None,
) -> tuple[int, list[FileAccount]]:
    """Feed a fold and write its rows, those of bronze too if there are writers for them; `see` is handed all records.
    Returns how many there were, and the accounts of what was read."""
    records = 0
    read: list[FileAccount] = []
    for number, part in enumerate(parts, 1):
        if number % CHUNKS_BETWEEN_TRIMS == 0:
            give_back()
        damages: tuple[Damage, ...] = ()
        if part.records is not None:
            batch = pa.Table.from_batches([part.records])
            made = fold.feed(batch)
            damages = made.damages
            records += batch.num_rows
            write(writers, made.tables)
            if "records" in writers:
                writers["records"].write(batch)
            if see is not None:
                see(batch)
        if part.file is not None:
            _account(writers, part, part.file, () if part.is_carried else damages)
            read += [part.file] if part.is_end else []
    return records, read


def peak_rss_bytes() -> int:
    """Of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def attempt_name(number: int) -> str:
    """A name for the drafts of one attempt, unique over hosts and processes."""
    return f"{os.uname().nodename}-{os.getpid()}-{number}"


def write(writers: Mapping[str, TableWriter], tables: Mapping[str, pa.Table]) -> None:
    """Rows of several tables."""
    for name, rows in tables.items():
        writers[name].write(rows)


def _account(writers: Mapping[str, TableWriter], part: Part, file: FileAccount, damages: tuple[Damage, ...]) -> None:
    """Write a part's quarantine rows, those of its group records included, and at its end the file's account."""
    if part.carried is not None:
        derived = pc.equal(part.carried["reason"], "clock")  # told anew by every run
        writers["quarantine"].write(part.carried.filter(pc.invert(derived)))
    file.account.add_damages(damages)
    if part.damages or damages:
        writers["quarantine"].write(pa.Table.from_batches([quarantine(file.origin, (*part.damages, *damages))]))
    if part.is_end:
        writers["files"].write(pa.Table.from_batches([files(*file)]))


def told(writers: Mapping[str, TableWriter], read: list[FileAccount], findings: Sequence[Damage]) -> None:
    """Write what the fold found, each with the file that holds its first record. Nothing if bronze is the input."""
    for finding in findings if read else ():
        at = finding.first_offset or 0
        holds = [one.origin for one in read if one.account.first_offset is not None and one.account.first_offset <= at]
        origin = holds[-1] if holds else read[0].origin
        writers["quarantine"].write(pa.Table.from_batches([quarantine(origin, (finding,))]))


def log_ends(stage: Stage) -> LogEndSamples:
    """The samples. Raises NotShared, LimitReached, BadInput."""
    system = stage.place.files("log_end_offsets") if stage.log_ends.files else None
    parts = [_samples(system, entry.path) for entry in stage.log_ends.files]
    rows = pa.concat_tables(parts) if parts else None
    return LogEndSamples(rows, stage.settings.cluster, more_follow=stage.log_ends.more_follow)


def _samples(system: Untyped, name: str) -> pa.Table:
    if system.get_file_info(name).type == fs.FileType.NotFound:
        raise NotShared(
            f"log_end_offsets/{name}, which the driver wrote, is not seen by an executor: the folder of tables must be "
            "one that driver and executors share, or a store of objects such as s3a://bucket/tables"
        )
    with system.open_input_file(name) as file:
        return pq.read_table(file, schema=LOG_END_OFFSETS)  # a column that an earlier release did not write is null
