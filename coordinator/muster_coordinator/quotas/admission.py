"""Which connections are taken, and when each is read for the first time: Kafka's ConnectionQuotas.

Numbers: of the whole replica (`max.connections`), of one listener, of one address with exceptions. Rates: of the whole
replica and of one listener (`max.connection.creation.rate`), where connections that come faster are taken and read
later, one after the other, and refused only if that would be too late; and of one address (the quota
`connection_creation_rate`, KIP-612), where a connection above the rate is refused: its socket is closed when its
throttle time is over, so that a client that tries again at once is slowed.

What differs from Kafka: over a number, a connection is refused at once, where Kafka leaves it in the socket's queue
until another one ends. What it does not do: sockets, timers, clocks (`runtime.client_listener`).
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from muster_coordinator.quotas import limits
from muster_coordinator.quotas.rate import Rate, Windows
from muster_coordinator.security.addresses import java_address
from muster_coordinator.security.quota_entities import CONNECTION_CREATION_RATE, DEFAULT, IP, QuotaEntity


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """Of one listener; None: the replica's alone."""

    connections_max: int | None = None
    rate_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Of all listeners together."""

    connections_max: int
    per_address_max: int | None
    rate_max: int
    per_address_overrides: Mapping[str, int]
    listeners: Mapping[str, ListenerLimits]


class Admitted(NamedTuple):
    """The connection is counted; `gone` uncounts it."""

    delay_ms: int
    """It is not read before."""


class Refused(NamedTuple):
    """The connection is not counted."""

    why: str
    """The setting or quota."""
    close_ms: int = 0
    """Its socket is closed after this time."""


_BURST_MS = 100
"""Connections within so much of their rate are read at once."""


class _Pace:
    """Turns of connections, evenly spaced."""

    __slots__ = ("_ms", "_next_ms")

    def __init__(self, rate_max: int) -> None:
        self._ms = 1_000 / rate_max
        self._next_ms = 0.0

    def turn_ms(self, now_ms: float) -> float:
        return max(now_ms, self._next_ms)

    def take(self, now_ms: float) -> None:
        self._next_ms = self.turn_ms(now_ms) + self._ms


class Admission:
    """One for all listeners of a process."""

    def __init__(self, most: AdmissionLimits, windows: Windows, delay_ms_max: int) -> None:
        self._most = most
        self._overrides = {java_address(one): number for one, number in most.per_address_overrides.items()}
        self._windows = windows
        self._delay_ms_max = delay_ms_max
        self._total = 0
        self._per_listener: Counter[str] = Counter()
        self._per_address: Counter[str] = Counter()
        self._pace = _Pace(most.rate_max)
        self._paces = {name: _Pace(one.rate_max) for name, one in most.listeners.items() if one.rate_max is not None}
        self._bounds: Mapping[str, float] = {}
        self._rates: OrderedDict[str, Rate] = OrderedDict()
        """By address, least recently used first."""

    def set(self, quotas: Mapping[QuotaEntity, tuple[tuple[str, float], ...]]) -> None:
        """All quotas of the cluster, from now on."""
        self._bounds = {
            java_address(entity[0][1]): value
            for entity, values in quotas.items()
            for key, value in values
            if entity[0][0] == IP and key == CONNECTION_CREATION_RATE
        }
        for address in [address for address in self._rates if self._bound(address) is None]:
            del self._rates[address]

    def admit(self, listener: str, address: str, now_ms: float) -> Admitted | Refused:
        """Count a new connection, or say why it is refused. `address` is as Java writes it."""
        crowded = self._crowded(listener, address)
        if crowded:
            return Refused(crowded)
        paces = [self._pace]
        if listener in self._paces:
            paces.append(self._paces[listener])
        delay_ms = max(pace.turn_ms(now_ms) for pace in paces) - now_ms
        if delay_ms > self._delay_ms_max:
            return Refused("max.connection.creation.rate")
        throttle_ms = self._throttle_ms(address, int(now_ms))
        if throttle_ms:
            return Refused(CONNECTION_CREATION_RATE, throttle_ms)
        for pace in paces:
            pace.take(now_ms)
        self._total += 1
        self._per_listener[listener] += 1
        self._per_address[address] += 1
        return Admitted(max(0, int(delay_ms - _BURST_MS)))

    def gone(self, listener: str, address: str) -> None:
        """An admitted connection has ended."""
        self._total -= 1
        self._per_listener[listener] -= 1
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]

    def _crowded(self, listener: str, address: str) -> str:
        most = self._most
        if self._total >= most.connections_max:
            return "max.connections"
        own = most.listeners.get(listener)
        if own is not None and own.connections_max is not None and self._per_listener[listener] >= own.connections_max:
            return f"listener.name.{listener.lower()}.max.connections"
        per_address = self._overrides.get(address, most.per_address_max)
        if per_address is not None and self._per_address[address] >= per_address:
            return "max.connections.per.ip"
        return ""

    def _bound(self, address: str) -> float | None:
        return self._bounds.get(address, self._bounds.get(DEFAULT))

    def _throttle_ms(self, address: str, now_ms: int) -> int:
        """For how long the address is above its rate, with this connection; one window at most, as in Kafka. Then the
        connection is not counted."""
        bound = self._bound(address)
        if bound is None:
            return 0
        rate = self._rates.get(address)
        if rate is None:
            rate = self._rates[address] = Rate(self._windows)
            if len(self._rates) > limits.TRACKED_MAX:
                self._rates.popitem(last=False)
        else:
            self._rates.move_to_end(address)
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(bound, now_ms), self._windows.ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        return throttle_ms
