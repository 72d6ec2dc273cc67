"""Whatever bytes come: a verdict and never an exception; what is accepted can be read by the records room."""

import struct

import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st
from muster_coordinator.records.batch import check, encode_batch, iter_records
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.topics.machine import Accepted, Refused
from muster_coordinator.topics.partition import TopicPartition

from tests.topics.batch_bytes import T0, Rec, batch
from tests.topics.leader import NOW, Leader

blobs = st.none() | st.binary(max_size=80) | st.binary(min_size=120, max_size=140)
headers = st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple)
records = st.lists(st.tuples(blobs, blobs, headers), min_size=1, max_size=90)


def with_right_crc(data: bytes) -> bytes:
    return data[:17] + struct.pack(">I", crc32c.crc32c(data[21:])) + data[21:]


@given(st.binary(max_size=200))
@example(b"")
def test_random_bytes_get_a_verdict(data: bytes) -> None:
    assert isinstance(TopicPartition().offer(NOW, data, configs={}), Refused)


@settings(max_examples=300)
@given(records, st.data())
def test_a_damaged_batch_with_a_right_checksum_is_refused_or_readable(
    parts: list[tuple[bytes | None, bytes | None, tuple]], data: st.DataObject
) -> None:
    encoded = bytearray(encode_batch(parts, timestamp_ms=T0))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(21, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    result = TopicPartition().offer(NOW, with_right_crc(bytes(encoded)), configs={})
    if isinstance(result, Accepted):
        header = check(result.batch, in_log=False)
        if header.compression == 0:
            try:
                read = list(iter_records(result.batch))
            except MalformedError as error:
                assert "UTF-8" in str(error), error  # header names are not looked at, as in Kafka
            else:
                assert [r.offset for r in read] == list(range(header.count))
                assert max(-1, *(r.timestamp_ms for r in read)) == header.max_timestamp_ms


@given(records, st.lists(st.integers(-100_000, 100_000), min_size=90, max_size=90))
def test_what_the_records_room_writes_is_stored_unchanged(
    parts: list[tuple[bytes | None, bytes | None, tuple]], deltas: list[int]
) -> None:
    times = [T0 + delta for delta in deltas[: len(parts)]]
    encoded = encode_batch(parts, timestamp_ms=times[0], timestamps_ms=times)
    assert Leader().accept(encoded).batch == encoded


@given(st.lists(st.integers(-(2**42), 2**42), min_size=1, max_size=20))
@example([-(2**42)])
def test_the_stored_max_timestamp_is_that_of_the_newest_record(deltas: list[int]) -> None:
    configs = {"message.timestamp.after.max.ms": str(2**62)}
    sent = batch([Rec(delta_ms=delta) for delta in deltas], max_timestamp=0)
    stored = Leader(configs).accept(sent).batch
    assert check(stored).max_timestamp_ms == max(T0 + max(deltas), -1)
