"""A client above its quota is answered first and told for how long it is throttled, then its connection is not read."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.events import Event
from muster_coordinator.groups.requests import HeartbeatAnswer
from muster_coordinator.quotas.client_quotas import Kind
from muster_coordinator.wire.connection import Connection
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.exchange import CLOSE, NO_ANSWER, Exchange
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.route import route_of
from muster_coordinator.wire.schema import schema, zero_of
from muster_coordinator.wire.throttling import Throttling
from muster_coordinator.wire.versions import VERSIONS, Api
from muster_coordinator.wire.writer import writer

from tests.wire.kio_entities import decode_answer, encode_request

ANYBODY = (("user", ""),)
MS = 1_000_000


def answered(api: int, version: int, frame: bytes) -> Any:
    return decode_answer(api, version, frame)[1]


class Clock:
    now_ms = 5_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 0


class Desk:
    """One connection whose requests are kept, or handled by `auto`; time stands still but for what a test adds."""

    def __init__(self, **rates: float) -> None:
        self.clock = Clock()
        self.events: list[Event] = []
        self.throttling = Throttling(self.clock, tell=self.events.append)
        self.now_ns = 0
        self.meter = RequestMeter(lambda: self.now_ns)
        self.requests: list[tuple[RequestContext, Any, Exchange]] = []
        self.auto: Callable[[Exchange], None] | None = None
        self.wakes = 0
        self.asked_at_once = 0
        self.connection = self.connect()
        self.set(**rates)

    def connect(self, *, authenticated: bool = True) -> Connection:
        return Connection(
            listener="INSIDE", connection_id=7, client_host="/10.0.0.1", clock=self.clock, handle=self.take,
            wake=self.wake, meter=self.meter, throttling=self.throttling, heartbeat_at_once=self.at_once,
            principal="User:anna", authenticated=authenticated,
        )  # fmt: skip

    def set(self, **rates: float) -> None:
        self.throttling.set({ANYBODY: tuple(rates.items())} if rates else {})

    def at_once(self, _request: Any, times: int) -> Code:
        self.asked_at_once += times
        return Code.NONE

    def take(self, context: RequestContext, request: Any, reply: Exchange) -> None:
        self.requests.append((context, request, reply))
        if self.auto is not None:
            self.auto(reply)

    def wake(self) -> None:
        self.wakes += 1

    def written(self) -> bytes:
        return b"".join(self.connection.take())

    def told(self) -> list[Any]:
        return [(dict(event.fields)["quota"], dict(event.fields)["throttle_ms"]) for event in self.events]


def heartbeat(correlation: int = 1, version: int = 3) -> bytes:
    return encode_request(Api.HEARTBEAT, version, {"group_id": "g"}, correlation, "c")


def produce(size: int, acks: int = -1) -> bytes:
    part = {"index": 0, "records": b"r" * size}
    values = {"acks": acks, "timeout_ms": 1_000, "topic_data": [{"name": "t", "partition_data": [part]}]}
    return encode_request(Api.PRODUCE, 9, values, 4, "c")


PRODUCED = {"responses": []}
FETCH = encode_request(Api.FETCH, 12, {"max_wait_ms": 0, "min_bytes": 1, "topics": []}, 5, "c")


def fetched(size: int) -> dict[str, Any]:
    part = {
        "partition_index": 0, "error_code": 0, "high_watermark": 9, "last_stable_offset": 9, "log_start_offset": 0,
        "aborted_transactions": None, "preferred_read_replica": -1, "records": b"r" * size,
    }  # fmt: skip
    return {"error_code": 0, "responses": [{"topic": "t", "partitions": [part]}], "node_endpoints": None}


@pytest.mark.parametrize(("api", "version"), [(a, v) for a, r in VERSIONS.items() for v in range(r.min, r.max + 1)])
def test_every_answer_that_can_tell_a_throttle_time_tells_it_and_is_the_same_but_for_that(
    api: int, version: int
) -> None:
    route = route_of(api, version)
    assert route is not None
    answer = {field.name: zero_of(field) for field in schema(api, version, "response").fields}
    plain = route.start_answer(7)
    writer(api, version)(plain, answer)
    before = bytes(plain)
    told = route.throttled(plain, 7, answer, 123_456_789)
    tells = "throttle_time_ms" in [field.name for field in schema(api, version, "response").fields]
    if not tells:
        assert bytes(told) == before
        return
    assert len(told) == len(before)
    struct.pack_into(">i", told, 0, len(told) - 4)
    decoded = answered(api, version, bytes(told))
    assert round(decoded.throttle_time.total_seconds() * 1_000) == 123_456_789
    at = bytes(told).index(struct.pack(">i", 123_456_789))
    assert bytes(told)[4:at] == before[4:at]
    assert bytes(told)[at + 4 :] == before[at + 4 :]
    assert before[at : at + 4] == bytes(4)


def test_a_producer_above_its_rate_is_answered_and_then_not_read() -> None:
    desk = Desk(producer_byte_rate=1_000)
    desk.auto = lambda reply: reply(PRODUCED)
    frame = produce(20_000)
    desk.connection.receive(frame + heartbeat())
    answer = answered(Api.PRODUCE, 9, desk.written())
    wanted_ms = len(frame) - 4 - 10_000
    assert answer.throttle_time.total_seconds() * 1_000 == pytest.approx(wanted_ms, abs=1)
    assert len(desk.requests) == 1, "the heartbeat behind it stays"
    connection = desk.connection
    assert connection.muted_until_ms == 5_000 + wanted_ms
    assert not connection.wants_bytes
    assert not connection.holds_frames
    desk.auto = None
    connection.unmute()
    assert connection.holds_frames
    connection.resume()
    assert len(desk.requests) == 2
    assert desk.told() == [("producer_byte_rate", wanted_ms)]
    assert desk.throttling.stats.requests[Kind.PRODUCE] == 1
    assert desk.throttling.stats.ms[Kind.PRODUCE] == wanted_ms
    fields = dict(desk.events[0].fields)
    assert (fields["principal"], fields["client"], fields["peer"]) == ("User:anna", "c", "10.0.0.1")


def test_pipelined_requests_are_all_counted_and_the_longest_time_holds() -> None:
    desk = Desk(producer_byte_rate=1_000)
    desk.connection.receive(produce(20_000) * 3)
    assert len(desk.requests) == 3
    for _, _, reply in desk.requests:
        reply(PRODUCED)
    times = [ms for _, ms in desk.told()]
    assert times == sorted(times)
    assert times[-1] > 49_000
    assert desk.connection.muted_until_ms == 5_000 + times[-1]


def test_a_fetch_above_its_rate_is_answered_without_data_and_is_not_counted() -> None:
    desk = Desk(consumer_byte_rate=1_000)
    desk.auto = lambda reply: reply(fetched(9_000))
    desk.connection.receive(FETCH)
    whole = answered(Api.FETCH, 12, desk.written())
    assert len(whole.responses[0].partitions[0].records) == 9_000
    assert whole.throttle_time.total_seconds() == 0
    desk.connection.receive(FETCH)
    empty = answered(Api.FETCH, 12, desk.written())
    assert empty.responses == ()
    assert empty.error_code.value == 0
    assert empty.session_id == 0
    first_ms = empty.throttle_time.total_seconds() * 1_000
    assert 8_000 < first_ms < 9_000
    desk.connection.unmute()
    desk.connection.receive(FETCH)
    again = answered(Api.FETCH, 12, desk.written())
    assert again.throttle_time.total_seconds() * 1_000 == first_ms, "what was not given was not counted"
    desk.connection.unmute()
    desk.clock.now_ms += 11_000
    desk.connection.receive(FETCH)
    assert len(answered(Api.FETCH, 12, desk.written()).responses) == 1


def test_a_fetch_may_ask_for_no_more_than_its_windows_hold() -> None:
    desk = Desk(consumer_byte_rate=1_000)
    desk.connection.receive(FETCH)
    context = desk.requests[0][0]
    assert desk.throttling.fetch_bytes_max(context) == 10_000
    desk.set(producer_byte_rate=1_000)
    assert desk.throttling.fetch_bytes_max(context) is None


def test_a_request_is_held_to_the_time_that_the_loop_works_for_it() -> None:
    """10 % of the loop over ten seconds is one second of work; what it waits for is not counted."""
    desk = Desk(request_percentage=10)

    def work(_reply: Exchange) -> None:
        desk.now_ns += 700 * MS

    desk.auto = work
    desk.connection.receive(heartbeat(1))
    desk.now_ns += 3_600_000 * MS
    desk.requests[0][2](HeartbeatAnswer(0))
    assert answered(Api.HEARTBEAT, 3, desk.written()).throttle_time.total_seconds() == 0
    desk.auto = lambda reply: (work(reply), reply(HeartbeatAnswer(0)))[1]  # type: ignore[func-returns-value]
    desk.connection.receive(heartbeat(2))
    assert answered(Api.HEARTBEAT, 3, desk.written()).throttle_time.total_seconds() == 1, "one window at most"
    assert desk.told() == [("request_percentage", 1_000)]


def test_repeated_heartbeats_are_timed_where_time_has_a_quota_and_short_where_it_has_none() -> None:
    desk = Desk(producer_byte_rate=1_000)
    desk.auto = lambda reply: reply(HeartbeatAnswer(0))
    desk.connection.receive(heartbeat(1))
    desk.written()
    desk.connection.note_unsent(0)
    assert desk.connection.answer_at_once(heartbeat(2)) is not None
    assert desk.asked_at_once == 1
    desk.set(request_percentage=10)
    assert desk.connection.answer_at_once(heartbeat(3)) is None
    desk.connection.receive(heartbeat(3) + heartbeat(4))
    assert (desk.asked_at_once, len(desk.requests)) == (1, 3)


def test_a_muted_connection_answers_no_heartbeat_at_once() -> None:
    desk = Desk(producer_byte_rate=1_000)
    desk.auto = lambda reply: reply(HeartbeatAnswer(0))
    desk.connection.receive(heartbeat(1))
    desk.written()
    desk.connection.note_unsent(0)
    desk.connection.mute(10)
    assert desk.connection.answer_at_once(heartbeat(2)) is None
    desk.connection.receive(heartbeat(2))
    assert (desk.asked_at_once, len(desk.requests)) == (0, 1)


def test_produce_without_an_answer_is_held_to_its_bytes_alone() -> None:
    desk = Desk(producer_byte_rate=1_000, request_percentage=1e-9)
    desk.auto = lambda reply: reply(NO_ANSWER)
    desk.connection.receive(produce(100, acks=0))
    assert desk.connection.muted_until_ms == 0
    desk.connection.receive(produce(20_000, acks=0))
    assert desk.written() == b""
    assert [quota for quota, _ in desk.told()] == ["producer_byte_rate"]
    assert desk.connection.muted_until_ms > 5_000


def test_who_does_not_wait_for_the_answer_is_charged_as_well() -> None:
    """Else a client that closes after each request would have no quota: its next connection is muted."""
    desk = Desk(producer_byte_rate=1_000)
    desk.connection.receive(produce(6_000) * 2)
    desk.requests[0][2](CLOSE)
    assert desk.connection.state is State.FAILED
    assert desk.events == [], "a request that was not carried out"
    desk.connection.close()
    desk.requests[1][2](PRODUCED)
    desk.connection = desk.connect()
    desk.connection.receive(produce(6_000))
    desk.requests[2][2](PRODUCED)
    ((quota, throttle_ms),) = desk.told()
    assert quota == "producer_byte_rate"
    assert 2_000 < throttle_ms < 2_500


def test_before_a_client_has_shown_who_it_is_nothing_is_counted() -> None:
    desk = Desk(request_percentage=1e-9)
    desk.connection = desk.connect(authenticated=False)
    desk.auto = lambda reply: reply({"error_code": 0, "api_keys": []})
    desk.connection.receive(encode_request(Api.API_VERSIONS, 2, {}, 1, "c"))
    assert answered(Api.API_VERSIONS, 2, desk.written()).throttle_time.total_seconds() == 0
    assert desk.events == []


def test_without_quotas_nothing_is_counted_and_a_request_of_before_is_not_throttled() -> None:
    desk = Desk()
    desk.connection.receive(produce(20_000))
    desk.set(producer_byte_rate=1)
    desk.requests[0][2](PRODUCED)
    assert desk.events == []
    assert desk.throttling.quotas.kinds[Kind.PRODUCE].tracked == 0
    assert answered(Api.PRODUCE, 9, desk.written()).throttle_time.total_seconds() == 0


def test_another_client_is_not_throttled() -> None:
    desk = Desk()
    desk.throttling.set({(("user", "bert"),): (("producer_byte_rate", 1.0), ("request_percentage", 1e-9))})
    desk.auto = lambda reply: reply(PRODUCED)
    desk.connection.receive(produce(1_000_000))
    assert desk.connection.muted_until_ms == 0


@pytest.mark.parametrize("api", [Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE])
def test_showing_who_one_is_is_not_counted(api: Api) -> None:
    throttling = Desk(request_percentage=1).throttling
    assert not throttling.counts(api)
    assert throttling.counts(Api.API_VERSIONS)


def test_while_only_bytes_have_quotas_no_other_request_is_looked_at() -> None:
    throttling = Desk(producer_byte_rate=1).throttling
    assert [api for api in VERSIONS if throttling.counts(api)] == [Api.PRODUCE, Api.FETCH]


MUTATIONS = (Api.CREATE_TOPICS, Api.CREATE_PARTITIONS, Api.DELETE_TOPICS)


def test_partitions_are_taken_from_a_bucket_and_a_strict_client_is_refused_while_it_is_below_zero() -> None:
    """Two a second, 22 at once; the answer tells what is left of the time when it goes out."""
    desk = Desk(controller_mutation_rate=2)
    frame = encode_request(Api.DELETE_TOPICS, 5, {"topic_names": (), "timeout_ms": 1}, 3, "c")
    desk.connection.receive(frame * 3)
    (_, _, first), (_, _, second), (_, _, third) = desk.requests
    strict = first.mutations(strict=True)
    assert [strict.take(20), strict.take(20), strict.take(1)] == [True, True, False]
    assert not second.mutations(strict=True).take(1)
    desk.clock.now_ms += 4_000
    first({"responses": ()})
    desk.clock.now_ms += 1_000
    second({"responses": ()})
    assert third.mutations(strict=True).take(5) is False
    desk.clock.now_ms += 4_000
    assert third.mutations(strict=True).take(5) is True
    third({"responses": ()})
    key = "controller_mutation_rate"
    assert desk.told() == [(key, 5_000), (key, 4_000)], "18 too many are nine seconds; who is let through is not muted"
    assert desk.connection.muted_until_ms == 14_000
    assert desk.throttling.stats.requests[Kind.MUTATION] == 2


def test_an_older_client_takes_what_it_wants_and_is_muted_for_it() -> None:
    desk = Desk(controller_mutation_rate=2)
    desk.connection.receive(encode_request(Api.CREATE_PARTITIONS, 2, {"topics": (), "timeout_ms": 1}, 3, "c"))
    ((_, _, reply),) = desk.requests
    permissive = reply.mutations(strict=False)
    assert [permissive.take(20), permissive.take(20), permissive.take(4)] == [True, True, True]
    reply({"results": ()})
    answer = answered(Api.CREATE_PARTITIONS, 2, desk.written())
    assert answer.throttle_time.total_seconds() == 11
    assert desk.connection.muted_until_ms == 16_000


def test_without_such_a_quota_partitions_are_not_counted() -> None:
    throttling = Desk(producer_byte_rate=1).throttling
    assert not any(throttling.counts(api) for api in MUTATIONS)
    desk = Desk(controller_mutation_rate=2)
    assert [api for api in VERSIONS if desk.throttling.counts(api)] == sorted([Api.PRODUCE, Api.FETCH, *MUTATIONS])
    desk.set(producer_byte_rate=1)
    desk.connection.receive(encode_request(Api.DELETE_TOPICS, 5, {"topic_names": (), "timeout_ms": 1}, 3, "c"))
    ((_, _, reply),) = desk.requests
    assert reply.mutations(strict=True).take(10**9)
    reply({"responses": ()})
    assert desk.events == []
