"""ListOffsets: latest, earliest, by time (protocol notes 14). The latest offset is read after a ReadIndex round
(decision 36)."""

from collections import Counter
from collections.abc import Callable
from functools import partial

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.doubt import Doubt
from muster_coordinator.api.fetch_pass import READ_COMMITTED
from muster_coordinator.api.gather import gather_in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.replica.partitions.surface import LocalLog, OffsetResult
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_NOT_AVAILABLE_SINCE = 5
_EARLIEST = (-2, -4)
_NOWHERE = (-5, -6)
"""Tiered and pending upload: without remote storage there is no such offset."""
_SINCE = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}


class ListOffsets:
    """Handler of ListOffsets v1-11."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """Each partition by itself; one that is named twice gets one answer, error 42."""
        asked = [(topic.name, one) for topic in request.topics for one in topic.partitions]
        times = Counter((name, one.partition_index) for name, one in asked)
        once = list({(name, one.partition_index): (name, one) for name, one in asked}.values())

        def answered(results: list[OffsetResult]) -> None:
            topics: dict[str, list[Value]] = {}
            for (name, one), result in zip(once, results, strict=True):
                topics.setdefault(name, []).append(_partition(one.partition_index, result, version))
            reply({"topics": [{"name": name, "partitions": entries} for name, entries in topics.items()]})

        committed = request.isolation_level == READ_COMMITTED
        doubt = Doubt(self._services.surface, Code.NOT_LEADER_OR_FOLLOWER)

        def begin(index: int, arrived: Callable[[OffsetResult], None]) -> None:
            name, one = once[index]
            if times[name, one.partition_index] > 1:
                arrived(OffsetResult(Code.INVALID_REQUEST))
            else:
                self._one(context, version, name, one, doubt, arrived, committed=committed)

        gather_in_turns(self._services.surface.loop, len(once), begin, answered)

    def _one(
        self,
        context: RequestContext,
        version: int,
        name: str,
        one: Value,
        doubt: Doubt,
        done: Callable[[OffsetResult], None],
        *,
        committed: bool,
    ) -> None:
        timestamp: int = one.timestamp
        if timestamp < 0 and version < _SINCE.get(timestamp, 1 << 15):
            done(OffsetResult(Code.UNSUPPORTED_VERSION))
            return
        log = self._log(context, name, one.partition_index)
        if isinstance(log, Code):
            again = partial(self._one, context, version, name, one, doubt, done, committed=committed)
            if not doubt.parks(log, again):
                done(OffsetResult(doubt.answer(log)))
            return
        code = log.serving(one.current_leader_epoch)
        # The log start is known before the term's first entry is applied; the other answers are not (KIP-207).
        if code is not Code.NONE and not (code is Code.OFFSET_NOT_AVAILABLE and timestamp in _EARLIEST):
            done(OffsetResult(code))
        elif timestamp in _NOWHERE:
            done(OffsetResult(Code.NONE))
        else:
            log.list_offset(timestamp, committed=committed, done=done)

    def _log(self, context: RequestContext, name: str, index: int) -> LocalLog | Code:
        services = self._services
        if not services.may_topic(context, Operation.DESCRIBE, name):
            return Code.TOPIC_AUTHORIZATION_FAILED
        image = services.surface.image()
        topic = None if image is None else image.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        log = services.surface.local_log(topic.partitions[index].group)
        return Code.NOT_LEADER_OR_FOLLOWER if log is None else log


def _partition(index: int, result: OffsetResult, version: int) -> Value:
    code = result.code
    if code is Code.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_SINCE:
        code = Code.LEADER_NOT_AVAILABLE
    return {
        "partition_index": index,
        "error_code": code,
        "timestamp": result.timestamp_ms,
        "offset": result.offset,
        "leader_epoch": result.leader_epoch,
    }
