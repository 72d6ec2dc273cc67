"""Restarts: checkpoints, recovery points, segments and WAL add up to what was; a follower too far behind is given a
state."""

import itertools

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code, Corruption
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import GIB, KIB, MIB
from muster_coordinator.replica import limits
from muster_coordinator.replica.node import Node
from muster_coordinator.replica.partitions.surface import EpochEnd
from muster_coordinator.replica.snapshots.checkpoints import PAUSE_RATIO, ROUND_PAUSES_RATIO
from muster_coordinator.storage.partition_log import PartitionLog

from tests.replica.cluster import SimCluster, commit_request
from tests.sim.loop import Latency, World

TINY_WAL = {
    "wal_file_bytes": 64 * KIB,
    "wal_bytes_max": 512 * KIB,
    "checkpoint_bytes": 100 * KIB,
    "trailing_entries": 10,
    "segment_flush_ms": 1_000,
}


FREQUENT = {"checkpoint_bytes": 60 * KIB, "offsets_segment_bytes": 30 * KIB}
"""A checkpoint each few hundred commits."""


def commit_many(cluster: SimCluster, partition: int, first: int, count: int) -> None:
    """Commits of many groups, several in flight; what is refused (a full WAL) is tried again."""
    todo = list(range(first, first + count))
    while todo:
        leader = cluster.wait_leader(1 + partition)
        some, todo = todo[:20], todo[20:]
        waiting = [
            (n, cluster.ask_later(leader, partition, commit_request(f"group-{n % 50}", n, "topic" * 20))) for n in some
        ]
        cluster.world.run_until("commits", lambda: all(answers for _, answers in waiting))  # noqa: B023
        refused = [n for n, answers in waiting if answers[0].topics[0][1][0][1] != Code.NONE]
        todo = refused + todo
        if refused:
            cluster.world.run_for(50)


def segment_bytes(cluster: SimCluster, broker: int, group: int) -> list[bytes]:
    disk = cluster.disks[broker]
    state = cluster.nodes[broker].group_manager.states[GroupNo(group)]
    state.write_out()
    return [disk.content(f"{state.folder}/{n}") for n in disk.listdir(state.folder) if n.endswith(".log")]


def test_a_replica_restarts_from_checkpoint_recovery_point_and_wal() -> None:
    cluster = SimCluster(World(1), **TINY_WAL)
    cluster.start()
    commit_many(cluster, 0, 0, 1_800)
    cluster.world.run_for(500)  # the idle groups that pin the oldest file are checkpointed too
    commit_many(cluster, 0, 1_800, 200)
    node = next(iter(cluster.nodes.values()))
    assert node.group_manager.checkpoints.made > 0
    assert max(wal_writer.wal.deleted_files for wal_writer in node.host.wal_writers) > 0, (
        "checkpoints let the WAL go on"
    )
    cluster.world.run_for(100)
    before = cluster.nodes[0].host.groups[GroupNo(1)].applied
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    for broker in cluster.brokers:
        restarted = cluster.restart(broker)
        group = restarted.host.groups[GroupNo(1)]
        assert 0 < group.core.log.checkpoint[0] <= group.applied
    cluster.wait_ready()
    cluster.converge()
    assert cluster.nodes[0].host.groups[GroupNo(1)].applied >= before
    assert cluster.fetch(cluster.wait_leader(1), 0, "group-49", "topic" * 20) == (Code.NONE, 1_999)
    assert segment_bytes(cluster, 0, 1) == segment_bytes(cluster, 1, 1) == segment_bytes(cluster, 2, 1)


def test_every_group_with_much_gets_its_checkpoint_however_few_are_written_at_once() -> None:
    """Two at once; the others were flushed meanwhile, which began their wait anew, and lost again and again."""
    partitions = 8
    cluster = SimCluster(World(11), partitions=partitions, checkpoint_bytes=GIB, segment_flush_ms=5_000)
    cluster.start()
    leaders = [cluster.wait_leader(1 + partition) for partition in range(partitions)]
    for loop in cluster.loops.values():
        loop.latency["checkpoint"] = Latency(200_000, 400_000)
    long = "topic" * 500
    groups = [cluster.nodes[leader].host.groups[GroupNo(1 + at)] for at, leader in enumerate(leaders)]
    offset = 0
    while min(group.applied_bytes for group in groups) < limits.CHECKPOINT_BYTES_MIN:
        offset += 1
        waiting = [
            cluster.ask_later(leader, partition, commit_request("g", offset, long))
            for partition, leader in enumerate(leaders)
        ]
        cluster.world.run_until("commits", lambda: all(waiting))  # noqa: B023
    cluster.world.run_for(5_000 + partitions * 1_000)
    for node in cluster.nodes.values():
        assert node.group_manager.checkpoints.made == partitions


@pytest.mark.parametrize("takes_ms", [100, 200, 1_000])
def test_groups_that_are_still_written_to_get_checkpoints_by_age_one_at_a_time_with_pauses(takes_ms: int) -> None:
    """In one look all eight were due, and again half a minute later: a sixth of a busy replica's time."""
    partitions, flush_ms = 8, 5_000
    far = {"checkpoint_bytes": GIB, "wal_bytes_max": GIB}
    cluster = SimCluster(World(11), partitions=partitions, segment_flush_ms=flush_ms, **far)
    cluster.start()
    for loop in cluster.loops.values():
        loop.latency["checkpoint"] = Latency(takes_ms * 1_000, takes_ms * 1_000)
    long = "topic" * 500
    leaders = [cluster.wait_leader(1 + partition) for partition in range(partitions)]
    groups = [cluster.nodes[leader].host.groups[GroupNo(1 + at)] for at, leader in enumerate(leaders)]
    checkpoints, loop = cluster.nodes[0].group_manager.checkpoints, cluster.loops[0]

    def write_to_all() -> None:
        for partition, leader in enumerate(leaders):
            assert cluster.commit(leader, partition, "g", groups[partition].applied, long) == Code.NONE

    while min(group.applied_bytes for group in groups) < limits.CHECKPOINT_BYTES_MIN:
        write_to_all()
    pause_ms = min(PAUSE_RATIO * takes_ms, ROUND_PAUSES_RATIO * flush_ms // (partitions + 1))  # and the controller
    made_ms: list[int] = []
    for _ in range((flush_ms + (partitions + 1) * (takes_ms + pause_ms + 200)) // 100):
        cluster.world.run_for(100)
        write_to_all()
        if checkpoints.made > len(made_ms):
            made_ms.append(loop.monotonic_ms())
            assert checkpoints.made == len(made_ms), "one at a time"
    numbers = [group.number for group in groups]
    assert all(checkpoints.newest(number) for number in numbers), "the first are old again before the last had a turn"
    assert min(after - before for before, after in itertools.pairwise(made_ms)) >= pause_ms


def test_what_is_old_enough_to_be_flushed_is_checkpointed_too_when_it_is_much() -> None:
    """A start must not replay all that the WAL holds, only because no group reached `checkpoint_bytes`."""
    cluster = SimCluster(World(7), checkpoint_bytes=GIB, segment_flush_ms=5_000)
    cluster.start()
    leader = cluster.wait_leader(1)
    checkpoints, group = cluster.nodes[leader].group_manager.checkpoints, cluster.nodes[leader].host.groups[GroupNo(1)]
    commit_many(cluster, 0, 0, 200)
    assert 0 < group.applied_bytes < limits.CHECKPOINT_BYTES_MIN
    cluster.world.run_for(6_000)
    assert (checkpoints.made, checkpoints.flushes > 0) == (0, True), "little is only flushed"
    long = "topic" * 200
    while group.applied_bytes < limits.CHECKPOINT_BYTES_MIN:
        assert cluster.commit(cluster.wait_leader(1), 0, "g", group.applied, long) == Code.NONE
    cluster.world.run_for(6_000)
    assert checkpoints.made == 1
    for node in cluster.nodes.values():
        kept = node.host.groups[GroupNo(1)].core.log.cache_bytes
        assert kept <= limits.GROUP_CACHE_FLUSHED_BYTES, "a group that rests holds little in memory"
    flushes = checkpoints.flushes
    assert cluster.commit(cluster.wait_leader(1), 0, "g", 1, long) == Code.NONE
    cluster.world.run_for(6_000)
    assert checkpoints.made == 1, "a little more is flushed again, and not written out whole"
    assert checkpoints.flushes > flushes
    cluster.kill(leader)
    restarted = cluster.restart(leader)
    assert restarted.host.groups[GroupNo(1)].core.log.checkpoint[0] > 200
    cluster.wait_ready([leader])
    cluster.converge()


@pytest.mark.parametrize("seed", range(6))
def test_kills_at_any_time_during_flushes_and_checkpoints_lose_nothing(seed: int) -> None:
    cluster = SimCluster(World(seed), **TINY_WAL)
    cluster.start()
    rand = cluster.world.rand
    done = 0
    for _ in range(8):
        commit_many(cluster, 0, done, 150)
        done += 150
        cluster.world.run_for(rand.random() * 1_500)
        victim = rand.choice(list(cluster.nodes))
        cluster.kill(victim)
        cluster.restart(victim)
        cluster.wait_ready()
    cluster.converge()
    assert cluster.fetch(cluster.wait_leader(1), 0, f"group-{(done - 1) % 50}", "topic" * 20) == (Code.NONE, done - 1)
    assert segment_bytes(cluster, 0, 1) == segment_bytes(cluster, 1, 1) == segment_bytes(cluster, 2, 1)


def behind(seed: int, **more: object) -> tuple[SimCluster, int]:
    """A cluster whose logs begin after what one replica, which is down, has."""
    cluster = SimCluster(World(seed), **{**TINY_WAL, **FREQUENT, **more})
    cluster.start()
    created = CreateTopic(name="data", topic_id=bytes([7]) * 16, partitions=1, configs=())
    assert cluster.submit(0, created).error == Code.NONE
    late = next(b for b in cluster.brokers if b != cluster.wait_leader(1))
    commit_many(cluster, 0, 0, 100)
    cluster.kill(late)
    commit_many(cluster, 0, 100, 700)
    leader = cluster.nodes[cluster.wait_leader(1)]
    done = 800
    while leader.host.groups[GroupNo(1)].core.first_index <= 200:
        assert done < 2_000, "its checkpoints come each few hundred commits"
        commit_many(cluster, 0, done, 50)  # each replica makes its first one at another point
        done += 50
    return cluster, late


def test_a_follower_that_is_too_far_behind_gets_checkpoint_and_segments() -> None:
    cluster, late = behind(3)
    node = cluster.restart(late)
    cluster.wait_ready()
    assert node.formed.installs.installed.total() >= 1
    cluster.converge()
    assert segment_bytes(cluster, 0, 1) == segment_bytes(cluster, 1, 1) == segment_bytes(cluster, 2, 1)
    # It is a full voter again: it can lead, and a restart finds what was installed.
    leader = cluster.wait_leader(1)
    assert cluster.nodes[leader].transfer(GroupNo(1), late)
    cluster.world.run_until("the follower leads", lambda: cluster.leader_of(1) == late, 3_000)
    assert cluster.fetch(late, 0, "group-49", "topic" * 20)[0] == Code.NONE
    commit_many(cluster, 0, 5_000, 100)
    cluster.kill(late)
    cluster.restart(late)
    cluster.wait_ready()
    cluster.converge()


@pytest.mark.parametrize("after", [10, 40, 80, 90, 100, 105, 110, 115, 120, 130, 150])
def test_a_crash_at_any_step_of_an_installation_is_harmless(after: int) -> None:
    """Power goes off after so many effects of the disk, in the midst of staging, swapping or publishing."""
    cluster, late = behind(4)
    node = cluster.restart(late)
    disk = cluster.disks[late]

    def staging_began() -> bool:
        return bool(disk.listdir("incoming/1"))

    cluster.world.run_until("the transfer began", staging_began, 10_000)
    crashed_at = disk.effects + after
    cluster.world.run_until("so many effects", lambda: disk.effects >= crashed_at or not node.not_ready(), 10_000)
    cluster.kill(late)
    cluster.restart(late)
    cluster.wait_ready()
    cluster.converge()
    assert segment_bytes(cluster, 0, 1) == segment_bytes(cluster, 1, 1) == segment_bytes(cluster, 2, 1)


def test_an_interrupted_install_goes_on_with_what_arrived() -> None:
    cluster, late = behind(5, offsets_segment_bytes=10 * MIB)
    node = cluster.restart(late)
    cluster.world.run_until("half of it", lambda: node.formed.installs.bytes_received > 70_000, 10_000)
    leader = cluster.wait_leader(1)
    cluster.net.reset(late, leader)
    pulled = node.formed.installs.bytes_received
    cluster.wait_ready()
    cluster.converge()
    size = sum(len(data) for data in segment_bytes(cluster, late, 1))
    assert node.formed.installs.bytes_received < size + 70_000, (pulled, size)


def test_a_full_wal_refuses_and_recovers() -> None:
    """With checkpoints held up, proposals are refused as busy; when they go on, so does everything."""
    cluster = SimCluster(World(6), replicas=1, **{**TINY_WAL, "checkpoint_bytes": 10**9})
    cluster.start()
    checkpoints = cluster.nodes[0].group_manager.checkpoints
    release = checkpoints.hold(GroupNo(1))
    codes = []
    for n in range(3_000):
        codes.append(cluster.commit(0, 0, f"group-{n % 50}", n, "topic" * 20))
        if codes[-1] != Code.NONE:
            break
    assert codes[-1] == Code.COORDINATOR_NOT_AVAILABLE
    release()
    cluster.world.run_for(3_000)
    assert cluster.commit(0, 0, "g", 1) == Code.NONE


def test_a_disk_that_is_nearly_full_takes_no_new_data_until_there_is_room() -> None:
    cluster = SimCluster(World(10), replicas=1)
    cluster.start()
    disk = cluster.disks[0]
    disk.capacity_bytes = disk._used() + limits.DISK_LOW_BYTES // 2
    cluster.world.run_for(1_500)
    assert cluster.commit(0, 0, "g", 1) == Code.COORDINATOR_NOT_AVAILABLE
    disk.capacity_bytes = None
    cluster.world.run_for(1_500)
    assert cluster.commit(0, 0, "g", 2) == Code.NONE


def test_a_lost_wal_is_no_beginning() -> None:
    cluster = SimCluster(World(7), replicas=1)
    cluster.start()
    assert cluster.commit(0, 0, "g", 1) == Code.NONE
    cluster.kill(0)
    disk = cluster.disks[0]
    for name in disk.listdir("wal-offsets"):
        disk.unlink(f"wal-offsets/{name}")
    with pytest.raises(Corruption, match="is gone"):
        cluster.restart(0)


def test_a_failed_sync_ends_the_process() -> None:
    cluster = SimCluster(World(8), replicas=1)
    cluster.start()
    cluster.disks[0].fail_next("sync", path="wal-offsets")
    answers = cluster.ask_later(0, 0, commit_request("g", 1))
    with pytest.raises(Exception, match="WAL"):
        cluster.world.run_for(1_000)
    assert not answers


def test_the_log_view_reads_what_was_committed() -> None:
    cluster = SimCluster(World(9))
    cluster.start()
    leader = cluster.wait_leader(1)
    for n in range(10):
        assert cluster.commit(leader, 0, "g", n) == Code.NONE
    node: Node = cluster.nodes[leader]
    log = node.local_log(GroupNo(1))
    assert log.serving(-1) == Code.NONE
    assert log.serving(log.term() + 1) == Code.UNKNOWN_LEADER_EPOCH
    assert log.serving(log.term() - 1) == Code.FENCED_LEADER_EPOCH
    assert log.read(-1, 1_000, whole_first_batch=True).code == Code.OFFSET_OUT_OF_RANGE
    assert log.read(11, 1_000, whole_first_batch=True).code == Code.OFFSET_OUT_OF_RANGE
    whole = log.read(0, 1 << 20, whole_first_batch=True)
    assert (whole.code, whole.high_watermark, whole.last_stable_offset, whole.log_start_offset) == (0, 10, 10, 0)
    assert isinstance(node.group_manager.states[GroupNo(1)].log, PartitionLog)
    found = []
    for wanted in (-1, -2, -3, -4, 0, 10**15):
        log.list_offset(wanted, done=found.append)
        cluster.world.run_until("an answer", lambda: len(found) > 0)
        result = found.pop()
        assert result.code == Code.NONE
        expected = {-1: 10, -2: 0, -4: 0, 0: 0, 10**15: -1}
        assert result.offset == expected.get(wanted, result.offset)
    assert log.epoch_end(log.term()).end_offset == 10
    other = next(b for b in cluster.nodes if b != leader)
    assert cluster.nodes[other].local_log(GroupNo(1)).serving(-1) == Code.NOT_LEADER_OR_FOLLOWER


def test_an_earlier_term_of_an_empty_log_ended_where_the_log_does() -> None:
    """(-1, -1) would be truncation to a client at offset 0, which then applies auto.offset.reset (KIP-320)."""
    cluster = SimCluster(World(10))
    cluster.start()
    first = cluster.wait_leader(1)
    earlier = cluster.nodes[first].local_log(GroupNo(1)).term()
    cluster.kill(first)
    leader = cluster.wait_leader(1)
    log = cluster.nodes[leader].local_log(GroupNo(1))
    assert log.term() > earlier
    for epoch in range(log.term() + 1):
        assert log.epoch_end(epoch) == EpochEnd(Code.NONE, epoch, 0)
    assert log.epoch_end(-1) == log.epoch_end(log.term() + 1) == EpochEnd(Code.NONE, -1, -1)
    assert cluster.commit(leader, 0, "g", 1) == Code.NONE
    assert log.epoch_end(earlier) == EpochEnd(Code.NONE, earlier, 0)
