"""One Raft group on this replica: its core, its state machine, and the proposals and reads that are not answered yet.

Problem: a proposal is answered when its entry is applied here in the term it was proposed in; if leadership is lost
before, its fate is unknown. A read is answered when a quorum has confirmed the leadership after the read arrived and
the state has caught up. Mechanism: proposals are kept by index, the reads of one turn share one ReadIndex round,
entries are applied and reads answered in slices of bounded cost. `ready_term` is the term whose no-op is applied here
(decision 5); the machine serves in that term only. The host (`host`) takes the core's `Ready` and calls back here.
What this does not do: interpret entries; that is the machine's part.

An entry that the machine cannot apply stops this group and no other (`_stop`): its state can no longer be trusted, so
it stops leading, serves nothing and waits for a checkpoint of a leader that could apply the entry. Its votes and log
are intact, so it goes on voting and storing, up to `limits.STOPPED_GROUP_BACKLOG_BYTES`: entries that it cannot apply
stay in the WAL that all groups share. If no replica can apply the entry, one of them may lead until a SKIP that passes
over the entry is committed (`pass_over`); it serves nothing in that time. An entry that cannot be written because the
disk is full waits for space.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from muster_coordinator.errors import DiskFull, StorageFailed
from muster_coordinator.events import (
    BECAME_LEADER,
    COPY_GOES_ON,
    COPY_WAITS,
    ELECTION_STARTED,
    LOST_LEADERSHIP,
    STATE_LOST,
    STATE_RESTORED,
    TRANSFER_ABORTED,
    TRANSFER_STARTED,
    Event,
    EventKind,
    Tell,
)
from muster_coordinator.ids import BrokerId, GroupNo, MemberNo, broker_of
from muster_coordinator.limits import RAFT_ENTRY_OVERHEAD_BYTES
from muster_coordinator.raft.core import NO_CONTACT, VOTE_REQUESTS, RaftCore
from muster_coordinator.raft.log import entries_bytes
from muster_coordinator.raft.messages import NOBODY, Entry, EntryKind, Message, MsgType, ReadGrant, Ready, Refused, Role
from muster_coordinator.raft.progress import Progress
from muster_coordinator.raft.quorum import Config
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.deadlines import Due
from muster_coordinator.replica.multiraft.heartbeats import Heartbeats
from muster_coordinator.replica.multiraft.skips import Skips, encode_skip, skip_of
from muster_coordinator.replica.multiraft.wal_writer import Batch, WalWriter

ENTRY_COST_BYTES = 2_048
"""Added to each entry's bytes when a turn's budget is counted, so that a turn applies a bounded number of entries."""
OF_RAFT = (EntryKind.NOOP, EntryKind.CONF)
"""Entries that say nothing to the machine."""
DISK_LOW = "the disk is low, so it takes no more entries while it does not vote"
"""Why a copy waits."""
DONE_BATCH = Batch()
DONE_BATCH.durable = True


class Machine(Protocol):
    """The replicated state behind one group. `token` is the value that was passed to `RaftGroup.propose`."""

    def apply(self, entry: Entry) -> object:
        """Apply one committed NORMAL or COMMAND entry, in log order; the result goes to its proposer."""

    def proposal_applied(self, token: object, result: object) -> None:
        """A proposal of this replica was just applied, in the term it was proposed in."""

    def proposal_lost(self, token: object) -> None:
        """Leadership was lost before the proposal was applied: its fate is unknown."""

    def lead(self, term: int) -> None:
        """The no-op of `term` is applied: serve."""

    def resign(self) -> None:
        """Leadership is lost; also called when `lead` was not, because requests may be parked for it."""

    def moved(self) -> None:
        """Entries were applied, or leadership changed: wake the requests that wait for either."""


class GroupHost(Protocol):
    """The part of the host that a group calls."""

    heartbeats: Heartbeats
    tell: Tell
    """Takes events for the log: leadership, and the machine's own."""

    @property
    def peers(self) -> Mapping[BrokerId, MemberNo]:
        """Peers whose link is up, and the members that they are."""

    def touch(self, group: "RaftGroup") -> None:
        """The group's core may have a `Ready`, or its deadline may have moved."""

    def want_turn(self) -> None:
        """Queue a turn: there is work for it other than a core's `Ready`."""

    def now_ms(self) -> int: ...
    def reads_ready(self, group: "RaftGroup") -> None:
        """Reads of the group may be answered now: call `answer_reads`, this turn or a later one."""

    disk_low: bool
    """Little of the disk is left; true while it is full, too."""

    disk_full: bool
    """The disk is full: appends with NORMAL entries are not stored."""

    def admits(self, group: "RaftGroup", size_bytes: int, *, makes_room: bool) -> bool:
        """Is there room for `size_bytes` more uncommitted data on this replica, and on the disks of a majority?

        `makes_room`: the entry may free space, so full disks do not refuse it.
        """

    def apply_waits(self, group: "RaftGroup") -> None:
        """The group's next entry cannot be written because the disk is full: call `space_again` to have it retried."""

    def uncommitted(self, size_bytes: int) -> None:
        """Add `size_bytes`, which may be negative, to this replica's data in proposals that are not applied yet."""

    def cannot_apply(self, group: "RaftGroup", entry: Entry, error: Exception) -> None:
        """The group's state is lost because of this entry: call `lost_state`, and report it."""


class _Reads:
    """Reads that share one ReadIndex round."""

    __slots__ = ("answered", "calls", "index", "lost", "round")

    def __init__(self, index: int, round_no: int) -> None:
        self.index = index
        """The reads are answered once this index is applied. Invariant: not below the commit index at the arrival of
        any of the reads."""
        self.lost = False
        """Leadership ended before the reads were answered: all get `False`, even if this replica leads again."""
        self.answered = 0
        """How many of `calls` were made: thousands of reads are answered in slices."""
        self.round = round_no
        """The heartbeat round that confirms the reads, or a later one does; reads may join until it is sent."""
        self.calls: list[Callable[[bool], None]] = []


class _SkipVote(NamedTuple):
    """This replica tries to commit a SKIP of `entry`."""

    entry: Entry
    done: Callable[[bool], None]
    """Called with True when the SKIP is committed, with False when this replica has given up."""


class RaftGroup:
    """See the module. All calls are made on the loop."""

    __slots__ = (
        "_backlog_bytes",
        "_confirmed",
        "_contexts",
        "_held",
        "_host",
        "_joining",
        "_led_term",
        "_proposals",
        "_proposed_bytes",
        "_queue",
        "_read_context",
        "_skip_vote",
        "applied",
        "applied_bytes",
        "batch",
        "caught_up",
        "core",
        "dirty",
        "due",
        "failed",
        "installing",
        "lacks_room",
        "leader_commit",
        "machine",
        "name",
        "number",
        "ready_term",
        "releasing",
        "skips",
        "stopped_at",
        "suspended",
        "trouble",
        "waits_for_space",
        "wal_writer",
    )

    def __init__(
        self,
        host: GroupHost,
        number: GroupNo,
        core: RaftCore,
        make_machine: Callable[["RaftGroup"], Machine],
        wal_writer: WalWriter,
        name: str = "",
    ) -> None:
        """`make_machine` is called once, when the group is otherwise complete: the machine may use and keep it."""
        self._host = host
        self.number = number
        self.name = name
        """Name of the group's partition, for log events."""
        self.core = core
        self.wal_writer = wal_writer
        self.batch = DONE_BATCH
        self.dirty = False
        self.installing = False
        """Nothing is applied: a fetched checkpoint is being put in place, or the state is lost."""
        self.trouble = ""
        """Why this replica holds no valid state of the group; "" when it holds one."""
        self.stopped_at: Entry | None = None
        """The entry that this replica could not apply, if that is the trouble."""
        self.waits_for_space = False
        """Nothing is applied: the disk has no space for the segments."""
        self.lacks_room = ""
        """Why the copy of the group to this replica waits for room on the disk; "" while it does not."""
        self.releasing = False
        """It is being stored that the group is suspended no more."""
        self.suspended = bool(core.suspended)
        """Whether the core is suspended (`raft.suspension`), as last reported to `Host.suspension`."""
        self.skips = Skips(core.log)
        self._skip_vote: _SkipVote | None = None
        """Set while `pass_over` is under way."""
        self._backlog_bytes = 0
        """Bytes of the entries stored since the state was lost."""
        self.due = Due(self._deadline)
        self.applied = core.applied
        self.applied_bytes = 0
        """Bytes of entries applied since this process started."""
        self.ready_term = 0
        """The term in which this replica leads and may serve; 0 while it may not."""
        self.leader_commit: int | None = None
        """The leader's commit index in the first heartbeat since start that named this group while the leader had an
        entry of its own term committed; None until then."""
        self.caught_up = False
        """True once `leader_commit` is applied, or this replica has served as leader (decision 30); then it stays."""
        self._held: dict[BrokerId, tuple[int, int]] = {}
        """follower -> (index after which it needs the entries, until when they are kept)"""
        self._led_term = 0
        """The term in which this replica leads, as last told to the machine; 0 while it does not."""
        self._proposals: dict[int, tuple[object, int]] = {}
        """index -> (token, bytes) of own proposals of the current term"""
        self._proposed_bytes = 0
        self._queue: deque[Entry] = deque()
        self._contexts: dict[int, _Reads] = {}
        self._read_context = 0
        self._joining: _Reads | None = None
        self._confirmed: deque[_Reads] = deque()
        self.machine = make_machine(self)

    # -- questions -------------------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Leader in the current term, ready to serve or not."""
        return self.core.role is Role.LEADER

    @property
    def serves(self) -> bool:
        """Leader, and the no-op of the current term is applied here."""
        return self.ready_term != 0 and self.ready_term == self.core.term and self.core.role is Role.LEADER

    @property
    def follows(self) -> bool:
        """A voter with valid state that has heard its leader within an election timeout: after that it is a follower no
        more, but a candidate or about to be one."""
        core = self.core
        return core.role is Role.FOLLOWER and core.leader >= 0 and not (self.trouble or self.suspended)

    @property
    def voters(self) -> tuple[BrokerId, ...]:
        """The brokers that vote, in the order of the configuration; none at a member that does not know one yet. While
        the configuration is a joint one: those that it leads to."""
        return tuple(broker_of(voter) for voter in self.core.config.voters)

    @property
    def is_member(self) -> bool:
        """Is this replica one of the group, by the newest configuration in its log? Not before it has heard of one."""
        return self.core.node in self.core.config.everyone()

    @property
    def is_copied(self) -> bool:
        """Is this replica one that does not vote yet, as far as it knows?"""
        return self.core.node not in self.core.config.electors()

    @property
    def members_committed(self) -> bool:
        """Is the configuration that is in effect committed?"""
        return self.core.members.newest.at <= self.core.commit

    def progress_of(self, peer: BrokerId) -> Progress | None:
        """How far a linked peer is. None: this replica does not lead, or that folder of the broker is no member."""
        member = self._host.peers.get(peer)
        return None if member is None else self.core.progresses.get(member)

    @property
    def transferring(self) -> bool:
        return self.core.transfer_target >= 0

    def quorum_heard(self, since_ms: int) -> bool:
        """A quorum, this replica included, has been heard at or after `since_ms` (decision 7)."""
        return self.core.quorum_heard(since_ms, self._host.heartbeats.contact(self))

    # -- inputs ----------------------------------------------------------------------------------------------------

    def step(self, message: Message) -> None:
        """Step a peer's message into the core."""
        new = self._new_of(message) if self.trouble else ()
        if message.entries and not self._takes(message, new):
            return  # dropped, as if lost on the network: the leader probes again, or offers a checkpoint
        host = self._host
        contact = host.heartbeats.contact(self) if message.type in VOTE_REQUESTS else NO_CONTACT
        self.core.step(host.now_ms(), message, contact)
        if new:
            log = self.core.log
            self._backlog_bytes += entries_bytes([entry for entry in new if log.term_at(entry.index) == entry.term])
        if message.type == MsgType.APPEND_REPLY and not self.core.has_ready():
            # Typical of the second follower's reply: it moves no commit index and no deadline to an earlier time.
            if self.leads:
                host.heartbeats.moved(self)
        else:
            host.touch(self)

    def _new_of(self, message: Message) -> tuple[Entry, ...]:
        """Entries that the log does not have; whether it takes them is the core's to say."""
        log = self.core.log
        return tuple(
            entry
            for entry in message.entries
            if entry.index > log.compacted_index and log.term_at(entry.index) != entry.term
        )

    def _takes(self, message: Message, new: tuple[Entry, ...]) -> bool:
        """May these entries be stored, of which a group without a state lacks `new`? A full disk takes no NORMAL
        entries: the other kinds may free space. What is left of a low one is for the groups that vote here."""
        if self._host.disk_low:
            if any(entry.kind == EntryKind.NORMAL for entry in message.entries):
                if self.is_copied:
                    self.wait_for_room(DISK_LOW)
                    return False
                if self._host.disk_full:
                    return False
        elif self.lacks_room == DISK_LOW:
            self.has_room()
        return not new or self._backlog_bytes + entries_bytes(new) <= limits.STOPPED_GROUP_BACKLOG_BYTES

    def wait_for_room(self, reason: str) -> None:
        """The copy of the group to this replica waits: what is still to come would leave too little of the disk."""
        if not self.lacks_room:
            self.tell(COPY_WAITS, reason=reason)
        self.lacks_room = reason

    def has_room(self) -> None:
        """The copy goes on, if it waited."""
        if self.lacks_room:
            self.lacks_room = ""
            self.tell(COPY_GOES_ON)

    def _deadline(self, now_ms: int) -> None:
        target = self.core.transfer_target
        self.core.advance(now_ms, self._host.heartbeats.contact(self))
        self._host.touch(self)
        if self.transferring and self.core.transfer_target != target:  # to an heir: this replica has left the group
            self.tell(TRANSFER_STARTED, term=self.core.term, target=int(broker_of(self.core.transfer_target)))
        if target >= 0 and not self.transferring:
            self._transfer_over(target)

    def _transfer_over(self, target: int) -> None:
        """It was aborted, or leadership lost: wake the requests that wait for it."""
        if self.leads:
            self.tell(TRANSFER_ABORTED, term=self.core.term, target=broker_of(target))
        self.machine.moved()

    def peer_unreachable(self, peer: MemberNo, *, lost: bool) -> None:
        """The link to `peer` broke; `lost`: and did not come back (`RaftCore.peer_lost`). A transfer to it is over, but
        for one of a leader that has left, which asks its next heir."""
        target = self.core.transfer_target
        if lost:
            self.core.peer_lost(self._host.now_ms(), peer)
        else:
            self.core.peer_unreachable(peer)
        self._host.touch(self)
        if target >= 0 and not self.transferring and not self.core.resigns:
            self._transfer_over(target)

    def campaign(self) -> None:
        self.core.campaign(self._host.now_ms())
        self._host.touch(self)

    def hesitate(self, hesitates: bool) -> None:
        """`hesitates`: from now on, let other voters campaign first."""
        self.core.hesitate(self._host.now_ms(), hesitates)
        self._host.touch(self)

    def stand_back(self, until_ms: int) -> None:
        """Do not campaign before `until_ms`: another voter is the preferred leader of this new group."""
        self.core.stand_back(until_ms)
        self._host.touch(self)

    def transfer(self, target: BrokerId) -> bool:
        """Transfer leadership to `target`. Proposals are refused until it has taken over or an election timeout has
        passed. False: the transfer was not started."""
        member = self._host.peers.get(target)
        if member is None:
            return False
        under_way = self.transferring
        begun = self.core.transfer(self._host.now_ms(), member)
        self._host.touch(self)
        if begun and not under_way:
            self.tell(TRANSFER_STARTED, term=self.core.term, target=int(target))
        return begun

    def change_members(self, voters: Sequence[int], learners: Sequence[int]) -> Refused | None:
        """Begin a change to these members (`RaftCore.change_members`). None: it is in the log, or was true already."""
        begun = self.core.change_members(voters, learners)
        self._host.touch(self)
        return begun if isinstance(begun, Refused) else None

    def step_down(self) -> None:
        self.core.step_down(self._host.now_ms())
        self._host.touch(self)

    def abdicate(self) -> None:
        """Stop leading: the WAL is stuck. Another voter is asked to campaign."""
        if self.core.role is Role.LEADER:
            self.core.abdicate(self._host.now_ms())
            self._host.touch(self)

    def leave_slow_disk(self) -> None:
        """The WAL is slow: if another voter's is not, by what it has of this group's writes, it is to lead instead."""
        if self.core.role is Role.LEADER and not self.transferring:
            heir = self.core.ahead_of_own_disk()
            if heir != NOBODY:
                self.transfer(broker_of(heir))

    def heartbeat_named(self, leader: MemberNo, term: int, commit: int, leader_commit: int) -> bool:
        accepted = self.core.heartbeat(self._host.now_ms(), leader, term, commit)
        if accepted and self.leader_commit is None and leader_commit:
            self.leader_commit = leader_commit
            self._note_caught_up()
            self.machine.moved()
        self._host.touch(self)
        return accepted

    def persisted(self, era: int, index: int) -> None:
        self.core.persisted(era, index)
        if self.core.has_ready():  # else no output waited for this sync, and a sync moves no deadline
            self._host.touch(self)

    # -- proposals -------------------------------------------------------------------------------------------------

    def propose(self, kind: EntryKind, data: bytes, token: object) -> Refused | None:
        """Append one entry in the current term. None: exactly one of `Machine.proposal_applied`/`_lost` follows."""
        size = len(data) + RAFT_ENTRY_OVERHEAD_BYTES
        if not self.wal_writer.admission.admits(size) or not self._host.admits(
            self, size, makes_room=kind == EntryKind.COMMAND
        ):
            return Refused.BUSY
        index = self.core.propose(self._host.now_ms(), ((kind, data),), self.ready_term)
        if isinstance(index, Refused):
            return index
        self._proposals[index] = (token, size)
        self._proposed_bytes += size
        self._host.uncommitted(size)
        self._host.touch(self)
        return None

    # -- reads -----------------------------------------------------------------------------------------------------

    def read_index(self, done: Callable[[bool], None]) -> None:
        """Call `done(True)` once this replica was confirmed as leader after this call and has applied all that was
        committed before it; `done(False)` when it does not serve, loses leadership, or too many reads wait."""
        core = self.core
        heartbeats = self._host.heartbeats
        reads = self._joining
        if reads is None or reads.round <= heartbeats.round:
            if not self.serves:
                done(False)
                return
            reads = _Reads(core.commit, heartbeats.next_round(self))
            self._read_context += 1
            context = self._read_context
            if not core.read(self._host.now_ms(), context, reads.round):
                done(False)
                return
            self._contexts[context] = reads
            self._joining = reads
            if core.grants:
                self._host.touch(self)  # the only voter confirms itself at once
            else:
                self._host.want_turn()  # the turn starts the round; if one is under way, the turn of its first ack does
        reads.index = max(reads.index, core.commit)
        reads.calls.append(done)

    def confirmed(self, grants: Sequence[ReadGrant]) -> None:
        """The core has confirmed these reads."""
        for grant in grants:
            reads = self._contexts.pop(grant.context)
            if reads is self._joining:
                self._joining = None  # the only voter confirms itself at once: its round may never be sent
            reads.index = max(grant.index, reads.index)
            self._confirmed.append(reads)
        if self.has_reads:
            self._host.reads_ready(self)

    def _lose_reads(self, contexts: Sequence[int]) -> None:
        for context in contexts:
            reads = self._contexts.pop(context)
            reads.lost = True
            self._confirmed.append(reads)
        if self.has_reads:
            self._host.reads_ready(self)

    @property
    def has_reads(self) -> bool:
        """Reads can be answered now: their index is applied, or leadership was lost."""
        return bool(self._confirmed) and (self._confirmed[0].lost or self._confirmed[0].index <= self.applied)

    def answer_reads(self, most: int) -> int:
        """Answer at most `most` reads that can be answered now; returns how many were answered."""
        left = most
        while left and self.has_reads:
            reads = self._confirmed[0]
            until = min(len(reads.calls), reads.answered + left)
            calls = reads.calls[reads.answered : until]
            left -= len(calls)
            reads.answered = until
            if until == len(reads.calls):
                self._confirmed.popleft()
            for call in calls:
                call(self.serves and not reads.lost)
        return most - left

    def retire(self) -> None:
        """The group is deleted: its proposals are lost, its reads get `False`."""
        if self._led_term:
            self._lost_leadership()
        gone = [*self._contexts.values(), *self._confirmed]
        self._contexts.clear()
        self._confirmed.clear()
        self._queue.clear()
        for reads in gone:
            for call in reads.calls[reads.answered :]:
                call(False)

    # -- the host's turn -------------------------------------------------------------------------------------------

    def took(self, ready: Ready) -> None:
        """The host took a `Ready` and staged its writes."""
        if ready.soft_state is not None:
            self._soft_state_changed()
        if ready.grants:
            self.confirmed(ready.grants)
        if ready.lost_reads:
            self._lose_reads(ready.lost_reads)
        for entry in ready.entries:
            if entry.kind == EntryKind.SKIP:
                self.skips.note(entry)
        if ready.committed:
            self._queue.extend(ready.committed)
        if self._skip_vote is not None:
            self._look_at_vote(self._skip_vote)

    def _soft_state_changed(self) -> None:
        core = self.core
        leading_term = core.term if core.role is Role.LEADER else 0
        if self._led_term not in (0, leading_term):
            self._lost_leadership()
        if leading_term and self._led_term == 0:
            self._led_term = leading_term
            self._host.heartbeats.leads(self)
            self.tell(BECAME_LEADER, term=leading_term)
        elif core.role is Role.CANDIDATE:
            self.tell(ELECTION_STARTED, term=core.term)
        self._host.heartbeats.follows(self)
        self.machine.moved()

    def tell(self, kind: EventKind, **fields: object) -> None:
        """Write an event of this group to the log."""
        self._host.tell(Event(kind, {"raft_group": int(self.number), "partition": self.name, **fields}))

    def _lost_leadership(self) -> None:
        leader = None if self.core.leader == NOBODY else int(broker_of(self.core.leader))
        self.tell(LOST_LEADERSHIP, term=self.core.term, leader=leader)
        self._led_term = 0
        self.ready_term = 0
        self._joining = None
        for reads in self._confirmed:
            reads.lost = True
        if self._confirmed:
            self._host.reads_ready(self)
        self._host.heartbeats.leads_no_more(self)
        proposals, self._proposals = self._proposals, {}
        self._host.uncommitted(-self._proposed_bytes)
        self._proposed_bytes = 0
        for token, _ in proposals.values():
            self.machine.proposal_lost(token)
        self.machine.resign()

    @property
    def has_entries(self) -> bool:
        """Committed entries can be applied now: no install, full disk or undecided SKIP holds them up."""
        if not self._queue or self.installing or self.waits_for_space:
            return False
        return not (self.skips.known and self._undecided())

    def space_again(self) -> None:
        """Space may be free again: try to apply the entry that could not be written."""
        self.waits_for_space = False

    def _undecided(self) -> bool:
        return self.skips.undecided(self._queue[0].index, self.core.commit)

    @property
    def settled(self) -> bool:
        """The state equals what any replica has at index `applied`, so a snapshot of it may be taken."""
        return not self.installing and self.applied >= self.skips.until

    def apply_some(self, budget: int) -> int:
        """Apply entries until `budget` bytes are used up; returns the bytes used. At least one entry is applied if one
        can be (`has_entries`), none while a checkpoint is installed, even if an earlier turn scheduled the group."""
        if self.installing or self.waits_for_space:
            return 0
        used = 0
        machine, skips = self.machine, self.skips
        proposals = self._proposals
        while self._queue and used < budget:
            if skips.known and self._undecided():
                break
            entry = self._queue.popleft()
            if entry.index <= self.applied:
                continue  # covered by a checkpoint that was installed in the meantime
            assert entry.index == self.applied + 1, "entries are applied in order, each once"
            size = len(entry.data)
            used += size + ENTRY_COST_BYTES
            self.applied_bytes += size
            try:
                result = None if entry.kind in OF_RAFT or self._passes(entry) else machine.apply(entry)
            except DiskFull:
                self._queue.appendleft(entry)
                self.applied_bytes -= size
                self.waits_for_space = True
                self._host.apply_waits(self)
                break
            except Exception as error:
                if isinstance(error, StorageFailed | OSError | MemoryError):
                    raise
                self._stop(entry, error)
                break
            self.applied = entry.index
            proposal = proposals.pop(entry.index, None)
            if proposal is not None:
                self._proposed_bytes -= proposal[1]
                self._host.uncommitted(-proposal[1])
                machine.proposal_applied(proposal[0], result)
            elif entry.kind == EntryKind.NOOP and self.leads and entry.term == self.core.term != self.ready_term:
                self.ready_term = entry.term
                self.caught_up = True
                machine.lead(entry.term)
        self.core.applied_to(min(self.applied, self.core.handed))
        self._note_caught_up()
        if self.has_reads:
            self._host.reads_ready(self)
        machine.moved()
        return used

    def _passes(self, entry: Entry) -> bool:
        """True: the machine must not see this entry; it is a SKIP, or a committed SKIP names it."""
        if entry.kind == EntryKind.SKIP:
            self.skips.reached(entry)
            return True
        return bool(self.skips.known) and self.skips.covers(entry)

    def _stop(self, entry: Entry, error: Exception) -> None:
        """Stop at `entry`, which the machine may have applied in part: nothing is applied or served here, and this
        replica does not lead, until a checkpoint replaces the state. A restart replays up to `entry` and stops again.
        """
        self._queue.appendleft(entry)
        self.step_down()
        self._host.cannot_apply(self, entry, error)
        self.stopped_at = entry

    # -- passing over ----------------------------------------------------------------------------------------------

    def pass_over(self, done: Callable[[bool], None]) -> bool:
        """Campaign, and commit a SKIP of the entry that this replica stopped at: every replica passes over the entry,
        a stopped one from its next start on. `done(True)` when the SKIP is committed, `done(False)` when another
        replica leads or `give_up` was called. False: the group is not stopped at an entry, or a call is under way;
        `done` is not called."""
        if self.stopped_at is None or self._skip_vote is not None:
            return False
        self._skip_vote = _SkipVote(self.stopped_at, done)
        self.core.may_lead = True
        self.campaign()
        return True

    def _look_at_vote(self, vote: _SkipVote) -> None:
        core = self.core
        if core.role is Role.FOLLOWER and core.leader not in (NOBODY, core.node):
            self.give_up()
            return
        standing = self.skips.names(vote.entry.index)
        if standing is not None and standing.index <= core.commit:
            self._end_vote(vote, True)
        elif standing is None and core.role is Role.LEADER and core.log.offered == core.log.last_index:
            core.propose(self._host.now_ms(), ((EntryKind.SKIP, encode_skip(skip_of(vote.entry))),))
            self._host.touch(self)

    def give_up(self) -> None:
        """End `pass_over` with `done(False)`. A SKIP that was appended may still be committed."""
        if self._skip_vote is not None:
            self._end_vote(self._skip_vote, False)

    def _end_vote(self, vote: _SkipVote, agreed: bool) -> None:
        self._skip_vote = None
        self.core.may_lead = False
        self.step_down()
        vote.done(agreed)

    def hold_from(self, peer: BrokerId, index: int, until_ms: int) -> None:
        """Keep the entries after `index` for a follower until `until_ms`: it fetches a checkpoint of `index`, or has
        installed one and reached `index`."""
        now_ms = self._host.now_ms()
        self._held = {one: held for one, held in self._held.items() if held[1] > now_ms} | {peer: (index, until_ms)}
        first = min(held for held, _ in self._held.values())
        self.wal_writer.hold(self.number, first, max(until for _, until in self._held.values()))

    def release(self, index: int) -> None:
        """As `compact`, but entries that `hold_from` keeps for a follower stay."""
        now_ms = self._host.now_ms()
        self.compact(min((index, *(held for held, until_ms in self._held.values() if now_ms < until_ms))))

    def compact(self, index: int) -> None:
        """Drop the entries up to `index` from the core's log: followers that need them get a checkpoint instead.
        Invariant: a durable checkpoint covers `index`."""
        log = self.core.log
        if index > log.compacted_index:
            term = log.term_at(index)
            assert term is not None, "only entries of the log are compacted"
            self.core.compacted(index, term)

    def _note_caught_up(self) -> None:
        if self.trouble:
            return
        if not self.caught_up and self.leader_commit is not None and self.applied >= self.leader_commit:
            self.caught_up = True

    def lost_state(self, trouble: str) -> None:
        """The state is lost; votes and log are intact. Nothing is applied or served until a checkpoint is installed.
        A `pass_over` that is under way ends: this replica may not lead."""
        self.trouble = trouble
        self.tell(STATE_LOST, reason=trouble)
        self.stopped_at = None
        self._backlog_bytes = 0
        self.installing = True
        self.core.may_lead = False
        self.give_up()

    def installed(self, index: int, term: int, config: Config | None = None) -> None:
        """The machine holds an installed checkpoint of `index` and `term`, which carries `config`. Invariant: its WAL
        record is staged before any promise that the core makes from here on. If the core has committed past `index` in
        the meantime, it keeps its log; entries that the checkpoint covers are not applied."""
        if self.core.snapshot_installed(index, term, config):
            self._queue.clear()
        else:
            self.core.skip_to(index)
        self.applied = index
        self.installing = False
        if self.trouble:
            self.tell(STATE_RESTORED, applied=index)
        self.trouble = ""
        self._backlog_bytes = 0
        self.give_up()
        self.stopped_at = None
        self.core.may_lead = True
        self._note_caught_up()
        self.machine.moved()
        self._host.touch(self)
