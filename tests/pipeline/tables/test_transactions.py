"""Commits of transactions against the oracle: outcomes, and effects in their order, wherever the log is cut."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_pipeline.transforms.arrays import NONE
from muster_pipeline.transforms.commits import CommitFold
from muster_pipeline.transforms.keys import KeyNumbers

from tests.pipeline.tables import oracle
from tests.pipeline.tables.generated import TRANSACTIONS, Row, commit, cut, log, marker, records

KEY = ("g", "t", 0)


def told(chunks: list[list[Row]], clock_ms: list[int]) -> tuple[list[Any], list[Any]]:
    """(outcomes, effects) of a fold."""
    keys = KeyNumbers()
    fold = CommitFold(keys)
    outcomes, effects, begin = [], [], 0
    for chunk in chunks:
        clock = np.array(clock_ms[begin : begin + len(chunk)], dtype=np.int64)
        begin += len(chunk)
        silver, found = fold.feed(records(chunk), clock)
        outcomes += silver.to_pylist()
        columns = (found.at, found.clock_ms, found.key, found.offset)
        for at, now, key, offset in zip(*(column.tolist() for column in columns), strict=True):
            effects.append((at, now, keys.keys[key], None if offset == NONE else offset))
    outcomes += fold.finish().to_pylist()
    return [(one["log_offset"], one["outcome"], one["resolved_at_offset"]) for one in outcomes], effects


def expected(rows: list[Row]) -> tuple[list[Any], list[Any], list[int]]:
    """(outcomes, effects, the clock at each row) by the oracle."""
    found = oracle.Commits(rows)
    outcomes = [(one["log_offset"], one["outcome"], one["resolved_at_offset"]) for one in found.rows]
    return outcomes, [effect[:4] for effect in found.effects], found.clock.at


@given(st.data(), TRANSACTIONS)
@settings(max_examples=400, deadline=None)
def test_outcomes_and_effects_are_those_of_the_oracle(data: st.DataObject, rows: list[Row]) -> None:
    outcomes, effects, clock_ms = expected(rows)
    assert told(data.draw(cut(rows)), clock_ms) == (outcomes, effects)


def test_the_commit_that_was_stored_later_stays_also_when_its_transaction_ends_first() -> None:
    """Of two producers, in one chunk and in one for each record."""
    events = [commit(KEY, 1, 1), commit(KEY, 2, 2), marker(2, 1), marker(1, 1)]
    rows = log([(event, 1_000, 0) for event in events])
    outcomes, effects, clock_ms = expected(rows)
    assert [one[1] for one in outcomes] == ["txn_committed", "txn_superseded"]
    assert told([rows], clock_ms) == told([[row] for row in rows], clock_ms) == (outcomes, effects)


def test_a_plain_commit_supersedes_one_that_is_pending_also_in_a_later_chunk() -> None:
    rows = log([(event, 1_000, 0) for event in (commit(KEY, 1, 1), commit(KEY, 2), marker(1, 1))])
    outcomes, effects, clock_ms = expected(rows)
    assert [one[1] for one in outcomes] == ["committed", "txn_superseded"]
    assert told([rows[:2], rows[2:]], clock_ms) == told([rows], clock_ms) == (outcomes, effects)


def test_a_transactional_commit_takes_effect_at_the_marker_s_time() -> None:
    rows = log([(event, 90_000, 0) for event in (commit(KEY, 1, 1), marker(1, 1))])
    outcomes, effects, clock_ms = expected(rows)
    assert effects == [(rows[1]["log_offset"], clock_ms[1], KEY, 1)]
    assert told([rows], clock_ms) == (outcomes, effects)


def test_a_tombstone_takes_effect_at_once_whoever_wrote_it() -> None:
    """Kafka's replay removes the offset and all that is pending of it, without a look at the producer."""
    events = [commit(KEY, 1), commit(KEY, 2, 1), commit(KEY, None, 2), marker(1, 1), marker(2, 0)]
    rows = log([(event, 1_000, 0) for event in events])
    outcomes, effects, clock_ms = expected(rows)
    assert [one[1] for one in outcomes] == ["committed", "txn_removed", "tombstone"]
    assert told([rows], clock_ms) == told([[row] for row in rows], clock_ms) == (outcomes, effects)
