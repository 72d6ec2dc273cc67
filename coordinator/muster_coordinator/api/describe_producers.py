"""DescribeProducers: the producers that a partition knows, and their open transactions (KIP-664).

Answered from the applied state of whichever replica is asked, as by Kafka, so that a tool can compare replicas; clients
ask the leader. What it does not do: ask the transactions' coordinators; `kafka-transactions find-hanging` does, and
compares.
"""

from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.doubt import Doubt
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.topics.machine import ActiveProducer
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value


class _Found(NamedTuple):
    code: Code
    producers: tuple[ActiveProducer, ...] = ()
    message: str | None = None


class DescribeProducers:
    """Handler of DescribeProducers v0."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """Each partition by itself. One that is named twice is told once: the second is 42."""
        asked = [
            (at, topic.name, index) for at, topic in enumerate(request.topics) for index in topic.partition_indexes
        ]
        told: set[tuple[str, int]] = set()
        left = limits.DESCRIBED_PRODUCERS_MAX
        doubt = Doubt(self._services.surface, Code.NOT_LEADER_OR_FOLLOWER)

        def answered(found: list[_Found]) -> None:
            topics: list[dict[str, Value]] = [{"name": topic.name, "partitions": []} for topic in request.topics]
            for (at, _, index), one in zip(asked, found, strict=True):
                topics[at]["partitions"].append(_partition(index, one))
            reply({"topics": topics})

        def begin(number: int, arrived: Callable[[_Found], None]) -> None:
            nonlocal left
            _, name, index = asked[number]
            if (name, index) in told:
                arrived(_Found(Code.INVALID_REQUEST, message="the partition is named twice"))
                return
            told.add((name, index))

            def within(found: _Found) -> None:
                nonlocal left
                left -= len(found.producers)
                if left < 0:
                    why = f"more than {limits.DESCRIBED_PRODUCERS_MAX} producers: ask for fewer partitions"
                    found = _Found(Code.INVALID_REQUEST, message=why)
                arrived(found)

            self._one(context, name, index, doubt, within)

        gather_in_turns(self._services.surface.loop, len(asked), begin, answered)

    def _one(
        self, context: RequestContext, name: str, index: int, doubt: Doubt, done: Callable[[_Found], None]
    ) -> None:
        found = self._look(context, name, index)
        if not doubt.parks(found.code, lambda: self._one(context, name, index, doubt, done)):
            done(found._replace(code=doubt.answer(found.code)))

    def _look(self, context: RequestContext, name: str, index: int) -> _Found:
        services = self._services
        if not services.may_topic(context, Operation.READ, name):
            return _Found(Code.TOPIC_AUTHORIZATION_FAILED)
        image = services.surface.image()
        topic = None if image is None else image.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return _Found(Code.UNKNOWN_TOPIC_OR_PARTITION)
        log = services.surface.local_log(topic.partitions[index].group)
        return _Found(Code.NOT_LEADER_OR_FOLLOWER) if log is None else _Found(Code.NONE, log.producers())


def _partition(index: int, found: _Found) -> dict[str, Value]:
    return {
        "partition_index": index,
        "error_code": found.code,
        "error_message": found.message,
        "active_producers": [
            {
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "last_sequence": one.last_sequence,
                "last_timestamp": one.last_timestamp_ms,
                "coordinator_epoch": one.coordinator_epoch,
                "current_txn_start_offset": one.transaction_first_offset,
            }
            for one in found.producers
        ],
    }
