"""Lag in topics in Redis, as a number of records, for the meter of groups.

Problem: only Redis can count what lies between a committed offset and the end, which takes it milliseconds of a far
one, and the meter walks all groups every few seconds. Mechanism: who asks gets what is known, at once, and thereby has
the row asked for again, with the offset of that moment: one call at a time, with a pause that grows with what the call
cost Redis. Rows are bounded, and what is known grows old. When Redis is away all is unknown, and one call now and then
finds out that it is back; one lost answer alone changes nothing. What this does not do: run in the way of a commit or a
fetch, or claim a stream: one that its owner has not claimed has an unknown lag.
"""

from typing import NamedTuple

from muster_coordinator.controller.image import Topic
from muster_coordinator.ports import Loop, Timer
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.lag import UNKNOWN, Records, behind_arguments, records_behind
from muster_coordinator.redis_streams.server import BEHIND, Answer, Failure, StreamServer, Trouble
from muster_coordinator.replica.partitions.stream_place import StreamPlace

_AWAY = (Trouble.AWAY, Trouble.UNKNOWN)


class _Row(NamedTuple):
    """A group's offset in one incarnation of a partition."""

    group: str
    incarnation: int


class _Known(NamedTuple):
    records: Records
    at_ms: int


class _Asked(NamedTuple):
    place: StreamPlace
    committed: int


class RedisLags:
    """See the module. One for a replica; all calls are made on its loop."""

    def __init__(self, loop: Loop, server: StreamServer, cluster: str, prefix: str) -> None:
        self._loop, self._server = loop, server
        self._cluster, self._prefix = cluster, prefix
        self._due: dict[_Row, _Asked] = {}
        self._known: dict[_Row, _Known] = {}
        """The oldest first."""
        self._timer: Timer | None = None
        self._under_way = False
        self._pause_ms = 0

    def records(self, group: str, topic: Topic, partition: int, committed: int) -> Records:
        """What is known of the records behind this offset, from a while ago; it is asked for again."""
        row = _Row(group, topic.partitions[partition].group)
        if row in self._due or len(self._due) < limits.LAG_ROWS_MAX:
            place = StreamPlace.of(self._prefix, topic.name, dict(topic.configs), partition)
            self._due[row] = _Asked(place, committed)
            self._rest(limits.LAG_PACE_MS)
        found = self._known.get(row)
        if found is None or self._loop.monotonic_ms() - found.at_ms > limits.LAG_KEPT_MS:
            return UNKNOWN
        return found.records

    def _rest(self, pause_ms: int) -> None:
        """Have the next call be made after this pause, or a longer one that goes on."""
        if self._timer is None and not self._under_way:
            self._timer = self._loop.call_at(self._loop.monotonic_ms() + pause_ms, self._next)

    def _next(self) -> None:
        self._timer = None
        row = next(iter(self._due))
        place, committed = self._due.pop(row)
        self._under_way = True

        def answered(answer: Answer) -> None:
            self._under_way = False
            if isinstance(answer, Failure) and answer.trouble in _AWAY:
                if self._pause_ms:
                    self._known.clear()
                self._pause_ms = min(2 * self._pause_ms or limits.LAG_RETRY_MS, limits.LAG_RETRY_MS_MAX)
                self._due.setdefault(row, _Asked(place, committed))
                self._rest(self._pause_ms)
                return
            self._pause_ms = 0
            found = records_behind(answer, committed, place.offsets)
            self._keep(row, found)
            if self._due:
                self._rest(max(limits.LAG_PACE_MS, found.looked_at // limits.LAG_ENTRIES_PER_MS))

        asked = behind_arguments(self._cluster, row.incarnation, committed, place.offsets)
        self._server.run(BEHIND, place.keys, asked, answered)

    def _keep(self, row: _Row, records: Records) -> None:
        now_ms = self._loop.monotonic_ms()
        self._known.pop(row, None)
        self._known[row] = _Known(records, now_ms)
        oldest = next(iter(self._known))
        if len(self._known) > limits.LAG_ROWS_MAX or now_ms - self._known[oldest].at_ms > limits.LAG_KEPT_MS:
            del self._known[oldest]
