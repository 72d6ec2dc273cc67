"""Produce of transactional batches: asked about once, stored in order, refused as Kafka's `ReplicaManager` refuses."""

from collections.abc import Callable
from typing import Any

import pytest
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.api.transaction_verifier import TransactionVerifier
from muster_coordinator.errors import Code
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.topics.machine import Accepted, ActiveProducer, Refused
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeLog, FakeSurface
from tests.api.judging_log import JudgingLog
from tests.api.kafka_client import KafkaClient, code
from tests.api.test_produce import codes, produce, request
from tests.made_settings import api_settings
from tests.topics.batch_bytes import idempotent
from tests.topics.leader import NOW

TX = "orders-app"


class FakeVerifier:
    """Remembers what it is asked; answers at once with `code`, or when the test says so if that is None."""

    def __init__(self, answer: Code | None = Code.NONE) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []
        self.waiting: list[Callable[[Code], None]] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        partition: int,
        *,
        add: bool,
        deadline_ms: int,
        done: Callable[[Code], None],
    ) -> None:
        self.asked.append((transactional_id, producer_id, producer_epoch, topic, partition, add, deadline_ms))
        if self.answer is None:
            self.waiting.append(done)
        else:
            done(self.answer)


def data(sequence: int, pid: int = 7, epoch: int = 0) -> bytes:
    return idempotent(sequence, pid=pid, epoch=epoch, attributes=0x10)


class World:
    """A client, a log that judges, and a verifier."""

    def __init__(self, answer: Code | None = Code.NONE) -> None:
        self.surface = FakeSurface()
        self.log = JudgingLog.of(self.surface, "orders")
        self.verifier = FakeVerifier(answer)
        port: TransactionVerifier = self.verifier
        self.dispatcher = Dispatcher(self.surface, api_settings(), verifier=port)
        self.client = self.connect()

    def connect(self) -> KafkaClient:
        return KafkaClient(self.surface, dispatcher=self.dispatcher)

    def produce(self, *batches: bytes, version: int = 9) -> list[int]:
        answers = [produce(self.client, version, ("orders", 0, one), transactional_id=TX) for one in batches]
        return [entry[2] for answer in answers for entry in codes(answer)]

    def send(self, one: bytes, client: KafkaClient | None = None, version: int = 9) -> None:
        (client or self.client).send(Api.PRODUCE, version, **request(("orders", 0, one), transactional_id=TX))

    def end(self, *, epoch: int = 0) -> None:
        marker = TransactionMarker(7, epoch, EndMarker(False, 3), 1)
        accepted = self.log.machine.offer_marker(NOW, marker, configs={})
        assert isinstance(accepted, Accepted)
        self.log.apply(accepted.batch)
        self.log.machine.applied(accepted.token)


def received(client: KafkaClient) -> list[int]:
    return [entry[2] for answer in client.receive() for entry in codes(answer)]


@pytest.mark.parametrize("version", range(3, 14))
def test_the_first_batch_of_a_transaction_is_asked_about_and_no_other(version: int) -> None:
    world = World()
    assert world.produce(data(0), data(1), data(2), version=version) == [0, 0, 0]
    deadline_ms = world.surface.fake_loop.now_ms + 1_500
    assert world.verifier.asked == [(TX, 7, 0, "orders", 0, version >= 12, deadline_ms)]
    world.end()
    assert world.produce(data(3), version=version) == [0]
    assert len(world.verifier.asked) == 2


def test_without_a_verifier_nothing_transactional_is_taken() -> None:
    surface = FakeSurface()
    log = JudgingLog.of(surface, "orders")
    for version in range(3, 14):
        answer = produce(KafkaClient(surface), version, ("orders", 0, data(0)), transactional_id=TX)
        assert [entry[2] for entry in codes(answer)] == [48]
    assert not log.stored


def test_batches_that_come_meanwhile_go_on_in_their_order_with_one_answer() -> None:
    world = World(None)
    other = world.connect()
    for sequence in range(3):
        world.send(data(sequence))
    world.send(data(3), other)
    world.send(data(0, pid=8), other)
    assert received(world.client) == []
    assert len(world.verifier.asked) == 2, "one question of each producer"
    world.verifier.waiting[0](Code.NONE)
    assert received(world.client) == [0, 0, 0]
    assert world.log.stored == [data(0), data(1), data(2), data(3)]
    world.verifier.waiting[1](Code.NONE)
    assert received(other) == [0, 0]


def test_if_the_answer_is_no_all_of_them_are_refused_with_it() -> None:
    world = World(None)
    for sequence in range(3):
        world.send(data(sequence))
    world.verifier.waiting[0](Code.INVALID_TXN_STATE)
    assert received(world.client) == [48, 48, 48]
    assert not world.log.stored


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        # ReplicaManager.handleProduceAppend, AddPartitionsToTxnManager: (before 11, 11, 12 on).
        (Code.INVALID_TXN_STATE, (48, 48, 48)),
        (Code.TRANSACTION_ABORTABLE, (48, 120, 120)),
        (Code.CONCURRENT_TRANSACTIONS, (19, 19, 51)),
        (Code.NETWORK_EXCEPTION, (19, 19, 19)),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, (19, 19, 19)),
        (Code.COORDINATOR_NOT_AVAILABLE, (19, 19, 19)),
        (Code.NOT_COORDINATOR, (19, 19, 19)),
        (Code.PRODUCER_FENCED, (47, 47, 47)),
        (Code.INVALID_PRODUCER_EPOCH, (47, 47, 47)),
        (Code.INVALID_PRODUCER_ID_MAPPING, (49, 49, 49)),
    ],
)
def test_each_answer_of_the_coordinator_in_each_version(answer: Code, expected: tuple[int, int, int]) -> None:
    for version, wanted in ((10, expected[0]), (11, expected[1]), (12, expected[2]), (13, expected[2])):
        world = World(answer)
        assert world.produce(data(0), version=version) == [wanted]
        assert not world.log.stored


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize(("second", "expected"), [(Code.NONE, 0), (Code.INVALID_TXN_STATE, 48)])
def test_an_answer_from_before_a_marker_lets_nothing_in_and_is_asked_for_again(
    version: int, second: Code, expected: int
) -> None:
    """Kafka Connect's next transaction begins while the markers of the one before are being written: refused with 48,
    its task failed. A broker of Kafka asks again too while it is told 51, each time with a verification of its own."""
    world = World(None)
    world.send(data(0), version=version)
    world.send(data(1), version=version)
    world.end()
    world.verifier.waiting[0](Code.NONE)
    assert received(world.client) == []
    assert len(world.log.stored) == 1, "the marker"
    assert world.verifier.asked == [world.verifier.asked[0]] * 2
    world.verifier.waiting[0](Code.NONE)
    assert len(world.log.stored) == 1, "an answer that came twice"
    world.verifier.waiting[1](second)
    assert received(world.client) == [expected] * 2
    assert world.log.stored[1:] == ([data(0), data(1)] if expected == 0 else [])


def test_an_answer_from_before_a_marker_is_not_asked_for_again_after_the_time_of_the_request() -> None:
    world = World(None)
    world.send(data(0))
    world.end()
    world.surface.fake_loop.now_ms += 1_500
    world.verifier.waiting[0](Code.NONE)
    assert received(world.client) == [19]
    assert (len(world.verifier.asked), len(world.log.stored)) == (1, 1)


def test_an_answer_that_comes_too_late_stores_nothing() -> None:
    world = World(None)
    world.send(data(0))
    world.surface.fake_loop.now_ms += 1_500
    world.verifier.waiting[0](Code.NONE)
    assert received(world.client) == [19]
    world.verifier.waiting[0](Code.NONE)
    assert not world.log.stored


def test_what_is_pipelined_behind_a_refused_first_batch_is_not_stored_before_it() -> None:
    world = World(Code.COORDINATOR_NOT_AVAILABLE)
    assert world.produce(data(0)) == [19]
    world.verifier.answer = Code.NONE
    assert world.produce(data(1)) == [19], "in its place: the producer sends both again"
    assert world.produce(data(0), data(1)) == [0, 0]
    assert world.log.stored == [data(0), data(1)]


def test_too_many_that_begin_are_refused_without_a_question() -> None:
    world = World()
    log = world.surface.logs[world.log.group] = FakeLog(world.log.group)
    log.verification = Refused(Code.NOT_ENOUGH_REPLICAS, "too many")
    assert world.produce(data(0)) == [19]
    assert not world.verifier.asked


# -- DescribeProducers

ONE = ActiveProducer(2**63 - 1, 32_767, 2**31 - 1, 1_700_000_000_000, 2**31 - 1, 2**63 - 1)
NONE = ActiveProducer(0, 0, -1, -1, -1, -1)


def described(surface: FakeSurface, *asked: tuple[str, list[int]]) -> list[tuple[str, int, int, list[tuple[int, ...]]]]:
    topics = [{"name": name, "partition_indexes": indexes} for name, indexes in asked]
    answer = KafkaClient(surface).ask(Api.DESCRIBE_PRODUCERS, 0, topics=topics)
    return [
        (
            topic.name, one.partition_index, code(one.error_code),
            [
                (p.producer_id, p.producer_epoch, p.last_sequence, p.coordinator_epoch, p.current_txn_start_offset)
                for p in one.active_producers
            ],
        )
        for topic in answer.topics for one in topic.partitions
    ]  # fmt: skip


def test_producers_are_told_with_their_open_transactions() -> None:
    surface = FakeSurface()
    surface.log_of("orders", 0).active = [ONE, NONE]
    told = [(2**63 - 1, 32_767, 2**31 - 1, 2**31 - 1, 2**63 - 1), (0, 0, -1, -1, -1)]
    assert described(surface, ("orders", [0, 1, 9, -1]), ("nope", [0])) == [
        ("orders", 0, 0, told),
        ("orders", 1, 6, []),
        ("orders", 9, 3, []),
        ("orders", -1, 3, []),
        ("nope", 0, 3, []),
    ]
    assert described(surface) == []


def test_a_partition_is_told_once_and_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    surface = FakeSurface()
    surface.log_of("orders", 0).active = [ONE] * 3
    assert [one[2] for one in described(surface, ("orders", [0, 0]))] == [0, 42]
    monkeypatch.setattr("muster_coordinator.api.limits.DESCRIBED_PRODUCERS_MAX", 2)
    assert described(surface, ("orders", [0])) == [("orders", 0, 42, [])]
    monkeypatch.setattr("muster_coordinator.api.limits.DESCRIBED_PRODUCERS_MAX", 3)
    assert [one[2] for one in described(surface, ("orders", [0]))] == [0]
