"""Our ACLs in front of a real Kafka (ADR 101), beside that Kafka's own StandardAuthorizer with the same ACLs.

One broker of Kafka, which judges who comes to it directly and trusts the replicas; three replicas of ours, by which all
clients are one user there. The same request of the same user goes both ways, and both have to say the same.
"""

import contextlib
import dataclasses
import json
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from muster_coordinator.security.jaas import PLAIN_MODULE
from muster_coordinator.settings import STANDARD_AUTHORIZER
from muster_coordinator.upstream.apis import JUDGED
from muster_coordinator.wire.schema import schema
from muster_coordinator.wire.versions import Api

from tests.certificates import Authority
from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.integration.connections import processes_connected_to
from tests.integration.test_sasl_clients import CLIENTS
from tests.kafka_broker import KafkaBroker
from tests.upstream.rights.frames import of_theirs
from tests.wire.kio_entities import decode_answer, encode_request

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.timeout(400)]

PATIENCE_S = 90.0
PARTITIONS = 2
ADMIN, ALICE = "admin", "alice"
MINE, THEIRS = "mine-one", "theirs-one"
PLAIN = " ".join(f'user_{user}="canary-{user}"' for user in (ADMIN, ALICE))


class World(NamedTuple):
    kafka: KafkaBroker
    cluster: MusterCluster
    ca: Path

    def login(self, user: str, *, directly: bool = False) -> dict[str, Any]:
        """For clients of librdkafka, at ours or at Kafka itself."""
        return {
            "bootstrap.servers": f"localhost:{self.kafka.ports['CLOSED']}" if directly else self.cluster.bootstrap,
            "security.protocol": "SASL_SSL", "ssl.ca.location": str(self.ca), "sasl.mechanism": "PLAIN",
            "sasl.username": user, "sasl.password": f"canary-{user}", "error_cb": lambda _: None, "log_level": 0,
        }  # fmt: skip

    def both(self, user: str) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.login(user), self.login(user, directly=True)

    def allow(self, kind: ResourceType, operation: AclOperation, name: str = "mine") -> AclBinding:
        """To `ALICE`, for what begins so, here and there."""
        acl = AclBinding(
            kind, name, ResourcePatternType.PREFIXED, f"User:{ALICE}", "*", operation, AclPermissionType.ALLOW
        )
        for who in self.both(ADMIN):
            admin = AdminClient(who)
            for future in admin.create_acls([acl]).values():
                future.result(PATIENCE_S)
        return acl


class Line:
    """A connection by hand, of a user of PLAIN."""

    def __init__(self, world: World, port: int, user: str) -> None:
        context = ssl.create_default_context(cafile=str(world.ca))
        line = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket = context.wrap_socket(line, server_hostname="localhost")
        self.read = self.socket.makefile("rb")
        self.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        shown = f"\0{user}\0canary-{user}".encode()
        assert self.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=shown).error_code.value == 0

    def ask(self, api: Api, version: int, **values: Any) -> Any:
        """Raises EOFError once the connection is closed."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(encode_request(api, version, values, 7, "by-hand"))
        size = self.read.read(4)
        if not size:
            raise EOFError
        return decode_answer(api, version, size + self.read.read(int.from_bytes(size, "big")))[1]

    def close(self) -> None:
        self.read.close()
        self.socket.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("acls-before")
    authority, secret = Authority(), folder / "secret"
    crt, key = authority.issue("server", ("127.0.0.1", "localhost")).write(secret)
    keystore, ca = folder / "kafka.pem", folder / "ca.pem"
    keystore.write_text(key.read_text() + crt.read_text())
    ca.write_text(authority.pem)
    closed = {
        "listener.name.closed.ssl.keystore.type": "PEM",
        "listener.name.closed.ssl.keystore.location": str(keystore),
        "listener.name.closed.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.closed.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {PLAIN};",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:ANONYMOUS;User:{ADMIN}",
    }
    with KafkaBroker(folder / "kafka", closed, {"CLOSED": "SASL_SSL"}) as kafka:
        settings = {
            "topics.mode": "kafka",
            "upstream.bootstrap.servers": kafka.bootstrap,
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{ADMIN}",
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {PLAIN};",
            "ssl.keystore.certificate.chain": str(crt),
            "ssl.keystore.key": str(key),
            "group.initial.rebalance.delay.ms": "0",
        }
        with MusterCluster(folder / "muster", partitions=8, settings=settings) as cluster:
            made = World(kafka, cluster, ca)
            wait_until("the administrator is let in", lambda: known(made), PATIENCE_S)
            admin = AdminClient(made.login(ADMIN))
            wanted = [NewTopic(name, PARTITIONS, 1) for name in (MINE, THEIRS)]
            for future in admin.create_topics(wanted).values():
                future.result(PATIENCE_S)
            for operation in (AclOperation.READ, AclOperation.WRITE):
                made.allow(ResourceType.TOPIC, operation)
            made.allow(ResourceType.GROUP, AclOperation.READ)
            made.allow(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE)
            yield made


def known(world: World) -> bool:
    try:
        return bool(AdminClient(world.login(ADMIN)).list_topics(timeout=2).brokers)
    except KafkaException:
        return False


# -- the same request, both ways ---------------------------------------------------------------------------------------

UNLIKE = {"throttle_time", "error_message", "message"}
"""Fields that two servers may fill differently."""
SAID = {
    "replica_id": -1, "session_id": 0, "session_epoch": 0, "key_type": 1, "acks": 1, "timeout_ms": 1_000,
    "max_wait_ms": 1, "num_partitions": 1, "replication_factor": 1, "resource_type": 2, "config_operation": 0,
    "timestamp": -1,
}  # fmt: skip


def said(value: Any) -> Any:
    """The same with numbers that a broker takes for sensible."""
    if isinstance(value, dict):
        return {name: SAID[name] if name in SAID else said(one) for name, one in value.items()}
    return tuple(said(one) for one in value) if isinstance(value, tuple) else value


def told(entity: Any) -> Any:
    """What an answer says, but for what may differ."""
    if dataclasses.is_dataclass(entity):
        return {
            field.name: told(getattr(entity, field.name))
            for field in dataclasses.fields(entity)
            if field.name not in UNLIKE
        }
    return sorted((told(one) for one in entity), key=repr) if isinstance(entity, tuple) else entity


def test_a_request_about_what_is_somebody_elses_is_answered_as_by_that_kafka_in_each_version(world: World) -> None:
    ports = (world.cluster.client_port(0), world.kafka.ports["CLOSED"])
    with (
        contextlib.closing(Line(world, ports[0], ALICE)) as ours,
        contextlib.closing(Line(world, ports[1], ALICE)) as theirs,
    ):
        rows = ours.ask(Api.API_VERSIONS, 3, client_software_name="x", client_software_version="1").api_keys
        offered = {row.api_key: range(row.min_version, row.max_version + 1) for row in rows}
        asked = [
            (Api(api), version)
            for api in (*JUDGED, Api.FIND_COORDINATOR)
            if api not in (Api.METADATA, Api.DESCRIBE_CLUSTER)
            for version in offered.get(api, ())
            if (version >= JUDGED[api].low if api in JUDGED else version)  # FindCoordinator 0 is for groups alone
        ]
        assert len(asked) > 80
        unlike = {}
        for api, version in asked:
            values = said(of_theirs(schema(api, version, "request")))
            if api == Api.PRODUCE:
                values["transactional_id"] = None  # what it means without a transactional batch, Kafka ignores
            if api == Api.FETCH:
                values["session_epoch"] = -1  # or there would be a session, which has a number
            here, there = (told(line.ask(api, version, **values)) for line in (ours, theirs))
            if here != there:
                unlike[api.name, version] = (here, there)
        assert unlike == {}
        for version in offered[Api.METADATA]:
            for topics, codes in ((None, {MINE: 0}), (({"name": MINE}, {"name": THEIRS}), {MINE: 0, THEIRS: 29})):
                named = () if topics is None and version == 0 else topics
                for line in (ours, theirs):
                    answer = line.ask(Api.METADATA, version, topics=named, allow_auto_topic_creation=False)
                    assert {
                        one.name: one.error_code.value for one in answer.topics if one.name in (MINE, THEIRS)
                    } == codes


# -- clients -----------------------------------------------------------------------------------------------------------


def produced(who: dict[str, Any], topic: str, **settings: Any) -> int:
    """The code of a record's delivery."""
    codes: list[int] = []
    producer = Producer({**who, "message.timeout.ms": 30_000, **settings})
    producer.produce(topic, b"x", on_delivery=lambda error, _: codes.append(error.code() if error else 0))
    assert producer.flush(PATIENCE_S) == 0
    return codes[0]


def test_a_client_may_what_it_may_and_its_group_is_ours(world: World) -> None:
    who = world.login(ALICE)
    assert produced(who, MINE) == produced(who, MINE, **{"enable.idempotence": True}) == 0
    assert produced(who, THEIRS) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert produced(world.login(ADMIN), THEIRS) == 0
    consumer = Consumer({**who, "group.id": "mine-group", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([MINE])
    read = []

    def reads() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            read.append(message.value())
        return len(read) == 2

    wait_until("both records", reads, PATIENCE_S, every=0)
    assert sum(max(0, one.offset) for one in consumer.commit(asynchronous=False)) == 2
    consumer.close()
    transactional = Producer({**who, "transactional.id": "mine-transaction"})
    transactional.init_transactions(PATIENCE_S)
    transactional.begin_transaction()
    transactional.produce(MINE, b"y")
    transactional.commit_transaction(PATIENCE_S)
    with pytest.raises(KafkaException) as refused:
        Producer({**who, "transactional.id": "theirs-transaction"}).init_transactions(30)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    there = AdminClient({"bootstrap.servers": world.kafka.bootstrap, "log_level": 0})
    assert there.list_consumer_groups().result(PATIENCE_S).valid == []
    replicas = {world.cluster.pid(replica) for replica in range(world.cluster.replicas)}
    found = processes_connected_to(world.kafka.port) - {os.getpid(), world.kafka.pid}
    assert found <= replicas


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_reads_and_commits_in_the_versions_that_are_offered(world: World, client: str) -> None:
    """aiokafka asks for topics in versions that may make them, and Java by ids where it may."""
    assert produced(world.login(ALICE), MINE) == 0
    member = Member(
        client, bootstrap=world.cluster.bootstrap, group=f"mine-{client}", topics=[MINE], ca=str(world.ca),
        sasl={"mechanism": "PLAIN", "user": ALICE, "password": f"canary-{ALICE}"}, session_ms=30_000,
    )  # fmt: skip
    try:
        member.wait_owns(PARTITIONS, PATIENCE_S)
        assert produced(world.login(ALICE), MINE) == 0
        member.wait("a record", lambda it: it.records, PATIENCE_S)
        assert member.commit()["e"] == "committed"
        seen = len(member.records)
        assert produced(world.login(ALICE), MINE) == 0
        member.wait("the next record", lambda it: len(it.records) > seen, PATIENCE_S)
    finally:
        member.dispose()


def test_an_administrator_of_topics_sees_and_makes_his_own_only(world: World) -> None:
    for who in world.both(ALICE):
        admin = AdminClient(who)
        assert set(admin.list_topics(timeout=20).topics) & {MINE, THEIRS} == {MINE}
        for name in ("mine-two", THEIRS):
            with pytest.raises(KafkaException) as refused:
                admin.create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE_S)
            assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        wanted = ConfigResource(ConfigResource.Type.TOPIC, THEIRS)
        with pytest.raises(KafkaException) as refused:
            admin.describe_configs([wanted])[wanted].result(PATIENCE_S)
        assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    world.allow(ResourceType.TOPIC, AclOperation.CREATE)
    admin = AdminClient(world.login(ALICE))

    def made() -> bool:
        try:
            admin.create_topics([NewTopic("mine-two", 1, 1)])["mine-two"].result(PATIENCE_S)
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
        return True

    wait_until("he may make it", made, 30, every=0.2)


def audit_of(world: World, topic: str) -> list[tuple[str, str, str]]:
    """(who, what, result) of its lines, of all replicas. A line is written behind the answer: the last one may lack, or
    be half there."""
    logs = [world.cluster.folder / f"replica-{one}" / "server.log" for one in range(world.cluster.replicas)]
    written = [line for log in logs for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    lines = [json.loads(line) for line in written if '"muster.audit"' in line]
    lines.sort(key=lambda one: one["ts"])
    return [(one["principal"], one["action"], one["result"]) for one in lines if f"topic:{topic}" in one["resources"]]


def test_who_changed_a_topic_there_is_in_our_audit(world: World) -> None:
    """In that Kafka's log all of them are one user."""
    topic = "audited"
    admin, alice = AdminClient(world.login(ADMIN)), AdminClient(world.login(ALICE))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
    with pytest.raises(KafkaException):
        alice.delete_topics([topic])[topic].result(PATIENCE_S)
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    expected = [
        (f"User:{ADMIN}", "CREATE_TOPICS", "done"),
        (f"User:{ALICE}", "DELETE_TOPICS", "TOPIC_AUTHORIZATION_FAILED"),
        (f"User:{ADMIN}", "CREATE_TOPICS", "TOPIC_ALREADY_EXISTS"),
        (f"User:{ADMIN}", "DELETE_TOPICS", "done"),
    ]
    wait_until("a line of each", lambda: len(audit_of(world, topic)) >= len(expected), PATIENCE_S, every=0.1)
    assert audit_of(world, topic) == expected


def test_a_right_that_is_taken_is_gone_on_connections_that_read(world: World) -> None:
    """There are no sessions of Fetch in which it would live on."""
    topic, who = "lent", world.login(ALICE)
    admin = AdminClient(world.login(ADMIN))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
    acl = world.allow(ResourceType.TOPIC, AclOperation.READ, topic)
    consumer = Consumer({**who, "group.id": "mine-lent", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    seen: list[int] = []

    def reads(code: int) -> bool:
        message = consumer.poll(0.2)
        if message is not None:
            seen.append(0 if message.error() is None else message.error().code())
        return bool(seen) and seen[-1] == code

    time_to_know = time.monotonic() + 2
    wait_until("each replica knows of the right", lambda: time.monotonic() > time_to_know, 30)
    consumer.subscribe([topic])
    assert produced(world.login(ADMIN), topic) == 0
    wait_until("the record", lambda: reads(0), PATIENCE_S, every=0)
    wanted = AclBindingFilter(
        acl.restype, acl.name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type
    )
    for who in world.both(ADMIN):
        there = AdminClient(who)
        (deleted,) = there.delete_acls([wanted]).values()
        assert len(deleted.result(PATIENCE_S)) == 1
    wait_until("he is denied", lambda: reads(KafkaError.TOPIC_AUTHORIZATION_FAILED), PATIENCE_S, every=0)
    consumer.close()


def test_acls_are_ours_and_that_kafka_has_its_own(world: World) -> None:
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    ours, theirs = (AdminClient(who) for who in world.both(ADMIN))
    before = len(theirs.describe_acls(everything).result(PATIENCE_S))
    acl = AclBinding(
        ResourceType.TOPIC,
        "here",
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    ours.create_acls([acl])[acl].result(PATIENCE_S)
    wait_until("it is here", lambda: acl in ours.describe_acls(everything).result(PATIENCE_S), 30, every=0.2)
    assert len(theirs.describe_acls(everything).result(PATIENCE_S)) == before
