"""The listener mutes throttled connections: nothing is read from them until their time is over, and others go on."""

from typing import Any

from muster_coordinator.events import CONNECTION_REFUSED
from muster_coordinator.groups.requests import HeartbeatAnswer
from muster_coordinator.quotas.admission import Admission
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.throttling import DEFAULT_WINDOWS, Throttling

from tests.made_settings import admission_limits
from tests.runtime.test_client_listener import Wire, World, heartbeat

ANYBODY = (("user", ""),)


class Throttled(World):
    """Heartbeats are answered at once, and each costs as much of the loop as a test says."""

    def __init__(self, **limit: Any) -> None:
        super().__init__(**limit)
        self.throttling = self.listener.throttling = Throttling(self.loop)

    def above(self, wire: Wire, throttle_ms: int) -> None:
        """As an answer to a client above its quota does."""
        wire.protocol.connection.mute(throttle_ms)
        self.loop.run()


def test_a_muted_connection_is_answered_first_and_read_again_when_its_time_is_over() -> None:
    world = Throttled()
    wire, neighbour = world.connect(), world.connect("10.0.0.6")
    wire.protocol.data_received(heartbeat(1))
    world.answer_all()
    world.above(wire, 2_000)
    assert len(wire.writes) == 1, "the answer left"
    assert not wire.reading
    assert world.listener.stats.throttled == 1
    wire.protocol.data_received(heartbeat(2))
    neighbour.protocol.data_received(heartbeat(3))
    world.answer_all()
    world.loop.run(1.9)
    assert len(world.requests) == 2
    assert len(neighbour.writes) == 1
    world.loop.run(0.2)
    assert len(world.requests) == 3, "what arrived meanwhile is read"
    assert wire.reading
    assert world.listener.stats.throttled == 0


def test_the_longest_of_several_times_holds() -> None:
    world = Throttled()
    wire = world.connect()
    world.above(wire, 1_000)
    world.above(wire, 3_000)
    world.above(wire, 2_000)
    assert world.listener.stats.throttled == 1
    world.loop.run(2.9)
    assert not wire.reading
    world.loop.run(0.2)
    assert wire.reading


def test_a_muted_connection_that_ends_leaves_nothing() -> None:
    world = Throttled()
    wire = world.connect()
    world.above(wire, 3_000)
    wire.close()
    assert world.listener.stats.throttled == 0
    assert world.listener.stats.connections == 0
    world.loop.run(4)
    assert world.listener.stats.throttled == 0


def test_a_muted_connection_is_closed_when_it_has_been_idle_too_long() -> None:
    world = Throttled(idle_ms=60_000)
    wire = world.connect()
    world.above(wire, 2**31 - 1)
    world.loop.run(61)
    assert wire.closed
    assert world.listener.stats.idle == 1
    assert world.listener.stats.throttled == 0


def test_a_client_above_its_quota_is_told_and_muted_over_the_whole_path() -> None:
    """100 % of nothing: every request is above it, and costs one window."""
    world = Throttled()
    world.throttling.set({ANYBODY: (("request_percentage", 1e-12),)})
    world.listener.meter = RequestMeter(iter(range(0, 10**9, 10**6)).__next__)
    wire = world.connect()
    wire.protocol.data_received(heartbeat(1))
    world.requests[0](HeartbeatAnswer(0))
    world.loop.run()
    assert int.from_bytes(wire.writes[0][8:12], "big") == 1_000
    assert not wire.reading
    world.loop.run(1.01)
    assert wire.reading


def shared(world: World, **limits: Any) -> None:
    world.listener._admission = Admission(admission_limits(rate_max=1_000_000, **limits), DEFAULT_WINDOWS, 5_000)


def test_an_address_above_its_rate_is_closed_when_its_throttle_time_is_over() -> None:
    world = World()
    shared(world)
    world.listener._admission.set({(("ip", "10.0.0.5"),): (("connection_creation_rate", 1.0),)})
    wires = [world.connect() for _ in range(12)]
    late = wires[10:]
    assert not any(wire.aborted or wire.reading for wire in late), "neither read nor closed"
    other = world.connect("10.0.0.6")
    assert other.reading
    world.loop.run(1.01)
    assert all(wire.aborted for wire in late)
    stats = world.listener.stats
    assert (stats.connections, stats.accepted, stats.refused) == (11, 11, 2)
    refused = [event for event in world.events if event.kind is CONNECTION_REFUSED]
    assert [dict(event.fields)["why"] for event in refused] == ["connection_creation_rate"] * 2


def test_what_a_client_sends_that_is_refused_is_not_read() -> None:
    world = World()
    shared(world, per_address_max=1)
    world.connect()
    second = world.connect()
    assert second.aborted
    assert world.listener.stats.connections == 1
