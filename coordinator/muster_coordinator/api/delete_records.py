"""DeleteRecords: moves a partition's log start, on an administrator's request and through the partition's own log
(protocol notes 14), which knows the policy in force and judges the offset."""

from collections.abc import Callable

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.doubt import Doubt
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.replica.partitions.surface import OffsetResult
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value


class DeleteRecords:
    """Handler of DeleteRecords v0-2."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """Each partition by itself; lowWatermark is the log start after the deletion."""
        asked = [(topic.name, one) for topic in request.topics for one in topic.partitions]
        once = list({(name, one.partition_index): (name, one) for name, one in asked}.values())
        wait_ms = max(0, min(request.timeout_ms, limits.ADMIN_TIMEOUT_MS_MAX))
        deadline_ms = self._services.surface.loop.monotonic_ms() + wait_ms

        def answered(results: list[OffsetResult]) -> None:
            topics: dict[str, list[Value]] = {}
            for (name, one), result in zip(once, results, strict=True):
                entry = {
                    "partition_index": one.partition_index,
                    "error_code": result.code,
                    "low_watermark": result.offset if result.code is Code.NONE else -1,
                }
                topics.setdefault(name, []).append(entry)
            reply({"topics": [{"name": name, "partitions": entries} for name, entries in topics.items()]})

        doubt = Doubt(self._services.surface, Code.NOT_LEADER_OR_FOLLOWER)

        def begin(index: int, arrived: Callable[[OffsetResult], None]) -> None:
            name, one = once[index]
            self._one(context, name, one, deadline_ms, doubt, arrived)

        gather_in_turns(self._services.surface.loop, len(once), begin, answered)

    def _one(
        self,
        context: RequestContext,
        name: str,
        one: Value,
        deadline_ms: int,
        doubt: Doubt,
        done: Callable[[OffsetResult], None],
    ) -> None:
        services = self._services
        if not services.may_topic(context, Operation.DELETE, name):
            done(OffsetResult(Code.TOPIC_AUTHORIZATION_FAILED))
            return
        image = services.surface.image()
        topic = None if image is None else image.topics.get(name)
        if topic is None or not 0 <= one.partition_index < len(topic.partitions):
            absent = Code.UNKNOWN_TOPIC_OR_PARTITION
            if not doubt.parks(absent, lambda: self._one(context, name, one, deadline_ms, doubt, done)):
                done(OffsetResult(doubt.answer(absent)))
        elif topic.internal:
            done(OffsetResult(Code.INVALID_TOPIC_EXCEPTION))
        else:
            log = services.surface.local_log(topic.partitions[one.partition_index].group)
            if log is None:
                done(OffsetResult(Code.NOT_LEADER_OR_FOLLOWER))
            else:
                log.delete_records(one.offset, deadline_ms=deadline_ms, done=done)
