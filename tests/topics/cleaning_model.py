"""Logs for the cleaner, and an oracle that knows only "the last value of each key, and tombstones for their time"."""

from itertools import pairwise
from typing import NamedTuple

from muster_coordinator.records.batch import (
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    check,
    encode_batch,
    iter_records,
    parse_header,
    stamp,
)
from muster_coordinator.records.compress import compress
from muster_coordinator.records.control import EndMarker
from muster_coordinator.records.crc import crc32c
from muster_coordinator.records.inflate import record_block
from muster_coordinator.topics.cleaning.rounds import Round

from tests.records.made import encode_end_marker

START_MS = 1_700_000_000_000
MEMORY_BYTES = 1 << 20


def packed(batch, codec):
    """The batch, compressed as a client would."""
    block = compress(codec, batch[HEADER_BYTES:])
    changed = bytearray(batch[:HEADER_BYTES] + block)
    changed[8:12] = (len(changed) - 12).to_bytes(4, "big")
    changed[22] |= codec
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def appended(log, records, *, epoch=1, codec=0, timestamps_ms=None, **options):
    """Put a batch at the end of `log`, a list of batches."""
    base = parse_header(log[-1]).next_offset if log else 0
    stamps = timestamps_ms or [START_MS + base + n for n in range(len(records))]
    batch = encode_batch(
        records, timestamp_ms=stamps[0], timestamps_ms=stamps, base_offset=base, leader_epoch=epoch, **options
    )
    log.append(packed(batch, codec) if codec else batch)
    return base


def marked(log, commit, producer_id, *, producer_epoch=0):
    base = parse_header(log[-1]).next_offset
    marker = encode_end_marker(
        EndMarker(commit, 1), producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=START_MS + base
    )
    log.append(stamp(marker, base, 1))
    return base


def cleaned(
    log, *, now_ms, upto=None, first_dirty=0, memory_bytes=MEMORY_BYTES, retention_ms=1_000, aborted=(), producers=()
):
    """One round over `log`, as one segment below `upto`; returns the log after it, and the round."""
    upto = len(log) if upto is None else upto
    round_ = Round(
        now_ms=now_ms,
        delete_retention_ms=retention_ms,
        memory_bytes=memory_bytes,
        first_dirty=first_dirty,
        aborted=aborted,
        producers=dict(producers),
    )
    for batch in log[:upto]:
        if parse_header(batch).next_offset > first_dirty and not round_.look(batch):
            break
    below = [batch for batch in log[:upto] if parse_header(batch).base_offset < round_.mapped_to]
    round_.begin_segments()
    written = [piece for batch in below for piece in round_.clean(batch)] + round_.end_segments()
    return written + log[len(below) :], round_


class Kept(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple


def records_of(log):
    """All records of data batches, with the timestamps that a reader of uncleaned batches sees."""
    found = []
    for batch in log:
        header = check(batch)
        if not header.is_control:
            found += [Kept(*record) for record in iter_records(batch, record_block(batch))]
    return found


def assert_whole(before, after):
    """Offsets follow one another without a gap, and what stays is as it was: batches, and records."""
    assert parse_header(after[0]).base_offset == parse_header(before[0]).base_offset
    for one, two in pairwise(after):
        assert parse_header(one).next_offset == parse_header(two).base_offset
        assert parse_header(one).leader_epoch <= parse_header(two).leader_epoch
    assert parse_header(after[-1]).next_offset == parse_header(before[-1]).next_offset
    records = {record.offset: record for record in records_of(before)}
    assert all(records[record.offset] == record for record in records_of(after))
    headers = {parse_header(batch).base_offset: parse_header(batch) for batch in before}
    epochs = {}
    for batch in before:
        header = parse_header(batch)
        epochs.setdefault(header.leader_epoch, header.base_offset)
    for batch in after:
        now = check(batch)
        assert epochs[now.leader_epoch] <= now.base_offset
        if now.count == 0 and now.producer_id < 0:
            continue
        was = headers[now.base_offset]
        for field in ("last_offset_delta", "producer_id", "producer_epoch", "base_sequence", "leader_epoch"):
            assert getattr(now, field) == getattr(was, field), field
        assert now.is_control == was.is_control
        assert now.is_transactional == was.is_transactional
        assert now.attributes & LOG_APPEND_TIME == was.attributes & LOG_APPEND_TIME
        if now.count:
            assert now.compression == was.compression
            shown = [record.timestamp_ms for record in iter_records(batch, record_block(batch))]
            assert max(shown) == now.max_timestamp_ms


def horizon_of(batch):
    header = parse_header(batch)
    return header.base_timestamp_ms if header.attributes & DELETE_HORIZON else None


class Oracle:
    """Cleans a list of records: the last one of each key stays; a tombstone until its time."""

    def __init__(self, retention_ms):
        self.retention_ms = retention_ms
        self._horizons_ms = {}

    def clean(self, records, *, now_ms, mapped_to):
        last = {record.key: record.offset for record in records if record.key is not None and record.offset < mapped_to}
        kept = []
        for record in records:
            if record.offset >= mapped_to:
                kept.append(record)
            elif record.key is not None and last[record.key] == record.offset:
                if record.value is None:
                    horizon_ms = self._horizons_ms.setdefault(record.offset, now_ms + self.retention_ms)
                    if horizon_ms <= now_ms and record.offset in self._seen(now_ms):
                        continue
                kept.append(record)
        return kept

    def _seen(self, now_ms):
        """Tombstones whose horizon was set in an earlier round."""
        return {offset for offset, horizon_ms in self._horizons_ms.items() if horizon_ms - self.retention_ms < now_ms}
