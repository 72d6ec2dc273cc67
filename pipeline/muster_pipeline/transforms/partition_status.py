"""Gold `partition_status`: each committed offset at the end of the log, judged by its last commits and samples.

WARN, STALL, STOP and REWIND are Burrow's (`status_rules`); TRUNCATED, EXPIRING and ABANDONED come before them, since
they say what is to be done; UNKNOWN is what nothing proves. Now is the later of the log's clock and the newest sample,
so that the same tables give the same rows. All rules compare offsets, and hold where these have gaps; numbers of
records are not told there. State: `commit_window`. What it does not do: judge groups (`report`).
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from muster_pipeline.schemas.status import ABANDONED_AFTER_MS, PARTITION_STATUS, STATUSES
from muster_pipeline.transforms.arrays import NONE, Bools, Floats, Ints, ints, masked, nullable, table, words
from muster_pipeline.transforms.commit_window import Window
from muster_pipeline.transforms.limits import STATUS_SLOTS
from muster_pipeline.transforms.log_end_offsets import LogEndSamples
from muster_pipeline.transforms.status_rules import BURROWS, REWIND, STALL, STOP, WARN, Slots, judge
from muster_pipeline.transforms.wrong_times import WrongTimes

EXPIRING_WITHIN_MS: Final = 86_400_000
STOPPED_AFTER_MS: Final = 60_000
"""Of one commit alone, Burrow's rule 3 would say STOP at once."""

_CODE: Final = {name: code for code, name in enumerate(STATUSES)}


class Known(NamedTuple):
    """What is known of the committed offsets at the end of the log, in the order of table `expiry`."""

    expiry: pa.Table
    window: Window
    numbers: Ints
    """Of their topic partitions among the samples."""
    committed_ms: Ints
    moved_ms: Ints
    """Commit that reached the offset."""


def status_table(known: Known, log_ends: LogEndSamples, wrong: WrongTimes, now_ms: int) -> pa.Table:
    """One row for each committed offset."""
    expiry, window, numbers = known.expiry, known.window, known.numbers
    now_ms = max(now_ms, log_ends.newest_ms)
    committed = ints(expiry["committed_offset"])
    at, end, start = log_ends.newest(numbers, STATUS_SLOTS)
    lag = np.where(end[:, 0] == NONE, NONE, np.maximum(end[:, 0] - committed, 0))
    slots = _slots(window, numbers, log_ends)
    judged = judge(slots, end, lag, now_ms)
    status = np.array([_CODE[name] for name in BURROWS], dtype=np.int64)[judged.status]
    count = (window.offset != NONE).sum(axis=1)
    told = (slots.lag != NONE).sum(axis=1)
    unproven = ((status == _CODE[STALL]) & (told == 0)) | ((status == _CODE[WARN]) & (told < 2))
    is_unknown = _is_unknown(window, lag, count, known.committed_ms, wrong, now_ms)
    status = np.where(unproven | is_unknown, _CODE["UNKNOWN"], status)
    since = _since(status, judged.rewound, slots, known)
    for name, holds, since_ms in _ours(known, committed, at, end, start, now_ms):
        status, since = np.where(holds, _CODE[name], status), np.where(holds, since_ms, since)
    read, has_read = _per_second(window.last_ms, window.offset)
    written, has_written = _per_second(at, end)
    counts = ~log_ends.have_gaps(numbers)
    names = ("cluster", "log_partition", "group_id", "topic", "partition", "committed_offset")
    return table(
        PARTITION_STATUS,
        {
            **{name: expiry[name].combine_chunks() for name in names},
            "status": words(status.astype(np.int8), tuple(STATUSES)),
            "since_ms": nullable(since),
            "committed_ms": pa.array(known.committed_ms),
            "lag": nullable(np.where(counts | (lag == 0), lag, NONE)),
            "sampled_ms": nullable(at[:, 0]),
            "commits": pa.array(count).cast(pa.int32()),
            "read_per_s": masked(read, ~(has_read & counts), pa.float64()),
            "written_per_s": masked(written, ~(has_written & counts), pa.float64()),
            "drained_in_ms": nullable(_left_ms(lag, read - written, has_read & has_written)),
            "lost_in_ms": nullable(_lost_in_ms(committed, at, start, read, has_read)),
            "has_gaps": masked(~counts, at[:, 0] == NONE, pa.bool_()),
        },
    )


def _slots(window: Window, numbers: Ints, log_ends: LogEndSamples) -> Slots:
    """Oldest first, with the lag that each commit had by the samples of then; one ahead of them had none."""
    wide = np.broadcast_to(numbers[:, None], window.offset.shape)
    ends = log_ends.ends_at(wide.ravel(), window.last_ms.ravel()).reshape(window.offset.shape)
    has = (ends != NONE) & (window.offset != NONE)
    lag = np.where(has, np.maximum(ends - window.offset, 0), NONE)
    return Slots(window.first_ms[:, ::-1], window.offset[:, ::-1], lag[:, ::-1])


def _is_unknown(window: Window, lag: Ints, count: Ints, committed_ms: Ints, wrong: WrongTimes, now_ms: int) -> Bools:
    """Nothing proves what is wrong, or that nothing is."""
    alone = (count <= 1) & (now_ms - committed_ms <= STOPPED_AFTER_MS)
    touched = np.zeros(window.offset.shape, dtype=np.bool_)
    for spans in (wrong.raised_ms, wrong.behind_ms):
        touched |= spans.hold(window.first_ms.ravel()).reshape(window.offset.shape)
    touched &= window.offset != NONE
    is_behind = lag != 0
    unknown: Bools = (lag == NONE) | (is_behind & (alone | touched.any(axis=1)))
    return unknown


def _since(status: Ints, rewound: Ints, slots: Slots, known: Known) -> Ints:
    rows = np.arange(len(status))
    oldest = slots.at_ms[rows, np.argmax(slots.offset != NONE, axis=1)]
    return np.select(
        [status == _CODE[name] for name in (STOP, STALL, REWIND, WARN)],
        [known.committed_ms, known.moved_ms, slots.at_ms[rows, rewound], oldest],
        NONE,
    )


def _ours(
    known: Known, committed: Ints, at: Ints, end: Ints, start: Ints, now_ms: int
) -> list[tuple[str, Bools, Ints]]:
    """Rules of ours with since when they hold, the weightiest last."""
    states = known.expiry["group_state"].to_pylist()
    expires = ints(known.expiry["expires_at_ms"])
    state = np.array(states, dtype=object)
    old = now_ms - known.committed_ms > ABANDONED_AFTER_MS
    abandoned = (state == "empty") | ((state == "simple") & old)
    expiring = (expires != NONE) & (expires - now_ms <= EXPIRING_WITHIN_MS)
    below = (start != NONE) & (start > committed[:, None]) & (end > committed[:, None])
    run = np.cumprod(below, axis=1).sum(axis=1)
    first_below = at[np.arange(len(at)), np.maximum(run - 1, 0)]
    return [
        ("ABANDONED", abandoned.astype(np.bool_), known.committed_ms),
        ("EXPIRING", expiring, expires - EXPIRING_WITHIN_MS),
        ("TRUNCATED", run > 0, first_below),
    ]


def _per_second(at_ms: Ints, value: Ints) -> tuple[Floats, Bools]:
    """How much the value grew a second, from the oldest to the newest; whether that is known. Newest first."""
    rows = np.arange(len(value))
    known = value != NONE
    oldest = np.where(known.any(axis=1), value.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1), 0)
    took = at_ms[:, 0] - at_ms[rows, oldest]
    grew = value[:, 0] - value[rows, oldest]
    has = known[:, 0] & (oldest > 0) & (took > 0) & (grew >= 0)
    return np.where(has, grew, 0) * 1_000 / np.where(has, took, 1), has


def _left_ms(distance: Ints, speed: Floats, known: Bools) -> Ints:
    """ms until the distance is gone; 0 if there is none."""
    has = known & (distance > 0) & (speed > 0)
    left = np.floor(np.where(has, distance, 0) * 1_000 / np.where(has, speed, 1)).astype(np.int64)
    return np.where(distance == 0, 0, np.where(has, left, NONE))


def _lost_in_ms(committed: Ints, at: Ints, start: Ints, read: Floats, has_read: Bools) -> Ints:
    passed, has_passed = _per_second(at, start)
    room = np.where(start[:, 0] == NONE, NONE, committed - start[:, 0])
    left = _left_ms(room, passed - read, has_passed & has_read)
    return np.where(room > 0, left, NONE)
