"""The Kafka adapter against a real Muster cluster and a real Apache Kafka broker: same questions, same answers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from muster_operator.kafka.adapter import KafkaAdapter
from muster_operator.kafka.clients import Clients
from muster_operator.runtime.clock import SystemClock
from muster_operator.world.group import Leaver, ObservedGroup
from muster_operator.world.views import Unknown

from tests.cluster import MusterCluster
from tests.machine_parts import require
from tests.operator.kafka.sweeping import swept

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(240),
    # kafka-python leaves sockets to the collector; see `swept`.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
PARTITIONS, RECORDS = 3, 30


@pytest.fixture(scope="module", params=["muster", pytest.param("kafka", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp(request.param) / "data"
    if request.param == "muster":
        with MusterCluster(folder, partitions=8) as cluster:
            prepare(cluster.bootstrap)
            yield cluster.bootstrap
        return
    from tests.kafka_broker import KafkaBroker

    require("java")
    with KafkaBroker(folder) as broker:
        prepare(broker.bootstrap)
        yield broker.bootstrap


@swept()
def prepare(bootstrap: str) -> None:
    """`orders` with records, and two groups, each of a static member g-0 that has read and committed everything."""
    import kafka
    from kafka.admin import NewTopic

    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    admin.create_topics([NewTopic("orders", PARTITIONS, 1)])
    admin.close()
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap.split(","))
    for number in range(RECORDS):
        producer.send("orders", b"x", partition=number % PARTITIONS).get(30)
    producer.close()
    for group in ("g", "leaving"):
        consume_all(bootstrap, group)


def consume_all(bootstrap: str, group: str) -> None:
    import kafka

    consumer = kafka.KafkaConsumer(
        "orders", bootstrap_servers=bootstrap.split(","), group_id=group, group_instance_id="g-0", client_id="worker",
        auto_offset_reset="earliest", enable_auto_commit=False, session_timeout_ms=45_000, request_timeout_ms=60_000,
    )  # fmt: skip
    read = 0
    for _ in range(120):
        read += sum(len(batch) for batch in consumer.poll(timeout_ms=500).values())
        if read == RECORDS:
            break
    assert read == RECORDS
    consumer.commit()
    consumer.close(autocommit=False)  # a static member does not leave: the coordinator keeps it


def ask(question: Callable[[KafkaAdapter], Awaitable[Any]]) -> Any:
    async def scene() -> Any:
        adapter = KafkaAdapter(Clients(SystemClock()))
        try:
            return await question(adapter)
        finally:
            await adapter.close()

    with swept():
        return asyncio.run(scene())


def test_a_group_with_members_offsets_and_ends(bootstrap: str) -> None:
    view = ask(lambda it: it.group(bootstrap=bootstrap, group_id="g", topics=["orders", "no-such-topic"]))
    assert isinstance(view, ObservedGroup), view
    assert (view.state, view.protocol_type) == ("Stable", "consumer")
    (member,) = view.members
    assert (member.instance_id, member.client_id) == ("g-0", "worker")
    assert member.assignment == (("orders", (0, 1, 2)),)
    found = [(one.topic, one.partition, one.committed, one.log_end) for one in view.partitions]
    assert found == [("orders", number, 10, 10) for number in range(PARTITIONS)]
    assert view.coordinator.endswith(")")


def test_a_group_that_nobody_joined_has_ends_and_no_commits(bootstrap: str) -> None:
    view = ask(lambda it: it.group(bootstrap=bootstrap, group_id="nobody", topics=["orders"]))
    assert isinstance(view, ObservedGroup), view
    assert (view.state, view.members) == ("Dead", ())
    assert {(one.committed, one.log_end) for one in view.partitions} == {(None, 10)}


def test_many_groups_are_asked_in_few_batches(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from muster_operator.kafka import questions

    batches: list[int] = []
    plain = questions.groups

    def counted(admin: Any, wanted: Any) -> Any:
        batches.append(len(wanted))
        return plain(admin, wanted)

    monkeypatch.setattr(questions, "groups", counted)

    async def many(it: KafkaAdapter) -> list[Any]:
        return list(
            await asyncio.gather(
                *(it.group(bootstrap=bootstrap, group_id=f"g{n}", topics=["orders"]) for n in range(150))
            )
        )

    answers = ask(many)
    assert all(isinstance(one, ObservedGroup) for one in answers), answers[0]
    assert sum(batches) == 150
    assert len(batches) <= 3


def test_a_member_is_removed_and_nobody_else_who_holds_its_instance_id(bootstrap: str) -> None:
    """Asking again is harmless."""

    async def twice(it: KafkaAdapter) -> Any:
        found = await it.group(bootstrap=bootstrap, group_id="leaving", topics=["orders"])
        (member,) = found.members
        another = Leaver(instance_id="g-0", member_id=f"{member.member_id}-of-before")
        await it.remove_members(bootstrap=bootstrap, group_id="leaving", members=[another])
        still = await it.group(bootstrap=bootstrap, group_id="leaving", topics=["orders"])
        assert still.members == found.members
        for _ in range(2):
            leaver = Leaver(instance_id="g-0", member_id=member.member_id)
            await it.remove_members(bootstrap=bootstrap, group_id="leaving", members=[leaver])
        return await it.group(bootstrap=bootstrap, group_id="leaving", topics=["orders"])

    view = ask(twice)
    assert isinstance(view, ObservedGroup), view
    assert (view.state, view.members) == ("Empty", ())
    assert {one.committed for one in view.partitions} == {10}


def test_a_cluster_that_does_not_answer_is_unknown_for_all_its_groups_at_once() -> None:
    """And in the same words each time: a message that alternates would be a status write each time."""

    async def two(it: KafkaAdapter) -> list[Any]:
        asked = [it.group(bootstrap="127.0.0.1:1", group_id=name, topics=["orders"]) for name in ("a", "b")]
        at_once = list(await asyncio.gather(*asked))
        return [*at_once, await it.group(bootstrap="127.0.0.1:1", group_id="c", topics=["orders"])]

    answers = ask(two)
    assert all(isinstance(one, Unknown) for one in answers)
    assert {(one.reason, one.message) for one in answers} == {
        ("BootstrapUnreachable", "no broker answers at 127.0.0.1:1")
    }
