"""OffsetForLeaderEpoch: where an epoch of a log ended, by which clients detect truncation (KIP-320).

Answered after one ReadIndex round: a leader that was deposed without knowing it would return an end below what its
successor has acknowledged, and a client that has read further would take that for truncation.
"""

from collections.abc import Callable

from muster_coordinator.api.authorize import CLUSTER, Operation
from muster_coordinator.api.doubt import Doubt
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.replica.partitions.surface import EpochEnd, LocalLog
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value


class LeaderEpochs:
    """Handler of OffsetForLeaderEpoch v2-4."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """Each partition by itself. An epoch above the latest, or -1, has the end (-1, -1) without error."""
        asked = [(at, topic.topic, one) for at, topic in enumerate(request.topics) for one in topic.partitions]

        def answered(ends: list[EpochEnd]) -> None:
            topics: list[dict[str, Value]] = [{"topic": topic.topic, "partitions": []} for topic in request.topics]
            for (at, _, one), end in zip(asked, ends, strict=True):
                topics[at]["partitions"].append(
                    {
                        "error_code": end.code,
                        "partition": one.partition,
                        "leader_epoch": end.epoch,
                        "end_offset": end.end_offset,
                    }
                )
            reply({"topics": topics})

        doubt = Doubt(self._services.surface, Code.NOT_LEADER_OR_FOLLOWER)

        def begin(index: int, arrived: Callable[[EpochEnd], None]) -> None:
            _, name, one = asked[index]
            self._one(context, name, one, doubt, arrived)

        gather_in_turns(self._services.surface.loop, len(asked), begin, answered)

    def _one(
        self, context: RequestContext, name: str, one: Value, doubt: Doubt, done: Callable[[EpochEnd], None]
    ) -> None:
        log = self._log(context, name, one)
        if isinstance(log, Code):
            if not doubt.parks(log, lambda: self._one(context, name, one, doubt, done)):
                done(EpochEnd(doubt.answer(log)))
            return
        unproven = EpochEnd(Code.NOT_LEADER_OR_FOLLOWER)
        log.confirm(lambda confirmed: done(log.epoch_end(one.leader_epoch) if confirmed else unproven))

    def _log(self, context: RequestContext, name: str, one: Value) -> LocalLog | Code:
        services = self._services
        trusted = services.open or services.would_allow(context, Operation.CLUSTER_ACTION, CLUSTER)
        if not trusted and not services.may_topic(context, Operation.DESCRIBE, name):
            return Code.TOPIC_AUTHORIZATION_FAILED
        image = services.surface.image()
        topic = None if image is None else image.topics.get(name)
        if topic is None or not 0 <= one.partition < len(topic.partitions):
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        log = services.surface.local_log(topic.partitions[one.partition].group)
        if log is None:
            return Code.NOT_LEADER_OR_FOLLOWER
        code = log.serving(one.current_leader_epoch)
        return log if code is Code.NONE else code
