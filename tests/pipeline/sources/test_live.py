"""Ranges of offsets over Fetch: exact rows for any cut, gaps and damage told, no endless loop. A fake log stands in."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_pipeline.decode.origin import Damage
from muster_pipeline.decode.segment import Account
from muster_pipeline.schemas.records import RECORDS
from muster_pipeline.sources import live
from muster_pipeline.sources.cluster import Fetched
from muster_pipeline.sources.errors import ClusterUnreachable, OffsetGone
from muster_pipeline.sources.offsets import admitted

from tests.pipeline import logs, oracle


class Broker:
    """Serves a log as brokers do: from the batch that holds the offset on, cut anywhere after the first batch."""

    def __init__(self, data: bytes, *, start: int = 0, bytes_max: int = 400) -> None:
        self.batches: list[tuple[int, int, bytes]] = []
        at = 0
        while at < len(data):
            size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            base = int.from_bytes(data[at : at + 8], "big")
            self.batches.append((base, base + int.from_bytes(data[at + 23 : at + 27], "big"), data[at : at + size]))
            at += size
        self.start = start
        self.end = self.batches[-1][1] + 1
        self.bytes_max = bytes_max
        self.fetches = 0

    def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        self.fetches += 1
        assert self.fetches < 5_000
        out = not self.start <= offset <= self.end
        found = [one for _, last, one in self.batches if last >= offset] if not out else []
        data = b"".join(found)[: max(self.bytes_max, len(found[0]) if found else 0)]
        return Fetched(data=data, high_watermark=self.end, log_start=self.start, out_of_range=out)


def log(count: int = 40) -> bytes:
    return logs.log_of(
        [
            logs.Batch(
                records=[logs.commit(f"g{n}", "t", k, n) for k in range(1 + n % 4)],
                codec=n % 5,
                gap=n % 3,
                epoch=n // 9,
            )
            for n in range(count)
        ]
    )


def read(broker: Broker, start: int, end: int, **more: Any) -> tuple[list[dict[str, Any]], list[Damage], Account]:
    found = list(live.pieces(broker, "t", live.origin("c", 0), start, end, strict=False, **more))
    batches = [piece.records for piece in found if piece.records is not None]
    damages = [damage for piece in found for damage in piece.damages]
    return pa.Table.from_batches(batches, RECORDS).to_pylist(), damages, found[-1].account


def wanted(data: bytes, start: int, end: int) -> list[dict[str, Any]]:
    rows = oracle.read(data, "c", 0, -1)
    return [{name: row[name] for name in RECORDS.names} for row in rows if start <= row["log_offset"] < end]


@given(st.integers(0, 180), st.integers(0, 180), st.integers(1, 3000))
@settings(max_examples=60, deadline=None)
def test_any_range_gives_exactly_its_rows(one: int, other: int, bytes_max: int) -> None:
    data = log()
    broker = Broker(data, bytes_max=bytes_max)
    start, end = sorted((min(one, broker.end), min(other, broker.end)))
    rows, damages, _ = read(broker, start, end)
    assert damages == []
    assert rows == wanted(data, start, end)


def test_deleted_offsets_are_a_row_of_their_own_or_the_end() -> None:
    broker = Broker(log(), start=30)
    rows, damages, _ = read(broker, 5, broker.end)
    assert rows == wanted(log(), 30, broker.end)
    assert [(one.scope, one.reason, one.first_offset, one.last_offset) for one in damages] == [
        ("gap", "retention_gap", 5, 29)
    ]
    with pytest.raises(OffsetGone, match=r"offsets 5 to 29 .* were deleted"):
        list(live.pieces(broker, "t", live.origin("c", 0), 5, broker.end, strict=True))


def test_a_range_that_was_deleted_whole_ends() -> None:
    rows, damages, _ = read(Broker(log(), start=30), 5, 10)
    assert (rows, [(one.first_offset, one.last_offset) for one in damages]) == ([], [(5, 9)])


def test_a_log_that_became_shorter_is_never_taken_for_an_empty_one() -> None:
    broker = Broker(log())
    with pytest.raises(OffsetGone, match="ends before offset"):
        read(broker, broker.end + 5, broker.end + 10)


def test_damage_in_an_answer_costs_its_batch() -> None:
    data = log()
    good = Broker(data)
    victim = good.batches[17]
    at = data.index(victim[2])
    torn = data[: at + 70] + bytes([data[at + 70] ^ 1]) + data[at + 71 :]
    for bytes_max in (1, 500, 100_000):
        rows, damages, account = read(Broker(torn, bytes_max=bytes_max), 0, good.end)
        lost = range(victim[0], victim[1] + 1)
        assert rows == [row for row in wanted(data, 0, good.end) if row["log_offset"] not in lost]
        assert {damage.reason for damage in damages} == {"crc"}
        assert account.balanced()


class Mute:
    """Answers without data, or with nothing but noise, for ever."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        return Fetched(data=self.data, high_watermark=10_000_000, log_start=0, out_of_range=False)


@pytest.mark.parametrize("data", [b"", b"\x02" * 200])
def test_no_progress_has_an_end(data: bytes) -> None:
    with pytest.raises(ClusterUnreachable):
        read(Mute(data), 0, 10_000_000)  # type: ignore[arg-type]


@given(
    st.dictionaries(st.integers(0, 20).map(str), st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=20),
    st.integers(1, 300),
)
def test_admission_moves_forward_within_the_budget_until_all_is_read(
    places: dict[str, tuple[int, int]], rows: int
) -> None:
    start = {number: place[0] for number, place in places.items()}
    ends = {number: place[1] for number, place in places.items()}
    for _ in range(1_100):
        found = admitted(start, ends, rows)
        moved = sum(found.values()) - sum(start.values())
        assert all(start[number] <= at <= max(start[number], ends[number]) for number, at in found.items())
        assert moved <= rows
        if moved == 0:
            break
        start = found
    assert all(start[number] >= end for number, end in ends.items())
    assert admitted(start, ends, None) == start


def test_everything_at_once_without_a_limit() -> None:
    assert admitted({"0": 5}, {"0": 9, "1": 3}, None) == {"0": 9, "1": 3}


def pieces_of(broker: Broker) -> Iterator[object]:
    return live.pieces(broker, "t", live.origin("c", 0), 0, broker.end, strict=False, columns=frozenset({"group_id"}))


def test_the_columns_asked_for_and_the_offset() -> None:
    names = {name for piece in pieces_of(Broker(log())) if piece.records for name in piece.records.schema.names}  # type: ignore[attr-defined]
    assert names == {"group_id", "log_offset"}
