"""The operator's passes over `Topic` and `User` against a real Muster that lets nobody in without a password: created,
changed, drifted, refused and deleted; and the Secret of a user is all that real clients need.

The API server is the verified fake; queue, passes, plans and the Kafka client are the operator's own.
"""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from muster_operator.app import Core
from muster_operator.kafka.adapter import KafkaAdapter
from muster_operator.kafka.clients import Clients
from muster_operator.runtime.clock import SystemClock, SystemRand
from muster_operator.runtime.metrics import Metrics
from muster_operator.world.group import ObservedGroup
from muster_operator.world.login import Endpoint, Login
from muster_operator.world.views import Unknown

from tests import kafka_tools
from tests.certificates import Authority
from tests.machine_parts import require
from tests.operator.fakes.bench import SETTINGS, group, topic, user
from tests.operator.fakes.fake_kube import FakeKube
from tests.operator.fakes.fake_services import FakeAdmin
from tests.operator.kafka.secured import ADMIN, PASSWORD, ROOT, SecuredMuster
from tests.operator.kafka.sweeping import swept

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
SECURED = {
    "tls": {"caSecret": {"name": "kafka-ca"}},
    "login": {"type": "scram-sha-512", "secret": {"name": "operator-login"}},
}
READY_SECONDS_MAX = 60
OF_THE_TOPIC = 1
"""DYNAMIC_TOPIC_CONFIG of Kafka's protocol."""


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredMuster]:
    it = SecuredMuster(tmp_path_factory.mktemp("secured"))
    try:
        yield it
    finally:
        it.close()


class Operator:
    """One operator process on a fake API server and a real Kafka client, in real time."""

    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube
        self.kafka = KafkaAdapter(Clients(SystemClock()))
        self.core = Core(
            kube=kube, admin=FakeAdmin(kube), kafka=self.kafka, clock=SystemClock(), rand=SystemRand(),
            metrics=Metrics(), plan_settings=SETTINGS,
        )  # fmt: skip
        kube.watchers.append(self._event)

    def _event(self, change: str, kind: str, live: dict[str, Any]) -> None:
        from tests.operator.fakes.bench import KINDS

        if kind in KINDS:
            self.core.observe(KINDS[kind], change, live)

    async def until(self, what: str, check: Callable[[], Any]) -> None:
        """Run passes until `check` holds."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        running = asyncio.create_task(self.core.runner.run())
        try:
            while not check():
                if running.done():
                    await running
                seen = [one.get("status") for one in self.kube.objects.values() if one["kind"] in ("Topic", "User")]
                assert time.monotonic() < deadline, f"{what}: {json.dumps(seen)}"
                await asyncio.sleep(0.1)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def condition(self, kind: str, name: str, type_: str = "Ready") -> tuple[str, str]:
        """(status, reason)."""
        live = self.kube.objects.get((kind, "ns", name)) or {}
        for one in (live.get("status") or {}).get("conditions") or ():
            if one["type"] == type_:
                return one["status"], one["reason"]
        return "", ""

    def applied(self, kind: str, name: str) -> bool:
        live = self.kube.objects[kind, "ns", name]
        current = (live.get("status") or {}).get("observedGeneration") == live["metadata"]["generation"]
        return current and self.condition(kind, name) == ("True", "Applied")

    def edit(self, kind: str, name: str, **spec: Any) -> None:
        self.kube.edit(kind, "ns", name, lambda one: one["spec"].update(spec))

    def secret(self, name: str) -> dict[str, bytes]:
        return {key: base64.b64decode(one) for key, one in self.kube.objects["Secret", "ns", name]["data"].items()}


def secrets(kube: FakeKube) -> None:
    for name, values in {
        "kafka-ca": {"ca.crt": ROOT.pem},
        "operator-login": {"username": ADMIN, "password": PASSWORD},
    }.items():
        kube.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "ns"},
                  "stringData": values})  # fmt: skip


def play(scene: Callable[[Operator], Any]) -> None:
    async def whole() -> None:
        kube = FakeKube()
        secrets(kube)
        operator = Operator(kube)
        try:
            await operator.core.resync.list_all()
            await scene(operator)
        finally:
            await operator.kafka.close()

    with swept():
        asyncio.run(whole())


def admin(muster: SecuredMuster, name: str = ADMIN, password: str = PASSWORD) -> dict[str, Any]:
    """Settings of librdkafka."""
    return {
        "bootstrap.servers": muster.bootstrap, "security.protocol": "SASL_SSL", "ssl.ca.location": str(muster.ca_file),
        "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": name, "sasl.password": password,
        "error_cb": lambda _: None, "log_level": 0,
    }  # fmt: skip


def partitions(muster: SecuredMuster, name: str) -> int:
    found = AdminClient(admin(muster)).list_topics(timeout=20).topics.get(name)
    return len(found.partitions) if found else 0


def configs(muster: SecuredMuster, name: str) -> dict[str, str]:
    """Only those that are set on the topic."""
    client = AdminClient(admin(muster))  # its futures end with it
    (future,) = client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)]).values()
    return {key: one.value for key, one in future.result(20).items() if one.source == OF_THE_TOPIC}


def set_config(muster: SecuredMuster, name: str, key: str, value: str) -> None:
    """As somebody else."""
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    client = AdminClient(admin(muster))
    for future in client.incremental_alter_configs([resource]).values():
        future.result(20)


def test_a_topic_from_nothing_to_change_to_deletion(muster: SecuredMuster) -> None:
    async def scene(it: Operator) -> None:
        spec = {"bootstrapServers": muster.bootstrap, **SECURED, "partitions": 2, "deletionPolicy": "Delete"}
        it.kube.put(topic("orders", **spec, configs={"retention.ms": 3_600_000, "max.message.bytes": "500000"}))
        await it.until("it is made", lambda: it.applied("Topic", "orders"))
        assert partitions(muster, "orders") == 2
        assert configs(muster, "orders") == {"retention.ms": "3600000", "max.message.bytes": "500000"}
        made = it.kube.objects["Topic", "ns", "orders"]["status"]["topicId"]
        # More partitions, another config, one taken away: and one that somebody else has set stays.
        set_config(muster, "orders", "segment.bytes", "2000000")
        it.edit("Topic", "orders", partitions=3, configs={"retention.ms": 7_200_000})
        await it.until("it is changed", lambda: it.applied("Topic", "orders"))
        assert partitions(muster, "orders") == 3
        assert configs(muster, "orders") == {"retention.ms": "7200000", "segment.bytes": "2000000"}
        it.edit("Topic", "orders", partitions=1)
        await it.until("refused", lambda: it.condition("Topic", "orders") == ("False", "FewerPartitions"))
        it.edit("Topic", "orders", partitions=3, configs={"retention.ms": "soon"})
        await it.until("refused", lambda: it.condition("Topic", "orders", "Degraded") == ("True", "ClusterRefuses"))
        assert partitions(muster, "orders") == 3
        assert it.kube.objects["Topic", "ns", "orders"]["status"]["topicId"] == made
        # Its object may not go before the topic has gone.
        it.kube.end("Topic", "ns", "orders")
        assert ("Topic", "ns", "orders") in it.kube.objects
        await it.until("it is deleted", lambda: ("Topic", "ns", "orders") not in it.kube.objects)
        assert partitions(muster, "orders") == 0

    play(scene)


def test_a_topic_that_was_there_is_adopted_if_equal_or_if_that_is_meant_and_kept_by_default(
    muster: SecuredMuster,
) -> None:
    client = AdminClient(admin(muster))
    for future in client.create_topics([NewTopic("there", 2, 1)]).values():
        future.result(20)

    async def scene(it: Operator) -> None:
        cluster = {"bootstrapServers": muster.bootstrap, **SECURED, "topicName": "there"}
        it.kube.put(topic("other", **cluster, partitions=4))
        await it.until("refused", lambda: it.condition("Topic", "other") == ("False", "NotAdopted"))
        assert partitions(muster, "there") == 2
        it.kube.put(topic("second", **cluster))
        it.kube.edit(
            "Topic", "ns", "second", lambda one: one["metadata"].update(creationTimestamp="2027-01-01T00:00:00Z")
        )
        await it.until("the second", lambda: it.condition("Topic", "second") == ("False", "NameShared"))
        told = {one["type"]: one for one in it.kube.objects["Topic", "ns", "second"]["status"]["conditions"]}
        assert "ns/other" in told["Ready"]["message"]
        it.kube.edit(
            "Topic", "ns", "other", lambda one: one["metadata"].update(annotations={"muster.dev/adopt": "true"})
        )
        await it.until("adopted", lambda: it.applied("Topic", "other"))
        assert partitions(muster, "there") == 4
        it.kube.end("Topic", "ns", "other")
        assert ("Topic", "ns", "other") not in it.kube.objects, "nothing holds an object that retains its topic"
        assert partitions(muster, "there") == 4

    play(scene)


def clients_of(secret: dict[str, bytes], folder: Path) -> dict[str, Any]:
    """librdkafka's settings, as the Secret has them, with the file where its pods would have it."""
    (folder / "ca.crt").write_bytes(secret["ca.crt"])
    lines = (line.split("=", 1) for line in secret["librdkafka.properties"].decode().splitlines())
    found: dict[str, Any] = {key: value.replace("/etc/muster/client", str(folder)) for key, value in lines}
    return found | {"error_cb": lambda _: None, "log_level": 0}


def consume(settings: dict[str, Any], group_id: str, count: int) -> list[bytes]:
    consumer = Consumer({**settings, "group.id": group_id, "auto.offset.reset": "earliest"})
    consumer.subscribe(["payments"])
    found: list[bytes] = []
    deadline = time.monotonic() + 60
    try:
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def test_a_user_from_nothing_to_use_to_deletion(muster: SecuredMuster, tmp_path: Path) -> None:
    client = AdminClient(admin(muster))
    for future in client.create_topics([NewTopic("payments", 1, 1)]).values():
        future.result(20)
    muster.muster("acl", "add", "--allow-principal", "User:billing", "--operation", "describe", "--cluster")
    (foreign,) = muster.acls("User:billing")
    rules = [
        {
            "resource": {"type": "topic", "name": "pay", "patternType": "prefixed"},
            "operations": ["Read", "Write", "Describe"],
        },
        {"resource": {"type": "group", "name": "billing"}, "operations": ["Read"]},
    ]  # fmt: skip

    async def scene(it: Operator) -> None:
        it.kube.put(
            user(bootstrapServers=muster.bootstrap, **SECURED, acls=rules, quotas={"producerByteRate": 1_000_000})
        )
        await it.until("it is made", lambda: it.applied("User", "billing"))
        assert it.condition("User", "billing", "CredentialsReady") == ("True", "CredentialsSet")
        assert len(muster.acls("User:billing")) == 5
        secret = it.secret("billing")
        assert len(secret["password"]) >= 43, "256 bits"
        settings = clients_of(secret, tmp_path)
        producer = Producer(settings)
        failed: list[object] = []
        producer.produce("payments", b"one", on_delivery=lambda error, _: error and failed.append(error))
        assert producer.flush(60) == 0
        assert failed == []
        assert consume(settings, "billing", 1) == [b"one"]
        python_settings = json.loads(secret["python.json"].decode().replace("/etc/muster/client", str(tmp_path)))
        by_python(python_settings)
        # One right taken away, the foreign one stays; the quota goes, another comes.
        it.edit("User", "billing", acls=rules[1:], quotas={"consumerByteRate": 5_000_000})
        await it.until("it is changed", lambda: it.applied("User", "billing"))
        left = muster.acls("User:billing")
        assert (len(left), foreign in left) == (2, True)
        found = await it.kafka.user(
            where=where(muster), name="billing", principal="User:billing", credentials=True, acls=False, quotas=True
        )
        assert not isinstance(found, Unknown)
        assert (found.mechanisms, found.quotas) == ({"SCRAM-SHA-512"}, {"consumer_byte_rate": 5_000_000.0})
        it.kube.end("User", "ns", "billing")
        await it.until("it is gone", lambda: ("User", "ns", "billing") not in it.kube.objects)
        assert ("Secret", "ns", "billing") not in it.kube.objects, "its Secret is collected with it"
        assert muster.acls("User:billing") == {foreign}, "what others have given it is theirs to take"
        found = await it.kafka.user(
            where=where(muster), name="billing", principal="User:billing", credentials=True, acls=True, quotas=True
        )
        assert not isinstance(found, Unknown)
        assert (found.mechanisms, found.quotas) == (set(), {})
        with pytest.raises(KafkaException):
            AdminClient(settings).list_topics(timeout=5)
        password = secret["password"].decode()
        told = json.dumps([one for one in it.kube.objects.values() if one["kind"] != "Secret"])
        assert password not in told + muster.output(), "a password is in a Secret and nowhere else"

    play(scene)


def by_python(settings: dict[str, Any]) -> None:
    import kafka

    consumer = kafka.KafkaConsumer(
        "payments", **settings, group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False
    )
    try:
        assert "payments" in consumer.topics()
    finally:
        consumer.close(autocommit=False)


def where(muster: SecuredMuster) -> Endpoint:
    return Endpoint(muster.bootstrap, muster.login)


def test_a_rotated_password_is_given_to_the_cluster_and_the_old_one_is_none_any_more(
    muster: SecuredMuster, tmp_path: Path
) -> None:
    own = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine", "namespace": "ns"}}

    async def scene(it: Operator) -> None:
        it.kube.put({**own, "stringData": {"password": "canary-first"}})
        authentication = {"type": "scram-sha-512", "passwordSecret": {"name": "mine"}}
        it.kube.put(user("rotated", bootstrapServers=muster.bootstrap, **SECURED, authentication=authentication))
        await it.until("it is made", lambda: it.applied("User", "rotated"))
        first = clients_of(it.secret("rotated"), tmp_path)
        assert AdminClient(first).list_topics(timeout=20).brokers
        it.kube.put({**own, "stringData": {"password": "canary-second\n"}})
        it.core.runner.enqueue(it.core.cache.owners())
        version = it.kube.objects["User", "ns", "rotated"]["status"]["passwordVersion"]
        await it.until(
            "it is set", lambda: it.kube.objects["User", "ns", "rotated"]["status"].get("passwordVersion") != version
        )
        await it.until("and applied", lambda: it.applied("User", "rotated"))
        second = clients_of(it.secret("rotated"), tmp_path)
        assert second["sasl.password"] == "canary-second"
        assert AdminClient(second).list_topics(timeout=20).brokers
        with pytest.raises(KafkaException):
            AdminClient(first).list_topics(timeout=5)

    play(scene)


def test_a_credential_that_is_not_from_here_is_not_overwritten(muster: SecuredMuster, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("canary-theirs\n")
    muster.muster(
        "user", "create", "theirs", "--mechanism", "SCRAM-SHA-512", "--password-file", str(tmp_path / "password")
    )

    async def scene(it: Operator) -> None:
        it.kube.put(user("theirs", bootstrapServers=muster.bootstrap, **SECURED))
        await it.until("refused", lambda: it.condition("User", "theirs") == ("False", "NotAdopted"))
        assert AdminClient(admin(muster, "theirs", "canary-theirs")).list_topics(timeout=20).brokers
        assert ("Secret", "ns", "theirs") not in it.kube.objects
        it.kube.edit(
            "User", "ns", "theirs", lambda one: one["metadata"].update(annotations={"muster.dev/adopt": "true"})
        )
        await it.until("adopted", lambda: it.applied("User", "theirs"))

    play(scene)


@pytest.mark.java
def test_kafkas_own_tools_work_with_the_java_settings_and_the_pkcs12_store(
    muster: SecuredMuster, tmp_path: Path
) -> None:
    require("java")

    async def scene(it: Operator) -> None:
        rules = [{"resource": {"type": "cluster"}, "operations": ["Describe"]},
                 {"resource": {"type": "topic", "name": "*"}, "operations": ["Describe"]}]  # fmt: skip
        it.kube.put(user("tools", bootstrapServers=muster.bootstrap, **SECURED, acls=rules))
        await it.until("it is made", lambda: it.applied("User", "tools"))
        secret = it.secret("tools")
        (tmp_path / "client.properties").write_bytes(secret["client.properties"])
        topics_tool = ("--bootstrap-server", muster.bootstrap, "--list", "--command-config")
        kafka_tools.run(kafka_tools.TOPICS, *topics_tool, str(tmp_path / "client.properties"))
        store = tmp_path / "truststore.p12"
        store.write_bytes(secret["truststore.p12"])
        lines = [one for one in secret["client.properties"].decode().splitlines() if not one.startswith("ssl.")]
        lines += [
            "ssl.truststore.type=PKCS12", f"ssl.truststore.location={store}",
            f"ssl.truststore.password={secret['truststore.password'].decode()}",
        ]  # fmt: skip
        (tmp_path / "p12.properties").write_text("\n".join(lines) + "\n")
        kafka_tools.run(kafka_tools.TOPICS, *topics_tool, str(tmp_path / "p12.properties"))

    play(scene)


def test_why_the_operator_is_not_let_in_is_told_and_never_taken_for_nothing(muster: SecuredMuster) -> None:
    right = muster.login
    stranger = Login(tls=True, ca=ROOT.pem, mechanism="PLAIN", username="plain", password="canary-plain")
    wrong = {
        "AuthenticationFailed": Login(tls=True, ca=ROOT.pem, mechanism="SCRAM-SHA-512", username=ADMIN, password="no"),
        "CertificateNotTrusted": Login(
            tls=True, ca=Authority("other").pem, mechanism="SCRAM-SHA-512", username=ADMIN, password=PASSWORD
        ),
        "MechanismNotOffered": Login(tls=True, ca=ROOT.pem, mechanism="OAUTHBEARER", token="a.b.c"),
        "SecretUnusable": Login(tls=True, ca="no certificate"),
        "BootstrapUnreachable": Login(),
    }

    async def scene(it: Operator) -> None:
        asked = await asyncio.gather(
            *(it.kafka.topic(where=Endpoint(muster.bootstrap, login), name="any") for login in wrong.values()),
        )
        assert [one.reason if isinstance(one, Unknown) else one for one in asked] == list(wrong)
        elsewhere = muster.bootstrap.replace("127.0.0.1", "localhost")
        named = await it.kafka.topic(where=Endpoint(elsewhere, right), name="any")
        assert isinstance(named, Unknown)
        assert (named.reason, "localhost" in named.message) == ("CertificateNotTrusted", True)
        refused = await it.kafka.user(
            where=Endpoint(muster.bootstrap, stranger), name="any", principal="User:any", credentials=True, acls=True,
            quotas=True,
        )  # fmt: skip
        assert isinstance(refused, Unknown)
        assert refused.reason == "AuthorizationFailed"
        for one in (*asked, named, refused):
            assert isinstance(one, Unknown)
            assert PASSWORD not in one.message
            assert "canary" not in one.message
        assert await it.kafka.topic(where=where(muster), name="no-such-topic") is None
        seen = await it.kafka.group(bootstrap=where(muster), group_id="none", topics=[])
        assert isinstance(seen, ObservedGroup)
        # A ConsumerGroup of the same cluster, by Secret reference.
        it.kube.put(group(
            "watched", template=False, replicas=None, bootstrapServers=muster.bootstrap, tls=SECURED["tls"],
            authentication=SECURED["login"],
        ))  # fmt: skip
        await it.until("it is seen", lambda: it.condition("ConsumerGroup", "watched", "ClusterReachable")[0] == "True")

    play(scene)
