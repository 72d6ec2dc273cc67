"""Free ports for a local cluster, reserved for the time until `muster dev` binds them; used by the demo.

A block is the ports of a `DevLayout` at a base P that is a multiple of ten. Its user binds the ninth port after the
start of each of the four ranges and holds these claims until the cluster has ended. Overlapping blocks share at least
one claim, so of two demos that start at once, even of different users, one takes the next base. The other ports are
only checked: another program may still take one before its replica binds it, and then the start fails with a message.
"""

import socket
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from muster_coordinator.cli.dev_layout import ADMIN_PORTS, HOST, PEER_PORTS, PROBE_PORTS, DevLayout
from muster_coordinator.cli.exits import CliError, Exit

FIRST_BASE: Final = 19_000
END_BASE: Final = 32_000
"""Below the range of ephemeral ports."""
STEP: Final = 10
CLAIM: Final = STEP - 1


class PortBlock:
    """A block that is claimed until `close`; `base` is its first client port."""

    def __init__(self, base: int, claims: list[socket.socket]) -> None:
        self.base = base
        self._claims = claims

    @classmethod
    def take(cls, replicas: int, *, first: int = FIRST_BASE, beside_kafka: bool = False) -> Self:
        """The first block from `first` on that is free and not claimed; with ports for a Kafka's brokers too if
        `beside_kafka`. Raises CliError when there is none."""
        assert replicas <= CLAIM
        assert first % STEP == 0
        for base in range(first, END_BASE, STEP):
            layout = DevLayout(Path(), replicas, base)
            starts = [base, base + PEER_PORTS, base + PROBE_PORTS, base + ADMIN_PORTS]
            firsts = [layout.upstream_port(replica) for replica in range(replicas)] if beside_kafka else []
            claims = _bound(start + CLAIM for start in (*starts, *firsts))
            if claims is None:
                continue
            wanted = [port for replica in range(replicas) for port in layout.ports(replica)]
            ports = _bound([*wanted, *(port + place for port in firsts for place in range(CLAIM))])
            if ports is not None:
                _close(ports)
                return cls(base, claims)
            _close(claims)
        raise CliError(Exit.REFUSED, "no free ports for a local cluster")

    def close(self) -> None:
        _close(self._claims)
        self._claims = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _bound(ports: Iterable[int]) -> list[socket.socket] | None:
    """A socket bound to each port, or None when one is in use."""
    found: list[socket.socket] = []
    for port in ports:
        one = socket.socket()
        found.append(one)
        try:
            one.bind((HOST, port))
        except OSError:
            _close(found)
            return None
    return found


def _close(sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()
