"""A checkpoint is put in place beside appends, elections and power losses: none of them may find a half-way state."""

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import GIB, MIB
from muster_coordinator.raft.messages import Message, MsgType
from muster_coordinator.replica.node import Node

from tests.replica.cluster import SimCluster
from tests.replica.snapshots.test_recovery import FREQUENT, TINY_WAL, behind, commit_many, segment_bytes
from tests.sim.disk import SimDisk
from tests.sim.loop import Latency, World

GROUP = GroupNo(1)
ROOMY_WAL = {"wal_file_bytes": MIB, "wal_bytes_max": 8 * MIB}
"""The WAL still holds what its cores have compacted."""


def before_install(node: Node, race: Callable[[Any], None]) -> None:
    """Call `race(offer)` when the files are in place and the WAL is about to be told."""
    installs, original = node.formed.installs, node.formed.installs._swapped

    def swapped(group: Any, job: Any, release: Any, result: Any) -> None:
        if group.number == GROUP:
            installs._swapped = original
            race(result[0].offer)
        original(group, job, release, result)

    installs._swapped = swapped


def joined(cluster: SimCluster, leader: int, late: int, upto: int) -> Message:
    """An append of a leader that has not compacted: from the end of the late log on."""
    follower = cluster.nodes[late].host.groups[GROUP].core
    held = cluster.nodes[leader].host.groups[GROUP]
    wal = held.wal_writer.wal
    last = follower.last_index
    entries = tuple(wal.read(GROUP, last + 1, upto + 1, GIB))
    assert entries[-1].index == upto
    assert wal.term_at(GROUP, last) == follower.log.term_at(last)
    return Message(
        MsgType.APPEND,
        leader,
        late,
        held.core.term,
        last,
        log_term=follower.log.last_term,
        commit=upto,
        entries=entries,
    )


@pytest.mark.parametrize("beyond", [-3, 0, 3])
def test_an_append_that_is_not_yet_in_the_wal_and_an_install_share_a_turn(beyond: int) -> None:
    """The append reaches to just before the checkpoint, to it or past it, and nobody has taken the core's `Ready`."""
    cluster, late = behind(21, **ROOMY_WAL)
    node = cluster.restart(late)
    leader = cluster.wait_leader(1)
    raced = []

    def race(offer: Any) -> None:
        message = joined(cluster, leader, late, offer.index + beyond)
        group = node.host.groups[GROUP]
        group.core.step(node.host.now_ms(), message)
        assert group.core.commit == offer.index + beyond
        raced.append(offer.index)

    before_install(node, race)
    cluster.world.run_until("installed", lambda: node.formed.installs.installed[GROUP], 10_000)
    assert len(raced) == 1
    cluster.wait_ready()
    cluster.converge()
    assert segment_bytes(cluster, 0, 1) == segment_bytes(cluster, 1, 1) == segment_bytes(cluster, 2, 1)
    cluster.kill(late)
    cluster.restart(late)
    cluster.wait_ready()
    cluster.converge()


def of_a_term_it_never_saw(seed: int) -> tuple[SimCluster, int]:
    """As `behind`, and the checkpoint is of a term that began while the late replica was down."""
    cluster, late = behind(seed)
    before = cluster.nodes[cluster.wait_leader(1)].host.groups[GROUP].core.term
    leader = cluster.wait_leader(1)
    other = next(broker for broker in cluster.nodes if broker != leader)
    assert cluster.nodes[leader].transfer(GROUP, cluster.brokers[other])
    cluster.world.run_until("another leader", lambda: cluster.leader_of(1) == other, 5_000)
    commit_many(cluster, 0, 800, 400)
    checkpoint = cluster.nodes[other].host.groups[GROUP].core.log.checkpoint
    assert checkpoint[1] > before, "a checkpoint of the new term"
    return cluster, late


def starts(disk: SimDisk, late: int, **settings: Any) -> Node:
    """A life of its own on a copy of the disk; nobody else is there."""
    alone = SimCluster(World(0), **{**TINY_WAL, **FREQUENT, **settings})
    alone.disks[late] = disk
    return alone.start_one(late)


def test_a_start_at_any_effect_of_an_installation_succeeds_although_no_hard_state_of_its_term_was_synced() -> None:
    """Nothing of the WAL reached the disk while the install came, was verified and swapped in."""
    cluster, late = of_a_term_it_never_saw(22)
    disk = cluster.disks[late]
    cluster.restart(late)
    cluster.loops[late].latency["wal-offsets"] = Latency(2_000_000, 2_000_000)
    rand = random.Random(22)
    tried, sealed = 0, 0

    def check(operation: str, path: str, size: int) -> None:
        """Power fails before this effect: what was not synced is gone, or has arrived in part."""
        nonlocal tried, sealed
        if operation == "pread":
            return
        torn = copy.deepcopy(disk)
        torn.cost = None
        torn.crash(rand)
        for left in (disk.durable_copy(), torn):
            sealed += "incoming/1/complete" in left.files()
            core = starts(left, late).host.groups[GROUP].core
            assert core.term >= core.log.last_term
            tried += 1

    disk.cost = check
    cluster.world.run_for(1_900)
    disk.cost = None
    assert sealed > 6
    assert tried > 80
    cluster.kill(late)
    cluster.restart(late)
    cluster.wait_ready()
    cluster.converge()
    assert segment_bytes(cluster, 0, 1) == segment_bytes(cluster, 1, 1) == segment_bytes(cluster, 2, 1)


def test_a_checkpoint_of_a_term_that_no_message_told_of_yet_raises_the_term_with_it() -> None:
    """Offers travel in another channel than appends: the files can be there before the term is heard of."""
    cluster, late = of_a_term_it_never_saw(23)
    node = cluster.restart(late)
    seen = []

    def race(offer: Any) -> None:
        core = node.host.groups[GROUP].core
        core.term, core.given_hard = offer.term - 1, core.given_hard._replace(term=offer.term - 1)
        core.given_soft = core.given_soft._replace(term=offer.term - 1)
        seen.append(offer.term)

    before_install(node, race)
    cluster.world.run_until("installed", lambda: node.formed.installs.installed[GROUP], 10_000)
    assert node.host.groups[GROUP].core.term >= seen[0]
    started = starts(cluster.disks[late].durable_copy(), late)
    assert started.host.groups[GROUP].core.term >= seen[0]
    cluster.wait_ready()
    cluster.converge()
