"""Holds clients to their quotas, as Kafka does since KIP-219: the answer goes out first and says for how long the
client is throttled, then the connection is not read for that time.

What counts (KIP-13, KIP-124): bytes of Produce requests, bytes of Fetch answers, and of every request the time that the
loop's thread works for it: decoding, handling, encoding the answer; 100 is the whole thread. What a request waits for
(a quorum, more data) and what other requests do meanwhile is not its time. A Fetch that is throttled is answered
without data, and what it would have taken is not counted; the client asks again when the time is over. Produce with
acks=0 has no answer, and is held to its bytes alone. Replicas copy from each other on links of their own, which nothing
here sees; nor are requests counted by which a client shows who it is.

CreateTopics, CreatePartitions and DeleteTopics take a token for each partition (KIP-599). Versions whose clients know
the code are refused, topic by topic, while there are none (THROTTLING_QUOTA_EXCEEDED); older ones take them all the
same. Both are told how long it will be until there are some, and are muted as above.

While no client has a quota, a request pays one look at `active`. What this does not do: sockets and timers
(`runtime.client_connection` mutes), or decide which quota holds (`quotas`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from typing_extensions import override

from muster_coordinator.context import RequestContext
from muster_coordinator.events import CLIENT_THROTTLED, Event, Tell, untold
from muster_coordinator.ports import Clock
from muster_coordinator.quotas.client_quotas import KEYS, ClientQuotas, Kind
from muster_coordinator.quotas.limits import QUOTA_WINDOW_SECONDS, QUOTA_WINDOWS
from muster_coordinator.quotas.mutations import MutationQuotas
from muster_coordinator.quotas.rate import Windows
from muster_coordinator.security.quota_entities import QuotaEntity
from muster_coordinator.wire.versions import Api

DEFAULT_WINDOWS = Windows(QUOTA_WINDOWS, QUOTA_WINDOW_SECONDS * 1_000)
_OF_AUTHENTICATION = frozenset((Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE))
_OF_MUTATIONS = frozenset((Api.CREATE_TOPICS, Api.CREATE_PARTITIONS, Api.DELETE_TOPICS))
_OF_BYTES = frozenset((Api.PRODUCE, Api.FETCH))
_NS_OF_A_PERCENT = 10_000_000
_PRINCIPAL_PREFIX = "User:"
EMPTY_FETCH: Mapping[str, object] = {"error_code": 0, "responses": (), "node_endpoints": None}
"""What a throttled Fetch is answered. Clients know it: KIP-219."""


class Use(NamedTuple):
    """What a request has taken, when its answer is encoded."""

    context: RequestContext
    request_bytes: int
    answer_bytes: int
    """0: none is sent."""
    spent_ns: int | None
    """None: its time is not held against it."""
    mutations: "Mutations | None" = None
    """What it has created and deleted; None: it is of another kind."""


class Mutations:
    """What one request creates and deletes, and what its client is told of it: Kafka's ControllerMutationQuota."""

    __slots__ = ("_client_id", "_clock", "_quotas", "_strict", "_until_ms", "_user")

    def __init__(self, quotas: MutationQuotas, clock: Clock, context: RequestContext, *, strict: bool) -> None:
        self._quotas = quotas
        self._clock = clock
        self._user, self._client_id = user_of(context.principal), context.client_id
        self._strict = strict
        self._until_ms = 0

    def take(self, partitions: int) -> bool:
        """False: there is nothing left, and these are to be refused."""
        now_ms = self._clock.monotonic_ms()
        wait_ms = self._quotas.wait_ms(self._user, self._client_id, now_ms) if self._strict else 0
        if not wait_ms:
            self._quotas.take(self._user, self._client_id, partitions, now_ms)
            if self._strict:
                return True
            wait_ms = self._quotas.wait_ms(self._user, self._client_id, now_ms)
        self._until_ms = now_ms + wait_ms
        return not self._strict

    def throttle_ms(self, now_ms: int) -> int:
        """What is left by now of the time that was found; the answer may come much later."""
        return max(0, self._until_ms - now_ms)


class _Unbounded(Mutations):
    """Of requests that no quota counts."""

    __slots__ = ()

    def __init__(self) -> None:
        """Nothing is kept."""

    @override
    def take(self, partitions: int) -> bool:
        return True

    @override
    def throttle_ms(self, now_ms: int) -> int:
        return 0


UNBOUNDED: Mutations = _Unbounded()


@dataclass(slots=True)
class ThrottleStats:
    """By kind, since the start; but for `entities`."""

    entities: int = 0
    """Of clients and addresses, whose quotas are in force now."""
    requests: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    """Requests whose answers threw their clients back."""
    ms: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))


class Throttling:
    """One for all connections of a process."""

    __slots__ = ("_clock", "_tell", "active", "quotas", "stats", "times_requests")

    def __init__(
        self,
        clock: Clock,
        windows: Windows = DEFAULT_WINDOWS,
        tell: Tell = untold,
        mutation_windows: Windows = DEFAULT_WINDOWS,
    ) -> None:
        self._clock = clock
        self._tell = tell
        self.quotas = ClientQuotas(windows, mutation_windows=mutation_windows)
        self.stats = ThrottleStats()
        self.active = False
        """Does any client have a quota?"""
        self.times_requests = False
        """Does any have one of time? Then repeated heartbeats are requests as any others (docs/adr/0012)."""

    def set(self, quotas: Mapping[QuotaEntity, tuple[tuple[str, float], ...]]) -> None:
        """All quotas of the cluster, from now on."""
        self.quotas.set(quotas)
        self.stats.entities = len(quotas)
        self.active = self.quotas.active
        self.times_requests = self.quotas.kinds[Kind.REQUEST].active

    def counts(self, api: int) -> bool:
        """Does any quota count requests of this API?"""
        if api in _OF_BYTES or (self.quotas.mutations.active and api in _OF_MUTATIONS):
            return True
        return self.times_requests and api not in _OF_AUTHENTICATION

    def mutations(self, context: RequestContext, *, strict: bool) -> Mutations:
        """For one request. `strict`: its version's clients know THROTTLING_QUOTA_EXCEEDED."""
        return Mutations(self.quotas.mutations, self._clock, context, strict=strict)

    def fetch_bytes_max(self, context: RequestContext) -> int | None:
        """A Fetch that takes more would never be let through; None: there is no bound."""
        return self.quotas.kinds[Kind.FETCH].most_at_once(user_of(context.principal), context.client_id)

    def throttle_ms(self, use: Use) -> int:
        """Count what a request has taken. Returns for how long its client is throttled; 0: it is not."""
        context = use.context
        user, client_id, now_ms = user_of(context.principal), context.client_id, self._clock.monotonic_ms()
        kinds = self.quotas.kinds
        bandwidth = None
        bandwidth_ms = request_ms = 0
        if use.spent_ns is not None:
            request_ms = kinds[Kind.REQUEST].record(user, client_id, use.spent_ns / _NS_OF_A_PERCENT, now_ms)
        if context.api_key == Api.PRODUCE:
            bandwidth = Kind.PRODUCE
            bandwidth_ms = kinds[bandwidth].record(user, client_id, use.request_bytes, now_ms)
        elif context.api_key == Api.FETCH:
            bandwidth = Kind.FETCH
            bandwidth_ms = kinds[bandwidth].record(user, client_id, use.answer_bytes, now_ms)
            if bandwidth_ms or request_ms:
                kinds[bandwidth].take_back(user, client_id, use.answer_bytes, now_ms)
        mutation_ms = 0 if use.mutations is None else use.mutations.throttle_ms(now_ms)
        if mutation_ms > request_ms:
            self._note(context, Kind.MUTATION, mutation_ms)
        elif bandwidth is not None and bandwidth_ms > request_ms:
            self._note(context, bandwidth, bandwidth_ms)
        elif request_ms:
            self._note(context, Kind.REQUEST, request_ms)
        return max(bandwidth_ms, request_ms, mutation_ms)

    def _note(self, context: RequestContext, kind: Kind, ms: int) -> None:
        self.stats.requests[kind] += 1
        self.stats.ms[kind] += ms
        self._tell(
            Event(
                CLIENT_THROTTLED,
                {
                    "principal": context.principal,
                    "client": context.client_id,
                    "peer": context.client_host.removeprefix("/"),
                    "quota": KEYS[kind],
                    "throttle_ms": ms,
                },
            )
        )


def user_of(principal: str) -> str:
    """The name that quotas know the user by."""
    return principal.removeprefix(_PRINCIPAL_PREFIX)


class _NoTime:
    def monotonic_ms(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return 0


NOBODY_THROTTLED = Throttling(_NoTime())
"""For connections without quotas; it is never active."""
