"""Produce: rows 1-8 of protocol notes 12.2, acks, deadlines, answers, KIP-951."""

import struct
from typing import Any
from uuid import UUID

import pytest
from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation, ResourceType
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.topics.machine import ProduceResult, RecordError
from muster_coordinator.wire.versions import Api

from tests.api.batches import TRANSACTIONAL, ZSTD, batch
from tests.api.fake_surface import FakeSurface, topic
from tests.api.kafka_client import KafkaClient, code

ORDERS_ID = UUID(bytes=b"orders----------")


def request(*parts: tuple[str, int, bytes | None], acks: int = -1, **more: Any) -> dict[str, Any]:
    topics: dict[str, list[Any]] = {}
    for name, index, records in parts:
        topics.setdefault(name, []).append({"index": index, "records": records})
    data = [{"name": name, "topic_id": ORDERS_ID, "partition_data": entries} for name, entries in topics.items()]
    return {"acks": acks, "timeout_ms": 1_500, "topic_data": data, **more}


def produce(client: KafkaClient, version: int, *parts: tuple[str, int, bytes | None], **more: Any) -> Any:
    return client.ask(Api.PRODUCE, version, **request(*parts, **more))


def codes(answer: Any) -> list[tuple[Any, int, int]]:
    return [
        (getattr(t, "name", None) or t.topic_id, p.index, code(p.error_code))
        for t in answer.responses
        for p in t.partition_responses
    ]


@pytest.mark.parametrize("version", range(3, 14))
def test_a_batch_reaches_its_log_as_received(version: int) -> None:
    surface = FakeSurface()
    answer = produce(KafkaClient(surface), version, ("orders", 0, batch()))
    (response,) = answer.responses[0].partition_responses
    assert (code(response.error_code), response.base_offset, response.index) == (0, 42, 0)
    assert response.log_append_time is None
    if version >= 5:
        assert response.log_start_offset == 0
    (stored, configs, deadline_ms) = surface.log_of("orders", 0).produced[0]
    assert stored == batch()
    assert configs == {}
    assert deadline_ms == surface.fake_loop.now_ms + 1_500


def test_bytes_after_the_batch_that_form_no_batch_are_cut_off() -> None:
    surface = FakeSurface()
    produce(KafkaClient(surface), 9, ("orders", 0, batch() + b"left over"))
    assert surface.log_of("orders", 0).produced[0][0] == batch()


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (b"", 87),
        (batch()[:16], 87),
        (batch()[:-1], 87),
        (batch()[:40], 87),
        (batch() + batch(), 87),
        (batch(magic=0), 87),
        (batch(magic=1), 87),
        (batch(magic=3), 2),
        (batch(length=48), 2),
        (batch(length=-1), 2),
        (batch(length=2**31 - 1), 87),
        (None, 87),
    ],
)
def test_row_5_exactly_one_whole_batch_of_magic_2(records: bytes | None, expected: int) -> None:
    surface = FakeSurface()
    assert codes(produce(KafkaClient(surface), 9, ("orders", 0, records))) == [("orders", 0, expected)]
    assert surface.log_of("orders", 0).produced == []


@pytest.mark.parametrize(("version", "expected"), [(3, 76), (6, 76), (7, 0), (13, 0)])
def test_row_5_zstd_needs_version_7(version: int, expected: int) -> None:
    answer = produce(KafkaClient(FakeSurface()), version, ("orders", 0, batch(attributes=ZSTD)))
    assert code(answer.responses[0].partition_responses[0].error_code) == expected


def test_row_1_a_transactional_batch_without_the_right_refuses_the_whole_request() -> None:
    surface = FakeSurface()
    parts = (("orders", 0, batch(attributes=TRANSACTIONAL, producer_id=5)), ("nope", 1, batch()))
    answer = produce(KafkaClient(surface), 9, *parts, transactional_id=None)
    assert [c for _, _, c in codes(answer)] == [53, 53]

    def not_this_id(_context: Any, _operation: Operation, resource: Any) -> bool:
        return bool(resource.type != ResourceType.TRANSACTIONAL_ID)

    client = KafkaClient(surface, authorize=not_this_id)
    assert [c for _, _, c in codes(produce(client, 9, *parts, transactional_id="tx"))] == [53, 53]
    assert surface.log_of("orders", 0).produced == []


def test_row_2_an_unknown_id_is_100() -> None:
    data = [{"topic_id": UUID(int=9), "partition_data": [{"index": 0, "records": batch()}]}]
    answer = KafkaClient(FakeSurface()).ask(Api.PRODUCE, 13, acks=-1, timeout_ms=9, topic_data=data)
    assert [c for _, _, c in codes(answer)] == [100]


def test_row_4_unknown_topic_or_partition_before_the_batch_is_judged() -> None:
    answer = produce(KafkaClient(FakeSurface()), 9, ("nope", 0, None), ("orders", 3, None), ("orders", -1, None))
    assert [c for _, _, c in codes(answer)] == [3, 3, 3]


@pytest.mark.parametrize("acks", [2, -2, 3])
def test_row_6_other_acks_after_the_batch_was_judged(acks: int) -> None:
    surface = FakeSurface()
    answer = produce(KafkaClient(surface), 9, ("orders", 0, batch()), ("orders", 1, b""), acks=acks)
    assert [c for _, _, c in codes(answer)] == [21, 87]
    assert surface.log_of("orders", 0).produced == []


def test_row_7_two_transactional_producers() -> None:
    parts = tuple(("orders", i, batch(attributes=TRANSACTIONAL, producer_id=5 + i)) for i in range(2))
    answer = produce(KafkaClient(FakeSurface()), 9, *parts, transactional_id="tx")
    assert [c for _, _, c in codes(answer)] == [49, 49]


def test_row_8_the_offsets_topic_takes_nothing_from_clients() -> None:
    surface = FakeSurface()
    answer = produce(KafkaClient(surface), 9, (OFFSETS_TOPIC, 0, batch()))
    assert codes(answer) == [(OFFSETS_TOPIC, 0, 17)]
    assert surface.log_of(OFFSETS_TOPIC, 0).produced == []


def test_the_same_partition_twice_the_last_wins_and_there_is_one_answer() -> None:
    surface = FakeSurface()
    answer = produce(KafkaClient(surface), 9, ("orders", 0, batch(b"first")), ("orders", 0, batch(b"second")))
    assert codes(answer) == [("orders", 0, 0)]
    assert [b for b, _, _ in surface.log_of("orders", 0).produced] == [batch(b"second")]


def test_no_topics_no_answers() -> None:
    assert produce(KafkaClient(FakeSurface()), 9).responses == ()


def test_partitions_stand_alone() -> None:
    answer = produce(
        KafkaClient(FakeSurface()), 9, ("orders", 0, batch()), ("orders", 1, batch()), ("nope", 0, batch())
    )
    assert codes(answer) == [("orders", 0, 0), ("orders", 1, 6), ("nope", 0, 3)]


@pytest.mark.parametrize("version", [9, 10, 13])
def test_not_leader_points_to_the_leader_from_v10_on(version: int) -> None:
    surface = FakeSurface()
    surface.elect(101, 1, 12)
    answer = produce(KafkaClient(surface), version, ("orders", 1, batch()))
    (response,) = answer.responses[0].partition_responses
    assert code(response.error_code) == 6
    if version >= 10:
        assert (response.current_leader.leader_id, response.current_leader.leader_epoch) == (1, 12)
        assert [(n.node_id, n.host, n.port) for n in answer.node_endpoints] == [(1, "plaintext-1", 9092)]


def test_an_unknown_leader_is_left_out() -> None:
    surface = FakeSurface()
    surface.dead.add(1)
    answer = produce(KafkaClient(surface), 10, ("orders", 1, batch()))
    assert answer.responses[0].partition_responses[0].current_leader.leader_id == -1
    assert answer.node_endpoints == ()


def test_record_errors_and_the_message_are_told_from_v8_on() -> None:
    surface = FakeSurface()
    surface.log_of("orders", 0).produce_result = ProduceResult(
        Code.INVALID_RECORD, -1, -1, 3, "bad", (RecordError(4, "no key"),)
    )
    answer = produce(KafkaClient(surface), 8, ("orders", 0, batch()))
    (response,) = answer.responses[0].partition_responses
    assert (code(response.error_code), response.error_message, response.log_start_offset) == (87, "bad", 3)
    assert [(e.batch_index, e.batch_index_error_message) for e in response.record_errors] == [(4, "no key")]
    assert (
        code(produce(KafkaClient(surface), 7, ("orders", 0, batch())).responses[0].partition_responses[0].error_code)
        == 87
    )


def test_the_answer_waits_for_every_partition() -> None:
    surface = FakeSurface()
    surface.add_topic(topic("wide", 4, first_group=200, voters=(0,)))
    for index in range(2):
        surface.log_of("wide", index).produce_result = None
    client = KafkaClient(surface)
    client.send(Api.PRODUCE, 9, **request(*(("wide", i, batch()) for i in range(4))))
    surface.log_of("wide", 1).waiting[0](ProduceResult(Code.NONE, 8))
    assert client.receive() == []
    surface.log_of("wide", 0).waiting[0](ProduceResult(Code.REQUEST_TIMED_OUT, 7))
    (answer,) = client.receive()
    assert codes(answer) == [("wide", 0, 7), ("wide", 1, 0), ("wide", 2, 0), ("wide", 3, 0)]


def test_acks_0_gets_no_answer_frame() -> None:
    client = KafkaClient(FakeSurface())
    client.send_unanswered(Api.PRODUCE, 9, **request(("orders", 0, batch()), acks=0))
    client.send(Api.API_VERSIONS, 0)
    (only,) = client.receive()
    assert only.api_keys
    assert not client.closed


@pytest.mark.parametrize("part", [("orders", 1, batch()), ("nope", 0, batch()), ("orders", 0, b"")])
def test_any_error_with_acks_0_closes_the_connection(part: tuple[str, int, bytes]) -> None:
    client = KafkaClient(FakeSurface())
    client.send_unanswered(Api.PRODUCE, 9, **request(part, acks=0))
    assert client.closed


def test_deadlines_are_bounded_and_only_acks_all_chooses_one() -> None:
    surface = FakeSurface()
    client, now_ms = KafkaClient(surface), surface.fake_loop.now_ms
    for acks, timeout_ms in ((-1, 2**31 - 1), (1, 5), (-1, 0), (-1, -7)):
        produce(client, 9, ("orders", 0, batch()), acks=acks, timeout_ms=timeout_ms)
    waits = [deadline - now_ms for _, _, deadline in surface.log_of("orders", 0).produced]
    assert waits == [limits.PRODUCE_TIMEOUT_MS_MAX, limits.PRODUCE_TIMEOUT_MS_MAX, 1, 1]


def test_the_topics_overrides_go_with_the_batch() -> None:
    surface = FakeSurface()
    surface.add_topic(topic("small", 1, first_group=300, configs=(("max.message.bytes", "99"),)))
    produce(KafkaClient(surface), 9, ("small", 0, batch()))
    assert surface.log_of("small", 0).produced[0][1] == {"max.message.bytes": "99"}


def test_a_batch_of_exactly_the_least_length_passes() -> None:
    surface = FakeSurface()
    least = batch(b"")
    assert struct.unpack_from(">i", least, 8)[0] == 49
    assert codes(produce(KafkaClient(surface), 9, ("orders", 0, least))) == [("orders", 0, 0)]


def test_a_batch_waits_for_room_no_longer_than_its_request() -> None:
    surface = FakeSurface()
    log = surface.log_of("orders", 0)
    produce(KafkaClient(surface), 9, ("orders", 0, batch()), timeout_ms=200)
    assert log.room_until_ms == [surface.fake_loop.now_ms + 200]
    log.room = False
    answer = produce(KafkaClient(surface), 9, ("orders", 0, batch()), timeout_ms=200)
    assert codes(answer) == [("orders", 0, Code.NOT_ENOUGH_REPLICAS)], "not 7: it is known that nothing is stored"
    assert len(log.produced) == 1
