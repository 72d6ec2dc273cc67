"""Clients whose own login is passed on to a real Kafka: its users, its ACLs and its sessions, and our groups (ADR 100).

One broker of Kafka that judges by StandardAuthorizer and ends a session after some seconds; three replicas of ours,
which know no user, no password and no key but their own. Members of four clients log in by PLAIN and by SCRAM, and of
two by tokens, which Kafka verifies.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from muster_coordinator.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from muster_coordinator.settings import STANDARD_AUTHORIZER
from muster_coordinator.upstream.limits import LOOK_MS

from tests.certificates import Authority
from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.integration.connections import processes_connected_to
from tests.integration.test_sasl_clients import CLIENTS, TokenEndpoint
from tests.kafka_broker import KafkaBroker
from tests.security.test_oauth import OTHER_KEY, RSA_KEY, RULES, jwk, token

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.timeout(400)]

PATIENCE_S = 90.0
PARTITIONS = 4
SESSION_MS = 4_000
MECHANISMS = ("PLAIN", "SCRAM-SHA-512")
OFFERED = ",".join((*MECHANISMS, "OAUTHBEARER"))
OAUTH = "org.apache.kafka.common.security.oauthbearer"
TOKEN_USER = "by-token"
ADMIN = "admin"
BOB = "bob"
"""Has no right at all."""
USERS = (ADMIN, BOB, *CLIENTS)


def canary(user: str) -> str:
    return f"canary-{user}"


class World(NamedTuple):
    kafka: KafkaBroker
    cluster: MusterCluster
    ca: Path

    def login(self, user: str, mechanism: str = "SCRAM-SHA-512", password: str = "") -> dict[str, Any]:
        """At ours, for clients of librdkafka."""
        return {
            "bootstrap.servers": self.cluster.bootstrap, "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca), "sasl.mechanism": mechanism, "sasl.username": user,
            "sasl.password": password or canary(user), "error_cb": lambda _: None, "log_level": 0,
        }  # fmt: skip

    def by_token(self, user: str, key: Any = RSA_KEY) -> dict[str, Any]:
        """The same, with tokens that say this user, signed by this key."""

        def fresh(_config: str) -> tuple[str, float]:
            now = int(time.time())
            return token(key, sub=user, exp=now + 60, iat=now, nbf=now), now + 60

        kept = {key: value for key, value in self.login(user).items() if key not in ("sasl.username", "sasl.password")}
        return {**kept, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": fresh}

    def known(self) -> bool:
        try:
            return bool(AdminClient(self.login(ADMIN)).list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def create(self, topic: str, *readers: str) -> None:
        """By the administrator, through ours: the topic, who may read and write it, and groups that begin with its
        name."""
        admin = AdminClient(self.login(ADMIN))
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(PATIENCE_S)
        for user in readers:
            self.allow(user, ResourceType.TOPIC, topic, AclOperation.READ)
            self.allow(user, ResourceType.TOPIC, topic, AclOperation.WRITE)
            self.allow(user, ResourceType.GROUP, topic, AclOperation.READ)
        # Clients take a denial as final, and each replica asks for ACLs every `LOOK_MS`.
        looked_s = time.monotonic() + 2 * LOOK_MS / 1_000
        wait_until("each replica knows of it", lambda: time.monotonic() > looked_s or not readers, 60)

    def allow(self, user: str, kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
        """The prefix `name`, by the administrator through ours."""
        acl = AclBinding(
            kind, name, ResourcePatternType.PREFIXED, f"User:{user}", "*", operation, AclPermissionType.ALLOW
        )
        admin = AdminClient(self.login(ADMIN))
        for future in admin.create_acls([acl]).values():
            future.result(PATIENCE_S)
        return acl

    def fill(self, topic: str, count: int, who: dict[str, Any]) -> None:
        failed: list[object] = []
        producer = Producer(who)
        for number in range(count):
            producer.produce(
                topic,
                str(number),
                partition=number % PARTITIONS,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert (producer.flush(PATIENCE_S), failed) == (0, [])


def again(world: World, mechanism: str, replicas: list[int]) -> float:
    """How often clients authenticated again with these replicas."""
    found = 0.0
    for replica in replicas:
        for line in world.cluster.metrics(replica).splitlines():
            if "muster_authentications_total{" in line and "successful again" in line and f'"{mechanism}"' in line:
                found += float(line.rsplit(" ", 1)[1])
    return found


def made_users(broker: KafkaBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = [UserScramCredentialUpsertion(user, info, password=canary(user).encode()) for user in (*USERS, "muster")]
    for future in admin.alter_user_scram_credentials(wanted).values():
        future.result(PATIENCE_S)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("logins-beside")
    authority, secret = Authority(), folder / "secret"
    crt, key = authority.issue("server", ("127.0.0.1", "localhost")).write(secret)
    keystore, ca = folder / "kafka.pem", folder / "ca.pem"
    keystore.write_text(key.read_text() + crt.read_text())
    ca.write_text(authority.pem)
    keys = folder / "keys.json"
    keys.write_text(json.dumps({"keys": [jwk(RSA_KEY, "rsa")]}))
    jvm = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}",)
    plain = " ".join(f'user_{user}="{canary(user)}"' for user in USERS)
    closed = {
        "listener.name.closed.ssl.keystore.type": "PEM",
        "listener.name.closed.ssl.keystore.location": str(keystore),
        "listener.name.closed.sasl.enabled.mechanisms": OFFERED,
        "listener.name.closed.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {plain};",
        "listener.name.closed.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.closed.oauthbearer.sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
        "listener.name.closed.oauthbearer.sasl.server.callback.handler.class": (
            f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": RULES.issuer,
        "sasl.oauthbearer.expected.audience": RULES.audiences[0],
        "connections.max.reauth.ms": str(SESSION_MS),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:ANONYMOUS;User:muster;User:{ADMIN}",
    }
    with KafkaBroker(folder / "kafka", closed, {"CLOSED": "SASL_SSL"}, jvm) as kafka:
        made_users(kafka)
        settings = {
            "topics.mode": "kafka",
            "upstream.bootstrap.servers": f"localhost:{kafka.ports['CLOSED']}",
            "upstream.security.protocol": "SASL_SSL",
            "upstream.ssl.truststore.location": str(ca),
            "upstream.sasl.mechanism": "SCRAM-SHA-512",
            "upstream.sasl.jaas.config": f'{SCRAM_MODULE} required username="muster" password="{canary("muster")}";',
            "upstream.sasl.passthrough.enable": "true",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{ADMIN}",
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
            "sasl.enabled.mechanisms": OFFERED,
            "ssl.keystore.certificate.chain": str(crt),
            "ssl.keystore.key": str(key),
            "group.initial.rebalance.delay.ms": "0",
        }
        with MusterCluster(folder / "muster", partitions=8, settings=settings) as cluster:
            made = World(kafka, cluster, ca)
            wait_until("the administrator is let in", made.known, PATIENCE_S)
            yield made


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_client_is_its_own_user_there_and_its_group_is_here(world: World, mechanism: str) -> None:
    topic = f"orders-{mechanism.lower()}"
    world.create(topic, *CLIENTS)
    members: dict[str, Member] = {}
    try:
        for client in CLIENTS:
            who = {"mechanism": mechanism, "user": client, "password": canary(client)}
            members[client] = Member(
                client, bootstrap=world.cluster.bootstrap, group=f"{topic}-{client}", topics=[topic], sasl=who,
                ca=str(world.ca), session_ms=30_000,
            )  # fmt: skip
        for one in members.values():
            one.wait_owns(PARTITIONS, PATIENCE_S)
        world.fill(topic, 40, world.login("librdkafka", mechanism))
        for one in members.values():
            one.wait("forty records", lambda m: len({r[:3] for r in m.records}) == 40, PATIENCE_S)
        others = list(world.cluster.alive())[1:]
        before = again(world, mechanism, others)
        world.cluster.kill(0)
        try:
            world.fill(topic, 40, world.login("librdkafka", mechanism))
            for one in members.values():
                one.wait("the next forty", lambda m: len({r[:3] for r in m.records}) == 80, PATIENCE_S)
                wait_until(
                    f"a commit of {one.client}", lambda o=one: o.commit()["e"] == "committed", PATIENCE_S, every=0.5
                )
            wait_until(
                "sessions have ended and gone on", lambda: again(world, mechanism, others) >= before + 4, PATIENCE_S
            )
        finally:
            world.cluster.start_replica(0)
        replicas = {world.cluster.pid(replica) for replica in range(world.cluster.replicas)}
        found = processes_connected_to(world.kafka.ports["CLOSED"]) - {os.getpid(), world.kafka.pid}
        assert found <= replicas
    finally:
        for one in members.values():
            one.dispose()
    plain = AdminClient({"bootstrap.servers": world.kafka.bootstrap, "log_level": 0})
    assert plain.list_consumer_groups().result(PATIENCE_S).valid == []


def test_who_has_no_right_there_has_none_and_the_administrator_may_all(world: World) -> None:
    world.create("secret")
    told: list[int] = []
    producer = Producer({**world.login(BOB), "message.timeout.ms": 30_000})
    producer.produce("secret", "x", on_delivery=lambda error, _: told.append(error.code() if error else 0))
    assert producer.flush(PATIENCE_S) == 0
    assert told == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    bobs, admin = AdminClient(world.login(BOB)), AdminClient(world.login(ADMIN))
    assert "secret" not in bobs.list_topics(timeout=20).topics
    assert "secret" in admin.list_topics(timeout=20).topics
    world.fill("secret", 4, world.login(ADMIN))


def test_who_may_use_a_group_here_is_said_by_kafkas_acls(world: World) -> None:
    topic = "shared"
    world.create(topic)
    world.allow(BOB, ResourceType.TOPIC, topic, AclOperation.READ)
    may_read = world.allow(BOB, ResourceType.GROUP, topic, AclOperation.READ)
    bobs = AdminClient(world.login(BOB))

    def commits(group: str) -> int:
        """The code of a commit of his for this group; 0: it was taken."""
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
        try:
            (one,) = bobs.alter_consumer_group_offsets([wanted])[group].result(PATIENCE_S).topic_partitions
        except KafkaException as error:
            return int(error.args[0].code())
        return int(one.error.code()) if one.error else 0

    denied = KafkaError.GROUP_AUTHORIZATION_FAILED
    wait_until("he may", lambda: commits("shared-1") == 0, PATIENCE_S, every=0.5)
    assert commits("of-others") == denied
    kinds = (may_read.restype, may_read.name, may_read.resource_pattern_type, may_read.principal, may_read.host)
    wanted = AclBindingFilter(*kinds, may_read.operation, may_read.permission_type)
    admin = AdminClient(world.login(ADMIN))
    (deleted,) = admin.delete_acls([wanted]).values()
    assert len(deleted.result(PATIENCE_S)) == 1
    wait_until("he may not any more", lambda: commits("shared-1") == denied, PATIENCE_S, every=0.5)
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert "shared-1" in {one.group_id for one in listed.valid}, listed.errors
    assert bobs.list_consumer_groups().result(PATIENCE_S).valid == []


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_by_kafka(world: World, mechanism: str) -> None:
    assert "nvalid" in refusal(world.login(BOB, mechanism, "canary-wrong"))


def refusal(who: dict[str, Any]) -> str:
    """Why this client is refused, as it tells it."""
    told: list[KafkaError] = []
    producer = Producer({**who, "error_cb": told.append})

    def refused() -> list[str]:
        producer.poll(0.2)
        return [error.str() for error in told if error.code() == KafkaError._AUTHENTICATION]

    found: list[str] = wait_until("he is refused", refused, PATIENCE_S, every=0)
    return " ".join(found)


def test_who_brings_a_token_is_its_user_there_and_his_group_is_here(world: World) -> None:
    """librdkafka and Java; sessions of four seconds end and go on by further tokens."""
    topic, endpoint = "tokens", TokenEndpoint()
    world.create(topic, TOKEN_USER)
    replicas = list(world.cluster.alive())
    before = again(world, "OAUTHBEARER", replicas)
    mine = world.by_token(TOKEN_USER)
    consumer = Consumer({**mine, "group.id": "tokens-1", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    member = Member(
        "java", bootstrap=world.cluster.bootstrap, group="tokens-2", topics=[topic], session_ms=30_000,
        properties=endpoint.properties(str(world.ca), TOKEN_USER), jvm=endpoint.jvm,
    )  # fmt: skip
    read: list[bytes | None] = []

    def reads() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            read.append(message.value())
        return len(read) == 40

    try:
        member.wait_owns(PARTITIONS, PATIENCE_S)
        world.fill(topic, 40, mine)
        consumer.subscribe([topic])
        wait_until("forty records", reads, PATIENCE_S, every=0)
        member.wait("forty records", lambda m: len({r[:3] for r in m.records}) == 40, PATIENCE_S)
        wait_until("sessions have gone on", lambda: again(world, "OAUTHBEARER", replicas) >= before + 4, PATIENCE_S)
        assert [one.offset for one in consumer.commit(asynchronous=False)] == [10] * PARTITIONS
        assert member.commit()["e"] == "committed"
    finally:
        consumer.close()
        member.dispose()
        endpoint.shutdown()
        endpoint.server_close()


def test_whom_kafka_does_not_take_by_his_token_is_nobody_here_and_another_one_has_his_own_rights(world: World) -> None:
    world.create("of-tokens")
    assert "invalid_token" in refusal(world.by_token(ADMIN, OTHER_KEY))
    told: list[int] = []
    producer = Producer({**world.by_token(BOB), "message.timeout.ms": 30_000})
    producer.produce("of-tokens", "x", on_delivery=lambda error, _: told.append(error.code() if error else 0))
    assert (producer.flush(PATIENCE_S), told) == (0, [KafkaError.TOPIC_AUTHORIZATION_FAILED])
    world.fill("of-tokens", 4, world.by_token(ADMIN))


def test_a_user_that_is_made_through_ours_is_kafkas(world: World) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    admin = AdminClient(world.login(ADMIN))
    wanted = UserScramCredentialUpsertion("new", info, password=canary("new").encode())
    admin.alter_user_scram_credentials([wanted])["new"].result(PATIENCE_S)
    assert AdminClient(world.login("new")).list_topics(timeout=20).brokers
    there = AdminClient({"bootstrap.servers": world.kafka.bootstrap, "log_level": 0})
    assert "new" in there.describe_user_scram_credentials().result(PATIENCE_S)
