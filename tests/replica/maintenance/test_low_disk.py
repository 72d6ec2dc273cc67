"""A replica whose disk fills gives away what it leads before it must end; where all are full, room is all it takes."""

import errno
from typing import Any

import pytest
from muster_coordinator.controller.commands import CreateTopic, DeleteTopic
from muster_coordinator.errors import Code
from muster_coordinator.events import DISK_FULL, DISK_HAS_ROOM, DISK_LOW, TRANSFER_STARTED
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import MIB
from muster_coordinator.raft import limits as raft_limits
from muster_coordinator.replica import limits as replica_limits
from muster_coordinator.replica.node import Node

from tests.replica.cluster import SimCluster
from tests.sim.disk import SimDisk
from tests.sim.loop import World

LOW, GOOD, FULL = 4 * MIB, 6 * MIB, MIB
TOPIC = bytes(15) + b"\1"
GROUPS = range(4)
"""The controller's and three offsets partitions'."""


class Disks:
    """A cluster, and what was said about its disks."""

    def __init__(self, seed: int, **settings: Any) -> None:
        sizes = {"disk_low_bytes": LOW, "disk_good_bytes": GOOD, "takeback_ms": 2_000}
        self.cluster = SimCluster(World(seed), **{**sizes, **settings})
        self.cluster.start()

    def leave(self, broker: int, free_bytes: int | None) -> None:
        disk = self.cluster.disks[broker]
        disk.capacity_bytes = None if free_bytes is None else disk._used() + free_bytes

    def wait(self, what: str, check: Any, ms: float = 10_000) -> None:
        self.cluster.world.run_until(what, check, ms)

    def leads(self, broker: int) -> int:
        return self.cluster.nodes[broker].leaderships()

    def terms(self) -> dict[int, int]:
        return {group: max(self.node(b).host.groups[GroupNo(group)].core.term for b in range(3)) for group in GROUPS}

    def node(self, broker: int) -> Node:
        return self.cluster.nodes[broker]

    def commit(self, partition: int, offset: int) -> int:
        leader = self.cluster.wait_leader(1 + partition)
        return self.cluster.commit(leader, partition, "g", offset)

    def commit_everywhere(self, offset: int) -> set[int]:
        return {self.commit(partition, offset) for partition in range(3)}


def test_the_groups_of_a_low_replica_move_and_come_back_when_it_has_room() -> None:
    it = Disks(1)
    assert all(it.leads(broker) for broker in range(3))
    it.leave(0, LOW - 1)
    it.wait("it leads nothing", lambda: it.leads(0) == 0, 2_500)
    assert it.commit_everywhere(1) == {Code.NONE}
    terms = it.terms()
    it.cluster.world.run_for(20_000)
    assert it.terms() == terms, "nothing is taken back by a replica without room, or handed around"
    assert not it.node(0).not_ready()
    assert it.node(1).low_disks() == it.node(0).low_disks() == {0}
    it.leave(0, GOOD - 1)
    it.cluster.world.run_for(10_000)
    assert it.leads(0) == 0, "more than low is not good yet"
    it.leave(0, GOOD)
    it.wait("it leads again", lambda: it.leads(0) > 0, 20_000)
    assert it.node(1).low_disks() == frozenset()
    assert it.commit_everywhere(2) == {Code.NONE}
    (low,) = it.cluster.told(DISK_LOW)
    (room,) = it.cluster.told(DISK_HAS_ROOM)
    assert (low["free_bytes"], room["free_bytes"]) == (LOW - 1, GOOD)
    assert not it.cluster.told(DISK_FULL)
    assert len(it.cluster.told(TRANSFER_STARTED, broker=0)) > 0


def test_what_two_low_replicas_lead_ends_with_the_third_and_stays_there() -> None:
    it = Disks(2)
    it.leave(0, LOW // 2)
    it.leave(1, LOW // 2)
    it.wait("the third leads all", lambda: it.leads(2) == len(GROUPS), 5_000)
    terms = it.terms()
    it.cluster.world.run_for(20_000)
    assert it.terms() == terms
    # What two of three cannot keep must not be taken: their logs would only fill with it.
    assert it.commit_everywhere(1) == {Code.COORDINATOR_NOT_AVAILABLE}
    it.leave(1, GOOD)
    it.cluster.world.run_for(3_000)
    assert it.commit_everywhere(2) == {Code.NONE}


def test_where_all_are_low_reads_go_on_writes_are_refused_and_room_is_all_it_takes() -> None:
    it = Disks(3)
    assert it.commit_everywhere(1) == {Code.NONE}
    for broker in range(3):
        it.leave(broker, LOW // 2)
    it.cluster.world.run_for(3_000)
    terms = it.terms()
    assert it.commit_everywhere(2) == {Code.COORDINATOR_NOT_AVAILABLE}
    for partition in range(3):
        assert it.cluster.fetch(it.cluster.wait_leader(1 + partition), partition, "g") == (Code.NONE, 1)
    it.cluster.world.run_for(20_000)
    assert it.terms() == terms, "nobody hands to a replica without room"
    for broker in range(3):
        it.leave(broker, None)
    it.cluster.world.run_for(2_500)
    assert it.commit_everywhere(3) == {Code.NONE}


def test_low_replicas_elect_a_leader_all_the_same_only_later() -> None:
    """Somebody must lead, or nobody could delete anything, and a low replica may be the only one with the whole log."""
    it = Disks(4)
    for broker in range(3):
        it.leave(broker, LOW // 2)
    it.cluster.world.run_for(3_000)
    first = it.cluster.wait_leader(1)
    it.cluster.kill(first)
    among = [broker for broker in range(3) if broker != first]
    began_ms = it.cluster.loops[among[0]].monotonic_ms()
    second = it.cluster.wait_leader(1, 15_000, among)
    assert it.cluster.loops[among[0]].monotonic_ms() - began_ms >= raft_limits.ELECTION_TIMEOUT_MAX_MS
    assert it.cluster.fetch(second, 0, "g")[0] == Code.NONE


def test_a_replica_with_room_wins_before_a_low_one() -> None:
    it = Disks(5)
    for number in GROUPS:
        leader = it.cluster.wait_leader(number)
        if leader != 0:
            assert it.node(leader).transfer(GroupNo(number), BrokerId(0))
            it.wait("moved", lambda number=number: it.cluster.leader_of(number) == 0)
    it.leave(1, LOW // 2)
    it.cluster.world.run_for(1_500)
    it.cluster.kill(0)
    it.wait("the other leads all", lambda: it.leads(2) == len(GROUPS), 3_000)
    assert it.leads(1) == 0


def test_a_low_follower_follows_and_a_full_one_takes_only_what_makes_room() -> None:
    it = Disks(6)
    leader = it.cluster.wait_leader(1)
    low = (leader + 1) % 3
    it.leave(low, 2 * FULL)
    it.cluster.world.run_for(1_500)
    assert it.commit(0, 1) == Code.NONE
    it.cluster.converge([1])
    it.leave(low, FULL - 1)
    it.cluster.world.run_for(1_500)
    group = it.node(low).host.groups[GroupNo(1)]
    before = group.core.last_index
    for n in range(20):
        assert it.commit(0, n) == Code.NONE
    it.cluster.world.run_for(2_000)
    assert group.core.last_index == before, "it has not stored what only fills it"
    assert it.leads(low) == 0
    it.leave(low, GOOD)
    it.cluster.converge([1])
    assert group.core.last_index >= before + 20
    assert it.cluster.told(DISK_FULL, broker=low)


def test_topics_are_deleted_where_all_disks_are_full() -> None:
    it = Disks(7)
    made = it.cluster.submit(0, CreateTopic(name="t", topic_id=TOPIC, partitions=3, configs=()))
    assert made.error == Code.NONE
    it.cluster.world.run_for(2_000)
    for broker in range(3):
        it.leave(broker, FULL // 2)
    it.cluster.world.run_for(3_000)
    assert it.commit_everywhere(1) == {Code.COORDINATOR_NOT_AVAILABLE}
    assert it.cluster.submit(0, DeleteTopic(topic_id=TOPIC)).error == Code.NONE
    it.wait("its groups are gone", lambda: all(len(it.node(b).host.groups) == len(GROUPS) for b in range(3)), 10_000)


@pytest.mark.parametrize("seed", range(10, 16))
def test_disks_that_are_full_from_one_moment_to_the_next_end_no_process_and_lose_nothing(seed: int) -> None:
    """Not a byte is left before anybody looks."""
    it = Disks(seed, segment_flush_ms=300, checkpoint_bytes=20_000)
    acknowledged = {}
    for n in range(60):
        if it.commit(n % 3, n) == Code.NONE:
            acknowledged[n % 3] = n
    for broker in range(3):
        it.leave(broker, 0)
    for n in range(60, 120):
        if it.commit(n % 3, n) == Code.NONE:
            acknowledged[n % 3] = n
    it.cluster.world.run_for(10_000)
    for broker in range(3):
        it.leave(broker, None)
    it.cluster.world.run_for(replica_limits.NO_SPACE_RETRY_MS + 2_000)
    for partition, offset in acknowledged.items():
        leader = it.cluster.wait_leader(1 + partition)
        code, found = it.cluster.fetch(leader, partition, "g")
        assert code == Code.NONE
        assert found >= offset
    assert it.commit_everywhere(200) == {Code.NONE}
    it.cluster.converge()
    assert all(node.host.disk_low is False for node in it.cluster.nodes.values())


@pytest.mark.parametrize(("path", "what"), [(".sidx", "sidecar"), (".ckpt", "checkpoint"), (".log", "segment")])
def test_a_file_that_can_wait_ends_no_process_is_counted_and_written_later(path: str, what: str) -> None:
    it = Disks(20, replicas=1, partitions=1, segment_flush_ms=200, checkpoint_bytes=20_000)
    node = it.node(0)
    full = True

    def cost(operation: str, name: str, size: int) -> None:
        if full and operation == "pwrite" and path in name and "wal" not in name:
            raise OSError(errno.ENOSPC, "no space", name)

    it.cluster.disks[0].cost = cost
    for n in range(400):
        it.cluster.commit(0, 0, f"group-{n}", n, "topic" * 20)
    it.wait("it was refused", lambda: node.host.no_space_found[what] > 0)
    assert dict(node.disk_status().refused)[what] > 0
    assert node.host.disk_full
    made = node.group_manager.checkpoints.made if node.group_manager else -1
    full = False
    it.wait("there is room", lambda: not node.host.disk_low, 20_000)
    assert it.cluster.commit(0, 0, "g", 1) == Code.NONE
    names = it.cluster.disks[0].listdir
    it.wait("what waited is written", lambda: node.group_manager and node.group_manager.checkpoints.made > made, 60_000)
    it.wait("sidecars too", lambda: any(n.endswith(".sidx") for n in names("segments/1/__consumer_offsets-0")), 60_000)
    counted = node.host.no_space_found[what]
    it.cluster.world.run_for(10_000)
    assert node.host.no_space_found[what] == counted


def test_the_next_file_of_each_wal_is_made_while_there_is_room_for_it() -> None:
    """Then whatever else fills the disk, a new file needs no space."""
    file_bytes = 4 * MIB
    sizes = {"wal_file_bytes": file_bytes, "wal_bytes_max": 8 * file_bytes}
    lows = {"disk_low_bytes": 3 * file_bytes, "disk_good_bytes": 4 * file_bytes}
    it = Disks(22, replicas=1, **sizes, **lows)
    disk = it.cluster.disks[0]

    def spares() -> list[int]:
        names = [f"{folder}/spare.tmp" for folder in ("wal-offsets", "wal-topics")]
        return [len(disk.content(name)) if disk.exists(name) else 0 for name in names]

    it.cluster.world.run_for(3_000)
    assert min(spares()) < file_bytes
    it.leave(0, 3 * file_bytes - 1)
    it.cluster.world.run_for(3_000)
    assert spares() == [file_bytes, file_bytes]
    assert it.node(0).host.disk_low
    assert not it.node(0).host.disk_full
    effects = disk.effects
    it.cluster.world.run_for(3_000)
    assert disk.effects - effects < 10, "and then it is left alone"


def test_the_unknown_changes_nothing() -> None:
    it = Disks(21, replicas=1)
    it.leave(0, LOW // 2)
    it.cluster.world.run_for(1_500)
    space = it.node(0).formed.space
    assert space is not None
    space._told(OSError(errno.EIO, "statvfs"))
    assert it.node(0).disk_status().low
    assert it.node(0).free_bytes() == -1


def test_what_was_refused_is_tried_again_where_nobody_can_tell_how_much_is_free() -> None:
    it = Disks(23, replicas=1)
    space = it.node(0).formed.space
    assert space is not None
    space._disk = _Silent()
    it.cluster.world.run_for(1_500)
    it.node(0).host.no_space("checkpoint")
    assert it.node(0).disk_status().full
    assert it.cluster.commit(0, 0, "g", 1) == Code.COORDINATOR_NOT_AVAILABLE
    it.wait("it is tried again", lambda: not it.node(0).disk_status().low, replica_limits.NO_SPACE_RETRY_MS + 1_500)
    assert it.cluster.commit(0, 0, "g", 2) == Code.NONE


class _Silent(SimDisk):
    def free_bytes(self) -> int:
        raise OSError(errno.EIO, "statvfs")
