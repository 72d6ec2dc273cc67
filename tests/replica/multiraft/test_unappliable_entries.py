"""A committed entry that cannot be applied stops its Raft group, and no process; the other groups go on.

The entries are real: batches of the offsets log without a key, or with a record of a later release, and commands that
no decoder knows, proposed below the checks that keep clients from it. The same on all replicas, and on one alone, whose
memory is spoilt.
"""

import hashlib
from typing import Any

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import DescribeGroup
from muster_coordinator.ids import CONTROLLER_GROUP, GroupNo
from muster_coordinator.raft.messages import ACKNOWLEDGED_MAX, KNOWS_SUSPENSION, EntryKind, Message, MsgType
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica import limits
from muster_coordinator.replica.node import Node

from tests.replica.cluster import SimCluster, commit_request
from tests.replica.snapshots.test_damaged_groups import listening, others_serve, troubles
from tests.sim.loop import World

GROUP = GroupNo(1)
KEYLESS = encode_batch(((None, b"no key"),), timestamp_ms=1)
LATER = encode_batch(((b"\x07\xd0\0\1g", b"of a later release"),), timestamp_ms=1)


def started(seed: int, replicas: int = 3) -> tuple[SimCluster, list[str]]:
    cluster = SimCluster(World(seed), replicas=replicas)
    cluster.start()
    return cluster, listening(cluster)


def propose(cluster: SimCluster, group: GroupNo, kind: EntryKind, data: bytes) -> list[Any]:
    """On the group's leader; the list gets what its proposer is told."""
    told: list[Any] = []
    leader = cluster.wait_leader(int(group))
    refused = cluster.nodes[leader].host.groups[group].propose(kind, data, told.append)
    assert refused is None
    return told


def spoil(cluster: SimCluster, broker: int) -> None:
    """Memory of one replica holds what no offset can be."""
    group_manager = cluster.nodes[broker].group_manager
    assert group_manager is not None
    group_manager.states[GROUP].next_offset = 2**70


def stopped(cluster: SimCluster, group: GroupNo, brokers: list[int] | None = None) -> None:
    wanted = list(cluster.nodes) if brokers is None else brokers
    cluster.world.run_until(
        "the group is stopped", lambda: all(group in troubles(cluster.nodes[broker]) for broker in wanted), 10_000
    )


@pytest.mark.parametrize(
    "batch",
    [KEYLESS, LATER, b"", b"no batch at all", KEYLESS[:40]],
    ids=["no key", "a later release", "nothing", "no batch", "half a batch"],
)
def test_an_entry_that_no_replica_can_apply_stops_one_group_everywhere(batch: bytes) -> None:
    cluster, told = started(71)
    leader = cluster.wait_leader(1)
    assert cluster.commit(leader, 0, "before", 5) == Code.NONE
    late = cluster.ask_later(leader, 0, commit_request("late", 6))
    fate = propose(cluster, GROUP, EntryKind.NORMAL, batch)
    behind = cluster.ask_later(leader, 0, commit_request("behind", 7))
    stopped(cluster, GROUP)
    cluster.world.run_for(3_000)
    assert len(late) == len(behind) == 1, "everybody is answered"
    assert late[0].topics[0][1][0][1] == Code.NONE
    assert behind[0].topics[0][1][0][1] == Code.NOT_COORDINATOR
    assert fate == [False], "its fate is unknown to its proposer"
    assert cluster.leader_of(1) is None
    assert len([line for line in told if "cannot apply" in line and hashlib.sha256(batch).hexdigest() in line]) == 3
    for broker, node in cluster.nodes.items():
        assert "cannot be applied" in node.host.groups[GROUP].trouble
        assert not node.not_ready()
        assert cluster.ask(broker, 0, DescribeGroup("before")).error == Code.NOT_COORDINATOR
        others_serve(cluster, node)
    assert cluster.submit(0, CreateTopic(name="t", topic_id=b"t" * 16, partitions=1, configs=())).error == Code.NONE


def test_a_restart_meets_the_same_entry_and_serves_the_others() -> None:
    cluster, _ = started(72)
    leader = cluster.wait_leader(1)
    for offset in range(20):
        cluster.commit(leader, 0, "before", offset)
    propose(cluster, GROUP, EntryKind.NORMAL, KEYLESS)
    stopped(cluster, GROUP)
    for _ in range(2):
        for broker in (0, 1, 2):
            cluster.kill(broker)
        told = listening(cluster)
        for broker in (0, 1, 2):
            cluster.restart(broker)
        cluster.wait_ready()
        stopped(cluster, GROUP)
        assert len(told) == 3, "once a life, no loop"
        for node in cluster.nodes.values():
            others_serve(cluster, node)


def test_a_replica_alone_serves_its_other_groups() -> None:
    cluster, _ = started(73, replicas=1)
    propose(cluster, GROUP, EntryKind.NORMAL, KEYLESS)
    stopped(cluster, GROUP)
    cluster.world.run_for(5_000)
    others_serve(cluster, cluster.nodes[0])
    assert cluster.leader_of(1) is None


@pytest.mark.parametrize("leads", [True, False])
def test_a_replica_that_alone_cannot_apply_is_given_a_checkpoint_by_one_that_could(leads: bool) -> None:
    cluster, told = started(74)
    leader = cluster.wait_leader(1)
    assert cluster.commit(leader, 0, "before", 5) == Code.NONE
    broken = leader if leads else next(broker for broker in cluster.nodes if broker != leader)
    spoil(cluster, broken)
    cluster.ask_later(leader, 0, commit_request("now", 6))
    stopped(cluster, GROUP, [broken])
    assert troubles(cluster.nodes[broken]).keys() == {GROUP}
    cluster.world.run_until("healed", lambda: not troubles(cluster.nodes[broken]), 20_000)
    assert any("has its state again" in line for line in told)
    after = cluster.wait_leader(1)
    assert cluster.commit(after, 0, "after", 7) == Code.NONE
    cluster.converge()
    assert cluster.fetch(cluster.wait_leader(1), 0, "before") == (Code.NONE, 5)


def test_a_topic_partition_stops_alone() -> None:
    cluster, _ = started(75)
    assert cluster.submit(0, CreateTopic(name="t", topic_id=b"t" * 16, partitions=2, configs=())).error == Code.NONE
    cluster.world.run_for(2_000)
    (topic,) = (group for group in cluster.nodes[0].host.groups if int(group) == 4)
    propose(cluster, topic, EntryKind.COMMAND, b"\xff\xff of a later release")
    stopped(cluster, topic)
    cluster.world.run_for(3_000)
    for node in cluster.nodes.values():
        assert troubles(node).keys() == {topic}
        others_serve(cluster, node)
    assert cluster.wait_leader(5) is not None


def test_the_controller_group_stops_alone_and_says_that_nothing_can_be_changed() -> None:
    cluster, _ = started(76)
    propose(cluster, CONTROLLER_GROUP, EntryKind.COMMAND, b"\xff\xff of a later release")
    stopped(cluster, CONTROLLER_GROUP)
    cluster.world.run_for(3_000)
    for node in cluster.nodes.values():
        others_serve(cluster, node)
        assert node.image() is not None
    result = cluster.submit(0, CreateTopic(name="t", topic_id=b"t" * 16, partitions=1, configs=()), ms=120_000)
    assert result.error in (Code.NOT_CONTROLLER, Code.REQUEST_TIMED_OUT)
    assert all("cannot be applied" in " ".join(node.not_ready()) for node in cluster.nodes.values())


def one_stopped_and_not_healed(seed: int) -> tuple[SimCluster, int, Node]:
    """A cluster, the leader of GROUP, and a follower that stopped at an entry and asks for no checkpoint."""
    cluster, _ = started(seed)
    leader = cluster.wait_leader(1)
    broken = next(broker for broker in cluster.nodes if broker != leader)
    node = cluster.nodes[broken]
    spoil(cluster, broken)
    cluster.commit(leader, 0, "now", 1)
    stopped(cluster, GROUP, [broken])
    assert node.group_manager is not None
    node.group_manager.troubled.clear()
    return cluster, leader, node


def test_a_stopped_group_stores_no_more_than_its_share_of_the_wal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One replica cannot apply, cannot be healed, and the others go on writing."""
    monkeypatch.setattr(limits, "STOPPED_GROUP_BACKLOG_BYTES", 10_000)
    cluster, leader, node = one_stopped_and_not_healed(77)
    last = node.host.groups[GROUP].core.last_index
    for offset in range(100):
        assert cluster.commit(leader, 0, "now", offset, topic="t" * 200) == Code.NONE
    assert 0 < node.host.groups[GROUP].core.last_index - last < 50
    others_serve(cluster, node)


def test_a_group_that_was_healed_and_is_in_trouble_again_has_its_whole_share_of_the_wal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second trouble is a fetched checkpoint that cannot be put in place: nothing is told of a lost state."""
    monkeypatch.setattr(limits, "STOPPED_GROUP_BACKLOG_BYTES", 10_000)
    cluster, leader, node = one_stopped_and_not_healed(78)
    group_manager = node.group_manager
    assert group_manager is not None
    for offset in range(100):
        assert cluster.commit(leader, 0, "now", offset, topic="t" * 200) == Code.NONE
    group = node.host.groups[GROUP]
    assert group.core.last_index < cluster.nodes[leader].host.groups[GROUP].core.last_index, "its share is used up"
    group_manager.troubled[GROUP] = None
    cluster.world.run_until("healed", lambda: not group.trouble, 60_000)
    cluster.converge()
    group.trouble = "as after a swap that failed"
    last = group.core.last_index
    assert cluster.commit(leader, 0, "now", 1) == Code.NONE
    cluster.world.run_for(1_000)
    assert group.core.last_index > last, "it stores what is appended"


@pytest.mark.parametrize("copies", ["repeated", "refused"])
def test_what_a_stopped_group_does_not_store_takes_nothing_of_its_share(
    copies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append that comes again, or that does not join on, was counted as if it were stored: a hundred of those that
    a lost answer causes, and the group took nothing more until it was healed."""
    monkeypatch.setattr(limits, "STOPPED_GROUP_BACKLOG_BYTES", 20_000)
    cluster, leader, node = one_stopped_and_not_healed(79)
    group = node.host.groups[GROUP]
    first = group.core.last_index + 1
    for offset in range(3):
        assert cluster.commit(leader, 0, "now", offset, topic="t" * 200) == Code.NONE
    cluster.world.run_for(1_000)
    last = group.core.last_index
    assert last > first, "they are stored"
    log = group.core.log
    entries, _ = log.slice(first, last + 1, 1 << 20)
    sent = Message(
        MsgType.APPEND,
        leader,
        group.core.node,
        group.core.term,
        first - 1,
        log.term_at(first - 1) or 0,
        entries=entries,
        hint=ACKNOWLEDGED_MAX,
        context=KNOWS_SUSPENSION,
    )
    if copies == "refused":
        moved = tuple(entry._replace(index=entry.index + 1_000) for entry in entries)
        sent = sent._replace(index=first + 999, log_term=group.core.term, entries=moved)
    for _ in range(100):
        group.step(sent)
    cluster.world.run_for(1_000)
    last = group.core.last_index
    assert cluster.commit(cluster.wait_leader(1), 0, "now", 4, topic="t" * 200) == Code.NONE
    cluster.world.run_for(1_000)
    assert group.core.last_index > last, "there is room for it"
