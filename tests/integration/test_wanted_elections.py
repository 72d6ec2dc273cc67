"""Leadership returns to a broker that was away as soon as an administrator asks for it."""

from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster import MusterCluster, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

PARTITIONS = 12
TRY_S, ASK_S, LED_S = 3, 20, 30


def leaders(admin: AdminClient, topic: str) -> dict[int, tuple[int, int]]:
    """Partition -> (leader, preferred leader). A question that went to a broker just killed waits in librdkafka for
    that one until its time is over; then another is asked."""

    def told() -> dict[int, tuple[int, int]] | None:
        with suppress(KafkaException):
            found = admin.list_topics(topic, timeout=TRY_S).topics[topic].partitions
            return {number: (one.leader, one.replicas[0]) for number, one in found.items()}
        return None

    found: dict[int, tuple[int, int]] = wait_until("Metadata", told, ASK_S)
    return found


def test_an_administrator_gives_a_broker_its_partitions_back(tmp_path: Path) -> None:
    """By themselves they would return after an hour."""
    settings = {"muster.leadership.takeback.ms": "3600000"}
    with MusterCluster(tmp_path / "data", replicas=3, partitions=3, settings=settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("orders", PARTITIONS, 3)])["orders"].result(ASK_S)
        wait_until("the preferred leaders", lambda: all(a == b for a, b in leaders(admin, "orders").values()), LED_S)
        cluster.kill(2)
        wait_until("other leaders", lambda: all(2 != one >= 0 for one, _ in leaders(admin, "orders").values()), LED_S)
        away = [TopicPartition("orders", at) for at, (_, wanted) in leaders(admin, "orders").items() if wanted == 2]
        refused = admin.elect_leaders(ElectionType.PREFERRED, away).result(ASK_S)
        assert {error.name() for error in refused.values()} == {"PREFERRED_LEADER_NOT_AVAILABLE"}

        cluster.start_replica(2)
        elected = admin.elect_leaders(ElectionType.PREFERRED, away).result(ASK_S)
        assert len(elected) == PARTITIONS // 3
        assert [error for error in elected.values() if error is not None] == []
        wait_until("them in Metadata", lambda: all(a == b for a, b in leaders(admin, "orders").values()), LED_S)
        again = admin.elect_leaders(ElectionType.PREFERRED, away).result(ASK_S)
        assert {error.name() for error in again.values()} == {"ELECTION_NOT_NEEDED"}
