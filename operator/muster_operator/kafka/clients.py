"""Admin clients of kafka-python, one per cluster, made when first needed and discarded when they fail. Blocking.

A client is a thread and a few connections, so there is one per set of bootstrap servers, not one per group. It caches
coordinators and never forgets one that moved; hence a failed request discards the client, and the next request makes a
new one. The number of clusters is not bounded: beyond KAFKA_CONNECTIONS_MAX the least recently used client is closed,
and made again when it is needed.

A cluster that did not answer is not contacted for a moment: requests about its other groups get the same answer at once
instead of each waiting for a time-out.

kafka-python logs whole requests and answers; its loggers are silenced, errors arrive as exceptions.

A secured cluster is known by its addresses and its login together: a changed password makes a new client, and the old
one is closed when it was not used for a while. When a secured cluster lets nobody in, `diagnosis` finds the reason.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import kafka
import kafka.errors

from muster_operator.errors import Transient
from muster_operator.kafka import diagnosis, security
from muster_operator.limits import (
    KAFKA_BOOTSTRAP_TIMEOUT_MS,
    KAFKA_CONNECTIONS_MAX,
    KAFKA_IDLE_MS,
    KAFKA_REQUEST_TIMEOUT_MS,
    KAFKA_UNREACHABLE_FOR_MS,
)
from muster_operator.ports import Clock
from muster_operator.world.login import Endpoint, Where

Untyped = Any
Factory = Callable[[Any], Untyped]
Weight = Callable[[Untyped], int]

logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)


def connect(where: Where) -> Untyped:
    """A connected admin client. Raises kafka.errors.KafkaError or Transient, and then leaves no thread behind."""
    login = security.settings(where.login) if isinstance(where, Endpoint) else {}
    networks: list[Untyped] = []

    def network(**config: Untyped) -> Untyped:
        networks.append(kafka.KafkaAdminClient.DEFAULT_CONFIG["kafka_client"](**config))
        return networks[-1]

    try:
        return kafka.KafkaAdminClient(
            bootstrap_servers=[one.strip() for one in str(where).split(",") if one.strip()],
            client_id="muster-operator",
            bootstrap_timeout_ms=KAFKA_BOOTSTRAP_TIMEOUT_MS,
            request_timeout_ms=KAFKA_REQUEST_TIMEOUT_MS,
            reconnect_backoff_max_ms=1_000,
            kafka_client=network,
            **login,
        )
    except kafka.errors.KafkaError:
        for one in networks:
            one.close()
        raise


def nobody(bootstrap: Where) -> Transient:
    """The error for a cluster that does not answer. The message is always the same, because a changing message would
    cost a status write each time."""
    return Transient("BootstrapUnreachable", f"no broker answers at {bootstrap}")


def connections(client: Untyped) -> int:
    """The number of connections that a client may hold: one per broker of the cluster now, and one for the bootstrap.
    Sends one request; raises kafka.errors.KafkaError."""
    return 1 + len(client.describe_cluster().get("brokers") or ())


class Clients:
    """Thread-safe. `use` returns a client or raises Transient; `failed` and `drop` discard one."""

    def __init__(
        self,
        clock: Clock,
        factory: Factory = connect,
        *,
        weight: Weight = connections,
        connections_max: int = KAFKA_CONNECTIONS_MAX,
        diagnose: Callable[[Endpoint, Clock], Transient | None] = diagnosis.why_not,
    ) -> None:
        self._clock = clock
        self._factory = factory
        self._weight = weight
        self._diagnose = diagnose
        self._connections_max = connections_max
        self._lock = threading.Lock()
        self._clients: dict[Where, Untyped] = {}
        """In order of last use, the least recent first."""
        self._held: dict[Where, int] = {}
        """Connections of each client, as counted when it was made."""
        self._in_use: dict[Where, int] = {}
        self._used_ms: dict[Where, int] = {}
        self._silent_until_ms: dict[Where, int] = {}
        self._why: dict[Where, Transient] = {}
        """Of those that are silent: why, if it is known."""
        self._proven: set[Where] = set()
        self._closed = False

    @contextmanager
    def use(self, bootstrap: Where) -> Iterator[Untyped]:
        """The client of `bootstrap`, made if needed (blocks up to KAFKA_BOOTSTRAP_TIMEOUT_MS). While it is in use, it
        is not closed to make room for others."""
        with self._lock:
            self._in_use[bootstrap] = self._in_use.get(bootstrap, 0) + 1
        try:
            yield self._get(bootstrap)
        finally:
            with self._lock:
                self._in_use[bootstrap] -= 1
                if not self._in_use[bootstrap]:
                    del self._in_use[bootstrap]

    def _get(self, bootstrap: Where) -> Untyped:
        now = self._clock.monotonic_ms()
        with self._lock:
            self._stop_when_closed()
            self._used_ms[bootstrap] = now
            known = self._clients.pop(bootstrap, None)
            if known is not None:
                self._clients[bootstrap] = known
                return known
            if now < self._silent_until_ms.get(bootstrap, 0):
                raise self._nobody(bootstrap)
        made: Untyped = None
        try:
            made = self._factory(bootstrap)
            held = self._weight(made)
        except (kafka.errors.KafkaError, OSError, ValueError, RuntimeError):  # RuntimeError: its thread ended at once
            if made is not None:
                _close(made)
            raise self._silence(bootstrap, self._find_why(bootstrap)) from None
        except Transient as error:  # the login cannot be used at all
            raise self._silence(bootstrap, error) from None
        with self._lock:
            self._stop_when_closed(made)
            known = self._clients.setdefault(bootstrap, made)
            if known is made:
                self._held[bootstrap] = held
            self._silent_until_ms.pop(bootstrap, None)
            self._why.pop(bootstrap, None)
            self._proven.add(bootstrap)
            surplus = self._make_room()
        for one in surplus:
            _close(one)
        if known is not made:
            _close(made)
        return known

    def _find_why(self, bootstrap: Where) -> Transient | None:
        return self._diagnose(bootstrap, self._clock) if isinstance(bootstrap, Endpoint) else None

    def _silence(self, bootstrap: Where, why: Transient | None) -> Transient:
        """Not asked for a moment; returns the error."""
        with self._lock:
            self._proven.discard(bootstrap)
            self._silent_until_ms[bootstrap] = self._clock.monotonic_ms() + KAFKA_UNREACHABLE_FOR_MS
            if why is None:
                self._why.pop(bootstrap, None)
            else:
                self._why[bootstrap] = why
            return self._nobody(bootstrap)

    def _nobody(self, bootstrap: Where) -> Transient:
        why = self._why.get(bootstrap)
        return nobody(bootstrap) if why is None else Transient(why.reason, why.message)

    def why_silent(self, bootstrap: Where) -> Transient:
        """The error for a cluster that did not answer, or did not let us in, the last time."""
        with self._lock:
            return self._nobody(bootstrap)

    def _stop_when_closed(self, made: Untyped = None) -> None:
        if self._closed:
            if made is not None:
                _close(made)
            raise Transient("Stopping", "the operator is being stopped")

    def _make_room(self) -> list[Untyped]:
        """Forget and return the least recently used clients until the rest is within bounds. The caller holds the
        lock."""
        total, surplus = sum(self._held.values()), []
        for bootstrap in list(self._clients):
            if total <= self._connections_max:
                break
            if bootstrap not in self._in_use:
                surplus.append(self._clients.pop(bootstrap))
                total -= self._held.pop(bootstrap)
        return surplus

    def open_connections(self) -> int:
        """The number of connections that counts against KAFKA_CONNECTIONS_MAX."""
        with self._lock:
            return sum(self._held.values())

    def proven(self, bootstrap: Where) -> bool:
        """The cluster answered the last request."""
        with self._lock:
            return bootstrap in self._proven

    def resting(self, bootstrap: Where) -> bool:
        """The cluster did not answer a moment ago and is not contacted again yet."""
        with self._lock:
            return self._clock.monotonic_ms() < self._silent_until_ms.get(bootstrap, 0)

    def silent(self, bootstrap: Where) -> bool:
        """The last attempt to reach the cluster failed."""
        with self._lock:
            return bootstrap in self._silent_until_ms

    def failed(self, bootstrap: Where) -> None:
        """A request failed: the next one connects anew, as to an unknown cluster."""
        with self._lock:
            self._proven.discard(bootstrap)
        self.drop(bootstrap)

    def drop(self, bootstrap: Where) -> None:
        """Close the client of `bootstrap`; calls in progress on it fail."""
        with self._lock:
            client = self._clients.pop(bootstrap, None)
            self._held.pop(bootstrap, None)
        if client is not None:
            _close(client)

    def drop_idle(self) -> None:
        """Close the clients that were not used for a while."""
        before = self._clock.monotonic_ms() - KAFKA_IDLE_MS
        with self._lock:
            idle = [bootstrap for bootstrap, used in self._used_ms.items() if used < before]
            for bootstrap in idle:
                self._used_ms.pop(bootstrap, None)
                self._silent_until_ms.pop(bootstrap, None)
                self._why.pop(bootstrap, None)
                self._proven.discard(bootstrap)
        for bootstrap in idle:
            self.drop(bootstrap)

    def close(self) -> None:
        """Close all clients; no new one is made afterwards."""
        with self._lock:
            self._closed = True
            known = list(self._clients)
        for bootstrap in known:
            self.drop(bootstrap)


def _close(client: Untyped) -> None:
    with suppress(kafka.errors.KafkaError, OSError, RuntimeError):
        client.close()
