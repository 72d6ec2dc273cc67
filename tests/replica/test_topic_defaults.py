"""The server's defaults of topics' configs (`log.cleanup.policy`, ...) on a running cluster."""

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.controller.image import MEMBERS_LEVEL
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.topics.settings import topic_settings

from tests.replica.cluster import SimCluster
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
