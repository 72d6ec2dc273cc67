"""Frames of transactional clients: InitProducerId 4, AddPartitionsToTxn 2, AddOffsetsToTxn 2,
TxnOffsetCommit 2 and 5, EndTxn 2 and 5, Produce 7 and 12, Fetch 4 of committed records, OffsetFetch 7 of stable ones.

Of two versions the second is that of a client with transaction version 2 (KIP-890), which adds no partitions.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tests.sim import topic_frames
from tests.sim.frames import FETCH, FETCH_LOG, NEW, In, Out, Request, read_fetched

ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_COMMIT = 24, 25, 26, 28
STABLE_FETCH = 1_009
"""OffsetFetch of a group whose offsets are committed in transactions, as the history calls it."""
_PLAIN, _SECOND = 2, 5
_PRODUCE_FLEXIBLE = 12


def _request(api: int, version: int, out: Out, read) -> Request:  # type: ignore[no-untyped-def]
    out.end()
    return Request(api, version, out.flexible, b"".join(out.parts), read)


class Named(NamedTuple):
    """Error, and the producer that it is from now on."""

    error: int
    producer_id: int
    epoch: int


def init(transactional_id: str, timeout_ms: int, producer_id: int = -1, epoch: int = -1) -> Request:
    out = Out(True)
    out.string(transactional_id)
    out.i32(timeout_ms)
    out.i64(producer_id)
    out.i16(epoch)
    return _request(topic_frames.INIT_PRODUCER_ID, 4, out, _read_named)


def _read_named(source: In) -> Named:
    source.i32()
    return Named(source.i16(), source.i64(), source.i16())


def add_partitions(transactional_id: str, producer: tuple[int, int], topic: str, partitions: Sequence[int]) -> Request:
    """The answer is the first error of any partition."""
    out = Out(False)
    out.string(transactional_id)
    out.i64(producer[0])
    out.i16(producer[1])
    out.count(1)
    out.string(topic)
    out.count(len(partitions))
    for partition in partitions:
        out.i32(partition)
    return _request(ADD_PARTITIONS, _PLAIN, out, _read_rows)


def _read_rows(source: In) -> int:
    """The first error of rows by topic and partition; in both dialects."""
    source.i32()
    error = 0
    for _ in range(source.count()):
        source.text()
        for _ in range(source.count()):
            source.i32()
            error = source.i16() or error
            source.end()
        source.end()
    return error


def add_offsets(transactional_id: str, producer: tuple[int, int], group: str) -> Request:
    """The answer is the error."""
    out = Out(False)
    out.string(transactional_id)
    out.i64(producer[0])
    out.i16(producer[1])
    out.string(group)
    return _request(ADD_OFFSETS, _PLAIN, out, _read_error)


def _read_error(source: In) -> int:
    source.i32()
    return source.i16()


def txn_commit(
    transactional_id: str,
    producer: tuple[int, int],
    group: str,
    row: tuple[str, int, int, int, str],
    *,
    second: bool,
) -> Request:
    """One row as `frames.Dialect.commit` has them, without a generation; the answer is the error."""
    out = Out(second)
    out.string(transactional_id)
    out.string(group)
    out.i64(producer[0])
    out.i16(producer[1])
    if second:
        out.i32(-1)
        out.string("")
        out.string(None)
    topic, partition, offset, epoch, metadata = row
    out.count(1)
    out.string(topic)
    out.count(1)
    out.i32(partition)
    out.i64(offset)
    out.i32(epoch)
    out.string(metadata)
    out.end()
    out.end()
    return _request(TXN_COMMIT, _SECOND if second else _PLAIN, out, _read_rows)


def end(transactional_id: str, producer: tuple[int, int], *, commit: bool, second: bool) -> Request:
    """The answer is `Named`; before the second version it names the same producer."""
    out = Out(second)
    out.string(transactional_id)
    out.i64(producer[0])
    out.i16(producer[1])
    out.i8(int(commit))
    read = _read_named if second else lambda source: Named(_read_error(source), *producer)
    return _request(END_TXN, _SECOND if second else _PLAIN, out, read)


def produce(transactional_id: str, topic: str, partition: int, batch: bytes, *, second: bool) -> Request:
    """acks=all; the answer is (error, base offset)."""
    out = Out(second)
    out.string(transactional_id)
    out.i16(-1)
    out.i32(2_000)
    out.count(1)
    out.string(topic)
    out.count(1)
    out.i32(partition)
    out.data(batch)
    out.end()
    out.end()
    version = _PRODUCE_FLEXIBLE if second else 7
    return _request(topic_frames.PRODUCE, version, out, _read_produced if second else topic_frames.read_produced)


def _read_produced(source: In) -> tuple[int, int]:
    assert source.count() == 1
    source.text()
    assert source.count() == 1
    source.i32()
    error, base_offset = source.i16(), source.i64()
    source.i64()
    source.i64()
    assert source.count() == 0, "no record of these is refused alone"
    source.string()
    _skip_tags(source)
    source.end()
    source.i32()
    _skip_tags(source)
    source.flexible = False  # that was the end
    return error, base_offset


def _skip_tags(source: In) -> None:
    """Who leads instead, which these clients ask for again."""
    for _ in range(source.count() + 1):
        source.count()
        size = source.count() + 1
        source.at += size


class Aborted(NamedTuple):
    """One aborted transaction of an answer."""

    producer_id: int
    first_offset: int


class CommittedPart(NamedTuple):
    """Answer to `fetch_committed`."""

    error: int
    high_watermark: int
    stable: int
    """The last stable offset."""
    aborted: tuple[Aborted, ...]
    records: bytes


def fetch_committed(topic: str, partition: int, offset: int, max_bytes: int, wait_ms: int = 0) -> Request:
    """One partition from `offset`, as a reader of committed records."""
    body = topic_frames.fetch_body(topic, partition, offset, max_bytes, wait_ms, isolation=1)
    return _request(FETCH_LOG, 4, body, _read_committed)


def _read_committed(source: In) -> CommittedPart:
    source.i32()
    assert source.count() == 1
    source.text()
    assert source.count() == 1
    source.i32()
    error, high_watermark, stable = source.i16(), source.i64(), source.i64()
    aborted = tuple(Aborted(source.i64(), source.i64()) for _ in range(source.count()))
    return CommittedPart(error, high_watermark, stable, aborted, source.data() or b"")


def fetch_offset(group: str, topic: str, partition: int, *, stable: bool) -> Request:
    """The answer is `frames.Fetched`."""
    out = Out(True)
    out.string(group)
    out.count(1)
    out.string(topic)
    out.count(1)
    out.i32(partition)
    out.end()
    out.i8(int(stable))
    return _request(FETCH, NEW[FETCH], out, read_fetched)
