"""A leader's memory does not grow with what is produced, whatever time the requests leave themselves."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster import MusterCluster, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

TOPIC = "large"
PRODUCED_BYTES, VALUE_BYTES = 160_000_000, 10_000
GROWTH_BYTES_MAX = 64_000_000
"""The cache of the log is 16 MiB, and the interpreter's heap needs some room. Before, it was all that was produced."""


def anonymous_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return 1_024 * next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))


def test_a_leader_keeps_no_batch_that_it_answered(cluster: MusterCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, -1)], operation_timeout=20)[TOPIC].result(20)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.size": 50_000, "request.timeout.ms": 300_000})
    failed: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error)

    def produce(size_bytes: int) -> None:
        for _ in range(size_bytes // VALUE_BYTES):
            while True:
                try:
                    producer.produce(TOPIC, bytes(VALUE_BYTES), on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
        wait_until("everything is acknowledged", lambda: producer.flush(1) == 0, 120)

    produce(PRODUCED_BYTES // 4)  # caches are full
    before = {replica: anonymous_bytes(cluster.pid(replica)) for replica in cluster.alive()}
    produce(PRODUCED_BYTES)
    assert failed == []
    grown = {replica: anonymous_bytes(cluster.pid(replica)) - before[replica] for replica in cluster.alive()}
    assert max(grown.values()) < GROWTH_BYTES_MAX, grown
