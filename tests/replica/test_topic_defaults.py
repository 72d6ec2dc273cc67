"""The server's defaults of topics' configs (`log.cleanup.policy`, ...) on a running cluster."""

from dataclasses import replace
from typing import Any

import pytest
from muster_coordinator.controller.commands import CreateTopic, FinalizeFeatures
from muster_coordinator.controller.image import MEMBERS_LEVEL
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import SEGMENT_MS
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.topics.settings import topic_settings
from muster_coordinator.wire.versions import Api

from tests.api.kafka_client import KafkaClient, code
from tests.replica.cluster import SimCluster
from tests.replica.maintenance.test_cleaner import Table
from tests.sim.loop import World

DEFAULTS = (("cleanup.policy", "compact"), ("delete.retention.ms", "5"))


@pytest.mark.parametrize(("level", "compacts"), [(MEMBERS_LEVEL - 1, False), (MEMBERS_LEVEL, True)])
def test_topics_are_compacted_by_default_once_all_replicas_know_how(level: int, compacts: bool) -> None:
    """A topic that says delete is never, and one that was made before is from then on."""
    cluster = SimCluster(World(level), topic_configs=DEFAULTS, feature_max=level)
    cluster.start()
    for number, configs in enumerate(((), (("cleanup.policy", "delete"),)), start=1):
        topic = CreateTopic(name=f"t{number}", topic_id=bytes([number] * 16), partitions=1, configs=configs)
        assert cluster.submit(0, topic).error == Code.NONE
    cluster.world.run_for(500)
    node = cluster.nodes[0]
    image, manager = node.image(), node.group_manager
    assert image is not None
    assert manager is not None
    assert image.feature_level == level
    found = [topic_settings(manager._configs(GroupNo(image.topics[name].partitions[0].group))) for name in ("t1", "t2")]
    assert [one.compacts for one in found] == [compacts, False]
    assert {one.cleaning.delete_retention_ms for one in found} == {5}


def test_a_batch_is_judged_by_the_servers_defaults_below_the_topics_own() -> None:
    """`message.max.bytes`, `log.message.timestamp.type` and the like are of every topic that does not say otherwise."""
    cluster = SimCluster(World(3), topic_configs=(("cleanup.policy", "compact"), ("max.message.bytes", "500")))
    cluster.start()
    for number, configs in enumerate(((), (("cleanup.policy", "delete"), ("max.message.bytes", "5000"))), start=1):
        topic = CreateTopic(name=f"t{number}", topic_id=bytes([number] * 16), partitions=1, configs=configs)
        assert cluster.submit(0, topic).error == Code.NONE
    cluster.world.run_for(500)

    def produce(name: str, batch: bytes) -> Code:
        image = cluster.nodes[0].image()
        assert image is not None
        topic = image.topics[name]
        leader = cluster.wait_leader(topic.partitions[0].group)
        log = cluster.nodes[leader].local_log(topic.partitions[0].group)
        assert log is not None
        found: list[Code] = []
        log.produce(
            batch,
            configs=dict(topic.configs),
            deadline_ms=cluster.loops[leader].monotonic_ms() + 5_000,
            done=lambda result: found.append(result.code),
        )
        cluster.world.run_until("an answer", lambda: found, 10_000)
        return found[0]

    keyless = encode_batch([(None, b"v")], timestamp_ms=1_700_000_000_000)
    large = encode_batch([(b"k", b"v" * 500)], timestamp_ms=1_700_000_000_000)
    assert [produce("t1", keyless), produce("t2", keyless)] == [Code.INVALID_RECORD, Code.NONE]
    assert [produce("t1", large), produce("t2", large)] == [Code.MESSAGE_TOO_LARGE, Code.NONE]


@pytest.mark.parametrize(
    ("level", "by_default"), [(MEMBERS_LEVEL - 1, Code.NONE), (MEMBERS_LEVEL, Code.POLICY_VIOLATION)]
)
def test_records_are_deleted_where_the_policy_in_force_has_delete(level: int, by_default: Code) -> None:
    """Kafka's `Partition.deleteRecordsOnLeader`: another broker than the leader says only that it is not; the leader
    refuses where `LogConfig.delete` is false, whoever said so, and only then looks at the offset."""
    cluster = SimCluster(World(level), topic_configs=DEFAULTS, feature_max=level)
    cluster.start()
    policies = {"t1": None, "t2": "delete", "t3": "compact", "t4": "compact,delete"}
    wanted = [by_default, Code.NONE, Code.POLICY_VIOLATION, Code.NONE]
    for number, (name, policy) in enumerate(policies.items(), start=1):
        configs = () if policy is None else (("cleanup.policy", policy),)
        topic = CreateTopic(name=name, topic_id=bytes([number] * 16), partitions=1, configs=configs)
        assert cluster.submit(0, topic).error == Code.NONE
    image = cluster.nodes[0].image()
    assert image is not None
    for name in policies:
        cluster.wait_leader(image.topics[name].partitions[0].group)

    def delete(broker: int, name: str, offset: int) -> int:
        client = KafkaClient(cluster.nodes[broker])
        topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": offset}]}]
        client.send(Api.DELETE_RECORDS, 2, timeout_ms=5_000, topics=topics)
        answers: list[Any] = []

        def there() -> list[Any]:
            answers.extend(client.receive())
            return answers

        cluster.world.run_until("an answer", there, 8_000)
        return code(answers[0].topics[0].partitions[0].error_code)

    for name, expected in zip(policies, wanted, strict=True):
        leader = cluster.wait_leader(image.topics[name].partitions[0].group)
        out_of_range = Code.OFFSET_OUT_OF_RANGE if expected is Code.NONE else expected
        assert [delete(leader, name, offset) for offset in (-1, -2, 99)] == [expected, out_of_range, out_of_range], name
        others = [broker for broker in cluster.nodes if broker != leader]
        assert [delete(broker, name, -1) for broker in others] == [Code.NOT_LEADER_OR_FOLLOWER] * 2, name


def test_a_server_that_compacts_by_default_cleans_though_no_topic_says_so() -> None:
    """Also where the internal logs are cut, which a cleaner would have looked at."""
    defaults = (("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.1"), ("segment.ms", "5000"))
    table = Table(1, configs={}, topic_configs=defaults, internal_compacts=False)
    table.write(40)
    table.cluster.world.run_for(1_500)
    table.wait_cleaned()
    table.assert_same()


def test_segments_close_in_time_for_the_compaction_that_a_new_feature_level_brings() -> None:
    """`max.compaction.lag.ms` closes the segments of topics that are compacted (KIP-354): also of those that the server
    compacts by default, which begins when the last replica knows how."""
    defaults = (("cleanup.policy", "compact"), ("max.compaction.lag.ms", "7000"))
    cluster = SimCluster(World(5), topic_configs=defaults, feature_max=MEMBERS_LEVEL - 1)
    cluster.start()
    for number, policy in enumerate((None, "delete"), start=1):
        configs = () if policy is None else (("cleanup.policy", policy),)
        topic = CreateTopic(name=f"t{number}", topic_id=bytes([number] * 16), partitions=1, configs=configs)
        assert cluster.submit(0, topic).error == Code.NONE
    cluster.world.run_for(500)

    def rolls() -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for node in cluster.nodes.values():
            image, manager = node.image(), node.group_manager
            assert image is not None
            assert manager is not None
            for name in ("t1", "t2"):
                roll = manager._roll_wanted(GroupNo(image.topics[name].partitions[0].group))
                assert roll is not None
                found.setdefault(name, set()).add(roll[1])
        return found

    assert rolls() == {"t1": {SEGMENT_MS}, "t2": {SEGMENT_MS}}
    cluster.base = replace(cluster.base, feature_max=MEMBERS_LEVEL)
    for broker in list(cluster.nodes):
        cluster.kill(broker)
        cluster.restart(broker)
        cluster.wait_ready()
    raised = cluster.submit(cluster.wait_leader(0), FinalizeFeatures(feature_level=MEMBERS_LEVEL))
    assert raised.error == Code.NONE, raised
    cluster.world.run_for(500)
    assert rolls() == {"t1": {7_000}, "t2": {SEGMENT_MS}}
