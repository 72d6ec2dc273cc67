"""Produce: the checks that need the request and the cluster (rows 1-8 of protocol notes 12.2); the topic does the rest.

Every error concerns one partition; partitions are independent. acks=1 is served as acks=all (decision 4). acks=0 gets
no answer, and any error closes the connection. Batches are stored as received: only the header of the first batch is
read here. A batch that is pipelined behind one that must be sent again is judged with that in mind (`refused_batches`).
While the WAL is short of room, batches wait for it before anything that depends on their order. The first batch of a
transaction in a partition waits for the word of its coordinator (`transaction_batches`).

A topic is called unknown only after the image was confirmed as current (`doubt`), else the answer is 6. It is also 6 if
the topic exists by then: batches pipelined behind this one may have been judged meanwhile, so it would be stored after
them.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.api.cluster_view import ClusterView, Leader
from muster_coordinator.api.doubt import ABSENT, Doubt
from muster_coordinator.api.gather import Gather, in_turns
from muster_coordinator.api.refused_batches import RefusedBatches, numbered
from muster_coordinator.api.services import Services
from muster_coordinator.api.transaction_batches import Question, TransactionBatches, Verdict
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.errors import Code
from muster_coordinator.replica.partitions.surface import LocalLog
from muster_coordinator.topics.machine import ProduceResult
from muster_coordinator.topics.stores import Capability
from muster_coordinator.wire.exchange import CLOSE, NO_ANSWER, Exchange
from muster_coordinator.wire.schema import Value

_BY_ID_SINCE, _ZSTD_SINCE = 13, 7
_ACKS = (-1, 0, 1)
_LENGTH_AT, _MAGIC_AT, _ATTRIBUTES_AT, _PRODUCER_AT = 8, 16, 21, 43
_OVERHEAD = 12
"""Bytes of baseOffset and batchLength, which batchLength does not count."""
_LEAST_LENGTH = 49
_MAGIC = 2
_CODEC_MASK, _ZSTD, _TRANSACTIONAL = 0x07, 4, 0x10
_UNPACK_I32 = struct.Struct(">i").unpack_from
_UNPACK_I16 = struct.Struct(">h").unpack_from
_UNPACK_I64 = struct.Struct(">q").unpack_from


class First(NamedTuple):
    """The first batch of a partition's records, or why there is none."""

    code: Code
    batch: bytes = b""
    message: str | None = None

    @property
    def transactional_producer(self) -> int | None:
        """Producer id of a transactional batch; None for any other."""
        if not self.batch or not _UNPACK_I16(self.batch, _ATTRIBUTES_AT)[0] & _TRANSACTIONAL:
            return None
        producer: int = _UNPACK_I64(self.batch, _PRODUCER_AT)[0]
        return producer


def first_batch(records: bytes | None, version: int) -> First:
    """Row 5: exactly one complete batch of magic 2. Bytes after it that form no batch are ignored."""
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
    """The topic's name or id, as in the request."""
    partition: int
    topic: Topic | None
    first: First
    code: Code
    """Error of rows 1-4, in their order; NONE: continue with row 5."""

    @property
    def existing(self) -> Topic:
        """The topic of a partition without an error."""
        assert self.topic is not None, "without a topic there is an error of rows 2-4"
        return self.topic


class Produce:
    """Handler of Produce v3-13."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._refused = RefusedBatches()
        verifier = services.verifier
        self._transactions = None if verifier is None else TransactionBatches(services.surface.loop, verifier)

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """Validate each partition, offer valid batches to their logs, answer when all are done."""
        image = self._services.surface.image()
        parts = self._parts(context, version, request, image)
        deadline_ms = self._deadline_ms(request)

        def answered(results: list[ProduceResult]) -> None:
            if request.acks == 0:
                failed = any(result.code is not Code.NONE for result in results)
                reply(CLOSE if failed else NO_ANSWER)
                return
            self._answer(context, parts, results, reply)

        # With acks=0 the client learns only that the connection is closed, so no error needs a confirmation.
        doubt = Doubt(self._services.surface, Code.NOT_LEADER_OR_FOLLOWER) if request.acks != 0 else None
        gather: Gather[ProduceResult] = Gather(len(parts), answered)
        transaction = version, request.transactional_id
        refused = []
        for index, part in enumerate(parts):
            if _changes_nothing(context, part):
                refused.append(index)
            else:
                self._when_room(context, transaction, part, deadline_ms, doubt, gather.part(index))

        def refuse(at: int) -> int:
            index = refused[at]
            self._when_room(context, transaction, parts[index], deadline_ms, doubt, gather.part(index))
            return 0

        # In turns, as there may be tens of thousands. The others are begun at once: before any pipelined request.
        in_turns(self._services.surface.loop, len(refused), refuse, lambda: None)

    def _deadline_ms(self, request: Value) -> int:
        now_ms = self._services.surface.loop.monotonic_ms()
        wait_ms = request.timeout_ms if request.acks == -1 else limits.PRODUCE_TIMEOUT_MS_MAX
        return now_ms + max(1, min(wait_ms, limits.PRODUCE_TIMEOUT_MS_MAX))

    def _parts(self, context: RequestContext, version: int, request: Value, image: ClusterImage | None) -> list[Part]:
        """Each partition once; if one is named twice, the last entry counts. Rows 6-8 are applied to partitions without
        an error by rows 1-5."""
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
        """Rows 2-4 for a topic: the topic, or its error."""
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
        """Rows 5-8, in their order."""
        if part.code is not Code.NONE or part.first.code is not Code.NONE:
            return part
        if code is Code.NONE and part.topic is not None and part.topic.internal:
            code = Code.INVALID_TOPIC_EXCEPTION
        return part if code is Code.NONE else part._replace(code=code)

    def _tell_absent(self, part: Part, doubt: Doubt, done: Callable[[ProduceResult], None]) -> None:
        """Answer that the topic is unknown once the image is confirmed as current. If the topic exists then, the batch
        must be sent again."""

        def told() -> None:
            gone = self._lacks(part)
            done(ProduceResult(doubt.answer(part.code) if gone else Code.NOT_LEADER_OR_FOLLOWER))

        if not doubt.parks(part.code, told):
            told()

    def _lacks(self, part: Part) -> bool:
        """Whether the image still lacks the topic or the partition."""
        image = self._services.surface.image()
        if image is None:
            return True
        name = image.names_by_id.get(part.key) if isinstance(part.key, bytes) else part.key
        topic = None if name is None else image.topics.get(name)
        return topic is None or not 0 <= part.partition < len(topic.partitions)

    def _when_room(
        self,
        context: RequestContext,
        transaction: tuple[int, str | None],
        part: Part,
        deadline_ms: int,
        doubt: Doubt | None,
        done: Callable[[ProduceResult], None],
    ) -> None:
        """Continue when the WAL has room, in the order of arrival. Without room until the deadline it is
        refused: it was certainly not appended. `transaction`: version and transactional id of the request."""
        log = self._log(part) if part.code is Code.NONE and part.first.batch else None
        if log is None or log.serving(-1) is not Code.NONE:
            self._in_order(context, part, deadline_ms, doubt, done)
            return
        transactional = part.first.transactional_producer is not None
        asks = self._transactions if transactional else None
        version, transactional_id = transaction

        def go(admitted: bool) -> None:
            if not admitted:
                verified(Verdict(Code.NOT_ENOUGH_REPLICAS))
            elif transactional and not log.store.can(Capability.TRANSACTIONS):
                why = f"topics in the store {log.store.name} take no transactions"
                verified(Verdict(Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, why))
            elif asks is None or transactional_id is None or part.first.code is not Code.NONE:
                verified(Verdict())
            else:
                at = part.existing.name, part.partition
                question = Question(version, transactional_id, *at, part.first.batch, deadline_ms)
                asks.when_verified(log, question, verified)

        def verified(verdict: Verdict) -> None:
            present = part
            if verdict.code is not Code.NONE:
                present = part._replace(first=part.first._replace(code=verdict.code, message=verdict.message))
            self._in_order(context, present, deadline_ms, doubt, done, verification=verdict.verification)

        log.when_room(len(part.first.batch), deadline_ms, go)

    def _log(self, part: Part) -> LocalLog | None:
        return self._services.surface.local_log(part.existing.partitions[part.partition].group)

    def _in_order(
        self,
        context: RequestContext,
        part: Part,
        deadline_ms: int,
        doubt: Doubt | None,
        done: Callable[[ProduceResult], None],
        *,
        verification: int | None = None,
    ) -> None:
        """Offer the batch to its log. Behind a refused batch it must not start its producer's state here, nor push that
        one out of it, and an out-of-order error becomes the refused batch's (`refused_batches`)."""
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
                result = ProduceResult(code, message="an earlier batch was refused and must be sent again first")
            done(result)

        if doubt is None or part.code not in ABSENT:
            behind = None if before is None else before.sequence
            if self._offer(part, deadline_ms, answered, behind=behind, verification=verification):
                self._refused.taken(one)
            return
        # Noted as refused before any batch that is pipelined behind this one is judged.
        self._refused.answered(one, Code.NOT_LEADER_OR_FOLLOWER, before)
        self._tell_absent(part, doubt, done)

    def _offer(
        self,
        part: Part,
        deadline_ms: int,
        done: Callable[[ProduceResult], None],
        *,
        behind: int | None = None,
        verification: int | None = None,
    ) -> bool:
        """Whether its log takes the batch."""
        if part.code is not Code.NONE:
            done(ProduceResult(part.code))
            return False
        if part.first.code is not Code.NONE:
            done(ProduceResult(part.first.code, message=part.first.message))
            return False
        log = self._log(part)
        if log is None:
            done(ProduceResult(Code.NOT_LEADER_OR_FOLLOWER))
            return False
        configs = dict(part.existing.configs)
        return log.produce(
            part.first.batch,
            configs=configs,
            deadline_ms=deadline_ms,
            behind=behind,
            verification=verification,
            done=done,
        )

    def _answer(
        self, context: RequestContext, parts: list[Part], results: list[ProduceResult], reply: Exchange
    ) -> None:
        topics: dict[str | bytes, list[Value]] = {}
        endpoints: dict[int, Value] = {}

        def add(index: int) -> int:
            part, result = parts[index], results[index]
            entry = _entry(part, result)
            if result.code is Code.NOT_LEADER_OR_FOLLOWER:
                leader = self._leader(context, part)
                if leader is not None and leader.node is not None:
                    entry["current_leader"] = {"leader_id": leader.leader_id, "leader_epoch": leader.epoch}
                    endpoints[leader.leader_id] = leader.node._asdict()
            topics.setdefault(part.key, []).append(entry)
            return 0

        def added() -> None:
            responses = [
                {"partition_responses": entries, ("topic_id" if isinstance(key, bytes) else "name"): key}
                for key, entries in topics.items()
            ]
            reply({"responses": responses, "node_endpoints": list(endpoints.values()) or None})

        in_turns(self._services.surface.loop, len(parts), add, added)

    def _leader(self, context: RequestContext, part: Part) -> Leader | None:
        """The partition's leader (KIP-951), when known."""
        image = self._services.surface.image()
        if image is None or part.topic is None:
            return None
        view = ClusterView(self._services.surface, image, context.listener)
        partition = view.partition(part.topic, part.partition)
        return None if partition is None else view.leader(partition.group)


def _changes_nothing(context: RequestContext, part: Part) -> bool:
    """Whether the partition is certain to be refused, and no batch that is pipelined behind it depends on that."""
    batch = part.first.batch
    if not batch:
        return True
    return part.code is not Code.NONE and numbered(context.connection_id, part.key, part.partition, batch) is None


def _entry(part: Part, result: ProduceResult) -> dict[str, Value]:
    return {
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
