"""Frames of administrators of topics: DeleteTopics 3 and 6, CreatePartitions 0, IncrementalAlterConfigs 0."""

from collections.abc import Sequence

from tests.sim.frames import In, Out, Request

DELETE_TOPICS, CREATE_PARTITIONS, ALTER_CONFIGS = 20, 37, 44
TIMEOUT_MS = 5_000
TOPIC, SET = 2, 0
"""Type of a resource; operation on a config."""


def delete_topic(name: str) -> Request:
    """By name; the answer is the error."""
    out = Out(False)
    out.count(1)
    out.string(name)
    out.i32(TIMEOUT_MS)
    return Request(DELETE_TOPICS, 3, False, b"".join(out.parts), _read_deleted)


def _read_deleted(source: In) -> int:
    source.i32()
    assert source.count() == 1
    source.text()
    return source.i16()


def delete_topic_id(topic_id: bytes) -> Request:
    """By id; the answer is the error."""
    out = Out(True)
    out.count(1)
    out.string(None)
    out.parts.append(topic_id)
    out.end()
    out.i32(TIMEOUT_MS)
    out.end()
    return Request(DELETE_TOPICS, 6, True, b"".join(out.parts), _read_deleted_id)


def _read_deleted_id(source: In) -> int:
    source.i32()
    assert source.count() == 1
    source.string()
    source.at += 16
    error = source.i16()
    source.string()
    source.end()
    return error


def create_partitions(name: str, total: int) -> Request:
    """The answer is the error."""
    out = Out(False)
    out.count(1)
    out.string(name)
    out.i32(total)
    out.count(None)
    out.i32(TIMEOUT_MS)
    out.i8(0)
    return Request(CREATE_PARTITIONS, 0, False, b"".join(out.parts), _read_grown)


def _read_grown(source: In) -> int:
    source.i32()
    assert source.count() == 1
    source.text()
    error = source.i16()
    source.string()
    return error


def alter_topic(name: str, configs: Sequence[tuple[str, str]]) -> Request:
    """Set these; the answer is the error."""
    out = Out(False)
    out.count(1)
    out.i8(TOPIC)
    out.string(name)
    out.count(len(configs))
    for key, value in configs:
        out.string(key)
        out.i8(SET)
        out.string(value)
    out.i8(0)
    return Request(ALTER_CONFIGS, 0, False, b"".join(out.parts), _read_altered)


def _read_altered(source: In) -> int:
    source.i32()
    assert source.count() == 1
    error = source.i16()
    source.string()
    source.i8()
    source.text()
    return error
