"""Plain values about Raft groups for status pages and metrics; copies, taken when asked."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.raft.messages import Role
from muster_coordinator.replica.multiraft.raft_group import RaftGroup

ROLE_NAMES = {
    Role.FOLLOWER: "follower",
    Role.PRE_CANDIDATE: "pre_candidate",
    Role.CANDIDATE: "candidate",
    Role.LEADER: "leader",
}


class DamagedFile(NamedTuple):
    """A segment that is not as it was written."""

    file: str
    damage: str
    """What was found, where."""
    repair: str
    """How far its repair is, in words."""


class ScrubStatus(NamedTuple):
    """Of the background check of stored segments, and of repairs; since the start."""

    checked_bytes: int = 0
    passes: int = 0
    damaged: int = 0
    """Segments that are damaged now."""
    repaired: int = 0
    repair_failures: int = 0


class GroupStatus(NamedTuple):
    """One Raft group that this replica holds a voter of."""

    group: GroupNo
    role: str
    """leader, follower, candidate or pre_candidate."""
    term: int
    leader: BrokerId | None
    commit: int
    applied: int
    last_index: int
    voters: tuple[BrokerId, ...]
    match: Mapping[BrokerId, int]
    """Highest index known to be stored at each voter, 0 where that does not count; empty unless leader."""
    trouble: str = ""
    """Why this replica holds no state of the group; "" when it does."""
    damaged: tuple[DamagedFile, ...] = ()
    suspended: bool = False
    """Promises of this voter are lost: it neither votes nor counts until its leader has made good for it."""


class InstallStatus(NamedTuple):
    """Snapshot installs since this replica's start."""

    installed: int
    """Put in place here."""
    received_bytes: int
    reused_bytes: int
    """That lay here already."""
    sent_bytes: int
    """To others."""
    given_up: int
    """For want of room, or because the disk failed."""


class WorkDone(NamedTuple):
    """What a replica did since its start; sums that only grow."""

    turns: int
    """Of all Raft groups together (`host`)."""
    proposals_refused: int
    """Told to try again, for want of room here or on the disks of a majority."""
    checkpoints: int
    flushes: int
    """Of segments."""
    late_timers: int
    """Times at which the loop had not come round for so long that deadlines waited for one more turn."""
    group_requests: int
    """That reached the coordinator of a group here."""


def group_status(group: RaftGroup, damaged: Sequence[DamagedFile] = ()) -> GroupStatus:
    core = group.core
    match: dict[BrokerId, int] = {}
    if core.role is Role.LEADER:
        match = {BrokerId(peer): 0 if one.suspended else one.match for peer, one in core.progresses.items()}
        match[BrokerId(core.node)] = core.log.stable
    return GroupStatus(
        group=group.number,
        role=ROLE_NAMES[core.role],
        term=core.term,
        leader=BrokerId(core.leader) if core.leader >= 0 else None,
        commit=core.commit,
        applied=group.applied,
        last_index=core.last_index,
        voters=group.voters,
        match=match,
        trouble=group.trouble,
        damaged=tuple(damaged),
        suspended=group.suspended,
    )
