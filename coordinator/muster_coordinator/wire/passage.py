"""What of a client's connection goes on to a server behind this one: requests as they are, answers in their order.

Problem: beside an existing Kafka most frames on a connection are for its broker (ADR 96), and the client expects all
answers in the order of its requests, whoever gives them. Mechanism: a `Passage` is asked for each request whether it
goes there. If so the request's exchange has its place in the line as any other, and is given the frame that came back.
What this does not do: sockets (`runtime.upstream_passage`), or know which requests those are (`upstream.apis`).
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from muster_coordinator.security.outcome import Elsewhere, Judged
from muster_coordinator.wire.exchange import Exchange


class Forwarded(NamedTuple):
    """A request's bytes in the data that it arrived in."""

    data: bytes
    start: int
    """Of the frame's size."""
    body: int
    stop: int


class Passage(Protocol):
    """Of one connection; all calls are made on the loop's thread."""

    @property
    def full(self) -> bool:
        """The server takes no more just now: the client is not to be read. `Connection.wake` follows."""

    def takes(self, api: int, version: int, request: Forwarded) -> bool:
        """Does this request go there? Raises WireError for a version that is not offered, or bytes that are none."""

    def send(self, api: int, version: int, request: Forwarded, exchange: Exchange) -> None:
        """Pass it on. The exchange gets the frame that comes back, or its connection ends."""

    def log_in(self, mechanism: str, message: Elsewhere, judged: Callable[[Judged], None]) -> None:
        """The client shows that server who it is. `judged` is called once, unless the connection ends before."""

    def drained(self) -> None:
        """The client has taken answers."""

    def close(self) -> None:
        """The client's connection has ended."""
