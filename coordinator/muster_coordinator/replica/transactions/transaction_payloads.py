"""Bodies of the payloads 15 to 18 (docs/format.md): markers and their results, a verification and its result."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from muster_coordinator.errors import WireError
from muster_coordinator.ids import GroupNo
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.replica.multiraft.payloads import HEAD_BYTES, HEADS, Kind, table
from muster_coordinator.replica.transactions.limits import MARKERS_PER_FRAME_MAX

_COUNTED = struct.Struct(">QI")
_MARKER = struct.Struct(">IqhBib")
_CODE = struct.Struct(">h")
_VERIFY = struct.Struct(">QIBqhiII")
_RESULT = struct.Struct(">Qh")

MarkerRow = tuple[GroupNo, TransactionMarker]


def encode_markers(request: int, rows: Sequence[MarkerRow]) -> bytes:
    """Markers, each with the Raft group of the partition that it is for."""
    assert 0 < len(rows) <= MARKERS_PER_FRAME_MAX
    packed = [
        _MARKER.pack(
            group,
            marker.producer_id,
            marker.producer_epoch,
            marker.end.commit,
            marker.end.coordinator_epoch,
            marker.transaction_version,
        )
        for group, marker in rows
    ]
    return b"".join([HEADS[Kind.MARKERS], _COUNTED.pack(request, len(rows)), *packed])


def _counted(payload: bytes, what: str) -> tuple[int, int]:
    if len(payload) < HEAD_BYTES + _COUNTED.size:
        raise WireError(f"{what} are cut short")
    request, count = _COUNTED.unpack_from(payload, HEAD_BYTES)
    if not 0 < count <= MARKERS_PER_FRAME_MAX:
        raise WireError(f"{count} {what} in one payload")
    return request, count


def decode_markers(payload: bytes) -> tuple[int, list[MarkerRow]]:
    """The request's number, and its markers."""
    request, count = _counted(payload, "markers")
    rows, _ = table(_MARKER, payload, HEAD_BYTES + _COUNTED.size, count, "a list of markers")
    return request, [
        (GroupNo(group), TransactionMarker(producer, epoch, EndMarker(bool(commit), coordinator), version))
        for group, producer, epoch, commit, coordinator, version in rows
    ]


def encode_markers_result(request: int, codes: Sequence[int]) -> bytes:
    """A Kafka error code for each marker of the request, in order."""
    packed = [_CODE.pack(code) for code in codes]
    return b"".join([HEADS[Kind.MARKERS_RESULT], _COUNTED.pack(request, len(codes)), *packed])


def decode_markers_result(payload: bytes) -> tuple[int, list[int]]:
    request, count = _counted(payload, "results of markers")
    rows, _ = table(_CODE, payload, HEAD_BYTES + _COUNTED.size, count, "a list of results")
    return request, [code for (code,) in rows]


class Question(NamedTuple):
    """Is this partition in the transaction?"""

    add: bool
    """Put it there if it is not."""
    producer_id: int
    producer_epoch: int
    transactional_id: str
    topic: str
    partition: int


def encode_verify(request: int, wait_ms: int, question: Question) -> bytes:
    """A question that is of no use any more after `wait_ms`."""
    name, topic = question.transactional_id.encode(), question.topic.encode()
    fixed = _VERIFY.pack(
        request,
        wait_ms,
        question.add,
        question.producer_id,
        question.producer_epoch,
        question.partition,
        len(name),
        len(topic),
    )
    return HEADS[Kind.VERIFY] + fixed + name + topic


def decode_verify(payload: bytes) -> tuple[int, int, Question]:
    """(request, wait_ms, question)"""
    at = HEAD_BYTES + _VERIFY.size
    if len(payload) < at:
        raise WireError("a verification is cut short")
    request, wait_ms, add, producer, epoch, partition, name_bytes, topic_bytes = _VERIFY.unpack_from(
        payload, HEAD_BYTES
    )
    if len(payload) < at + name_bytes + topic_bytes:
        raise WireError("a verification is cut short")
    try:
        name = payload[at : at + name_bytes].decode()
        topic = payload[at + name_bytes : at + name_bytes + topic_bytes].decode()
    except UnicodeDecodeError as error:
        raise WireError("a verification with a name that is not UTF-8") from error
    return request, wait_ms, Question(bool(add), producer, epoch, name, topic, partition)


def encode_verify_result(request: int, code: int) -> bytes:
    return HEADS[Kind.VERIFY_RESULT] + _RESULT.pack(request, code)


def decode_verify_result(payload: bytes) -> tuple[int, int]:
    """(request, code)"""
    if len(payload) < HEAD_BYTES + _RESULT.size:
        raise WireError("the result of a verification is cut short")
    request, code = _RESULT.unpack_from(payload, HEAD_BYTES)
    return request, code
