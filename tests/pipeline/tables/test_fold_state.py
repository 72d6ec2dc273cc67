"""A fold that is stored and taken up again gives the rows of one that was not, wherever; foreign bytes are refused."""

import hashlib
import os
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_pipeline.tables.catalog import DERIVED, TABLES
from muster_pipeline.transforms import clock
from muster_pipeline.transforms.fold import PartitionFold
from muster_pipeline.transforms.fold_state import ForeignState, packed, unpacked
from muster_pipeline.transforms.log_end_offsets import LogEndSamples

from tests.pipeline import decoding, logs
from tests.pipeline.store.test_live import log
from tests.pipeline.tables.generated import DECODERS, LOGS, SETTINGS, Row, cut, fold, records


@pytest.fixture(scope="module", autouse=True)
def _soon() -> Iterator[None]:
    """The clock believes a jump after three witnesses, else it would hold back all of a short log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "CLOCK_WITNESSES", 3)
        yield


NONE_SAMPLED = LogEndSamples(None, SETTINGS.cluster)


def fresh() -> PartitionFold:
    return PartitionFold(7, SETTINGS, NONE_SAMPLED, DECODERS)


def resumed(chunks: list[pa.Table]) -> dict[str, pa.Table]:
    """All tables, by a fold that is stored and taken up again after each chunk."""
    one = fresh()
    parts: dict[str, list[pa.Table]] = {name: [TABLES[name].schema.empty_table()] for name in DERIVED}
    for chunk in chunks:
        made = one.feed(chunk).tables
        data = packed(one)
        for name, rows in one.finish().items():
            assert rows.schema == TABLES[name].schema, "the end of a round does not touch what was stored"
        one = unpacked(data, NONE_SAMPLED, DECODERS)
        assert packed(one) == data
        for name, rows in made.items():
            parts[name].append(rows)
    for name, rows in one.finish().items():
        parts[name].append(rows)
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}


@settings(max_examples=40, deadline=None)
@given(data=st.data(), rows=LOGS)
def test_commits_taken_up_again_at_every_cut(data: Any, rows: list[Row]) -> None:
    whole = fold([rows])
    for name, table in resumed([records(chunk) for chunk in data.draw(cut(rows))]).items():
        assert table.equals(whole[name]), name


def test_groups_of_all_kinds_taken_up_again_after_each_record() -> None:
    """Classic and KIP-848 groups, broken records, a clock that jumps; each record is a round."""
    batches = [*log(0), logs.Batch(records=[logs.commit("g0", "t", 0, 9)], timestamp_ms=logs.NOW_MS + 86_400_000)]
    table = decoding.decode(logs.log_of(batches)).table
    whole = resumed([table])
    pieces = resumed([table.slice(at, 1) for at in range(table.num_rows)])
    for name in DERIVED:
        assert pieces[name].equals(whole[name]), name
    assert all(whole[name].num_rows for name in ("generations", "memberships", "rebalances", "expiry", "commits"))


@given(st.integers(0, 10**6), st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_a_flipped_bit_is_foreign(at: int, bit: int) -> None:
    data = bytearray(STORED)
    data[at % len(data)] ^= 1 << bit
    with pytest.raises(ForeignState, match="has changed"):
        unpacked(bytes(data), NONE_SAMPLED, DECODERS)


def stored() -> bytes:
    one = fresh()
    one.feed(decoding.decode(logs.log_of(log(0))).table)
    return packed(one)


STORED = stored()


class Runs:
    def __reduce__(self) -> Any:
        return os.system, ("false",)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (Runs(), "names posix.system"),
        (os.path.join, "names posixpath.join"),
        (np.zeros(3), "names numpy"),
        ([1, 2], "is of a list"),
    ],
)
def test_a_state_may_name_our_own_values_only(value: Any, told: str) -> None:
    """Whoever can write into the folder of tables must not run code in those who read it."""
    body = pickle.dumps(value)
    with pytest.raises(ForeignState, match=told):
        unpacked(hashlib.sha256(body).digest() + body, NONE_SAMPLED, DECODERS)


@pytest.mark.parametrize("size", [0, 5, 32, 33, 200])
def test_a_cut_state_is_foreign(size: int) -> None:
    body = STORED[32 : 32 + size]
    for data in (STORED[:size], hashlib.sha256(body).digest() + body):
        with pytest.raises(ForeignState):
            unpacked(data, NONE_SAMPLED, DECODERS)
