"""`muster transactions`: which transactions hang is Kafka's rule (TransactionsCommand, KIP-664), and only those are
aborted. That a cluster does it, beside Kafka's own tool, is in `integration/test_hanging_transactions`."""

import json
from typing import Any

import kafka
import pytest
from kafka.admin import AbortTransactionSpec
from kafka.admin._transactions import (
    PartitionProducerState,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from muster_coordinator.cli import kafka_client, transactions
from muster_coordinator.cli.exits import Exit

NOW_MS = 10_000_000
MINUTE_MS = 60_000
Place = tuple[str, int]


def producer(number: int, start: int, *, minutes: float = 20, epoch: int = 3, coordinator: int = 7) -> ProducerState:
    return ProducerState(number, epoch, 0, NOW_MS - int(minutes * MINUTE_MS), coordinator, start)


class Admin:
    """A cluster of brokers 1 and 2, of which the first has replicas of partition 0 of each topic."""

    def __init__(self) -> None:
        self.producers: dict[Place, list[ProducerState]] = {}
        self.ids: dict[str, tuple[int, set[Place]]] = {}
        """Transactional id -> its producer, and partitions without their markers."""
        self.gone: set[str] = set()
        """Listed, and expired when they are described."""
        self.ends_when_listed: Place | None = None
        self.asked: list[Any] = []
        self.aborted: list[AbortTransactionSpec] = []
        self.silent = -1

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": 1, "is_fenced": False}, {"broker_id": 2, "is_fenced": False}]}

    def describe_topics(self, names: list[str] | None = None) -> list[dict[str, Any]]:
        places = sorted({topic for topic, _ in self.producers})
        return [
            {
                "name": topic,
                "error_code": 0,
                "is_internal": topic.startswith("__"),
                "partitions": [
                    {"partition_index": number, "replica_nodes": [1, 2] if number == 0 else [2]}
                    for name, number in sorted(self.producers)
                    if name == topic
                ],
            }
            for topic in places
            if names is None or topic in names
        ] or [{"name": names[0] if names else "", "error_code": 3, "partitions": [], "is_internal": False}]

    def describe_producers(self, partitions: list[Any], broker_id: int | None) -> dict[Any, PartitionProducerState]:
        self.asked.append((broker_id, sorted(tuple(one) for one in partitions)))
        return {one: PartitionProducerState(self.producers[tuple(one)]) for one in partitions}

    def list_transactions(
        self,
        broker_ids: list[int] | None = None,
        producer_id_filters: list[int] | None = None,
        duration_filter_ms: int | None = None,
    ) -> dict[int, list[TransactionListing]]:
        if self.silent in (broker_ids or (1, 2)):
            raise kafka.errors.ClusterAuthorizationFailedError
        if self.ends_when_listed is not None:
            self.producers[self.ends_when_listed] = []
        found = [
            TransactionListing(name, number, TransactionState.ONGOING)
            for name, (number, _) in self.ids.items()
            if producer_id_filters is None or number in producer_id_filters
        ]
        return {1: found, 2: []} if broker_ids is None else {broker_ids[0]: found if broker_ids == [1] else []}

    def describe_transactions(self, names: list[str]) -> dict[str, TransactionDescription]:
        (name,) = names
        if name in self.gone or name not in self.ids:
            raise kafka.errors.TransactionalIdNotFoundError
        number, places = self.ids[name]
        found = {kafka.TopicPartition(*place) for place in places}
        return {name: TransactionDescription(1, TransactionState.ONGOING, number, 3, 60_000, NOW_MS - 5, found)}

    def abort_transaction(self, spec: AbortTransactionSpec) -> None:
        self.aborted.append(spec)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    one = Admin()
    monkeypatch.setattr(kafka_client.KafkaSide, "_client", lambda side, deadline: one)
    monkeypatch.setattr(transactions, "_wall_ms", lambda: NOW_MS)
    return one


def hanging(muster: Any, *arguments: str) -> list[tuple[str, int, int, int]]:
    ran = muster("transactions", "find-hanging", "-o", "json", *arguments)
    assert ran.code == Exit.OK, ran.err
    return [(one["topic"], one["partition"], one["producer_id"], one["start_offset"]) for one in json.loads(ran.out)]


def test_one_of_which_no_coordinator_knows_hangs(muster: Any, admin: Admin) -> None:
    admin.producers = {("t", 0): [producer(1, 40), producer(2, -1)], ("t", 1): [producer(3, 8)]}
    assert hanging(muster, "--topic", "t") == [("t", 0, 1, 40), ("t", 1, 3, 8)]


def test_one_whose_coordinator_owes_the_partition_a_marker_does_not(muster: Any, admin: Admin) -> None:
    admin.producers = {("t", 0): [producer(1, 40)], ("t", 1): [producer(1, 8)]}
    admin.ids = {"app": (1, {("t", 0)})}
    assert hanging(muster, "--topic", "t") == [("t", 1, 1, 8)]


def test_one_whose_id_expired_between_two_questions_hangs(muster: Any, admin: Admin) -> None:
    admin.producers = {("t", 0): [producer(1, 40)]}
    admin.ids, admin.gone = {"app": (1, {("t", 0)})}, {"app"}
    assert hanging(muster, "--topic", "t") == [("t", 0, 1, 40)]


def test_a_young_one_is_not_asked_about(muster: Any, admin: Admin) -> None:
    """Older than the limit, not as old as it."""
    admin.producers = {("t", 0): [producer(1, 40, minutes=15), producer(2, 44, minutes=15.001)]}
    assert hanging(muster, "--topic", "t") == [("t", 0, 2, 44)]
    assert hanging(muster, "--topic", "t", "--max-transaction-timeout", "16") == []


def test_a_broker_is_asked_about_its_own_replicas_and_not_about_internal_topics(muster: Any, admin: Admin) -> None:
    admin.producers = {("__own", 0): [producer(9, 1)], ("t", 0): [producer(1, 40)], ("t", 1): [producer(3, 8)]}
    assert hanging(muster, "--broker-id", "1") == [("t", 0, 1, 40)]
    assert admin.asked == [(1, [("t", 0)])]
    assert hanging(muster, "--topic", "__own", "--partition", "0") == [("__own", 0, 9, 1)]


def test_many_partitions_are_asked_about_in_parts(muster: Any, admin: Admin) -> None:
    admin.producers = {("t", number): [] for number in range(1_001)} | {("t", 1_001): [producer(1, 40)]}
    assert hanging(muster, "--topic", "t") == [("t", 1_001, 1, 40)]
    assert [len(partitions) for _, partitions in admin.asked] == [500, 500, 2]


def test_where_to_search_must_be_said(muster: Any, admin: Admin) -> None:
    assert muster("transactions", "find-hanging").code == Exit.USAGE
    assert muster("transactions", "find-hanging", "--broker-id", "1", "--partition", "0").code == Exit.USAGE
    assert muster("transactions", "find-hanging", "--topic", "nowhere").code == Exit.NOT_FOUND


def test_without_all_coordinators_nothing_is_said_to_hang(muster: Any, admin: Admin) -> None:
    admin.producers, admin.silent = {("t", 0): [producer(1, 40)]}, 2
    ran = muster("transactions", "find-hanging", "--topic", "t")
    assert (ran.code, ran.out) == (Exit.REFUSED, "")


def test_the_abort_names_producer_epoch_and_coordinators_epoch(muster: Any, admin: Admin) -> None:
    admin.producers = {("t", 4): [producer(1, 40), producer(2, 44, epoch=32_767, coordinator=-1)]}
    for start in ("40", "44"):
        ran = muster("transactions", "abort", "--topic", "t", "--partition", "4", "--start-offset", start)
        assert ran.code == Exit.OK, ran.err
    place = ("t", 4)
    assert [(tuple(one.topic_partition), *one[1:]) for one in admin.aborted] == [
        (place, 1, 3, 7),
        (place, 2, 32_767, 0),
    ]


def test_one_that_does_not_hang_is_aborted_by_force_only(muster: Any, admin: Admin) -> None:
    admin.producers, admin.ids = {("t", 0): [producer(1, 40)]}, {"app": (1, {("t", 0)})}
    words = ("transactions", "abort", "--topic", "t", "--partition", "0", "--start-offset", "40")
    ran = muster(*words)
    assert (ran.code, "'app'" in ran.err, admin.aborted) == (Exit.REFUSED, True, []), ran.err
    assert muster(*words, "--force").code == Exit.OK
    assert len(admin.aborted) == 1


def test_one_that_ended_before_its_coordinator_was_asked_is_not_aborted(muster: Any, admin: Admin) -> None:
    """The next one of that producer may be open by then, and must not get this marker."""
    admin.producers, admin.ends_when_listed = {("t", 0): [producer(1, 40)]}, ("t", 0)
    ran = muster("transactions", "abort", "--topic", "t", "--partition", "0", "--start-offset", "40")
    assert (ran.code, admin.aborted) == (Exit.NOT_FOUND, [])


def test_nothing_begins_there(muster: Any, admin: Admin) -> None:
    admin.producers = {("t", 0): [producer(1, 40), producer(2, -1)]}
    for start in ("0", "41"):
        ran = muster("transactions", "abort", "--topic", "t", "--partition", "0", "--start-offset", start, "--force")
        assert (ran.code, f"offset {start} of t-0" in ran.err) == (Exit.NOT_FOUND, True)


def test_ids_of_all_brokers_are_listed_and_a_silent_one_is_named(muster: Any, admin: Admin) -> None:
    admin.ids = {"b": (2, set()), "a": (1, set())}
    ran = muster("transactions", "list", "-o", "json")
    row = {"transactional_id": "a", "coordinator": 1, "producer_id": 1, "transaction_state": "Ongoing"}
    assert (ran.code, json.loads(ran.out)[0], len(json.loads(ran.out))) == (Exit.OK, row, 2)
    assert muster("transactions", "list").out.split()[:4] == [
        "TransactionalId", "Coordinator", "ProducerId", "TransactionState",
    ]  # fmt: skip
    admin.silent = 2
    ran = muster("transactions", "list", "-o", "json")
    assert (ran.code, "broker 2" in ran.err, len(json.loads(ran.out))) == (Exit.INCOMPLETE, True, 2)


def test_one_id_is_described_with_its_age(muster: Any, admin: Admin) -> None:
    admin.ids = {"app": (1, {("t", 1), ("t", 0)})}
    (row,) = json.loads(muster("transactions", "describe", "--transactional-id", "app", "-o", "json").out)
    assert (row["transaction_duration_ms"], row["topic_partitions"]) == (5, ["t-0", "t-1"])
    gone = muster("transactions", "describe", "--transactional-id", "other")
    assert (gone.code, gone.err) == (Exit.NOT_FOUND, "muster: cannot describe 'other': no such transactional id\n")


def test_producers_without_an_open_transaction_have_no_start(muster: Any, admin: Admin) -> None:
    admin.producers = {("t", 0): [producer(5, -1), producer(1, 40)]}
    ran = muster("transactions", "describe-producers", "--topic", "t", "--partition", "0", "-o", "json")
    starts = [(one["producer_id"], one["current_transaction_start_offset"]) for one in json.loads(ran.out)]
    assert starts == [(1, 40), (5, None)]
