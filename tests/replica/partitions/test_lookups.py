"""Looking for an offset by time takes a job's while; what happens to the partition meanwhile decides the answer."""

import errno

from muster_coordinator.controller.commands import CreateTopic, DeleteTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.records.batch import encode_batch

from tests.replica.cluster import SimCluster
from tests.sim.loop import Latency, World

SECOND_US = 1_000_000
TOPIC = CreateTopic(name="data", topic_id=bytes([7]) * 16, partitions=1, configs=())


def looking(seed: int) -> tuple[SimCluster, int, list]:
    """A by-time look-up that takes two seconds at the leader; the list gets its answer."""
    cluster = SimCluster(World(seed), segment_flush_ms=100)
    cluster.start()
    assert cluster.submit(0, TOPIC).error == Code.NONE
    group = GroupNo(cluster.nodes[0].image().topics["data"].partitions[0].group)
    leader = cluster.wait_leader(group)
    clock, produced, found = cluster.loops[leader], [], []
    log = cluster.nodes[leader].local_log(group)
    batch = encode_batch([(b"k", b"v")], timestamp_ms=clock.wall_ms())
    log.produce(batch, configs={}, deadline_ms=clock.monotonic_ms() + 5_000, done=produced.append)
    cluster.world.run_until("it is produced", lambda: produced)
    cluster.world.run_for(500)
    clock.latency["lookup"] = Latency(2 * SECOND_US, 2 * SECOND_US)
    log.list_offset(1, done=found.append)
    cluster.world.run_for(1_000)
    assert not found
    return cluster, leader, found


def test_a_topic_deleted_meanwhile_has_no_offset_to_tell() -> None:
    """ "No offset" would send the client to the log's end."""
    cluster, _, found = looking(1)
    assert cluster.submit(0, DeleteTopic(topic_id=TOPIC.topic_id)).error == Code.NONE
    cluster.world.run_until("an answer", lambda: found)
    assert found[0].code == Code.NOT_LEADER_OR_FOLLOWER


def test_a_look_up_that_the_disk_refuses_is_an_answer_and_no_end() -> None:
    cluster, leader, found = looking(2)
    cluster.disks[leader].fail_next("pread", errno.EIO, "segments/")
    cluster.world.run_until("an answer", lambda: found)
    assert found[0].code == Code.KAFKA_STORAGE_ERROR
    again: list = []
    cluster.nodes[leader].local_log(cluster.nodes[leader].image().topics["data"].partitions[0].group).list_offset(
        1, done=again.append
    )
    cluster.world.run_until("the next answer", lambda: again)
    assert (again[0].code, again[0].offset) == (Code.NONE, 0)


def test_segments_replaced_meanwhile_are_somebody_elses_to_judge() -> None:
    """The file that the job reads is cut short by a snapshot install."""
    cluster, leader, found = looking(3)
    group_manager = cluster.nodes[leader].group_manager
    number = GroupNo(cluster.nodes[leader].image().topics["data"].partitions[0].group)
    state = group_manager.states[number]
    state.close()
    name = next(name for name in cluster.disks[leader].files() if name.startswith(f"segments/{number}/"))
    cluster.disks[leader].open(name).truncate(20)
    cluster.world.run_until("an answer", lambda: found)
    assert found[0].code == Code.NOT_LEADER_OR_FOLLOWER
