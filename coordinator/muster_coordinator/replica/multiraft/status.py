"""Plain values about Raft groups for status pages and metrics; copies, taken when asked."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster_coordinator.ids import BrokerId, GroupNo, MemberNo, binding_of, broker_of
from muster_coordinator.raft.messages import Role
from muster_coordinator.raft.quorum import Config
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
    """What is damaged and where, in words."""
    repair: str
    """State of its repair, in words."""


class ScrubStatus(NamedTuple):
    """Counts of the background check of stored segments, and of repairs, since the start."""

    checked_bytes: int = 0
    passes: int = 0
    damaged: int = 0
    """Segments that are damaged now; not a count since the start."""
    repaired: int = 0
    repair_failures: int = 0


class CleanerStatus(NamedTuple):
    """Log cleaning since this replica's start."""

    rounds: int = 0
    failures: int = 0
    """Rounds that ended with an error; each is tried again."""
    done_bytes: int = 0
    """Bytes read and written."""
    freed_bytes: int = 0
    due: int = 0
    """Partitions that were due when they were last looked at."""
    uncleanable: int = 0
    """Partitions whose last round was not ended."""
    cleaning: str = ""
    """The partition that is being cleaned."""


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
    """Highest index known to be stored at each voter, 0 for a suspended one; empty unless leader."""
    trouble: str = ""
    """Why this replica holds no valid state of the group; "" when it holds one."""
    damaged: tuple[DamagedFile, ...] = ()
    suspended: bool = False
    """This voter has lost promises: it neither votes nor counts for the quorum until its leader releases it (see
    `raft.suspension`)."""
    config: Config = Config(())
    """The members in effect here; of a broker whose folder is being replaced there are two."""

    def learners(self) -> tuple[BrokerId, ...]:
        """Brokers whose new data folder follows the log and does not vote yet."""
        return tuple(broker_of(member) for member in self.config.learners)

    def bindings(self) -> dict[BrokerId, int | None]:
        """Which data folder of each broker votes, by its binding (ADR 38); None while that changes."""
        found: dict[BrokerId, int | None] = {}
        for member in self.config.electors():
            broker, binding = broker_of(MemberNo(member)), binding_of(MemberNo(member))
            found[broker] = binding if found.get(broker, binding) == binding else None
        return found


class CopyWithoutRoom(NamedTuple):
    """A group whose copy to this replica waits for room on the disk."""

    group: GroupNo
    partition: str
    reason: str


class OpenTransactions(NamedTuple):
    """A topic partition led here whose last stable offset an open transaction keeps back."""

    group: GroupNo
    open_ms: int
    """How long its oldest open transaction has been the oldest, as seen by this replica."""
    lag: int
    """Offsets from the last stable one to the high watermark."""


class TransactionStatus(NamedTuple):
    """What the coordinators of transactions that lead here have, and what those that led here did."""

    ids: int = 0
    ongoing: int = 0
    """Transactional ids with an open transaction."""
    prepared: int = 0
    """Ids whose outcome is decided, and of which not every partition has its marker."""
    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    fenced: int = 0
    ids_expired: int = 0


class LateMarker(NamedTuple):
    """A partition that lacks the marker of a transaction whose coordinator leads here."""

    topic: str
    partition: int
    late_ms: int
    """Since the oldest such marker was sent for the first time by this leader."""


class InstallStatus(NamedTuple):
    """Snapshot installs since this replica's start."""

    installed: int
    """Checkpoints put in place here."""
    received_bytes: int
    reused_bytes: int
    """Bytes of files that this replica had already and did not fetch."""
    sent_bytes: int
    """Bytes sent to followers."""
    given_up: int
    """Installs given up because the disk was full or failed."""


class WorkDone(NamedTuple):
    """What a replica has done since its start: counts that only grow."""

    turns: int
    """Turns of the host (`host`), each for all Raft groups."""
    proposals_refused: int
    """Proposals refused as busy because there was no room here or on the disks of a majority."""
    checkpoints: int
    flushes: int
    """Flushes of segments."""
    late_timers: int
    """How often the loop was stalled so long that deadlines waited for one more turn."""
    group_requests: int
    """Requests that reached the coordinator of a group here."""


def group_status(group: RaftGroup, damaged: Sequence[DamagedFile] = ()) -> GroupStatus:
    core = group.core
    match: dict[BrokerId, int] = {}
    if core.role is Role.LEADER:
        # Of two members of a broker the one that stays counts: it is told last.
        told = sorted(core.progresses.items(), key=lambda item: item[0] in core.config.voters)
        match = {broker_of(peer): 0 if one.suspended else one.match for peer, one in told}
        match[broker_of(core.node)] = core.log.stable
    return GroupStatus(
        group=group.number,
        role=ROLE_NAMES[core.role],
        term=core.term,
        leader=broker_of(core.leader) if core.leader >= 0 else None,
        commit=core.commit,
        applied=group.applied,
        last_index=core.last_index,
        voters=group.voters,
        match=match,
        trouble=group.trouble,
        damaged=tuple(damaged),
        suspended=group.suspended,
        config=core.config,
    )
