"""Groups of which nothing commits cannot be checkpointed: they keep no WAL file from the others, and lose nothing."""

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import KIB, MIB
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica.group_manager import TOPICS_WAL
from muster_coordinator.replica.multiraft.wal_writer import WalWriter

from tests.replica.cluster import SimCluster, produce_when_room
from tests.sim.loop import World

WAL = {"wal_file_bytes": 64 * KIB, "wal_bytes_max": MIB}
PARTITIONS = 6


def wal_writer_of(cluster: SimCluster, broker: int) -> WalWriter:
    return next(wal_writer for wal_writer in cluster.nodes[broker].host.wal_writers if wal_writer.name == TOPICS_WAL)


def produce(cluster: SimCluster, group: GroupNo, count: int, size: int) -> list[Code]:
    """Through whoever leads."""
    leader = cluster.leader_of(group)
    assert leader is not None
    log = cluster.nodes[leader].local_log(group)
    assert log is not None
    codes: list[Code] = []
    for number in range(count):
        batch = encode_batch([(b"%d" % number, bytes(size))], timestamp_ms=1_700_000_000_000)
        produce_when_room(log, batch, cluster.loops[leader].monotonic_ms() + 5_000, codes.append)
    return codes


@pytest.mark.parametrize(("count", "size"), [(3, 1_000), (30, 1_000), (3, 60_000)])
def test_a_group_without_a_quorum_keeps_no_file_and_its_entries_commit_when_it_has_one(count: int, size: int) -> None:
    """A few entries, half a file of them, and more than a file."""
    cluster = SimCluster(World(5), partitions=1, **WAL)
    cluster.start()
    made = cluster.submit(0, CreateTopic(name="data", topic_id=bytes([1]) * 16, partitions=PARTITIONS, configs=()))
    assert made.error is Code.NONE
    groups = [partition.group for partition in cluster.nodes[0].image().topics["data"].partitions]
    for group in groups:
        cluster.wait_leader(group)
    lost, *others = groups
    assert produce(cluster, lost, 1, 100) == []
    cluster.converge([lost])
    leader = cluster.leader_of(lost)
    held = {}
    for broker, node in cluster.nodes.items():
        if broker != leader:
            held[broker] = node.host.groups.pop(lost)  # whatever it is sent, it does not hear it
    codes = produce(cluster, lost, count, size)
    cluster.world.run_for(5_000)
    core = cluster.nodes[leader].host.groups[lost].core
    assert core.log.last_index - core.commit >= count

    wal_writer = wal_writer_of(cluster, leader)
    for _ in range(120):
        for group in others:
            produce(cluster, group, 1, 8_000)
        cluster.world.run_for(100)
        assert wal_writer.wal.used_bytes() <= MIB
    assert wal_writer.wal.deleted_files > 2 * 16, "it went round more than twice"
    assert wal_writer.wal.carried_bytes >= count * size
    rounds = wal_writer.wal.deleted_files // 10 + 1
    assert wal_writer.wal.carried_bytes <= rounds * (count * size + 20_000), "once a round"

    # One of the two first: both together could elect each other, and need nothing of what only the leader had.
    for broker, group_there in held.items():
        cluster.nodes[broker].host.groups[lost] = group_there
        cluster.world.run_until("committed", lambda: core.commit == core.log.last_index > count)
    cluster.converge(groups)
    assert Code.NONE not in codes
    ends = {node.local_log(lost).state.next_offset for node in cluster.nodes.values()}
    assert ends == {1 + count}, "nothing of it is gone"
