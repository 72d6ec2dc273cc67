"""Addresses in answers, against Kafka's schemas as kio has them: all of them become ours, and no other byte changes."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.static.primitive import i32
from muster_coordinator.errors import WireError
from muster_coordinator.upstream.apis import READDRESSED
from muster_coordinator.upstream.brokers import (
    Broker,
    asks_for_transactions,
    coordinators_readdressed,
    readdressed,
    wants_answer,
)
from muster_coordinator.upstream.limits import UPSTREAM_BROKERS_MAX
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.schema import schema
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.wire.kio_entities import build, decode_answer, encode, encode_request, kio_class
from tests.wire.schema_values import entity_values

OURS = (Broker(1_000_000, "one.muster", 9092, "a"), Broker(1_000_001, "two.muster", 9093))
_LISTED = {Api.METADATA: "node_id", Api.DESCRIBE_CLUSTER: "broker_id"}


def address(node: int) -> tuple[str, int] | None:
    """Of every other broker."""
    return (f"ours-{node % 7}", 10_000 + node % 100) if node % 2 == 0 else None


def framed(api: int, version: int, values: dict[str, Any], correlation: int = 77) -> bytes:
    cls = kio_class(api, version, "response")
    body = encode(cls.__header_schema__(correlation_id=i32(correlation))) + encode(build(cls, values))
    return len(body).to_bytes(4, "big") + body


@st.composite
def answers(draw: st.DrawFn) -> tuple[int, int, dict[str, Any]]:
    api = draw(st.sampled_from(sorted(READDRESSED)))
    version = draw(st.integers(VERSIONS[api].min, READDRESSED[api]))
    return api, version, draw(entity_values(schema(api, version, "response")))


@given(answers())
@settings(max_examples=400, deadline=None)
def test_brokers_have_our_addresses_and_all_else_is_as_it_was(answer: tuple[int, int, dict[str, Any]]) -> None:
    api, version, values = answer
    name = _LISTED[Api(api)]
    told = readdressed(api, version, framed(api, version, values), address, OURS)
    correlation, found = decode_answer(api, version, bytes(told.frame))
    assert correlation == 77
    before = decode_answer(api, version, framed(api, version, values))[1]
    assert dataclasses.replace(found, brokers=()) == dataclasses.replace(before, brokers=())
    wanted = [
        dataclasses.replace(one, host=address(getattr(one, name))[0], port=i32(address(getattr(one, name))[1]))  # type: ignore[index]
        for one in before.brokers
        if address(getattr(one, name)) is not None
    ]
    assert list(found.brokers[: len(wanted)]) == wanted
    ours = [(getattr(one, name), one.host, one.port) for one in found.brokers[len(wanted) :]]
    assert ours == ([(one.node, one.host, one.port) for one in OURS] if before.brokers else [])
    assert [(one.node, one.host, one.port) for one in told.brokers] == [
        (getattr(one, name), one.host, one.port) for one in before.brokers
    ]


@given(answers(), st.data())
@settings(max_examples=200, deadline=None)
def test_an_answer_that_is_cut_or_changed_is_an_error_or_an_answer(
    answer: tuple[int, int, dict[str, Any]], data: st.DataObject
) -> None:
    api, version, values = answer
    frame = bytearray(framed(api, version, values))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(8, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(frame[: data.draw(st.integers(8, len(frame)))])
    try:
        told = readdressed(api, version, cut, address, OURS)
    except WireError:
        return
    assert int.from_bytes(told.frame[:4], "big") == len(told.frame) - 4


def test_more_brokers_than_there_are_in_the_world_are_an_error() -> None:
    body = (77).to_bytes(4, "big") + (UPSTREAM_BROKERS_MAX + 1).to_bytes(4, "big")
    with pytest.raises(WireError, match="brokers"):
        readdressed(Api.METADATA, 1, len(body).to_bytes(4, "big") + body, address, OURS)


FOUND = {"error_code": 0, "error_message": None, "node_id": 4, "host": "theirs", "port": 1, "key": "t"}
FAILED = {**FOUND, "error_code": 16, "node_id": 4}


@pytest.mark.parametrize("version", range(VERSIONS[Api.FIND_COORDINATOR].min, VERSIONS[Api.FIND_COORDINATOR].max + 1))
@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (FOUND, (0, 4, *(address(4) or ()))),
        ({**FOUND, "node_id": 5}, (15, -1, "", -1)),
        (FAILED, (16, -1, "", -1)),
    ],
)
def test_coordinators_of_transactions_are_at_our_ports(
    version: int, found: dict[str, Any], wanted: tuple[Any, ...]
) -> None:
    values = {**found, "throttle_time_ms": 3, "coordinators": [found]}
    frame = coordinators_readdressed(version, framed(Api.FIND_COORDINATOR, version, values), address)
    correlation, answer = decode_answer(Api.FIND_COORDINATOR, version, bytes(frame))
    one = answer.coordinators[0] if version >= 4 else answer
    assert correlation == 77
    assert (one.error_code.value, one.node_id, one.host, one.port) == wanted


@pytest.mark.parametrize("version", range(VERSIONS[Api.FIND_COORDINATOR].min, VERSIONS[Api.FIND_COORDINATOR].max + 1))
def test_who_asks_for_transactions(version: int) -> None:
    for key_type in (0, 1, 2) if version else (0,):
        values = {"key": "k", "coordinator_keys": ["k"], "key_type": key_type}
        frame = encode_request(Api.FIND_COORDINATOR, version, values, 1, None)
        flexible = version >= VERSIONS[Api.FIND_COORDINATOR].flexible
        body = 4 + 8 + 2 + (1 if flexible else 0)
        assert asks_for_transactions(version, frame, body, len(frame)) is (key_type == 1)
        for stop in range(body, len(frame)):
            with pytest.raises(WireError):
                asks_for_transactions(version, frame[:stop], body, stop)


@pytest.mark.parametrize("version", range(3, 10))
@pytest.mark.parametrize("transactional_id", [None, "", "t" * 32_000])
def test_a_produce_without_acks_wants_no_answer(version: int, transactional_id: str | None) -> None:
    for acks in (0, 1, -1):
        values = {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 1, "topic_data": ()}
        frame = encode_request(Api.PRODUCE, version, values, 1, None)
        body = 4 + 8 + 2 + (1 if version >= VERSIONS[Api.PRODUCE].flexible else 0)
        assert wants_answer(version, Frame(frame, len(frame)), body) is (acks != 0)
    with pytest.raises(WireError):
        wants_answer(version, Frame(frame[: body + 1], body + 1), body)
