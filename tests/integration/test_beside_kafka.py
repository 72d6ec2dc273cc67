"""Groups beside a real Kafka: members of each client, whose records are Kafka's and whose coordinator is ours.

One broker of Kafka with room for ids 0 to 8, three replicas of ours. No client is ever told Kafka's own address: its
port has connections of our replicas only, counted on the sockets of this machine.
"""

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from muster_coordinator.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from muster_coordinator.upstream.apis import FORWARDED, READDRESSED
from muster_coordinator.upstream.limits import LOOK_MS
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.certificates import Authority
from tests.clients.conftest import CLIENTS
from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.fuzz.wires import Wires
from tests.integration.connections import processes_connected_to
from tests.integration.second_client import SecondClient
from tests.kafka_broker import KafkaBroker
from tests.wire.test_connection import raw

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.timeout(400)]
PATIENCE_S = 90.0
PARTITIONS = 4
BASE = 1_000_000
AWAY_S = 4.0
NAMES = ("librdkafka", "kafka-python", "aiokafka", "java")
CLOSED = re.compile(r'^muster_events_total\{event="connection closed"\} (\S+)$', re.MULTILINE)


class World(NamedTuple):
    kafka: KafkaBroker
    cluster: MusterCluster
    truststore: Path

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})

    def groups_of_kafka(self) -> list[str]:
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap, "log_level": 0})
        return [group.group_id for group in admin.list_consumer_groups().result(PATIENCE_S).valid]

    def create(self, topic: str, partitions: int = PARTITIONS) -> str:
        admin = self.admin()
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_S)
        return topic

    def fill(self, topic: str, partitions: int, count: int) -> None:
        """`count` records into each partition, by an idempotent producer."""
        failed: list[object] = []
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
        for partition in range(partitions):
            for number in range(count):
                producer.produce(
                    topic,
                    str(number).encode(),
                    key=f"{partition}-{number}",
                    partition=partition,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )
        assert (producer.flush(PATIENCE_S), failed) == (0, [])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("beside")
    keystore, truststore = folder / "kafka.pem", folder / "ca.pem"
    authority = Authority()
    issued = authority.issue("kafka")
    keystore.write_text(issued.key_pem() + issued.pem)
    truststore.write_text(authority.pem)
    closed = {
        "listener.name.closed.ssl.keystore.type": "PEM",
        "listener.name.closed.ssl.keystore.location": str(keystore),
        "listener.name.closed.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.closed.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_muster="canary";',
        "listener.name.closed.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }
    with KafkaBroker(folder / "kafka", closed, {"CLOSED": "SASL_SSL"}) as kafka:
        settings = {"topics.mode": "kafka", "upstream.bootstrap.servers": kafka.bootstrap}
        with MusterCluster(folder / "muster", partitions=8, settings=settings) as cluster:
            made = World(kafka, cluster, truststore)
            wait_until("the upstream is reached", lambda: _offered(cluster), PATIENCE_S)
            yield made


def _offered(cluster: MusterCluster) -> bool:
    try:
        for replica in range(cluster.replicas):
            client = SecondClient(cluster.client_port(replica))
            try:
                client.ask("ApiVersions", 0)
            finally:
                client.close()
    except (AssertionError, OSError):
        return False
    return True


@pytest.fixture
def member(world: World) -> Iterator[Callable[..., Member]]:
    members: list[Member] = []

    def make(client: str, **settings: Any) -> Member:
        members.append(Member(client, bootstrap=world.cluster.bootstrap, **settings))
        return members[-1]

    yield make
    for one in members:
        one.dispose()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_reads_what_is_in_kafka_and_its_offsets_are_ours(
    world: World, member: Callable[..., Member], client: str
) -> None:
    topic, group = world.create(f"orders-{client}"), f"group-{client}"
    world.fill(topic, PARTITIONS, 25)
    settings = {"group": group, "topics": [topic]}
    first, second = member(client, **settings), member(client, **settings)
    first.wait("two partitions each", lambda _: sorted((len(first.assigned), len(second.assigned))) == [2, 2], 90)
    first.wait("all records between them", lambda m: len({r[:3] for r in m.records + second.records}) == 100, 60)
    for one in (first, second):
        assert one.commit()["e"] == "committed"
    # The coordinator dies; whoever follows has the offsets, and the members stay.
    coordinator = _coordinator(world, group)
    world.cluster.kill(coordinator)
    try:
        world.fill(topic, PARTITIONS, 5)
        first.wait("the next records", lambda m: len({r[:3] for r in m.records + second.records}) == 120, 60)
        for one in (first, second):
            wait_until("a commit of the next coordinator", lambda o=one: o.commit()["e"] == "committed", 60, every=0.5)
    finally:
        world.cluster.start_replica(coordinator)
    replicas = {world.cluster.pid(replica) for replica in range(world.cluster.replicas)}
    # This process asks Kafka itself, and a broker writes a transaction's markers to itself.
    assert processes_connected_to(world.kafka.port) - {os.getpid(), world.kafka.pid} <= replicas
    for one in (first, second):
        one.leave()
    third = member(client, **settings)
    third.wait_owns(PARTITIONS, 60)
    assert third.committed(*((topic, p) for p in range(PARTITIONS))) == {(topic, p): 30 for p in range(PARTITIONS)}
    assert world.groups_of_kafka() == []


def _coordinator(world: World, group: str) -> int:
    def found() -> int | None:
        client = SecondClient(world.cluster.client_port(next(world.cluster.alive())))
        try:
            (one,) = client.ask("FindCoordinator", 4, coordinator_keys=[group], key_type=0).coordinators
        finally:
            client.close()
        return None if one.error_code else one.node_id - BASE + 1  # 0 is true, too

    return int(wait_until("a coordinator", found, PATIENCE_S)) - 1


def test_every_address_in_an_answer_is_ours(world: World) -> None:
    ours = {world.cluster.port + offset for offset in range(3)}
    ours |= {world.cluster.port + 400 + 10 * replica + place for replica in range(3) for place in range(9)}
    for replica in range(world.cluster.replicas):
        client = SecondClient(world.cluster.client_port(replica))
        for version in range(14):
            told = {(b.node_id, b.host, b.port) for b in client.ask("Metadata", version, topics=[]).brokers}
            assert {port for _, _, port in told} <= ours
            assert {node for node, _, _ in told} == {1, BASE, BASE + 1, BASE + 2}
        for version in range(3):
            told = {(b.broker_id, b.host, b.port) for b in client.ask("DescribeCluster", version).brokers}
            assert {port for _, _, port in told} <= ours
        for key_type in (0, 1):

            def found(kind: int = key_type, asker: SecondClient = client) -> Any:
                (one,) = asker.ask("FindCoordinator", 4, coordinator_keys=["k"], key_type=kind).coordinators
                return one if one.error_code == 0 else None

            one = wait_until("a coordinator", found, PATIENCE_S, every=0.5)
            assert one.port in ours
            assert (one.node_id >= BASE) is (key_type == 0)
        client.close()


def test_bytes_that_are_no_request_end_their_connection_and_no_replica(world: World) -> None:
    """Nobody reads them before Kafka does, which closes the connection on which they came; then our side has to say
    what it can without it."""
    cluster = world.cluster
    pids = [cluster.pid(replica) for replica in range(cluster.replicas)]
    draws = Random(21)
    ports = [cluster.client_port(replica) for replica in range(cluster.replicas)]
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(contextlib.closing(Wires(port))) for port in (*ports, cluster.port + 400 + 1)]
        for api, high in {**FORWARDED, **READDRESSED, int(Api.FIND_COORDINATOR): 6}.items():
            for version in {VERSIONS[api].advertised_min, high}:
                for body in (b"", b"\xff", b"\xff" * 40, draws.randbytes(9)):
                    for wire in wires:
                        wire.send(raw(api, version, body), sane=False)
        for replica in range(cluster.replicas):
            client = stack.enter_context(contextlib.closing(SecondClient(cluster.client_port(replica))))
            assert client.ask("Metadata", 9, topics=[]).brokers
    assert [cluster.pid(replica) for replica in range(cluster.replicas)] == pids
    for replica in range(cluster.replicas):
        wait_until(f"replica {replica} is ready", lambda at=replica: cluster.probe(at, "/readyz") == 200, PATIENCE_S)


def test_topics_are_administered_through_it(world: World) -> None:
    admin, topic = world.admin(), world.create("administered", 2)
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE_S)
    entry = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)

    def retention_ms() -> str:
        asked = ConfigResource(ResourceType.TOPIC, topic)
        return str(admin.describe_configs([asked])[asked].result(PATIENCE_S)["retention.ms"].value)

    # A broker of Kafka has what the controller has decided a moment later.
    wait_until("the config", lambda: retention_ms() == "123456", PATIENCE_S, every=0.5)
    of_kafka = AdminClient({"bootstrap.servers": world.kafka.bootstrap, "log_level": 0})

    def partitions() -> int:
        return len(of_kafka.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)

    wait_until("five partitions", lambda: partitions() == 5, PATIENCE_S, every=0.5)
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    wait_until("it is gone", lambda: topic not in of_kafka.list_topics(timeout=PATIENCE_S).topics, PATIENCE_S)


def test_a_transaction_is_kafkas_and_a_groups_offsets_in_it_are_refused(world: World) -> None:
    topic = world.create("transactional", 1)
    producer = Producer({"bootstrap.servers": world.cluster.bootstrap, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"committed")
    producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"aborted")
    consumer = Consumer({"bootstrap.servers": world.cluster.bootstrap, "group.id": "copier", "log_level": 0})
    consumer.subscribe([topic])
    wait_until("a member", lambda: consumer.poll(0.2) is None and consumer.assignment(), PATIENCE_S, every=0)
    with pytest.raises(KafkaException) as refused:
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], consumer.consumer_group_metadata(), 30)
    assert refused.value.args[0].code() == 43
    consumer.close()
    reader = Consumer(
        {
            "bootstrap.servers": world.cluster.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest",
            "isolation.level": "read_committed", "log_level": 0,
        }
    )  # fmt: skip
    reader.subscribe([topic])
    read: list[bytes | None] = []

    def enough() -> bool:
        message = reader.poll(0.2)
        if message is not None and message.error() is None:
            read.append(message.value())
        return len(read) >= 1

    wait_until("the committed record", enough, PATIENCE_S, every=0)
    assert read == [b"committed"]
    reader.close()


def test_groups_live_on_while_kafka_is_away_and_records_come_back_with_it(world: World) -> None:
    topic = world.create("away", 1)
    world.fill(topic, 1, 3)
    lost: list[object] = []
    consumer = Consumer(
        {
            "bootstrap.servers": world.cluster.bootstrap, "group.id": "patient", "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "session.timeout.ms": 10_000, "log_level": 0,
        }
    )  # fmt: skip
    # Not 6 s: librdkafka gives its session up when no heartbeat was answered for so long, and they are 3 s apart and
    # wait behind commits. So an answer 3 s late, on a busy machine, was the end of it, whatever Kafka did.
    consumer.subscribe([topic], on_revoke=lambda _, gone: lost.extend(gone), on_lost=lambda _, gone: lost.extend(gone))
    read: list[bytes | None] = []

    def reads(count: int) -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            read.append(message.value())
        return len(read) >= count

    wait_until("three records", lambda: reads(3), PATIENCE_S, every=0)
    looked_s = time.monotonic() + 2 * LOOK_MS / 1_000
    wait_until("each replica has looked", lambda: time.monotonic() > looked_s, 60)
    world.kafka.kill()
    try:
        began_s, commits = time.monotonic(), 0
        while time.monotonic() - began_s < 14:  # longer than a session
            commits += 1
            consumer.commit(offsets=[TopicPartition(topic, 0, commits % 3)], asynchronous=False)
            consumer.poll(0.1)
        assert not lost
        assert commits > 50
    finally:
        world.kafka.start()
    world.fill(topic, 1, 2)
    wait_until("the next records", lambda: reads(5), PATIENCE_S, every=0)
    assert not lost
    consumer.close()
    events = [world.cluster.metrics(replica) for replica in range(world.cluster.replicas)]
    assert all('muster_events_total{event="upstream not reached"}' in text for text in events)


def test_clients_of_a_broker_that_is_away_come_seldom_and_their_requests_reach_it_when_it_is_back(world: World) -> None:
    """Where a replica stands for a dead broker it must look as dead, though it accepts connections."""
    topic, admin = world.create("seldom"), world.admin()
    members = [Member(client, bootstrap=world.cluster.bootstrap, group=client, topics=[topic]) for client in NAMES]
    try:
        for one in members:
            one.wait("all partitions", lambda m: len(m.assigned) == PARTITIONS, PATIENCE_S)
        admin.list_topics(topic, PATIENCE_S)
        world.kafka.kill()
        try:
            before, until_s = _closed_connections(world.cluster), time.monotonic() + AWAY_S
            wait_until("they have tried", lambda: time.monotonic() > until_s, PATIENCE_S)
            closed = _closed_connections(world.cluster) - before
            grown = admin.create_partitions([NewPartitions(topic, PARTITIONS + 1)])[topic]
            until_s = time.monotonic() + 1
            wait_until("the request is on its way", lambda: grown.done() or time.monotonic() > until_s, PATIENCE_S)
            assert not grown.done(), grown.exception()
        finally:
            world.kafka.start()
        grown.result(PATIENCE_S)
    finally:
        for one in members:
            one.dispose()
    # aiokafka and kafka-python try ten times a second at most, the others less.
    assert closed < AWAY_S * 10 * len(members)


def _closed_connections(cluster: MusterCluster) -> float:
    texts = [cluster.metrics(replica) for replica in range(cluster.replicas)]
    return sum(float(count) for text in texts for count in CLOSED.findall(text))


def test_a_commit_for_what_kafka_does_not_have_is_refused(world: World) -> None:
    topic = world.create("two-partitions", 2)
    consumer = Consumer({"bootstrap.servers": world.cluster.bootstrap, "group.id": "careless", "log_level": 0})

    def refused(name: str, partition: int) -> int:
        """The code of a commit; 0: it was taken."""
        try:
            (one,) = consumer.commit(offsets=[TopicPartition(name, partition, 1)], asynchronous=False)
        except KafkaException as error:
            return int(error.args[0].code())
        return int(one.error.code()) if one.error else 0

    # Made a moment ago, and of partitions that came a moment ago.
    wait_until("a commit", lambda: refused(topic, 1) == 0, PATIENCE_S, every=0.5)
    absent = KafkaError.UNKNOWN_TOPIC_OR_PART
    assert [refused(topic, 2), refused("no-such-topic", 0)] == [absent, absent]
    admin = world.admin()
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
    assert refused(topic, 2) == 0
    consumer.close()


def test_offsets_of_a_topic_that_is_deleted_go_with_it_and_its_successor_has_its_own(world: World) -> None:
    topic = world.create("replaced", 1)
    consumer = Consumer({"bootstrap.servers": world.cluster.bootstrap, "group.id": "successor", "log_level": 0})

    def commit(offset: int) -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException:
            return False
        return True

    def committed() -> int:
        """Asked again where the group has just got another coordinator, as the client does not by itself."""

        def ask() -> tuple[int] | None:
            try:
                (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
            except KafkaException:
                return None
            return None if found.error else (int(found.offset),)

        told: tuple[int] = wait_until("committed offsets", ask, PATIENCE_S, every=0.5)
        return told[0]

    wait_until("a commit", lambda: commit(7), PATIENCE_S, every=0.5)
    # What was committed after a look that was the last before the deletion stays: so more than one look, also of a
    # replica that is late.
    looked_s = time.monotonic() + 4 * LOOK_MS / 1_000
    wait_until("each replica has looked", lambda: time.monotonic() > looked_s, 60)
    assert committed() == 7
    admin = world.admin()
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    wait_until("its offset is gone", lambda: committed() < 0, PATIENCE_S, every=0.5)
    wait_until("its successor", lambda: _created(world, topic), PATIENCE_S, every=0.5)
    wait_until("a commit", lambda: commit(3), PATIENCE_S, every=0.5)
    looked_s = time.monotonic() + 4 * LOOK_MS / 1_000
    wait_until("each replica has looked", lambda: time.monotonic() > looked_s, 60)
    assert committed() == 3
    consumer.close()


def _created(world: World, topic: str) -> bool:
    try:
        world.create(topic, 1)
    except KafkaException:
        return False
    return True


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_kafka_that_wants_tls_and_a_login(world: World, tmp_path: Path, mechanism: str) -> None:
    if mechanism != "PLAIN":
        _make_user(world, "muster", b"canary")
    topic = world.create(f"closed-{mechanism.lower()}", 1)
    world.fill(topic, 1, 3)
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    settings = {
        "topics.mode": "kafka",
        "upstream.bootstrap.servers": f"localhost:{world.kafka.ports['CLOSED']}",
        "upstream.security.protocol": "SASL_SSL",
        "upstream.ssl.truststore.location": str(world.truststore),
        "upstream.sasl.mechanism": mechanism,
        "upstream.sasl.jaas.config": f'{module} required username="muster" password="canary";',
    }
    with MusterCluster(tmp_path / "right", replicas=1, partitions=4, settings=settings) as cluster:
        wait_until("the upstream is reached", lambda: _offered(cluster), PATIENCE_S)
        made = world._replace(cluster=cluster)
        made.fill(topic, 1, 2)
        assert _read(cluster, topic, 5) == [b"0", b"1", b"2", b"0", b"1"]
    wrong = {**settings, "upstream.sasl.jaas.config": f'{module} required username="muster" password="no canary";'}
    with MusterCluster(tmp_path / "wrong", replicas=1, partitions=4, settings=wrong) as cluster:
        said = "refuses the user muster"
        log = cluster.folder / "replica-0" / "server.log"
        wait_until(said, lambda: said in log.read_text(), PATIENCE_S)
        assert not _offered(cluster)


def _make_user(world: World, user: str, password: bytes) -> None:
    admin = AdminClient({"bootstrap.servers": world.kafka.bootstrap, "log_level": 0})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion(user, info, password=password)
    admin.alter_user_scram_credentials([wanted])[user].result(PATIENCE_S)


def _read(cluster: MusterCluster, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "log_level": 0,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    read: list[bytes | None] = []

    def enough() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            read.append(message.value())
        return len(read) >= count

    wait_until(f"{count} records", enough, PATIENCE_S, every=0)
    consumer.commit(asynchronous=False)
    consumer.close()
    return read
