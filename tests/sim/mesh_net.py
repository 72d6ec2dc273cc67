"""Peer links of whole clusters by the product's own `links.mesh`, over `streams`: the same faults as `net`, its model.

Faults strike connections: a cut stops bytes and acknowledgements, a lost segment costs time, a reset ends connections.
What the model does to messages stays: `refusal` refuses a share of the sends, `replay` gives a Raft message to the
replica a second time, late and out of order, over the same link.
"""

import random
from collections.abc import Callable, Iterable
from itertools import combinations

from muster_coordinator.ids import BrokerId
from muster_coordinator.links.mesh import Mesh
from muster_coordinator.ports import PeerSink
from muster_coordinator.replica.multiraft.payloads import Kind, kind_of

from tests.sim.loop import SimLoop, World
from tests.sim.streams import SYN_AGAIN_US, Paths, Socket


class _Attempt:
    """`links.mesh.Attempt`."""

    __slots__ = ("cancelled", "waits_us")

    def __init__(self) -> None:
        self.cancelled = False
        self.waits_us = SYN_AGAIN_US

    def cancel(self) -> None:
        self.cancelled = True


class MeshNet(Paths):
    """`brokers`: all that there are, linked or not."""

    def __init__(self, world: World, brokers: Iterable[int], *, delay_us: tuple[int, int] = (50, 500)) -> None:
        super().__init__(world, delay_us)
        self.brokers = tuple(BrokerId(broker) for broker in brokers)
        self.wire_errors: list[tuple[int, str]] = []
        self.sent_messages = 0
        self.sent_bytes = 0
        self.refusal = 0.0
        self.refused_messages = 0
        self.replay = 0.0
        self.watch: Callable[[int, int, int, bytes], None] | None = None
        self._ports: dict[int, MeshPort] = {}
        self._sockets: list[Socket] = []
        self._runs = 0

    def port(self, broker: BrokerId, loop: SimLoop) -> "MeshPort":
        """The port of a new life of `broker`; its machine has power again."""
        self.dark.discard(broker)
        self._runs += 1
        port = self._ports[broker] = MeshPort(self, broker, loop, self._runs)
        return port

    # -- faults, as `net.SimNet` -----------------------------------------------------------------------------------

    def cut(self, sender: int, receiver: int) -> None:
        """Lose everything from `sender` to `receiver`, in silence."""
        self.cuts.add((sender, receiver))

    def restore(self, sender: int, receiver: int) -> None:
        """What becomes of connections that stood meanwhile is TCP's and the mesh's business."""
        self.cuts.discard((sender, receiver))

    def heal(self) -> None:
        self.cuts.clear()

    def reset(self, a: int, b: int) -> None:
        for socket in self._between(a, b):
            socket.reset()

    def reset_busy(self) -> None:
        """End the connections that have not sent what they took."""
        for socket in self._alive():
            if socket.busy:
                socket.reset()

    def gone(self, broker: int) -> None:
        """The process died: its kernel closes what it had."""
        self._ports.pop(broker, None)
        for socket in self._alive():
            if socket.owner == broker:
                socket.close()

    def vanished(self, broker: int) -> None:
        """The machine went dark."""
        self._ports.pop(broker, None)
        self.dark.add(broker)
        for socket in self._alive():
            if socket.owner == broker:
                socket.vanish()

    # -- connections -----------------------------------------------------------------------------------------------

    def _alive(self) -> list[Socket]:
        self._sockets = [socket for socket in self._sockets if not (socket.over and socket.other.over)]
        return self._sockets

    def _between(self, a: int, b: int) -> list[Socket]:
        return [socket for socket in self._alive() if {socket.owner, socket.peer} == {a, b}]

    def link_up(self, a: int, b: int) -> bool:
        """Both ends take it for up."""
        one, two = self._ports.get(a), self._ports.get(b)
        return one is not None and two is not None and one.is_up(BrokerId(b)) and two.is_up(BrokerId(a))

    def not_linked_once(self) -> list[str]:
        """Pairs of processes that run with no connection between them, or with several. For when all is calm."""
        found = []
        for a, b in combinations(sorted(self._ports), 2):
            ends = [socket for socket in self._between(a, b) if socket.open]
            if len(ends) != 2 or not self.link_up(a, b):
                found.append(f"{len(ends)} ends of connections between {a} and {b}, linked: {self.link_up(a, b)}")
        return found

    def connect(self, port: "MeshPort", peer: BrokerId, attempt: _Attempt) -> None:
        """A SYN leaves."""
        if attempt.cancelled:
            return
        world = self.world
        if self.carry(port.broker, peer) and self.carry(peer, port.broker):
            there_and_back_us = self.delay(port.broker, peer) + self.delay(peer, port.broker)
            world.at(world.now_us + there_and_back_us, lambda: self._connected(port, peer, attempt))
        else:
            world.at(world.now_us + attempt.waits_us, lambda: self.connect(port, peer, attempt))
            attempt.waits_us *= 2

    def _connected(self, port: "MeshPort", peer: BrokerId, attempt: _Attempt) -> None:
        if attempt.cancelled or self._ports.get(port.broker) is not port or peer in self.dark:
            return
        there = self._ports.get(peer)
        if there is None:
            port.loop.call_soon(lambda: None if attempt.cancelled else port.mesh.dial_failed(peer))
            return
        near = Socket(self, port.broker, peer, port.loop, port.mesh)
        far = Socket(self, peer, port.broker, there.loop, there.mesh)
        near.other, far.other = far, near
        self._alive().extend((near, far))
        near.arrival_us = self.world.now_us + self.delay(port.broker, peer)
        port.loop.call_soon(lambda: port.connected(peer, near, attempt))
        self.world.at(near.arrival_us, lambda: there.loop.call_soon(lambda: there.accepted(far)))


class MeshPort:
    """`ports.PeerNet` of one replica's life: a mesh, its dialler, and a tap on what it hears."""

    def __init__(self, net: MeshNet, broker: BrokerId, loop: SimLoop, run: int) -> None:
        self.net = net
        self.broker = broker
        self.loop = loop
        self.sink: PeerSink | None = None
        self.ups: dict[BrokerId, int] = {}
        """How many links to a peer there were."""
        self.mesh = Mesh(
            broker,
            net.brokers,
            run=run,
            loop=loop,
            rand=random.Random(net.world.rand.getrandbits(64)),
            dialler=self,
            notice=self._noticed,
        )

    # ports.PeerNet

    def start(self, sink: PeerSink) -> None:
        self.sink = sink
        self.mesh.start(self)

    def send(self, peer: BrokerId, wal_writer: int, payload: bytes) -> bool:
        net = self.net
        if not self.mesh.is_up(peer):
            return False
        if (net.refusal and net.world.rand.random() < net.refusal) or not self.mesh.send(peer, wal_writer, payload):
            net.refused_messages += 1
            return False
        net.sent_messages += 1
        net.sent_bytes += len(payload)
        if net.world.tracer is not None:
            net.world.tracer(f"peer {self.broker} {peer} {wal_writer}", payload)
        if net.watch is not None:
            net.watch(self.broker, peer, wal_writer, payload)
        return True

    def is_up(self, peer: BrokerId) -> bool:
        return self.mesh.is_up(peer)

    def meet(self, peer: BrokerId, host: str, port: int) -> None:
        self.mesh.meet(peer, host, port)

    def set_hello(self, hello: bytes) -> None:
        self.mesh.set_hello(hello)

    # ports.PeerSink

    def peer_up(self, peer: BrokerId, hello: bytes) -> None:
        self.ups[peer] = self.ups.get(peer, 0) + 1
        assert self.sink is not None
        self.sink.peer_up(peer, hello)

    def peer_down(self, peer: BrokerId) -> None:
        assert self.sink is not None
        self.sink.peer_down(peer)

    def peer_message(self, peer: BrokerId, wal_writer: int, payload: bytes) -> None:
        assert self.sink is not None
        self.sink.peer_message(peer, wal_writer, payload)
        net = self.net
        if net.replay and kind_of(payload) is Kind.RAFT and net.world.rand.random() < net.replay:
            link = self.ups[peer]
            later_us = net.world.now_us + net.world.rand.randint(1_000, 400_000)
            net.world.at(
                later_us, lambda: self.loop.call_soon(lambda: self._hear_again(peer, wal_writer, payload, link))
            )

    def _hear_again(self, peer: BrokerId, wal_writer: int, payload: bytes, link: int) -> None:
        if self.ups[peer] == link and self.mesh.is_up(peer) and self.sink is not None:
            self.sink.peer_message(peer, wal_writer, payload)

    # links.mesh.Dialler

    def dial(self, peer: BrokerId) -> _Attempt:
        attempt = _Attempt()
        self.net.connect(self, peer, attempt)
        return attempt

    def locate(self, peer: BrokerId, host: str, port: int) -> None:
        """A broker is found by its id."""

    # For the net.

    def connected(self, peer: BrokerId, socket: Socket, attempt: _Attempt) -> None:
        if attempt.cancelled:
            socket.close()
        else:
            socket.link = self.mesh.dial_connected(peer, socket)

    def accepted(self, socket: Socket) -> None:
        socket.link = self.mesh.accepted(socket)
        if socket.link is None:
            socket.close()

    def _noticed(self, event: str, peer: BrokerId | None, detail: str) -> None:
        if event == "peer_link_broken":
            self.net.wire_errors.append((self.broker, detail))
