"""Peer links over real loopback sockets."""

import asyncio
import random
import socket
from collections.abc import Callable, Iterator

import pytest
from muster_coordinator.errors import EnvironmentFault
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import OFFSETS_BATCH_BYTES_MAX
from muster_coordinator.links.channels import APPEND, BULK, CONTROL
from muster_coordinator.links.mesh import Mesh
from muster_coordinator.replica.limits import INSTALL_CHUNK_BYTES
from muster_coordinator.runtime.loop import AsyncLoop, new_event_loop
from muster_coordinator.runtime.peers import TcpPeers

A, B = BrokerId(0), BrokerId(1)
WAIT_SECONDS = 10


class Sink:
    def __init__(self) -> None:
        self.events: list[tuple[str, BrokerId]] = []
        self.messages: list[tuple[int, bytes]] = []

    def peer_up(self, peer: BrokerId, hello: bytes) -> None:
        self.events.append(("up", peer))

    def peer_down(self, peer: BrokerId) -> None:
        self.events.append(("down", peer))

    def peer_message(self, peer: BrokerId, channel: int, payload: bytes) -> None:
        self.messages.append((channel, payload))


class Replica:
    """Mesh, sockets and sink of one broker; all replicas of a test share the loop."""

    def __init__(self, loop: AsyncLoop, broker: BrokerId, addresses: dict[BrokerId, tuple[str, int]]) -> None:
        self.sink = Sink()
        run, rand = random.getrandbits(64), random.Random(1)
        self.rand = rand
        self.tcp = TcpPeers(
            loop.asyncio_loop,
            addresses,
            lambda tcp: Mesh(broker, list(addresses), run=run, loop=loop, rand=rand, dialler=tcp),
        )
        self.mesh = self.tcp.mesh
        self._loop = loop
        self._address = addresses[broker]

    def listen(self) -> None:
        self._loop.asyncio_loop.run_until_complete(self.tcp.listen(*self._address))

    def stop(self) -> None:
        self.mesh.stop()
        self.tcp.close()


class Harness:
    def __init__(self) -> None:
        self.fatal: list[BaseException] = []
        self.loop = AsyncLoop(new_event_loop(), on_fatal=lambda error, _: self.fatal.append(error))
        self.replicas: list[Replica] = []
        self.addresses = {A: ("127.0.0.1", free_port()), B: ("127.0.0.1", free_port())}

    def replica(self, broker: BrokerId) -> Replica:
        made = Replica(self.loop, broker, self.addresses)
        made.listen()
        made.mesh.start(made.sink)
        self.replicas.append(made)
        return made

    def until(self, check: Callable[[], bool]) -> None:
        loop = self.loop.asyncio_loop
        found = loop.create_future()

        def look() -> None:
            if self.fatal or check():
                found.set_result(None)
            else:
                self.loop.call_at(self.loop.monotonic_ms() + 1, look)

        look()
        loop.run_until_complete(asyncio.wait_for(found, WAIT_SECONDS))
        assert not self.fatal, self.fatal

    def run_turns(self, turns: int) -> None:
        """Closed sockets end in a later turn."""
        left = iter(range(turns))
        self.until(lambda: next(left, None) is None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def harness() -> Iterator[Harness]:
    made = Harness()
    yield made
    for replica in made.replicas:
        replica.stop()
    made.run_turns(3)
    made.loop.close()
    made.loop.asyncio_loop.run_until_complete(made.loop.asyncio_loop.shutdown_asyncgens())
    made.loop.asyncio_loop.close()


def linked(harness: Harness) -> tuple[Replica, Replica]:
    one, two = harness.replica(A), harness.replica(B)
    harness.until(lambda: one.mesh.is_up(B) and two.mesh.is_up(A))
    return one, two


def test_two_replicas_link_and_talk(harness: Harness) -> None:
    one, two = linked(harness)
    assert one.mesh.send(B, APPEND, b"there")
    assert two.mesh.send(A, CONTROL, b"back")
    harness.until(lambda: bool(one.sink.messages and two.sink.messages))
    assert (two.sink.messages, one.sink.messages) == ([(APPEND, b"there")], [(CONTROL, b"back")])


def test_the_largest_message_and_a_full_bulk_channel_arrive_whole(harness: Harness) -> None:
    one, two = linked(harness)
    big = random.Random(2).randbytes(OFFSETS_BATCH_BYTES_MAX)
    assert one.mesh.send(B, APPEND, big)
    chunks = 0
    while one.mesh.send(B, BULK, bytes([chunks % 256]) * INSTALL_CHUNK_BYTES):
        chunks += 1
    assert one.mesh.send(B, CONTROL, b"last in, first out")
    harness.until(lambda: len(two.sink.messages) == chunks + 2)
    assert two.sink.messages[0] == (CONTROL, b"last in, first out")
    assert (APPEND, big) in two.sink.messages
    bulk = [payload[0] for channel, payload in two.sink.messages if channel == BULK]
    assert bulk == [n % 256 for n in range(chunks)]


def test_a_replica_that_goes_is_told_and_one_that_returns_is_linked(harness: Harness) -> None:
    one, two = linked(harness)
    two.stop()
    harness.until(lambda: ("down", B) in one.sink.events)
    again = harness.replica(B)
    harness.until(lambda: one.mesh.is_up(B) and again.mesh.is_up(A))
    assert one.sink.events == [("up", B), ("down", B), ("up", B)]


def test_a_taken_port_is_an_environment_fault(harness: Harness) -> None:
    harness.replica(A)
    second = Replica(harness.loop, A, harness.addresses)
    with pytest.raises(EnvironmentFault, match="cannot listen for peers"):
        second.listen()


def test_nagle_is_off_and_keepalive_on(harness: Harness) -> None:
    one, _ = linked(harness)
    wire = one.mesh._peers[B].link._wire
    sock = wire._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
