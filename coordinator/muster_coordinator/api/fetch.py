"""Fetch: long polls of the logs led here (protocol notes 13), within sessions or without (`fetch_sessions`).

Mechanism: `handle` reads once. If that is not enough to answer, the request is parked: a `ParkedFetch` watches the logs
and reads all again when one of them moves, until there are enough bytes, an error, max_wait has passed, or another kind
of request on the same connection waits behind it (docs/adr/0007). So an idle consumer costs two reads per max_wait. The
number of parked ones is bounded (`limits.FETCHES_PARKED_MAX`); beyond it a Fetch is answered at once. While a new
leader has not applied its term's no-op the request is parked, then is answered 6, never 1 (decision 5). A leader that
may have been deposed answers neither 1 nor a diverging epoch: when a pass finds an offset out of range or an epoch
diverging, a ReadIndex round of that partition confirms the leadership, and the logs are read again. Likewise a replica
whose image may be behind calls no topic or partition unknown before that is confirmed (`doubt`); unconfirmed it answers
6.

Logs of a store without READS_AT_ONCE are read between two passes, few at a time. Such a request looks once more after
it began to watch, since what came between its first look and that was told to nobody.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.cluster_view import ClusterView
from muster_coordinator.api.doubt import Doubt
from muster_coordinator.api.fetch_pass import (
    NOTHING_PROVEN,
    NOTHING_READ,
    READ_COMMITTED,
    Pass,
    Reading,
    Wanted,
    wanted_of,
)
from muster_coordinator.api.fetch_sessions import FetchContext, FetchSessions, Told
from muster_coordinator.api.gather import Gather, gather_few, in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import RAFT_GROUPS_MAX
from muster_coordinator.ports import Timer
from muster_coordinator.replica.partitions.surface import LocalLog, ReadResult
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.throttling import NOBODY_THROTTLED, Throttling

_LEADER_TAG_SINCE = 16
_STORAGE_ERROR_FROM = 6
"""KIP-112: older clients do not know KAFKA_STORAGE_ERROR; NOT_LEADER_OR_FOLLOWER makes them look for the leader."""
_LEADER_ELSEWHERE = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)


class Asked(NamedTuple):
    """One request with all partitions that it reads, those of its session included."""

    version: int
    request: Value
    wanted: list[Wanted]
    session: FetchContext


class Fetch:
    """Handler of Fetch v4-18."""

    def __init__(self, services: Services, throttling: Throttling = NOBODY_THROTTLED) -> None:
        self.services = services
        self._throttling = throttling
        self.sessions = FetchSessions(services.surface.rand, services.settings.fetch_session_slots)
        self.parked = 0

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """Answer now, or park until the logs move."""
        if request.isolation_level not in (0, READ_COMMITTED):
            reply(_refused(Code.INVALID_REQUEST))
            return
        if self._throttling.active:
            most = self._throttling.fetch_bytes_max(context)
            if most is not None and most < request.max_bytes:
                request = request._replace(max_bytes=most)
        now_ms = self.services.surface.loop.monotonic_ms()
        begun = self.sessions.begin(context.principal, request, version, wanted_of(request, version), now_ms)
        if isinstance(begun, Code):
            reply(_refused(begun))
            return
        session, wanted = begun
        asked = Asked(version, request, wanted, session)
        if len(wanted) > RAFT_GROUPS_MAX:
            # There are fewer partitions, so it is answered at once: in turns, because they are many.
            self.read(context, asked, NOTHING_PROVEN, lambda reading: self.finish(context, asked, reading, reply))
            return
        reading = Pass(self.services, context, asked.request, asked.wanted, NOTHING_PROVEN).whole()
        if reading.later:
            self._read_later(context, asked, NOTHING_PROVEN, reading, partial(self._begin, context, asked, reply))
        else:
            self._begin(context, asked, reply, reading)

    def _begin(self, context: RequestContext, asked: Asked, reply: Exchange, reading: Reading) -> None:
        request = asked.request
        enough = reading.bytes >= min(request.min_bytes, request.max_bytes)
        if not asked.wanted or request.max_wait_ms <= 0 or enough or reading.urgent or not reading.logs:
            self.finish(context, asked, reading, reply)
            return
        if self.parked >= limits.FETCHES_PARKED_MAX:
            self.finish(context, asked, reading, reply)
            return
        ParkedFetch(self, context, asked, reply).watch(reading.logs)

    def finish(
        self,
        context: RequestContext,
        asked: Asked,
        reading: Reading,
        reply: Exchange,
        proven: Mapping[GroupNo, bool] = NOTHING_PROVEN,
        doubt: Doubt | None = None,
    ) -> None:
        """Answer. Before that, confirm what the reading says does not exist, and read again. A confirmation holds for
        the whole request."""

        def read_again(shown: Mapping[GroupNo, bool], again: Reading) -> None:
            self.finish(context, asked, again, reply, shown, doubt)

        if reading.absent is not Code.NONE:
            doubt = doubt or Doubt(self.services.surface, Code.NOT_LEADER_OR_FOLLOWER)

            def look_again() -> None:
                self.read(context, asked, proven, partial(read_again, proven))

            if doubt.parks(reading.absent, look_again):
                return
        unproven = [log for log in reading.unproven if log.group not in proven]
        if not unproven:
            self._answer(context, asked, reading, doubt, reply)
            return

        def confirmed(results: list[bool]) -> None:
            now = {**proven, **{log.group: result for log, result in zip(unproven, results, strict=True)}}
            self.read(context, asked, now, partial(read_again, now))

        gather: Gather[bool] = Gather(len(unproven), confirmed)
        for index, log in enumerate(unproven):
            log.confirm(gather.part(index))

    def _read_later(
        self,
        context: RequestContext,
        asked: Asked,
        proven: Mapping[GroupNo, bool],
        reading: Reading,
        done: Callable[[Reading], None],
        before: Mapping[GroupNo, ReadResult] = NOTHING_READ,
    ) -> None:
        """Read what a pass could not, then make another one. What that finds to be read besides, since leadership came
        here meanwhile, is read too: each partition once, so this ends."""
        later = reading.later
        request = asked.request
        left = max(0, min(request.max_bytes, limits.FETCH_BYTES_MAX))
        committed = request.isolation_level == READ_COMMITTED

        def begin(index: int, arrived: Callable[[ReadResult], None]) -> None:
            def came(result: ReadResult) -> None:
                nonlocal left
                left -= len(result.records)
                arrived(result)

            one = later[index]
            one.log.read_later(one.offset, max(0, min(one.max_bytes, left)), committed=committed, done=came)

        def all_read(results: list[ReadResult]) -> None:
            read = {**before, **{one.log.group: result for one, result in zip(later, results, strict=True)}}

            def passed(again: Reading) -> None:
                if again.later:
                    self._read_later(context, asked, proven, again, done, read)
                else:
                    done(again)

            self._whole(Pass(self.services, context, request, asked.wanted, proven, read), len(asked.wanted), passed)

        gather_few(self.services.surface.loop, len(later), begin, all_read, at_once=limits.LATER_READS_AT_ONCE_MAX)

    def read(
        self,
        context: RequestContext,
        asked: Asked,
        proven: Mapping[GroupNo, bool],
        done: Callable[[Reading], None],
    ) -> None:
        """One pass, and another if logs had to be read between; in this turn if none has, and the partitions are no
        more than there may be."""

        def passed(reading: Reading) -> None:
            if reading.later:
                self._read_later(context, asked, proven, reading, done)
            else:
                done(reading)

        self._whole(Pass(self.services, context, asked.request, asked.wanted, proven), len(asked.wanted), passed)

    def _whole(self, one: Pass, count: int, done: Callable[[Reading], None]) -> None:
        if count > RAFT_GROUPS_MAX:
            in_turns(self.services.surface.loop, count, one.step, lambda: done(one.reading()))
        else:
            done(one.whole())

    def _answer(
        self,
        context: RequestContext,
        asked: Asked,
        reading: Reading,
        doubt: Doubt | None,
        reply: Exchange,
    ) -> None:
        """The response; partitions are grouped by topic in request order."""
        version = asked.version
        told: Told = []
        endpoints: dict[int, Value] = {}
        committed = asked.request.isolation_level == READ_COMMITTED

        def add(index: int) -> int:
            one, result, group = reading.results[index]
            code = result.code
            if code is Code.OFFSET_NOT_AVAILABLE or (
                code is Code.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_FROM
            ):
                code = Code.NOT_LEADER_OR_FOLLOWER
            elif doubt is not None:
                code = doubt.answer(code)
            entry = _entry(one, result, code, committed=committed)
            if code in _LEADER_ELSEWHERE and version >= _LEADER_TAG_SINCE and group is not None:
                self._point_to_leader(context, group, entry, endpoints)
            told.append((one, entry))
            return 0

        def added() -> None:
            concluded = asked.session.conclude(told, self.services.surface.loop.monotonic_ms())
            topics: dict[str | bytes, list[Value]] = {}
            for one, entry in concluded.told:
                topics.setdefault(one.key, []).append(entry)
            responses = [
                {"partitions": entries, ("topic_id" if isinstance(key, bytes) else "topic"): key}
                for key, entries in topics.items()
            ]
            reply(
                {
                    "error_code": concluded.code,
                    "session_id": concluded.session_id,
                    "responses": responses,
                    "node_endpoints": list(endpoints.values()) or None,
                }
            )

        in_turns(self.services.surface.loop, len(reading.results), add, added)

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


def _entry(one: Wanted, result: ReadResult, code: Code, *, committed: bool) -> dict[str, Value]:
    entry: dict[str, Value] = {
        "partition_index": one.asked.partition,
        "error_code": code,
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "aborted_transactions": () if committed else None,
        "preferred_read_replica": -1,
        "records": b"",
    }
    if code is Code.NONE:
        entry["high_watermark"] = result.high_watermark
        entry["last_stable_offset"] = result.last_stable_offset
        entry["log_start_offset"] = result.log_start_offset
        entry["records"] = result.records
        if result.aborted:
            entry["aborted_transactions"] = [
                {"producer_id": each.producer_id, "first_offset": each.first_offset} for each in result.aborted
            ]
        entry["preferred_read_replica"] = result.preferred_replica
        if result.diverging_epoch >= 0:
            entry["diverging_epoch"] = {"epoch": result.diverging_epoch, "end_offset": result.diverging_end_offset}
    return entry


class ParkedFetch:
    """One parked Fetch. It ends exactly once: by enough bytes, an error, max_wait, or the end of the connection."""

    __slots__ = (
        "_again", "_asked", "_context", "_fetch", "_last", "_last_ms", "_looks", "_next_look", "_reply",
        "_time_out_timer", "_unwatch",
    )  # fmt: skip

    def __init__(self, fetch: Fetch, context: RequestContext, asked: Asked, reply: Exchange) -> None:
        self._fetch = fetch
        self._context = context
        self._asked = asked
        self._reply: Exchange | None = reply
        """None: it has ended."""
        self._next_look: Timer | None = None
        self._looks = self._again = self._last = False
        """A look is under way; a log moved since it began; it is the last one, whatever it finds."""
        self._unwatch: list[Callable[[], None]] = []
        loop = fetch.services.surface.loop
        fetch.parked += 1
        self._last_ms = loop.monotonic_ms()
        wait_ms = min(asked.request.max_wait_ms, limits.FETCH_WAIT_MS_MAX)
        self._time_out_timer = loop.call_at(self._last_ms + wait_ms, self._time_out)
        reply.on_close(self._end)
        reply.on_followed(self._time_out)

    def watch(self, logs: list[LocalLog]) -> None:
        """Read again when one of these logs moves; and once now, if it may have moved since it was read."""
        self._unwatch = [log.watch(self._moved) for log in logs]
        if not all(log.reads_at_once for log in logs):
            self._moved()

    def _moved(self) -> None:
        """A log moved: read again, once for all logs that move in this turn; with min_bytes above one, at most every
        FETCH_RECHECK_MS."""
        if self._next_look is not None or self._reply is None:
            return
        if self._looks:
            self._again = True
            return
        loop = self._fetch.services.surface.loop
        pause_ms = limits.FETCH_RECHECK_MS if self._asked.request.min_bytes > 1 else 0
        self._next_look = loop.call_at(self._last_ms + pause_ms, self._look)

    def _look(self) -> None:
        self._next_look = None
        if self._reply is not None and not self._looks:
            self._read()

    def _read(self) -> None:
        self._last_ms = self._fetch.services.surface.loop.monotonic_ms()
        self._looks, self._again = True, False
        self._fetch.read(self._context, self._asked, NOTHING_PROVEN, self._looked)

    def _looked(self, reading: Reading) -> None:
        self._looks = False
        reply = self._reply
        if reply is None:
            return
        enough = reading.bytes >= min(self._asked.request.min_bytes, self._asked.request.max_bytes)
        if self._last or reading.urgent or enough:
            self._finish(reading, reply)
        elif self._again:
            self._moved()

    def _time_out(self) -> None:
        """Answer with what there is now, or with what the look that is under way finds."""
        if self._reply is None:
            return
        self._last = True
        if not self._looks:
            self._read()

    def _finish(self, reading: Reading, reply: Exchange) -> None:
        self._end()
        self._fetch.finish(self._context, self._asked, reading, reply)

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
