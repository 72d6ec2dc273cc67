"""A checkpoint is offered only while the segments up to its recovery point are there."""

from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.records.batch import encode_batch

from tests.replica.cluster import SimCluster
from tests.sim.loop import World

TOPIC = CreateTopic(name="data", topic_id=bytes([7]) * 16, partitions=1, configs=(("segment.bytes", "600"),))


def written(cluster: SimCluster, broker: int, group: GroupNo, batches: int, size: int = 500) -> None:
    clock, results = cluster.loops[broker], []
    for _ in range(batches):
        batch = encode_batch([(b"k", bytes(size))], timestamp_ms=clock.wall_ms())
        log = cluster.nodes[broker].local_log(group)
        log.produce(batch, configs={}, deadline_ms=clock.monotonic_ms() + 5_000, done=results.append)
    cluster.world.run_until("answers", lambda: len(results) == batches)
    assert {result.code for result in results} == {Code.NONE}


def test_a_follower_catches_up_although_the_log_start_has_passed_the_newest_checkpoint() -> None:
    """Nothing more is written, so no other checkpoint comes by itself."""
    cluster = SimCluster(World(1), checkpoint_bytes=20_000, trailing_entries=1, segment_flush_ms=100)
    cluster.start()
    assert cluster.submit(0, TOPIC).error == Code.NONE
    group = GroupNo(cluster.nodes[0].image().topics["data"].partitions[0].group)
    leader = cluster.wait_leader(group)
    behind = next(broker for broker in cluster.nodes if broker != leader)
    cluster.kill(behind)
    written(cluster, leader, group, 50)
    cluster.world.run_for(1_000)
    newest = cluster.nodes[leader].group_manager.checkpoints.newest(group)
    assert newest is not None
    written(cluster, leader, group, 6)
    deleted: list = []
    clock = cluster.loops[leader]
    log = cluster.nodes[leader].local_log(group)
    log.delete_records(-1, deadline_ms=clock.monotonic_ms() + 5_000, done=deleted.append)
    cluster.world.run_until("records deleted", lambda: deleted)
    assert deleted[0].code == Code.NONE
    cluster.world.run_for(1_000)
    assert cluster.nodes[leader].group_manager.checkpoints.newest(group) == newest
    cluster.restart(behind)
    cluster.wait_ready()
    cluster.world.run_until("the group", lambda: cluster.nodes[behind].local_log(group) is not None)
    cluster.converge([group], ms=30_000)
