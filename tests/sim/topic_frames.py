"""Frames of clients of topics, plain types only: CreateTopics 2, Metadata 4, InitProducerId 1, Produce 7, Fetch 4,
ListOffsets 1."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.sim.frames import FETCH_LOG, In, Out, Request

PRODUCE, LIST_OFFSETS, METADATA, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 2, 3, 19, 22


def _request(api: int, version: int, out: Out, read) -> Request:  # type: ignore[no-untyped-def]
    return Request(api, version, False, b"".join(out.parts), read)


def create_topics(
    topics: Sequence[tuple[str, int]], replicas: int, configs: Mapping[str, Sequence[tuple[str, str]]] | None = None
) -> Request:
    """(name, partitions) each, `configs` by name; the answer is name -> error."""
    out = Out(False)
    out.count(len(topics))
    for name, partitions in topics:
        out.string(name)
        out.i32(partitions)
        out.i16(replicas)
        out.count(0)
        own = (configs or {}).get(name, ())
        out.count(len(own))
        for key, value in own:
            out.string(key)
            out.string(value)
    out.i32(5_000)
    out.i8(0)
    return _request(CREATE_TOPICS, 2, out, _read_created)


def _read_created(source: In) -> dict[str, int]:
    source.i32()
    found = {}
    for _ in range(source.count()):
        name = source.text()
        found[name] = source.i16()
        source.string()
    return found


def metadata(topic: str) -> Request:
    """The answer is (error, partition -> leader)."""
    out = Out(False)
    out.count(1)
    out.string(topic)
    out.i8(0)
    return _request(METADATA, 4, out, _read_metadata)


def _read_metadata(source: In) -> tuple[int, dict[int, int]]:
    source.i32()
    for _ in range(source.count()):
        source.i32()
        source.text()
        source.i32()
        source.string()
    source.string()
    source.i32()
    assert source.count() == 1
    error = source.i16()
    source.text()
    source.i8()
    leaders = {}
    for _ in range(source.count()):
        source.i16()
        partition = source.i32()
        leaders[partition] = source.i32()
        for _ in range(2):
            for _ in range(source.count()):
                source.i32()
    return error, leaders


def init_producer_id() -> Request:
    """The answer is (error, producer id, epoch)."""
    out = Out(False)
    out.string(None)
    out.i32(0)
    return _request(INIT_PRODUCER_ID, 1, out, _read_producer_id)


def _read_producer_id(source: In) -> tuple[int, int, int]:
    source.i32()
    return source.i16(), source.i64(), source.i16()


def produce(topic: str, partition: int, batch: bytes) -> Request:
    """acks=all; the answer is (error, base offset)."""
    out = Out(False)
    out.string(None)
    out.i16(-1)
    out.i32(2_000)
    out.count(1)
    out.string(topic)
    out.count(1)
    out.i32(partition)
    out.data(batch)
    return _request(PRODUCE, 7, out, read_produced)


def read_produced(source: In) -> tuple[int, int]:
    assert source.count() == 1
    source.text()
    assert source.count() == 1
    source.i32()
    error, base_offset = source.i16(), source.i64()
    source.i64()
    source.i64()
    source.i32()
    return error, base_offset


class LogPart(NamedTuple):
    """Answer to `fetch_log`."""

    error: int
    high_watermark: int
    records: bytes


def fetch_log(topic: str, partition: int, offset: int, max_bytes: int, wait_ms: int = 0) -> Request:
    """One partition from `offset`."""
    return _request(FETCH_LOG, 4, fetch_body(topic, partition, offset, max_bytes, wait_ms, isolation=0), _read_log)


def fetch_body(topic: str, partition: int, offset: int, max_bytes: int, wait_ms: int, *, isolation: int) -> Out:
    """Of a fetch of one partition; `isolation`: 1 for a reader of committed records."""
    out = Out(False)
    for value in (-1, wait_ms, 1, max_bytes):
        out.i32(value)
    out.i8(isolation)
    out.count(1)
    out.string(topic)
    out.count(1)
    out.i32(partition)
    out.i64(offset)
    out.i32(max_bytes)
    return out


def _read_log(source: In) -> LogPart:
    source.i32()
    assert source.count() == 1
    source.text()
    assert source.count() == 1
    source.i32()
    error, high_watermark = source.i16(), source.i64()
    source.i64()
    for _ in range(source.count()):
        source.i64()
        source.i64()
    return LogPart(error, high_watermark, source.data() or b"")


def earliest(topic: str, partition: int) -> Request:
    """Where a partition begins; the answer is (error, offset)."""
    out = Out(False)
    out.i32(-1)
    out.count(1)
    out.string(topic)
    out.count(1)
    out.i32(partition)
    out.i64(-2)
    return _request(LIST_OFFSETS, 1, out, _read_earliest)


def _read_earliest(source: In) -> tuple[int, int]:
    assert source.count() == 1
    source.text()
    assert source.count() == 1
    source.i32()
    error = source.i16()
    source.i64()
    return error, source.i64()
