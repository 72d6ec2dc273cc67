"""The vectorised decoder equals a plain loop, column by column, on logs of every shape that is legal."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_pipeline.decode import limits
from muster_pipeline.schemas.records import RECORDS

from tests.pipeline import logs, oracle
from tests.pipeline.decoding import CLUSTER, LOG_PARTITION, decode

NAMES = st.one_of(
    st.sampled_from(["g", "orders", "a:b", "ünïcode-группа-组", "with space", "", "x" * 300]),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
)
STAMPS = st.integers(0, 1 << 50)
OFFSETS = st.integers(0, (1 << 63) - 1)


@st.composite
def commits(draw: st.DrawFn) -> logs.Record:
    key = logs.commit_key(draw(NAMES), draw(NAMES), draw(st.integers(0, 2**31 - 1)), draw(st.sampled_from([0, 1, 1])))
    version = draw(st.sampled_from([None, 0, 1, 2, 3, 3, 3, 4, 4]))
    value = None
    if version is not None:
        value = logs.commit_value(
            draw(OFFSETS),
            version=version,
            epoch=draw(st.integers(-1, 2**31 - 1)),
            metadata=draw(NAMES),
            commit_ms=draw(STAMPS),
            expire_ms=draw(st.one_of(st.just(-1), STAMPS)),
            topic_id=draw(st.one_of(st.none(), st.binary(min_size=16, max_size=16))),
            other_tag=draw(st.one_of(st.none(), st.binary(max_size=200))),
        )
    return finish(draw, key, value)


@st.composite
def others(draw: st.DrawFn) -> logs.Record:
    """Named kinds with any value, unknown kinds with any key."""
    kind = draw(st.sampled_from([*range(2, 24), 1000, 1001, 24, 999, 1002, -5]))
    key = kind.to_bytes(2, "big", signed=True)
    if kind in oracle.GROUP_FIRST:
        key += logs.text(draw(NAMES)) + (logs.text(draw(NAMES)) if kind in oracle.TWO_NAMES else b"")
    else:
        key += draw(st.binary(max_size=40))
    return finish(draw, key, draw(st.one_of(st.none(), st.binary(max_size=300))))


def finish(draw: st.DrawFn, key: bytes, value: bytes | None) -> logs.Record:
    return logs.Record(
        key=key,
        value=value,
        delta_ms=draw(st.sampled_from([0, 1, 63, 64, 1 << 40, -5])),
        skip=draw(st.sampled_from([0, 0, 0, 1, 200])),
        headers=draw(st.sampled_from([0, 0, 0, 0, 2])),
    )


@st.composite
def batches(draw: st.DrawFn) -> logs.Batch:
    producer = draw(st.sampled_from([-1, 0, 1 << 40]))
    shape = {
        "epoch": draw(st.integers(0, 3)),
        "timestamp_ms": draw(st.integers(1 << 41, 1 << 42)),
        "append_time": draw(st.booleans()),
        "horizon": draw(st.booleans()),
        "producer_id": producer,
        "producer_epoch": -1 if producer < 0 else draw(st.integers(0, 2**15 - 1)),
        "gap": draw(st.sampled_from([0, 0, 0, 5, 1 << 20])),
        "end_gap": draw(st.sampled_from([0, 0, 3])),
    }
    if draw(st.integers(0, 9)) == 0:
        return logs.Batch(records=[logs.marker(draw(st.integers(0, 1)))], transactional=True, control=True, **shape)
    records = draw(st.lists(st.one_of(commits(), commits(), commits(), others()), max_size=12))
    return logs.Batch(
        records=records, codec=draw(st.sampled_from(logs.CODECS)), transactional=draw(st.booleans()), **shape
    )


@pytest.mark.computes
@pytest.mark.slow
@given(st.lists(batches(), max_size=25), st.sampled_from([0, 12345]))
@settings(max_examples=120, deadline=None)
def test_every_column_of_every_record_is_equal(written: list[logs.Batch], base: int) -> None:
    epochs = sorted(batch.epoch for batch in written)
    rising = [dataclasses.replace(batch, epoch=epoch) for batch, epoch in zip(written, epochs, strict=True)]
    data = logs.log_of(rising, base)
    found = decode(data, base)
    assert found.damages == []
    assert found.rows == [
        {name: row[name] for name in RECORDS.names} for row in oracle.read(data, CLUSTER, LOG_PARTITION, base)
    ]
    assert found.account.bytes_decoded == len(data)
    assert found.account.batches == len(written)


def busy_log(count: int, per_batch: int, codec: int = 0) -> list[logs.Batch]:
    """Commits of many groups, `per_batch` in each batch."""
    return [
        logs.Batch(
            records=[
                logs.commit(f"group-{(n + k) % 97}", f"topic-{k % 7}", k % 5, n * 10 + k) for k in range(per_batch)
            ],
            codec=codec,
            timestamp_ms=logs.NOW_MS + n,
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("codec", logs.CODECS)
def test_windows_and_chunks_do_not_show(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows whether the segment is read at once or in many small windows, inflated at once or in pieces."""
    data = logs.log_of([*busy_log(300, 7, codec), *busy_log(3, 900, codec), *busy_log(100, 1, codec)])
    whole = decode(data)
    assert whole.rows == [
        {name: row[name] for name in RECORDS.names} for row in oracle.read(data, CLUSTER, LOG_PARTITION, 0)
    ]
    monkeypatch.setattr("muster_pipeline.decode.segment.WINDOW_BYTES", 1500)
    monkeypatch.setattr("muster_pipeline.decode.chunk.CHUNK_BYTES_MAX", 4000)
    small = decode(data)
    assert small.table.equals(whole.table)
    assert small.account == whole.account


def test_a_window_reads_past_its_size_only_for_a_batch_that_is_larger() -> None:
    assert limits.WINDOW_BYTES < limits.BATCH_BYTES_MAX
    records = [logs.commit("g", "t" * 20_000, n, n) for n in range(250)]
    data = logs.log_of([logs.Batch(records=records), *busy_log(20, 3)])
    assert len(data) > limits.WINDOW_BYTES
    found = decode(data)
    assert len(found.rows) == 250 + 60
    assert found.damages == []


def test_columns_that_nobody_asked_for_are_not_made() -> None:
    from muster_pipeline.decode.origin import Origin
    from muster_pipeline.decode.segment import Segment, decode_segment, reader

    data = logs.log_of(busy_log(5, 5))
    origin = Origin(cluster="c", log_partition=0, file="f", segment_base=0)
    wanted = frozenset({"group_id", "committed_offset", "log_offset"})
    pieces = decode_segment(reader(data), Segment(origin=origin, size=len(data), next_base=None), wanted)
    first = next(piece.records for piece in pieces if piece.records is not None)
    assert set(first.schema.names) == wanted
    assert first.num_rows == 25
