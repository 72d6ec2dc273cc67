"""A listener that asks for tokens (`spec.oauth`), on a node: whose they are, what they may, and a provider that moves.

The coordinators fetch the provider's keys by https, by the authority of a Secret; the operator looks at a group by the
token that the ConsumerGroup names, and at the rest by its own password at the other listener.
"""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from e2e.fleet import Cluster, condition, until
from e2e.identity_provider import AUDIENCE, ISSUER, Provider
from e2e.node.client import Client
from e2e.node.session import Description
from e2e.test_secured_coordinators import KUBELET_S, object_of, secured

pytestmark = pytest.mark.timeout(900)

PORT = 9095
TOPIC, GROUP, USER, STRANGER = "orders", "billing", "billing-service", "somebody-else"
LISTENERS: list[dict[str, Any]] = [
    {"name": "secure", "port": 9092, "tls": {}, "authentication": {"type": "scram-sha-512"}},
    {"name": "tokens", "port": PORT, "tls": {}, "authentication": {"type": "oauthbearer"}},
]
RIGHTS = [
    {"resource": {"type": "topic", "name": TOPIC}, "operations": ["Read", "Write", "Describe"]},
    {"resource": {"type": "group", "name": GROUP}, "operations": ["Read", "Describe"]},
    {"resource": {"type": "cluster"}, "operations": ["Describe"]},
]


def options(cluster: Cluster, provider: Provider, user: str) -> dict[str, Any]:
    """Of a client that has tokens of this user."""

    def fresh(_: str) -> tuple[str, float]:
        return provider.token(user)

    return {
        "bootstrap.servers": f"main-bootstrap.{cluster.client.namespace}.svc:{PORT}",
        "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": fresh,
        "ssl.ca.location": cluster.access["ssl.ca.location"],
    }  # fmt: skip


def works(told: dict[str, Any], value: str) -> None:
    """Produces a record, and consumes and commits up to it in the group."""
    failed: list[str] = []
    producer = Producer(told)
    producer.produce(TOPIC, value=value, partition=0, on_delivery=lambda e, _: failed.append(str(e)) if e else None)
    assert producer.flush(60) == 0
    assert failed == []
    consumer = Consumer({**told, "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    try:
        consumer.subscribe([TOPIC])
        seen: list[str] = []
        while value not in seen:
            message = consumer.poll(60)
            assert message is not None, f"{value} does not come, but {seen}"
            assert message.error() is None, message.error()
            seen.append(message.value().decode())
        consumer.commit(message, asynchronous=False)
        (stored,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=20)
        assert stored.offset == message.offset() + 1
    finally:
        consumer.close()


def refusal(told: dict[str, Any]) -> int:
    """Code of a producer whose record is not taken."""
    failed: list[int] = []
    producer = Producer(told)
    producer.produce(TOPIC, value="x", on_delivery=lambda e, _: failed.append(e.code()) if e else None)
    assert producer.flush(60) == 0
    (code,) = failed
    return code


def token_secret(client: Client, provider: Provider) -> None:
    made, _ = provider.token(USER, seconds=3_600)
    data = {"token": base64.b64encode(made.encode()).decode()}
    client.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "billing-token"}, "data": data})


def group_is(client: Client, name: str) -> Callable[[], bool]:
    def holds() -> bool:
        obj = client.read("cg", name)
        return condition(obj, "ClusterReachable").get("status") == "True" and bool(obj["status"].get("state"))

    return holds


def test_tokens_of_a_provider_that_moves(
    operator: Client, namespace: Client, node: Description, tmp_path: Path
) -> None:
    provider = Provider(namespace, node.muster_image)
    oauth = {
        "validIssuerUri": ISSUER, "jwksEndpointUri": provider.uri, "audiences": [AUDIENCE],
        "trustedSecretName": "provider-ca",
    }  # fmt: skip
    spec = {"offsetsPartitions": 3, "listeners": LISTENERS, "oauth": oauth, "authorization": {"type": "simple"}}
    cluster = secured(namespace, tmp_path, spec)
    token_secret(namespace, provider)
    by_token = {"type": "oauthbearer", "secret": {"name": "billing-token"}}
    namespace.apply(
        object_of("Topic", TOPIC, partitions=1),
        object_of("User", USER, authentication={"type": "oauthbearer"}, acls=RIGHTS),
        object_of("ConsumerGroup", "by-token", groupId=GROUP, topics=[TOPIC], tls={}, authentication=by_token),
        object_of("ConsumerGroup", "by-password", groupId=GROUP, topics=[TOPIC]),
    )
    for words in (f"mt/{TOPIC}", f"mu/{USER}"):
        namespace.kubectl("wait", "--for=condition=Ready", words, "--timeout=120s", timeout_s=130)
    user = namespace.read("mu", USER)
    assert condition(user, "CredentialsReady")["reason"] == "TokenYours"
    assert "secret" not in user["status"]

    works(options(cluster, provider, USER), "first")
    for name in ("by-token", "by-password"):
        until(f"the state of {name}", group_is(namespace, name), 120)
    assert refusal(options(cluster, provider, STRANGER)) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    by_password = {**cluster.access, "bootstrap.servers": options(cluster, provider, USER)["bootstrap.servers"]}
    wrong_door = Consumer({**by_password, "group.id": GROUP})
    with pytest.raises(KafkaException):
        wrong_door.list_topics(timeout=10)

    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    provider.moves()
    until("every coordinator takes tokens of the new key", lambda: taken(cluster, provider), KUBELET_S, every=5.0)
    works(options(cluster, provider, USER), "second")
    assert {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()} == before
    restarted = [pod["status"]["containerStatuses"][0]["restartCount"] for pod in cluster.pods().values()]
    assert restarted == [0] * cluster.replicas


def taken(cluster: Cluster, provider: Provider) -> bool:
    """By each of them, asked alone."""
    told = options(cluster, provider, USER)
    for ordinal in range(cluster.replicas):
        consumer = Consumer({**told, "bootstrap.servers": f"{cluster.host(ordinal)}:{PORT}", "group.id": GROUP})
        try:
            consumer.list_topics(timeout=8)
        except KafkaException:
            return False
        finally:
            consumer.close()
    return True
