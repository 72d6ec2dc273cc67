"""What replicas say of elections, hand-overs, checkpoints, snapshot installs and lost state, each in a real cluster."""

import errno

from muster_coordinator.events import (
    BECAME_LEADER,
    CHECKPOINT_POSTPONED,
    CHECKPOINT_STARTED,
    CHECKPOINT_WRITTEN,
    ELECTION_STARTED,
    INSTALL_FAILED,
    INSTALL_STARTED,
    INSTALLED,
    LOST_LEADERSHIP,
    SNAPSHOT_OFFERED,
    STATE_LOST,
    STATE_RESTORED,
    TRANSFER_ABORTED,
    TRANSFER_STARTED,
)
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.raft.messages import EntryKind

from tests.replica.cluster import SimCluster
from tests.replica.multiraft.test_unappliable_entries import propose, spoil, started, stopped
from tests.replica.snapshots.test_damaged_groups import listening
from tests.replica.snapshots.test_recovery import TINY_WAL, behind, commit_many
from tests.replica.test_failed_transfer import with_a_target_that_hears_nothing
from tests.sim.loop import World

GROUP = GroupNo(1)
WHERE = {"raft_group": 1, "partition": "__consumer_offsets-0"}


def of_group(found: list) -> list[dict[str, object]]:
    return [dict(fields) for fields in found if fields["raft_group"] == GROUP]


def test_a_leadership_that_is_handed_over_is_told_as_begun_won_and_lost() -> None:
    cluster = SimCluster(World(1))
    cluster.start()
    leader = cluster.wait_leader(1)
    target = next(broker for broker in cluster.nodes if broker != leader)
    term = cluster.nodes[leader].host.groups[GROUP].core.term
    for told in cluster.events.values():
        told.clear()
    assert cluster.nodes[leader].transfer(GROUP, BrokerId(target))
    assert cluster.nodes[leader].transfer(GROUP, BrokerId(target)), "asked for again while it runs: told once"
    cluster.world.run_until("it leads", lambda: cluster.leader_of(1) == target, 2_000)
    assert of_group(cluster.told(TRANSFER_STARTED)) == [{**WHERE, "term": term, "target": target}]
    assert of_group(cluster.told(ELECTION_STARTED)) == [{**WHERE, "term": term + 1}]
    assert of_group(cluster.told(BECAME_LEADER, target)) == [{**WHERE, "term": term + 1}]
    assert [fields["term"] for fields in of_group(cluster.told(LOST_LEADERSHIP, leader))] == [term + 1]
    assert not cluster.told(TRANSFER_ABORTED)


def test_a_hand_over_that_comes_to_nothing_is_told_by_the_leader_that_goes_on() -> None:
    cluster, leader = with_a_target_that_hears_nothing(3)
    term = cluster.nodes[leader].host.groups[GROUP].core.term
    (begun,) = of_group(cluster.told(TRANSFER_STARTED, leader))
    cluster.world.run_for(3_000)
    assert of_group(cluster.told(TRANSFER_ABORTED, leader)) == [{**WHERE, "term": term, "target": begun["target"]}]


def test_each_checkpoint_is_told_when_it_begins_and_when_it_is_durable() -> None:
    cluster = SimCluster(World(1), **TINY_WAL)
    cluster.start()
    commit_many(cluster, 0, 0, 1_800)
    cluster.world.run_for(2_000)
    for broker, node in cluster.nodes.items():
        written = cluster.told(CHECKPOINT_WRITTEN, broker)
        assert len(written) == node.group_manager.checkpoints.made > 0
        assert len(cluster.told(CHECKPOINT_STARTED, broker)) == len(written)
        newest = of_group(written)[-1]
        meta, _ = node.group_manager.checkpoints.newest(GROUP)
        assert (newest["applied"], newest["term"]) == (meta.index, meta.term)
        assert newest["size_bytes"] > 0
        assert newest["took_ms"] >= 0


def test_a_checkpoint_without_space_is_told_as_postponed() -> None:
    cluster = SimCluster(World(2), **TINY_WAL)
    cluster.start()
    cluster.disks[0].fail_next("create", errno.ENOSPC, "checkpoints/1/")
    commit_many(cluster, 0, 0, 1_800)
    cluster.world.run_for(2_000)
    assert of_group(cluster.told(CHECKPOINT_POSTPONED, 0)) == [{**WHERE, "file": "checkpoint"}]
    assert not cluster.told(CHECKPOINT_POSTPONED, 1)


def test_a_state_transfer_is_told_by_both_sides() -> None:
    cluster, late = behind(31)
    cluster.restart(late)
    cluster.wait_ready()
    cluster.converge()
    leader = cluster.wait_leader(1)
    (offered,) = of_group(cluster.told(SNAPSHOT_OFFERED, leader))
    (begun,) = of_group(cluster.told(INSTALL_STARTED, late))
    (installed,) = of_group(cluster.told(INSTALLED, late))
    assert (offered["target"], begun["leader"]) == (late, leader)
    assert offered["applied"] == begun["applied"] == installed["applied"]
    assert (offered["files"], offered["size_bytes"]) == (begun["files"], begun["size_bytes"])
    assert not cluster.told(INSTALL_FAILED)


def test_a_state_transfer_that_fails_says_why_and_the_next_one_is_told_too() -> None:
    cluster, late = behind(32)
    cluster.disks[late].fail_next("pwrite", errno.ENOSPC, "incoming/1/")
    listening(cluster)
    cluster.restart(late)
    cluster.world.run_until("installed", lambda: of_group(cluster.told(INSTALLED, late)), 30_000)
    assert len(of_group(cluster.told(INSTALL_STARTED, late))) >= 2
    (failed,) = of_group(cluster.told(INSTALL_FAILED, late))
    assert "Errno 28" in str(failed["reason"])


def test_state_that_is_lost_and_given_back_is_told_once_each() -> None:
    cluster, _ = started(4)
    victim = next(broker for broker in cluster.nodes if broker != cluster.wait_leader(1))
    spoil(cluster, victim)
    assert cluster.commit(cluster.wait_leader(1), 0, "g", 1) == 0
    stopped(cluster, GROUP, [victim])
    cluster.world.run_until("it has its state again", lambda: cluster.told(STATE_RESTORED, victim), 60_000)
    (lost,) = of_group(cluster.told(STATE_LOST, victim))
    assert "cannot be applied" in str(lost["reason"])
    assert len(of_group(cluster.told(STATE_RESTORED, victim))) == 1


def test_an_entry_that_cannot_be_applied_is_named_without_what_is_in_it() -> None:
    """Its bytes may be keys, values and metadata of clients: they are asked for with a token, not logged."""
    cluster, told = started(5)
    canary = b"canary-of-a-client"
    propose(cluster, GROUP, EntryKind.NORMAL, canary)
    stopped(cluster, GROUP)
    heard = [*told, *(str(event) for events in cluster.events.values() for event in events)]
    assert any("cannot apply" in line for line in heard)
    assert not [line for line in heard if canary.decode() in line or canary.hex() in line]
