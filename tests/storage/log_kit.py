"""Partition logs on a simulated disk, and batches to put in."""

from muster_coordinator.records.batch import encode_batch, parse_header, stamp
from muster_coordinator.storage.contract import NO_RECOVERY_POINT
from muster_coordinator.storage.partition_log import PartitionLog

from tests.records.made import split_batches

FOLDER = "data/t-0"
START_MS = 1_700_000_000_000


def open_log(disk, recovery_point=NO_RECOVERY_POINT, start=0, **options):
    return PartitionLog.open(disk, FOLDER, recovery_point, start, **{"segment_bytes": 2_000, **options})


def batch(*values, timestamp_ms=START_MS, timestamps_ms=None):
    return encode_batch(
        [(b"k%d" % n, value) for n, value in enumerate(values)], timestamp_ms=timestamp_ms, timestamps_ms=timestamps_ms
    )


def feed(log, raw, epoch=1):
    """Apply one batch at the log's end; returns it stamped."""
    stamped = stamp(raw, log.next_offset, epoch)
    log.append(stamped)
    return stamped


def fill(log, count, *, records=2, size=60, epoch=1, first_ms=START_MS, step_ms=10):
    """`count` batches; returns them stamped."""
    return [
        feed(log, batch(*[b"v" * size] * records, timestamp_ms=first_ms + step_ms * n), epoch) for n in range(count)
    ]


def read_all(log, start=None, max_bytes=500):
    """Everything from `start`, by as many reads as it takes."""
    offset = log.log_start_offset if start is None else start
    found = b""
    while offset < log.next_offset:
        data = log.read(offset, max_bytes, True)
        assert data
        found += data
        offset = parse_header(split_batches(data)[-1]).next_offset
    return found


def flush(log, applied):
    job = log.flush_job(applied)
    job()
    log.flush_done()
    return job.recovery_point
