"""Clusters of three with three brokers that joined, whose partitions are moved (ADR 42, ADR 45).

Each function is about the topic's partition of `serving_cluster`, or about the one with the Raft group that is named.
"""

import random
from collections.abc import Callable, Mapping

from muster_coordinator.controller.commands import MovePartition
from muster_coordinator.controller.image import Partition, Topic
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.replica.folders import CHECKPOINTS, SEGMENTS
from muster_coordinator.replica.partitions.suspensions import NOT_SUSPENDED, SUSPENDED

from tests.replica.cluster import SimCluster
from tests.replica.serving_cluster import GROUPS, formed
from tests.sim.loop import unexpected

TOPIC_GROUP = GroupNo(GROUPS[-1])
FOUNDERS = (0, 1, 2)
NEW = (7, 8, 9)
SMALL = {"checkpoint_bytes": 2_000, "trailing_entries": 1, "segment_flush_ms": 100}


def cluster_of_six(seed: int = 1, **settings: int) -> SimCluster:
    cluster = formed(seed, **settings)
    cluster.notice = suspensions_only
    for broker in NEW:
        cluster.add(broker)
    cluster.wait_ready()
    return cluster


def suspensions_only(what: str, details: Mapping[str, object], error: BaseException | None) -> None:
    """A start may find a replica that stood aside before its image says that the partition was moved."""
    if what not in (SUSPENDED, NOT_SUSPENDED):
        unexpected(what, details, error)


def _place(cluster: SimCluster, group: GroupNo, broker: int | None = None) -> tuple[Topic, int]:
    """As the furthest image has it, or this broker's."""
    nodes = cluster.nodes.values() if broker is None else (cluster.nodes[broker],)
    images = [image for node in nodes if (image := node.image()) is not None]
    topics = max(images, key=lambda image: image.applied).topics.values()
    return next((topic, at) for topic in topics for at, one in enumerate(topic.partitions) if one.group == group)


def partition(cluster: SimCluster, broker: int | None = None, group: GroupNo = TOPIC_GROUP) -> Partition:
    topic, at = _place(cluster, group, broker)
    return topic.partitions[at]


def move(cluster: SimCluster, *voters: int, group: GroupNo = TOPIC_GROUP) -> None:
    """Without voters: back to where it was."""
    topic, at = _place(cluster, group)
    command = MovePartition(topic_id=topic.topic_id, partition=at, voters=tuple(map(BrokerId, voters)))
    result = cluster.submit(cluster.wait_leader(0), command)
    assert result.error == Code.NONE, result


def traces(cluster: SimCluster, broker: int, group: GroupNo = TOPIC_GROUP) -> list[str]:
    folders = tuple(f"{kind}/{group}/" for kind in (SEGMENTS, CHECKPOINTS))
    return [name for name in cluster.disks[broker].files() if name.startswith(folders)]


def await_moved(cluster: SimCluster, *voters: int, ms: float = 120_000, group: GroupNo = TOPIC_GROUP) -> None:
    """Until the move is complete, these and nobody else have a replica, and the others have nothing of it."""

    def done() -> bool:
        for broker, node in cluster.nodes.items():
            here = partition(cluster, broker, group)
            held = node.host.groups.get(group)
            if here.moves or here.voters != voters or (held is not None) is not (broker in voters):
                return False
            if held is None and (traces(cluster, broker, group) or group in node.group_manager.states):
                return False
            if held is not None and (set(held.core.config.everyone()) != set(voters) or held.suspended):
                return False
        return True

    try:
        cluster.world.run_until(f"the partition on {voters}", done, ms)
    except AssertionError:
        told = {
            broker: (held.core.status(), node.formed and node.formed.membership.held_up)
            for broker, node in cluster.nodes.items()
            if (held := node.host.groups.get(group)) is not None
        }
        raise AssertionError(f"{partition(cluster, group=group)}, {told}") from None


def await_told(cluster: SimCluster, broker: int, *voters: int, group: GroupNo = TOPIC_GROUP) -> None:
    """Until this broker has applied the end of the move to these."""

    def told() -> bool:
        here = partition(cluster, broker, group)
        return here.voters == voters and not here.moves

    cluster.world.run_until("the end of the move", told, 120_000)


def wal_of(cluster: SimCluster, broker: int, group: GroupNo = TOPIC_GROUP):
    return cluster.nodes[broker].group_manager.wal_of(group)


def storm(
    cluster: SimCluster, rand: random.Random, write: Callable[[int], None], group: GroupNo = TOPIC_GROUP
) -> tuple[int, ...]:
    """Moves at random, brokers that lose power at random, some writes after each: who has it when all is complete."""
    voters: tuple[int, ...] = FOUNDERS
    for _ in range(6):
        voters = tuple(rand.sample((*FOUNDERS, *NEW), rand.choice((1, 3, 3, 5))))
        move(cluster, *voters, group=group)
        for _ in range(rand.randrange(3)):
            cluster.world.run_for(rand.randrange(1, 3_000))
            down = rand.sample((*FOUNDERS, *NEW), rand.choice((1, 1, 2)))
            for broker in down:
                cluster.kill(broker)
            cluster.world.run_for(rand.randrange(1, 3_000))
            for broker in down:
                cluster.restart(broker)
            cluster.world.run_for(rand.randrange(1, 1_000))
        cluster.wait_ready(ms=60_000)
        write(3)
    await_moved(cluster, *voters, group=group)
    write(3)
    return voters
