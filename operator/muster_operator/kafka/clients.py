"""Admin clients of kafka-python, one a cluster, made when first needed and thrown away when they fail. Blocking.

A client is a thread and a few connections, so there is one for each set of bootstrap servers, not for each group. It
caches
coordinators without ever forgetting one that moved; hence a failed question drops the client, and the next makes
another.
A cluster that did not answer is left alone for a moment: its other groups get the same answer at once instead of each
waiting for a time-out.

kafka-python logs whole requests and answers; its loggers are silenced, errors reach us as exceptions.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import kafka
import kafka.errors

from muster_operator.errors import Transient
from muster_operator.limits import (
    KAFKA_BOOTSTRAP_TIMEOUT_MS,
    KAFKA_CLIENTS_MAX,
    KAFKA_IDLE_MS,
    KAFKA_REQUEST_TIMEOUT_MS,
    KAFKA_UNREACHABLE_FOR_MS,
)
from muster_operator.ports import Clock

Untyped = Any
Factory = Callable[[str], Untyped]

logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)


def connect(bootstrap: str) -> Untyped:
    """A connected admin client. Raises kafka.errors.KafkaError; then no thread of it is left behind."""
    networks: list[Untyped] = []

    def network(**config: Untyped) -> Untyped:
        networks.append(kafka.KafkaAdminClient.DEFAULT_CONFIG["kafka_client"](**config))
        return networks[-1]

    try:
        return kafka.KafkaAdminClient(
            bootstrap_servers=[one.strip() for one in bootstrap.split(",") if one.strip()],
            client_id="muster-operator",
            bootstrap_timeout_ms=KAFKA_BOOTSTRAP_TIMEOUT_MS,
            request_timeout_ms=KAFKA_REQUEST_TIMEOUT_MS,
            reconnect_backoff_max_ms=1_000,
            kafka_client=network,
        )
    except kafka.errors.KafkaError:
        for one in networks:
            one.close()
            one._net.stop()
        raise


def nobody(bootstrap: str) -> Transient:
    """Nobody answers there. One sentence for all who ask: words that alternate would be a status write each time."""
    return Transient("BootstrapUnreachable", f"no broker answers at {bootstrap}")


class Clients:
    """Thread-safe. `get` answers a client or raises Transient; `drop` forgets one that failed."""

    def __init__(self, clock: Clock, factory: Factory = connect) -> None:
        self._clock = clock
        self._factory = factory
        self._lock = threading.Lock()
        self._clients: dict[str, Untyped] = {}
        self._used_ms: dict[str, int] = {}
        self._silent_until_ms: dict[str, int] = {}

    def get(self, bootstrap: str) -> Untyped:
        """The client of `bootstrap`, made if needed (blocks up to KAFKA_BOOTSTRAP_TIMEOUT_MS)."""
        now = self._clock.monotonic_ms()
        with self._lock:
            self._used_ms[bootstrap] = now
            known = self._clients.get(bootstrap)
            if known is not None:
                return known
            if now < self._silent_until_ms.get(bootstrap, 0):
                raise nobody(bootstrap)
            if len(self._clients) >= KAFKA_CLIENTS_MAX:
                raise Transient("TooManyClusters", f"more than {KAFKA_CLIENTS_MAX} Kafka clusters are asked already")
        try:
            made = self._factory(bootstrap)
        except (kafka.errors.KafkaError, OSError, ValueError):
            with self._lock:
                self._silent_until_ms[bootstrap] = self._clock.monotonic_ms() + KAFKA_UNREACHABLE_FOR_MS
            raise nobody(bootstrap) from None
        with self._lock:
            known = self._clients.setdefault(bootstrap, made)
            self._silent_until_ms.pop(bootstrap, None)
        if known is not made:
            _close(made)
        return known

    def silent(self, bootstrap: str) -> bool:
        """The last attempt to reach it failed, and none has gone well since."""
        with self._lock:
            return bootstrap in self._silent_until_ms

    def drop(self, bootstrap: str) -> None:
        """Close the client of `bootstrap`; calls under way on it fail."""
        with self._lock:
            client = self._clients.pop(bootstrap, None)
        if client is not None:
            _close(client)

    def drop_idle(self) -> None:
        """Close the clients that nobody asked for a while."""
        before = self._clock.monotonic_ms() - KAFKA_IDLE_MS
        with self._lock:
            idle = [bootstrap for bootstrap, used in self._used_ms.items() if used < before]
            for bootstrap in idle:
                self._used_ms.pop(bootstrap, None)
                self._silent_until_ms.pop(bootstrap, None)
        for bootstrap in idle:
            self.drop(bootstrap)

    def close(self) -> None:
        """Close all."""
        for bootstrap in list(self._clients):
            self.drop(bootstrap)


def _close(client: Untyped) -> None:
    with suppress(kafka.errors.KafkaError, OSError, RuntimeError):
        client.close()
