"""The offsets log as Kafka's tools see it: segment files of a running replica, the same on every replica."""

import hashlib
import re
from pathlib import Path

import pytest
from muster_coordinator.replica.partitions.surface import partition_of

from tests import kafka_tools
from tests.cluster import MusterCluster, wait_until
from tests.integration.failover_load import records_of
from tests.integration.test_many_raft_groups import create_topic
from tests.live_files import live_paths
from tests.raw_client import RawClient
from tests.raw_group import NONE, RawMember, commit, find_coordinator

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


def segments_of(cluster: MusterCluster, replica: int, partition: int) -> list[Path]:
    return live_paths(cluster.folder / f"replica-{replica}" / "data", f"**/__consumer_offsets-{partition}/*.log")


@pytest.mark.java
def test_dump_log_decodes_the_segments_of_a_running_replica(cluster: MusterCluster) -> None:
    create_topic(cluster, "dumped")
    group = "dump-me"
    member = RawMember(cluster.bootstrap, group, protocol_type="consumer", protocols=(("range", bytes(10)),))
    member.join()
    member.sync({member.member: bytes(10)})
    assert member.commit("dumped", {0: 4242}, metadata="noted") == {0: NONE}
    member.drop_connection()
    segment = segments_of(cluster, find_coordinator(cluster.bootstrap, group)[0], partition_of(group, 50))[-1]
    dumped = kafka_tools.run(
        kafka_tools.DUMP_LOG, "--offsets-decoder", "--deep-iteration", "--print-data-log", "--files", str(segment)
    )
    assert re.search(r'"group":"dump-me","topic":"dumped","partition":0', dumped), dumped[-2000:]
    assert '"offset":4242' in dumped
    assert '"metadata":"noted"' in dumped
    assert '"protocolType":"consumer"' in dumped
    assert "isvalid: true" in dumped
    assert "isvalid: false" not in dumped


def test_every_replica_serves_and_stores_the_same_bytes(cluster: MusterCluster) -> None:
    create_topic(cluster, "dumped")
    group = "same-bytes"
    partition = partition_of(group, 50)
    _, host, port = find_coordinator(cluster.bootstrap, group)
    with RawClient(host, port) as client:
        for n in range(200):
            assert commit(client, group, "dumped", {0: n}) == {0: NONE}
    values = records_of(cluster.bootstrap, "__consumer_offsets", partition)
    assert len(values) >= 200

    def hashes() -> set[str]:
        return {
            hashlib.sha256(b"".join(path.read_bytes() for path in segments_of(cluster, replica, partition))).hexdigest()
            for replica in range(3)
        }

    wait_until("the followers have applied it all", lambda: len(hashes()) == 1, 60)


def test_the_offsets_topic_refuses_writes_growth_and_deletion(cluster: MusterCluster) -> None:
    from confluent_kafka import KafkaException, Producer
    from confluent_kafka.admin import AdminClient, NewPartitions

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 5000})
    failures: list[str] = []
    producer.produce("__consumer_offsets", b"x", partition=0, on_delivery=lambda e, _: failures.append(e.name()))
    producer.flush(10)
    assert failures == ["TOPIC_EXCEPTION"]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in (
        admin.create_partitions([NewPartitions("__consumer_offsets", 60)])["__consumer_offsets"],
        admin.delete_topics(["__consumer_offsets"])["__consumer_offsets"],
    ):
        with pytest.raises(KafkaException) as refused:
            future.result(10)
        assert refused.value.args[0].name() == "POLICY_VIOLATION"
