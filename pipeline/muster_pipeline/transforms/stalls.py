"""Gold `stalls`: times in which a committed offset did not move.

A step that changes the offset (or removes it) is a move. The time between two moves of a key is a stall if it is long
enough. State per key: clock and log offset of its last move, and the number of commits of the same offset since; and
the stalls whose evidence may still come with a later sample.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.schemas.gold import STALL_ENDS, STALLS
from muster_pipeline.transforms.arrays import NONE, Bools, Ints, constant, nullable, table, words
from muster_pipeline.transforms.grow import Grow
from muster_pipeline.transforms.key_state import KeyState, Steps
from muster_pipeline.transforms.keys import KeyNumbers
from muster_pipeline.transforms.log_end_offsets import LogEndSamples

_ENDS: Final = {name: code for code, name in enumerate(STALL_ENDS)}

Found = dict[str, Ints]
_COLUMNS: Final = ("key", "started_ms", "ended_ms", "last_ms", "ended_by", "offset", "idle", "started_at", "ended_at")


class StallFold:
    """Fed with the chunk's steps before the key state absorbs them."""

    def __init__(self, stall_min_ms: int) -> None:
        self._min_ms = stall_min_ms
        self._moved_ms = Grow(np.int64(NONE))
        self._moved_at = Grow(np.int64(NONE))
        self._idle = Grow(np.int64(0))
        self._undecided: tuple[Ints, ...] = tuple(np.empty(0, dtype=np.int64) for _ in _COLUMNS)
        """Ended stalls whose last sample may still come; columns as in _COLUMNS."""

    def feed(self, steps: Steps, key_count: int) -> Found:
        """Stalls that ended in this chunk, in the order of the log."""
        moved_ms, moved_at, idle = (one.ensure(key_count) for one in (self._moved_ms, self._moved_at, self._idle))
        gone, new = steps.offset == NONE, steps.before == NONE
        is_move = gone | new | (steps.offset != steps.before)
        moves = np.flatnonzero(is_move)
        key = steps.key[moves]
        first_of_key = np.searchsorted(steps.key, key, "left")
        follows = np.zeros(len(moves), dtype=np.bool_)
        follows[1:] = key[1:] == key[:-1]
        previous = np.where(follows, np.roll(moves, 1), 0)
        if len(moves) == 0:
            previous = moves
        started_ms = np.where(follows, steps.clock_ms[previous], moved_ms[key])
        started_at = np.where(follows, steps.at[previous], moved_at[key])
        idle_between = np.where(follows, moves - previous - 1, idle[key] + moves - first_of_key)
        clock, before = steps.clock_ms[moves], steps.before[moves]
        is_stall = (before != NONE) & (clock - np.where(before == NONE, clock, started_ms) >= self._min_ms)
        ended_by = np.select(
            [gone[moves], steps.offset[moves] > before], [_ENDS["removal"], _ENDS["advance"]], _ENDS["rewind"]
        )
        columns = (key, started_ms, clock, clock, ended_by, before, idle_between, started_at, steps.at[moves])
        chosen = np.flatnonzero(is_stall)
        chosen = chosen[np.argsort(steps.place[moves][chosen], kind="stable")]
        found = {name: column[chosen] for name, column in zip(_COLUMNS, columns, strict=True)}
        self._absorb(steps, moves, key_count)
        return found

    def decided(self, found: Found, frontier_ms: int) -> Found:
        """Of these and earlier ones those that ended while all samples are there, in the order of the log."""
        both = self._with_undecided(found)
        upto = int(np.searchsorted(both["ended_ms"], frontier_ms, "right"))
        self._undecided = tuple(both[name][upto:] for name in _COLUMNS)
        return {name: column[:upto] for name, column in both.items()}

    def _with_undecided(self, found: Found) -> Found:
        first = dict(zip(_COLUMNS, self._undecided, strict=True))
        return {name: np.concatenate([first[name], found[name]]) for name in _COLUMNS}

    def moved_ms(self, keys: Ints) -> Ints:
        """When these keys' offsets were reached."""
        return self._moved_ms.ensure(int(keys.max(initial=-1)) + 1)[keys]

    def finish(self, state: KeyState, key_count: int, now_ms: int) -> Found:
        """Undecided ones, and those that have not ended at the end of the log, in the order of keys."""
        moved_ms, offset = self._moved_ms.ensure(key_count)[:key_count], state.offset.ensure(key_count)[:key_count]
        alive = (offset != NONE) & (moved_ms != NONE)
        chosen = np.flatnonzero(alive & (now_ms - np.where(alive, moved_ms, now_ms) >= self._min_ms))
        none = np.full(len(chosen), NONE, dtype=np.int64)
        columns = (
            chosen.astype(np.int64),
            moved_ms[chosen],
            none,
            np.full(len(chosen), now_ms, dtype=np.int64),
            np.full(len(chosen), _ENDS["log_end"]),
            offset[chosen],
            self._idle.values[chosen],
            self._moved_at.values[chosen],
            none,
        )
        return self._with_undecided(dict(zip(_COLUMNS, columns, strict=True)))

    def _absorb(self, steps: Steps, moves: Ints, key_count: int) -> None:
        ends = np.flatnonzero(steps.is_last)
        keys = steps.key[ends]
        first = np.searchsorted(steps.key, keys, "left")
        index = np.searchsorted(moves, ends, "right") - 1
        last_move = moves[np.maximum(index, 0)] if len(moves) else np.zeros_like(ends)
        has = (index >= 0) & (last_move >= first)
        idle = self._idle.ensure(key_count)
        idle[keys] = np.where(has, ends - last_move, idle[keys] + ends - first + 1)
        self._moved_ms.ensure(key_count)[keys[has]] = steps.clock_ms[last_move[has]]
        self._moved_at.ensure(key_count)[keys[has]] = steps.at[last_move[has]]


def render(
    found: Found, keys: KeyNumbers, log_ends: LogEndSamples, log_end_numbers: Ints, cluster: str, log_partition: int
) -> pa.Table:
    """Rows of the table; `log_end_numbers`: of each row's key among the samples."""
    count = len(found["key"])
    rows = zip(*(found[n].tolist() for n in ("started_ms", "last_ms", "offset")), log_end_numbers.tolist(), strict=True)
    evidence = [_evidence(log_ends, *row) for row in rows]
    return table(
        STALLS,
        {
            "cluster": constant(cluster, count, pa.string()),
            "log_partition": constant(log_partition, count, pa.int32()),
            **keys.columns(found["key"]),
            "started_at_ms": pa.array(found["started_ms"]),
            "ended_at_ms": nullable(found["ended_ms"]),
            "duration_ms": pa.array(found["last_ms"] - found["started_ms"]),
            "ended_by": words(found["ended_by"].astype(np.int8), tuple(STALL_ENDS)),
            "committed_offset": pa.array(found["offset"]),
            "idle_commits": pa.array(found["idle"]),
            "evidence": pa.array(evidence, pa.string()),
            "started_log_offset": pa.array(found["started_at"]),
            "ended_log_offset": nullable(found["ended_at"]),
        },
    )


def without_evidence(made: pa.Table, chosen: Bools) -> pa.Table:
    """The rows, of which the chosen ones begin or end at a time that is not known."""
    evidence = pc.if_else(pa.array(chosen), "unknown", made["evidence"])
    place = made.schema.get_field_index("evidence")
    return made.set_column(place, made.schema.field(place), evidence)


def _evidence(log_ends: LogEndSamples, started_ms: int, ended_ms: int, offset: int, number: int) -> str:
    sample = log_ends.last_before(number, ended_ms)
    if sample is None:
        return "unknown"
    at_ms, log_end = sample
    if log_end > offset:
        return "behind"
    return "nothing_to_read" if at_ms >= started_ms else "unknown"
