"""One log partition in one round of a stream: what is new, from the state that the round before left.

Rows that a fold tells before the log's end are final: they are appended. What only the end decides (the open minute,
open stalls, expiry) is a tail of its own in each table, which the next round replaces. So a round costs what is new,
the state (which has the size of keys and groups, not of the history), and the merging of small files: a file is written
again with the new rows while it is small, or not much larger than they are. Without a state to go on from, the
published records are folded again, as a batch does it, and a state is left.

Samples of log end offsets are all at hand in each round (they are bounded), and rows that samples to come may change
are a part of the tail. A sample that is older than what was told as final costs one whole round.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from muster_pipeline.job import stage, states
from muster_pipeline.job.live import LiveInput
from muster_pipeline.job.stage import DECODERS, Done, Stage
from muster_pipeline.job.states import EpochsSeen, Stored
from muster_pipeline.store import reader
from muster_pipeline.store.files import FileEntry
from muster_pipeline.store.limits import FILE_ROWS, MERGED_BELOW_ROWS, MERGED_RATIO
from muster_pipeline.store.writer import TableWriter, close_all
from muster_pipeline.tables.catalog import DERIVED, LOG_ENDS_TABLE, STATES_TABLE
from muster_pipeline.transforms.fold import PartitionFold
from muster_pipeline.transforms.fold_state import ForeignState, packed, unpacked
from muster_pipeline.transforms.limits import LAG_OPEN_POINTS_MAX

_APPENDED = ("records", *DERIVED)
_REPLACED = ("quarantine", "files")


def run(task: Stage, log_partition: int, attempt: str) -> Done:
    """As `stage.run`; a round of a stream goes on from its state. Raises as that does."""
    source = task.input
    if not task.keeps_state or not isinstance(source, LiveInput):
        return stage.run(task, log_partition, attempt)
    fold, stored = _resumed(task, source, log_partition)
    start, end = source.ranges[log_partition]
    files = {} if stored is None else stored.files
    kept = {name: unmerged(files.get(name, ()), end - start) for name in _APPENDED}
    seen = EpochsSeen() if stored is None else EpochsSeen.on(stored)
    with ExitStack() as drafts:

        def writer(name: str, first: int, part: str) -> TableWriter:
            made = TableWriter(
                task.place, name, task.settings.cluster, log_partition, f"{attempt}-{part}", task.token, first
            )
            drafts.callback(made.abort)
            return made

        final = {name: writer(name, len(kept[name]), "final") for name in _APPENDED}
        for name, writes in final.items():
            merged = files.get(name, ())[len(kept[name]) :]
            for rows in reader.rows_in(source.known, merged) if source.known is not None else ():
                writes.write(rows)
        whole = {name: writer(name, 0, "whole") for name in _REPLACED}
        parts = source.parts(log_partition, is_resumed=stored is not None)
        records, read = stage.fed(fold, final | whole, parts, seen.see)
        stage.write(final, fold.settle())
        state = packed(fold) if fold.open_points <= LAG_OPEN_POINTS_MAX else None
        ended = fold.finish()
        stage.told(whole, read, fold.findings)
        closed = _by_table(close_all([*final.values(), *whole.values()]))
        finals = {name: (*kept[name], *closed.get(name, ())) for name in _APPENDED}
        tails = {name: writer(name, len(finals[name]), "tail") for name in ended}
        for name, rows in ended.items():
            tails[name].write(rows)
        tailed = _by_table(close_all(tails.values()))
        made = [*_all(finals), *_all(tailed), *(one for name in _REPLACED for one in closed.get(name, ()))]
        if state is not None:
            states_file = writer(STATES_TABLE, 0, "state")
            files = finals | {LOG_ENDS_TABLE: task.log_ends.files}
            states_file.write(states.row(task.settings, log_partition, end, files, tailed, seen.told(), state))
            made += states_file.close()
    return Done(log_partition=log_partition, files=tuple(made), records=records, peak_rss_bytes=stage.peak_rss_bytes())


def unmerged(files: Sequence[FileEntry], new_rows: int) -> tuple[FileEntry, ...]:
    """The files that stay; those behind them are written again, with the new rows, as one."""
    rows, left = new_rows, len(files)
    while left and files[left - 1].rows < min(FILE_ROWS, max(MERGED_BELOW_ROWS, MERGED_RATIO * rows)):
        left -= 1
        rows += files[left].rows
    return tuple(files[:left])


def _resumed(task: Stage, source: LiveInput, log_partition: int) -> tuple[PartitionFold, Stored | None]:
    log_ends = stage.log_ends(task)
    new = PartitionFold(log_partition, task.settings, log_ends, DECODERS)
    if source.known is None or log_partition in source.withdrawn or not task.log_ends.continues:
        return new, None
    stored = states.found(source.known, log_partition)
    if stored is None or stored.end_offset != source.ranges[log_partition][0]:
        return new, None
    if stored.fingerprint != states.fingerprint(task.settings):
        return new, None
    try:
        fold = unpacked(states.state_of(source.known, log_partition), log_ends, DECODERS)
    except ForeignState:
        return new, None
    is_late = task.log_ends.new_from_ms is not None and task.log_ends.new_from_ms <= fold.frontier_ms
    return (new, None) if is_late else (fold, stored)


def _by_table(entries: tuple[FileEntry, ...]) -> dict[str, tuple[FileEntry, ...]]:
    found: dict[str, tuple[FileEntry, ...]] = {}
    for one in entries:
        found[one.table] = (*found.get(one.table, ()), one)
    return found


def _all(files: Mapping[str, tuple[FileEntry, ...]]) -> list[FileEntry]:
    return [one for entries in files.values() for one in entries]
