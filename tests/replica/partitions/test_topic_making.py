"""Groups of new topics are made, and those of deleted ones removed, off the loop, few at a time, whatever happens."""

import errno
from collections import Counter

import pytest
from muster_coordinator.controller.commands import CreateTopic, DeleteTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.replica.folders import CHECKPOINTS, SEGMENTS
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.partitions.topic_logs import TopicLog
from muster_coordinator.replica.partitions.topic_making import OPENED_A_TURN, TAKEN_A_TURN, WHAT, make_folders
from muster_coordinator.storage.partition_log import PartitionLog

from tests.replica.cluster import SimCluster
from tests.replica.partitions.test_deleted_topics import created, stopped, written
from tests.sim.disk import SimDisk
from tests.sim.loop import Latency, World

SECOND_US = 1_000_000
FOLDER_OPERATIONS = {"create", "mkdir", "sync_dir", "sync", "unlink", "rename"}
PARTITIONS = 100


class OnTheLoop:
    """Counts what each event of the loop asks of the disk beside the I/O jobs, and what the jobs ask of it."""

    def __init__(self, cluster: SimCluster, broker: int) -> None:
        self.worst = 0
        self.in_jobs: Counter[str] = Counter()
        self.job_worst: Counter[str] = Counter()
        self._event = -1
        self._count = 0
        self._job: Counter[str] | None = None
        loop, world = cluster.loops[broker], cluster.world
        submit = loop.submit

        def marked(queue, job, done):
            def run():
                self._job = Counter()
                try:
                    return job()
                finally:
                    self.in_jobs.update(self._job)
                    self.job_worst |= self._job
                    self._job = None

            submit(queue, run, done)

        loop.submit = marked

        def cost(operation: str, path: str, size: int) -> None:
            if operation not in FOLDER_OPERATIONS:
                return
            if self._job is not None:
                self._job[operation] += 1
                return
            if world.steps != self._event:
                self._event, self._count = world.steps, 0
            self._count += 1
            self.worst = max(self.worst, self._count)

        cluster.disks[broker].cost = cost


def made_everywhere(cluster: SimCluster, name: str) -> list[int]:
    """The groups of a topic, once every replica has them."""
    nodes = cluster.nodes.values()
    cluster.world.run_until("the topic is known", lambda: all(name in node.image().topics for node in nodes), 10_000)
    groups = [int(p.group) for p in cluster.nodes[0].image().topics[name].partitions]
    cluster.world.run_until(
        "all partitions are made",
        lambda: all(node.local_log(GroupNo(group)) is not None for node in nodes for group in groups),
        20_000,
    )
    return groups


def create(cluster: SimCluster, name: str, partitions: int, topic_id: int = 9, **configs: str) -> None:
    command = CreateTopic(
        name=name, topic_id=bytes([topic_id]) * 16, partitions=partitions, configs=tuple(configs.items())
    )
    result = cluster.submit(0, command)
    assert result.error == Code.NONE, result


def delete(cluster: SimCluster, topic_id: int = 9) -> None:
    assert cluster.submit(0, DeleteTopic(topic_id=bytes([topic_id]) * 16)).error == Code.NONE


def gone(cluster: SimCluster, groups: list[int]) -> None:
    cluster.world.run_until(
        "all files are gone",
        lambda: (
            not any(
                name.startswith(f"{SEGMENTS}/{group}/")
                for broker in cluster.brokers
                for group in groups
                for name in cluster.disks[broker].files()
            )
        ),
        20_000,
    )


def test_no_turn_makes_or_removes_folders_when_many_partitions_come_and_go() -> None:
    cluster = SimCluster(World(1))
    cluster.start()
    seen = OnTheLoop(cluster, 1)
    create(cluster, "many", PARTITIONS)
    groups = made_everywhere(cluster, "many")
    for group in groups:
        cluster.wait_leader(group)
    assert seen.worst == 0
    assert seen.in_jobs["create"] >= PARTITIONS
    assert seen.in_jobs["sync_dir"] <= PARTITIONS // 8, "one folder sync for a batch of partitions"
    cluster.world.run_for(7_000)
    seen.in_jobs.clear()
    delete(cluster)
    gone(cluster, groups)
    assert seen.worst == 0
    assert seen.in_jobs["sync_dir"] <= PARTITIONS // 4, "two folders for a batch of partitions"


@pytest.mark.parametrize("operation", ["create", "mkdir"])
def test_a_partition_whose_folder_cannot_be_made_is_tried_again_and_hinders_nobody(operation: str) -> None:
    cluster = SimCluster(World(2))
    cluster.start()
    told: list[tuple[str, object]] = []
    cluster.notice = lambda what, details, error: told.append((what, details["group"]))
    number = int(cluster.nodes[0].image().next_group) + 1
    for _ in range(5):
        cluster.disks[1].fail_next(operation, errno.ENOSPC, f"{SEGMENTS}/{number}/")
    create(cluster, "many", 4)
    nodes = cluster.nodes
    others = [number - 1, number + 1, number + 2]
    cluster.world.run_until(
        "the others are there", lambda: all(nodes[1].local_log(GroupNo(n)) is not None for n in others), 500
    )
    assert nodes[1].local_log(GroupNo(number)) is None
    assert list(nodes[1].group_manager.making.failing()) == [number]
    assert set(told) == {(WHAT, number)}
    made_everywhere(cluster, "many")
    assert not nodes[1].group_manager.making.failing()
    written(cluster, number, 5)


def test_a_topic_deleted_and_created_again_while_its_folders_are_being_made_leaves_nothing_of_the_first() -> None:
    cluster = SimCluster(World(3))
    cluster.start()
    for loop in cluster.loops.values():
        loop.latency["folders"] = Latency(SECOND_US, SECOND_US)
    first = list(range(int(cluster.nodes[0].image().next_group), int(cluster.nodes[0].image().next_group) + 40))
    create(cluster, "again", 40)
    delete(cluster)
    create(cluster, "again", 3, topic_id=10)
    groups = made_everywhere(cluster, "again")
    assert not set(groups) & set(first)
    written(cluster, groups[0], 5)
    gone(cluster, first)
    for node in cluster.nodes.values():
        assert not any(GroupNo(number) in node.host.groups for number in first)
        assert node.group_manager.making.wanted_count() == 0


@pytest.mark.parametrize("seed", range(6))
def test_power_loss_while_folders_are_made_loses_no_partition(seed: int) -> None:
    cluster = SimCluster(World(seed))
    cluster.start()
    for loop in cluster.loops.values():
        loop.latency["folders"] = Latency(20_000, 20_000)
    create(cluster, "many", 60)
    cluster.world.run_for(15 + 20 * seed)
    for broker in cluster.brokers:
        cluster.kill(broker)
    for broker in cluster.brokers:
        cluster.restart(broker)
    cluster.wait_ready()
    for group in made_everywhere(cluster, "many"):
        cluster.wait_leader(group)
    written(cluster, int(cluster.nodes[0].image().topics["many"].partitions[7].group), 5)


def test_produce_before_the_folder_is_there_is_to_be_tried_again_and_then_works() -> None:
    cluster = SimCluster(World(5))
    cluster.start()
    for loop in cluster.loops.values():
        loop.latency["folders"] = Latency(2 * SECOND_US, 2 * SECOND_US)
    number = GroupNo(cluster.nodes[0].image().next_group)
    create(cluster, "late", 1)
    cluster.world.run_for(500)
    for node in cluster.nodes.values():
        assert "late" in node.image().topics
        assert node.local_log(number) is None, "the API answers NOT_LEADER_OR_FOLLOWER for it"
        assert not isinstance(node.group_manager.logs.get(number), TopicLog)
    made_everywhere(cluster, "late")
    written(cluster, int(number), 5)


def test_many_known_partitions_are_opened_few_a_turn_by_a_start_that_replays_their_creation() -> None:
    cluster = SimCluster(World(6), segment_flush_ms=100)
    cluster.start()
    create(cluster, "many", PARTITIONS)
    for group in made_everywhere(cluster, "many"):
        cluster.wait_leader(group)
    cluster.world.run_for(3_000)
    stopped(cluster, 1)
    cluster.disks[1].restart()
    opened: Counter[int] = Counter()
    cluster.disks[1].cost = lambda operation, path, size: (
        opened.update([cluster.world.steps]) if operation == "pread" and path.startswith(SEGMENTS) else None
    )
    cluster.start_one(1)
    cluster.wait_ready()
    made_everywhere(cluster, "many")
    assert sum(opened.values()) >= PARTITIONS
    assert max(opened.values()) <= 4 * OPENED_A_TURN


def test_few_new_groups_are_taken_into_one_turn() -> None:
    cluster = SimCluster(World(8))
    cluster.start()
    taken: Counter[int] = Counter()
    add = cluster.nodes[1].host.add

    def counted(group: RaftGroup) -> None:
        taken[cluster.world.steps] += 1
        add(group)

    cluster.nodes[1].host.add = counted  # type: ignore[method-assign]
    create(cluster, "many", PARTITIONS)
    made_everywhere(cluster, "many")
    assert sum(taken.values()) == PARTITIONS
    assert max(taken.values()) <= TAKEN_A_TURN


class Counting:
    """Counts the calls of a disk."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> object:
        self.calls[name] += 1
        return getattr(self._disk, name)


def test_a_partition_costs_few_calls_of_the_disk() -> None:
    """Each is a moment in which the loop may lose the interpreter, and then its processor."""
    disk = SimDisk()
    counting = Counting(disk)
    wanted = [(GroupNo(number), f"{SEGMENTS}/{number}/many-{number}") for number in range(16)]
    made = make_folders(counting, wanted)  # type: ignore[arg-type]
    assert all(isinstance(log, PartitionLog) for _, log in made)
    assert counting.calls == {"exists": 2 * 16 + 1, "mkdir": 16, "open": 16, "sync_dir": 1}
    assert disk.files() == sorted(f"{folder}/{0:020}.log" for _, folder in wanted)


def test_what_lies_in_the_folders_of_a_group_that_begins_is_dropped() -> None:
    """A crash came before anything of it was promised."""
    disk = SimDisk()
    disk.mkdir(f"{SEGMENTS}/7/many-7")
    disk.open(f"{SEGMENTS}/7/many-7/{0:020}.log", create=True).pwrite(0, (b"half a batch",))
    disk.mkdir(f"{CHECKPOINTS}/7")
    disk.open(f"{CHECKPOINTS}/7/old", create=True).close()
    ((_, log),) = make_folders(disk, [(GroupNo(7), f"{SEGMENTS}/7/many-7")])
    assert isinstance(log, PartitionLog)
    assert log.next_offset == 0
    assert disk.files() == [f"{SEGMENTS}/7/many-7/{0:020}.log"]
    assert disk.content(f"{SEGMENTS}/7/many-7/{0:020}.log") == b""


def test_created_topics_still_have_one_group_each() -> None:
    cluster = SimCluster(World(7))
    cluster.start()
    groups = [created(cluster, number) for number in range(3)]
    assert len(set(groups)) == 3
    for group in groups:
        written(cluster, group, 3)
