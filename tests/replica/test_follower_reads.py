"""Followers answer reads up to what they have applied, while they hear their leader (KIP-392)."""

from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo

from tests.replica.cluster import SimCluster, produce_when_room
from tests.sim.loop import World
from tests.topics.batch_bytes import batch

DATA = CreateTopic(name="data", topic_id=bytes([7]) * 16, partitions=1, configs=())


def test_a_follower_reads_as_its_leader_does_until_it_hears_it_no_more() -> None:
    cluster = SimCluster(World(5))
    cluster.start()
    assert cluster.submit(0, DATA).error == Code.NONE
    cluster.world.run_for(200)
    group = GroupNo(cluster.nodes[0].image().topics["data"].partitions[0].group)
    leader = cluster.wait_leader(group)
    follower, other = (broker for broker in cluster.nodes if broker != leader)
    log = cluster.nodes[leader].local_log(group)
    codes: list[Code] = []
    for _ in range(3):
        produce_when_room(log, batch(2), cluster.loops[leader].monotonic_ms() + 5_000, codes.append)
    cluster.world.run_until("three batches", lambda: len(codes) == 3)
    assert codes == [Code.NONE] * 3
    cluster.converge([group])

    there = cluster.nodes[follower].local_log(group)
    expected = log.read(2, 1_000, whole_first_batch=True)
    assert there.read(2, 1_000, whole_first_batch=True) == expected
    assert there.read_following(2, 1_000, whole_first_batch=True) == expected
    assert (expected.high_watermark, len(expected.records) > 0) == (6, True)
    beyond = there.read_following(9, 1_000, whole_first_batch=True)
    assert (beyond.code, beyond.records, beyond.high_watermark, beyond.unproven) == (Code.NONE, b"", 6, False)
    assert log.read_following(2, 1_000, whole_first_batch=True).code is Code.NOT_LEADER_OR_FOLLOWER, "it leads"

    cluster.net.isolate(follower)
    cluster.world.run_for(4_000)
    assert there.read_following(2, 1_000, whole_first_batch=True).code is Code.NOT_LEADER_OR_FOLLOWER
    level = cluster.nodes[other].local_log(group)
    assert level.read_following(2, 1_000, whole_first_batch=True) == expected
