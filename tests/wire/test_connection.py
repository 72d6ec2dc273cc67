"""The connection state machine: splitting, order, limits, ends (decisions 12, 23, 24; invariants P1-P3, P6)."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import StorageFailed
from muster_coordinator.groups.requests import HeartbeatAnswer
from muster_coordinator.limits import CONNECTION_UNSENT_BYTES_MAX, MIB, PROPOSAL_TIMEOUT_MS
from muster_coordinator.wire import limits
from muster_coordinator.wire.connection import Connection
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.exchange import CLOSE, NO_ANSWER, Exchange
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.wire.kio_entities import decode_answer, encode_request


class StillClock:
    now_ms = 5_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 0


class Desk:
    """Takes requests and answers when told."""

    def __init__(self, *, authenticated: bool = True) -> None:
        self.requests: list[tuple[RequestContext, Any, Exchange]] = []
        self.wakes = 0
        self.auto: Callable[[Exchange], None] | None = None
        self.notices: list[tuple[str, dict[str, object], BaseException | None]] = []
        self.connection = Connection(
            listener="INSIDE", connection_id=77, client_host="/10.0.0.1", clock=StillClock(), handle=self.take,
            wake=self.wake, authenticated=authenticated,
            notice=lambda what, details, error: self.notices.append((what, dict(details), error)),
        )  # fmt: skip

    def take(self, context: RequestContext, request: Any, reply: Exchange) -> None:
        self.requests.append((context, request, reply))
        if self.auto is not None:
            self.auto(reply)

    def wake(self) -> None:
        self.wakes += 1

    def answer(self, index: int, error: int = 0) -> None:
        self.requests[index][2](HeartbeatAnswer(error))

    def correlations(self) -> list[int]:
        return [struct.unpack_from(">i", frame, 4)[0] for frame in self.connection.take()]


def heartbeat(correlation: int, group: str = "g", version: int = 3) -> bytes:
    values = {"group_id": group, "generation_id": 5, "member_id": "m"}
    return encode_request(Api.HEARTBEAT, version, values, correlation, "cli")


def raw(api: int, version: int, body: bytes = b"", correlation: int = 9) -> bytes:
    head = struct.pack(">hhih", api, version, correlation, -1)
    return struct.pack(">i", len(head) + len(body)) + head + body


def test_the_context_says_who_asks() -> None:
    desk = Desk()
    desk.connection.receive(heartbeat(1))
    context, request, _ = desk.requests[0]
    assert (context.listener, context.connection_id, context.client_id) == ("INSIDE", 77, "cli")
    assert (context.client_host, context.api_key, context.api_version) == ("/10.0.0.1", 12, 3)
    assert context.principal == "User:ANONYMOUS"
    assert context.deadline_ms == 5_000 + PROPOSAL_TIMEOUT_MS
    assert (request.group, request.generation) == ("g", 5)


def test_a_null_client_id_is_the_empty_one() -> None:
    desk = Desk()
    desk.connection.receive(encode_request(Api.HEARTBEAT, 4, {"group_id": "g"}, 1, None))
    assert desk.requests[0][0].client_id == ""


@given(st.lists(st.integers(1, 60), max_size=40))
@settings(max_examples=40, deadline=None)
def test_frames_are_found_however_the_bytes_arrive(cuts: list[int]) -> None:
    desk = Desk()
    stream = b"".join(heartbeat(i, "group-" * (i % 4), version=i % 5) for i in range(20))
    pos = 0
    for cut in cuts:
        desk.connection.receive(stream[pos : pos + cut])
        pos += cut
    desk.connection.receive(stream[pos:])
    assert [r.group for _, r, _ in desk.requests] == ["group-" * (i % 4) for i in range(20)]
    assert desk.connection.buffered_bytes == 0


def test_requests_are_handed_on_without_waiting_for_answers() -> None:
    desk = Desk()
    desk.connection.receive(b"".join(map(heartbeat, range(5))))
    assert len(desk.requests) == 5
    assert desk.connection.take() == []


@given(st.permutations(range(6)))
def test_answers_leave_in_the_order_of_the_requests(order: list[int]) -> None:
    desk = Desk()
    desk.connection.receive(b"".join(map(heartbeat, range(6))))
    left: list[int] = []
    for index in order:
        desk.answer(index)
        left += desk.correlations()
        done = set(order[: order.index(index) + 1])
        head = next((i for i in range(6) if i not in done), 6)
        assert left == list(range(head))
    assert left == list(range(6))


def test_a_parked_answer_holds_back_the_later_ones() -> None:
    """A JoinGroup that waits for its group blocks its own connection, as in Kafka."""
    desk = Desk()
    desk.connection.receive(heartbeat(1) + heartbeat(2))
    desk.answer(1)
    assert desk.correlations() == []
    desk.answer(0)
    assert desk.correlations() == [1, 2]


def test_who_waits_at_leisure_is_told_of_another_request_behind() -> None:
    """docs/adr/0007: told once a request of another API comes, not for one of its own kind."""
    desk = Desk()
    told: list[int] = []
    desk.connection.receive(heartbeat(1))
    desk.requests[0][2].on_followed(lambda: told.append(1))
    desk.connection.receive(heartbeat(2))
    assert told == []
    leave = encode_request(Api.LEAVE_GROUP, 1, {"group_id": "g", "member_id": "m"}, 3, "cli")
    desk.connection.receive(leave)
    assert told == [1]
    desk.answer(0)
    desk.connection.receive(leave)
    assert told == [1], "an answered request waits for nothing"
    assert desk.connection.patient == 0


def test_reading_stops_at_the_limit_of_unanswered_requests_and_goes_on_below_it() -> None:
    desk = Desk()
    most = limits.PIPELINED_REQUESTS_MAX
    desk.connection.receive(b"".join(map(heartbeat, range(most + 10))))
    assert len(desk.requests) == most
    assert not desk.connection.wants_bytes
    for i in range(3):
        desk.answer(i)
    assert not desk.connection.wants_bytes, "whole frames are held back"
    desk.connection.resume()
    assert len(desk.requests) == most + 3
    for i in range(3, most + 3):
        desk.answer(i)
    desk.connection.resume()
    assert len(desk.requests) == most + 10
    assert desk.connection.wants_bytes
    assert desk.correlations() == list(range(most + 3))


def test_what_is_answered_at_once_takes_one_turns_share_and_wakes_for_the_rest() -> None:
    """A reader of Metadata fills 64 KiB with three thousand requests: half a second in one turn."""
    desk = Desk()
    desk.auto = lambda reply: reply(HeartbeatAnswer(0))
    most = limits.CONNECTION_TURN_REQUESTS_MAX
    desk.connection.receive(b"".join(map(heartbeat, range(2 * most + 5))))
    assert len(desk.requests) == most
    assert desk.wakes >= 1
    assert not desk.connection.wants_bytes, "nothing more is read while whole frames wait"
    desk.connection.resume()
    assert len(desk.requests) == 2 * most
    desk.connection.resume()
    assert len(desk.requests) == 2 * most + 5
    assert desk.connection.wants_bytes
    assert desk.correlations() == list(range(2 * most + 5))


def test_one_below_the_limit_of_unanswered_requests_still_reads() -> None:
    desk = Desk()
    desk.connection.receive(b"".join(map(heartbeat, range(limits.PIPELINED_REQUESTS_MAX - 1))))
    assert desk.connection.wants_bytes


def test_reading_stops_while_answers_are_not_taken() -> None:
    desk = Desk()
    desk.connection.receive(heartbeat(1))
    desk.connection.note_unsent(CONNECTION_UNSENT_BYTES_MAX)
    assert desk.connection.wants_bytes
    desk.connection.note_unsent(CONNECTION_UNSENT_BYTES_MAX + 1)
    assert not desk.connection.wants_bytes
    desk.connection.receive(heartbeat(2))
    assert len(desk.requests) == 1
    desk.connection.note_unsent(0)
    desk.connection.resume()
    assert len(desk.requests) == 2


def test_a_request_without_answer_keeps_its_place_and_leaves_no_frame() -> None:
    desk = Desk()
    desk.connection.receive(b"".join(map(heartbeat, range(3))))
    desk.answer(0)
    desk.answer(2)
    assert desk.correlations() == [0]
    desk.requests[1][2](NO_ANSWER)
    assert desk.correlations() == [2]


def test_a_handler_can_only_say_no_by_closing() -> None:
    desk = Desk()
    desk.connection.receive(b"".join(map(heartbeat, range(3))))
    desk.requests[1][2](CLOSE)
    desk.answer(2)
    assert desk.connection.state is State.READY
    desk.answer(0)
    assert desk.connection.state is State.FAILED
    assert desk.correlations() == [0]


def test_nothing_is_answered_once_the_connection_has_failed() -> None:
    desk = Desk()
    before = desk.connection.meter.in_flight
    desk.connection.receive(b"".join(map(heartbeat, range(3))))
    desk.requests[0][2](CLOSE)
    desk.answer(1)
    desk.answer(2)
    assert desk.correlations() == [], "a client would take it for the answer to the first"
    desk.connection.close()
    assert desk.connection.meter.in_flight == before


def test_an_answer_is_given_once() -> None:
    desk = Desk()
    desk.connection.receive(heartbeat(1))
    desk.answer(0)
    with pytest.raises(AssertionError):
        desk.answer(0)


def test_what_waits_is_told_when_the_connection_ends() -> None:
    desk = Desk()
    desk.connection.receive(heartbeat(1) + heartbeat(2))
    told: list[int] = []
    desk.requests[0][2].on_close(lambda: told.append(0))
    desk.requests[1][2].on_close(lambda: told.append(1))
    desk.answer(1)
    desk.connection.close()
    assert told == [0]
    desk.answer(0)
    assert desk.connection.take() == []


@pytest.mark.parametrize(
    ("api", "version"),
    [
        (17, 2),
        (36, 3),
        (24, 6),
        (68, 0),
        (33, 3),
        (66, 3),
        (-1, 0),
        (999, 0),
        (0, 2),
        (0, 0),
        (0, 14),
        (1, 3),
        (12, 5),
        (3, -1),
    ],
)
def test_a_version_that_is_not_served_closes_the_connection(api: int, version: int) -> None:
    desk = Desk()
    desk.connection.receive(raw(api, version, bytes(50)))
    assert desk.connection.state is State.FAILED
    assert desk.requests == []
    assert "not served" in desk.connection.failure


@pytest.mark.parametrize("version", [5, 77, 32_767, -1])
def test_apiversions_in_an_unknown_version_is_answered_in_version_0(version: int) -> None:
    """KIP-511: 35, and the ranges, so that who asks again need not guess a release from silence."""
    desk = Desk()
    desk.connection.receive(raw(Api.API_VERSIONS, version, b"whatever that may be", correlation=41))
    correlation, answer = decode_answer(Api.API_VERSIONS, 0, bytes(desk.connection.take()[0]))
    assert correlation == 41
    assert answer.error_code.value == 35
    told = {k.api_key: (k.min_version, k.max_version) for k in answer.api_keys}
    assert told == {int(api): (v.advertised_min, v.max) for api, v in VERSIONS.items()}
    assert desk.connection.state is State.READY


@pytest.mark.parametrize("authenticated", [True, False])
def test_before_authentication_nothing_but_apiversions_is_parsed(authenticated: bool) -> None:
    desk = Desk(authenticated=authenticated)
    desk.connection.receive(encode_request(Api.API_VERSIONS, 0, {}, 1, "c"))
    assert len(desk.requests) == 1
    desk.requests[0][2]({"error_code": 0, "api_keys": ()})
    desk.connection.receive(heartbeat(2))
    assert len(desk.requests) == (2 if authenticated else 1)
    assert desk.connection.state is (State.READY if authenticated else State.FAILED)


def announced(api: int, size: int) -> bytes:
    return struct.pack(">ihh", size, api, VERSIONS[api].max)


@pytest.mark.parametrize(
    ("api", "limit"),
    [
        (Api.FETCH, limits.FRAME_BYTES_MAX),
        (Api.OFFSET_COMMIT, limits.FRAME_BYTES_MAX),
        (Api.PRODUCE, limits.FRAME_BYTES_MAX_LARGE),
        (Api.JOIN_GROUP, limits.FRAME_BYTES_MAX_LARGE),
        (Api.SYNC_GROUP, limits.FRAME_BYTES_MAX_LARGE),
    ],
)
def test_a_frame_above_its_limit_is_refused_by_its_first_bytes(api: int, limit: int) -> None:
    at, above = Desk(), Desk()
    at.connection.receive(announced(api, limit))
    above.connection.receive(announced(api, limit + 1))
    assert at.connection.state is State.READY
    assert above.connection.state is State.FAILED


def test_a_frame_above_every_limit_is_refused_before_its_api_is_known() -> None:
    desk = Desk()
    desk.connection.receive(struct.pack(">i", limits.FRAME_BYTES_MAX_LARGE + 1))
    assert desk.connection.state is State.FAILED


def test_before_authentication_frames_are_small() -> None:
    desk = Desk(authenticated=False)
    desk.connection.receive(announced(Api.API_VERSIONS, limits.UNAUTHENTICATED_FRAME_BYTES_MAX + 1))
    assert desk.connection.state is State.FAILED


@pytest.mark.parametrize("size", [-1, 0, 7, -(2**31)])
def test_a_frame_too_small_for_a_header_is_refused(size: int) -> None:
    desk = Desk()
    desk.connection.receive(struct.pack(">i", size) + bytes(20))
    assert desk.connection.state is State.FAILED


def test_answers_before_the_bad_bytes_can_still_be_taken() -> None:
    desk = Desk()
    desk.auto = lambda reply: reply(HeartbeatAnswer(0))
    desk.connection.receive(heartbeat(1) + heartbeat(2) + raw(999, 0))
    assert desk.connection.state is State.FAILED
    assert desk.correlations() == [1, 2]


def test_a_failed_connection_reads_no_more() -> None:
    desk = Desk()
    desk.connection.receive(raw(999, 0) + heartbeat(1))
    desk.connection.receive(heartbeat(2))
    assert desk.requests == []
    assert not desk.connection.wants_bytes


def test_a_large_frame_is_joined_once_not_at_every_piece() -> None:
    """Quadratic joining would copy gigabytes here."""
    desk = Desk()
    values = {"group_id": "g", "member_id": "m", "protocols": [{"name": "p", "metadata": bytes(4 * MIB)}]}
    frame = encode_request(Api.JOIN_GROUP, 5, values, 1, "c")
    piece = 4_096
    for pos in range(0, len(frame), piece):
        desk.connection.receive(frame[pos : pos + piece])
    assert len(desk.requests[0][1].protocols[0].metadata) == 4 * MIB


@given(st.binary(max_size=300), st.integers(0, 200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_taken_or_fail_the_connection(noise: bytes, at: int) -> None:
    """Invariant P2 at the outermost edge: receive never raises."""
    desk = Desk()
    desk.connection.receive(noise)
    good = bytearray(b"".join(heartbeat(i, version=i % 5) for i in range(4)))
    good[at % len(good) : at % len(good) + 4] = noise[:4]
    Desk().connection.receive(bytes(good))


@given(
    st.sampled_from([(int(a), v) for a, r in VERSIONS.items() for v in range(r.min, r.max + 1)]),
    st.binary(max_size=200),
)
@settings(max_examples=300, deadline=None)
def test_any_body_of_any_served_version_is_taken_or_fails_the_connection(served: tuple[int, int], body: bytes) -> None:
    Desk().connection.receive(raw(*served, body))


def test_an_error_of_ours_in_a_handler_ends_its_connection_and_is_told() -> None:
    """Answers of the requests before it are still given."""
    desk = Desk()

    def broken(reply: Exchange) -> None:
        if len(desk.requests) == 2:
            raise KeyError("nobody thought of this")
        reply(HeartbeatAnswer(0))

    desk.auto = broken
    desk.connection.receive(heartbeat(1) + heartbeat(2, "h") + heartbeat(3, "i"))
    assert desk.correlations() == [1]
    assert desk.connection.state is State.FAILED
    assert len(desk.requests) == 2, "nothing behind it is handled"
    ((what, details, error),) = desk.notices
    assert (what, details["api"], details["version"]) == ("a request met an error of this replica", 12, 3)
    assert isinstance(error, KeyError)


def test_an_answer_that_cannot_be_written_ends_its_connection_and_is_told() -> None:
    """Also when it comes late, in a turn that is about somebody else."""
    desk = Desk()
    desk.connection.receive(heartbeat(1) + heartbeat(2))
    desk.requests[0][2](HeartbeatAnswer(2**31))
    assert desk.connection.state is State.FAILED
    assert desk.correlations() == []
    assert [what for what, _, _ in desk.notices] == ["an answer could not be written"]
    desk.requests[1][2](HeartbeatAnswer(0))


@pytest.mark.parametrize("refusal", [StorageFailed, OSError, MemoryError])
def test_what_the_disk_or_the_memory_refused_is_no_matter_of_one_connection(refusal: type[Exception]) -> None:
    desk = Desk()

    def broken(_: Exchange) -> None:
        # Made here: an error that is a parameter lives as long as the session, and its traceback with all it names.
        raise refusal("input/output error")

    desk.auto = broken
    with pytest.raises(refusal):
        desk.connection.receive(heartbeat(1))
