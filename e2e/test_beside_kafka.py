"""`spec.topics.kafka` on a node: groups of a CoordinatorCluster beside a real Kafka, which is a machine to the pods.

Records are that Kafka's, groups and committed offsets the coordinators': what each of them says is asked of itself.
"""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from e2e.commit_load import TOPIC, KafkaPython, Librdkafka, committing
from e2e.fleet import Cluster, condition, is_ready, until
from e2e.node.client import Client
from e2e.test_secured_coordinators import object_of
from tests.kafka_broker import KafkaBroker
from tests.watermarks import watermarks

pytestmark = pytest.mark.timeout(600)

PODS = "PODS"
"""The listener that pods reach."""
OTHER_TOPIC, PARTITIONS, RECORDS = "orders", 3, 300
LIST_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def own_address(operator: Client) -> str:
    """From which this machine reaches the nodes, and is reached by them."""
    (node, *_) = operator.read("nodes")["items"]
    address = next(one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards:
        towards.connect((address, 9))
        found: str = towards.getsockname()[0]
    return found


@pytest.fixture
def address(operator: Client) -> str:
    return own_address(operator)


@pytest.fixture
def kafka(address: str, tmp_path: Path) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path / "kafka", listeners={PODS: "PLAINTEXT"}, host=address) as broker:
        yield broker


def stored_there(kafka: KafkaBroker, topic: str) -> int:
    """Records of that Kafka itself."""
    with contextlib.closing(Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "none"})) as consumer:
        ends = (
            watermarks(consumer, TopicPartition(topic, number))
            for number in consumer.list_topics(topic, timeout=20).topics[topic].partitions
        )
        return sum(high - low for low, high in ends)


def test_groups_of_a_cluster_beside_a_kafka(namespace: Client, kafka: KafkaBroker, address: str) -> None:
    store = {"bootstrapServers": f"{address}:{kafka.ports[PODS]}", "nodeIds": "0-2"}
    cluster = Cluster.create(namespace, offsetsPartitions=3, topics={"mode": "kafka", "kafka": store}).ready()
    cluster.create_topic(OTHER_TOPIC, PARTITIONS)
    values = [f"record-{number}" for number in range(RECORDS)]
    cluster.produce(OTHER_TOPIC, values)
    assert stored_there(kafka, OTHER_TOPIC) == RECORDS, "by the coordinators' addresses they came to that Kafka"
    assert sorted(value for _, value in cluster.records(OTHER_TOPIC)) == sorted(values)

    with committing(cluster, "beside", (Librdkafka, Librdkafka, KafkaPython)) as load:
        namespace.apply(object_of("ConsumerGroup", "seen", groupId="beside-0", topics=[TOPIC]))

        def seen() -> bool:
            status = namespace.read("cg", "seen").get("status", {})
            return (status.get("state"), status.get("memberCount"), "lag" in status) == ("Stable", 1, True)

        until("the group's members and lag", seen, 60)
        for pod in ("main-0", "main-1"):  # one after the other, each coordinates some of the groups
            uid = cluster.pods()[pod]["metadata"]["uid"]
            namespace.kubectl("delete", "pod", pod, "--wait=false")

            def back(pod: str = pod, uid: str = uid) -> bool:
                found = cluster.pods().get(pod)
                return found is not None and found["metadata"]["uid"] != uid and is_ready(found)

            until(f"another {pod}", back, 180, every=1.0)
            cluster.ready()
        load.check()
    until(
        "the operator's look at the group",
        lambda: condition(namespace.read("cg", "seen"), "ClusterReachable").get("status") == "True",
        60,
    )
    listed = kafka.tool(LIST_GROUPS, "--list").split()
    assert [group for group in listed if group.startswith("beside")] == [], "groups are the coordinators' alone"
