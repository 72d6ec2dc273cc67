"""Fetch (protocol notes 13): validation, sizes, long poll. Sessions: `test_fetch_sessions`."""

import struct
from typing import Any
from uuid import UUID

import pytest
from muster_coordinator.api import limits
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.replica.partitions.surface import EpochEnd
from muster_coordinator.storage.aborted import Aborted
from muster_coordinator.wire.throttling import Throttling
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, topic
from tests.api.kafka_client import KafkaClient, code
from tests.made_settings import api_settings

ORDERS_ID = UUID(bytes=b"orders----------")
ALL = range(4, 19)


def part(index: int = 0, offset: int = 0, max_bytes: int = 1 << 20, **more: Any) -> dict[str, Any]:
    return {"partition": index, "fetch_offset": offset, "partition_max_bytes": max_bytes, **more}


def request(
    *parts: dict[str, Any],
    name: str = "orders",
    wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    **more: Any,
) -> dict[str, Any]:
    topics = [{"topic": name, "topic_id": UUID(bytes=name.encode().ljust(16, b"-")[:16]), "partitions": list(parts)}]
    return {
        "replica_id": -1, "max_wait_ms": wait_ms, "min_bytes": min_bytes, "max_bytes": max_bytes,
        "topics": topics if parts else [], **more,
    }  # fmt: skip


def wide_surface() -> FakeSurface:
    """Topic `wide`: four partitions, all led here, two batches of ten records in each."""
    surface = FakeSurface()
    surface.add_topic(topic("wide", 4, first_group=200, voters=(0,)))
    for index in range(4):
        log = surface.log_of("wide", index)
        log.append(bytes([65 + index]) * 100)
        log.append(bytes([97 + index]) * 100)
    return surface


def entries(answer: Any) -> list[tuple[int, int, bytes]]:
    return [(p.partition_index, code(p.error_code), p.records) for t in answer.responses for p in t.partitions]


@pytest.mark.parametrize("version", ALL)
def test_data_is_answered_at_once_in_every_version(version: int) -> None:
    client = KafkaClient(wide_surface())
    answer = client.ask(Api.FETCH, version, **request(part(0), part(1, 10), name="wide"))
    assert entries(answer) == [(0, 0, b"A" * 100 + b"a" * 100), (1, 0, b"b" * 100)]
    first = answer.responses[0].partitions[0]
    assert (first.high_watermark, first.last_stable_offset) == (20, 20)
    if version >= 5:
        assert first.log_start_offset == 0
    if version >= 7:
        assert answer.session_id == 0, "epoch -1 asks for none"


@pytest.mark.parametrize(("isolation", "expected"), [(0, None), (1, ())])
def test_aborted_transactions_are_null_or_a_list_by_isolation(isolation: int, expected: Any) -> None:
    client = KafkaClient(wide_surface())
    answer = client.ask(Api.FETCH, 11, **request(part(0), name="wide", isolation_level=isolation))
    assert answer.responses[0].partitions[0].aborted_transactions == expected


@pytest.mark.parametrize("version", ALL)
def test_a_reader_of_committed_data_gets_what_was_aborted_up_to_the_last_stable_offset(version: int) -> None:
    surface = wide_surface()
    log = surface.log_of("wide", 0)
    log.stable = 10
    log.aborted = [Aborted(2**63 - 1, 0, 9, 10), Aborted(0, 3, 8, 10)]
    answer = KafkaClient(surface).ask(Api.FETCH, version, **request(part(0), name="wide", isolation_level=1))
    (got,) = answer.responses[0].partitions
    assert (got.records, got.last_stable_offset, got.high_watermark) == (b"A" * 100, 10, 20)
    assert [(one.producer_id, one.first_offset) for one in got.aborted_transactions] == [(2**63 - 1, 0), (0, 3)]
    plain = KafkaClient(surface).ask(Api.FETCH, version, **request(part(0), name="wide"))
    (got,) = plain.responses[0].partitions
    assert (got.records, got.aborted_transactions) == (b"A" * 100 + b"a" * 100, None)


def test_at_the_last_stable_offset_a_reader_of_committed_data_is_parked_until_it_moves() -> None:
    surface = wide_surface()
    log = surface.log_of("wide", 0)
    log.stable = 10
    client = KafkaClient(surface)
    client.send(Api.FETCH, 11, **request(part(0, 10), name="wide", isolation_level=1))
    assert client.receive() == []
    log.append(b"z" * 10)
    surface.fake_loop.run(100)
    assert client.receive() == [], "the log grew, but nothing became stable"
    log.stable = 20
    log.moved()
    surface.fake_loop.run(100)
    (answer,) = client.receive()
    assert entries(answer) == [(0, 0, b"a" * 100)]


def test_an_unknown_isolation_level_is_42_at_the_top() -> None:
    answer = KafkaClient(wide_surface()).ask(Api.FETCH, 11, **request(part(0), name="wide", isolation_level=2))
    assert (code(answer.error_code), answer.responses) == (42, ())


# -- sessions


def test_a_closing_request_without_topics_is_answered_at_once() -> None:
    answer = KafkaClient(wide_surface()).ask(Api.FETCH, 12, **request(session_id=5, session_epoch=-1))
    assert answer.responses == ()


# -- errors


@pytest.mark.parametrize(
    ("name", "index", "expected"), [("nope", 0, 3), ("orders", 9, 3), ("orders", -1, 3), ("orders", 1, 6)]
)
def test_errors_are_answered_at_once_with_minus_ones_and_empty_records(name: str, index: int, expected: int) -> None:
    answer = KafkaClient(FakeSurface()).ask(Api.FETCH, 11, **request(part(index), part(index), name=name))
    (entry,) = answer.responses[0].partitions
    assert code(entry.error_code) == expected
    assert (entry.high_watermark, entry.last_stable_offset, entry.log_start_offset) == (-1, -1, -1)
    assert entry.records == b""


@pytest.mark.parametrize("offset", [-1, 21, 4])
def test_an_offset_out_of_range_is_1_at_once(offset: int) -> None:
    surface = wide_surface()
    surface.log_of("wide", 0).start = 5
    answer = KafkaClient(surface).ask(Api.FETCH, 11, **request(part(0, offset), name="wide", wait_ms=5_000))
    assert entries(answer) == [(0, 1, b"")]


def test_unknown_ids_are_100() -> None:
    topics = [{"topic_id": UUID(int=0), "partitions": [part(0)]}, {"topic_id": UUID(int=7), "partitions": [part(0)]}]
    answer = KafkaClient(FakeSurface()).ask(Api.FETCH, 13, max_wait_ms=500, min_bytes=1, topics=topics)
    assert [c for _, c, _ in entries(answer)] == [100, 100]


@pytest.mark.parametrize(("epoch", "expected"), [(2, 74), (4, 75), (3, 0), (-1, 0)])
def test_the_leader_epoch_is_checked(epoch: int, expected: int) -> None:
    client = KafkaClient(wide_surface())
    answer = client.ask(Api.FETCH, 11, **request(part(0, current_leader_epoch=epoch), name="wide"))
    assert entries(answer)[0][1] == expected


def test_a_negative_partition_size_is_42() -> None:
    answer = KafkaClient(wide_surface()).ask(Api.FETCH, 11, **request(part(0, 0, -1), name="wide"))
    assert entries(answer) == [(0, 42, b"")]


@pytest.mark.parametrize(("version", "tagged"), [(15, False), (16, True), (18, True)])
def test_kip_951_points_to_the_leader(version: int, tagged: bool) -> None:
    surface = FakeSurface()
    answer = KafkaClient(surface).ask(Api.FETCH, version, **request(part(1)))
    entry = answer.responses[0].partitions[0]
    assert code(entry.error_code) == 6
    assert entry.current_leader.leader_id == (1 if tagged else -1)
    if version >= 16:
        assert [(n.node_id, n.host) for n in answer.node_endpoints] == [(1, "plaintext-1")]


def test_a_diverging_epoch_is_told_without_records() -> None:
    surface = wide_surface()
    surface.log_of("wide", 0).epochs = {2: EpochEnd(Code.NONE, 1, 7)}
    client = KafkaClient(surface)
    answer = client.ask(Api.FETCH, 12, **request(part(0, 10, last_fetched_epoch=2), name="wide", wait_ms=9_000))
    entry = answer.responses[0].partitions[0]
    assert (entry.diverging_epoch.epoch, entry.diverging_epoch.end_offset, entry.records) == (1, 7, b"")
    above = client.ask(Api.FETCH, 12, **request(part(0, 10, last_fetched_epoch=99), name="wide"))
    assert entries(above) == [(0, 1, b"")]


def test_the_offsets_topic_can_be_read_like_any_other() -> None:
    surface = FakeSurface()
    surface.log_of(OFFSETS_TOPIC, 0).append(b"commits")
    answer = KafkaClient(surface).ask(Api.FETCH, 11, **request(part(0), name=OFFSETS_TOPIC))
    assert entries(answer) == [(0, 0, b"commits")]


# -- sizes


def test_the_first_partition_with_data_gives_one_batch_whatever_the_limits() -> None:
    """KIP-74's progress rule."""
    client = KafkaClient(wide_surface())
    answer = client.ask(Api.FETCH, 11, **request(part(0, 0, 0), part(1, 0, 0), name="wide", max_bytes=0))
    assert entries(answer) == [(0, 0, b"A" * 100), (1, 0, b"")]


def test_an_empty_partition_before_it_does_not_use_up_the_progress() -> None:
    client = KafkaClient(wide_surface())
    answer = client.ask(Api.FETCH, 11, **request(part(0, 20, 5), part(1, 0, 5), part(2, 0, 5), name="wide"))
    assert entries(answer) == [(0, 0, b""), (1, 0, b"B" * 100), (2, 0, b"")]


def test_partitions_share_the_requests_limit_in_order() -> None:
    client = KafkaClient(wide_surface())
    answer = client.ask(Api.FETCH, 11, **request(*(part(i) for i in range(4)), name="wide", max_bytes=350))
    assert [len(r) for _, _, r in entries(answer)] == [200, 100, 0, 0]


def test_the_same_partition_twice_the_last_wins() -> None:
    answer = KafkaClient(wide_surface()).ask(Api.FETCH, 11, **request(part(0, 0), part(0, 10), name="wide"))
    assert entries(answer) == [(0, 0, b"a" * 100)]


# -- isolation


def test_read_committed_ends_below_the_first_open_transaction_and_waits_there() -> None:
    surface = FakeSurface()
    surface.add_topic(topic("wide", 1, first_group=200, voters=(0,)))
    log = surface.log_of("wide", 0)
    batches = [struct.pack(">qi", base, 8) + bytes(8) for base in (0, 10, 20)]
    for one in batches:
        log.append(one)
    log.stable = 10
    client = KafkaClient(surface)
    committed = client.ask(Api.FETCH, 11, **request(part(0), name="wide", isolation_level=1))
    assert entries(committed) == [(0, 0, batches[0])]
    assert committed.responses[0].partitions[0].last_stable_offset == 10
    everything = client.ask(Api.FETCH, 11, **request(part(0), name="wide", isolation_level=0))
    assert entries(everything) == [(0, 0, b"".join(batches))]
    client.send(Api.FETCH, 11, **request(part(0, 10), name="wide", isolation_level=1))
    assert client.receive() == []
    log.stable = None
    log.moved()
    surface.fake_loop.run(0)
    assert entries(client.receive()[0]) == [(0, 0, batches[1] + batches[2])]


# -- waiting


def parked(surface: FakeSurface, **more: Any) -> KafkaClient:
    client = KafkaClient(surface)
    client.send(Api.FETCH, 11, **request(part(0, 20), part(1, 20), name="wide", **more))
    assert client.receive() == []
    return client


def test_an_idle_fetch_waits_its_time_and_costs_two_reads() -> None:
    surface = wide_surface()
    client = parked(surface)
    surface.fake_loop.run(499)
    assert client.receive() == []
    surface.fake_loop.run(1)
    (answer,) = client.receive()
    assert entries(answer) == [(0, 0, b""), (1, 0, b"")]
    assert surface.log_of("wide", 0).reads == 2


def test_an_idle_consumer_costs_at_most_two_fetches_a_second() -> None:
    surface = wide_surface()
    client = KafkaClient(surface)
    start, answers = surface.fake_loop.now_ms, 0
    while surface.fake_loop.now_ms < start + 10_000:
        client.send(Api.FETCH, 11, **request(part(0, 20), name="wide"))
        while not client.receive():
            surface.fake_loop.run(1)
        answers += 1
    assert answers <= 20


def test_new_data_ends_the_wait_in_the_same_turn() -> None:
    surface = wide_surface()
    client = parked(surface)
    surface.log_of("wide", 1).append(b"fresh")
    surface.fake_loop.run(0)
    (answer,) = client.receive()
    assert entries(answer) == [(0, 0, b""), (1, 0, b"fresh")]


def test_a_wait_ends_once_however_many_logs_move() -> None:
    surface = wide_surface()
    client = parked(surface)
    reads = surface.log_of("wide", 0).reads
    for index in (0, 1, 0):
        surface.log_of("wide", index).append(b"fresh")
    surface.fake_loop.run(1_000)
    assert len(client.receive()) == 1
    assert surface.log_of("wide", 0).reads == reads + 1


def test_min_bytes_is_waited_for_and_counted_rarely() -> None:
    surface = wide_surface()
    client = parked(surface, min_bytes=50)
    reads = surface.log_of("wide", 0).reads
    for _ in range(10):
        surface.log_of("wide", 0).append(b"abcd")
        surface.fake_loop.run(1)
    surface.fake_loop.run(limits.FETCH_RECHECK_MS)
    assert client.receive() == []
    assert surface.log_of("wide", 0).reads <= reads + 2
    surface.log_of("wide", 1).append(b"x" * 10)
    surface.fake_loop.run(limits.FETCH_RECHECK_MS)
    (answer,) = client.receive()
    assert sum(len(r) for _, _, r in entries(answer)) == 50


def test_min_bytes_is_capped_by_max_bytes() -> None:
    surface = wide_surface()
    asked = request(part(0), name="wide", min_bytes=10_000, max_bytes=150, wait_ms=60_000)
    client = KafkaClient(surface)
    client.send(Api.FETCH, 11, **asked)
    assert client.receive() == []
    surface.log_of("wide", 0).append(b"z" * 50)
    surface.fake_loop.run(60_000)
    assert len(client.receive()) == 1


@pytest.mark.parametrize("more", [{"wait_ms": 0}, {"wait_ms": -1}, {"min_bytes": 0}])
def test_who_does_not_want_to_wait_does_not(more: dict[str, int]) -> None:
    answer = KafkaClient(wide_surface()).ask(Api.FETCH, 11, **request(part(0, 20), name="wide", **more))
    assert entries(answer) == [(0, 0, b"")]


def test_a_lost_leadership_ends_the_wait_with_6() -> None:
    surface = wide_surface()
    client = parked(surface)
    log = surface.log_of("wide", 1)
    log.code = Code.NOT_LEADER_OR_FOLLOWER
    log.moved()
    surface.fake_loop.run(0)
    (answer,) = client.receive()
    assert [c for _, c, _ in entries(answer)] == [0, 6]


def test_a_deleted_topic_ends_the_wait() -> None:
    surface = wide_surface()
    client = parked(surface)
    log = surface.log_of("wide", 1)
    del surface.topics["wide"]
    log.moved()
    surface.fake_loop.run(0)
    (answer,) = client.receive()
    assert [c for _, c, _ in entries(answer)] == [3, 3]


def test_a_new_leader_lets_the_fetch_wait_then_says_6_but_never_1() -> None:
    """Decision 5: a client told OUT_OF_RANGE would jump to the beginning or the end."""
    surface = wide_surface()
    surface.log_of("wide", 0).code = Code.OFFSET_NOT_AVAILABLE
    client = KafkaClient(surface)
    client.send(Api.FETCH, 11, **request(part(0, 10_000), name="wide"))
    surface.fake_loop.run(499)
    assert client.receive() == []
    surface.fake_loop.run(1)
    assert entries(client.receive()[0]) == [(0, 6, b"")]


def test_a_new_leader_that_gets_ready_meanwhile_answers_with_data() -> None:
    surface = wide_surface()
    log = surface.log_of("wide", 0)
    log.code = Code.OFFSET_NOT_AVAILABLE
    client = KafkaClient(surface)
    client.send(Api.FETCH, 11, **request(part(0, 10), name="wide"))
    log.code = Code.NONE
    log.moved()
    surface.fake_loop.run(0)
    assert entries(client.receive()[0]) == [(0, 0, b"a" * 100)]


def test_the_end_of_the_connection_ends_the_wait_and_leaves_nothing_behind() -> None:
    surface = wide_surface()
    client = parked(surface)
    assert client.dispatcher.fetch.parked == 1
    client.connection.close()
    assert client.dispatcher.fetch.parked == 0
    assert surface.fake_loop.pending == 0
    assert all(surface.log_of("wide", i).watchers == [] for i in range(4))


def test_an_answered_wait_leaves_nothing_behind() -> None:
    surface = wide_surface()
    client = parked(surface)
    surface.fake_loop.run(500)
    client.receive()
    assert client.dispatcher.fetch.parked == 0
    assert surface.fake_loop.pending == 0
    assert surface.log_of("wide", 0).watchers == []


def test_another_request_behind_it_ends_the_wait() -> None:
    """librdkafka asks for the coordinator on the connection it fetches on; late answers send it in circles."""
    surface = wide_surface()
    client = parked(surface)
    client.send(Api.API_VERSIONS, 3, client_software_name="c", client_software_version="1")
    fetched, versions = client.receive()
    assert entries(fetched) == [(0, 0, b""), (1, 0, b"")]
    assert versions.api_keys
    assert client.dispatcher.fetch.parked == 0
    assert surface.fake_loop.pending == 0


def test_pipelined_fetches_each_wait_their_time() -> None:
    surface = wide_surface()
    client = parked(surface)
    client.send(Api.FETCH, 11, **request(part(2, 20), name="wide"))
    surface.fake_loop.run(499)
    assert client.receive() == []
    surface.fake_loop.run(1)
    assert len(client.receive()) == 2


def test_the_waiters_are_bounded_and_the_wait_too() -> None:
    surface = wide_surface()
    client = KafkaClient(surface)
    client.dispatcher.fetch.parked = limits.FETCHES_PARKED_MAX
    assert len(client.ask(Api.FETCH, 11, **request(part(0, 20), name="wide")).responses) == 1
    client.dispatcher.fetch.parked = limits.FETCHES_PARKED_MAX - 1
    client.send(Api.FETCH, 11, **request(part(0, 20), name="wide", wait_ms=2**31 - 1))
    assert client.receive() == []
    surface.fake_loop.run(limits.FETCH_WAIT_MS_MAX)
    assert len(client.receive()) == 1


def test_out_of_range_is_answered_when_a_round_has_proven_it() -> None:
    surface = wide_surface()
    log = surface.log_of("wide", 0)
    log.leads = None
    client = KafkaClient(surface)
    client.send(Api.FETCH, 12, **request(part(0, 21), part(1), name="wide"))
    assert client.receive() == []
    log.confirming.pop()(True)
    assert [(index, error) for index, error, _ in entries(client.receive()[0])] == [(0, 1), (1, 0)]
    assert not log.confirming


def test_what_came_during_the_round_is_read_after_all() -> None:
    surface = wide_surface()
    log = surface.log_of("wide", 0)
    log.leads = None
    client = KafkaClient(surface)
    client.send(Api.FETCH, 12, **request(part(0, 21), name="wide"))
    log.append(b"c" * 100)
    log.confirming.pop()(True)
    assert entries(client.receive()[0]) == [(0, 0, b"c" * 100)]


@pytest.mark.parametrize("more", [{"fetch_offset": 21}, {"last_fetched_epoch": 2}, {"last_fetched_epoch": 9}])
def test_who_cannot_prove_that_something_is_missing_says_ask_somebody_else(more: dict[str, int]) -> None:
    surface = wide_surface()
    log = surface.log_of("wide", 0)
    log.epochs = {2: EpochEnd(Code.NONE, 1, 7)}
    log.leads = False
    answer = KafkaClient(surface).ask(Api.FETCH, 12, **request({**part(0, 10), **more}, part(1), name="wide"))
    assert [(index, error) for index, error, _ in entries(answer)] == [(0, 6), (1, 0)]


def test_below_the_log_start_nothing_needs_a_proof() -> None:
    surface = wide_surface()
    log = surface.log_of("wide", 0)
    log.start, log.leads = 5, False
    assert entries(KafkaClient(surface).ask(Api.FETCH, 12, **request(part(0, 3), name="wide"))) == [(0, 1, b"")]


# -- quotas


def test_a_fetch_takes_no_more_than_its_quotas_windows_hold() -> None:
    """Two batches in each of four partitions; the quota lets through three of them at once. Others' does not matter."""
    surface = wide_surface()
    throttling = Throttling(surface.loop)
    client = KafkaClient(surface, dispatcher=Dispatcher(surface, api_settings(), throttling=throttling))
    asked = request(*(part(index) for index in range(4)), name="wide")

    def fetched() -> int:
        return sum(len(records) for _, _, records in entries(client.ask(Api.FETCH, 12, **asked)))

    assert fetched() == 8 * 100
    throttling.set({(("user", "bert"),): (("consumer_byte_rate", 30.0),)})
    assert fetched() == 8 * 100
    throttling.set({(("user", ""),): (("consumer_byte_rate", 30.0),)})
    assert fetched() == 3 * 100
    throttling.set({(("user", ""),): (("producer_byte_rate", 30.0),)})
    assert fetched() == 8 * 100
