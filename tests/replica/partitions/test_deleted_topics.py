"""A topic that is deleted while its group is at work leaves nothing behind: no slot, no file, no broken start."""

from muster_coordinator.controller.commands import CreateTopic, DeleteTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import CONTROLLER_GROUP, GroupNo
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica.folders import CHECKPOINTS, SEGMENTS
from muster_coordinator.replica.group_manager import TOPICS_WAL
from muster_coordinator.replica.snapshots.checkpoints import CHECKPOINTS_AT_ONCE

from tests.replica.cluster import SimCluster
from tests.sim.loop import Latency, World

SECOND_US = 1_000_000
SMALL_CHECKPOINTS = {"checkpoint_bytes": 2_000, "trailing_entries": 1, "segment_flush_ms": 100}


def created(cluster: SimCluster, number: int) -> int:
    """A topic of one partition, made everywhere; its Raft group."""
    name = f"data{number}"
    result = cluster.submit(0, CreateTopic(name=name, topic_id=bytes([number + 1]) * 16, partitions=1, configs=()))
    assert result.error == Code.NONE, result
    group = cluster.nodes[0].image().topics[name].partitions[0].group
    cluster.wait_leader(group)
    everywhere(cluster, lambda node: node.local_log(GroupNo(group)) is not None)
    return int(group)


def deleted(cluster: SimCluster, number: int, group: int) -> None:
    result = cluster.submit(0, DeleteTopic(topic_id=bytes([number + 1]) * 16))
    assert result.error == Code.NONE, result
    everywhere(cluster, lambda node: node.local_log(GroupNo(group)) is None)


def everywhere(cluster: SimCluster, check) -> None:
    cluster.world.run_until("it is so everywhere", lambda: all(map(check, cluster.nodes.values())), 10_000)


def written(cluster: SimCluster, group: int, batches: int) -> None:
    leader = cluster.wait_leader(group)
    clock = cluster.loops[leader]
    results: list = []
    for n in range(batches):
        batch = encode_batch([(b"%d" % n, bytes(500))], timestamp_ms=clock.wall_ms())
        cluster.nodes[leader].local_log(GroupNo(group)).produce(
            batch, configs={}, deadline_ms=clock.monotonic_ms() + 30_000, done=results.append
        )
    cluster.world.run_until("answers", lambda: len(results) == batches, 20_000)
    assert {result.code for result in results} == {Code.NONE}
    cluster.converge([group])


def stopped(cluster: SimCluster, broker: int) -> None:
    """SIGKILL: what was written stays, synced or not."""
    cluster.loops[broker].kill()
    del cluster.nodes[broker], cluster.loops[broker]
    cluster.net.gone(broker)


def files_of(cluster: SimCluster, broker: int, group: int) -> list[str]:
    folders = (f"{CHECKPOINTS}/{group}", f"{SEGMENTS}/{group}")
    return [name for name in cluster.disks[broker].files() if name.startswith(folders)]


def test_topics_deleted_during_their_checkpoints_do_not_end_all_checkpoints() -> None:
    """The entries are kept, so that nobody is behind a checkpoint and gets that of another one."""
    cluster = SimCluster(World(1), **{**SMALL_CHECKPOINTS, "trailing_entries": 1_000})
    cluster.start()
    for number in range(CHECKPOINTS_AT_ONCE):
        group = created(cluster, number)
        for loop in cluster.loops.values():
            loop.latency["flush"] = Latency(3 * SECOND_US, 3 * SECOND_US)
        written(cluster, group, 6)
        cluster.world.run_for(300)
        deleted(cluster, number, group)
        for loop in cluster.loops.values():
            loop.latency.pop("flush")
        cluster.world.run_for(4_000)
    made = {broker: node.group_manager.checkpoints.made for broker, node in cluster.nodes.items()}
    group = created(cluster, CHECKPOINTS_AT_ONCE)
    written(cluster, group, 20)
    cluster.world.run_for(3_000)
    assert all(node.group_manager.checkpoints.made > made[broker] for broker, node in cluster.nodes.items())


def test_a_topic_deleted_while_its_segment_is_being_synced_leaves_nothing() -> None:
    """Neither is the file closed under the job, nor its folder left when that has ended."""
    cluster = SimCluster(World(3), segment_flush_ms=600_000, segment_sync_bytes=1)
    cluster.start()
    group = created(cluster, 0)
    for loop in cluster.loops.values():
        loop.latency["flush"] = Latency(3 * SECOND_US, 3 * SECOND_US)
    written(cluster, group, 6)
    cluster.world.run_for(300)
    deleted(cluster, 0, group)
    assert all(files_of(cluster, broker, group) for broker in cluster.nodes), "the syncs are under way"
    cluster.world.run_for(4_000)
    assert not any(files_of(cluster, broker, group) for broker in cluster.nodes)


def test_a_replica_that_ends_before_the_deletion_is_in_its_wal_starts_again() -> None:
    cluster = SimCluster(World(2), **SMALL_CHECKPOINTS)
    cluster.start()
    group = created(cluster, 0)
    written(cluster, group, 40)
    cluster.world.run_for(1_000)
    assert files_of(cluster, 2, group)
    cluster.loops[2].latency[TOPICS_WAL] = Latency(20 * SECOND_US, 20 * SECOND_US)
    deleted(cluster, 0, group)
    cluster.world.run_for(500)
    stopped(cluster, 2)
    cluster.restart(2)
    cluster.wait_ready()
    everywhere(cluster, lambda node: node.local_log(GroupNo(group)) is None)
    cluster.world.run_for(2_000)
    assert [files_of(cluster, broker, group) for broker in cluster.brokers] == [[], [], []]


def test_files_of_a_group_that_the_wal_has_forgotten_go_with_the_next_start() -> None:
    cluster = SimCluster(World(3), **SMALL_CHECKPOINTS)
    cluster.start()
    group = created(cluster, 0)
    written(cluster, group, 40)
    cluster.world.run_for(1_000)
    cluster.loops[2].latency["folders"] = Latency(20 * SECOND_US, 20 * SECOND_US)
    deleted(cluster, 0, group)
    cluster.world.run_for(500)
    published: list[bool] = []
    cluster.nodes[2].group_manager.checkpoints.want(CONTROLLER_GROUP, lambda: published.append(True))
    cluster.world.run_until("a checkpoint that knows of the deletion", lambda: published)
    assert files_of(cluster, 2, group), "the WAL has dropped the group, its files are still there"
    stopped(cluster, 2)
    cluster.restart(2)
    cluster.wait_ready()
    cluster.world.run_for(2_000)
    assert files_of(cluster, 2, group) == []


def test_a_deleted_group_is_not_begun_anew_by_a_start_that_has_not_heard_of_the_deletion_yet() -> None:
    """Two replicas that forgot the group would else elect a leader in a term in which it had one, of another log."""
    cluster = SimCluster(World(4), **SMALL_CHECKPOINTS)
    cluster.start()
    group = created(cluster, 0)
    written(cluster, group, 10)
    deleted(cluster, 0, group)
    cluster.world.run_for(1_000)
    for broker in cluster.brokers:
        stopped(cluster, broker)
    for broker in cluster.brokers:
        cluster.restart(broker)
        cluster.net.isolate(broker)
    cluster.world.run_for(1_000)
    assert all("data0" in node.image().topics for node in cluster.nodes.values()), "the deletion is not replayed yet"
    assert not any(GroupNo(group) in node.host.groups for node in cluster.nodes.values())
    cluster.net.heal()
    cluster.wait_ready()
    everywhere(cluster, lambda node: node.image().topics.keys() == {"__consumer_offsets"})


def test_a_topic_made_while_a_replica_was_down_is_made_there_once_it_has_caught_up() -> None:
    cluster = SimCluster(World(5), **SMALL_CHECKPOINTS)
    cluster.start()
    stopped(cluster, 2)
    cluster.world.run_for(2_500)
    result = cluster.submit(0, CreateTopic(name="data0", topic_id=bytes([1]) * 16, partitions=1, configs=()))
    assert result.error == Code.NONE
    group = cluster.nodes[0].image().topics["data0"].partitions[0].group
    cluster.wait_leader(group)
    cluster.restart(2)
    cluster.wait_ready()
    everywhere(cluster, lambda node: node.local_log(GroupNo(group)) is not None)
    written(cluster, group, 10)
