"""Two and three replicas on virtual time: one link survives, the right one, and loss is told when it should be."""

from collections.abc import Callable

import pytest
from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import LINK_REDIAL_GRACE_MS
from muster_coordinator.links import limits
from muster_coordinator.links.channels import APPEND, CONTROL
from muster_coordinator.links.handshake import Handshake
from muster_coordinator.links.link import Link
from muster_coordinator.links.mesh import Mesh
from muster_coordinator.links.peer_auth import NONCE_BYTES, PeerAuth

from tests.sim.loop import SimLoop, World

A, B, C = BrokerId(0), BrokerId(1), BrokerId(2)


class FakeWire:
    """One end of a connection; what it writes arrives at the other end after the net's delay."""

    def __init__(self, net: "FakeNet", owner: BrokerId) -> None:
        self.net = net
        self.owner = owner
        self.other: FakeWire | None = None
        self.link: Link | None = None
        self.open = True
        self.writes = 0

    def write(self, parts: list[bytes]) -> None:
        self.writes += 1
        other = self.other
        if self.open and other is not None:
            data = b"".join(parts)
            self.net.later(self.owner, other.owner, lambda: other.deliver(data))

    def deliver(self, data: bytes) -> None:
        if self.open and self.link is not None:
            self.net.nodes[self.owner].mesh.received(self.link, data)

    def close(self) -> None:
        if self.open:
            self.open = False
            other = self.other
            if other is not None:
                self.net.later(self.owner, other.owner, other.lost)

    def lost(self) -> None:
        if self.open:
            self.open = False
            if self.link is not None:
                self.net.nodes[self.owner].mesh.closed(self.link)

    def writable(self) -> bool:
        return True


class FakeAttempt:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Node:
    """A mesh, its dialler and its sink in one."""

    def __init__(self, net: "FakeNet", broker: BrokerId, peers: list[BrokerId], run: int) -> None:
        self.net = net
        self.broker = broker
        self.run = run
        self.loop = SimLoop(net.world)
        self.events: list[tuple[str, BrokerId]] = []
        self.messages: list[tuple[BrokerId, int, bytes]] = []
        self.hellos: dict[BrokerId, bytes] = {}
        self.notices: list[str] = []
        self.located: dict[BrokerId, tuple[str, int]] = {}
        self.down_ms: list[int] = []
        self.mesh = Mesh(
            broker,
            peers,
            run=run,
            loop=self.loop,
            rand=net.world.rand,
            dialler=self,
            notice=lambda event, peer, detail: self.notices.append(f"{event}: {detail}"),
            auth=lambda: net.auths.get(broker, PeerAuth()),
            nonce=lambda: net.world.rand.randbytes(NONCE_BYTES),
        )
        self.mesh.set_hello(b"hello of %d" % broker)

    def dial(self, peer: BrokerId) -> FakeAttempt:
        attempt = FakeAttempt()
        self.net.dials.append((self.broker, peer))
        self.net.later(self.broker, peer, lambda: self.net.connect(self, peer, attempt), always=True)
        return attempt

    def locate(self, peer: BrokerId, host: str, port: int) -> None:
        self.located[peer] = (host, port)

    def peer_up(self, peer: BrokerId, hello: bytes) -> None:
        self.events.append(("up", peer))
        self.hellos[peer] = hello

    def peer_down(self, peer: BrokerId) -> None:
        self.events.append(("down", peer))
        self.down_ms.append(self.loop.monotonic_ms())

    def peer_message(self, peer: BrokerId, channel: int, payload: bytes) -> None:
        self.messages.append((peer, channel, payload))


class FakeNet:
    def __init__(self, delay_ms: float = 1.0, seed: int = 1) -> None:
        self.world = World(seed)
        self.delay_ms = delay_ms
        self.nodes: dict[BrokerId, Node] = {}
        self.wires: list[FakeWire] = []
        self.dials: list[tuple[BrokerId, BrokerId]] = []
        self.cut: set[tuple[BrokerId, BrokerId]] = set()
        self.runs = 100
        self.auths: dict[BrokerId, PeerAuth] = {}

    def start(self, broker: BrokerId, peers: list[BrokerId]) -> Node:
        self.runs += 1
        node = Node(self, broker, peers, self.runs)
        self.nodes[broker] = node
        node.mesh.start(node)
        return node

    def kill(self, broker: BrokerId) -> None:
        node = self.nodes.pop(broker)
        node.loop.kill()
        for wire in self.wires:
            if wire.owner == broker:
                wire.link = None
                wire.close()

    def later(self, sender: BrokerId, receiver: BrokerId, call: Callable[[], None], *, always: bool = False) -> None:
        if (sender, receiver) not in self.cut or always:
            wait_us = int(self.delay_ms * 1000)
            self.world.at(self.world.now_us + wait_us, call, order=0.5)

    def connect(self, node: Node, peer: BrokerId, attempt: FakeAttempt) -> None:
        if attempt.cancelled or self.nodes.get(node.broker) is not node:
            return
        if {(node.broker, peer), (peer, node.broker)} & self.cut:
            return  # no answer at all
        if peer not in self.nodes:
            node.mesh.dial_failed(peer)
            return
        near, far = FakeWire(self, node.broker), FakeWire(self, peer)
        near.other, far.other = far, near
        self.wires += [near, far]
        far.link = self.nodes[peer].mesh.accepted(far)
        near.link = node.mesh.dial_connected(peer, near)
        if far.link is None:
            far.close()

    def open_links(self, a: BrokerId, b: BrokerId) -> list[FakeWire]:
        return [w for w in self.wires if w.open and w.other is not None and {w.owner, w.other.owner} == {a, b}]


def pair(net: FakeNet) -> tuple[Node, Node]:
    one, two = net.start(A, [A, B]), net.start(B, [A, B])
    net.world.run_until("both are up", lambda: one.mesh.is_up(B) and two.mesh.is_up(A), 5_000)
    return one, two


def test_a_link_comes_up_and_carries_messages_both_ways() -> None:
    net = FakeNet()
    one, two = pair(net)
    assert (one.hellos[B], two.hellos[A]) == (b"hello of 1", b"hello of 0")
    assert one.mesh.send(B, APPEND, b"there")
    assert two.mesh.send(A, CONTROL, b"back")
    net.world.run_for(10)
    assert two.messages == [(A, APPEND, b"there")]
    assert one.messages == [(B, CONTROL, b"back")]


@pytest.mark.parametrize("delay_ms", [0.01, 1, 19, 20, 21, 39, 40, 41, 60, 90])
@pytest.mark.parametrize("seed", range(4))
def test_crossing_dials_leave_exactly_one_link_dialled_by_the_lower_id(delay_ms: float, seed: int) -> None:
    net = FakeNet(delay_ms, seed)
    one, two = pair(net)
    net.world.run_for(5_000)
    assert one.mesh.is_up(B)
    assert two.mesh.is_up(A)
    links = net.open_links(A, B)
    assert len(links) == 2, "one connection has two ends"
    assert next(wire for wire in links if wire.owner == A).link.dialled, "the one dialled by the lower id"
    assert ("down", B) not in one.events
    assert ("down", A) not in two.events


def test_messages_of_one_turn_leave_in_one_write() -> None:
    net = FakeNet()
    one, two = pair(net)
    net.world.run_for(100)
    wire = next(wire for wire in net.open_links(A, B) if wire.owner == A)
    before = wire.writes
    for n in range(20):
        assert one.mesh.send(B, APPEND, bytes([n]))
    net.world.run_for(10)
    assert wire.writes == before + 1
    assert [payload for _, _, payload in two.messages] == [bytes([n]) for n in range(20)]


def test_a_dead_process_is_told_150_ms_after_its_link_closed() -> None:
    net = FakeNet()
    one, _ = pair(net)
    net.world.run_for(100)
    killed_ms = one.loop.monotonic_ms()
    net.kill(B)
    net.world.run_for(LINK_REDIAL_GRACE_MS - 5)
    assert not one.mesh.is_up(B)
    assert ("down", B) not in one.events
    net.world.run_for(10)
    assert one.events[-1] == ("down", B)
    assert one.down_ms[-1] - killed_ms <= LINK_REDIAL_GRACE_MS + 2


def test_a_link_that_breaks_but_comes_back_is_no_death() -> None:
    net = FakeNet()
    one, two = pair(net)
    net.world.run_for(100)
    for wire in net.open_links(A, B):
        wire.lost()
    assert not one.mesh.is_up(B)
    net.world.run_for(2_000)
    assert one.mesh.is_up(B)
    assert two.mesh.is_up(A)
    assert ("down", B) not in one.events
    assert [event for event in one.events if event == ("up", B)] == [("up", B)] * 2


@pytest.mark.parametrize("killed", [A, B])
def test_a_restarted_process_is_linked_again_and_told_once_as_gone_and_back(killed: BrokerId) -> None:
    net = FakeNet()
    pair(net)
    net.world.run_for(100)
    left = net.nodes[B if killed == A else A]
    net.kill(killed)
    net.world.run_for(3_000)
    back = net.start(killed, [A, B])
    net.world.run_until("linked again", lambda: back.mesh.is_up(left.broker) and left.mesh.is_up(killed), 3_000)
    assert left.events == [("up", killed), ("down", killed), ("up", killed)]


def test_a_restart_behind_a_silent_loss_replaces_the_half_open_link() -> None:
    """The old connection still looks open here; the new process's run number says otherwise."""
    net = FakeNet()
    one, _ = pair(net)
    net.world.run_for(3_000)
    net.cut |= {(A, B), (B, A)}
    net.kill(B)
    net.cut.clear()
    back = net.start(B, [A, B])
    net.world.run_until("linked again", lambda: back.mesh.is_up(A), 1_000)
    one.mesh.send(B, APPEND, b"to the new one")
    net.world.run_for(10)
    assert back.messages == [(A, APPEND, b"to the new one")]
    assert ("down", B) not in one.events


def test_a_silent_peer_is_dialled_with_bounded_back_off() -> None:
    net = FakeNet()
    net.cut |= {(A, B), (B, A)}
    net.start(A, [A, B])
    net.world.run_for(60_000)
    assert 15 <= len(net.dials) <= 80
    net.cut.clear()
    two = net.start(B, [A, B])
    net.world.run_until("linked", lambda: two.mesh.is_up(A), 3_000)


def test_a_wrong_address_is_refused() -> None:
    """Of a pod that was re-created, for instance; and nobody is his own peer."""
    net = FakeNet()
    one = net.start(A, [A, B])
    for sender, target in ((C, B), (A, A), (BrokerId(-1), A)):
        wire = FakeWire(net, A)
        link = one.mesh.accepted(wire)
        assert link is not None
        one.mesh.greeted(link, Handshake(sender, target, 7, b""))
        assert not wire.open
        assert f"broker {sender} wants broker {target}, this is broker 0" in one.notices[-1]
    assert one.events == []


def test_a_broker_that_is_not_configured_is_accepted_and_forgotten_when_it_is_gone() -> None:
    net = FakeNet()
    one = net.start(A, [A, B])
    three = net.start(C, [A, B])
    net.world.run_until("linked", lambda: one.mesh.is_up(C) and three.mesh.is_up(A), 2_000)
    assert one.mesh.send(C, CONTROL, b"welcome")
    net.world.run_for(100)
    assert three.messages == [(A, CONTROL, b"welcome")]
    net.kill(C)
    net.world.run_for(5_000)
    assert one.events == [("up", C), ("down", C)]
    assert (A, C) not in net.dials, "nobody has said where it is"
    assert not one.mesh.is_up(C)


def test_a_broker_that_is_met_is_dialled_like_one_that_is_configured() -> None:
    net = FakeNet()
    one = net.start(A, [A, B])
    one.mesh.meet(C, "there", 9093)
    one.mesh.meet(A, "here", 9093)
    assert one.located == {C: ("there", 9093)}, "nobody is his own peer"
    three = net.start(C, [])
    net.world.run_until("linked", lambda: one.mesh.is_up(C) and three.mesh.is_up(A), 5_000)
    one.mesh.meet(C, "elsewhere", 9093)
    assert one.located == {C: ("elsewhere", 9093)}
    net.kill(C)
    net.world.run_for(5_000)
    assert one.events == [("up", C), ("down", C)]
    before = net.dials.count((A, C))
    net.world.run_for(5_000)
    assert net.dials.count((A, C)) > before, "for good"


def test_a_broker_that_was_met_before_the_start_is_dialled_after_it() -> None:
    """As by a replica whose checkpoint names brokers that joined."""
    net = FakeNet()
    one = Node(net, A, [A, B], 7)
    net.nodes[A] = one
    one.mesh.meet(C, "there", 9093)
    net.world.run_for(1_000)
    assert not net.dials
    net.start(C, [])
    one.mesh.start(one)
    net.world.run_until("linked", lambda: one.mesh.is_up(C), 5_000)


def test_one_that_came_by_itself_and_is_met_then_is_not_forgotten() -> None:
    net = FakeNet()
    one = net.start(A, [A, B])
    net.start(C, [A, B])
    net.world.run_until("linked", lambda: one.mesh.is_up(C), 2_000)
    one.mesh.meet(C, "there", 9093)
    net.world.run_for(1_000)
    assert len(net.open_links(A, C)) == 2, "the link that there is stays"
    assert one.events == [("up", C)]
    net.kill(C)
    net.world.run_for(5_000)
    assert (A, C) in net.dials


def test_there_are_never_more_peers_than_a_cluster_has() -> None:
    net = FakeNet()
    one = net.start(A, [A, B])
    for number in range(2, limits.LINK_PEERS_MAX + 5):
        one.mesh.meet(BrokerId(number), "there", 9093)
    assert len(one.located) == limits.LINK_PEERS_MAX - 1
    late = BrokerId(99)
    net.start(late, [A])
    net.world.run_for(3_000)
    assert not one.mesh.is_up(late)


def test_a_peer_that_says_nothing_is_dropped() -> None:
    net = FakeNet()
    one = net.start(A, [A, B])
    wire = FakeWire(net, A)
    wire.link = one.mesh.accepted(wire)
    net.world.run_for(limits.LINK_HANDSHAKE_TIMEOUT_MS + 10)
    assert not wire.open


def test_strangers_that_say_nothing_are_bounded() -> None:
    net = FakeNet()
    one = net.start(A, [A, B])
    accepted = [one.mesh.accepted(FakeWire(net, A)) for _ in range(limits.LINK_HANDSHAKES_MAX + 5)]
    assert accepted.count(None) == 5


def test_garbage_from_a_peer_closes_the_link_and_a_new_one_is_made() -> None:
    net = FakeNet()
    one, two = pair(net)
    net.world.run_for(100)
    next(wire for wire in net.open_links(A, B) if wire.owner == B).write([b"\xff" * 64])
    net.world.run_for(20)
    assert any(notice.startswith("peer_link_broken") for notice in one.notices)
    net.world.run_until("linked again", lambda: one.mesh.is_up(B) and two.mesh.is_up(A), 2_000)


def test_a_link_that_breaks_as_soon_as_it_is_up_is_made_again_with_bounded_back_off() -> None:
    """A peer that speaks out of turn at once, each time: it comes to a link a second, not to ten and more."""
    for speaker in (A, B):
        _speaks_out_of_turn(speaker)


def _speaks_out_of_turn(speaker: BrokerId) -> None:
    net = FakeNet()
    nodes = pair(net)
    here, there = (nodes[1], nodes[0]) if speaker == A else nodes

    def speak(peer: BrokerId, hello: bytes) -> None:
        there.events.append(("up", peer))
        there.mesh.send(peer, CONTROL, b"out of turn")

    def hear(peer: BrokerId, channel: int, payload: bytes) -> None:
        raise WireError("out of turn")

    there.peer_up, here.peer_message = speak, hear  # type: ignore[method-assign]
    next(wire for wire in net.open_links(A, B) if wire.owner == speaker).write([b"\xff" * 64])
    net.world.run_for(10_000)
    before = len(there.events)
    net.world.run_for(20_000)
    assert 10 <= len(there.events) - before <= 60, "twice a second, from both sides, at most"
    # Healed, the next link stays, and the one after its end is made at once.
    there.peer_up = lambda peer, hello: there.events.append(("up", peer))  # type: ignore[method-assign]
    net.world.run_until("linked", lambda: here.mesh.is_up(there.broker) and there.mesh.is_up(here.broker), 2_000)
    net.world.run_for(5_000)
    ups = len(there.events)
    for wire in net.open_links(A, B):
        wire.lost()
    net.world.run_for(100)
    assert len(there.events) == ups + 1


def test_sending_without_a_link_says_so() -> None:
    net = FakeNet()
    one = net.start(A, [A, B])
    assert not one.mesh.send(B, CONTROL, b"x")
    assert not one.mesh.send(BrokerId(9), CONTROL, b"x")
    assert not one.mesh.is_up(BrokerId(9))


def test_after_stop_the_sink_hears_nothing_and_nobody_dials() -> None:
    net = FakeNet()
    one, two = pair(net)
    net.world.run_for(100)
    one.mesh.stop()
    events, dials = list(one.events), [dial for dial in net.dials if dial[0] == A]
    net.world.run_for(3_000)
    assert one.events == events
    assert [dial for dial in net.dials if dial[0] == A] == dials
    assert two.events[-1] == ("down", A)


def lost_dial(net: FakeNet, waited_ms: int) -> Node:
    """A replica whose dial to B got lost in a partition, so long ago; the partition has healed since."""
    net.cut |= {(A, B), (B, A)}
    one = net.start(A, [A, B])
    net.world.run_for(3_000)
    dials = len(net.dials)
    net.world.run_until("the next dial", lambda: len(net.dials) > dials, 3_000)
    net.world.run_for(waited_ms)
    net.cut.clear()
    return one


def test_a_dial_that_got_lost_in_a_partition_does_not_keep_the_peers_out() -> None:
    """The lower id's own dial can only run into its time-out; the peer's, made after the partition, is there."""
    net = FakeNet()
    one = lost_dial(net, limits.LINK_DIAL_TIMEOUT_MS + 20)
    two = net.start(B, [A, B])
    net.world.run_until("linked", lambda: one.mesh.is_up(B) and two.mesh.is_up(A), limits.LINK_SECOND_DIAL_MS + 20)
    assert not [notice for notice in one.notices if "crossed" in notice]
    net.world.run_for(3_000)
    assert one.events == [("up", B)]
    assert two.events == [("up", A)]


def test_a_dial_that_may_yet_be_answered_keeps_the_peers_out() -> None:
    net = FakeNet()
    one = lost_dial(net, 10)
    two = net.start(B, [A, B])
    net.world.run_for(limits.LINK_SECOND_DIAL_MS + 20)
    assert [notice for notice in one.notices if "crossed" in notice]
    net.world.run_until("linked", lambda: one.mesh.is_up(B) and two.mesh.is_up(A), 3_000)
