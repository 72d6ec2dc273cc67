"""A connection of which a part goes on to a server behind it: one line of answers, back-pressure, and one end."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import WireError
from muster_coordinator.groups.requests import HeartbeatAnswer
from muster_coordinator.wire import limits
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.exchange import NO_ANSWER, Exchange
from muster_coordinator.wire.passage import Forwarded
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.versions import Api

from tests.wire.frames import frames_of
from tests.wire.kio_entities import encode_request
from tests.wire.test_connection import Desk, heartbeat


class Behind:
    """A `Passage` that keeps what it is given; Metadata goes there, version 0 of it is not offered."""

    def __init__(self) -> None:
        self.full = False
        self.sent: list[tuple[bytes, Exchange]] = []
        self.closed = 0
        self.drains = 0
        self.no_answer = False

    def takes(self, api: int, version: int, request: Forwarded) -> bool:
        if api == Api.METADATA and version == 0:
            raise WireError("not offered")
        return api == Api.METADATA

    def send(self, api: int, version: int, request: Forwarded, exchange: Exchange) -> None:
        self.sent.append((request.data[request.start : request.stop], exchange))
        assert request.data[request.body : request.stop] == BODY
        if self.no_answer:
            exchange.passed_back(NO_ANSWER)

    def drained(self) -> None:
        self.drains += 1

    def close(self) -> None:
        self.closed += 1

    def answer(self, index: int) -> None:
        correlation = struct.unpack_from(">i", self.sent[index][0], 8)[0]
        self.sent[index][1].passed_back(bytearray(struct.pack(">ii", 5, correlation) + b"!"))


BODY = encode_request(Api.METADATA, 1, {"topics": None}, 0, None)[14:]


def metadata(correlation: int, version: int = 1) -> bytes:
    return encode_request(Api.METADATA, version, {"topics": None}, correlation, "cli")


def desk_with_passage() -> tuple[Desk, Behind]:
    desk, behind = Desk(), Behind()
    desk.connection.passage = behind
    desk.connection.meter = RequestMeter(lambda: 0)
    return desk, behind


def correlations(desk: Desk) -> list[int]:
    return [struct.unpack_from(">i", frame, 4)[0] for frame in frames_of(desk.connection.take())]


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.data())
@settings(max_examples=100, deadline=None)
def test_answers_leave_in_the_order_of_requests_whoever_gives_them(forwarded: list[bool], data: st.DataObject) -> None:
    desk, behind = desk_with_passage()
    frames = [metadata(i) if there else heartbeat(i) for i, there in enumerate(forwarded)]
    desk.connection.receive(b"".join(frames))
    assert [frame for frame, _ in behind.sent] == [metadata(i) for i, there in enumerate(forwarded) if there]
    assert len(desk.requests) == forwarded.count(False)
    # Each side answers in its own order, and the two in any order between them.
    turns = data.draw(st.permutations(forwarded))
    ours = theirs = 0
    answered: list[int] = []
    for there in turns:
        if there:
            behind.answer(theirs)
            theirs += 1
        else:
            desk.requests[ours][2](HeartbeatAnswer(0))
            ours += 1
        answered += correlations(desk)
    assert answered == list(range(len(forwarded)))
    assert desk.connection.meter.in_flight == 0


def test_the_frame_that_came_back_is_the_answer() -> None:
    desk, behind = desk_with_passage()
    desk.connection.receive(metadata(7))
    behind.answer(0)
    assert list(frames_of(desk.connection.take())) == [struct.pack(">ii", 5, 7) + b"!"]


def test_a_request_without_an_answer_leaves_the_line() -> None:
    desk, behind = desk_with_passage()
    behind.no_answer = True
    desk.connection.receive(metadata(1) + heartbeat(2))
    desk.answer(0)
    assert correlations(desk) == [2]


def test_a_version_that_is_not_offered_ends_the_connection() -> None:
    desk, behind = desk_with_passage()
    desk.connection.receive(encode_request(Api.METADATA, 0, {"topics": ()}, 1, None))
    assert (desk.connection.state, desk.connection.failure) == (State.FAILED, "not offered")
    assert not behind.sent


def test_nothing_is_passed_on_before_authentication() -> None:
    desk, behind = Desk(authenticated=False), Behind()
    desk.connection.passage = behind
    desk.connection.receive(metadata(1))
    assert desk.connection.state is State.FAILED
    assert not behind.sent


def test_a_full_server_stops_the_client_until_it_is_not() -> None:
    desk, behind = desk_with_passage()
    behind.full = True
    desk.connection.receive(metadata(1))
    assert (behind.sent, desk.connection.wants_bytes) == ([], False)
    behind.full = False
    desk.connection.wake()
    desk.connection.resume()
    assert len(behind.sent) == 1
    assert desk.connection.wants_bytes


def test_no_more_requests_are_under_way_than_of_our_own() -> None:
    desk, behind = desk_with_passage()
    desk.connection.receive(b"".join(metadata(i) for i in range(limits.PIPELINED_REQUESTS_MAX + 5)))
    assert len(behind.sent) == limits.PIPELINED_REQUESTS_MAX
    assert not desk.connection.wants_bytes


@pytest.mark.parametrize("answers", [0, 1])
def test_the_end_of_a_connection_ends_its_passage_once_and_a_late_answer_is_nothing(answers: int) -> None:
    desk, behind = desk_with_passage()
    desk.connection.receive(metadata(1) + metadata(2))
    for index in range(answers):
        behind.answer(index)
    desk.connection.close()
    desk.connection.close()
    assert behind.closed == 1
    behind.answer(1)
    assert desk.connection.meter.in_flight == 0


def test_the_passage_hears_when_the_client_has_taken_answers() -> None:
    desk, behind = desk_with_passage()
    desk.connection.note_unsent(0)
    assert behind.drains == 1
