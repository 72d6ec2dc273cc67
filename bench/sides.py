"""The measured sides: anything that answers the load generator, and clusters of three servers that a row can act on.

A `Cluster` can be killed, frozen, drained and asked for a group's coordinator by the same methods on both sides, so
that a row is written once. Data are below `.cache/bench/`, on the disk of the checkout.
"""

import contextlib
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from typing_extensions import override

from bench.compare import DISK
from bench.kafka_cluster import BROKERS
from bench.tls import TlsFiles
from tests.raw_group import find_coordinator

ADMIN_TIMEOUT_S = 60
SETTLE_TIMEOUT_S = 60


def admin_client(bootstrap: str) -> AdminClient:
    """Without log messages about servers that come and go, because rows stop servers on purpose."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


class Side(ABC):
    """Something that answers the load generator."""

    name: str
    echoed = False
    """Whether it returns the bytes it gets instead of speaking the protocol."""

    @property
    @abstractmethod
    def bootstrap(self) -> str: ...

    @abstractmethod
    def pids(self) -> list[int]:
        """All its server processes."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    def logs(self) -> list[Path]:
        """What its servers have written, for a run that failed: `stop` removes it."""
        return []

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Context of each run."""
        yield


class Cluster(Side):
    """Three servers with broker ids 0, 1, 2."""

    nodes = BROKERS
    tls: TlsFiles | None = None
    """Of the listener with TLS, if there is one."""

    @property
    @abstractmethod
    def tls_bootstrap(self) -> str:
        """Of the listener with TLS."""

    def create_topics(self, topics: Mapping[str, int]) -> None:
        if not topics:
            return
        admin = admin_client(self.bootstrap)
        made = admin.create_topics([NewTopic(name, count, self.nodes) for name, count in topics.items()])
        for future in made.values():
            future.result(ADMIN_TIMEOUT_S)

    def coordinator(self, group: str) -> int:
        return find_coordinator(self.bootstrap, group, ADMIN_TIMEOUT_S)[0]

    def settle(self) -> None:
        """Wait until leaderships no longer move by themselves."""

    @abstractmethod
    def kill(self, node: int) -> None:
        """SIGKILL."""

    @abstractmethod
    def revive(self, node: int, *, wait: bool = True) -> None:
        """Start a server that was killed or shut down."""

    @abstractmethod
    def signal(self, node: int, number: signal.Signals) -> None: ...

    @abstractmethod
    def drain(self, node: int) -> None:
        """Make a server hand over its leaderships, in the planned way; returns at once."""

    @abstractmethod
    def back_on_duty(self, node: int) -> None:
        """Undo `drain`."""

    @abstractmethod
    def held_bytes(self) -> list[int]:
        """Memory of the state per server: RSS of a replica, live heap of a JVM."""


class Disk(Side):
    """No server: the row does the work itself."""

    name = DISK

    @property
    @override
    def bootstrap(self) -> str:
        raise AssertionError("a disk has no address")

    @override
    def pids(self) -> list[int]:
        return []

    @override
    def start(self) -> None:
        """Nothing to start."""

    @override
    def stop(self) -> None:
        """Nothing to stop."""
