"""Client connections on virtual time: bytes between simulated clients and a replica's `wire.Connection`.

One direction of one connection keeps its order; delays are drawn; a chunk may arrive in two pieces. Faults: a replica
that dies closes its connections (killed) or falls silent (lost its power); `block` holds everything between a client
and a replica back, and `unblock` delivers it late or resets the connection, as TCP does after a partition. What a
client does not hear is an unknown outcome; what the product said is in the history all the same.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from tests.sim.loop import World

SPLIT_CHANCE = 0.04


class ClientEnd(Protocol):
    """Who holds the client's end."""

    def received(self, data: bytes) -> None: ...
    def closed(self) -> None: ...


class ServerEnd(Protocol):
    """One replica's life, seen from the network."""

    def accepted(self, wire: "Wire") -> None: ...
    def received(self, wire: "Wire", data: bytes) -> None: ...
    def closed(self, wire: "Wire") -> None: ...


class Wire:
    """One connection. `number` is its place in the history."""

    __slots__ = ("_net", "broker", "client", "down", "end", "held", "number", "server", "up", "up_us")

    def __init__(self, net: "Wires", number: int, client: str, broker: int, end: ClientEnd) -> None:
        self._net = net
        self.number = number
        self.client = client
        self.broker = broker
        self.end: ClientEnd | None = end
        """None: the client has closed, or knows that it is over."""
        self.server: ServerEnd | None = None
        """None: not accepted yet, or over at the replica's side."""
        self.up = 0
        self.down = 0
        self.up_us = 0
        self.held: list[Callable[[], None]] = []

    def send(self, data: bytes) -> None:
        """From the client."""
        rand = self._net.world.rand
        if len(data) > 1 and rand.random() < SPLIT_CHANCE:
            cut = rand.randint(1, len(data) - 1)
            self._upwards(data[:cut])
            data = data[cut:]
        self._upwards(data)

    def _upwards(self, data: bytes) -> None:
        self.up = self._net.arrival(self.up)
        self._net.world.at(self.up, partial(self._net.pass_on, self, partial(self._arrive, data)))

    def _arrive(self, data: bytes) -> None:
        if self.server is not None:
            self._net.trace("in", self, data)
            self.server.received(self, data)
        elif self.end is not None and self._net.is_served(self.broker):
            self._reset()  # the process that comes back knows nothing of this connection

    def answer(self, data: bytes) -> None:
        """From the replica."""
        self._net.trace("out", self, data)
        self.down = self._net.arrival(self.down)
        self._net.world.at(self.down, partial(self._net.pass_on, self, partial(self._deliver, data)))

    def _deliver(self, data: bytes) -> None:
        if self.end is not None:
            self.end.received(data)

    def close(self) -> None:
        """By the client."""
        self.end = None
        self.up = self._net.arrival(self.up)
        self._net.world.at(self.up, lambda: self._net.pass_on(self, self._close_server))

    def _close_server(self) -> None:
        server, self.server = self.server, None
        self._net.forget(self)
        if server is not None:
            server.closed(self)

    def shut(self) -> None:
        """By the replica, or by its kernel when the process is gone."""
        self.server = None
        self.down = self._net.arrival(self.down)
        self._net.world.at(self.down, lambda: self._net.pass_on(self, self._close_client))

    def _close_client(self) -> None:
        end, self.end = self.end, None
        self._net.forget(self)
        if end is not None:
            end.closed()

    def _reset(self) -> None:
        self.down = self._net.arrival(self.down)
        self._net.world.at(self.down, self._close_client)

    def reset(self) -> None:
        """A middle box ends it: both ends learn it."""
        self.held.clear()
        self._close_server()
        self._close_client()


class Wires:
    """All client connections of a cluster."""

    def __init__(self, world: World, *, delay_us: tuple[int, int] = (50, 600)) -> None:
        self.world = world
        self.delay_us = delay_us
        self._servers: dict[int, ServerEnd] = {}
        self._open: dict[int, Wire] = {}
        self._blocked: set[tuple[str, int]] = set()
        self._number = 0

    # Replicas.

    def serve(self, broker: int, server: ServerEnd) -> None:
        self._servers[broker] = server

    def gone(self, broker: int, *, silent: bool) -> None:
        """The replica's life is over. `silent`: nobody sends a reset; clients learn it from their time-outs."""
        server = self._servers.pop(broker, None)
        for wire in list(self._open.values()):
            if wire.server is server and server is not None:
                if silent:
                    wire.server = None
                else:
                    wire.shut()

    # Clients.

    def connect(self, client: str, broker: int, end: ClientEnd) -> Wire:
        """A connection that may be used at once; a refused one is closed soon."""
        self._number += 1
        wire = Wire(self, self._number, client, broker, end)
        self._open[wire.number] = wire
        wire.up = self.arrival(0)
        self.world.at(wire.up, lambda: self.pass_on(wire, lambda: self._accept(wire)))
        return wire

    def _accept(self, wire: Wire) -> None:
        server = self._servers.get(wire.broker)
        if wire.end is None:
            return
        if server is None:
            wire.shut()
        else:
            wire.server = server
            server.accepted(wire)

    # Faults.

    def block(self, client: str, broker: int) -> None:
        self._blocked.add((client, broker))

    def unblock_all(self, resets: Callable[[], bool]) -> None:
        """Deliver what was held back, late; `resets()` says which connections die instead."""
        if not self._blocked:
            return
        self._blocked.clear()
        for wire in list(self._open.values()):
            if wire.held:
                held, wire.held = wire.held, []
                if resets():
                    wire.reset()
                    continue
                for call in held:
                    call()

    def reset_some(self, chosen: Callable[[], bool]) -> None:
        for wire in list(self._open.values()):
            if chosen():
                wire.reset()

    # For wires.

    def arrival(self, last_us: int) -> int:
        return max(self.world.now_us + self.world.between(*self.delay_us), last_us + 1)

    def pass_on(self, wire: Wire, call: Callable[[], None]) -> None:
        if wire.held or (wire.client, wire.broker) in self._blocked:
            wire.held.append(call)
        else:
            call()

    def is_served(self, broker: int) -> bool:
        return broker in self._servers

    def forget(self, wire: Wire) -> None:
        self._open.pop(wire.number, None)

    def trace(self, what: str, wire: Wire, data: bytes) -> None:
        if self.world.tracer is not None:
            self.world.tracer(f"{what} {wire.number} {wire.broker}", data)
