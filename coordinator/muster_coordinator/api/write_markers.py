"""WriteTxnMarkers: the end of a transaction, written into partitions that this broker leads.

Our own coordinators use the replicas' link. On a client's listener it needs CLUSTER_ACTION, or ALTER on the cluster, as
in Kafka: it is how `kafka-transactions abort` ends a transaction that hangs. In a cluster that may have replicas of an
earlier release it is refused (35): they cannot read a checkpoint that knows of markers.
"""

from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.api.authorize import CLUSTER, Operation
from muster_coordinator.api.doubt import Doubt
from muster_coordinator.api.gather import gather_few
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import MEMBERS_LEVEL
from muster_coordinator.errors import Code
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_VERSION_SINCE = 2


class _Part(NamedTuple):
    marker: TransactionMarker
    topic: str
    partition: int


class WriteTxnMarkers:
    """Handler of WriteTxnMarkers v1-2."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """Each partition has its own code."""
        services = self._services
        may = services.would_allow(context, Operation.ALTER, CLUSTER)
        denied = Code.NONE if may else services.cluster_code(context, Operation.CLUSTER_ACTION)
        parts = [
            _Part(_marker(one, version), topic.name, index)
            for one in request.markers
            for topic in one.topics
            for index in topic.partition_indexes
        ]

        doubt = Doubt(services.surface, Code.NOT_LEADER_OR_FOLLOWER)

        def begin(index: int, arrived: Callable[[Code], None]) -> None:
            code = _nobodys(parts[index].marker) if denied is Code.NONE else denied
            if code is not Code.NONE:
                arrived(code)
            else:
                self._write(context, parts[index], doubt, arrived)

        def done(codes: list[Code]) -> None:
            reply({"markers": _answer(request, codes)})

        gather_few(services.surface.loop, len(parts), begin, done)

    def _write(self, context: RequestContext, part: _Part, doubt: Doubt, done: Callable[[Code], None]) -> None:
        surface = self._services.surface
        image = surface.image()
        topic = None if image is None else image.topics.get(part.topic)
        if topic is None or not 0 <= part.partition < len(topic.partitions):
            code = Code.UNKNOWN_TOPIC_OR_PARTITION
            if not doubt.parks(code, lambda: self._write(context, part, doubt, done)):
                done(doubt.answer(code))
            return
        if image is None or image.feature_level < MEMBERS_LEVEL:
            done(Code.UNSUPPORTED_VERSION)
            return
        log = surface.local_log(topic.partitions[part.partition].group)
        if log is None:
            done(Code.NOT_LEADER_OR_FOLLOWER)
            return
        log.write_marker(part.marker, deadline_ms=context.deadline_ms, done=done)


def _nobodys(marker: TransactionMarker) -> Code:
    """Ids and epochs below 0 are no producer's: a batch that has one is not of a transaction, and cannot end any."""
    if marker.producer_id < 0:
        return Code.INVALID_PRODUCER_ID_MAPPING
    return Code.INVALID_PRODUCER_EPOCH if marker.producer_epoch < 0 else Code.NONE


def _marker(one: Value, version: int) -> TransactionMarker:
    end = EndMarker(one.transaction_result, one.coordinator_epoch)
    transaction_version = one.transaction_version if version >= _VERSION_SINCE else 0
    return TransactionMarker(one.producer_id, one.producer_epoch, end, transaction_version)


def _answer(request: Value, codes: list[Code]) -> list[Value]:
    left = iter(codes)
    return [
        {
            "producer_id": one.producer_id,
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {"partition_index": index, "error_code": next(left)} for index in topic.partition_indexes
                    ],
                }
                for topic in one.topics
            ],
        }
        for one in request.markers
    ]
