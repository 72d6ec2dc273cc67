"""Rounds with samples of log end offsets that come one after the other: after each, the rows of a batch over all
records and samples up to then, from a stored state; what no later sample can change is told once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_pipeline.tables.catalog import DERIVED, TABLES
from muster_pipeline.transforms import clock, limits
from muster_pipeline.transforms.fold import PartitionFold
from muster_pipeline.transforms.fold_state import packed, unpacked
from muster_pipeline.transforms.log_end_offsets import LogEndSamples
from muster_pipeline.verify.tables import in_order

from tests.pipeline.tables import oracle
from tests.pipeline.tables.generated import (
    DECODERS,
    LOGS,
    SAMPLE_LISTS,
    SETTINGS,
    START_MS,
    Row,
    commit,
    cut,
    fold,
    log,
    log_end_table,
    records,
)

Sample = tuple[str, int, int, int, int | None]
Tables = dict[str, pa.Table]


@pytest.fixture(scope="module", autouse=True)
def _soon() -> Iterator[None]:
    """Short horizons, so that a log of an hour has rows on both sides of each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "CLOCK_WITNESSES", 3)
        for where, behind, witness in (
            (limits, "LAG_SAMPLE_BEHIND_MAX_MS", "LAG_WITNESS_MS"),
            (oracle, "BEHIND_MS", "WITNESS_MS"),
        ):
            patch.setattr(where, behind, 400_000)
            patch.setattr(where, witness, 90_000)
        patch.setattr(limits, "LATE_SAMPLE_MS", 20_000)
        yield


@dataclass
class Stream:
    """The rounds of one log partition, as `job.rounds` has them."""

    rows: list[Row] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    state: bytes | None = None
    frontier_ms: int = 0
    told: dict[str, list[pa.Table]] = field(default_factory=dict)
    wholes: int = 0
    tails: Tables = field(default_factory=dict)
    open_points: int = 0

    def round(self, rows: Sequence[Row], samples: Sequence[Sample]) -> Tables:
        """The tables after it."""
        self.samples += samples
        known = log_end_table(self.samples) if self.samples else None
        log_ends = LogEndSamples(known, SETTINGS.cluster, more_follow=True)
        one = None
        if self.state is not None and all(sample[2] > self.frontier_ms for sample in samples):
            one = unpacked(self.state, log_ends, DECODERS)
        if one is None:
            self.wholes += 1
            one = PartitionFold(7, SETTINGS, log_ends, DECODERS)
            self.told = {name: [TABLES[name].schema.empty_table()] for name in DERIVED}
            self._tell(one.feed(records(self.rows)).tables)
        self.rows += rows
        self._tell(one.feed(records(rows)).tables)
        self._tell(one.settle())
        self.state, self.frontier_ms, self.open_points = packed(one), one.frontier_ms, one.open_points
        self.tails = one.finish()
        return {name: pa.concat_tables([*parts, self.tails[name]] if name in self.tails else parts)
                for name, parts in self.told.items()}  # fmt: skip

    def batch(self) -> Tables:
        return fold([self.rows], log_end_table(self.samples))

    def _tell(self, made: Tables) -> None:
        for name, rows in made.items():
            self.told[name].append(rows)


def equal(found: Tables, expected: Tables) -> None:
    for name, rows in expected.items():
        one, other = in_order(name, found[name]), in_order(name, rows)
        assert one.equals(other), (name, one.to_pylist(), other.to_pylist())


@settings(max_examples=30, deadline=None)
@given(data=st.data(), rows=LOGS, samples=SAMPLE_LISTS)
def test_a_batch_after_every_round_wherever_records_and_samples_are_cut(
    data: Any, rows: list[Row], samples: list[Sample]
) -> None:
    chunks = data.draw(cut(rows))
    times = st.integers(START_MS - 100_000, START_MS + 1_500_000)
    uptos = sorted(data.draw(st.lists(times, min_size=len(chunks), max_size=len(chunks))))
    stream, before = Stream(), 0
    for chunk, upto in zip(chunks, uptos, strict=True):
        found = stream.round(chunk, [one for one in samples if before < one[2] <= upto])
        equal(found, stream.batch())
        before = upto


@settings(max_examples=30, deadline=None)
@given(rows=LOGS, samples=SAMPLE_LISTS)
def test_the_horizons_are_the_oracles(rows: list[Row], samples: list[Sample]) -> None:
    expected = oracle.lag(rows, oracle.Commits(rows), oracle.LogEnds(samples))
    made = fold([rows], log_end_table(samples))["lag"].to_pylist()
    names = expected[0].keys() if expected else ()
    assert [{name: row[name] for name in names if name in row} for row in made] == expected


EVERY_MS = 30_000
AHEAD = ("g", "ahead", 0)
"""Committed offsets that no sample reaches, as after a topic was created again."""
UNSAMPLED = ("g", "unsampled", 0)
REMOVED = ("h", "t", 1)


def rounds(count: int) -> Iterator[tuple[list[Row], list[Sample]]]:
    """A sample of each partition, then what was committed since the round before."""
    every: list[list[tuple[Row, int, int]]] = []
    for number in range(count):
        gone = None if number % 7 == 5 else number
        keys = [(("g", "t", 0), number), (("h", "t", 1), gone), (AHEAD, 10**6), (UNSAMPLED, number)]
        every.append([(commit(key, offset), EVERY_MS // 4, 0) for key, offset in keys])
    rows = log([one for events in every for one in events])
    for number in range(count):
        mine = rows[4 * number : 4 * number + 4]
        at_ms = mine[-1]["append_timestamp_ms"] - EVERY_MS // 8
        places = (("t", 0, 2 * number), ("t", 1, number + 3), ("ahead", 0, 5))
        yield mine, [(topic, partition, at_ms, end, 0) for topic, partition, end in places]


@pytest.mark.timeout(300)
def test_a_stream_that_samples_each_round_goes_on_and_keeps_little() -> None:
    """240 rounds of 30 s; the newest record is behind the sample of its round."""
    stream, sizes, tails, opened = Stream(), [], [], []
    for number, (rows, samples) in enumerate(rounds(240)):
        found = stream.round(rows, samples)
        sizes.append(len(stream.state or b""))
        tails.append(stream.tails["lag"].num_rows)
        opened.append(stream.open_points)
        if number % 40 == 39:
            equal(found, stream.batch())
    assert stream.wholes == 1
    final = sum(part.num_rows for part in stream.told["lag"])
    assert final > 0.9 * found["lag"].num_rows, "rows of lag are appended"
    assert {"exact", "unknown"} <= set(found["lag"]["quality"].to_pylist())
    assert {"committed_past_end", "no_samples"} <= set(found["lag"]["detail"].to_pylist())
    assert max(opened[60:]) == max(opened[160:]) <= 20, "what is undecided does not grow"
    assert max(tails[160:]) <= 30
    assert max(sizes[60:]) < 1.1 * min(sizes[60:])


@pytest.mark.parametrize(("late_ms", "wholes"), [(19_999, 1), (20_000, 2)])
def test_a_sample_that_is_older_than_what_is_final_is_noticed(late_ms: int, wholes: int) -> None:
    """A broker's clock ahead of the sampler's, by less and by as much as rows are kept open for."""
    (first, samples), (second, _) = rounds(2)
    stream = Stream()
    stream.round(first, [(*one[:2], START_MS - 10**7, *one[3:]) for one in samples])
    late = [(*one[:2], first[-1]["append_timestamp_ms"] - late_ms, *one[3:]) for one in samples]
    equal(stream.round(second, late), stream.batch())
    assert stream.wholes == wholes


def test_the_first_samples_of_all_cost_one_whole_round() -> None:
    (first, _), (second, samples) = rounds(2)
    stream = Stream()
    stream.round(first, [])
    equal(stream.round(second, samples), stream.batch())
    assert stream.wholes == 2
