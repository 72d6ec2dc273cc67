"""By-time look-ups: exact within batches, also compressed ones, and compared with a search over all records."""

import gzip
from random import Random

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.records.batch import HEADER_BYTES, encode_batch, iter_records
from muster_coordinator.records.crc import crc32c

from tests.sim.disk import SimDisk
from tests.storage.log_kit import START_MS, feed, fill, flush, open_log


def with_attributes(raw, attributes, block=None):
    """The same batch with other attribute bits, and its records replaced by `block`."""
    covered = attributes.to_bytes(2, "big") + raw[23:HEADER_BYTES] + (raw[HEADER_BYTES:] if block is None else block)
    head = raw[:8] + (9 + len(covered)).to_bytes(4, "big") + raw[12:17]
    return head + crc32c(covered).to_bytes(4, "big") + covered


def timed(*timestamps_ms):
    return encode_batch(
        [(b"k", b"v" * 40)] * len(timestamps_ms), timestamp_ms=timestamps_ms[0], timestamps_ms=timestamps_ms
    )


def test_the_first_record_in_offset_order_with_that_time_or_later():
    log = open_log(SimDisk(), segment_bytes=600)
    for epoch, base in enumerate((0, 100, 50, 200), 1):
        feed(log, timed(START_MS + base, START_MS + base + 20, START_MS + base + 10), epoch)
    assert log.offset_by_time(START_MS)() == (0, START_MS, 1)
    assert log.offset_by_time(START_MS + 15)() == (1, START_MS + 20, 1)
    assert log.offset_by_time(START_MS + 60)() == (3, START_MS + 100, 2)
    assert log.offset_by_time(START_MS + 130)() == (9, START_MS + 200, 4)
    assert log.offset_by_time(START_MS + 221)() is None
    assert log.max_timestamp()() == (10, START_MS + 220, 4)


def test_records_below_the_log_start_do_not_count_by_time_but_do_as_maximum():
    log = open_log(SimDisk())
    feed(log, timed(START_MS + 500, START_MS + 9_000))
    feed(log, timed(START_MS, START_MS + 600))
    log.advance_start(2)
    assert log.offset_by_time(START_MS + 1)() == (3, START_MS + 600, 1)
    assert log.offset_by_time(START_MS + 700)() is None
    assert log.max_timestamp()() == (1, START_MS + 9_000, 1)


@pytest.mark.parametrize("codec", [1, 2, 3, 4, "xerial"])
def test_compressed_batches_are_searched_within(codec):
    raw = timed(START_MS, START_MS + 10, START_MS + 20)
    plain = raw[HEADER_BYTES:]
    if codec == "xerial":
        inner = bytes(cramjam.snappy.compress_raw(plain))
        block = b"\x82SNAPPY\0" + bytes(8) + len(inner).to_bytes(4, "big") + inner
        codec = 2
    else:
        block = {
            1: gzip.compress,
            2: cramjam.snappy.compress_raw,
            3: cramjam.lz4.compress,
            4: cramjam.zstd.compress,
        }[codec](plain)
    log = open_log(SimDisk())
    fill(log, 2, first_ms=START_MS - 1_000)
    feed(log, with_attributes(raw, codec, bytes(block)))
    assert log.offset_by_time(START_MS + 5)() == (5, START_MS + 10, 1)
    assert log.max_timestamp()() == (6, START_MS + 20, 1)


def test_server_time_is_the_batchs_largest_for_every_record():
    log = open_log(SimDisk())
    feed(log, with_attributes(timed(START_MS, START_MS + 50), 0x08))
    assert log.offset_by_time(START_MS + 40)() == (0, START_MS + 50, 1)


def test_an_undecodable_batch_is_answered_with_its_base_offset():
    log = open_log(SimDisk())
    feed(log, with_attributes(timed(START_MS, START_MS + 50), 4, b"no zstd"))
    assert log.offset_by_time(START_MS + 1)() == (0, START_MS + 50, 1)


def test_a_job_sees_the_log_as_it_was_when_asked():
    log = open_log(SimDisk())
    fill(log, 40)
    job = log.offset_by_time(START_MS + 395)
    feed(log, timed(START_MS + 10_000))
    assert job() is None
    assert log.offset_by_time(START_MS + 395)() == (80, START_MS + 10_000, 1)


def test_a_segment_removed_meanwhile_is_passed_over():
    log = open_log(SimDisk())
    fill(log, 60)
    flush(log, 60)
    job = log.offset_by_time(START_MS)
    log.advance_start(log.views()[1].base_offset)
    flush(log, 61)
    flush(log, 61)
    assert job().offset == log.views()[0].base_offset


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_as_a_search_over_all_records(seed):
    rand = Random(seed)
    log = open_log(SimDisk(), segment_bytes=rand.choice((3_000, 15_000)))
    records = []
    for turn in range(150):
        stamped = feed(log, timed(*(START_MS + turn + rand.randrange(200) for _ in range(rand.randrange(1, 6)))))
        records += iter_records(stamped)
    log.advance_start(rand.randrange(log.next_offset))
    live = [record for record in records if record.offset >= log.log_start_offset]
    stored = [record for record in records if record.offset >= log._segments[0].base]
    latest = max(stored, key=lambda record: record.timestamp_ms)
    assert log.max_timestamp()() == (latest.offset, latest.timestamp_ms, 1)
    for _ in range(30):
        asked = rand.choice(records).timestamp_ms + rand.randrange(2)
        found = log.offset_by_time(asked)()
        expected = next(((r.offset, r.timestamp_ms, 1) for r in live if r.timestamp_ms >= asked), None)
        assert found == expected
