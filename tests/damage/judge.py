"""What one damaged byte does to a replica, alone and beside two others, and what must never come of it.

`outcome` is one life of the damaged replica by itself: refused, or started with its groups as they were but for the
one whose file it is. `lost` brings the others back too, the one that is behind first, and says which acknowledged
offset or record a client would miss then: a majority is whole, so none may be.
"""

from collections.abc import Iterable
from enum import StrEnum

from muster_coordinator.errors import Code, Corruption, UnsupportedFormat
from muster_coordinator.ids import CONTROLLER_GROUP, GroupNo
from muster_coordinator.ports import Notice
from muster_coordinator.replica.bootstrap.identity import StartRefused
from muster_coordinator.replica.node import Node

from tests.damage.disks import (
    BATCHES,
    BEHIND,
    COMMITS,
    DAMAGED,
    OTHER_COMMITS,
    SETTINGS,
    WHOLE,
    Damage,
    damaged,
)
from tests.replica.cluster import SimCluster
from tests.sim.disk import SimDisk
from tests.sim.loop import World

MAY_REFUSE = ("identity", "cluster")
"""The files for which a whole start may be refused: who this folder is, and which cluster it belongs to."""
PROMISES = ("wal-offsets/", "wal-topics/")
"""Files that hold votes and acknowledgements. Damage of theirs suspends groups."""
TOPIC_GROUP = GroupNo(3)
START_MS = 20
"""What a replica knows to be committed is applied by then."""
GROUPS = (CONTROLLER_GROUP, GroupNo(1), GroupNo(2), TOPIC_GROUP)
HEALED_MS = 20_000
WITHOUT_THE_WHOLE_MS = 4_000
"""Several election timeouts."""


class Outcome(StrEnum):
    """Of a start."""

    REFUSED = "refused"
    WITHOUT_STATE = "one group without state"
    NO_TOPICS = "no controller state, so no topics"
    SUSPENDED = "groups suspended"
    SHORTER = "shorter log"
    HEALED = "healed and told"
    AS_BEFORE = "as before"


class Broken(AssertionError):
    """What the table does not allow."""


States = dict[GroupNo, tuple[int, str | None]]
"""(applied, hash) of every group that has a state."""


def states(node: Node) -> States:
    return {
        number: (group.applied, node.state_hash(number))
        for number, group in node.host.groups.items()
        if not group.trouble
    }


def alone(disk: SimDisk) -> tuple[Node, list[str]]:
    """A life on this disk, after it has applied what it knows to be committed; and what it told."""
    cluster = SimCluster(World(0), **SETTINGS)
    told: list[str] = []
    cluster.notice = _listen(told)
    cluster.disks[DAMAGED] = disk
    node = cluster.start_one(DAMAGED)
    cluster.world.run_for(START_MS)
    return node, told


def _listen(told: list[str]) -> Notice:
    return lambda what, details, error: told.append(what)


def outcome(disk: SimDisk, damage: Damage, whole: States) -> Outcome:
    """Of the replica alone; Broken when a group paid whose files are whole, or a start was refused without need."""
    try:
        node, told = alone(damaged(disk, damage))
    except (Corruption, UnsupportedFormat, StartRefused) as error:
        if not damage.path.startswith(MAY_REFUSE):
            raise Broken(f"{damage}: refused: {error}") from error
        return Outcome.REFUSED
    if damage.path.startswith(PROMISES):
        return _of_promises(damage, node, told, whole)
    missing = set(node.group_manager.troubled)
    if missing and damage.path.split("/")[1:2] != [str(*missing)]:
        raise Broken(f"{damage}: {missing} without state")
    if CONTROLLER_GROUP in missing:  # only its state says which partitions of topics there are
        missing.add(TOPIC_GROUP)
    if states(node) != {group: state for group, state in whole.items() if group not in missing}:
        raise Broken(f"{damage}: other states")
    if missing:
        return Outcome.NO_TOPICS if CONTROLLER_GROUP in missing else Outcome.WITHOUT_STATE
    return Outcome.HEALED if told else Outcome.AS_BEFORE


def _of_promises(damage: Damage, node: Node, told: list[str], whole: States) -> Outcome:
    found = states(node)
    wal_writers = {
        group: node.group_manager.topics_writer if group == TOPIC_GROUP else node.group_manager._offsets_writer
        for group in whole
    }
    # also one that is not known again yet
    if any(wal_writer.wal.is_suspended(group) for group, wal_writer in wal_writers.items()):
        return Outcome.SUSPENDED
    # the recovery point of its segments is lost, and the entries before its checkpoint are not needed
    if node.group_manager.troubled:
        if len(node.group_manager.troubled) > 1 or found != {group: whole[group] for group in found}:
            raise Broken(f"{damage}: {node.group_manager.troubled} without state")
        return Outcome.WITHOUT_STATE
    if found == whole:
        return Outcome.HEALED if told else Outcome.AS_BEFORE
    if found.keys() != whole.keys() or any(found[group][0] > whole[group][0] for group in whole):
        raise Broken(f"{damage}: {found}")
    return Outcome.SHORTER


def lost(disks: list[SimDisk], damage: Damage | None) -> list[str]:
    """What a client misses of all that was acknowledged, once the damaged replica has met first the one that is behind
    and then the one that has everything. A replica that refuses its start stays away."""
    cluster = SimCluster(World(1), **SETTINGS)
    cluster.notice = _listen([])
    cluster.disks = {broker: disk.durable_copy() for broker, disk in enumerate(disks)}
    present = [DAMAGED, WHOLE, BEHIND]
    if damage is not None:
        cluster.disks[DAMAGED] = damaged(disks[DAMAGED], damage)
    try:
        cluster.start_one(DAMAGED)
    except (Corruption, UnsupportedFormat, StartRefused):
        cluster.loops.pop(DAMAGED).kill()
        cluster.nodes.pop(DAMAGED, None)
        cluster.net.gone(DAMAGED)
        present.remove(DAMAGED)
    cluster.start_one(BEHIND)
    cluster.world.run_for(WITHOUT_THE_WHOLE_MS)
    missed = _missed(cluster, [group for group in GROUPS[1:] if cluster.leader_of(group) is not None])
    cluster.start_one(WHOLE)
    cluster.wait_ready([WHOLE, BEHIND])
    for group in GROUPS[1:]:
        cluster.wait_leader(group)
    missed += _missed(cluster, GROUPS[1:])
    if missed:
        return missed
    cluster.world.run_until("all healed", lambda: not any(_sick(cluster, broker) for broker in present), HEALED_MS)
    cluster.converge([*GROUPS])
    return []


def _sick(cluster: SimCluster, broker: int) -> bool:
    """Whether a replica lacks a group, its state or its vote."""
    groups = cluster.nodes[broker].host.groups
    return len(groups) != len(GROUPS) or any(group.trouble or group.core.suspended for group in groups.values())


def _missed(cluster: SimCluster, groups: Iterable[int]) -> list[str]:
    """What the leaders of these groups do not have."""
    missed = []
    for group in groups:
        leader = cluster.wait_leader(group)
        if group == TOPIC_GROUP:
            end = cluster.nodes[leader].group_manager.states[TOPIC_GROUP].next_offset
            if end != 2 * BATCHES:
                missed.append(f"the topic ends at {end} at {leader}")
            continue
        commits = COMMITS if group == 1 else OTHER_COMMITS
        for n in range(max(0, commits - 50), commits):
            found = cluster.fetch(leader, group - 1, f"group-{n % 50}", "topic" * 20)
            if found != (Code.NONE, n):
                missed.append(f"group-{n % 50} of group {group}: {found} for {n} at {leader}")
    return missed
