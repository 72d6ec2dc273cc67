"""The exact bytes of protocol notes 5.5 and protocol notes 16: vectors that other implementations produced or read."""

import pytest
from muster_coordinator.records.batch import (
    CONTROL,
    TRANSACTIONAL,
    check,
    encode_batch,
    iter_records,
    parse_header,
    stamp,
)
from muster_coordinator.records.control import EndMarker, TransactionMarker, decode_control, marker_batch
from muster_coordinator.records.crc import crc32c
from muster_coordinator.records.keys import (
    GroupMetadataKey,
    OffsetCommitKey,
    decode_key,
    encode_group_key,
    encode_offset_key,
)
from muster_coordinator.records.offsets_log import (
    GroupMetadataValue,
    MetadataMember,
    OffsetCommitValue,
    decode_group_value,
    decode_offset_value,
    encode_group_value,
    encode_offset_value,
)
from muster_coordinator.records.varint import decode_varint, encode_varint

from tests.records.made import encode_end_marker

NOW_MS = 1_700_000_000_000
OFFSET_KEY = bytes.fromhex("000100016700017400000000")
OFFSET_V3 = bytes.fromhex("000300000000000000640000000500016d0000018bcfe56800")
OFFSET_V1 = bytes.fromhex("0001000000000000006400016d0000018bcfe568000000018bcfee8fc0")
GROUP_EMPTY = bytes.fromhex("00030008636f6e73756d657200000002ffffffff0000018bcfe5680000000000")
GROUP_ONE = bytes.fromhex(
    "00030008636f6e73756d657200000001000572616e676500026d310000018bcfe568000000000100026d31ffff000163000a2f3132372e30"
    "2e302e31000493e00000afc80000000d000000000001000174ffffffff000000190001000000010001740000000200000000000000"
    "01ffffffff"
)
BATCH_COMMIT = bytes.fromhex(
    "00000000000000000000005dffffffff0268fba4fd0000000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffff"
    "ffff00000001560000001800010001670001740000000032000300000000000000640000000500016d0000018bcfe5680000"
)
BATCH_TOMBSTONE = bytes.fromhex(
    "000000000000000000000044ffffffff02aef87f1c0000000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffff"
    "ffff0000000124000000180001000167000174000000000100"
)
BATCH_MARKER = bytes.fromhex(
    "000000000000000700000042ffffffff02954be1060030000000000000018bcfe568000000018bcfe5680000000000000003e80000ffff"
    "ffff000000012000000008000000010c00000000000300"
)
LIBRDKAFKA = bytes.fromhex(
    "00000000000000000000003f00000000029f24bf720000000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffff"
    "ffff000000011a000000026b0476310202680278"
)
KAFKA_TWO = bytes.fromhex(
    "0000000000000000000000480000000002601d12660000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffff"
    "ffff000000021a000000026b047631020268027810000a020104763200"
)
KAFKA_ABORT = bytes.fromhex(
    "0000000000000002000000420000000002864bb12d003000000000000001a1fbffc67d000001a1fbffc67d00000000000007d00000ffff"
    "ffff000000012000000008000000000c00000000000000"
)


def test_crc32c_of_the_check_string():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


@pytest.mark.parametrize(
    ("value", "hex_bytes"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (300, "d804"),
        (-300, "d704"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_varints(value, hex_bytes):
    assert encode_varint(value).hex() == hex_bytes
    assert decode_varint(bytes.fromhex(hex_bytes), 0) == (value, len(hex_bytes) // 2)


def test_offset_commit_key_and_values():
    assert encode_offset_key("g", "t", 0) == OFFSET_KEY
    assert decode_key(OFFSET_KEY) == OffsetCommitKey("g", "t", 0)
    assert encode_offset_value(100, 5, "m", NOW_MS) == OFFSET_V3
    assert decode_offset_value(OFFSET_V3) == OffsetCommitValue(100, 5, "m", NOW_MS)
    assert encode_offset_value(100, 5, "m", NOW_MS, NOW_MS + 600_000) == OFFSET_V1
    assert decode_offset_value(OFFSET_V1) == OffsetCommitValue(100, -1, "m", NOW_MS, NOW_MS + 600_000)


def test_group_metadata_key_and_values():
    assert encode_group_key("g").hex() == "0002000167"
    assert decode_key(bytes.fromhex("0002000167")) == GroupMetadataKey("g")
    empty = GroupMetadataValue("consumer", 2, None, None, NOW_MS, ())
    assert encode_group_value(empty) == GROUP_EMPTY
    assert decode_group_value(GROUP_EMPTY) == empty
    member = MetadataMember(
        "m1",
        None,
        "c",
        "/127.0.0.1",
        300_000,
        45_000,
        bytes.fromhex("000000000001000174ffffffff"),
        bytes.fromhex("000100000001000174000000020000000000000001ffffffff"),
    )
    one = GroupMetadataValue("consumer", 1, "range", "m1", NOW_MS, (member,))
    assert encode_group_value(one) == GROUP_ONE
    assert decode_group_value(GROUP_ONE) == one


def test_commit_batch_and_its_tombstone():
    assert encode_batch([(OFFSET_KEY, OFFSET_V3)], timestamp_ms=NOW_MS) == BATCH_COMMIT
    assert encode_batch([(OFFSET_KEY, None)], timestamp_ms=NOW_MS) == BATCH_TOMBSTONE
    assert check(BATCH_COMMIT).count == 1
    (record,) = iter_records(BATCH_TOMBSTONE)
    assert record == (0, NOW_MS, OFFSET_KEY, None, ())


def test_end_transaction_markers():
    marker = encode_end_marker(
        EndMarker(True, 3), producer_id=1000, producer_epoch=0, timestamp_ms=NOW_MS, base_offset=7
    )
    assert marker == BATCH_MARKER
    header = check(KAFKA_ABORT)
    assert (header.is_control, header.is_transactional, header.producer_id) == (True, True, 2000)
    assert header.attributes == TRANSACTIONAL | CONTROL
    (record,) = iter_records(KAFKA_ABORT)
    assert decode_control(record) == EndMarker(False, 0)
    assert record.offset == 2


def test_a_marker_is_byte_for_byte_that_of_a_real_kafka():
    header = check(KAFKA_ABORT)
    marker = TransactionMarker(header.producer_id, header.producer_epoch, EndMarker(False, 0), 1)
    assert stamp(marker_batch(marker, header.max_timestamp_ms), 2, header.leader_epoch) == KAFKA_ABORT


def test_batches_of_other_implementations_are_read_and_rebuilt():
    check(LIBRDKAFKA)
    (record,) = iter_records(LIBRDKAFKA)
    assert record == (0, NOW_MS, b"k", b"v1", (("h", b"x"),))
    header = check(KAFKA_TWO)
    assert (header.max_timestamp_ms, header.last_offset_delta, header.count) == (NOW_MS + 5, 1, 2)
    records = list(iter_records(KAFKA_TWO))
    assert records[1] == (1, NOW_MS + 5, None, b"v2", ())
    rebuilt = encode_batch(
        [(r.key, r.value, r.headers) for r in records],
        timestamp_ms=NOW_MS,
        timestamps_ms=[r.timestamp_ms for r in records],
        leader_epoch=0,
    )
    assert rebuilt == KAFKA_TWO


def test_a_stamp_moves_a_batch_without_touching_what_the_crc_covers():
    moved = stamp(LIBRDKAFKA, 41, 7)
    header = check(moved)
    assert (header.base_offset, header.leader_epoch, header.next_offset) == (41, 7, 42)
    assert moved[16:] == LIBRDKAFKA[16:]
    assert parse_header(LIBRDKAFKA)._replace(base_offset=41, leader_epoch=7) == header
