"""`Topic` and `User` on a node, from nothing to use to deletion: under the shipped role, with pods that consume by a
user's Secret, against a cluster that lets nobody in without a password.
"""

import base64
import json
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from e2e import secured_muster
from e2e.fleet import CONSUMER, Cluster, condition, until
from e2e.node.client import Client, Refused
from e2e.node.session import Description

pytestmark = pytest.mark.timeout(420)

READY_S = 120.0
PASSWORD = "canary-operator-password"
RECORDS = 40
RULES = [
    {"resource": {"type": "topic", "name": "orders"}, "operations": ["Read", "Describe"]},
    {"resource": {"type": "topic", "name": "seen"}, "operations": ["Write", "Describe"]},
    {"resource": {"type": "group", "name": "billing"}, "operations": ["Read"]},
    {"resource": {"type": "cluster"}, "operations": ["IdempotentWrite"]},
]


def resource(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "muster.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def ready(client: Client, kind: str, name: str) -> bool:
    live = client.read(f"{kind.lower()}s.muster.dev", name)
    current = (live.get("status") or {}).get("observedGeneration") == live["metadata"]["generation"]
    return current and condition(live, "Ready").get("status") == "True"


def gone(client: Client, kind: str, name: str) -> bool:
    try:
        client.read(kind, name)
    except Refused:
        return True
    return False


class Secured:
    """The cluster, and its administrator's view of it from the test's own process."""

    def __init__(self, client: Client, node: Description) -> None:
        self.client = client
        self.host = secured_muster.host(str(client.namespace))
        self.bootstrap = f"{self.host}:{secured_muster.PORT}"
        made = secured_muster.objects(str(client.namespace), node.muster_image, PASSWORD)
        client.apply(*made)
        client.kubectl("wait", "--for=condition=Ready", "pod/secured", "--timeout=120s", timeout_s=125)
        self.authority = self.secret("kafka-ca")["ca.crt"].decode()
        self.spec = {
            "bootstrapServers": self.bootstrap,
            "tls": {"caSecret": {"name": "kafka-ca"}},
            "login": {"type": "scram-sha-512", "secret": {"name": "operator-login"}},
        }
        self.admin = AdminClient(self.settings(secured_muster.ADMIN, PASSWORD))
        until("the first user", self.topics, READY_S)

    def settings(self, user: str, password: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap, "security.protocol": "SASL_SSL", "ssl.ca.pem": self.authority,
            "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": password,
            "error_cb": lambda _: None, "log_level": 0,
        }  # fmt: skip

    def secret(self, name: str) -> dict[str, bytes]:
        found = self.client.read("secret", name)["data"]
        return {key: base64.b64decode(value) for key, value in found.items()}

    def topics(self) -> dict[str, int]:
        """Topic → partitions; {} while nobody answers."""
        try:
            return {"": 0} | {
                name: len(one.partitions) for name, one in self.admin.list_topics(timeout=5).topics.items()
            }
        except KafkaException:
            return {}


@pytest.fixture
def secured(operator: Client, namespace: Client, node: Description) -> Secured:
    return Secured(namespace, node)


def test_from_nothing_to_pods_that_consume_to_nothing(secured: Secured, node: Description) -> None:
    client = secured.client
    client.apply(
        resource("Topic", "orders", **secured.spec, partitions=2, deletionPolicy="Delete"),
        resource("Topic", "seen", **secured.spec, partitions=1, deletionPolicy="Delete"),
        resource("User", "billing", **secured.spec, acls=RULES, quotas={"consumerByteRate": 10_000_000}),
    )
    for kind, name in (("Topic", "orders"), ("Topic", "seen"), ("User", "billing")):
        until(f"{kind} {name}", lambda kind=kind, name=name: ready(client, kind, name), READY_S)
    assert secured.topics()["orders"] == 2
    header, row = client.kubectl("get", "mt/orders").splitlines()
    assert header.split() == ["NAME", "APPLIED", "PARTITIONS", "REPLICATION", "REASON", "AGE"]
    assert row.split()[:5] == ["orders", "True", "2", "1", "Applied"]
    assert "CredentialsSet" in client.kubectl("get", "mu/billing")

    producer = Producer(secured.settings(secured_muster.ADMIN, PASSWORD))
    for number in range(RECORDS):
        producer.produce("orders", str(number), partition=number % 2)
    assert producer.flush(60) == 0
    client.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "e2e-consumer"},
            "data": {"consumer.py": CONSUMER.read_text()},
        },
        consumers(secured, node),
    )
    until("two members that consume", lambda: stable(client), READY_S)
    until("everything committed", lambda: client.read("cg", "billing")["status"].get("lag") == 0, READY_S)

    # More partitions; fewer are refused; the group goes on.
    client.kubectl("patch", "mt/orders", "--type=merge", '--patch={"spec":{"partitions":4}}')
    until("four partitions", lambda: secured.topics().get("orders") == 4, READY_S)
    client.kubectl("patch", "mt/orders", "--type=merge", '--patch={"spec":{"partitions":3}}')
    until(
        "a refusal",
        lambda: condition(client.read("mt", "orders"), "Ready").get("reason") == "FewerPartitions",
        READY_S,
    )

    # The user goes: its password is none any more, and its Secret is collected.
    password = secured.secret("billing")["password"].decode()
    client.kubectl("delete", "cg/billing", "--wait=true", "--timeout=60s", timeout_s=65)
    client.kubectl("patch", "mu/billing", "--type=merge", '--patch={"spec":{"secretName":"billing-login"}}')
    until("the Secret of its former name gone", lambda: gone(client, "secret", "billing"), READY_S)
    until("one of the other name", lambda: not gone(client, "secret", "billing-login"), READY_S)
    client.kubectl("delete", "mu/billing", "--timeout=60s", timeout_s=65)
    until("its Secret gone", lambda: gone(client, "secret", "billing-login"), READY_S)
    with pytest.raises(KafkaException):
        AdminClient(secured.settings("billing", password)).list_topics(timeout=5)
    client.kubectl("delete", "mt/orders", "mt/seen", "--timeout=60s", timeout_s=65)
    until("no topic", lambda: not {"orders", "seen"} & set(secured.topics()), READY_S)

    # No password is anywhere but in Secrets.
    operators = client.within("muster")
    said = operators.kubectl("logs", "--selector=app.kubernetes.io/name=muster-operator", "--tail=-1")
    events = client.kubectl("get", "events.events.k8s.io", "--output=yaml")
    for text in (said, events):
        assert password not in text
        assert PASSWORD not in text


def consumers(secured: Secured, node: Description) -> dict[str, Any]:
    """A ConsumerGroup whose pods get all that they need from the user's Secret."""
    return resource(
        "ConsumerGroup", "billing",
        bootstrapServers=secured.bootstrap, groupId="billing", topics=["orders"], replicas=2,
        tls=secured.spec["tls"], authentication={"type": "scram-sha-512", "secret": {"name": "billing"}},
        session={"timeoutSeconds": 20, "heartbeatIntervalSeconds": 1},
        template={
            "image": node.demo_image, "imagePullPolicy": "Never", "command": ["python3", "/program/consumer.py"],
            "terminationGracePeriodSeconds": 10,
            "volumes": [{"name": "program", "configMap": {"name": "e2e-consumer"}}],
            "volumeMounts": [{"name": "program", "mountPath": "/program", "readOnly": True}],
        },
    )  # fmt: skip


def stable(client: Client) -> bool:
    status = client.read("cg", "billing").get("status") or {}
    return status.get("state") == "Stable" and status.get("memberCount") == 2


def test_a_cluster_of_the_operators_own(shared: Cluster) -> None:
    """By `clusterRef`, without a login: the cluster is open. A topic is made and goes with its object."""
    client = shared.client
    client.apply(
        resource("Topic", "of-the-operator", clusterRef={"name": shared.name}, partitions=3, deletionPolicy="Delete")
    )
    until("the topic", lambda: ready(client, "Topic", "of-the-operator"), READY_S)
    bootstrap = client.read("cc", shared.name)["status"]["bootstrapServers"]["internal"]
    admin = AdminClient({"bootstrap.servers": bootstrap, "error_cb": lambda _: None, "log_level": 0})
    assert len(admin.list_topics(timeout=20).topics["of-the-operator"].partitions) == 3
    status = json.dumps(client.read("mt", "of-the-operator")["status"])
    assert '"replicationFactor": 3' in status
    client.kubectl("delete", "mt/of-the-operator", "--timeout=60s", timeout_s=65)
    until("it is gone", lambda: "of-the-operator" not in admin.list_topics(timeout=20).topics, READY_S)
