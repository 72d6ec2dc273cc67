"""What is told of the upstream while none of its brokers can be reached: what it said last.

Problem: a client asks for topics wherever it has a connection, also where its coordinator is. Closed there, it loses
the coordinator with the answer; told that its topics are gone, it gives up its partitions; and answers of a connection
keep their order, so it cannot be left without one. Mechanism: the newest list of all topics is kept as the bytes that
came, and what clients were told since; they are read when they are needed. A topic that is in none of them is one whose
leader is not known now, never one that does not exist. What this does not do: answer what only the upstream can.
"""

import contextlib
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from muster_coordinator.errors import Code, WireError
from muster_coordinator.upstream.brokers import Address, Broker, body_of
from muster_coordinator.upstream.limits import TOLD_BYTES_MAX
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.reader import reader
from muster_coordinator.wire.schema import EMPTY_UUID, Value
from muster_coordinator.wire.versions import Api, response_header_has_tags
from muster_coordinator.wire.writer import writer

_SIZE = struct.Struct(">i")
_CORRELATION = struct.Struct(">i")
_FRAME_HEAP_FACTOR = 83
"""Heap bytes that a byte of a frame can become (`wire.heap_budget`)."""
_NULL_IS_ALL_SINCE = 1
_BROKERS_ENDPOINTS = 1
_LIST_SINCE = 4


class Question(NamedTuple):
    """A client's request, as it came."""

    api: int
    version: int
    correlation: int
    frame: bytes
    body: int
    """Where its body begins."""


class Ours(NamedTuple):
    """What is told for the upstream's addresses."""

    address: Address
    replicas: Sequence[Broker]


class Said(NamedTuple):
    """A Metadata answer of the upstream."""

    version: int
    frame: bytes

    def read(self) -> Value:
        reading = Frame(self.frame, len(self.frame), heap=_FRAME_HEAP_FACTOR * len(self.frame))
        return reader(Api.METADATA, self.version, "response")(reading, body_of(Api.METADATA, self.version, reading))


class _Read:
    """What was said, read."""

    def __init__(self, everything: Said, since: Iterable[Said]) -> None:
        first = everything.read()
        self.cluster_id: str | None = getattr(first, "cluster_id", None)
        self.controller_id: int = getattr(first, "controller_id", -1)
        self.topics: dict[str, Value] = {}
        for answer in (first, *_readable(since)):
            self.topics.update({t.name: t for t in answer.topics if t.name is not None and not t.error_code})
        known = ((getattr(topic, "topic_id", EMPTY_UUID), topic) for topic in self.topics.values())
        self.by_id = {topic_id: topic for topic_id, topic in known if topic_id != EMPTY_UUID}


def _readable(answers: Iterable[Said]) -> Iterable[Value]:
    """Without those that are none: a client was told them as they came, and nobody read them to their end."""
    for said in answers:
        with contextlib.suppress(WireError):
            yield said.read()


class Remembered:
    """An answer about all topics, what clients were told since, and the brokers that are known."""

    def __init__(self, everything: Said, brokers: tuple[Broker, ...]) -> None:
        self.brokers = brokers
        self._everything = everything
        self._since: deque[Said] = deque()
        self._since_bytes = 0
        self._kept: _Read | None = None

    def note(self, said: Said) -> None:
        """A client was told this. What is larger than `TOLD_BYTES_MAX`, or older than as many bytes, is not kept."""
        self._kept = None
        self._since.append(said)
        self._since_bytes += len(said.frame)
        while self._since_bytes > TOLD_BYTES_MAX:
            self._since_bytes -= len(self._since.popleft().frame)

    @property
    def _read(self) -> _Read:
        if self._kept is None:
            self._kept = _Read(self._everything, self._since)
        return self._kept

    def told(self, question: Question, ours: Ours) -> bytearray | None:
        """The answer to a question about brokers, topics or a transaction's coordinator; None: it is about something
        else. Raises `WireError` if the question is none, or the answer about all topics cannot be read."""
        api, version = question.api, question.version
        if api not in (Api.METADATA, Api.DESCRIBE_CLUSTER, Api.FIND_COORDINATOR):
            return None
        request = reader(api, version)(Frame(question.frame, len(question.frame)), question.body)
        out = bytearray(_SIZE.size) + _CORRELATION.pack(question.correlation)
        if response_header_has_tags(api, version):
            out.append(0)
        if api == Api.METADATA:
            answer = self._metadata(version, request, ours)
        elif api == Api.DESCRIBE_CLUSTER:
            answer = self._cluster(request, ours)
        else:
            answer = _no_coordinator(version, request)
        writer(api, version)(out, answer)
        _SIZE.pack_into(out, 0, len(out) - _SIZE.size)
        return out

    def _metadata(self, version: int, request: Value, ours: Ours) -> dict[str, Value]:
        asked = request.topics
        topics: Iterable[Value]
        if asked is None or (version < _NULL_IS_ALL_SINCE and not asked):
            topics = [_described(topic) for topic in self._read.topics.values()]
        else:
            topics = [self._one(topic) for topic in asked]
        return {
            "brokers": [
                {"node_id": one.node, "host": one.host, "port": one.port, "rack": one.rack} for one in self._told(ours)
            ],
            "cluster_id": self._read.cluster_id,
            "controller_id": self._read.controller_id,
            "topics": topics,
            "error_code": 0,
        }

    def _one(self, asked: Value) -> dict[str, Value]:
        topic_id = getattr(asked, "topic_id", EMPTY_UUID)
        found = self._read.topics.get(asked.name) if asked.name is not None else self._read.by_id.get(topic_id)
        if found is not None:
            return _described(found)
        unknown = {"is_internal": False, "partitions": (), "name": asked.name, "topic_id": topic_id}
        return {**unknown, "error_code": Code.LEADER_NOT_AVAILABLE}

    def _cluster(self, request: Value, ours: Ours) -> dict[str, Value]:
        if getattr(request, "endpoint_type", _BROKERS_ENDPOINTS) != _BROKERS_ENDPOINTS:
            code = Code.MISMATCHED_ENDPOINT_TYPE
            return {"error_code": code, "error_message": code.name, "cluster_id": "", "brokers": ()}
        return {
            "error_code": 0,
            "error_message": None,
            "endpoint_type": _BROKERS_ENDPOINTS,
            "cluster_id": self._read.cluster_id or "",
            "controller_id": self._read.controller_id,
            "brokers": [
                {"broker_id": one.node, "host": one.host, "port": one.port, "rack": one.rack, "is_fenced": False}
                for one in self._told(ours)
            ],
        }

    def _told(self, ours: Ours) -> list[Broker]:
        told = []
        for broker in self.brokers:
            place = ours.address(broker.node)
            if place is not None:
                told.append(broker._replace(host=place[0], port=place[1]))
        return [*told, *ours.replicas]


def _described(topic: Value) -> dict[str, Value]:
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": getattr(topic, "topic_id", EMPTY_UUID),
        "is_internal": topic.is_internal,
        "partitions": [
            {
                "error_code": partition.error_code,
                "partition_index": partition.partition_index,
                "leader_id": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
                "replica_nodes": partition.replica_nodes,
                "isr_nodes": partition.isr_nodes,
                "offline_replicas": partition.offline_replicas,
            }
            for partition in topic.partitions
        ],
    }


def _no_coordinator(version: int, request: Value) -> dict[str, Value]:
    code = Code.COORDINATOR_NOT_AVAILABLE
    nobody = {"error_code": code, "error_message": code.name, "node_id": -1, "host": "", "port": -1}
    if version < _LIST_SINCE:
        return nobody
    return {"coordinators": [{**nobody, "key": key} for key in request.coordinator_keys]}
