"""A partition's replicas move to other brokers and back, in whole clusters on virtual time (ADR 42).

What was acknowledged is at the new replicas, nothing is left at the old ones, and whoever dies at whatever step, the
move is completed.
"""

import random

import pytest
from muster_coordinator.controller.commands import AllocateProducerIds, DeleteTopic
from muster_coordinator.errors import Code
from muster_coordinator.events import MOVE_COMPLETE, REPLICA_REMOVED
from muster_coordinator.ids import BrokerId
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica.folders import CHECKPOINTS
from muster_coordinator.replica.group_manager import TOPICS_WAL
from muster_coordinator.storage.checkpoint import checkpoint_name

from tests.replica.cluster import SimCluster, produce_when_room
from tests.replica.moving import (
    FOUNDERS,
    NEW,
    SMALL,
    await_moved,
    await_told,
    cluster_of_six,
    move,
    partition,
    storm,
    traces,
    wal_of,
)
from tests.replica.moving import TOPIC_GROUP as GROUP
from tests.replica.serving_cluster import TOPIC_ID
from tests.sim.loop import Latency


class Records:
    """Produced one after the other to whoever leads; those whose fate is unknown count as possible."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.acknowledged: list[int] = []
        self.number = 0

    def write(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            leader = self.cluster.wait_leader(GROUP, ms=30_000)
            log = self.cluster.nodes[leader].local_log(GROUP)
            assert log is not None
            codes: list[Code] = []
            batch = encode_batch([(b"%08d" % self.number, bytes(300))], timestamp_ms=1_700_000_000_000)
            produce_when_room(log, batch, self.cluster.loops[leader].monotonic_ms() + 5_000, codes.append)
            self.cluster.world.run_until("an answer", lambda codes=codes: codes, 20_000)
            if codes[0] == Code.NONE:
                self.acknowledged.append(self.number)

    def check(self, *holders: int) -> None:
        """All of what was acknowledged is at each of these, in order and once, and they have the same bytes."""
        self.cluster.world.run_until("one state", lambda: len(self._states(holders)) == 1, 30_000)
        found = set()
        for broker in holders:
            data = self.cluster.nodes[broker].group_manager.states[GROUP].log.read(0, 1 << 24, True)
            found.add(data)
            places = [data.find(b"%08d" % number) for number in self.acknowledged]
            assert -1 not in places, (broker, "is lost", self.acknowledged[places.index(-1)])
            assert places == sorted(places)
        assert len(found) == 1

    def _states(self, holders: tuple[int, ...]) -> set[tuple[int, str]]:
        nodes = [self.cluster.nodes[broker] for broker in holders]
        return {(node.host.groups[GROUP].applied, str(node.state_hash(GROUP))) for node in nodes}


def test_a_partition_moves_with_all_that_was_acknowledged_and_leaves_nothing_behind() -> None:
    cluster = cluster_of_six()
    records = Records(cluster)
    records.write(20)
    move(cluster, *NEW)
    records.write(20)
    await_moved(cluster, *NEW)
    records.write(5)
    assert len(records.acknowledged) >= 30, "it served all the time, apart from changes of leadership"
    records.check(*NEW)
    assert cluster.told(MOVE_COMPLETE)
    for broker in FOUNDERS:
        assert [told["raft_group"] for told in cluster.told(REPLICA_REMOVED, broker)] == [GROUP]
        assert wal_of(cluster, broker).is_suspended(GROUP), "what it promised is forgotten"
    for broker in NEW:
        assert not cluster.told(REPLICA_REMOVED, broker)


def test_nothing_of_the_old_replicas_is_needed_any_more() -> None:
    cluster = cluster_of_six()
    records = Records(cluster)
    records.write(20)
    move(cluster, 0, *NEW[:2])
    await_moved(cluster, 0, *NEW[:2])
    records.write(5)
    for broker in (1, 2):
        cluster.kill(broker)
        cluster.empty_disk(broker)
    cluster.kill(NEW[0])
    cluster.restart(NEW[0])
    with pytest.raises(AssertionError, match="ready"):
        cluster.wait_ready([NEW[0]], ms=5_000)  # the controller's quorum is gone; the partition's is not
    records.write(5)
    records.check(0, *NEW[:2])


@pytest.mark.parametrize("restarts", [False, True])
def test_a_broker_that_was_let_go_is_taken_in_again_and_has_no_say_until_it_has_everything(restarts: bool) -> None:
    cluster = cluster_of_six(**SMALL)
    records = Records(cluster)
    records.write(20)
    for voters in (NEW, FOUNDERS, (0, 7, 1), FOUNDERS):
        move(cluster, *voters)
        records.write(5)
        await_moved(cluster, *voters)
        if restarts:
            for broker in list(cluster.nodes):
                cluster.kill(broker)
                cluster.restart(broker)
            cluster.wait_ready()
        records.write(5)
        records.check(*voters)
    for broker in FOUNDERS:
        assert not wal_of(cluster, broker).is_suspended(GROUP)


def test_wanted_again_before_it_knows_that_it_was_let_go() -> None:
    """One of the old voters is away for the whole of the first move, and hears of both at once."""
    cluster = cluster_of_six()
    records = Records(cluster)
    records.write(10)
    cluster.net.isolate(BrokerId(2))
    move(cluster, 0, 1, 7)
    cluster.world.run_until("the first move", lambda: not partition(cluster).moves, 120_000)
    records.write(10)
    move(cluster, 2, 7, 8)
    records.write(10)
    cluster.net.heal()
    await_moved(cluster, 2, 7, 8)
    records.write(5)
    records.check(2, 7, 8)


def test_a_move_is_cancelled_and_whoever_came_goes_again() -> None:
    cluster = cluster_of_six()
    records = Records(cluster)
    records.write(20)
    cluster.kill(9)  # so the move cannot be completed
    move(cluster, 7, 8, 9)
    cluster.world.run_for(10_000)
    assert partition(cluster).moves
    move(cluster)
    await_moved(cluster, *FOUNDERS)
    cluster.restart(9)
    cluster.wait_ready()
    await_moved(cluster, *FOUNDERS)
    records.write(5)
    records.check(*FOUNDERS)


def test_to_one_replica_and_to_five() -> None:
    cluster = cluster_of_six()
    records = Records(cluster)
    for voters in ((1,), (7,), (8, 7, 0), (0, 1, 2, 8, 7), (9,), (0, 1, 2)):
        records.write(5)
        move(cluster, *voters)
        await_moved(cluster, *voters)
        records.check(*voters)
    assert len(records.acknowledged) > 20


@pytest.mark.parametrize("wait_ms", [0, 300, 900, 1_500, 4_000])
def test_the_topic_is_deleted_while_its_partition_moves(wait_ms: int) -> None:
    cluster = cluster_of_six()
    records = Records(cluster)
    records.write(10)
    move(cluster, *NEW)
    cluster.world.run_for(wait_ms)
    cluster.submit(0, DeleteTopic(topic_id=TOPIC_ID))

    def gone() -> bool:
        return all(
            GROUP not in node.host.groups
            and not traces(cluster, broker)
            and not wal_of(cluster, broker).is_suspended(GROUP)
            for broker, node in cluster.nodes.items()
        )

    cluster.world.run_until("nothing is left", gone, 60_000)
    cluster.world.run_for(5_000)
    assert gone()


def test_a_replica_that_leaves_waits_for_the_controllers_word() -> None:
    """It hears of the end of the move, and then of nobody: by what it knows it could be wanted again already."""
    cluster = cluster_of_six()
    records = Records(cluster)
    records.write(10)
    move(cluster, 0, 1, 7)
    moved_away = cluster.nodes[2].formed._moved_away
    moved_away._current = lambda call: cluster.loops[2].call_at(
        cluster.loops[2].monotonic_ms() + 100, lambda: call(False)
    )
    await_told(cluster, 2, 0, 1, 7)
    cluster.world.run_for(20_000)
    group = cluster.nodes[2].host.groups[GROUP]
    assert group.suspended
    assert traces(cluster, 2)
    move(cluster, 0, 1, 2)
    await_moved(cluster, 0, 1, 2)
    assert cluster.nodes[2].host.groups[GROUP] is group, "it went on with what it had"
    records.check(0, 1, 2)


def test_the_controller_is_told_only_when_the_new_members_are_committed() -> None:
    """A configuration that is in the leader's log alone may be lost; the old replicas are needed until then."""
    cluster = cluster_of_six()
    records = Records(cluster)
    records.write(10)
    leader = cluster.wait_leader(GROUP)
    core = cluster.nodes[leader].host.groups[GROUP].core
    move(cluster, *NEW)
    cluster.world.run_until(
        "the last entry of the change",
        lambda: core.config.voters == NEW and not core.config.outgoing and core.members.newest.at > core.commit,
        60_000,
    )
    for broker in NEW:
        cluster.net.isolate(broker, FOUNDERS)
    cluster.world.run_for(900)  # longer than from look to look, shorter than a leader without a quorum leads
    assert core.members.newest.at > core.commit
    assert not cluster.told(MOVE_COMPLETE)
    cluster.world.run_for(10_000)
    assert partition(cluster, leader).moves
    cluster.net.heal()
    await_moved(cluster, *NEW)
    records.write(5)
    records.check(*NEW)


def test_wanted_again_while_it_is_being_removed() -> None:
    """It is made anew only when nothing is left: what is removed late must not be the new one's."""
    cluster = cluster_of_six()
    records = Records(cluster)
    records.write(10)
    move(cluster, *NEW)
    cluster.world.run_until("it stands aside", lambda: wal_of(cluster, 0).is_suspended(GROUP), 120_000)
    for queue in (TOPICS_WAL, "folders"):
        cluster.loops[0].latency[queue] = Latency(2_000_000, 2_000_000)
    cluster.world.run_until("it is let go", lambda: GROUP not in cluster.nodes[0].host.groups, 10_000)
    move(cluster, *FOUNDERS)
    cluster.world.run_for(1_000)
    assert GROUP not in cluster.nodes[0].host.groups
    await_moved(cluster, *FOUNDERS)
    records.write(5)
    records.check(*FOUNDERS)
    cluster.kill(0)
    cluster.restart(0)
    cluster.wait_ready()
    records.write(5)
    records.check(*FOUNDERS)


@pytest.mark.parametrize("seed", range(20))
def test_whoever_dies_at_whatever_step(seed: int) -> None:
    """Moves at random, brokers that lose power at random; at the end nothing acknowledged is lost, and every replica is
    where it is wanted and nowhere else."""
    cluster = cluster_of_six(seed, **(SMALL if seed % 2 else {}))
    records = Records(cluster)
    records.write(5)
    records.check(*storm(cluster, random.Random(seed), records.write))


def test_a_start_removes_what_a_crash_has_left() -> None:
    """Power is lost between the suspension and the removal, and the next start's image has the move behind it."""
    cluster = cluster_of_six()
    records = Records(cluster)
    records.write(10)
    move(cluster, 0, 1, 7)
    cluster.world.run_until("it stands aside", lambda: wal_of(cluster, 2).is_suspended(GROUP), 120_000)
    cluster.world.run_for(2)
    cluster.kill(2)
    cluster.world.run_for(5_000)
    cluster.restart(2)
    cluster.wait_ready()
    await_moved(cluster, 0, 1, 7)
    assert GROUP not in wal_of(cluster, 2)._logs, TOPICS_WAL
    records.check(0, 1, 7)


def test_a_start_removes_what_is_elsewhere_by_its_checkpoint() -> None:
    """The group is in the WAL, and no image of this life wants it."""
    cluster = cluster_of_six(**SMALL)
    records = Records(cluster)
    records.write(10)
    moved_away = cluster.nodes[2].formed._moved_away
    moved_away._current = lambda call: None  # it stands aside, and hears no more
    move(cluster, 0, 1, 7)
    await_told(cluster, 2, 0, 1, 7)
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
    assert not partition(cluster, 2).moves
    assert GROUP not in node.host.groups
    assert traces(cluster, 2)
    cluster.wait_ready()
    await_moved(cluster, 0, 1, 7)
    assert GROUP not in wal_of(cluster, 2)._logs
    records.check(0, 1, 7)


def test_a_group_that_a_start_has_found_comes_back_as_a_new_one() -> None:
    cluster = cluster_of_six()
    records = Records(cluster)
    records.write(10)
    for broker in FOUNDERS:
        cluster.kill(broker)
        cluster.restart(broker)
        cluster.wait_ready()
    move(cluster, *NEW)
    await_moved(cluster, *NEW)
    records.write(5)
    move(cluster, *FOUNDERS)
    await_moved(cluster, *FOUNDERS)
    records.write(5)
    records.check(*FOUNDERS)
