"""A damaged segment is never served: the reader gets a typed error, another replica leads, and it is told."""

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.replica.folders import segments_folder
from muster_coordinator.replica.snapshots.damage import WHAT

from tests.replica.cluster import SimCluster
from tests.replica.partitions.test_replicated_rolls import Writer
from tests.sim.loop import World


class Told:
    """The notices of each replica."""

    def __init__(self, cluster: SimCluster) -> None:
        self.found: dict[int, list[tuple[str, dict]]] = {}

        def listen(node) -> None:
            found = self.found[int(node.broker)] = []
            node._notice = lambda what, details, error: found.append((what, dict(details)))

        cluster.on_start = listen


def damaged_leader(cluster: SimCluster) -> tuple[Writer, int, str, int]:
    """A writer, its leader after a restart, the leader's first sealed segment, and its size."""
    writer = Writer(cluster, **{"segment.ms": "5000"})
    writer.write(30)
    cluster.world.run_for(2_000)
    leader = cluster.wait_leader(writer.group)
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    for broker in cluster.brokers:
        cluster.restart(broker)
    cluster.wait_ready()
    leader = cluster.wait_leader(writer.group)
    name = f"{segments_folder(writer.group)}/t-0/{0:020d}.log"
    return writer, leader, name, len(cluster.disks[leader].content(name))


def read(cluster: SimCluster, broker: int, group: int, offset: int = 0):
    return cluster.nodes[broker].local_log(GroupNo(group)).read(offset, 1 << 20, whole_first_batch=True)


@pytest.mark.parametrize("at", [0, 7, 9, 11, 14, 16, 20, 40, 200, -5])
def test_a_flipped_byte_of_a_sealed_segment_is_answered_with_an_error_and_another_replica_serves(at: int) -> None:
    cluster = SimCluster(World(1), segment_flush_ms=200)
    told = Told(cluster)
    cluster.start()
    writer, leader, name, size = damaged_leader(cluster)
    sound = cluster.disks[leader].content(name)
    at %= size
    cluster.disks[leader].damage(name, at, bytes([sound[at] ^ 0x10]))
    offset = (
        cluster.nodes[leader].group_manager.states[writer.group].log.views()[0].next_offset - 1 if at > 1_000 else 0
    )
    results = [read(cluster, leader, writer.group, o) for o in range(offset + 1)]
    assert Code.KAFKA_STORAGE_ERROR in {result.code for result in results}
    for o, result in enumerate(results):
        if result.code == Code.NONE:
            assert result.records
            assert result.records in sound, f"offset {o}: other bytes than were written"
    assert [details["group"] for what, details in told.found[leader] if what == WHAT] == [writer.group], "told once"
    cluster.world.run_until("another leads", lambda: cluster.leader_of(writer.group) not in (None, leader), 5_000)
    other = cluster.wait_leader(writer.group)
    assert read(cluster, other, writer.group).records.startswith(sound[:100])
    writer.write(3)
    cluster.converge([writer.group])


def test_a_look_up_by_time_that_meets_the_damage_ends_no_process() -> None:
    cluster = SimCluster(World(2), segment_flush_ms=200)
    told = Told(cluster)
    cluster.start()
    writer, leader, name, _ = damaged_leader(cluster)
    cluster.disks[leader].damage(name, 100, b"\xff\xff\xff")
    results: list = []
    cluster.nodes[leader].local_log(writer.group).list_offset(1_700_000_000_000, done=results.append)
    cluster.world.run_until("an answer", lambda: results, 5_000)
    assert results[0].code == Code.KAFKA_STORAGE_ERROR
    assert [what for what, _ in told.found[leader]].count(WHAT) == 1
    writer.write(3)


def test_without_another_replica_the_rest_is_served_on() -> None:
    cluster = SimCluster(World(3), replicas=1, segment_flush_ms=200)
    Told(cluster)
    cluster.start()
    writer, leader, name, size = damaged_leader(cluster)
    cluster.disks[leader].damage(name, 100, b"\xff\xff\xff")
    assert read(cluster, leader, writer.group).code == Code.KAFKA_STORAGE_ERROR
    writer.write(3)
    last = cluster.nodes[leader].group_manager.states[writer.group].next_offset - 1
    assert read(cluster, leader, writer.group, last).code == Code.NONE
    assert size
