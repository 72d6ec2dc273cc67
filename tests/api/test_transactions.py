"""The APIs of transactions: every version says what the coordinator said, to whom may hear it."""

from typing import Any

import pytest
from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import CommandResult, CreateTransactionLog
from muster_coordinator.controller.image import MEMBERS_LEVEL, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import COORDINATOR_LOOKUP_WAIT_MS
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.replica.partitions.surface import partition_of
from muster_coordinator.transactions.metadata import Transaction
from muster_coordinator.transactions.requests import (
    AddPartitions,
    Answer,
    DescribeTransaction,
    EndTransaction,
    Expected,
    InitProducer,
    Request,
    VerifyPartitions,
)
from muster_coordinator.transactions.states import State
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeLog, FakeSurface, topic
from tests.api.kafka_client import KafkaClient

LOG_GROUP = 300
OPEN = Transaction(
    producer_id=7,
    producer_epoch=2,
    timeout_ms=60_000,
    state=State.ONGOING,
    partitions=frozenset({("orders", 1), ("orders", 0), ("other", 5)}),
    start_ms=1_000,
    last_update_ms=1_500,
)


def code(error: Any) -> int:
    return int(error.value)


class With:
    """A surface with a transaction log of four partitions, and a client of it."""

    def __init__(self, answer: Answer | None = None, authorize: Any = None) -> None:
        self.surface = FakeSurface()
        self.surface.add_topic(topic(TRANSACTIONS_TOPIC, 4, first_group=LOG_GROUP, internal=True))
        self.surface.on_transaction = lambda _: answer or Answer(Code.NONE)
        self.client = KafkaClient(self.surface) if authorize is None else KafkaClient(self.surface, authorize=authorize)

    @property
    def asked(self) -> Request:
        ((group, request),) = self.surface.transaction_requests
        assert group == LOG_GROUP + partition_of(request.transactional_id, 4)
        return request

    def ask(self, api: Api, version: int, **fields: Any) -> Any:
        return self.client.ask(api, version, **fields)


def refusing(*kinds: ResourceType) -> Any:
    def authorize(_context: RequestContext, _operation: Operation, resource: Resource) -> bool:
        return resource.type not in kinds

    return authorize


# -- FindCoordinator


def first_answer(client: KafkaClient, version: int) -> Any:
    """Of a cluster without the log, which is not made in time."""
    client.send(Api.FIND_COORDINATOR, version, key="tx", coordinator_keys=["tx"], key_type=1)
    client.surface.fake_loop.run(COORDINATOR_LOOKUP_WAIT_MS - 1)
    assert client.receive() == []
    client.surface.fake_loop.run(1)
    (answer,) = client.receive()
    return answer


@pytest.mark.parametrize("version", range(1, 7))
def test_the_first_question_has_the_log_made_and_is_to_be_asked_again(version: int) -> None:
    surface = FakeSurface()
    client = KafkaClient(surface)
    surface.on_command = lambda _: None
    answer = first_answer(client, version)
    found = answer.coordinators[0] if version >= 4 else answer
    assert code(found.error_code) == 15
    (command,) = surface.commands
    assert isinstance(command, CreateTransactionLog)
    assert (command.partitions, len(command.placed)) == (50, 50)
    first_answer(client, version)
    assert len(surface.commands) == 1, "one proposal at a time"


@pytest.mark.parametrize("version", [2, 6])
def test_the_first_answer_is_its_coordinator_once_the_log_and_the_ids_one_partition_are_there(version: int) -> None:
    surface = FakeSurface()
    loop = surface.fake_loop
    group = LOG_GROUP + partition_of("tx", 50)

    def made(_: CreateTransactionLog) -> None:
        loop.call_at(loop.monotonic_ms() + 100, log_there)

    def log_there() -> None:
        surface.add_topic(topic(TRANSACTIONS_TOPIC, 50, first_group=LOG_GROUP, internal=True))
        for number in range(50):
            surface.leaders.pop(GroupNo(LOG_GROUP + number), None)
        loop.call_at(loop.monotonic_ms() + 100, led)

    def led() -> None:
        surface.elect(group, 2, 3)

    surface.on_command = made
    began_ms = loop.monotonic_ms()
    client = KafkaClient(surface)
    client.send(Api.FIND_COORDINATOR, version, key="tx", coordinator_keys=["tx"], key_type=1)
    loop.run(150)
    assert client.receive() == []
    loop.run(100)
    (answer,) = client.receive()
    found = answer.coordinators[0] if version >= 4 else answer
    assert (code(found.error_code), found.node_id, loop.monotonic_ms() - began_ms) == (0, 2, 250)
    assert len(surface.commands) == 1


def test_a_proposal_that_failed_is_made_again() -> None:
    surface = FakeSurface()
    surface.behind = True
    surface.on_command = lambda _: CommandResult(7)
    for count in (1, 2):
        first_answer(KafkaClient(surface), 2)
        assert len(surface.commands) == count


def test_nobody_is_asked_for_a_log_by_who_may_not_know_of_it() -> None:
    surface = FakeSurface()
    client = KafkaClient(surface, authorize=refusing(ResourceType.TRANSACTIONAL_ID))
    answer = client.ask(Api.FIND_COORDINATOR, 4, coordinator_keys=["tx"], key_type=1)
    assert code(answer.coordinators[0].error_code) == 53
    assert not surface.commands


@pytest.mark.parametrize("version", range(1, 7))
def test_the_coordinator_leads_the_partition_of_the_id(version: int) -> None:
    made = With()
    answer = made.ask(Api.FIND_COORDINATOR, version, key="tx", coordinator_keys=["tx"], key_type=1)
    found = answer.coordinators[0] if version >= 4 else answer
    leader = made.surface.leaders[LOG_GROUP + partition_of("tx", 4)].leader
    assert (code(found.error_code), found.node_id) == (0, leader)


def test_each_id_has_its_own_right() -> None:
    def only_mine(_context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return operation is Operation.DESCRIBE and resource.name == "mine"

    made = With(authorize=only_mine)
    answer = made.ask(Api.FIND_COORDINATOR, 4, coordinator_keys=["mine", "theirs"], key_type=1)
    assert [code(one.error_code) for one in answer.coordinators] == [0, 53]


def test_a_topic_of_a_client_with_that_name_is_no_log() -> None:
    surface = FakeSurface()
    surface.add_topic(topic(TRANSACTIONS_TOPIC, 4, first_group=LOG_GROUP))
    answer = KafkaClient(surface).ask(Api.FIND_COORDINATOR, 4, coordinator_keys=["tx"], key_type=1)
    assert code(answer.coordinators[0].error_code) == 35
    assert not surface.commands


# -- InitProducerId


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id_says_what_the_coordinator_says(version: int) -> None:
    made = With(Answer(Code.NONE, 41, 3))
    answer = made.ask(
        Api.INIT_PRODUCER_ID,
        version,
        transactional_id="tx",
        transaction_timeout_ms=5_000,
        producer_id=41,
        producer_epoch=2,
    )
    assert (code(answer.error_code), answer.producer_id, answer.producer_epoch) == (0, 41, 3)
    assert made.asked == InitProducer("tx", 5_000, Expected(41, 2) if version >= 3 else None)


@pytest.mark.parametrize(("version", "expected"), [(3, 47), (4, 90)])
def test_a_fenced_producer_gets_the_code_that_its_version_knows(version: int, expected: int) -> None:
    made = With(Answer(Code.PRODUCER_FENCED))
    answer = made.ask(Api.INIT_PRODUCER_ID, version, transactional_id="tx", transaction_timeout_ms=5_000)
    assert (code(answer.error_code), answer.producer_id, answer.producer_epoch) == (expected, -1, -1)


# -- AddPartitionsToTxn

PLACES = [{"name": "orders", "partitions": [0, 2]}]


def single(topics: Any = None) -> dict[str, Any]:
    return {
        "v3_and_below_transactional_id": "tx",
        "v3_and_below_producer_id": 7,
        "v3_and_below_producer_epoch": 2,
        "v3_and_below_topics": PLACES if topics is None else topics,
    }


def codes_of(results: Any) -> dict[tuple[str, int], int]:
    return {
        (one.name, part.partition_index): code(part.partition_error_code)
        for one in results
        for part in one.results_by_partition
    }


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(version: int) -> None:
    made = With()
    answer = made.ask(Api.ADD_PARTITIONS_TO_TXN, version, **single())
    assert codes_of(answer.results_by_topic_v3_and_below) == {("orders", 0): 0, ("orders", 2): 0}
    assert made.asked == AddPartitions("tx", 7, 2, frozenset({("orders", 0), ("orders", 2)}))


@pytest.mark.parametrize(("version", "expected"), [(1, 47), (2, 90), (3, 90)])
def test_each_partition_gets_the_coordinators_code(version: int, expected: int) -> None:
    answer = With(Answer(Code.PRODUCER_FENCED)).ask(Api.ADD_PARTITIONS_TO_TXN, version, **single())
    assert set(codes_of(answer.results_by_topic_v3_and_below).values()) == {expected}


def test_all_are_added_or_none() -> None:
    made = With()
    topics = [*PLACES, {"name": "none", "partitions": [0]}, {"name": "orders", "partitions": [99]}]
    answer = made.ask(Api.ADD_PARTITIONS_TO_TXN, 3, **single(topics))
    assert codes_of(answer.results_by_topic_v3_and_below) == {
        ("orders", 0): 55,
        ("orders", 2): 55,
        ("orders", 99): 3,
        ("none", 0): 3,
    }
    assert not made.surface.transaction_requests


def test_the_transaction_log_itself_is_in_no_transaction() -> None:
    """Its partitions take no markers: such a transaction would never be complete."""
    made = With()
    topics = [*PLACES, {"name": TRANSACTIONS_TOPIC, "partitions": [0]}]
    answer = made.ask(Api.ADD_PARTITIONS_TO_TXN, 3, **single(topics))
    assert codes_of(answer.results_by_topic_v3_and_below) == {
        ("orders", 0): 55,
        ("orders", 2): 55,
        (TRANSACTIONS_TOPIC, 0): 17,
    }
    assert not made.surface.transaction_requests


def test_topics_need_their_own_right() -> None:
    made = With(authorize=refusing(ResourceType.TOPIC))
    answer = made.ask(Api.ADD_PARTITIONS_TO_TXN, 3, **single())
    assert set(codes_of(answer.results_by_topic_v3_and_below).values()) == {29}
    assert not made.surface.transaction_requests


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_need_no_right_to_topics(version: int) -> None:
    """Theirs is ClusterAction; who writes was judged where the client asked (a real Kafka 4.3 answers so, too)."""
    made = With(authorize=refusing(ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID))
    one = {"transactional_id": "tx", "producer_id": 7, "producer_epoch": 2, "verify_only": True, "topics": PLACES}
    answer = made.ask(Api.ADD_PARTITIONS_TO_TXN, version, transactions=[one])
    (found,) = answer.results_by_transaction
    assert codes_of(found.topic_results) == {("orders", 0): 0, ("orders", 2): 0}
    assert isinstance(made.asked, VerifyPartitions)
    denied = With(authorize=refusing(ResourceType.CLUSTER)).ask(Api.ADD_PARTITIONS_TO_TXN, version, transactions=[one])
    assert code(denied.error_code) == 31


@pytest.mark.parametrize(("version", "lacks"), [(4, 48), (5, 120)])
def test_brokers_ask_about_several_transactions(version: int, lacks: int) -> None:
    made = With()

    def answer_of(request: Request) -> Answer:
        if isinstance(request, VerifyPartitions):
            return Answer(Code.NONE, missing=frozenset({("orders", 2)}))
        return Answer(Code.CONCURRENT_TRANSACTIONS)

    made.surface.on_transaction = answer_of
    asked = [
        {"transactional_id": name, "producer_id": 7, "producer_epoch": 2, "verify_only": verify, "topics": PLACES}
        for name, verify in (("a", True), ("b", False))
    ]
    answer = made.ask(Api.ADD_PARTITIONS_TO_TXN, version, transactions=asked)
    assert code(answer.error_code) == 0
    first, second = answer.results_by_transaction
    assert codes_of(first.topic_results) == {("orders", 0): 0, ("orders", 2): lacks}
    assert codes_of(second.topic_results) == {("orders", 0): 51, ("orders", 2): 51}


# -- AddOffsetsToTxn, EndTxn


@pytest.mark.parametrize("version", range(5))
def test_the_groups_offsets_partition_is_added(version: int) -> None:
    made = With()
    answer = made.ask(
        Api.ADD_OFFSETS_TO_TXN, version, transactional_id="tx", producer_id=7, producer_epoch=2, group_id="g"
    )
    assert code(answer.error_code) == 0
    place = (OFFSETS_TOPIC, partition_of("g", 4))
    assert made.asked == AddPartitions("tx", 7, 2, frozenset({place}))


def test_offsets_need_a_right_to_the_group_too() -> None:
    made = With(authorize=refusing(ResourceType.GROUP))
    asked = {"transactional_id": "tx", "producer_id": 7, "producer_epoch": 2, "group_id": "g"}
    assert code(made.ask(Api.ADD_OFFSETS_TO_TXN, 3, **asked).error_code) == 30
    assert not made.surface.transaction_requests


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("committed", [True, False])
def test_end_txn_says_with_which_epoch_the_producer_goes_on(version: int, committed: bool) -> None:
    made = With(Answer(Code.NONE, 7, 3))
    answer = made.ask(Api.END_TXN, version, transactional_id="tx", producer_id=7, producer_epoch=2, committed=committed)
    assert code(answer.error_code) == 0
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == (7, 3)
    assert made.asked == EndTransaction("tx", 7, 2, committed, 2 if version >= 5 else 0)


@pytest.mark.parametrize(("version", "expected"), [(1, 47), (2, 90)])
def test_end_txn_of_a_fenced_producer(version: int, expected: int) -> None:
    asked = {"transactional_id": "tx", "producer_id": 7, "producer_epoch": 2, "committed": True}
    assert code(With(Answer(Code.PRODUCER_FENCED)).ask(Api.END_TXN, version, **asked).error_code) == expected


def test_without_a_log_nobody_here_is_the_coordinator() -> None:
    client = KafkaClient(FakeSurface())
    asked = {"transactional_id": "tx", "producer_id": 7, "producer_epoch": 2, "committed": True}
    assert code(client.ask(Api.END_TXN, 4, **asked).error_code) == 16


# -- DescribeTransactions, ListTransactions


def test_a_transaction_is_described_with_the_topics_that_may_be_seen() -> None:
    def not_other(_context: RequestContext, _operation: Operation, resource: Resource) -> bool:
        return resource.name != "other"

    made = With(Answer(Code.NONE, transaction=OPEN), authorize=not_other)
    (found,) = made.ask(Api.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx", "tx"]).transaction_states
    assert (code(found.error_code), found.transactional_id, found.transaction_state) == (0, "tx", "Ongoing")
    assert (found.producer_id, found.producer_epoch) == (7, 2)
    assert [(one.topic, one.partitions) for one in found.topics] == [("orders", (0, 1))]
    assert made.asked == DescribeTransaction("tx")


def test_an_id_that_is_not_known_is_105() -> None:
    made = With(Answer(Code.TRANSACTIONAL_ID_NOT_FOUND))
    (found,) = made.ask(Api.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx"]).transaction_states
    assert code(found.error_code) == 105


def listing(*, authorize: Any = None) -> With:
    made = With(authorize=authorize)
    closed = Transaction(
        producer_id=8,
        producer_epoch=0,
        timeout_ms=1,
        state=State.COMPLETE_COMMIT,
        partitions=frozenset(),
        start_ms=made.surface.fake_loop.wall_ms() - 10_000,
        last_update_ms=0,
    )
    made.surface.transactional_ids = {LOG_GROUP: {"a": OPEN, "b": closed}, LOG_GROUP + 3: {}}
    for group in made.surface.transactional_ids:
        made.surface.logs.setdefault(group, FakeLog(made.surface.topics[TRANSACTIONS_TOPIC].partitions[0].group))
    return made


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {"a", "b"}),
        ({"state_filters": ["Ongoing"]}, {"a"}),
        ({"state_filters": ["Odd"]}, set()),
        ({"producer_id_filters": [8]}, {"b"}),
        ({"duration_filter": 10_001}, {"a"}),
    ],
)
def test_ids_are_listed_by_what_is_asked_for(filters: dict[str, Any], expected: set[str]) -> None:
    answer = listing().ask(Api.LIST_TRANSACTIONS, 1, **filters)
    assert code(answer.error_code) == 0
    assert {one.transactional_id for one in answer.transaction_states} == expected


def test_only_ids_that_may_be_seen_are_listed() -> None:
    def only_b(_context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return operation is Operation.DESCRIBE and resource.name == "b"

    answer = listing(authorize=only_b).ask(Api.LIST_TRANSACTIONS, 0)
    assert [(one.transactional_id, one.producer_id, one.transaction_state) for one in answer.transaction_states] == [
        ("b", 8, "CompleteCommit")
    ]


def test_a_deposed_coordinator_lists_nothing() -> None:
    made = listing()
    made.surface.logs[LOG_GROUP].leads = False
    answer = made.ask(Api.LIST_TRANSACTIONS, 1)
    assert (code(answer.error_code), answer.transaction_states) == (15, ())


# -- WriteTxnMarkers


def markers(version: int, partitions: list[int]) -> dict[str, Any]:
    marker = {
        "producer_id": 7,
        "producer_epoch": 2,
        "transaction_result": False,
        "coordinator_epoch": 9,
        "topics": [{"name": "orders", "partition_indexes": partitions}],
    }
    return {"markers": [marker | ({"transaction_version": 2} if version >= 2 else {})]}


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_is_written_where_this_broker_leads(version: int) -> None:
    made = With()
    answer = made.ask(Api.WRITE_TXN_MARKERS, version, **markers(version, [0, 1, 9]))
    ((_, parts),) = [(one.name, one.partitions) for one in answer.markers[0].topics]
    assert [(part.partition_index, code(part.error_code)) for part in parts] == [(0, 0), (1, 6), (9, 3)]
    (written,) = made.surface.log_of("orders", 0).markers
    assert written == TransactionMarker(7, 2, EndMarker(False, 9), 2 if version >= 2 else 0)


def test_no_marker_is_written_where_a_replica_of_an_earlier_release_may_be() -> None:
    """Release 0.1 refuses a checkpoint whose producers have had one."""
    made = With()
    made.surface.feature_level = MEMBERS_LEVEL - 1
    answer = made.ask(Api.WRITE_TXN_MARKERS, 1, **markers(1, [0]))
    assert [int(p.error_code) for m in answer.markers for t in m.topics for p in t.partitions] == [35]


@pytest.mark.parametrize(
    ("field", "value", "told"), [("producer_id", -1, 49), ("producer_id", -(2**63), 49), ("producer_epoch", -1, 47)]
)
def test_no_marker_is_written_for_what_is_no_producer(field: str, value: int, told: int) -> None:
    made = With()
    asked = markers(1, [0])
    asked["markers"][0][field] = value
    answer = made.ask(Api.WRITE_TXN_MARKERS, 1, **asked)
    assert code(answer.markers[0].topics[0].partitions[0].error_code) == told
    assert not made.surface.log_of("orders", 0).markers


def test_markers_need_a_right_to_the_cluster() -> None:
    made = With(authorize=refusing(ResourceType.CLUSTER))
    answer = made.ask(Api.WRITE_TXN_MARKERS, 1, **markers(1, [0]))
    assert code(answer.markers[0].topics[0].partitions[0].error_code) == 31
    assert not made.surface.log_of("orders", 0).markers


def test_either_right_to_the_cluster_will_do() -> None:
    for allowed in (Operation.ALTER, Operation.CLUSTER_ACTION):

        def may(
            _context: RequestContext, operation: Operation, _resource: Resource, allowed: Operation = allowed
        ) -> bool:
            return operation is allowed

        answer = With(authorize=may).ask(Api.WRITE_TXN_MARKERS, 1, **markers(1, [0]))
        assert code(answer.markers[0].topics[0].partitions[0].error_code) == 0
