"""The replicas of an offsets partition move to other brokers and back, in whole clusters on virtual time (ADR 45).

No acknowledged offset is lost, a consumer group keeps its generation, every broker names the coordinator and none but
it answers as one, nothing is left at the old replicas, and whoever dies at whatever step, the move is completed.
"""

import random
from functools import partial

import pytest
from muster_coordinator.controller.commands import AllocateProducerIds, DeleteTopic, MovePartition
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.events import MOVE_COMPLETE, REPLICA_REMOVED
from muster_coordinator.groups.requests import (
    Heartbeat,
    JoinGroup,
    JoinGroupAnswer,
    OffsetCommit,
    PartitionCommit,
    Protocol,
    SyncGroup,
    TopicCommit,
)
from muster_coordinator.ids import FIRST_OFFSETS_GROUP, BrokerId, GroupNo
from muster_coordinator.replica.folders import CHECKPOINTS
from muster_coordinator.replica.group_manager import OFFSETS_WAL
from muster_coordinator.replica.limits import GOSSIP_FULL_MS
from muster_coordinator.storage.checkpoint import checkpoint_name

from tests.replica import moving
from tests.replica.cluster import NO_TOPIC_ID, SimCluster
from tests.replica.moving import FOUNDERS, NEW, SMALL, cluster_of_six
from tests.replica.serving_cluster import TOPIC_ID, formed
from tests.sim.loop import Latency

PARTITION = 1
GROUP = GroupNo(FIRST_OFFSETS_GROUP + PARTITION)
GROUPS = 7
"""Consumer groups that commit."""
AGAIN = (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE)
SESSION_MS = 1_800_000


def move(cluster: SimCluster, *voters: int) -> None:
    moving.move(cluster, *voters, group=GROUP)


def await_moved(cluster: SimCluster, *voters: int) -> None:
    moving.await_moved(cluster, *voters, group=GROUP)


class Commits:
    """Of some groups in turn, and of one with a member, which keeps its generation."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.number = 0
        self.acknowledged: dict[str, int] = {}
        self.answered = 0
        self.member = self._join()

    def _join(self) -> Heartbeat:
        leader = self.cluster.wait_leader(GROUP)
        join = JoinGroup(
            group="members",
            member="",
            instance=None,
            client_id="c",
            client_host="/127.0.0.1",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=(Protocol("range", b""),),
            reason="",
            requires_known_member=False,
            supports_skip_assignment=True,
        )
        joined = self.cluster.ask(leader, PARTITION, join)
        assert isinstance(joined, JoinGroupAnswer)
        sync = SyncGroup(
            group="members",
            generation=joined.generation,
            member=joined.member,
            instance=None,
            protocol_type="consumer",
            protocol="range",
            assignments=((joined.member, b"plan"),),
        )
        assert self.cluster.ask(leader, PARTITION, sync).error == Code.NONE
        return Heartbeat("members", joined.generation, joined.member, None)

    def write(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            own = self.number % GROUPS == 0
            group = "members" if own else f"g{self.number % GROUPS}"
            member = self.member
            commit = OffsetCommit(
                group=group,
                generation=member.generation if own else -1,
                member=member.member if own else "",
                instance=None,
                topics=(TopicCommit("t", NO_TOPIC_ID, (PartitionCommit(0, self.number, -1, "m" * 200),)),),
            )
            leader = self.cluster.wait_leader(GROUP, ms=30_000)
            code = self.cluster.ask(leader, PARTITION, commit, ms=30_000).topics[0][1][0][1]
            assert code == Code.NONE or code in AGAIN, (group, Code(code))
            if code == Code.NONE:
                self.acknowledged[group] = self.number
                self.answered += 1

    def check(self, *holders: int) -> None:
        """All that was acknowledged is told by the coordinator; its replicas have one state and the same bytes; the
        member is what it was; and all others say that they are not the coordinator, and who is."""
        cluster = self.cluster
        cluster.world.run_until("one state", lambda: len(self._states(holders)) == 1, 30_000)
        logs = {cluster.nodes[broker].group_manager.states[GROUP].log.read(0, 1 << 24, True) for broker in holders}
        assert len(logs) == 1
        leader = cluster.wait_leader(GROUP)
        for group, number in self.acknowledged.items():
            error, offset = cluster.fetch(leader, PARTITION, group)
            assert error == Code.NONE
            assert number <= offset <= self.number, (group, number)
        assert cluster.ask(leader, PARTITION, self.member).error == Code.NONE, "generation and member are as before"
        # One that has joined or started just now may have missed the first word of it, until the next whole table.
        cluster.world.run_until("all name it", partial(all_name, cluster, leader), GOSSIP_FULL_MS + 1_000)
        for broker in cluster.nodes:
            if broker != leader:
                assert cluster.fetch(broker, PARTITION, "g1")[0] == Code.NOT_COORDINATOR
                assert cluster.ask(broker, PARTITION, self.member).error == Code.NOT_COORDINATOR

    def _states(self, holders: tuple[int, ...]) -> set[tuple[int, str]]:
        nodes = [self.cluster.nodes[broker] for broker in holders]
        return {(node.host.groups[GROUP].applied, str(node.state_hash(GROUP))) for node in nodes}


def test_an_offsets_partition_moves_with_all_that_was_acknowledged_and_leaves_nothing_behind() -> None:
    cluster = cluster_of_six()
    commits = Commits(cluster)
    commits.write(20)
    requests = {broker: node.work_done().group_requests for broker, node in cluster.nodes.items()}
    committed = {broker: node.group_stats().offsets_committed for broker, node in cluster.nodes.items()}
    assert sum(committed.values()) >= 20
    move(cluster, *NEW)
    commits.write(20)
    await_moved(cluster, *NEW)
    commits.check(*NEW)
    commits.write(5)
    assert commits.answered >= 40, "it served all the time, apart from changes of leadership"
    commits.check(*NEW)
    assert cluster.told(MOVE_COMPLETE)
    for broker in FOUNDERS:
        node = cluster.nodes[broker]
        assert [told["raft_group"] for told in cluster.told(REPLICA_REMOVED, broker)] == [GROUP]
        assert moving.wal_of(cluster, broker, GROUP).is_suspended(GROUP), "what it promised is forgotten"
        assert PARTITION not in node.group_manager.shards
        assert node.work_done().group_requests >= requests[broker], "no counter falls"
        assert node.group_stats().offsets_committed >= committed[broker]
    for broker in NEW:
        assert not cluster.told(REPLICA_REMOVED, broker)
        assert set(cluster.nodes[broker].group_manager.shards) == {PARTITION}


def all_name(cluster: SimCluster, leader: int) -> bool:
    return all(node.leadership(GROUP).leader == leader for node in cluster.nodes.values())


def test_every_broker_names_the_coordinator_within_a_second_of_the_move() -> None:
    cluster = cluster_of_six()
    commits = Commits(cluster)
    for voters in ((7,), (8,), (0, 8, 9), (1,), (2, 7, 1)):
        commits.write(5)
        move(cluster, *voters)
        cluster.world.run_until("the move", lambda: not moving.partition(cluster, group=GROUP).moves, 120_000)
        leader = cluster.wait_leader(GROUP, ms=1_000)
        cluster.world.run_until("all name it", partial(all_name, cluster, leader), 1_000)
        assert leader in voters


@pytest.mark.parametrize("restarts", [False, True])
def test_a_broker_that_was_let_go_is_taken_in_again_and_has_no_say_until_it_has_everything(restarts: bool) -> None:
    cluster = cluster_of_six(**SMALL)
    commits = Commits(cluster)
    commits.write(20)
    for voters in (NEW, FOUNDERS, (0, 7, 1), FOUNDERS):
        move(cluster, *voters)
        commits.write(5)
        await_moved(cluster, *voters)
        if restarts:
            for broker in list(cluster.nodes):
                cluster.kill(broker)
                cluster.restart(broker)
            cluster.wait_ready()
            await_moved(cluster, *voters)
        commits.write(5)
        commits.check(*voters)
    for broker in FOUNDERS:
        assert not moving.wal_of(cluster, broker, GROUP).is_suspended(GROUP)


def test_a_founder_that_was_let_go_does_not_begin_the_group_anew_at_a_start() -> None:
    """Its controller's log is replayed from before the move: by that image it has a replica, as at the beginning."""
    cluster = cluster_of_six()
    commits = Commits(cluster)
    commits.write(10)
    move(cluster, *NEW)
    await_moved(cluster, *NEW)
    # A folder that is still there is taken up again, suspended, and removed again: nothing of it may be left.
    for broker in FOUNDERS:
        cluster.world.run_until("its files are gone", lambda b=broker: not moving.traces(cluster, b, GROUP))
        cluster.disks[broker].write_back()
    cluster.world.run_for(1_000)
    for broker in FOUNDERS:
        cluster.kill(broker)
    for broker in FOUNDERS:
        node = cluster.restart(broker)
        assert GROUP not in node.host.groups
        assert PARTITION not in node.group_manager.shards
        assert set(node.group_manager.shards) == {0, 2}
    cluster.wait_ready()
    for broker in FOUNDERS:
        assert len(cluster.told(REPLICA_REMOVED, broker)) == 1, "none was made again, and removed again"
    commits.write(5)
    await_moved(cluster, *NEW)
    commits.check(*NEW)


def test_founders_begin_their_groups_before_there_is_an_image() -> None:
    cluster = formed()
    for broker in FOUNDERS:
        cluster.kill(broker)
    node = cluster.restart(0)  # alone: nobody can tell it anything
    assert set(node.group_manager.shards) == {0, 1, 2}


def test_wanted_again_before_it_knows_that_it_was_let_go() -> None:
    """One of the old voters is away for the whole of the first move, and hears of both at once."""
    cluster = cluster_of_six()
    commits = Commits(cluster)
    commits.write(10)
    cluster.net.isolate(BrokerId(2))
    move(cluster, 0, 1, 7)
    cluster.world.run_until("the first move", lambda: not moving.partition(cluster, group=GROUP).moves, 120_000)
    commits.write(10)
    move(cluster, 2, 7, 8)
    commits.write(10)
    cluster.net.heal()
    await_moved(cluster, 2, 7, 8)
    commits.write(5)
    commits.check(2, 7, 8)


def test_a_move_is_cancelled_and_whoever_came_goes_again() -> None:
    cluster = cluster_of_six()
    commits = Commits(cluster)
    commits.write(20)
    cluster.kill(9)  # so the move cannot be completed
    move(cluster, 7, 8, 9)
    cluster.world.run_for(10_000)
    assert moving.partition(cluster, group=GROUP).moves
    move(cluster)
    await_moved(cluster, *moving.partition(cluster, group=GROUP).voters)
    cluster.restart(9)
    cluster.wait_ready()
    await_moved(cluster, *moving.partition(cluster, group=GROUP).voters)
    commits.write(5)
    commits.check(*FOUNDERS)


def test_to_one_replica_and_to_five() -> None:
    cluster = cluster_of_six()
    commits = Commits(cluster)
    for voters in ((1,), (7,), (8, 7, 0), (0, 1, 2, 8, 7), (9,), (0, 1, 2)):
        commits.write(5)
        move(cluster, *voters)
        await_moved(cluster, *voters)
        commits.check(*voters)
    assert commits.answered > 20


def test_a_replica_that_leaves_waits_for_the_controllers_word() -> None:
    """It hears of the end of the move, and then of nobody: by what it knows it could be wanted again already."""
    cluster = cluster_of_six()
    commits = Commits(cluster)
    commits.write(10)
    move(cluster, 0, 1, 7)
    moved_away = cluster.nodes[2].formed._moved_away
    moved_away._current = lambda call: cluster.loops[2].call_at(
        cluster.loops[2].monotonic_ms() + 100, lambda: call(False)
    )
    moving.await_told(cluster, 2, 0, 1, 7, group=GROUP)
    cluster.world.run_for(20_000)
    group = cluster.nodes[2].host.groups[GROUP]
    assert group.suspended
    assert moving.traces(cluster, 2, GROUP)
    move(cluster, 0, 1, 2)
    await_moved(cluster, 0, 1, 2)
    assert cluster.nodes[2].host.groups[GROUP] is group, "it went on with what it had"
    commits.check(0, 1, 2)


def test_wanted_again_while_it_is_being_removed() -> None:
    """It is made anew only when nothing is left: what is removed late must not be the new one's."""
    cluster = cluster_of_six()
    commits = Commits(cluster)
    commits.write(10)
    move(cluster, *NEW)
    wal = moving.wal_of(cluster, 0, GROUP)
    cluster.world.run_until("it stands aside", lambda: wal.is_suspended(GROUP), 120_000)
    cluster.loops[0].latency["folders"] = Latency(2_000_000, 2_000_000)
    cluster.world.run_until("it is let go", lambda: GROUP not in cluster.nodes[0].host.groups, 10_000)
    move(cluster, *FOUNDERS)
    cluster.world.run_for(1_000)
    assert GROUP not in cluster.nodes[0].host.groups
    await_moved(cluster, *FOUNDERS)
    commits.write(5)
    commits.check(*FOUNDERS)
    cluster.kill(0)
    cluster.restart(0)
    cluster.wait_ready()
    commits.write(5)
    commits.check(*FOUNDERS)


def test_a_start_removes_what_a_crash_has_left() -> None:
    """Power is lost between the suspension and the removal, and the next start's image has the move behind it."""
    cluster = cluster_of_six()
    commits = Commits(cluster)
    commits.write(10)
    move(cluster, 0, 1, 7)
    wal = moving.wal_of(cluster, 2, GROUP)
    cluster.world.run_until("it stands aside", lambda: wal.is_suspended(GROUP), 120_000)
    cluster.world.run_for(2)
    cluster.kill(2)
    cluster.world.run_for(5_000)
    cluster.restart(2)
    cluster.wait_ready()
    await_moved(cluster, 0, 1, 7)
    assert GROUP not in moving.wal_of(cluster, 2, GROUP)._logs, OFFSETS_WAL
    commits.check(0, 1, 7)


def test_a_start_removes_what_is_elsewhere_by_its_checkpoint() -> None:
    """The group is in the WAL, and no image of this life wants it."""
    cluster = cluster_of_six(**SMALL)
    commits = Commits(cluster)
    commits.write(10)
    moved_away = cluster.nodes[2].formed._moved_away
    moved_away._current = lambda call: None  # it stands aside, and hears no more
    move(cluster, 0, 1, 7)
    moving.await_told(cluster, 2, 0, 1, 7, group=GROUP)
    image = cluster.nodes[2].image()
    assert image is not None
    later = f"{CHECKPOINTS}/0/{checkpoint_name(image.applied, 0)}"
    for _ in range(300):
        assert cluster.submit(0, AllocateProducerIds(broker=BrokerId(0))).error == Code.NONE
    cluster.world.run_until(
        "a checkpoint behind that",
        lambda: any(name.startswith(f"{CHECKPOINTS}/0/") and name > later for name in cluster.disks[2].files()),
        60_000,
    )
    cluster.world.run_for(1_000)
    cluster.kill(2)
    node = cluster.restart(2)
    assert not moving.partition(cluster, 2, GROUP).moves
    assert GROUP not in node.host.groups
    assert moving.traces(cluster, 2, GROUP)
    cluster.wait_ready()
    await_moved(cluster, 0, 1, 7)
    assert GROUP not in moving.wal_of(cluster, 2, GROUP)._logs
    commits.check(0, 1, 7)


def test_a_shard_that_comes_later_knows_which_topics_were_deleted() -> None:
    """The topic was deleted before the broker had a replica; the offsets of it that it gets go when it leads."""
    cluster = cluster_of_six()
    leader = cluster.wait_leader(GROUP)
    commit = OffsetCommit(
        group="g",
        generation=-1,
        member="",
        instance=None,
        topics=(TopicCommit("t", TOPIC_ID, (PartitionCommit(0, 5, -1, ""),)),),
    )
    assert cluster.ask(leader, PARTITION, commit).topics[0][1][0][1] == Code.NONE
    for broker in FOUNDERS:  # whoever leads it until then forgets what was deleted, as one that died at once
        cluster.nodes[broker].group_manager.shards[PARTITION].topic_deleted = lambda topic_id: None
    assert cluster.submit(0, DeleteTopic(topic_id=TOPIC_ID)).error == Code.NONE
    cluster.world.run_for(2_000)
    assert cluster.fetch(cluster.wait_leader(GROUP), PARTITION, "g") == (Code.NONE, 5)
    move(cluster, *NEW)
    await_moved(cluster, *NEW)
    leader = cluster.wait_leader(GROUP)
    cluster.world.run_until("tombstones", lambda: cluster.fetch(leader, PARTITION, "g") == (Code.NONE, -1), 30_000)


@pytest.mark.parametrize("seed", range(30))
def test_whoever_dies_at_whatever_step(seed: int) -> None:
    """Moves at random, brokers that lose power at random; at the end nothing acknowledged is lost, and every replica is
    where it is wanted and nowhere else."""
    cluster = cluster_of_six(seed, **(SMALL if seed % 2 else {}))
    commits = Commits(cluster)
    commits.write(5)
    commits.check(*moving.storm(cluster, random.Random(seed), commits.write, GROUP))


@pytest.mark.parametrize("seed", range(8))
def test_all_lose_power_at_once_while_all_partitions_move(seed: int) -> None:
    """So starts find the groups in every state, with the images of then."""
    rand = random.Random(seed)
    cluster = cluster_of_six(seed, **(SMALL if seed % 2 else {}))
    commits = Commits(cluster)
    commits.write(5)
    for _ in range(4):
        wanted = {}
        for number in range(3):
            wanted[number] = tuple(rand.sample((*FOUNDERS, *NEW), 3))
            command = MovePartition(
                topic_id=_offsets_topic_id(cluster), partition=number, voters=tuple(map(BrokerId, wanted[number]))
            )
            assert cluster.submit(cluster.wait_leader(0), command).error == Code.NONE
        cluster.world.run_for(rand.randrange(1, 5_000))
        for broker in list(cluster.nodes):
            cluster.kill(broker)
        for broker in (*FOUNDERS, *NEW):
            cluster.restart(broker)
        cluster.wait_ready(ms=60_000)
        commits.write(3)
    for number, voters in wanted.items():
        moving.await_moved(cluster, *voters, group=GroupNo(FIRST_OFFSETS_GROUP + number))
    commits.check(*wanted[PARTITION])


def _offsets_topic_id(cluster: SimCluster) -> bytes:
    image = cluster.nodes[0].image()
    assert image is not None
    return image.topics[OFFSETS_TOPIC].topic_id
