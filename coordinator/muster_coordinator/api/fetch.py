"""Fetch: long polls of the logs led here (protocol notes 13). There are no fetch sessions: every request is full, and
sessionId is always 0.

Mechanism: `handle` reads once. If that is not enough to answer, the request is parked: a `ParkedFetch` watches the logs
and reads all again when one of them moves, until there are enough bytes, an error, max_wait has passed, or another kind
of request on the same connection waits behind it (docs/adr/0007). So an idle consumer costs two reads per max_wait. The
number of parked ones is bounded (`limits.FETCHES_PARKED_MAX`); beyond it a Fetch is answered at once. While a new
leader has not applied its term's no-op the request is parked, then is answered 6, never 1 (decision 5). A leader that
may have been deposed answers neither 1 nor a diverging epoch: when a pass finds an offset out of range or an epoch
diverging, a ReadIndex round of that partition confirms the leadership, and the logs are read again. Likewise a replica
whose image may be behind calls no topic or partition unknown before that is confirmed (`doubt`); unconfirmed it answers
6.
"""

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.cluster_view import ClusterView
from muster_coordinator.api.doubt import ABSENT, Doubt
from muster_coordinator.api.gather import Gather
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import EMPTY_ID, ClusterImage, Topic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Timer
from muster_coordinator.replica.partitions.surface import LocalLog, ReadResult
from muster_coordinator.wire.connection import Exchange
from muster_coordinator.wire.schema import Value

_BY_ID_SINCE, _LEADER_TAG_SINCE = 13, 16
_STORAGE_ERROR_FROM = 6
"""KIP-112: older clients do not know KAFKA_STORAGE_ERROR; NOT_LEADER_OR_FOLLOWER makes them look for the leader."""
_READ_COMMITTED = 1
_UNPACK_FRAME = struct.Struct(">qi").unpack_from
_FRAME_BYTES = 12
"""baseOffset and batchLength of a batch."""
_NOTHING_PROVEN: Mapping[GroupNo, bool] = {}
_LEADER_ELSEWHERE = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)


class Wanted(NamedTuple):
    """One partition of the request; if it is named twice, the last entry counts."""

    key: str | bytes
    """The topic's name or id, as in the request."""
    asked: Value


class Reading(NamedTuple):
    """Result of one pass over all partitions."""

    results: list[tuple[Wanted, ReadResult, GroupNo | None]]
    bytes: int
    urgent: bool
    """There is an error or a diverging epoch, so the request is answered at once."""
    logs: list[LocalLog]
    unproven: list[LocalLog]
    """Logs whose result (an offset out of range, a diverging epoch) must be confirmed by a ReadIndex round."""
    absent: Code
    """The error of a topic or partition that the image does not have; NONE: it has all."""


def _wanted(request: Value, version: int) -> list[Wanted]:
    found: dict[tuple[str | bytes, int], Wanted] = {}
    for topic in request.topics:
        key = topic.topic_id if version >= _BY_ID_SINCE else topic.topic
        for one in topic.partitions:
            found[key, one.partition] = Wanted(key, one)
    return list(found.values())


class Fetch:
    """Handler of Fetch v4-18."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.parked = 0

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """Answer now, or park until the logs move."""
        if request.session_epoch > 0:
            reply(_refused(Code.FETCH_SESSION_ID_NOT_FOUND))
            return
        if request.isolation_level not in (0, _READ_COMMITTED):
            reply(_refused(Code.INVALID_REQUEST))
            return
        wanted = _wanted(request, version)
        reading = self.read(context, request, wanted)
        enough = reading.bytes >= min(request.min_bytes, request.max_bytes)
        if not wanted or request.max_wait_ms <= 0 or enough or reading.urgent or not reading.logs:
            self.finish(context, version, request, wanted, reading, reply)
            return
        if self.parked >= limits.FETCHES_PARKED_MAX:
            self.finish(context, version, request, wanted, reading, reply)
            return
        ParkedFetch(self, context, version, request, wanted, reply).watch(reading.logs)

    def finish(
        self,
        context: RequestContext,
        version: int,
        request: Value,
        wanted: list[Wanted],
        reading: Reading,
        reply: Exchange,
        proven: Mapping[GroupNo, bool] = _NOTHING_PROVEN,
        doubt: Doubt | None = None,
    ) -> None:
        """Answer. Before that, confirm what the reading says does not exist, and read again. A confirmation holds for
        the whole request."""
        if reading.absent is not Code.NONE:
            doubt = doubt or Doubt(self.services.surface, Code.NOT_LEADER_OR_FOLLOWER)

            def look_again() -> None:
                again = self.read(context, request, wanted, proven)
                self.finish(context, version, request, wanted, again, reply, proven, doubt)

            if doubt.parks(reading.absent, look_again):
                return
        unproven = [log for log in reading.unproven if log.group not in proven]
        if not unproven:
            reply(self.answer(context, version, request, reading, doubt))
            return

        def confirmed(results: list[bool]) -> None:
            now = {**proven, **{log.group: result for log, result in zip(unproven, results, strict=True)}}
            again = self.read(context, request, wanted, now)
            self.finish(context, version, request, wanted, again, reply, now, doubt)

        gather: Gather[bool] = Gather(len(unproven), confirmed)
        for index, log in enumerate(unproven):
            log.confirm(gather.part(index))

    def read(
        self,
        context: RequestContext,
        request: Value,
        wanted: list[Wanted],
        proven: Mapping[GroupNo, bool] = _NOTHING_PROVEN,
    ) -> Reading:
        """One pass in request order. The first partition with data returns a whole batch whatever the limits (KIP-74).
        `proven`: results of ReadIndex rounds; where one failed, this replica counts as no leader."""
        image = self.services.surface.image()
        results: list[tuple[Wanted, ReadResult, GroupNo | None]] = []
        logs: list[LocalLog] = []
        unproven: list[LocalLog] = []
        left = max(0, min(request.max_bytes, limits.FETCH_BYTES_MAX))
        got, urgent, absent = 0, False, Code.NONE
        topics: dict[str | bytes, Topic | Code] = {}
        for one in wanted:
            topic = topics.get(one.key)
            if topic is None:
                topic = topics[one.key] = self._topic(context, one.key, image)
            code, group = _partition(topic, one.asked)
            if group is not None:
                log = self.services.surface.local_log(group)
                result = ReadResult(Code.NOT_LEADER_OR_FOLLOWER)
                if log is not None and proven.get(group, True):
                    logs.append(log)
                    result = _read_one(log, one.asked, left, first=got == 0)
                    if result.unproven:
                        unproven.append(log)
                    if request.isolation_level == _READ_COMMITTED and result.last_stable_offset < result.high_watermark:
                        result = result._replace(records=_stable(result.records, result.last_stable_offset))
            else:
                result = ReadResult(code)
                absent = code if code in ABSENT else absent
            got += len(result.records)
            left = max(0, left - len(result.records))
            waits = result.code in (Code.NONE, Code.OFFSET_NOT_AVAILABLE)
            urgent = urgent or not waits or result.diverging_epoch >= 0
            results.append((one, result, group))
        return Reading(results, got, urgent, logs, unproven, absent)

    def _topic(self, context: RequestContext, key: str | bytes, image: ClusterImage | None) -> Topic | Code:
        """The topic, or its error by rows 3 and 4 of protocol notes 13.1."""
        name = key
        if isinstance(name, bytes):
            found = None if image is None or name == EMPTY_ID else image.names_by_id.get(name)
            if found is None:
                return Code.UNKNOWN_TOPIC_ID
            name = found
        if not self.services.may_topic(context, Operation.READ, name):
            return Code.TOPIC_AUTHORIZATION_FAILED
        topic = None if image is None else image.topics.get(name)
        return Code.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic

    def answer(
        self, context: RequestContext, version: int, request: Value, reading: Reading, doubt: Doubt | None
    ) -> Value:
        """The response; partitions are grouped by topic in request order."""
        topics: dict[str | bytes, list[Value]] = {}
        endpoints: dict[int, Value] = {}
        aborted = () if request.isolation_level == _READ_COMMITTED else None
        for one, result, group in reading.results:
            code = result.code
            if code is Code.OFFSET_NOT_AVAILABLE or (
                code is Code.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_FROM
            ):
                code = Code.NOT_LEADER_OR_FOLLOWER
            elif doubt is not None:
                code = doubt.answer(code)
            entry: dict[str, Value] = {
                "partition_index": one.asked.partition,
                "error_code": code,
                "high_watermark": -1,
                "last_stable_offset": -1,
                "log_start_offset": -1,
                "aborted_transactions": aborted,
                "preferred_read_replica": -1,
                "records": b"",
            }
            if code is Code.NONE:
                entry["high_watermark"] = result.high_watermark
                entry["last_stable_offset"] = result.last_stable_offset
                entry["log_start_offset"] = result.log_start_offset
                entry["records"] = result.records
                if result.diverging_epoch >= 0:
                    diverging = {"epoch": result.diverging_epoch, "end_offset": result.diverging_end_offset}
                    entry["diverging_epoch"] = diverging
            elif code in _LEADER_ELSEWHERE and version >= _LEADER_TAG_SINCE and group is not None:
                self._point_to_leader(context, group, entry, endpoints)
            topics.setdefault(one.key, []).append(entry)
        responses = [
            {"partitions": entries, ("topic_id" if isinstance(key, bytes) else "topic"): key}
            for key, entries in topics.items()
        ]
        return {"error_code": 0, "responses": responses, "node_endpoints": list(endpoints.values()) or None}

    def _point_to_leader(
        self, context: RequestContext, group: GroupNo, entry: dict[str, Value], endpoints: dict[int, Value]
    ) -> None:
        """KIP-951: the partition's leader, when known."""
        image = self.services.surface.image()
        if image is None:
            return
        leader = ClusterView(self.services.surface, image, context.listener).leader(group)
        if leader.node is not None:
            entry["current_leader"] = {"leader_id": leader.leader_id, "leader_epoch": leader.epoch}
            endpoints[leader.leader_id] = leader.node._asdict()


def _partition(topic: Topic | Code, asked: Value) -> tuple[Code, GroupNo | None]:
    """The partition's Raft group, or the error why there is none."""
    if isinstance(topic, Code):
        return topic, None
    if not 0 <= asked.partition < len(topic.partitions):
        return Code.UNKNOWN_TOPIC_OR_PARTITION, None
    if asked.partition_max_bytes < 0:
        return Code.INVALID_REQUEST, None
    return Code.NONE, topic.partitions[asked.partition].group


def _read_one(log: LocalLog, asked: Value, left: int, *, first: bool) -> ReadResult:
    code = log.serving(asked.current_leader_epoch)
    if code is not Code.NONE:
        return ReadResult(code)
    if asked.last_fetched_epoch != -1:
        end = log.epoch_end(asked.last_fetched_epoch)
        if end.epoch < 0:
            return ReadResult(Code.OFFSET_OUT_OF_RANGE, unproven=True)
        if end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
            here = log.read(asked.fetch_offset, 0, whole_first_batch=False)
            if here.code is Code.NONE or here.code is Code.OFFSET_OUT_OF_RANGE:
                return here._replace(
                    code=Code.NONE,
                    records=b"",
                    diverging_epoch=end.epoch,
                    diverging_end_offset=end.end_offset,
                    unproven=True,
                )
            return here
    return log.read(asked.fetch_offset, min(asked.partition_max_bytes, left), whole_first_batch=first)


def _stable(records: bytes, last_stable_offset: int) -> bytes:
    """The whole batches below the last stable offset, where read_committed ends while a transaction is open."""
    pos = 0
    while pos < len(records):
        base_offset, length = _UNPACK_FRAME(records, pos)
        if base_offset >= last_stable_offset:
            break
        pos += _FRAME_BYTES + length
    return records[:pos]


class ParkedFetch:
    """One parked Fetch. It ends exactly once: by enough bytes, an error, max_wait, or the end of the connection."""

    __slots__ = (
        "_context", "_fetch", "_last_ms", "_next_look", "_reply", "_request", "_time_out_timer", "_unwatch", "_version",
        "_wanted",
    )  # fmt: skip

    def __init__(
        self, fetch: Fetch, context: RequestContext, version: int, request: Value, wanted: list[Wanted], reply: Exchange
    ) -> None:
        self._fetch = fetch
        self._context = context
        self._version = version
        self._request = request
        self._wanted = wanted
        self._reply: Exchange | None = reply
        """None: it has ended."""
        self._next_look: Timer | None = None
        self._unwatch: list[Callable[[], None]] = []
        loop = fetch.services.surface.loop
        fetch.parked += 1
        self._last_ms = loop.monotonic_ms()
        wait_ms = min(request.max_wait_ms, limits.FETCH_WAIT_MS_MAX)
        self._time_out_timer = loop.call_at(self._last_ms + wait_ms, self._time_out)
        reply.on_close(self._end)
        reply.on_followed(self._time_out)

    def watch(self, logs: list[LocalLog]) -> None:
        """Read again when one of these logs moves."""
        self._unwatch = [log.watch(self._moved) for log in logs]

    def _moved(self) -> None:
        """A log moved: read again, once for all logs that move in this turn; with min_bytes above one, at most every
        FETCH_RECHECK_MS."""
        if self._next_look is not None or self._reply is None:
            return
        loop = self._fetch.services.surface.loop
        pause_ms = limits.FETCH_RECHECK_MS if self._request.min_bytes > 1 else 0
        self._next_look = loop.call_at(self._last_ms + pause_ms, self._look)

    def _look(self) -> None:
        self._next_look = None
        reply = self._reply
        if reply is None:
            return
        self._last_ms = self._fetch.services.surface.loop.monotonic_ms()
        reading = self._fetch.read(self._context, self._request, self._wanted)
        if reading.urgent or reading.bytes >= min(self._request.min_bytes, self._request.max_bytes):
            self._finish(reading, reply)

    def _time_out(self) -> None:
        """Answer with what there is now."""
        if self._reply is not None:
            self._finish(self._fetch.read(self._context, self._request, self._wanted), self._reply)

    def _finish(self, reading: Reading, reply: Exchange) -> None:
        self._end()
        self._fetch.finish(self._context, self._version, self._request, self._wanted, reading, reply)

    def _end(self) -> None:
        """Stop watching and drop all references; also called when the connection has closed."""
        if self._reply is None:
            return
        self._reply = None
        self._fetch.parked -= 1
        for timer in (self._time_out_timer, self._next_look):
            if timer is not None:
                timer.cancel()
        for unwatch in self._unwatch:
            unwatch()
        self._unwatch = []


def _refused(code: Code) -> Value:
    return {"error_code": code, "responses": ()}
