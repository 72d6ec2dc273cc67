"""Burrow's rules for one partition, for many at once (`core/internal/evaluator/caching.go`, linkedin/Burrow).

Arrays have a row per partition and a column per slot, oldest first; missing slots are at the beginning and NONE. A lag
that is not known is NONE, and proves nothing. What it does not do: rules of ours (`partition_status`).
"""

from typing import Final, NamedTuple

import numpy as np

from muster_pipeline.transforms.arrays import NONE, Bools, Ints

OK: Final = "OK"
WARN: Final = "WARN"
STALL: Final = "STALL"
STOP: Final = "STOP"
REWIND: Final = "REWIND"
BURROWS: Final = (OK, WARN, STALL, STOP, REWIND)


class Slots(NamedTuple):
    """The last commits of some partitions."""

    at_ms: Ints
    offset: Ints
    lag: Ints


class Judged(NamedTuple):
    """Position in BURROWS, and the slot that went back (0: none did)."""

    status: Ints
    rewound: Ints


def judge(slots: Slots, recent_ends: Ints, lag_now: Ints, now_ms: int) -> Judged:
    """`recent_ends`: the last sampled log ends, a row per partition, NONE where there are fewer."""
    valid = slots.offset != NONE
    rewound, is_rewound = _rewind(slots.offset, valid)
    is_stopped = _is_stopped(slots.at_ms, valid, now_ms) & ~_was_at_end(slots.offset[:, -1], recent_ends)
    never_zero = ~((slots.lag != NONE) & (slots.lag <= 0)).any(axis=1)
    behind = (lag_now != NONE) & (lag_now > 0) & valid.any(axis=1)
    status = np.select(
        [
            ~behind,
            is_stopped,
            is_rewound,
            never_zero & _is_stalled(slots.offset, valid),
            never_zero & ~_falls(slots.lag),
        ],
        [BURROWS.index(one) for one in (OK, STOP, REWIND, STALL, WARN)],
        BURROWS.index(OK),
    )
    return Judged(status, np.where(is_rewound, rewound, 0))


def _is_stopped(at_ms: Ints, valid: Bools, now_ms: int) -> Bools:
    """Rule 3: longer ago than the commits took."""
    last = at_ms[:, -1]
    first = at_ms[np.arange(len(at_ms)), np.argmax(valid, axis=1)]
    stopped: Bools = (now_ms - last) > (last - first)
    return stopped


def _was_at_end(offset: Ints, recent_ends: Ints) -> Bools:
    """Had the last commit nothing more to read at one of the last samples?"""
    was: Bools = ((recent_ends != NONE) & (recent_ends <= offset[:, None])).any(axis=1)
    return was


def _rewind(offset: Ints, valid: Bools) -> tuple[Ints, Bools]:
    """Rule 2: the first slot that is below the one before it, and whether none since has reached that again."""
    back = valid[:, :-1] & (offset[:, 1:] < offset[:, :-1])
    at = np.where(back.any(axis=1), np.argmax(back, axis=1) + 1, 0)
    before = offset[np.arange(len(offset)), np.maximum(at - 1, 0)]
    after = np.arange(offset.shape[1]) >= at[:, None]
    recovered = (after & (offset >= before[:, None])).any(axis=1)
    return at, (at > 0) & ~recovered


def _is_stalled(offset: Ints, valid: Bools) -> Bools:
    """Rule 4: one offset in all."""
    stalled: Bools = ((offset == offset[:, -1:]) | ~valid).all(axis=1)
    return stalled


def _falls(lag: Ints) -> Bools:
    """Rule 5: the known lags fall somewhere."""
    falls = np.zeros(len(lag), dtype=np.bool_)
    last = np.full(len(lag), NONE, dtype=np.int64)
    for column in lag.T:
        known = column != NONE
        falls |= known & (last != NONE) & (column < last)
        last = np.where(known, column, last)
    return falls
