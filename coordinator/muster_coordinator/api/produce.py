"""Produce: the checks that need the request and the cluster (rows 1-8 of protocol notes 12.2); the topic does the rest.

Every error concerns one partition; partitions stand alone. acks=1 is served as acks=all (decision 4), acks=0 gets no
answer and any error closes the connection. Batches are stored as received: only the frame of the first batch is
looked at here. What is pipelined behind a batch that has to come again gets its answer (`refused_batches`). While the
WAL is short of room, batches wait for it before all that depends on their order.

That a topic is not there is said once the image is known not to be late (`doubt`), else 6. It is 6 also when the topic
is there by then: what was pipelined behind the batch may have been judged meanwhile, and order would be lost.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.api.cluster_view import ClusterView, Leader
from muster_coordinator.api.doubt import ABSENT, Doubt
from muster_coordinator.api.gather import Gather
from muster_coordinator.api.refused_batches import RefusedBatches, numbered
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.errors import Code
from muster_coordinator.replica.partitions.surface import LocalLog
from muster_coordinator.topics.machine import ProduceResult
from muster_coordinator.wire.connection import CLOSE, NO_ANSWER, Exchange
from muster_coordinator.wire.schema import Value

_BY_ID_SINCE, _ZSTD_SINCE = 13, 7
_ACKS = (-1, 0, 1)
_LENGTH_AT, _MAGIC_AT, _ATTRIBUTES_AT, _PRODUCER_AT = 8, 16, 21, 43
_OVERHEAD = 12
"""baseOffset and batchLength: what batchLength does not count."""
_LEAST_LENGTH = 49
_MAGIC = 2
_CODEC_MASK, _ZSTD, _TRANSACTIONAL = 0x07, 4, 0x10
_UNPACK_I32 = struct.Struct(">i").unpack_from
_UNPACK_I16 = struct.Struct(">h").unpack_from
_UNPACK_I64 = struct.Struct(">q").unpack_from


class First(NamedTuple):
    """The first batch of what a partition was sent, or why there is none."""

    code: Code
    batch: bytes = b""
    message: str | None = None

    @property
    def transactional_producer(self) -> int | None:
        """Producer id of a transactional batch."""
        if not self.batch or not _UNPACK_I16(self.batch, _ATTRIBUTES_AT)[0] & _TRANSACTIONAL:
            return None
        producer: int = _UNPACK_I64(self.batch, _PRODUCER_AT)[0]
        return producer


def first_batch(records: bytes | None, version: int) -> First:
    """Row 5: exactly one batch of magic 2, whole; bytes after it that form no batch are ignored."""
    if records is None:
        return First(Code.INVALID_RECORD, message="no records")
    if len(records) <= _MAGIC_AT:
        return First(Code.INVALID_RECORD, message="no complete batch")
    magic = records[_MAGIC_AT]
    if magic > _MAGIC:
        return First(Code.CORRUPT_MESSAGE, message=f"unknown magic {magic}")
    if magic < _MAGIC:
        return First(Code.INVALID_RECORD, message=f"magic {magic} is not supported")
    length = _UNPACK_I32(records, _LENGTH_AT)[0]
    if length < _LEAST_LENGTH:
        return First(Code.CORRUPT_MESSAGE, message=f"batch length {length}")
    size = _OVERHEAD + length
    if size > len(records):
        return First(Code.INVALID_RECORD, message="no complete batch")
    left = len(records) - size
    if left >= _OVERHEAD and _LEAST_LENGTH <= _UNPACK_I32(records, size + _LENGTH_AT)[0] <= left - _OVERHEAD:
        return First(Code.INVALID_RECORD, message="more than one batch")
    if version < _ZSTD_SINCE and _UNPACK_I16(records, _ATTRIBUTES_AT)[0] & _CODEC_MASK == _ZSTD:
        return First(Code.UNSUPPORTED_COMPRESSION_TYPE, message="zstd needs Produce version 7")
    return First(Code.NONE, records if not left else records[:size])


class Part(NamedTuple):
    """One partition of the request."""

    key: str | bytes
    """Topic as the request names it."""
    partition: int
    topic: Topic | None
    first: First
    code: Code
    """Of rows 1-4, in their order; NONE goes on to row 5."""


class Produce:
    """Handler of Produce v3-13."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._refused = RefusedBatches()

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """Validate each partition, offer what is left to its log, answer when all are done."""
        image = self._services.surface.image()
        parts = self._parts(context, version, request, image)
        deadline_ms = self._deadline_ms(request)

        def answered(results: list[ProduceResult]) -> None:
            if request.acks == 0:
                failed = any(result.code is not Code.NONE for result in results)
                reply(CLOSE if failed else NO_ANSWER)
                return
            reply(self._answer(context, parts, results))

        # Without acknowledgement nobody is told more than that the connection ends.
        doubt = Doubt(self._services.surface, Code.NOT_LEADER_OR_FOLLOWER) if request.acks != 0 else None
        gather: Gather[ProduceResult] = Gather(len(parts), answered)
        for index, part in enumerate(parts):
            self._when_room(context, part, deadline_ms, doubt, gather.part(index))

    def _deadline_ms(self, request: Value) -> int:
        now_ms = self._services.surface.loop.monotonic_ms()
        wait_ms = request.timeout_ms if request.acks == -1 else limits.PRODUCE_TIMEOUT_MS_MAX
        return now_ms + max(1, min(wait_ms, limits.PRODUCE_TIMEOUT_MS_MAX))

    def _parts(self, context: RequestContext, version: int, request: Value, image: ClusterImage | None) -> list[Part]:
        """All partitions once; of one that is named twice the last counts. Rows 6-8 are applied to what rows 1-5
        left."""
        found: dict[tuple[str | bytes, int], Part] = {}
        for data in request.topic_data:
            key = data.topic_id if version >= _BY_ID_SINCE else data.name
            topic, code = self._topic(context, version, data, image)
            for one in data.partition_data:
                first = first_batch(one.records, version)
                known = topic is not None and 0 <= one.index < len(topic.partitions)
                missing = Code.NONE if known or code is not Code.NONE else Code.UNKNOWN_TOPIC_OR_PARTITION
                found[key, one.index] = Part(key, one.index, topic, first, code or missing)
        parts = list(found.values())
        producers = {p.first.transactional_producer for p in parts} - {None}
        if producers and not self._may_transact(context, request.transactional_id):
            return [p._replace(code=Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED) for p in parts]
        late = Code.NONE
        if request.acks not in _ACKS:
            late = Code.INVALID_REQUIRED_ACKS
        elif len(producers) > 1:
            late = Code.INVALID_PRODUCER_ID_MAPPING
        return [self._late(part, late) for part in parts]

    def _may_transact(self, context: RequestContext, transactional_id: str | None) -> bool:
        if transactional_id is None:
            return False
        resource = Resource(ResourceType.TRANSACTIONAL_ID, transactional_id)
        return self._services.authorize(context, Operation.WRITE, resource)

    def _topic(
        self, context: RequestContext, version: int, data: Value, image: ClusterImage | None
    ) -> tuple[Topic | None, Code]:
        """Rows 2-4 for a topic."""
        if version >= _BY_ID_SINCE:
            name = None if image is None else image.names_by_id.get(data.topic_id)
            if name is None:
                return None, Code.UNKNOWN_TOPIC_ID
        else:
            name = data.name
        if not self._services.may_topic(context, Operation.WRITE, name):
            return None, Code.TOPIC_AUTHORIZATION_FAILED
        topic = None if image is None else image.topics.get(name)
        return topic, Code.NONE if topic is not None else Code.UNKNOWN_TOPIC_OR_PARTITION

    @staticmethod
    def _late(part: Part, code: Code) -> Part:
        """Rows 5-8 in their order."""
        if part.code is not Code.NONE or part.first.code is not Code.NONE:
            return part
        if code is Code.NONE and part.topic is not None and part.topic.internal:
            code = Code.INVALID_TOPIC_EXCEPTION
        return part if code is Code.NONE else part._replace(code=code)

    def _tell_absent(self, part: Part, doubt: Doubt, done: Callable[[ProduceResult], None]) -> None:
        """When the image is known not to be late; the batch has to come again if the topic is there then."""

        def told() -> None:
            gone = self._lacks(part)
            done(ProduceResult(doubt.answer(part.code) if gone else Code.NOT_LEADER_OR_FOLLOWER))

        if not doubt.defers(part.code, told):
            told()

    def _lacks(self, part: Part) -> bool:
        """The image lacks the topic or the partition now, too."""
        image = self._services.surface.image()
        if image is None:
            return True
        name = image.names_by_id.get(part.key) if isinstance(part.key, bytes) else part.key
        topic = None if name is None else image.topics.get(name)
        return topic is None or not 0 <= part.partition < len(topic.partitions)

    def _when_room(
        self,
        context: RequestContext,
        part: Part,
        deadline_ms: int,
        doubt: Doubt | None,
        done: Callable[[ProduceResult], None],
    ) -> None:
        """Go on as soon as the WAL has room, behind those that wait for that; without any: certainly not appended."""

        def go(admitted: bool) -> None:
            present = part if admitted else part._replace(code=Code.NOT_ENOUGH_REPLICAS)
            self._in_order(context, present, deadline_ms, doubt, done)

        log = self._log(part) if part.code is Code.NONE and part.first.batch else None
        if log is None or log.serving(-1) is not Code.NONE:
            go(True)
        else:
            log.when_room(len(part.first.batch), deadline_ms, go)

    def _log(self, part: Part) -> LocalLog | None:
        assert part.topic is not None
        return self._services.surface.local_log(part.topic.partitions[part.partition].group)

    def _in_order(
        self,
        context: RequestContext,
        part: Part,
        deadline_ms: int,
        doubt: Doubt | None,
        done: Callable[[ProduceResult], None],
    ) -> None:
        """Offer the batch to its log. Behind a refused batch it can neither begin its producer's state here nor be
        told of a gap (`refused_batches`)."""
        batch = part.first.batch
        one = numbered(context.connection_id, part.key, part.partition, batch) if batch else None
        if one is None:
            if doubt is None or part.code not in ABSENT:
                self._offer(part, deadline_ms, done)
            else:
                self._tell_absent(part, doubt, done)
            return
        before = self._refused.before(one)

        def answered(result: ProduceResult) -> None:
            code = self._refused.answered(one, result.code, before)
            if code is not result.code:
                result = ProduceResult(code, message="a batch before it was refused and has to be sent again first")
            done(result)

        if doubt is None or part.code not in ABSENT:
            self._offer(part, deadline_ms, answered, may_begin=before is None)
            return
        # Before any batch that is pipelined behind it is judged.
        self._refused.answered(one, Code.NOT_LEADER_OR_FOLLOWER, before)
        self._tell_absent(part, doubt, done)

    def _offer(
        self, part: Part, deadline_ms: int, done: Callable[[ProduceResult], None], *, may_begin: bool = True
    ) -> None:
        if part.code is not Code.NONE:
            done(ProduceResult(part.code))
            return
        if part.first.code is not Code.NONE:
            done(ProduceResult(part.first.code, message=part.first.message))
            return
        assert part.topic is not None
        log = self._log(part)
        if log is None:
            done(ProduceResult(Code.NOT_LEADER_OR_FOLLOWER))
            return
        configs = dict(part.topic.configs)
        log.produce(part.first.batch, configs=configs, deadline_ms=deadline_ms, may_begin=may_begin, done=done)

    def _answer(self, context: RequestContext, parts: list[Part], results: list[ProduceResult]) -> Value:
        topics: dict[str | bytes, list[Value]] = {}
        endpoints: dict[int, Value] = {}
        for part, result in zip(parts, results, strict=True):
            entry: dict[str, Value] = {
                "index": part.partition,
                "error_code": result.code,
                "base_offset": result.base_offset,
                "log_append_time_ms": result.log_append_time_ms,
                "log_start_offset": result.log_start_offset,
                "error_message": result.message,
                "record_errors": [
                    {"batch_index": e.record, "batch_index_error_message": e.message} for e in result.record_errors
                ],
            }
            if result.code is Code.NOT_LEADER_OR_FOLLOWER:
                leader = self._leader(context, part)
                if leader is not None and leader.node is not None:
                    entry["current_leader"] = {"leader_id": leader.leader_id, "leader_epoch": leader.epoch}
                    endpoints[leader.leader_id] = leader.node._asdict()
            topics.setdefault(part.key, []).append(entry)
        responses = [
            {"partition_responses": entries, ("topic_id" if isinstance(key, bytes) else "name"): key}
            for key, entries in topics.items()
        ]
        return {"responses": responses, "node_endpoints": list(endpoints.values()) or None}

    def _leader(self, context: RequestContext, part: Part) -> Leader | None:
        """Who to ask instead (KIP-951), when known."""
        image = self._services.surface.image()
        if image is None or part.topic is None:
            return None
        view = ClusterView(self._services.surface, image, context.listener)
        partition = view.partition(part.topic, part.partition)
        return None if partition is None else view.leader(partition.group)
