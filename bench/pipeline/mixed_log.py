"""Segment files as brokers write them, with all that a large log has: real batches, real CRCs, made with numpy.

Every group commits all its partitions in one batch every COMMIT_EVERY_MS; one in TRANSACTIONAL_EVERY does so in
transactions, of which some are aborted; every group rebalances each GENERATION_ROUNDS rounds; and one log partition has
as much as all others together. Offsets advance at different speeds, some stand still, and one commit in REWIND_EVERY
goes back. Beside the log are samples of the topics' log end offsets.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS

from bench.pipeline.batches import (
    COMMIT_EVERY_MS,
    KEYS_PER_GROUP,
    LOG_PARTITIONS,
    MARKER,
    START_MS,
    TOPICS,
    Round,
    make_once,
)
from tests.pipeline import logs
from tests.pipeline.store.logfolder import generation

GROUPS = 62
"""Of each log partition but the first."""
LARGE_GROUPS = GROUPS * (LOG_PARTITIONS - 1)
"""Of the first: half of everything."""
MEMBERS = 4
TRANSACTIONAL_EVERY = 10
GENERATION_ROUNDS = 60
SAMPLE_ROUNDS = 12
"""From one sample of the log end offsets to the next: a minute."""
PRODUCED_PER_ROUND = 110
"""More than the fastest group reads."""
LOG_ENDS = "log_end_offsets.parquet"
_STATE_MS, _GENERATION, _VERDICT = 0x66BB44DD22FF0011, 0x7A6B5C4D, 0x5E4D


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How many rounds a number of records is."""

    rounds: int

    @classmethod
    def of(cls, records: int) -> "Shape":
        """At least one round; about so many records."""
        one = cls(rounds=GENERATION_ROUNDS).records / GENERATION_ROUNDS
        return cls(rounds=max(1, int(records / one)))

    @property
    def records(self) -> int:
        """In all log partitions, control records and those of groups included."""
        return sum(self.records_of(number) for number in range(LOG_PARTITIONS))

    def records_of(self, number: int) -> int:
        """In one log partition."""
        return _base(number, self.rounds)


def groups_of(number: int) -> range:
    """The groups of a log partition."""
    first = LARGE_GROUPS + (number - 1) * GROUPS
    return range(LARGE_GROUPS) if number == 0 else range(first, first + GROUPS)


def is_transactional(group: int) -> bool:
    """Does it commit in transactions?"""
    return group % TRANSACTIONAL_EVERY == TRANSACTIONAL_EVERY - 1


def _per_round(number: int) -> int:
    groups = groups_of(number)
    return len(groups) * KEYS_PER_GROUP + sum(map(is_transactional, groups))


def _base(number: int, turn: int) -> int:
    """Log offset at which a round begins."""
    return turn * _per_round(number) + -(-turn // GENERATION_ROUNDS) * len(groups_of(number))


def make(folder: Path, shape: Shape) -> Path:
    """The log's folder, with the samples in it; made once."""
    root = folder / f"mixed-{shape.records}"
    root.mkdir(parents=True, exist_ok=True)
    if not (root / MARKER).exists():
        pq.write_table(log_ends(shape), root / LOG_ENDS)
    return make_once(root, lambda number: _chunks(number, shape.rounds))


def log_ends(shape: Shape) -> pa.Table:
    """What a sampler would have seen of every topic partition, once a minute."""
    rows = [
        {"cluster": "", "topic": f"topic-{topic}", "partition": partition, "error": None}
        | {"sample_timestamp_ms": START_MS + turn * COMMIT_EVERY_MS, "start_offset": 0}
        | {"end_offset": 1_000 + (turn + SAMPLE_ROUNDS) * PRODUCED_PER_ROUND}
        for turn in range(0, shape.rounds, SAMPLE_ROUNDS)
        for topic in range(TOPICS)
        for partition in range(KEYS_PER_GROUP)
    ]
    return pa.Table.from_pylist(rows, schema=LOG_END_OFFSETS)


def _chunks(number: int, rounds: int) -> Iterator[tuple[int, bytes]]:
    groups = groups_of(number)
    commits, generations = _commits(groups), _generations(groups)
    for first in range(0, rounds, GENERATION_ROUNDS):
        count = min(GENERATION_ROUNDS, rounds - first)
        base = _base(number, first)
        begun = generations.filled(base, len(groups), first, 1)
        yield base, begun + commits.filled(base + len(groups), _per_round(number), first, count)


def _commits(groups: Sequence[int]) -> Round:
    made = Round()
    for place, group in enumerate(groups):
        at_ms = place * COMMIT_EVERY_MS // LARGE_GROUPS
        owned = {"producer_id": 1_000 + group, "producer_epoch": 0} if is_transactional(group) else {}
        made.commit(group, at_ms, **owned)
        if owned:
            batch = logs.Batch(records=[logs.marker(_VERDICT)], transactional=True, control=True, **owned)
            (found,) = made.found(made.add(batch, at_ms), struct.pack(">hh", 0, _VERDICT))
            made.verdicts.append((found + 2, group))
    return made


def _generations(groups: Iterable[int]) -> Round:
    made = Round(number_rounds=GENERATION_ROUNDS)
    share = KEYS_PER_GROUP // MEMBERS
    for group in groups:
        members = {
            f"member-{one}": {f"topic-{group % TOPICS}": list(range(one * share, (one + 1) * share))}
            for one in range(MEMBERS)
        }
        record = generation(f"group-{group:06}", _GENERATION, members, at=_STATE_MS - logs.NOW_MS)
        at = made.add(logs.Batch(records=[record]), 0)
        made.numbers += made.found(at, struct.pack(">i", _GENERATION))
        made.times += [(found, 0) for found in made.found(at, struct.pack(">q", _STATE_MS))]
    return made
