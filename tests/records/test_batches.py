"""Batches: what is built is read back, kafka-python agrees, and nothing malformed passes."""

import gzip

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from muster_coordinator.records.batch import (
    HEADER_BYTES,
    check,
    encode_batch,
    iter_records,
    parse_header,
    stamp,
)
from muster_coordinator.records.crc import crc32c
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.inflate import GZIP, LZ4, SNAPPY, ZSTD, inflate, record_block
from muster_coordinator.records.limits import INFLATE_RATIO_MAX
from muster_coordinator.records.varint import (
    decode_unsigned,
    decode_varint,
    decode_varlong,
    encode_unsigned,
    encode_varint,
)

from tests.records.made import split_batches

optional_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3)
records = st.lists(st.tuples(optional_bytes, optional_bytes, headers), min_size=1, max_size=6)


@given(records, st.integers(0, 2**40), st.data())
def test_records_come_back_as_they_were(parts, base_offset, data):
    base_ms = data.draw(st.integers(0, 2**42))
    times = [data.draw(st.integers(0, 2**42)) for _ in parts]
    batch = encode_batch(parts, timestamp_ms=base_ms, timestamps_ms=times, base_offset=base_offset, leader_epoch=3)
    header = check(batch, in_log=False)
    assert header.next_offset == base_offset + len(parts)
    assert (header.max_timestamp_ms, header.base_timestamp_ms) == (max(times), base_ms)
    found = [(r.offset, r.timestamp_ms, r.key, r.value, list(r.headers)) for r in iter_records(batch)]
    assert found == [(base_offset + n, times[n], key, value, many) for n, (key, value, many) in enumerate(parts)]


@given(records)
def test_another_implementation_reads_the_same(parts):
    batch = encode_batch(parts, timestamp_ms=5, producer_id=9, producer_epoch=2, base_sequence=7)
    other = DefaultRecordBatch(batch)
    assert other.validate_crc()
    assert (other.producer_id, other.producer_epoch, other.base_sequence) == (9, 2, 7)
    assert [(r.key, r.value, r.headers) for r in other] == [(key, value, many) for key, value, many in parts]


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=4), st.data())
def test_no_cut_or_flipped_batch_passes_the_check(values, data):
    batch = encode_batch([(None, value) for value in values], timestamp_ms=1)
    cut = data.draw(st.integers(0, len(batch) - 1))
    with pytest.raises(MalformedError):
        check(batch[:cut])
    at = data.draw(st.integers(8, len(batch) - 1).filter(lambda at: not 12 <= at < 16))
    flipped = batch[:at] + bytes((batch[at] ^ 1 << data.draw(st.integers(0, 7)),)) + batch[at + 1 :]
    with pytest.raises(MalformedError):
        check(flipped)


@given(st.binary(max_size=120))
def test_no_bytes_make_the_reader_raise_anything_else(block):
    header = encode_batch([(None, b"x")] * 3, timestamp_ms=0)[:HEADER_BYTES]
    try:
        list(iter_records(header + block))
    except MalformedError:
        return


def test_batches_are_split_where_they_end():
    batches = [encode_batch([(None, b"v" * n)], timestamp_ms=1) for n in (1, 50, 3)]
    data = b"".join(batches)
    assert split_batches(data) == batches
    assert split_batches(data + batches[0][:30], allow_partial=True) == batches
    assert split_batches(b"") == []
    with pytest.raises(MalformedError):
        split_batches(data + batches[0][:30])
    with pytest.raises(MalformedError):
        split_batches(data + bytes(61))


def test_the_log_may_hold_fewer_records_than_offsets_and_a_producer_may_not():
    batch = bytearray(encode_batch([(None, b"x")], timestamp_ms=1))
    batch[23:27] = (4).to_bytes(4, "big")
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    assert check(bytes(batch)).next_offset == 5
    with pytest.raises(MalformedError):
        check(bytes(batch), in_log=False)


@given(st.integers(0, 2**62), st.integers(0, 2**31 - 1))
def test_a_stamped_batch_passes_the_check(offset, epoch):
    batch = stamp(encode_batch([(b"a", b"b")], timestamp_ms=1), offset, epoch)
    header = check(batch)
    assert (header.base_offset, header.leader_epoch) == (offset, epoch)
    assert next(iter_records(batch)).offset == offset


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**32 - 1))
def test_varints_come_back(small, large, unsigned):
    assert decode_varint(encode_varint(small), 0) == (small, len(encode_varint(small)))
    assert decode_varlong(encode_varint(large), 0)[0] == large
    assert decode_unsigned(encode_unsigned(unsigned), 0)[0] == unsigned
    with pytest.raises(MalformedError):
        decode_varlong(encode_varint(large)[:-1], 0)


@pytest.mark.parametrize("data", [b"\xff" * 11, b"\xff\xff\xff\xff\x1f", b"", b"\x80"])
def test_endless_and_oversized_varints_are_refused(data):
    with pytest.raises(MalformedError):
        decode_varint(data, 0)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_is_refused(codec):
    pack = {
        GZIP: gzip.compress,
        SNAPPY: cramjam.snappy.compress_raw,
        LZ4: cramjam.lz4.compress,
        ZSTD: cramjam.zstd.compress,
    }
    fine = bytes(range(256)) * 20
    assert inflate(codec, bytes(pack[codec](fine))) == fine
    if codec == SNAPPY:
        bomb = b"\xff\xff\xff\x7f" + b"\xfe\x01\x00" * 10  # says 256 MiB
    else:
        bomb = bytes(pack[codec](bytes(40_000_000)))
        assert len(bomb) * INFLATE_RATIO_MAX < 40_000_000
    with pytest.raises(MalformedError):
        inflate(codec, bomb)
    for junk in (b"", b"junk", bytes(pack[codec](fine))[:-9]):
        with pytest.raises(MalformedError):
            inflate(codec, junk)


def test_unknown_codecs_are_refused_and_plain_batches_need_no_block():
    with pytest.raises(MalformedError):
        inflate(5, b"x")
    batch = encode_batch([(None, b"x")], timestamp_ms=1)
    assert record_block(batch) is None
    assert parse_header(batch).compression == 0
