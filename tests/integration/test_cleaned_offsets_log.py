"""An offsets log that real replicas have cleaned, as clients and Kafka's tools find it: the last commit of each key, a
beginning that did not move, and what was committed once is still there after a SIGKILL."""

import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from tests import kafka_tools
from tests.cluster import MusterCluster, wait_until
from tests.integration.test_many_raft_groups import create_topic
from tests.live_files import live_paths, live_sizes
from tests.raw_client import RawClient
from tests.raw_group import NONE, commit, fetch, find_coordinator
from tests.watermarks import watermarks

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

SEGMENT_BYTES = 8_192
HISTORY_BYTES = 40_000
SETTINGS = {
    "offsets.topic.segment.bytes": str(SEGMENT_BYTES),
    "muster.offsets.history.bytes": str(HISTORY_BYTES),
    "log.cleaner.backoff.ms": "200",
    "muster.segment.flush.ms": "200",
    "muster.checkpoint.bytes": "65536",
}
COMMITS = 900
FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"


def log_folder(cluster: MusterCluster, replica: int) -> Path:
    return live_paths(cluster.folder / f"replica-{replica}" / "data", "**/__consumer_offsets-0")[0]


def size_of(cluster: MusterCluster, replica: int) -> int:
    return sum(live_sizes(live_paths(log_folder(cluster, replica), "*.log")).values())


def read(bootstrap: str) -> tuple[int, int, list[tuple[int, bytes]]]:
    """(low, high, (offset, key) of each record)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    try:
        low, high = watermarks(consumer, TopicPartition("__consumer_offsets", 0))
        consumer.assign([TopicPartition("__consumer_offsets", 0, low)])
        found: list[tuple[int, bytes]] = []
        deadline = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline, f"{len(found)} records up to {found[-1:]}, the log ends at {high}"
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append((message.offset(), bytes(message.key() or b"")))
            elif message is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return low, high, found
    finally:
        consumer.close()


@pytest.mark.java
def test_the_last_commits_are_read_from_a_log_that_every_replica_has_cleaned(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "cluster", partitions=1, settings=SETTINGS) as cluster:
        create_topic(cluster, "t")
        broker, host, port = find_coordinator(cluster.bootstrap, "once")
        with RawClient(host, port) as client:
            assert commit(client, "once", "t", {0: 4_242}) == {0: NONE}
            for n in range(COMMITS):
                assert commit(client, f"again-{n % 5}", "t", {0: n}, metadata="x" * 60) == {0: NONE}

        def cleaned() -> bool:
            return all(
                (log_folder(cluster, replica) / "cleaned").exists()
                and size_of(cluster, replica) <= HISTORY_BYTES + 2 * SEGMENT_BYTES
                for replica in range(3)
            )

        def sizes() -> str:
            return f"{[(size_of(cluster, n), cluster.status(n).get('cleaner')) for n in range(3)]}"

        try:
            wait_until("every replica has cleaned its log", cleaned, 60, 0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}: {sizes()}") from None
        low, high, records = read(cluster.bootstrap)
        assert low == 0
        assert high > COMMITS
        assert len(records) < COMMITS, "what was committed over is gone"
        offsets = [offset for offset, _ in records]
        assert offsets == sorted(set(offsets))
        assert {key for _, key in records if b"once" in key}, "the oldest commit of all"
        # The first ones up to it: the cleaner goes on, and there may be fewer by now.
        first = 1 + next(place for place, (_, key) in enumerate(records) if b"once" in key)
        formatted = kafka_tools.run(
            kafka_tools.CONSUMER,
            *("--bootstrap-server", cluster.bootstrap, "--topic", "__consumer_offsets", "--from-beginning"),
            *("--formatter", FORMATTER, "--max-messages", str(first), "--timeout-ms", "40000"),
            *("--command-property", "exclude.internal.topics=false"),
        )
        assert re.search(r'"group":"once".*"offset":4242', formatted), formatted[:2_000]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        asked = ConfigResource(ConfigResource.Type.TOPIC, "__consumer_offsets")
        assert admin.describe_configs([asked])[asked].result(10)["cleanup.policy"].value == "compact"
        cluster.kill(broker)
        cluster.start_replica(broker)
        wait_until("a coordinator", lambda: find_coordinator(cluster.bootstrap, "once")[0] >= 0, 30)

        def fetched() -> bool:
            _, host, port = find_coordinator(cluster.bootstrap, "once")
            with RawClient(host, port) as client:
                return fetch(client, "once", "t", [0])[0][0] == 4_242

        wait_until("the commit is still there", fetched, 30, 0.2)
        assert read(cluster.bootstrap)[0] == 0
