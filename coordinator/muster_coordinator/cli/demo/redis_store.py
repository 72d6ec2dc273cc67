"""The demo's flights in Redis Streams: Redis is killed while they are loaded and read, and comes back on its files.

Problem: that nothing is lost has to be seen by somebody who knows only Redis, and lag in sparse offsets must not be
taken for records. Mechanism: while everybody lives, and at the end, XINFO STREAM of each partition is shown beside the
rows of `muster group lag` (`stream_table`); the first time by a thread, since everybody is busy then. Between, when the
coordinator is dead and another one has its groups, Redis is killed with SIGKILL and started again; only then the demo
starts the dead replica. As many entries as flights, and each flight seen, is each flight once. What this does not do:
start Redis first, or end it (`redis_process`).
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from redis.exceptions import RedisError

from muster_coordinator.cli.demo.clients import FinalOffsets
from muster_coordinator.cli.demo.flights import FLIGHTS
from muster_coordinator.cli.demo.stores import Finding, Moment, Progress
from muster_coordinator.cli.demo.stream_table import (
    OFFSETS,
    StreamRow,
    StreamSight,
    committed_until,
    lag_in_time,
    stream_table,
)
from muster_coordinator.cli.demo.view import View
from muster_coordinator.cli.exits import CliError
from muster_coordinator.cli.group_view import PartitionLag, describe_group, group_lags
from muster_coordinator.cli.kafka_client import KafkaSide
from muster_coordinator.redis_streams.entry_ids import EntryId
from muster_coordinator.redis_streams.keys import keys_of

SHOW_AT, KILL_AT = 0.15, 0.50
"""Shares of all flights seen at which the streams are shown, and Redis is killed."""
LOADED_MAX = 0.80
"""Share that is loaded before Redis is back, so that there are always some that come after."""
DEAD_S = 3.0
LAG_S_MAX = 10.0
PREFIX = "muster"
"""The default of `redis.prefix`."""
COUNT = "return #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2])"

Lags = Callable[[], Sequence[PartitionLag]]


class Server(Protocol):
    """What is done to Redis; see `RedisProcess`."""

    client: Any

    def kill(self) -> int: ...
    def start(self) -> None: ...
    def is_ready(self) -> bool: ...


class _Outage(NamedTuple):
    """Facts about the kill of Redis."""

    at_s: float
    acknowledged: int


class RedisStreams:
    """See the module."""

    deadline_s = 240.0

    def __init__(self, server: Server, lags: Lags, topic: str, group: str, view: View) -> None:
        """`lags`: the rows of `muster group lag`; raises CliError."""
        self._server, self._lags, self._topic, self._group, self._view = server, lags, topic, group, view
        self._showing: threading.Thread | None = None
        self._outage: _Outage | None = None
        self._started = False
        self._entries_back: int | None = None
        self._seen_back = 0
        self._seen = 0
        self._rows: list[StreamRow] = []
        self._trouble = ""

    @property
    def done(self) -> bool:
        return self._entries_back is not None

    @property
    def loaded_max(self) -> int:
        return FLIGHTS if self.done else int(LOADED_MAX * FLIGHTS)

    def act(self, moment: Moment) -> None:
        """Show the streams, kill Redis, start it again: each once, when it is due."""
        if self._outage is None:
            self._server.is_ready()  # raises when it has ended by itself
            if self._showing is None and moment.seen >= SHOW_AT * FLIGHTS:
                self._showing = threading.Thread(target=self._show, name="streams", daemon=True)
                self._showing.start()
            shown = self._showing is not None and not self._showing.is_alive()
            if moment.moved and shown and moment.seen >= KILL_AT * FLIGHTS:
                self._kill(moment)
            return
        dead_s = moment.elapsed_s - self._outage.at_s
        if not self._started:
            if dead_s >= DEAD_S:
                self._started = True
                self._server.start()
                self._view.note("starting Redis again on its files")
            return
        self._seen = moment.seen
        if self._server.is_ready() and self._entries_back is None:
            self._entries_back = self._entries()
            self._seen_back = moment.seen
            self._view.note(f"Redis is back {dead_s:.1f} s after the kill, with {self._entries_back:,} flights")

    def _kill(self, moment: Moment) -> None:
        pid = self._server.kill()
        self._outage = _Outage(moment.elapsed_s, moment.acknowledged)
        self._view.note(f"killed Redis (SIGKILL, pid {pid}): {moment.acknowledged:,} flights are acknowledged")

    def _show(self) -> None:
        """While flights are loaded: the coordinator is asked first, so that the streams have more."""
        try:
            rows = self._take()
        except (CliError, RedisError, OSError) as error:
            self._view.note(f"streams and lag are unknown: {error}")
        else:
            self._view.note("streams, and the group's lag a moment before, while flights are loaded:")
            self._view.block(stream_table(rows, self._group))

    def end(self) -> None:
        try:
            self._rows = self._take()
        except (CliError, RedisError, OSError) as error:
            self._trouble = f"streams and lag are unknown at the end: {error}"

    def _take(self) -> list[StreamRow]:
        return [StreamRow(self._sight(one), one) for one in self._lags()]

    def _sight(self, lag: PartitionLag) -> StreamSight:
        client, stream = self._server.client, self._stream(lag.partition.partition)
        told = client.xinfo_stream(stream)
        behind = 0
        if lag.committed is not None and isinstance(lag.lag, int) and lag.lag:
            first, last = OFFSETS.id_of(lag.committed), OFFSETS.id_of(lag.committed + lag.lag - 1)
            behind = client.eval(COUNT, 1, stream, first.text, last.text)
        return StreamSight(told["length"], EntryId.parse(told["last-generated-id"]), told["groups"], behind)

    def _stream(self, partition: int) -> str:
        return keys_of(PREFIX, self._topic, partition)[0]

    def _entries(self) -> int:
        client = self._server.client
        return sum(client.xlen(key) for key in client.scan_iter(match=self._stream(0).replace(":0}", ":*}")))

    # -- the verdict -----------------------------------------------------------------------------------------------

    def closing(self) -> list[str]:
        return stream_table(self._rows, self._group) if self._rows else []

    def findings(self, offsets: FinalOffsets) -> list[Finding]:
        partitions = len(offsets.ends)
        if self._trouble:
            return [Finding(False, self._trouble), *self._survived()]
        entries = sum(row.stream.length for row in self._rows)
        level = [row for row in self._rows if row.ends_agree() and row.group.lag == 0]
        return [
            Finding(entries == FLIGHTS, f"the streams hold {entries:,} entries (XINFO STREAM): every flight once"),
            Finding(
                len(level) == partitions,
                f"lag 0 and log end = last-generated-id + 1 in {len(level)} of {partitions} partitions",
            ),
            *self._survived(),
        ]

    def _survived(self) -> list[Finding]:
        if self._outage is None or self._entries_back is None:
            return [Finding(False, "Redis was not killed, or did not come back")]
        before, after = self._outage.acknowledged, self._seen - self._seen_back
        back = f"Redis came back with {self._entries_back:,} flights; {before:,} had been acknowledged"
        return [
            Finding(self._entries_back >= before, back),
            Finding(after > 0, f"{after:,} flights were read after Redis came back"),
        ]

    # -- what offsets mean -----------------------------------------------------------------------------------------

    def committed(self, offsets: Sequence[int]) -> str:
        return committed_until(offsets)

    def lag(self, partitions: Iterable[Progress]) -> str | None:
        return lag_in_time(partitions)


def lags_of(bootstrap: str, group: str) -> list[PartitionLag]:
    """The rows of `muster group lag`. Raises CliError."""
    with KafkaSide(bootstrap, timeout_s=LAG_S_MAX) as side:
        return group_lags(side, describe_group(side, group))
