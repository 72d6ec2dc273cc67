"""Seven brokers in three racks, 50 offsets partitions and 100 of a topic, levelled and then one less (ADR 47).

The whole product on virtual time. Four brokers join three that hold everything. After each move every broker names the
leader of the moved partition within a second, also who has no replica of it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.controller.image import OFFSETS_TOPIC, ClusterImage
from muster_coordinator.errors import Code
from muster_coordinator.events import BROKER_EMPTIED, MOVE_COMPLETE
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo
from muster_coordinator.replica.settings import NodeSettings
from typing_extensions import override

from tests.replica.cluster import SimCluster
from tests.replica.test_balancer import decommission, image_of, under_way
from tests.sim.loop import World

pytestmark = [pytest.mark.computes, pytest.mark.slow, pytest.mark.timeout(600)]

OFFSETS_PARTITIONS, TOPIC_PARTITIONS, FACTOR = 50, 100, 3
JOIN = (3, 4, 5, 6)
RACKS = ("a", "b", "c")
NAMED_MS = 1_000


class Racks(SimCluster):
    """Broker i is in rack i modulo three."""

    @override
    def settings_of(self, broker: int) -> NodeSettings:
        return replace(super().settings_of(broker), rack=RACKS[broker % len(RACKS)])


class Naming:
    """Holds every broker to its second after each move, by what all of them say every tenth of one."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.seen = 0
        self.due_us: dict[int, int] = {}
        self.named = 0

    def look(self) -> None:
        told = self.cluster.told(MOVE_COMPLETE)
        for one in told[self.seen :]:
            self.due_us[int(str(one["raft_group"]))] = self.cluster.world.now_us + NAMED_MS * 1_000
        self.seen = len(told)
        for group, due_us in list(self.due_us.items()):
            leader = self.cluster.leader_of(group)
            said = {node.leadership(GroupNo(group)).leader for node in self.cluster.nodes.values()}
            if leader is not None and said == {leader}:
                del self.due_us[group]
                self.named += 1
            else:
                assert self.cluster.world.now_us <= due_us, f"group {group} is led by {leader}, and brokers say {said}"


def run_until(cluster: SimCluster, naming: Naming, what: str, done: Callable[[], bool], ms: int) -> None:
    for _ in range(ms // 100):
        cluster.world.run_for(100)
        naming.look()
        if done():
            return
    raise AssertionError(f"not within {ms} ms: {what}")


def counts(image: ClusterImage) -> tuple[Counter[int], Counter[int]]:
    """Replicas and preferred leaderships of each broker."""
    places = [place for topic in image.topics.values() for place in topic.partitions]
    return Counter(voter for place in places for voter in place.voters), Counter(place.preferred for place in places)


def is_level(cluster: SimCluster, brokers: set[int]) -> bool:
    """Leaderships over all brokers; replicas among those of a rack: each partition has one in each of three racks, so
    the brokers of a rack of three hold fewer than those of a rack of two."""
    if under_way(cluster):
        return False
    replicas, leaderships = counts(image_of(cluster))
    shares = [leaderships, *({one: replicas[one] for one in brokers if one % 3 == rack} for rack in range(3))]
    return set(replicas) == set(leaderships) == brokers and all(
        max(share.values()) - min(share.values()) <= 1 for share in shares
    )


def test_seven_brokers_are_level_in_their_racks_and_one_is_emptied() -> None:
    cluster = Racks(
        World(7),
        partitions=OFFSETS_PARTITIONS,
        balancer_quiet_ms=1_000,
        moves_at_once=10,
        takeback_ms=2_000,
        decommission_redirect_ms=5_000,
    )
    cluster.start()
    placed = tuple(tuple(BrokerId((at + n) % 3) for n in range(FACTOR)) for at in range(TOPIC_PARTITIONS))
    topic = CreateTopic(name="t", topic_id=bytes([1]) * 16, partitions=TOPIC_PARTITIONS, configs=(), placed=placed)
    assert cluster.submit(0, topic).error == Code.NONE
    for broker in JOIN:
        cluster.add(broker)
    cluster.wait_ready(ms=60_000)
    naming = Naming(cluster)
    everyone = set(range(3 + len(JOIN)))
    run_until(cluster, naming, "level", lambda: is_level(cluster, everyone), 900_000)
    image = image_of(cluster)
    assert len(image.topics[OFFSETS_TOPIC].partitions) == OFFSETS_PARTITIONS
    _racks_respected(image)
    assert naming.named > TOPIC_PARTITIONS
    decommission(cluster, 4)
    run_until(cluster, naming, "left", lambda: BrokerId(4) not in image_of(cluster).brokers, 900_000)
    assert [told["replica"] for told in cluster.told(BROKER_EMPTIED)] == [4]
    assert set(cluster.nodes[BrokerId(4)].host.groups) == {CONTROLLER_GROUP}, "nothing of a partition is left there"
    cluster.kill(4)
    run_until(cluster, naming, "level again", lambda: is_level(cluster, everyone - {4}), 900_000)
    _racks_respected(image_of(cluster))
    run_until(cluster, naming, "all are named", lambda: not naming.due_us, 2_000)


def _racks_respected(image: ClusterImage) -> None:
    for topic in image.topics.values():
        for place in topic.partitions:
            assert len({image.brokers[voter].rack for voter in place.voters}) == FACTOR, place
