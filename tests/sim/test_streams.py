"""Simulated TCP does to the product's mesh what TCP does, and nothing more: order, no loss, late ends."""

import pytest
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import LINK_REDIAL_GRACE_MS, LINK_WRITE_BYTES
from muster_coordinator.links import limits as links_limits
from muster_coordinator.links.channels import APPEND, CONTROL
from muster_coordinator.runtime import limits as runtime_limits

from tests.sim import link_faults
from tests.sim.loop import SimLoop, World
from tests.sim.mesh_net import MeshNet, MeshPort

A, B = BrokerId(0), BrokerId(1)
TOLD_MS = 10
"""More than a round trip."""


class Sink:
    def __init__(self, world: World) -> None:
        self.world = world
        self.heard: list[bytes] = []
        self.heard_us: list[tuple[int, int]] = []

    def peer_up(self, peer: BrokerId, hello: bytes) -> None: ...
    def peer_down(self, peer: BrokerId) -> None: ...

    def peer_message(self, peer: BrokerId, wal_writer: int, payload: bytes) -> None:
        self.heard.append(payload)
        self.heard_us.append((wal_writer, self.world.now_us))


class Pair:
    """Two linked replicas; what A sends, `sink` hears."""

    def __init__(self, seed: str = "streams", delay_us: tuple[int, int] = (50, 2_000)) -> None:
        self.world = World(seed)
        self.net = MeshNet(self.world, (A, B), delay_us=delay_us)
        self.sink = Sink(self.world)
        self.ports: dict[BrokerId, MeshPort] = {}
        self.start(A, Sink(self.world))
        self.start(B, self.sink)
        self.until_linked()

    def start(self, broker: BrokerId, sink: Sink) -> None:
        self.ports[broker] = self.net.port(broker, SimLoop(self.world))
        self.ports[broker].start(sink)

    def until_linked(self, ms: int = 5_000) -> None:
        self.world.run_until("linked", lambda: self.net.link_up(A, B), ms)

    def send(self, data: bytes, wal_writer: int = APPEND) -> bool:
        return self.ports[A].send(B, wal_writer, b"\0\0" + data)

    def end(self, broker: BrokerId, *, power: bool) -> None:
        self.ports[broker].loop.kill()
        (self.net.vanished if power else self.net.gone)(broker)


def test_all_bytes_arrive_in_order_however_they_are_split_delayed_and_lost() -> None:
    pair = Pair()
    sent = []
    for number in range(600):
        pair.net.loss = 0.05 if number % 100 < 50 else 0.0
        if pair.send(b"%d" % number):
            sent.append(b"\0\0%d" % number)
        pair.world.run_for(3)
    pair.net.loss = 0.0
    pair.world.run_for(3_000)
    assert len(sent) == 600
    assert pair.sink.heard == sent
    assert pair.ports[A].ups[B] == 1, "over one connection"


def test_what_a_short_cut_held_back_arrives_late_over_the_same_connection() -> None:
    pair = Pair()
    pair.net.cut(A, B)
    pair.send(b"late")
    pair.world.run_for(500)
    assert pair.sink.heard == []
    pair.net.restore(A, B)
    pair.world.run_for(1_000)
    assert pair.sink.heard == [b"\0\0late"]
    assert pair.ports[A].ups[B] == 1


@pytest.mark.parametrize("cut", [(A, B), (B, A)])
def test_bytes_that_nobody_acknowledges_end_the_connection_at_their_sender(cut: tuple[BrokerId, BrokerId]) -> None:
    """A lost acknowledgement is as good as a lost byte; the other end, which has nothing to say, learns it late."""
    pair = Pair()
    pair.net.cut(*cut)
    pair.send(b"there")
    pair.world.run_for(runtime_limits.LINK_UNACKNOWLEDGED_MS - 10)
    assert pair.ports[A].is_up(B)
    assert pair.sink.heard == ([] if cut == (A, B) else [b"\0\0there"])
    pair.world.run_for(20)
    assert not pair.ports[A].is_up(B)
    assert pair.ports[B].is_up(A), "half-open"
    pair.world.run_for(8_000)
    assert not pair.ports[B].is_up(A), "keep-alive"


def test_a_killed_process_has_sent_what_it_wrote_and_its_peer_is_told() -> None:
    pair = Pair()
    pair.send(b"last words")
    pair.world.run_for(0)
    pair.end(A, power=False)
    pair.world.run_for(TOLD_MS)
    assert pair.sink.heard == [b"\0\0last words"]
    assert not pair.ports[B].is_up(A)


def test_of_a_machine_without_power_nobody_is_told_and_its_return_resets_what_was_left() -> None:
    pair = Pair()
    pair.end(B, power=True)
    pair.send(b"lost")
    pair.world.run_for(1_000)
    assert pair.ports[A].is_up(B)
    back = Sink(pair.world)
    pair.start(B, back)
    pair.until_linked(1_000)
    pair.send(b"found")
    pair.world.run_for(TOLD_MS)
    assert back.heard == [b"\0\0found"], "and nothing of what was sent to the process before"


def test_a_reset_ends_both_ends_at_once_and_a_new_link_is_made() -> None:
    pair = Pair()
    pair.send(b"lost or not")
    pair.net.reset(A, B)
    pair.world.run_for(0)
    assert not pair.ports[A].is_up(B)
    assert not pair.ports[B].is_up(A)
    pair.until_linked(LINK_REDIAL_GRACE_MS)


def test_a_frozen_process_keeps_its_connection_and_reads_all_of_it_later() -> None:
    pair = Pair()
    pair.ports[B].loop.pause()
    for number in range(50):
        assert pair.send(b"%d" % number)
        pair.world.run_for(100)
    assert pair.sink.heard == []
    pair.ports[B].loop.resume()
    pair.world.run_for(TOLD_MS)
    assert len(pair.sink.heard) == 50


def test_one_send_in_twenty_is_refused_and_none_when_calm() -> None:
    pair = Pair()
    link_faults.refuse_sends(pair.net)
    refused = sum(not pair.send(b"", CONTROL) for _ in range(2_000))
    assert 60 <= refused <= 140
    assert pair.net.refused_messages == refused
    link_faults.calm(pair.net)
    assert all(pair.send(b"", CONTROL) for _ in range(200))


def test_bytes_take_their_time_and_the_control_wal_writer_goes_before_what_the_transport_has_not_taken() -> None:
    pair = Pair(delay_us=(100, 100))
    link_faults.limit_rate(pair.net, 100)
    began_us = pair.world.now_us
    for _ in range(20):
        assert pair.send(bytes(50_000))
    pair.world.run_for(10)
    assert pair.send(b"first", CONTROL)
    pair.world.run_for(12_000)
    wal_writers = [wal_writer for wal_writer, _ in pair.sink.heard_us]
    assert len(wal_writers) == 21
    assert 5 <= wal_writers.index(CONTROL) <= 11, "behind what the transport had taken"
    took_ms = (pair.sink.heard_us[-1][1] - began_us) // 1_000
    assert 10_000 <= took_ms <= 10_100


def test_a_slow_link_refuses_a_wal_writer_with_too_much_unsent_and_takes_more_when_it_has_drained() -> None:
    pair = Pair()
    link_faults.limit_rate(pair.net, 1_000)
    taken = 0
    while pair.send(bytes(100_000)):
        taken += 100_000
        pair.world.run_for(0)
    most = links_limits.PEER_UNSENT_BYTES_MAX + LINK_WRITE_BYTES
    assert links_limits.PEER_UNSENT_BYTES_MAX < taken <= most + 400_000
    assert pair.send(b"", CONTROL)
    pair.world.run_for(20_000)
    assert pair.send(b"again")


def test_a_raft_message_may_come_twice_and_never_over_another_link() -> None:
    pair = Pair()
    pair.net.replay = 1.0
    raft = b"\1\1" + b"message"
    pair.ports[A].send(B, APPEND, raft)
    pair.world.run_for(500)
    assert pair.sink.heard == [raft, raft]
    pair.ports[A].send(B, APPEND, raft)
    pair.world.run_for(0)
    pair.world.run_for(2)
    assert pair.sink.heard == [raft] * 3
    pair.net.reset(A, B)
    pair.world.run_for(1_000)
    assert pair.sink.heard == [raft] * 3
