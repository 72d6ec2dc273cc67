"""What the meter holds after real frames went through real connections."""

import struct
from typing import Any

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import (
    FetchedOffset,
    HeartbeatAnswer,
    JoinGroupAnswer,
    OffsetFetchAnswer,
    SyncGroupAnswer,
)
from muster_coordinator.wire import limits
from muster_coordinator.wire.answer_errors import errors_in
from muster_coordinator.wire.connection import Connection
from muster_coordinator.wire.exchange import CLOSE, NO_ANSWER, Exchange
from muster_coordinator.wire.request_meter import BOUNDS, RequestMeter
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.wire.kio_entities import encode_request
from tests.wire.test_connection import StillClock, heartbeat

MS = 1_000_000


class Counter:
    """Two connections of one meter, on a clock that is set."""

    def __init__(self) -> None:
        self.now_ns = 1
        self.meter = RequestMeter(lambda: self.now_ns)
        self.exchanges: list[Exchange] = []
        self.notices: list[str] = []
        self.one, self.other = self.connection(), self.connection()

    def connection(self) -> Connection:
        return Connection(
            listener="L", connection_id=1, client_host="/h", clock=StillClock(), handle=self.take, meter=self.meter,
            wake=lambda: None, notice=lambda what, *_: self.notices.append(what),
        )  # fmt: skip

    def take(self, _context: Any, _request: Any, reply: Exchange) -> None:
        self.exchanges.append(reply)

    def count(self, api: Api) -> int:
        return int(self.meter.seconds[api].buckets()[-1][1])


def bound_of(meter: RequestMeter, api: Api) -> float:
    """The bucket that the only time lies in."""
    return float(next(bound for bound, count in meter.seconds[api].buckets() if count))


def test_the_time_is_from_decoded_to_answered_whoever_stands_before_it() -> None:
    it = Counter()
    it.one.receive(heartbeat(1) + encode_request(Api.METADATA, 4, {"topics": None}, 2, "c"))
    it.now_ns += 7 * MS
    it.exchanges[1]({"brokers": [], "cluster_id": None, "controller_id": 1, "topics": []})
    assert it.meter.in_flight == 2, "its turn has not come"
    it.now_ns += 2_000 * MS
    it.exchanges[0](HeartbeatAnswer(0))
    assert it.meter.in_flight == 0
    assert bound_of(it.meter, Api.METADATA) == 0.01
    assert bound_of(it.meter, Api.HEARTBEAT) == 2.5
    assert it.meter.seconds[Api.HEARTBEAT].total == pytest.approx(2.007)
    assert it.meter.request_bytes[Api.HEARTBEAT] == len(heartbeat(1)) - 4
    assert not it.meter.errors


def test_what_waits_for_its_turn_is_in_the_queue_until_it_is_decoded() -> None:
    it = Counter()
    it.one.receive(heartbeat(1))
    assert it.meter.queue_seconds.buckets()[-1][1] == 0, "it did not wait"
    it.one.hold(heartbeat(2) + heartbeat(3))
    it.now_ns += 30 * MS
    it.one.hold(heartbeat(4))
    it.now_ns += 30 * MS
    it.one.resume()
    assert it.meter.queue_seconds.buckets()[-1][1] == 3
    assert it.meter.queue_seconds.total == pytest.approx(3 * 0.06)
    it.one.receive(heartbeat(5))
    assert it.meter.queue_seconds.buckets()[-1][1] == 3


def test_what_a_turn_has_no_time_for_waits_from_there() -> None:
    it = Counter()
    many = limits.PIPELINED_REQUESTS_MAX + 5
    it.one.receive(b"".join(heartbeat(n) for n in range(many)))
    assert len(it.exchanges) == limits.PIPELINED_REQUESTS_MAX == it.meter.in_flight
    it.now_ns += 4 * MS
    for exchange in it.exchanges[:]:
        exchange(HeartbeatAnswer(0))
    it.one.take()
    it.one.note_unsent(0)
    it.one.resume()
    assert it.meter.queue_seconds.buckets()[-1][1] == 5
    assert it.meter.queue_seconds.total == pytest.approx(5 * 0.004)


def test_a_connection_that_ends_takes_its_requests_along() -> None:
    it = Counter()
    it.one.receive(heartbeat(1) + heartbeat(2))
    it.other.receive(heartbeat(1))
    it.one.close()
    assert it.meter.in_flight == 1
    for exchange in it.exchanges:
        exchange(HeartbeatAnswer(0))
    assert it.meter.in_flight == 0
    assert it.count(Api.HEARTBEAT) == 1, "nobody was answered on the other"


@pytest.mark.parametrize("answer", [NO_ANSWER, CLOSE])
def test_an_answer_without_bytes_is_one_too(answer: Any) -> None:
    it = Counter()
    it.one.receive(heartbeat(1))
    it.exchanges[0](answer)
    it.one.close()
    assert (it.count(Api.HEARTBEAT), it.meter.in_flight) == (1, 0)


def test_errors_are_counted_by_api_and_code() -> None:
    it = Counter()
    for error in (0, 27, 27, 25):
        it.one.receive(heartbeat(1))
        it.exchanges[-1](HeartbeatAnswer(error))
    assert it.meter.errors == {(12, 27): 2, (12, 25): 1}


def test_an_unknown_version_of_api_versions_is_an_error_and_is_timed() -> None:
    it = Counter()
    it.one.receive(struct.pack(">ihhih", 10, 18, 99, 1, -1))
    assert it.meter.errors == {(Api.API_VERSIONS, Code.UNSUPPORTED_VERSION): 1}
    assert (it.count(Api.API_VERSIONS), it.meter.in_flight) == (1, 0)


def test_an_answer_whose_errors_cannot_be_told_goes_out_and_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Counter()
    it.one.receive(heartbeat(1))

    def broken(_answer: Any) -> Any:
        raise KeyError("shape")

    monkeypatch.setattr(it.exchanges[0].route, "errors", broken)
    it.exchanges[0](HeartbeatAnswer(0))
    assert len(it.one.take()) == 1
    assert it.notices == ["an answer's errors could not be counted"]


OFFSET = FetchedOffset(0, 1, -1, "", 0)


@pytest.mark.parametrize(
    ("api", "answer", "codes"),
    [
        (Api.JOIN_GROUP, JoinGroupAnswer(error=79, member="m"), {79}),
        (Api.SYNC_GROUP, SyncGroupAnswer(error=0), {0}),
        (Api.OFFSET_COMMIT, (("t", ((0, 0),)),), {0}),
        (Api.OFFSET_COMMIT, (("t", ((0, 0), (1, 22))), ("u", ((0, 15),))), {0, 22, 15}),
        (Api.OFFSET_COMMIT, (), set()),
        (Api.OFFSET_FETCH, (OffsetFetchAnswer(16, ()),), {16}),
        (Api.OFFSET_FETCH, (OffsetFetchAnswer(0, (("t", (OFFSET, OFFSET._replace(error=88))),)),), {0, 88}),
        (Api.METADATA, {"topics": [{"error_code": 3, "partitions": [{"error_code": 5}]}]}, {3, 5}),
        (Api.PRODUCE, {"responses": [{"name": "t", "partition_responses": [{"error_code": 6}, {}]}]}, {6}),
        (Api.API_VERSIONS, {"error_code": 0, "api_keys": ()}, {0}),
    ],
)
def test_codes_are_found_where_they_stand(api: Api, answer: Any, codes: set[int]) -> None:
    assert set(errors_in(api)(answer)) == codes


@pytest.mark.parametrize(
    ("api", "answer"),
    [
        (Api.METADATA, {"topics": [{"error_code": 3, "partitions": ()}] * 100_000}),
        (Api.OFFSET_FETCH, (OffsetFetchAnswer(0, (("t", (OFFSET,) * 100_000),)),)),
    ],
)
def test_of_a_very_long_answer_a_part_is_looked_at(api: Api, answer: Any) -> None:
    looked_at = 0

    class Counted(dict[str, Any]):
        def items(self) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().items()

    if isinstance(answer, dict):
        answer = {"topics": [Counted(one) for one in answer["topics"]]}
    assert set(errors_in(api)(answer)) <= {0, 3}
    assert looked_at <= limits.ANSWER_PARTS_LOOKED_AT


def test_times_are_bounded_series() -> None:
    meter = RequestMeter(lambda: 0)
    assert max(BOUNDS) == 300.0, "a JoinGroup may wait for as long as its rebalance timeout"
    assert set(meter.seconds) == set(VERSIONS), "clients cannot make more of them"
    assert len(BOUNDS) + 3 <= 20, "of each API"
