"""A topic is there when CreateTopics says so: whatever replica is asked, every partition has a leader."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import MusterCluster, wait_until
from tests.integration.second_client import SecondClient

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]

PARTITIONS = 60
Clients = list[SecondClient]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """One for each of three replicas, by broker id."""
    with MusterCluster(tmp_path_factory.mktemp("leaders") / "data", replicas=3, partitions=4) as cluster:
        first = SecondClient(cluster.port)
        brokers: Any = wait_until("three brokers", lambda: _three(first), 20)
        made = [SecondClient(broker.port) for broker in sorted(brokers, key=lambda b: b.node_id)]
        yield made
        for one in (first, *made):
            one.close()


def _three(client: SecondClient) -> object:
    brokers = client.ask("Metadata", 9, topics=[]).brokers
    return brokers if len(brokers) == 3 else None


def leaderless(client: SecondClient, name: str) -> list[int]:
    """A replica that has not applied the topic yet says 3, as in Kafka; one that has knows the leaders."""

    def described() -> object:
        (topic,) = client.ask("Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=False).topics
        return topic if topic.error_code != 3 else None

    topic: Any = wait_until("the topic is known", described, 5)
    assert topic.error_code == 0
    return [p.partition_index for p in topic.partitions if p.leader_id < 0]


@pytest.mark.parametrize("asked", range(3))
def test_created_and_grown_partitions_have_leaders_wherever_one_looks(clients: Clients, asked: int) -> None:
    name = f"new-{asked}"
    topic = {"name": name, "num_partitions": PARTITIONS, "replication_factor": -1, "assignments": [], "configs": []}
    answer = clients[asked].ask("CreateTopics", 5, topics=[topic], timeout_ms=20_000, validate_only=False)
    assert answer.topics[0].error_code == 0
    assert [leaderless(client, name) for client in clients] == [[], [], []]
    more = {"name": name, "count": 2 * PARTITIONS, "assignments": None}
    answer = clients[asked].ask("CreatePartitions", 2, topics=[more], timeout_ms=20_000, validate_only=False)
    assert answer.results[0].error_code == 0
    assert [leaderless(client, name) for client in clients] == [[], [], []]
