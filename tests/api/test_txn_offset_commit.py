"""TxnOffsetCommit: rights, topics, what the transaction's coordinator is asked, and codes by version (KIP-447,
KIP-890).

Oracle: Kafka's `KafkaApis.handleTxnOffsetCommitRequest`, `CoordinatorPartitionWriter`, `AddPartitionsToTxnManager`.
"""

from collections.abc import Callable
from typing import Any

import pytest
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import GroupRequest, TxnOffsetCommit, refusal
from muster_coordinator.security.resources import Operation, ResourceType
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient

ALL = range(6)


class Coordinator:
    """`TransactionVerifier` that says what it is told to."""

    def __init__(self, says: Code = Code.NONE) -> None:
        self.says = says
        self.asked: list[tuple[Any, ...]] = []

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
        self.asked.append((transactional_id, producer_id, producer_epoch, topic, partition, add))
        assert deadline_ms > 0
        done(self.says)


def client_of(surface: FakeSurface, coordinator: Coordinator | None, **how: Any) -> KafkaClient:
    client = KafkaClient(surface, **how)
    client.dispatcher.services.verifier = coordinator
    return client


def surface_saying(code: Code) -> FakeSurface:
    surface = FakeSurface()
    surface.on_group = lambda request: refusal(request, code)
    return surface


def request(*topics: tuple[str, tuple[int, ...]], **more: Any) -> dict[str, Any]:
    wanted = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": p, "committed_offset": 5 + p, "committed_leader_epoch": 3,
                    "committed_metadata": None,
                }
                for p in partitions
            ],
        }
        for name, partitions in topics or (("orders", (0,)),)
    ]  # fmt: skip
    return {"transactional_id": "x", "group_id": "g", "producer_id": 7, "producer_epoch": 2, "topics": wanted, **more}


def errors(answer: Any) -> dict[tuple[str, int], int]:
    return {(t.name, p.partition_index): int(p.error_code.value) for t in answer.topics for p in t.partitions}


def test_every_version_reaches_the_shard_whole() -> None:
    for version in ALL:
        surface, coordinator = surface_saying(Code.NONE), Coordinator()
        members = {"generation_id": 4, "member_id": "m", "group_instance_id": "i"} if version >= 3 else {}
        answer = client_of(surface, coordinator).ask(Api.TXN_OFFSET_COMMIT, version, **request(**members))
        assert errors(answer) == {("orders", 0): 0}
        ((partition, asked, _),) = surface.group_requests
        assert isinstance(asked, TxnOffsetCommit)
        assert (asked.group, asked.producer_id, asked.producer_epoch) == ("g", 7, 2)
        assert (asked.generation, asked.member, asked.instance) == ((4, "m", "i") if members else (-1, "", None))
        ((name, topic_id, ((index, offset, epoch, text),)),) = asked.topics
        assert (name, index, offset, epoch, text) == ("orders", 0, 5, 3 if version >= 2 else -1, "")
        assert topic_id == surface.image().topics["orders"].topic_id
        assert coordinator.asked == [("x", 7, 2, OFFSETS_TOPIC, partition, version >= 5)]


def test_rights_in_kafkas_order() -> None:
    may: set[ResourceType] = set()
    asked: list[tuple[Operation, ResourceType]] = []

    def authorize(_context: Any, operation: Operation, resource: Any) -> bool:
        asked.append((operation, resource.type))
        return resource.type in may

    surface = surface_saying(Code.NONE)
    client = client_of(surface, Coordinator(), authorize=authorize)
    for kind, code in ((ResourceType.TRANSACTIONAL_ID, 53), (ResourceType.GROUP, 30), (ResourceType.TOPIC, 29)):
        assert errors(client.ask(Api.TXN_OFFSET_COMMIT, 5, **request())) == {("orders", 0): code}
        assert asked[-1][1] is kind
        may.add(kind)
    assert asked[-3:] == [
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.READ, ResourceType.GROUP),
        (Operation.READ, ResourceType.TOPIC),
    ]
    assert surface.group_requests == []
    assert errors(client.ask(Api.TXN_OFFSET_COMMIT, 5, **request())) == {("orders", 0): 0}


def test_without_a_coordinator_of_transactions_it_is_refused_as_find_coordinator_refuses() -> None:
    surface = surface_saying(Code.NONE)
    assert errors(client_of(surface, None).ask(Api.TXN_OFFSET_COMMIT, 5, **request())) == {("orders", 0): 53}
    assert surface.group_requests == []


def test_unknown_partitions_are_answered_beside_the_others_in_the_order_of_the_request() -> None:
    surface = surface_saying(Code.NONE)
    client = client_of(surface, Coordinator())
    answer = client.ask(Api.TXN_OFFSET_COMMIT, 5, **request(("nope", (0,)), ("orders", (900, 0, -1))))
    assert list(errors(answer).items()) == [
        (("nope", 0), 3), (("orders", 900), 3), (("orders", 0), 0), (("orders", -1), 3),
    ]  # fmt: skip
    nothing = client.ask(Api.TXN_OFFSET_COMMIT, 5, **request(("nope", (0,))))
    assert errors(nothing) == {("nope", 0): 3}
    assert len(surface.group_requests) == 1


@pytest.mark.parametrize(
    ("says", "codes"),
    [
        (Code.NETWORK_EXCEPTION, (15, 15, 14, 14, 14, 14)),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, (15, 15, 14, 14, 14, 14)),
        (Code.COORDINATOR_NOT_AVAILABLE, (15, 15, 14, 14, 14, 14)),
        (Code.NOT_COORDINATOR, (15, 15, 14, 14, 14, 14)),
        (Code.CONCURRENT_TRANSACTIONS, (15, 15, 14, 14, 14, 14)),
        (Code.INVALID_TXN_STATE, (48, 48, 48, 48, 120, 120)),
        (Code.TRANSACTION_ABORTABLE, (48, 48, 48, 48, 120, 120)),
        (Code.PRODUCER_FENCED, (47,) * 6),
        (Code.INVALID_PRODUCER_EPOCH, (47,) * 6),
        (Code.INVALID_PRODUCER_ID_MAPPING, (49,) * 6),
    ],
)
def test_what_the_coordinator_says_is_told_as_each_version_understands_it(says: Code, codes: tuple[int, ...]) -> None:
    for version, code in zip(ALL, codes, strict=True):
        surface = surface_saying(Code.NONE)
        answer = client_of(surface, Coordinator(says)).ask(Api.TXN_OFFSET_COMMIT, version, **request())
        assert errors(answer) == {("orders", 0): code}
        assert surface.group_requests == []


@pytest.mark.parametrize(
    ("code", "old", "new"), [(16, 16, 16), (14, 15, 14), (15, 15, 15), (22, 22, 22), (47, 47, 47), (48, 48, 120)]
)
def test_what_the_group_says_is_told_too(code: int, old: int, new: int) -> None:
    for version, expected in ((0, old), (5, new)):
        surface = surface_saying(Code(code))
        answer = client_of(surface, Coordinator()).ask(Api.TXN_OFFSET_COMMIT, version, **request())
        assert errors(answer) == {("orders", 0): expected}


def test_a_late_image_calls_no_topic_unknown() -> None:
    surface = surface_saying(Code.NONE)
    surface.on_image_question = lambda: False
    answer = client_of(surface, Coordinator()).ask(
        Api.TXN_OFFSET_COMMIT, 5, **request(("nope", (0,)), ("orders", (0,)))
    )
    assert errors(answer) == {("nope", 0): 15, ("orders", 0): 0}


def test_before_the_cluster_is_formed_it_is_15() -> None:
    surface = surface_saying(Code.NONE)
    surface.formed = False
    assert errors(client_of(surface, Coordinator()).ask(Api.TXN_OFFSET_COMMIT, 5, **request())) == {("orders", 0): 15}


def never(_request: GroupRequest) -> None:
    """The shard keeps it."""


def test_the_answer_comes_when_the_shard_has_it() -> None:
    surface = surface_saying(Code.NONE)
    surface.on_group = never
    client = client_of(surface, Coordinator())
    client.send(Api.TXN_OFFSET_COMMIT, 5, **request())
    assert client.receive() == []
    ((_, asked, _),) = surface.group_requests
    surface.parked[0](refusal(asked, Code.NONE))
    (answer,) = client.receive()
    assert errors(answer) == {("orders", 0): 0}
