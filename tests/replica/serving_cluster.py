"""A formed cluster on virtual time with a topic, every group led, and commits in each offsets partition."""

from typing import Any

from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.controller.image import MEMBERS_LEVEL
from muster_coordinator.errors import Code

from tests.replica.cluster import SimCluster
from tests.sim.loop import World

GROUPS = range(5)
"""The controller's, three offsets partitions, and a topic's."""
TOPIC_ID = bytes([1]) * 16


def formed(seed: int = 1, replicas: int = 3, level: int = MEMBERS_LEVEL, **settings: Any) -> SimCluster:
    cluster = SimCluster(World(seed), replicas=replicas, feature_max=level, **settings)
    cluster.start()
    topic = CreateTopic(name="t", topic_id=TOPIC_ID, partitions=1, configs=())
    assert cluster.submit(0, topic).error == Code.NONE
    for group in GROUPS:
        cluster.wait_leader(group)
    return cluster


def commit_everywhere(cluster: SimCluster, offset: int, among: list[int] | None = None) -> None:
    """Group "g" commits this offset in each offsets partition."""
    for partition in range(3):
        leader = cluster.wait_leader(1 + partition, among=among)
        assert cluster.commit(leader, partition, "g", offset) == Code.NONE
