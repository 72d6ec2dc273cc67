"""The client listener: one write a turn, flow control both ways, limits, ends; and once over real sockets on uvloop."""

import asyncio
import heapq
from collections.abc import Callable
from typing import Any

import pytest
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.events import CONNECTION_FAILED, USER_REVOKED, Event
from muster_coordinator.groups.requests import Heartbeat, HeartbeatAnswer
from muster_coordinator.limits import CONNECTION_UNSENT_BYTES_MAX, MIB
from muster_coordinator.runtime import limits as runtime_limits
from muster_coordinator.runtime.client_arrival import WRITE_HIGH_BYTES, WRITE_LOW_BYTES, Arrival
from muster_coordinator.runtime.client_connection import ClientConnection, Door
from muster_coordinator.runtime.client_listener import ClientListener
from muster_coordinator.runtime.loop import AsyncLoop, new_event_loop
from muster_coordinator.security.session import ListenerSasl
from muster_coordinator.wire import limits as wire_limits
from muster_coordinator.wire.exchange import NO_ANSWER, Exchange
from muster_coordinator.wire.versions import Api

from tests.made_settings import client_limits
from tests.wire.kio_entities import decode_answer, encode_request


class StepLoop:
    """As much of an event loop as the listener uses, on virtual time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, int, Callable[..., None], Any]] = []
        self._order = 0

    def time(self) -> float:
        return self.now

    def monotonic_ms(self) -> int:
        return round(self.now * 1000)

    def wall_ms(self) -> int:
        return 0

    def call_soon(self, call: Callable[..., None]) -> Any:
        return self.call_later(0, call)

    def call_later(self, seconds: float, call: Callable[..., None]) -> Any:
        self._order += 1
        handle = Handle()
        heapq.heappush(self._calls, (self.now + seconds, self._order, call, handle))
        return handle

    def turn(self) -> None:
        """What is due now, and nothing that it sets."""
        due = self._order
        while self._calls and self._calls[0][0] <= self.now and self._calls[0][1] <= due:
            _, _, call, handle = heapq.heappop(self._calls)
            if not handle.cancelled:
                call()

    def run(self, seconds: float = 0.0) -> None:
        until = self.now + seconds
        while self._calls and self._calls[0][0] <= max(until, self.now):
            at, _, call, handle = heapq.heappop(self._calls)
            self.now = max(self.now, at)
            if not handle.cancelled:
                call()
        self.now = max(until, self.now)


class Handle:
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Wire:
    """A transport that keeps what is written; `takes` = False lets it pile up, as a peer that does not read would."""

    def __init__(self, protocol: Any, address: str) -> None:
        self.protocol = protocol
        self.address = address
        self.writes: list[bytes] = []
        self.takes = True
        self.held = 0
        self.high = 64 * 1024
        self.reading = True
        self.closed = self.aborted = False

    def set_protocol(self, protocol: ClientConnection) -> None:
        self.protocol = protocol

    def get_extra_info(self, name: str) -> Any:
        return (self.address, 4_000) if name == "peername" else None

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.held

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))
        if not self.takes:
            self.held += len(data)
            if self.held > self.high:
                self.protocol.pause_writing()

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def drain(self) -> None:
        self.takes, self.held = True, 0
        self.protocol.resume_writing()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed or self.aborted

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.protocol.connection_lost(None)

    def abort(self) -> None:
        if not self.aborted and not self.closed:
            self.aborted = True
            self.protocol.connection_lost(None)


class World:
    def __init__(self, **limit: Any) -> None:
        self.loop = StepLoop()
        self.requests: list[Exchange] = []
        self.events: list[Event] = []
        self.listener = ClientListener(
            self.loop,  # type: ignore[arg-type]
            self.loop,
            name="INSIDE",
            handle=self.handle,
            client_limits=client_limits(**limit),
            tell=self.events.append,
        )
        self.contexts: list[RequestContext] = []

    def handle(self, context: RequestContext, _request: Any, reply: Exchange) -> None:
        self.contexts.append(context)
        self.requests.append(reply)

    def connect(self, address: str = "10.0.0.5") -> Wire:
        arrival = Arrival(self.listener, Door(self.handle, None))
        wire = Wire(arrival, address)
        arrival.connection_made(wire)  # type: ignore[arg-type]
        return wire

    def answer_all(self) -> None:
        for reply in self.requests:
            if reply.frame is None:
                reply(HeartbeatAnswer(0))


def heartbeat(correlation: int = 1) -> bytes:
    return encode_request(Api.HEARTBEAT, 3, {"group_id": "g"}, correlation, "c")


def test_all_answers_of_a_turn_are_one_write_per_connection() -> None:
    world = World()
    wires = [world.connect() for _ in range(3)]
    for wire in wires:
        wire.protocol.data_received(b"".join(map(heartbeat, range(5))))
    world.answer_all()
    assert all(wire.writes == [] for wire in wires)
    world.loop.run()
    assert [len(wire.writes) for wire in wires] == [1, 1, 1]
    assert world.listener.stats.requests == 15
    assert world.contexts[0].client_host == "/10.0.0.5"


def test_repetitions_of_a_heartbeat_reach_the_short_way_and_are_counted_and_written_once() -> None:
    world = World()
    asked: list[int] = []

    def at_once(_request: Heartbeat, times: int) -> Code:
        asked.append(times)
        return Code.NONE

    world.listener.heartbeat_at_once = at_once
    wire = world.connect()
    wire.protocol.data_received(heartbeat(1))
    world.answer_all()
    world.loop.run()
    wire.protocol.data_received(b"".join(map(heartbeat, range(2, 7))))
    assert asked == [5]
    assert [len(written) for written in wire.writes] == [len(wire.writes[0]), 5 * len(wire.writes[0])], "at once"
    world.loop.run()
    assert len(wire.writes) == 2
    stats = world.listener.stats
    assert (stats.requests, stats.unsent, stats.bytes_out) == (6, 0, 6 * len(wire.writes[0]))


def test_repetitions_are_not_written_past_a_socket_that_takes_nothing() -> None:
    world = World()
    world.listener.heartbeat_at_once = lambda _request, _times: Code.NONE
    wire = world.connect()
    wire.protocol.data_received(heartbeat(1))
    world.answer_all()
    world.loop.run()
    wire.protocol.pause_writing()
    wire.protocol.data_received(heartbeat(2))
    world.loop.run()
    assert len(wire.writes) == 1
    wire.protocol.resume_writing()
    world.loop.run()
    assert len(wire.writes) == 2


# -- a listener that asks who its clients are --------------------------------------------------------------------------

ASKS = ListenerSasl(mechanisms=("PLAIN",), reauth_ms={})


def known(wire: Wire, user: str) -> Wire:
    connection = wire.protocol.connection
    connection.sasl.user = user
    connection.authenticated(f"User:{user}", None)
    return wire


def test_who_has_not_shown_who_it_is_in_time_is_closed_and_others_are_not() -> None:
    world = World()
    world.listener.sasl = ASKS
    silent, slow, good = world.connect(), world.connect(), known(world.connect(), "a")
    slow.protocol.data_received(b"\0\0")
    world.loop.run(9.9)
    slow.protocol.data_received(b"\0")
    assert not silent.closed
    world.loop.run(0.2)
    assert (silent.closed, slow.closed, good.closed) == (True, True, False)
    assert [event.fields["why"] for event in world.events] == ["not authenticated in time"] * 2


def test_connections_of_a_user_that_is_gone_are_closed_a_part_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_limits, "REVOKED_A_TURN_MAX", 2)
    world = World()
    world.listener.sasl = ASKS
    wires = [known(world.connect(), "gone" if n % 2 else "here") for n in range(6)]
    unknown = world.connect()
    world.listener.revoke(lambda session: session.user != "gone")
    world.loop.turn()
    assert sum(wire.closed for wire in wires) < 3
    world.loop.run()
    assert [wire.closed for wire in wires] == [False, True] * 3
    assert not unknown.closed
    assert [event.fields["user"] for event in world.events if event.kind is USER_REVOKED] == ["gone"] * 3


def test_a_listener_that_asks_nobody_has_nobody_to_revoke() -> None:
    world = World()
    wire = world.connect()
    world.listener.revoke(lambda _: False)
    world.loop.run(60)
    assert not wire.closed


class SlowWorld(World):
    """Every request takes a millisecond of the loop."""

    def __init__(self, **limit: Any) -> None:
        super().__init__(**limit)
        self.served: list[str] = []

    def handle(self, context: RequestContext, request: Any, reply: Exchange) -> None:
        super().handle(context, request, reply)
        self.served.append(request.group)
        self.loop.now += 0.001
        reply(HeartbeatAnswer(0))

    def ask(self, wire: Wire, group: str) -> None:
        wire.protocol.data_received(encode_request(Api.HEARTBEAT, 3, {"group_id": group}, 1, "c"))


def test_requests_of_one_turn_are_bounded_and_the_rest_is_served_in_slices() -> None:
    world = SlowWorld()
    wires = [world.connect() for _ in range(100)]
    for wire in wires:
        world.ask(wire, "storm")
    assert len(world.served) == runtime_limits.CLIENTS_TURN_MS_MAX
    turns = 0
    while len(world.served) < 100:
        before = len(world.served)
        world.loop.turn()
        assert len(world.served) - before <= runtime_limits.CLIENTS_TURN_MS_MAX
        turns += 1
        assert turns < 200
    world.loop.run()
    assert [len(wire.writes) for wire in wires] == [1] * 100
    assert world.listener.stats.buffered == 0
    assert all(wire.reading for wire in wires)


def test_a_storm_of_one_group_does_not_hold_up_another() -> None:
    world = SlowWorld(accepts_per_second_max=1_000_000)
    for wire in [world.connect() for _ in range(1_000)]:
        world.ask(wire, "storm")
    neighbour = world.connect()
    world.ask(neighbour, "neighbour")
    world.loop.turn()
    assert "neighbour" in world.served[: 2 * runtime_limits.CLIENTS_TURN_MS_MAX + 1]
    world.loop.run(60)
    assert world.served.count("storm") == 1_000


def test_one_connection_keeps_its_order_through_the_slices_and_is_not_read_meanwhile() -> None:
    world = SlowWorld()
    busy = world.connect()
    for _ in range(runtime_limits.CLIENTS_TURN_MS_MAX):
        world.ask(busy, "busy")
    wire = world.connect()
    for number in range(20):
        world.ask(wire, f"group-{number}")
    assert not wire.reading
    world.loop.run(10)
    assert world.served[runtime_limits.CLIENTS_TURN_MS_MAX :] == [f"group-{number}" for number in range(20)]
    assert wire.reading


def test_a_connection_that_closes_while_it_waits_for_its_turn_is_left_out() -> None:
    world = SlowWorld()
    wires = [world.connect() for _ in range(10)]
    for number, wire in enumerate(wires):
        world.ask(wire, f"group-{number}")
    wires[9].close()
    world.loop.run(10)
    assert world.served == [f"group-{number}" for number in range(9)]
    assert world.listener.stats.buffered == 0


def test_answers_are_written_in_slices_too(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    wires = [world.connect() for _ in range(50)]
    for wire in wires:
        wire.protocol.data_received(heartbeat())
    world.loop.run()

    def write(wire: Wire, data: bytes) -> None:
        wire.writes.append(bytes(data))
        world.loop.now += 0.001

    monkeypatch.setattr(Wire, "write", write)
    world.answer_all()
    turns = 0
    while not all(wire.writes for wire in wires):
        before = sum(len(wire.writes) for wire in wires)
        world.loop.turn()
        assert sum(len(wire.writes) for wire in wires) - before <= runtime_limits.CLIENTS_TURN_MS_MAX
        turns += 1
        assert turns < 100
    assert [len(wire.writes) for wire in wires] == [1] * 50


def test_connections_have_ids_of_their_own() -> None:
    world = World()
    for _ in range(3):
        world.connect().protocol.data_received(heartbeat())
    assert len({context.connection_id for context in world.contexts}) == 3


def test_too_many_unanswered_requests_stop_the_reading_and_answers_start_it_again() -> None:
    world = World()
    wire = world.connect()
    wire.protocol.data_received(b"".join(heartbeat(i) for i in range(wire_limits.PIPELINED_REQUESTS_MAX + 7)))
    assert not wire.reading
    world.answer_all()
    world.loop.run()
    assert wire.reading
    world.answer_all()
    world.loop.run()
    assert len(world.requests) == wire_limits.PIPELINED_REQUESTS_MAX + 7


def big_answer(world: World, wire: Wire, size: int) -> None:
    """Ask for something and answer with about this many bytes."""
    wire.protocol.data_received(encode_request(Api.SYNC_GROUP, 1, {"group_id": "g"}, 1, "c"))
    from muster_coordinator.groups.requests import SyncGroupAnswer

    world.requests[-1](SyncGroupAnswer(error=0, assignment=bytes(size)))
    world.loop.run()


def test_a_reader_that_takes_nothing_is_first_not_read_then_closed() -> None:
    world = World()
    wire = world.connect()
    wire.takes = False
    while wire.reading:
        big_answer(world, wire, 4 * MIB)
    assert world.listener.stats.unsent > CONNECTION_UNSENT_BYTES_MAX
    world.loop.run(runtime_limits.CONNECTION_UNSENT_MS_MAX / 1000 - 1)
    assert not wire.aborted
    world.loop.run(2)
    assert wire.aborted
    assert world.listener.stats.slow == 1
    assert world.listener.stats.unsent == 0
    assert world.listener.stats.connections == 0


def test_a_slow_reader_that_takes_something_lives() -> None:
    world = World()
    wire = world.connect()
    wire.takes = False
    while wire.reading:
        big_answer(world, wire, 4 * MIB)
    for _ in range(10):
        wire.held -= 1
        world.loop.run(runtime_limits.CONNECTION_UNSENT_MS_MAX / 1000)
    assert not wire.aborted


def test_a_reader_that_catches_up_is_read_again() -> None:
    world = World()
    wire = world.connect()
    wire.takes = False
    while wire.reading:
        big_answer(world, wire, 4 * MIB)
    wire.drain()
    world.loop.run()
    assert wire.reading
    assert world.listener.stats.unsent == 0


def test_small_answers_in_the_transport_do_not_count_against_the_sum() -> None:
    """Below its high-water mark a transport drains without telling anybody."""
    world = World()
    wire = world.connect()
    wire.takes = False
    wire.high = 2 * MIB
    big_answer(world, wire, MIB)
    assert world.listener.stats.unsent == 0


def test_bad_bytes_close_the_connection_after_the_good_answers() -> None:
    world = World()
    wire = world.connect()
    wire.protocol.data_received(heartbeat(1))
    world.answer_all()
    wire.protocol.data_received(b"\x00\x00\x00\x01x")
    world.loop.run()
    assert len(wire.writes) == 1
    assert wire.closed
    assert world.listener.stats.failed == 1
    (event,) = world.events
    assert (event.kind, event.fields["listener"], event.fields["peer"]) == (CONNECTION_FAILED, "INSIDE", "10.0.0.5")
    assert event.fields["why"] == "frame of 1 bytes"


def test_a_request_without_answer_writes_nothing() -> None:
    world = World()
    wire = world.connect()
    wire.protocol.data_received(heartbeat(1))
    world.requests[0](NO_ANSWER)
    world.loop.run()
    assert wire.writes == []


def test_connections_beyond_the_limit_are_refused() -> None:
    world = World(connections_max=2)
    kept = [world.connect() for _ in range(2)]
    refused = world.connect()
    assert refused.aborted
    assert not any(wire.aborted for wire in kept)
    assert (world.listener.stats.connections, world.listener.stats.refused) == (2, 1)
    kept[0].close()
    assert not world.connect().aborted


def test_the_limit_per_address_is_off_unless_set() -> None:
    world = World()
    assert not any(world.connect().aborted for _ in range(300))
    world = World(connections_per_address_max=2)
    wires = [world.connect("10.0.0.1") for _ in range(2)]
    assert world.connect("10.0.0.1").aborted
    assert not world.connect("10.0.0.2").aborted
    wires[0].close()
    assert not world.connect("10.0.0.1").aborted


def test_connections_that_come_too_fast_wait_unread_and_none_is_refused() -> None:
    world = World(accepts_per_second_max=100)
    wires = [world.connect() for _ in range(200)]
    assert not any(wire.aborted for wire in wires)
    assert [wire.reading for wire in wires].count(True) <= 12
    world.loop.run(1.0)
    assert 100 <= [wire.reading for wire in wires].count(True) <= 112
    world.loop.run(1.0)
    assert all(wire.reading for wire in wires)


def test_a_flood_that_would_wait_too_long_is_refused() -> None:
    world = World(accepts_per_second_max=10)
    wires = [world.connect() for _ in range(100)]
    assert any(wire.aborted for wire in wires)
    assert world.listener.stats.refused == [wire.aborted for wire in wires].count(True)


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    world = World(idle_ms=60_000)
    idle, busy, waiting = (world.connect() for _ in range(3))
    waiting.protocol.data_received(heartbeat())
    for _ in range(7):
        world.loop.run(10)
        busy.protocol.data_received(heartbeat())
        world.requests[-1](HeartbeatAnswer(0))
    assert idle.closed
    assert not busy.closed
    assert not waiting.closed
    assert world.listener.stats.idle == 1


def test_unfinished_frames_of_all_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_limits, "CLIENTS_BUFFERED_BYTES_MAX", 100_000)
    world = World()
    wires = [world.connect() for _ in range(4)]
    half = encode_request(
        Api.JOIN_GROUP, 5, {"group_id": "g", "protocols": [{"name": "p", "metadata": bytes(60_000)}]}, 1, "c"
    )
    for wire in wires:
        wire.protocol.data_received(half[:40_000])
    assert [wire.aborted for wire in wires] == [False, False, True, True]
    assert world.listener.stats.buffered == 80_000
    wires[0].protocol.data_received(half[40_000:])
    assert len(world.requests) == 1
    assert world.listener.stats.buffered == 40_000


def test_what_waits_is_cancelled_when_the_client_goes() -> None:
    world = World()
    wire = world.connect()
    wire.protocol.data_received(heartbeat())
    told: list[bool] = []
    world.requests[0].on_close(lambda: told.append(True))
    wire.close()
    assert told == [True]
    world.answer_all()
    world.loop.run()
    assert wire.writes == []


# -- over real sockets


def test_real_clients_over_uvloop() -> None:
    """Pipelined requests, pieces, a large answer, a graceful end."""
    event_loop = new_event_loop()
    fatal: list[BaseException] = []
    loop = AsyncLoop(event_loop, on_fatal=lambda error, _: fatal.append(error))
    held: list[Exchange] = []

    def handle(context: RequestContext, _request: Any, reply: Exchange) -> None:
        if context.client_id == "hold":
            held.append(reply)
        else:
            reply(HeartbeatAnswer(0))

    async def scenario() -> None:
        listener = ClientListener(event_loop, loop, name="INSIDE", handle=handle, client_limits=client_limits())
        port = await listener.listen("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(heartbeat(i) for i in range(500)))
        for i in range(500):
            frame = await read_frame(reader)
            assert decode_answer(Api.HEARTBEAT, 3, frame)[0] == i
        for byte in heartbeat(7):
            writer.write(bytes([byte]))
            await writer.drain()
        assert decode_answer(Api.HEARTBEAT, 3, await read_frame(reader))[0] == 7
        writer.write(encode_request(Api.HEARTBEAT, 3, {"group_id": "g"}, 8, "hold"))
        await writer.drain()
        bad_reader, bad_writer = await asyncio.open_connection("127.0.0.1", port)
        bad_writer.write(b"\xff" * 100)
        assert await bad_reader.read() == b""
        bad_writer.close()
        assert (listener.stats.accepted, listener.stats.failed) == (2, 1)
        await listener.close(over_ms=1)
        assert await reader.read() == b""
        assert listener.stats.connections == 0
        writer.close()

    async def read_frame(reader: asyncio.StreamReader) -> bytes:
        head = await reader.readexactly(4)
        return head + await reader.readexactly(int.from_bytes(head, "big"))

    try:
        event_loop.run_until_complete(asyncio.wait_for(scenario(), 20))
    finally:
        loop.close()
        event_loop.close()
    assert fatal == []
    assert len(held) == 1


def test_an_address_that_cannot_be_bound_is_an_environment_fault() -> None:
    from muster_coordinator.errors import EnvironmentFault

    event_loop = new_event_loop()
    loop = AsyncLoop(event_loop, on_fatal=lambda *_: None)

    async def scenario() -> None:
        first = ClientListener(event_loop, loop, name="A", handle=lambda *_: None, client_limits=client_limits())
        port = await first.listen("127.0.0.1", 0)
        second = ClientListener(event_loop, loop, name="B", handle=lambda *_: None, client_limits=client_limits())
        with pytest.raises(EnvironmentFault):
            await second.listen("127.0.0.1", port)
        await first.close()

    try:
        event_loop.run_until_complete(scenario())
    finally:
        loop.close()
        event_loop.close()


def test_write_limits_leave_room_for_the_connections_own_bound() -> None:
    assert WRITE_LOW_BYTES < WRITE_HIGH_BYTES < CONNECTION_UNSENT_BYTES_MAX
