"""A coordinator's clock that is wrong: bounded, told, and nothing that it touches is called exact."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_pipeline.transforms.arrays import ints
from muster_pipeline.transforms.clock import Clock
from muster_pipeline.transforms.fold import PartitionFold
from muster_pipeline.transforms.limits import CLOCK_JUMP_MAX_MS, CLOCK_WITNESSES
from muster_pipeline.transforms.log_end_offsets import LogEndSamples

from tests.pipeline.decode.test_kafka_records import table as group_table
from tests.pipeline.fleet import group_bytes
from tests.pipeline.tables import oracle
from tests.pipeline.tables.generated import DECODERS, SETTINGS, START_MS, commit, cut, fold, log, log_end_table, records

Row = dict[str, Any]
DAY_MS = 86_400_000
KEY = ("g", "t", 0)


def minutes(count: int, wrong: dict[int, int]) -> list[Row]:
    """A commit every minute; some rows' times are off by so many ms."""
    rows = log([(commit(KEY, 10 * n), 60_000, 0) for n in range(count)])
    for place, apart in wrong.items():
        rows[place]["append_timestamp_ms"] += apart
    return rows


def findings(rows: list[Row]) -> list[tuple[int | None, int | None, str]]:
    made = PartitionFold(7, SETTINGS, LogEndSamples(None, "c"), DECODERS)
    made.feed(records(rows))
    made.finish()
    assert {one.reason for one in made.findings} <= {"clock"}
    return [(one.first_offset, one.last_offset, one.detail) for one in made.findings]


def test_one_record_a_day_ahead_does_not_spoil_its_log_partition() -> None:
    samples = [("t", 0, START_MS + n * 60_000 + 30_000, 10 * n + 5, None) for n in range(62)]
    good, bad = minutes(60, {}), minutes(60, {30: DAY_MS})
    expected, made = (fold([rows], log_end_table(samples)) for rows in (good, bad))
    assert made["commit_rate"].num_rows == expected["commit_rate"].num_rows - 1, "it counts into the minute before"
    for name in ("minute_ms", "at_ms", "committed_offset", "lag", "quality"):
        kept = [one for one in made["lag"].to_pylist() if one["detail"] != "clock"]
        others = {row["minute_ms"]: row for row in expected["lag"].to_pylist()}
        assert all(row[name] == others[row["minute_ms"]][name] for row in kept), name
    touched = [row for row in made["lag"].to_pylist() if row["detail"] == "clock"]
    assert 1 <= len(touched) <= 2
    assert {row["quality"] for row in touched} == {"lower_bound"}
    assert max(made["lag"]["at_ms"].to_pylist()) < START_MS + DAY_MS
    ((first, last, text),) = findings(bad)
    assert (first, last) == (130, 130)
    assert "86,4" in text


@pytest.mark.parametrize("place", [0, 1, 30, 58])
def test_wherever_it_is(place: int) -> None:
    rows = minutes(60, {place: DAY_MS})
    assert [one[:2] for one in findings(rows)] == [(100 + place, 100 + place)]
    assert max(fold([rows])["commit_rate"]["minute_ms"].to_pylist()) < START_MS + DAY_MS


def test_a_log_that_was_idle_jumps_and_nothing_is_wrong() -> None:
    events = [(commit(KEY, n), 60_000 if n % 10 else DAY_MS, 0) for n in range(100)]
    assert findings(log(events)) == []
    made = fold([log(events)])
    assert made["commit_rate"]["minute_ms"].to_pylist()[-1] > START_MS + 9 * DAY_MS


def test_a_burst_that_is_shorter_than_what_follows_is_one_finding() -> None:
    rows = minutes(90, dict.fromkeys(range(30, 50), DAY_MS))
    assert [one[:2] for one in findings(rows)] == [(130, 149)]
    assert findings(minutes(90, dict.fromkeys(range(30, 50), -DAY_MS)))[0][:2] == (130, 130), "told at its beginning"


def test_a_coordinator_that_was_ahead_for_longer_is_believed_and_then_told() -> None:
    """The clock cannot go back; that those after it are a day behind is a finding, and their lag is unknown."""
    ahead = range(10, 10 + CLOCK_WITNESSES + 5)
    rows = log([(commit(KEY, n), 1_000, 0) for n in range(len(ahead) + 60)])
    for place in ahead:
        rows[place]["append_timestamp_ms"] += DAY_MS
    ((first, _, text),) = findings(rows)
    assert first == 100 + ahead.stop
    assert "behind" in text
    made = fold([rows], log_end_table([("t", 0, START_MS + n * 60_000, 5_000, None) for n in range(60)]))
    last = made["lag"].to_pylist()[-1]
    assert (last["quality"], last["detail"], last["lag"]) == ("unknown", "clock", None)


def test_a_rebalance_that_ends_at_a_wrong_time_has_no_duration() -> None:
    one = {b"t" * 16: [0]}
    parts = [
        group_bytes.member("g", "m", ["t"]),
        group_bytes.epoch("g", 1),
        group_bytes.target_epoch("g", 1),
        group_bytes.current("g", "m", 1, one, {}),
        group_bytes.epoch("g", 2),
        group_bytes.target_epoch("g", 2),
        group_bytes.current("g", "m", 2, one, {}),
    ]
    rows = group_table(*((part.key or b"", part.value) for part in parts)).to_pylist()
    for place, row in enumerate(rows):
        row |= {"group_id": "g", "append_timestamp_ms": START_MS + 1_000 * place + (DAY_MS if place == 3 else 0)}
    first, second = fold([rows])["rebalances"].to_pylist()
    assert (first["duration_class"], first["duration_ms"], first["started_at_ms"]) == ("unknown", None, None)
    assert first["ended_at_ms"] == START_MS + 2_000, "the record before"
    assert (second["duration_class"], second["duration_ms"]) == ("exact", 2_000)


STAMP = st.one_of(
    st.integers(0, 60_000), st.integers(0, 5 * CLOCK_JUMP_MAX_MS), st.sampled_from([DAY_MS, -DAY_MS, 2 * DAY_MS])
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 90_000), st.one_of(st.just(0), STAMP)), max_size=80), st.data())
def test_the_clock_is_the_plain_readers_wherever_the_log_is_cut(steps: list[tuple[int, int]], data: Any) -> None:
    at, rows = START_MS, []
    for n, (step, apart) in enumerate(steps):
        at += step
        rows.append({"append_timestamp_ms": at + apart, "log_offset": n})
    expected = oracle.Clock(rows)
    clock, held, told, wrong = Clock(), [], [], []
    for chunk in [*data.draw(cut(rows)), None]:
        held += [row["append_timestamp_ms"] for row in chunk or []]
        read = clock.read(ints(pa.array(held, pa.int64())), is_end=chunk is None)
        told += read.clock_ms.tolist()
        wrong += read.is_wrong.tolist()
        held = held[len(read.clock_ms) :]
    assert held == []
    assert told == expected.at
    assert set(np.flatnonzero(wrong).tolist()) == expected.wrong.keys()


@pytest.mark.computes
@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(data=st.data(), steps=st.lists(st.tuples(st.integers(0, 60_000), STAMP), min_size=1, max_size=50))
def test_tables_of_a_log_with_wrong_clocks_are_the_plain_readers(data: Any, steps: list[tuple[int, int]]) -> None:
    rows = log([(commit(KEY, n), step, 0) for n, (step, _) in enumerate(steps)])
    for row, (_, apart) in zip(rows, steps, strict=True):
        row["append_timestamp_ms"] += apart
    samples = [("t", 0, START_MS + 45_000 * n, n, None) for n in range(40)]
    whole, made = fold([rows], log_end_table(samples)), fold(data.draw(cut(rows)), log_end_table(samples))
    assert all(made[name].equals(table) for name, table in whole.items())
    commits, log_ends = oracle.Commits(rows), oracle.LogEnds(samples)
    for name, expected in (
        ("commit_rate", oracle.rate(rows, commits)),
        ("lag", oracle.lag(rows, commits, log_ends)),
        ("stalls", oracle.stalls(rows, commits, log_ends, SETTINGS.stall_min_ms)),
    ):
        told = [{key: row[key] for key in expected[0]} for row in made[name].to_pylist()] if expected else []
        assert told == expected, name
