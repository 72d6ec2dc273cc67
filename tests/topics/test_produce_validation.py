"""Each row of Kafka's produce validation that a partition decides (numbers: docs and data_plane table), by name."""

import struct

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.limits import BATCH_BYTES_MAX, MIB
from muster_coordinator.records.batch import HEADER_BYTES
from muster_coordinator.records.compress import compress
from muster_coordinator.topics import limits
from muster_coordinator.topics.machine import Accepted, RecordError, refusal

from tests.topics.batch_bytes import (
    T0,
    Rec,
    attributes_of,
    batch,
    crc_is_right,
    idempotent,
    max_timestamp_of,
    varint,
)
from tests.topics.leader import DAY_MS, HOUR_MS, Leader

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
LIBRDKAFKA = bytes.fromhex(
    "00000000000000000000003f00000000029f24bf720000000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff"
    "000000011a000000026b0476310202680278"
)
AS_SENT = bytes.fromhex(
    "000000000000000000000048ffffffff0252a015a50000000000010000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff"
    "000000021a000000026b047631020268027810000a020104763200"
)
AS_KAFKA_STORED_IT = bytes.fromhex(
    "0000000000000000000000480000000002601d12660000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff"
    "000000021a000000026b047631020268027810000a020104763200"
)


def code(records: bytes, **configs: str) -> Code:
    return Leader(configs).refuse(records).code


def shown(records: bytes, **configs: str) -> bool:
    """Does the refusal carry the log start?"""
    return refusal(Leader(configs).refuse(records), 5).log_start_offset == 5


# Accepted.


def test_librdkafkas_batch_is_stored_as_it_came() -> None:
    assert Leader().accept(LIBRDKAFKA).batch == LIBRDKAFKA


def test_a_wrong_max_timestamp_is_recomputed_as_kafka_does() -> None:
    stored = Leader().accept(AS_SENT).batch
    assert stored[:12] + bytes(4) + stored[16:] == AS_KAFKA_STORED_IT


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_compressed_batch_is_not_looked_into(codec: int) -> None:
    data = batch(3, attributes=codec, body=b"whatever the codec made of it")
    assert Leader().accept(data).batch == data


def test_headers_null_keys_null_values_and_big_records_are_walked() -> None:
    records = [
        Rec(key=None, value=None),
        Rec(key=b"", value=b"x" * 20_000, headers=[(b"h", None), (b"", b"y" * 300)]),
        Rec(key=b"k" * 9_000, value=b"", delta_ms=HOUR_MS),
        *(Rec(delta_ms=i) for i in range(9_000)),
    ]
    data = batch(records)
    assert Leader().accept(data).batch == data


def test_create_time_answers_no_append_time() -> None:
    assert Leader().accept(batch()).log_append_time_ms == -1


# Row 5: one whole batch of the right format.


@pytest.mark.parametrize("records", [b"", b"\0" * 11, batch()[:-1], batch()[:61], batch()[:13], batch(length=100_000)])
def test_row_5_no_complete_batch(records: bytes) -> None:
    assert code(records) == Code.INVALID_RECORD
    assert not shown(records)


@pytest.mark.parametrize("second", [batch(), batch(2, base_offset=1), batch(magic=1)])
def test_row_5_more_than_one_batch(second: bytes) -> None:
    assert code(batch() + second) == Code.INVALID_RECORD
    assert not shown(batch() + second)


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 11, b"\0" * 40, b"\xff" * 40, batch()[:-1]])
def test_bytes_behind_the_batch_that_form_no_batch_are_dropped(tail: bytes) -> None:
    assert Leader().accept(batch() + tail).batch == batch()


@pytest.mark.parametrize("magic", [0, 1])
def test_row_5_old_formats(magic: int) -> None:
    assert code(batch(magic=magic)) == Code.INVALID_RECORD
    assert not shown(batch(magic=magic))


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_row_5_formats_of_the_future_are_corrupt(magic: int) -> None:
    assert code(batch(magic=magic)) == Code.CORRUPT_MESSAGE


# Rows 11 to 16.


def test_row_11_base_offset_is_zero() -> None:
    assert code(batch(base_offset=1)) == Code.INVALID_RECORD
    assert shown(batch(base_offset=1))


def test_row_12_the_whole_batch_counts_and_equal_passes() -> None:
    data = batch([Rec(value=b"x" * 1000)])
    assert code(data, **{"max.message.bytes": str(len(data) - 1)}) == Code.MESSAGE_TOO_LARGE
    assert not shown(data, **{"max.message.bytes": str(len(data) - 1)})
    assert Leader({"max.message.bytes": str(len(data))}).accept(data)


def test_row_12_the_compressed_size_counts() -> None:
    data = batch(1, attributes=ZSTD, body=b"x" * 1000)
    assert code(data, **{"max.message.bytes": "1000"}) == Code.MESSAGE_TOO_LARGE
    assert Leader({"max.message.bytes": "1061"}).accept(data)


def test_row_12_nothing_passes_the_hard_limit() -> None:
    data = batch(1, attributes=ZSTD, body=bytes(BATCH_BYTES_MAX - 60))
    assert code(data, **{"max.message.bytes": str(2**31 - 1)}) == Code.MESSAGE_TOO_LARGE


def test_row_12_the_default_is_kafkas() -> None:
    assert Leader().accept(batch(1, attributes=ZSTD, body=bytes(1_048_588 - 61)))
    assert code(batch(1, attributes=ZSTD, body=bytes(1_048_588 - 60))) == Code.MESSAGE_TOO_LARGE


def test_row_13_a_wrong_checksum() -> None:
    assert code(batch(crc=1)) == Code.CORRUPT_MESSAGE
    assert not shown(batch(crc=1))


@pytest.mark.parametrize("position", range(21, len(batch()), 3))
def test_row_13_any_flipped_bit_behind_the_checksum_is_seen(position: int) -> None:
    data = bytearray(batch())
    data[position] ^= 4
    assert code(bytes(data)) == Code.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [48, 14, 13, 0, -1, -(2**31)])
def test_row_13_a_length_shorter_than_the_header(length: int) -> None:
    assert code(batch(length=length)) == Code.CORRUPT_MESSAGE


@pytest.mark.parametrize(("count", "last_delta"), [(2, 0), (1, 1), (0, -1), (-1, -2), (0, 0), (2**31 - 1, 2**31 - 2)])
def test_row_14_the_count_fits_the_last_offset_delta(count: int, last_delta: int) -> None:
    data = batch(1, count=count, last_offset_delta=last_delta)
    assert code(data) == Code.INVALID_RECORD
    assert shown(data)


def test_row_14_an_empty_compressed_batch_is_empty_too() -> None:
    assert code(batch(1, count=0, last_offset_delta=-1, attributes=ZSTD, body=b"z")) == Code.INVALID_RECORD


def test_row_15_control_batches_are_not_for_producers() -> None:
    assert code(batch(attributes=0x20)) == Code.INVALID_RECORD
    assert code(batch(attributes=0x30)) == Code.INVALID_RECORD


def test_a_delete_horizon_would_redefine_the_base_timestamp() -> None:
    assert code(batch(attributes=0x40)) == Code.INVALID_RECORD


def test_attribute_bits_without_meaning_are_stored_as_sent() -> None:
    assert Leader().accept(batch(attributes=0x80)).batch == batch(attributes=0x80)


def test_row_16_a_producer_id_needs_a_sequence_and_an_epoch() -> None:
    assert code(batch(producer_id=1, producer_epoch=0, sequence=-1)) == Code.INVALID_RECORD
    assert code(batch(producer_id=1, producer_epoch=-1, sequence=0)) == Code.INVALID_RECORD


def test_a_sequence_without_a_producer_id_is_ignored() -> None:
    leader = Leader()
    assert [leader.produce(batch(sequence=9)) for _ in range(3)] == [0, 1, 2]


def test_the_leader_epoch_in_a_produced_batch_is_ignored() -> None:
    leader = Leader()
    leader.produce(batch(epoch=77))
    stored = leader.log[0]
    assert not isinstance(stored, bytes)
    assert struct.unpack_from(">i", stored.batch, 12) == (1,)


# Row 17.


def test_row_17_a_compacted_topic_needs_keys_and_every_bad_record_is_named() -> None:
    data = batch([Rec(), Rec(key=None), Rec(key=b""), Rec(key=None)])
    refused = Leader({"cleanup.policy": "compact,delete"}).refuse(data)
    assert refused.code == Code.INVALID_RECORD
    assert [e.record for e in refused.record_errors] == [1, 3]
    assert refused.message
    assert Leader().accept(data)


def compressed(codec: int, records: list[Rec], *, count: int | None = None) -> bytes:
    body = compress(codec, batch(records)[HEADER_BYTES:])
    return batch(len(records) if count is None else count, attributes=codec, body=body)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_row_17_holds_for_compressed_batches_of_a_compacted_topic(codec: int) -> None:
    """Kafka's LogValidator inflates every compressed batch, and asks every record of a compacted topic for its key."""
    compacted = {"cleanup.policy": "compact"}
    refused = Leader(compacted).refuse(compressed(codec, [Rec(), Rec(key=None), Rec(key=b""), Rec(key=None)]))
    assert (refused.code, [one.record for one in refused.record_errors]) == (Code.INVALID_RECORD, [1, 3])
    data = compressed(codec, [Rec(), Rec(key=b""), Rec(value=None)])
    assert Leader(compacted).accept(data)
    assert Leader({}).accept(compressed(codec, [Rec(key=None)])), "only there"
    times = {**compacted, **LOG_APPEND_TIME}
    assert Leader(times).refuse(compressed(codec, [Rec(key=None)])).code is Code.INVALID_RECORD


def test_a_compressed_batch_of_a_compacted_topic_has_the_records_that_it_says() -> None:
    compacted = {"cleanup.policy": "compact"}
    for count in (1, 3):
        refused = Leader(compacted).refuse(compressed(GZIP, [Rec(), Rec()], count=count))
        assert (refused.code, [one.record for one in refused.record_errors]) == (Code.INVALID_RECORD, [count - 1]), (
            count
        )
    assert Leader({}).accept(compressed(GZIP, [Rec(), Rec()], count=3))


def test_what_looking_for_keys_costs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of compressed zeros is no reason to walk a gigabyte on the loop: larger ones are taken as they are."""
    compacted = {"cleanup.policy": "compact"}
    body = len(batch([Rec(key=None)] * 20)[HEADER_BYTES:])
    for name, limit in (("KEYS_RECORDS_MAX", 20), ("KEYS_INFLATED_BYTES_MAX", body)):
        with monkeypatch.context() as patch:
            patch.setattr(limits, name, limit)
            assert Leader(compacted).refuse(compressed(GZIP, [Rec(key=None)] * 20)).code is Code.INVALID_RECORD
            assert Leader(compacted).accept(compressed(GZIP, [Rec(key=None)] * 21)), name
    bomb = batch(1, attributes=GZIP, body=compress(GZIP, bytes(64 * MIB)))
    assert Leader(compacted).accept(bomb)


def test_no_bytes_of_a_compressed_batch_are_more_than_refused() -> None:
    whole = compress(ZSTD, batch([Rec(), Rec(key=None)])[HEADER_BYTES:])
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        for at in range(0, len(whole), 3):
            damaged = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
            data = batch(2, attributes=codec, body=damaged)
            leader = Leader({"cleanup.policy": "compact"})
            answered = leader.offer(data)
            assert isinstance(answered, Accepted) or answered.code is Code.INVALID_RECORD, (codec, at)


def test_a_time_error_outweighs_a_missing_key_and_both_are_named() -> None:
    data = batch([Rec(key=None), Rec(delta_ms=2 * HOUR_MS)])
    refused = Leader({"cleanup.policy": "compact"}).refuse(data)
    assert refused.code == Code.INVALID_TIMESTAMP
    assert [e.record for e in refused.record_errors] == [0, 1]


# Row 18.


def test_row_18_too_new() -> None:
    assert Leader().accept(batch([Rec(delta_ms=HOUR_MS)]))
    refused = Leader().refuse(batch([Rec(), Rec(delta_ms=HOUR_MS + 1), Rec(delta_ms=5)]))
    assert refused.code == Code.INVALID_TIMESTAMP
    assert [e.record for e in refused.record_errors] == [1]


def test_row_18_too_old() -> None:
    configs = {"message.timestamp.before.max.ms": str(DAY_MS)}
    assert Leader(configs).accept(batch(base_timestamp=T0 - DAY_MS))
    refused = Leader(configs).refuse(batch([Rec(), Rec(delta_ms=-DAY_MS - 1), Rec(delta_ms=-DAY_MS)]))
    assert refused.code == Code.INVALID_TIMESTAMP
    assert [e.record for e in refused.record_errors] == [1]


def test_row_18_old_records_are_welcome_by_default() -> None:
    assert Leader().accept(batch(base_timestamp=1_356_998_400_000))
    assert Leader().accept(batch(base_timestamp=0))


def test_row_18_no_timestamp_is_always_in_time() -> None:
    configs = {"message.timestamp.before.max.ms": "1000"}
    data = batch(2, base_timestamp=-1, max_timestamp=-1)
    assert Leader(configs).accept(data).batch == data
    mixed = batch([Rec(), Rec(delta_ms=-T0 - 1)])
    assert Leader(configs).accept(mixed).batch == mixed
    compressed = batch(2, base_timestamp=-1, attributes=ZSTD, body=b"z", max_timestamp=-1)
    assert Leader(configs).accept(compressed)


def test_row_18_a_header_that_lies_about_the_newest_record_does_not_help() -> None:
    data = batch([Rec(delta_ms=HOUR_MS + 1)], max_timestamp=T0)
    assert code(data) == Code.INVALID_TIMESTAMP


def test_row_18_a_compressed_batch_is_judged_by_its_header() -> None:
    new = Leader().refuse(batch(2, attributes=ZSTD, body=b"z", max_timestamp=T0 + HOUR_MS + 1))
    assert (new.code, new.record_errors) == (Code.INVALID_TIMESTAMP, ())
    configs = {"message.timestamp.before.max.ms": "1000"}
    old = Leader(configs).refuse(batch(2, attributes=ZSTD, body=b"z", base_timestamp=T0 - 1001, max_timestamp=T0))
    assert old.code == Code.INVALID_TIMESTAMP
    assert [e.record for e in old.record_errors] == [0]


def test_a_refusal_names_at_most_so_many_records() -> None:
    refused = Leader().refuse(batch(5000, base_timestamp=T0 + DAY_MS))
    assert len(refused.record_errors) == limits.RECORD_ERRORS_MAX
    refused = Leader(LOG_APPEND_TIME).refuse(batch(5000, attributes=8))
    assert len(refused.record_errors) == limits.RECORD_ERRORS_MAX


# Row 19 and LogAppendTime.


def test_row_19_a_producer_must_not_set_log_append_time() -> None:
    refused = Leader(LOG_APPEND_TIME).refuse(batch(2, attributes=8))
    assert refused.code == Code.INVALID_TIMESTAMP
    assert [e.record for e in refused.record_errors] == [0, 1]


@pytest.mark.parametrize("codec", [0, ZSTD])
def test_a_log_append_time_topic_stamps_the_leaders_clock(codec: int) -> None:
    body = None if codec == 0 else b"z"
    accepted = Leader(LOG_APPEND_TIME).accept(batch(2, attributes=codec, body=body, base_timestamp=T0 - DAY_MS))
    assert accepted.log_append_time_ms == T0
    assert attributes_of(accepted.batch) == codec | 8
    assert max_timestamp_of(accepted.batch) == T0
    assert struct.unpack_from(">q", accepted.batch, 27) == (T0 - DAY_MS,), "base and deltas stay"
    assert crc_is_right(accepted.batch)


def test_a_log_append_time_topic_takes_any_create_time() -> None:
    assert Leader(LOG_APPEND_TIME).accept(batch(base_timestamp=T0 + 9 * DAY_MS))


@pytest.mark.parametrize("codec", [0, ZSTD])
def test_the_log_append_time_bit_is_cleared_on_a_create_time_topic(codec: int) -> None:
    body = None if codec == 0 else b"z"
    stored = Leader().accept(batch(1, attributes=8 | codec, body=body)).batch
    assert stored == batch(1, attributes=codec, body=body)


# Row 20.


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_row_20_an_unknown_codec_is_76(codec: int) -> None:
    assert code(batch(attributes=codec, body=b"z")) == Code.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("deltas", [(1,), (0, 0), (0, 2), (1, 0), (-1,), (0, 1, 2, 3, 3)])
def test_wrong_offset_deltas_of_uncompressed_records_are_87(deltas: tuple[int, ...]) -> None:
    refused = Leader().refuse(batch([Rec(offset_delta=d) for d in deltas]))
    assert refused.code == Code.INVALID_RECORD
    bad = next(i for i, d in enumerate(deltas) if d != i)
    assert [e.record for e in refused.record_errors] == [bad]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        varint(100) + b"\0" * 7,
        varint(6) + b"\0\0\0\2k\2",
        varint(-1) + b"\0" * 7,
        b"\x80" * 20,
        b"\xff" * 9 + b"\x7f" + b"\0" * 20,
        varint(6) + b"\0\0\0" + varint(-2) + varint(-1) + b"\0",
        varint(6) + b"\0\0\0" + varint(-1) + varint(-2) + b"\0",
        varint(7) + b"\0\0\0" + varint(-2) + b"x\1\0",
        varint(7) + b"\0\0\0\1" + varint(-2) + b"x\0",
        Rec().encode(0) + b"\0",
        varint(8) + b"\0\0\0\1\1" + varint(1) + varint(-1) + varint(-1),
        varint(7) + b"\0\0\0\1\1" + varint(-1) + b"\0",
        varint(8) + b"\0\0\0\1\1" + varint(2) + b"\0\1",
    ],
)
def test_records_whose_lengths_do_not_add_up_are_87(body: bytes) -> None:
    refused = Leader().refuse(batch(1, body=body))
    assert refused.code == Code.INVALID_RECORD
    assert isinstance(refused.record_errors[0], RecordError)


def test_a_timestamp_beyond_64_bits_is_87() -> None:
    data = batch([Rec(delta_ms=2**63 - 1)], base_timestamp=2**62, max_timestamp=0)
    assert code(data) == Code.INVALID_RECORD
    assert code(data, **LOG_APPEND_TIME) == Code.INVALID_RECORD


# Row 22.


def test_row_22_larger_than_a_segment() -> None:
    configs = {"max.message.bytes": str(4 * MIB), "segment.bytes": str(MIB)}
    data = batch(1, attributes=ZSTD, body=bytes(MIB))
    assert code(data, **configs) == Code.RECORD_LIST_TOO_LARGE
    assert not shown(data, **configs)
    assert Leader(configs).accept(batch(1, attributes=ZSTD, body=bytes(MIB - 61)))


# Row 24, until transactions exist.


def test_row_24_transactional_batches_are_refused_as_unverified() -> None:
    assert code(idempotent(0, attributes=0x10)) == Code.INVALID_TXN_STATE
    assert shown(idempotent(0, attributes=0x10))
