"""What unanswered requests hold in memory is bounded, for one connection and for all (invariant P4).

One connection sent ten DescribeGroups of 160,000 group ids in 320 KB each, and its coordinator took 750 MB; of a
hundred, 8 GB, where the kernel ends the process.
"""

import struct
from functools import cache
from typing import Any

import pytest
from muster_coordinator.context import RequestContext
from muster_coordinator.wire import limits
from muster_coordinator.wire.connection import Connection
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.versions import Api

from tests.wire.kio_entities import encode_request
from tests.wire.test_connection import StillClock, heartbeat

NAMES = 50_000
ANSWER = {"groups": []}


class Desks:
    """Connections of one process: they share its meter."""

    def __init__(self) -> None:
        self.meter = RequestMeter(lambda: 0)
        self.requests: list[Exchange] = []

    def connection(self) -> Connection:
        return Connection(
            listener="INSIDE", connection_id=1, client_host="/10.0.0.1", clock=StillClock(), handle=self._take,
            wake=lambda: None, meter=self.meter,
        )  # fmt: skip

    def _take(self, _: RequestContext, request: Any, reply: Exchange) -> None:
        self.requests.append(reply)

    def answer(self, index: int = 0) -> None:
        self.requests.pop(index)(ANSWER)


CORRELATION_AT = 4 + 2 + 2
"""Behind the frame's size, the API and its version."""


def describe(correlation: int) -> bytes:
    frame = bytearray(_described())
    struct.pack_into(">i", frame, CORRELATION_AT, correlation)
    return bytes(frame)


@cache
def _described() -> bytes:
    """It takes a tenth of a second, and a test sends a hundred that differ in nothing else."""
    values = {"groups": [f"{number:06}" for number in range(NAMES)], "include_authorized_operations": False}
    return encode_request(Api.DESCRIBE_GROUPS, 4, values, 0, "cli")


def test_a_connection_is_not_read_while_its_unanswered_requests_hold_too_much() -> None:
    desks = Desks()
    one = desks.connection()
    one.receive(describe(1))
    held = desks.meter.held_bytes
    assert NAMES * 64 * limits.HANDLING_FACTOR < held <= limits.CONNECTION_HELD_BYTES_MAX
    one.receive(b"".join(describe(number) for number in (2, 3, 4)))
    assert len(desks.requests) == limits.CONNECTION_HELD_BYTES_MAX // held + 1
    assert not one.wants_bytes
    for _ in range(4):
        desks.answer()
        one.resume()
    assert not desks.requests
    assert desks.meter.held_bytes == 0
    assert one.wants_bytes
    assert len(one.take()) == 4


def test_an_answer_that_waits_for_the_one_before_it_is_held() -> None:
    desks = Desks()
    one = desks.connection()
    one.receive(describe(1) + describe(2))
    held = desks.meter.held_bytes
    desks.answer(1)
    assert desks.meter.held_bytes == held
    desks.answer(0)
    assert desks.meter.held_bytes == 0


def test_when_all_hold_too_much_a_large_request_ends_its_connection_and_small_ones_are_served() -> None:
    desks = Desks()
    others = [desks.connection() for _ in range(100)]
    for number, other in enumerate(others):
        other.receive(describe(number))
    full = [one for one in others if one.state is State.READY]
    assert desks.meter.held_bytes <= limits.REQUESTS_HELD_BYTES_MAX
    assert len(full) == len(desks.requests) == limits.REQUESTS_HELD_BYTES_MAX // (desks.meter.held_bytes // len(full))
    assert "memory" in others[-1].failure
    one = desks.connection()
    one.receive(heartbeat(1))
    assert one.state is State.READY
    assert len(desks.requests) == len(full) + 1


def test_a_connection_that_waits_for_an_answer_is_not_read_while_all_hold_too_much() -> None:
    desks = Desks()
    one = desks.connection()
    one.receive(heartbeat(1))
    desks.meter.held_bytes = limits.REQUESTS_HELD_BYTES_MAX + 1
    assert not one.wants_bytes
    assert desks.connection().wants_bytes, "an answer would make it look again; there is none to come"
    desks.meter.held_bytes = 0
    assert one.wants_bytes


@pytest.mark.parametrize("answered", [True, False])
def test_a_connection_that_ends_holds_until_its_handler_lets_go(answered: bool) -> None:
    """Otherwise who hangs up at once could have as much work in the making as it likes."""
    desks = Desks()
    one = desks.connection()
    one.receive(describe(1))
    held = desks.meter.held_bytes
    assert held
    one.close()
    assert desks.meter.held_bytes == held
    if answered:
        desks.answer()
    else:
        desks.requests.clear()
    assert desks.meter.held_bytes == 0


def test_requests_of_ordinary_consumers_are_small() -> None:
    desks = Desks()
    one = desks.connection()
    topics = [{"name": f"topic-{n}", "partitions": [{"partition_index": p} for p in range(2)]} for n in range(5)]
    one.receive(heartbeat(1) + encode_request(Api.LIST_OFFSETS, 1, {"replica_id": -1, "topics": topics}, 2, "cli"))
    assert len(desks.requests) == 2
    assert desks.meter.held_bytes == 0
