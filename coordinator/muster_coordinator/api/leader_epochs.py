"""OffsetForLeaderEpoch: where an epoch of a log ended, so that clients notice truncation (KIP-320)."""

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.replica.surface import EpochEnd
from muster_coordinator.wire.connection import Exchange
from muster_coordinator.wire.schema import Value


class LeaderEpochs:
    """Handler of OffsetForLeaderEpoch v2-4."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """Each partition on its own; an epoch above the latest, or -1, has the end (-1, -1) without error."""
        topics = []
        for topic in request.topics:
            entries = []
            for one in topic.partitions:
                end = self._one(context, topic.topic, one)
                entries.append(
                    {
                        "error_code": end.code,
                        "partition": one.partition,
                        "leader_epoch": end.epoch,
                        "end_offset": end.end_offset,
                    }
                )
            topics.append({"topic": topic.topic, "partitions": entries})
        reply({"topics": topics})

    def _one(self, context: RequestContext, name: str, one: Value) -> EpochEnd:
        services = self._services
        if not services.may_topic(context, Operation.DESCRIBE, name):
            return EpochEnd(Code.TOPIC_AUTHORIZATION_FAILED)
        image = services.surface.image()
        topic = None if image is None else image.topics.get(name)
        if topic is None or not 0 <= one.partition < len(topic.partitions):
            return EpochEnd(Code.UNKNOWN_TOPIC_OR_PARTITION)
        log = services.surface.local_log(topic.partitions[one.partition].group)
        if log is None:
            return EpochEnd(Code.NOT_LEADER_OR_FOLLOWER)
        code = log.serving(one.current_leader_epoch)
        return log.epoch_end(one.leader_epoch) if code is Code.NONE else EpochEnd(code)
