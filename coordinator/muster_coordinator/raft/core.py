"""One group's consensus: the surface over election, replication, reads and transfer (see the package for the table).

Problem: fifty and more groups in one process, each of which must be exactly Raft and cost microseconds.
Mechanism: a state and functions over it; this file routes: a message by its term and type, a deadline by the role,
everything else straight to its module. The hot calls are `propose`, `step` of an append and of its answer, and
`ready`.

A core never raises for what a peer sends: what cannot be from a correct voter of this group is dropped. It does
assert its own invariants; an assertion that fails means that state was lost or two leaders shared a term, and must
end the process.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster_coordinator.ids import LogIndex
from muster_coordinator.ports import Rand
from muster_coordinator.raft import change, election, following, output, replication, suspension, transfer
from muster_coordinator.raft.log import OVERHEAD, RaftLog
from muster_coordinator.raft.members import Members, Placed
from muster_coordinator.raft.messages import (
    NOBODY,
    EntryKind,
    HardState,
    Message,
    MsgType,
    ReadGrant,
    Ready,
    Refused,
    Role,
)
from muster_coordinator.raft.progress import REPLICATE, ProgressView
from muster_coordinator.raft.quorum import Config, majority
from muster_coordinator.raft.reads import NO_ROUND
from muster_coordinator.raft.roles import arm_election, become_follower
from muster_coordinator.raft.state import FOLLOWER, LEADER, RaftState
from muster_coordinator.raft.timing import FLOW, Flow, Timing

TERM_MAX = 2**31 - 1
"""A term is also a partitionLeaderEpoch (i32)."""
NO_CONTACT: Mapping[int, int] = {}
VOTE_REQUESTS = (MsgType.VOTE, MsgType.PRE_VOTE)
FROM_LEADER = (MsgType.APPEND, MsgType.HEARTBEAT, MsgType.SNAPSHOT)


class Status(NamedTuple):
    """A copy of what an operator wants to see."""

    role: Role
    term: int
    leader: int
    vote: int
    commit: int
    applied: int
    first_index: int
    last_index: int
    stable_index: int
    checkpoint_index: int
    transfer_target: int
    suspended: bool
    """It lost what it had promised, and stands aside."""
    reads: int
    config: Config
    """In effect, if not yet committed."""
    progress: dict[int, ProgressView]


class RaftCore(RaftState):
    """One voter of one group. Attributes of `RaftState` may be read by the host, and written only here."""

    __slots__ = ()

    def __init__(
        self,
        *,
        node: int,
        log: RaftLog,
        voters: Sequence[int] = (),
        configs: Sequence[Placed] = (),
        hard_state: HardState,
        applied: int,
        rand: Rand,
        timing: Timing,
        flow: Flow = FLOW,
        own_heartbeats: bool = True,
    ) -> None:
        """`own_heartbeats` False: the host sends heartbeats for all groups at once and reports by `heartbeat_ok` and
        `contact`. Either `voters`, who are fixed, or `configs`: those that the log holds, its beginning's first."""
        members = Members(configs or (Placed(0, Config(tuple(voters))),))
        super().__init__(node, members, bool(configs), log, hard_state, applied, rand, timing, flow, own_heartbeats)

    # Peers.

    def step(self, now_ms: int, message: Message, contact: Mapping[int, int] = NO_CONTACT) -> None:
        """A peer message. `contact` (as for `advance`) matters for PRE_VOTE and VOTE only: is there a live leader?"""
        kind = message.type
        if message.to != self.node or not 0 <= kind < len(_HANDLERS) or not self._listens_to(message.sender):
            return
        if message.term != self.term and not self._settle_term(now_ms, message, contact):
            return
        handler = _HANDLERS[kind]
        if handler is not None:
            handler(self, now_ms, message)

    def _listens_to(self, sender: int) -> bool:
        """The sender is not authenticated here (the mesh does that). Where members are fixed, nobody else may move the
        term. Where they change, a leader or candidate may be a member by entries that this log does not hold yet."""
        return sender in self.peers or (self.may_change and sender != self.node)

    def _settle_term(self, now_ms: int, message: Message, contact: Mapping[int, int]) -> bool:
        """Make the terms agree. False when the message ends here."""
        kind = message.type
        if message.term < self.term:
            if (
                kind in FROM_LEADER
            ):  # tell a deposed leader, or one that this higher term has to be freed from (rule 14)
                self.send(MsgType.APPEND_REPLY, message.sender, reject=True)
            elif kind == MsgType.PRE_VOTE:
                self.send(MsgType.PRE_VOTE_REPLY, message.sender, reject=True)
            return False
        # No voter comes to such a term by elections, one in each second of 68 years: it is damage, and to enter it
        # would end the group, since no later term could be begun.
        if message.term > TERM_MAX:
            return False
        # Loyalty comes before the term: a voter that was cut off, and so is in a later term, must not depose a leader
        # that the others hear (thesis 4.2.3).
        if kind in VOTE_REQUESTS:
            forced = kind == MsgType.VOTE and message.context == election.FORCED
            if not forced and election.loyal(self, now_ms, contact.get(self.leader, 0)):
                return False
            # Answered in the present term: a pre-vote asks about a term and begins none (rule 13).
            if kind == MsgType.PRE_VOTE:
                return True
        # A grant names the term that was asked about, one above ours, in which nobody is yet. A refusal names the term
        # of the peer, which is news like any other.
        elif kind == MsgType.PRE_VOTE_REPLY and not message.reject:
            return True
        heir_stands = kind == MsgType.VOTE and message.sender == self.transfer_target
        # Only a leader sends these, so its sender leads that term; of a candidate nobody knows yet whether it wins.
        become_follower(self, now_ms, message.term, message.sender if kind in FROM_LEADER else NOBODY)
        if heir_stands:
            transfer.tell_that_it_stands(self, message.sender)
        return True

    def heartbeat(self, now_ms: int, leader: int, term: int, commit: int) -> bool:
        """A coalesced heartbeat: `leader` leads this group in `term` and has committed `commit` that we hold.

        False: not accepted; tell it our `term` (`heartbeat_rejected` there).
        """
        if term < self.term or term > TERM_MAX or not self._listens_to(leader):
            return False
        if term > self.term:
            become_follower(self, now_ms, term, leader)
        return following.heartbeat(self, now_ms, leader, commit)

    def heartbeat_commit(self, peer: int) -> int:
        """While leading: the `commit` that a heartbeat to `peer` may carry (rule 10)."""
        progress = self.progresses.get(peer)
        return 0 if progress is None else min(progress.match, self.commit)

    def heartbeat_ok(self, sent_ms: int, peer: int, round_no: int) -> None:
        """`peer` accepted, for this group and its current term, a heartbeat of host round `round_no` that left at
        `sent_ms`: by then it had not deserted, and no later moment is proven by it, however late the answer comes."""
        replication.heard(self, sent_ms, peer, round_no)

    def heartbeat_rejected(self, now_ms: int, peer: int, term: int) -> None:
        """`peer` is in `term`: if that is later than ours, somebody else leads or will; if it is ours, the peer may be
        suspended."""
        if self.term < term <= TERM_MAX and self._listens_to(peer):
            become_follower(self, now_ms, term, NOBODY)
        elif term == self.term:
            replication.not_accepted(self, now_ms, peer)

    def suspend(self) -> None:
        """A start found that promises of this voter are lost: it stands aside until its leader has made good for it."""
        suspension.suspend(self)

    def release(self) -> None:
        """It is stored that the voter whose release was told (`release_told`) is suspended no more."""
        suspension.release(self)

    @property
    def wants_heartbeats(self) -> bool:
        """Is `heartbeat_ok` of single peers of use now (reads wait, or somebody is not level), beyond `contact`?"""
        if self.role is not LEADER:
            return False
        if self.reads:
            return True
        last = self.log.last_index
        return any(p.match != last or p.state is not REPLICATE for p in self.progresses.values())

    @property
    def quorum_peers(self) -> int:
        """How many peers make a quorum with this voter, whichever they are."""
        return majority(len(self.config.voters)) - 1 if self.is_plain else len(self.peers)

    def throttle(self, peer: int, throttled: bool) -> None:
        """While leading: `peer` gets no entries from now on, or gets them again. Everything else goes on."""
        progress = self.progresses.get(peer)
        if progress is not None and progress.throttled != throttled:
            progress.throttled = throttled
            self.send_due = True

    def peer_unreachable(self, peer: int) -> None:
        """The link to `peer` broke; it may be back at once."""
        replication.unreachable(self, peer)

    def peer_lost(self, now_ms: int, peer: int) -> None:
        """The link to `peer` broke and did not come back (decision 17)."""
        replication.unreachable(self, peer)
        election.leader_lost(self, now_ms, peer)

    # Clients.

    def propose(
        self, now_ms: int, items: Sequence[tuple[int, bytes]], expected_term: int | None = None
    ) -> LogIndex | Refused:
        """Append ((kind, data), ...) as one piece; the index of the first, or why nothing was appended.

        `expected_term`: the term in which the caller checked its proposal (decision 8). What was appended is neither
        committed nor durable; its fate shows in `Ready.committed`, at that index with this term, or never.
        """
        if self.role is not LEADER:
            return Refused.NOT_LEADER
        if expected_term is not None and expected_term != self.term:
            return Refused.TERM_CHANGED
        if self.transfer_target != NOBODY:
            return Refused.TRANSFERRING
        size = OVERHEAD * len(items)
        for kind, data in items:
            if kind == EntryKind.CONF:
                return Refused.UNSUPPORTED
            size += len(data)
        unhanded = self.log.last_index - self.handed
        flow = self.flow
        # A proposal larger than a bound passes when all is handed out, or it could never be made (rule 33).
        if unhanded and (
            self.uncommitted_bytes + size > flow.uncommitted_bytes_max
            or unhanded + len(items) > flow.uncommitted_entries_max
        ):
            return Refused.BUSY
        assert items, "a proposal has entries"
        return LogIndex(self.append_own(items, size))

    def read(self, now_ms: int, context: int, round_no: int = NO_ROUND) -> bool:
        """Ask for a `ReadGrant` of `context`, fresh also on a retry (rule 17). False: not leader, or too many.

        With the host's heartbeats `round_no` names a round that the host starts after this call; else the core makes
        its own.
        """
        if self.role is not LEADER or len(self.reads) >= self.flow.reads_max:
            return False
        if self.own_heartbeats:
            round_no = self.round + 1
            self.heartbeat_due = bool(self.peers)
        else:
            assert round_no > NO_ROUND, "the host numbers its rounds from 0"
        # Before the first commit of the term `commit` may lag behind what the leader before had committed. The no-op
        # lies above all of that: with it a read sees whatever was acknowledged (rule 17; paper, section 8).
        self.reads.add(context, round_no, max(self.commit, self.term_start_index))
        if not self.electors:
            replication.grant_reads(self)
        return True

    def change_members(self, voters: Sequence[int], learners: Sequence[int] = ()) -> LogIndex | Refused:
        """Have these members, by a joint configuration if it takes one; the index of the entry that begins it, or why
        nothing was appended. The change is complete when `status().config` is the wanted one and is committed.

        Asserts what `members.is_sound` says: some voters, nobody twice, at most `limits.MEMBERS_MAX` of each."""
        return change.begin(self, voters, learners)

    def config_at(self, index: int) -> Config | None:
        """What a checkpoint at `index` has to carry; `index` is applied and not compacted. None: this core came into
        the group later than that, and does not know; no checkpoint can be made there."""
        return self.members.at(index)

    def is_first_config(self, index: int) -> bool:
        """Is it that of the group's beginning, which no entry brought? Whoever knows the group knows that one, so a
        checkpoint carries nothing, and none does in a group whose members are fixed."""
        return self.members.is_first(index)

    def transfer(self, now_ms: int, target: int) -> bool:
        """Hand leadership to `target`; see `transfer.begin`."""
        return transfer.begin(self, now_ms, target)

    # Time.

    @property
    def deadline_ms(self) -> int:
        """When `advance` is wanted next; 0 (at once) until the first one. May move later without notice, never earlier
        but through a call of this object."""
        if self.role is not LEADER:
            return self.election_deadline_ms
        if self.resigns and self.transfer_target == NOBODY:
            return 0
        deadline = self.quorum_deadline_ms
        if self.own_heartbeats and self.heartbeat_deadline_ms < deadline:
            deadline = self.heartbeat_deadline_ms
        if self.transfer_target != NOBODY and self.transfer_deadline_ms < deadline:
            deadline = self.transfer_deadline_ms
        return deadline

    def advance(self, now_ms: int, contact: Mapping[int, int] = NO_CONTACT) -> None:
        """The deadline passed (harmless before). Input that has already arrived must be stepped first."""
        if self.role is LEADER:
            self._advance_leader(now_ms, contact)
        elif self.election_deadline_ms == 0:
            arm_election(self, now_ms)
        elif now_ms >= self.election_deadline_ms:
            # The host counts heartbeats of many groups at once and does not step them into each core: the deadline that
            # a core knows may be out of date, so the host's word is asked before a campaign.
            if self.leader != NOBODY:
                heard_ms = contact.get(self.leader, 0)
                if heard_ms + self.election_timeout_ms > now_ms:
                    self.leader_contact_ms = max(self.leader_contact_ms, heard_ms)
                    self.election_deadline_ms = heard_ms + self.election_timeout_ms
                    return
            election.campaign(self, now_ms)

    def hesitate(self, now_ms: int, hesitates: bool) -> None:
        """Let others campaign first from now on, or no longer. Only liveness depends on it; a vote is given as ever,
        and a leader that wants this voter to take over has its will."""
        if self.hesitates != hesitates:
            self.hesitates = hesitates
            if self.role is not LEADER and self.election_deadline_ms:
                arm_election(self, now_ms)

    def stand_back(self, until_ms: int) -> None:
        """No campaign of this voter before, in a group that has had no term yet: somebody else is meant to begin. Only
        liveness depends on it; a vote is given as ever."""
        if self.term == 0 and self.role is FOLLOWER and self.leader == NOBODY:
            self.election_deadline_ms = max(self.election_deadline_ms, until_ms)

    def _advance_leader(self, now_ms: int, contact: Mapping[int, int]) -> None:
        transfer.abort_when_late(self, now_ms)
        if self.resigns and self.transfer_target == NOBODY and not transfer.to_an_heir(self, now_ms):
            self.step_down(now_ms)
            return
        if self.own_heartbeats and now_ms >= self.heartbeat_deadline_ms:
            self.heartbeat_deadline_ms = now_ms + self.timing.heartbeat_ms
            self.heartbeat_due = bool(self.peers)
        if now_ms >= self.quorum_deadline_ms:
            # Check-quorum: who is cut off from a majority must stop serving, or its clients would wait for it for ever,
            # and must not keep its followers loyal (thesis 6.2).
            if replication.quorum_contact_ms(self, contact) < self.quorum_since_ms:
                self.step_down(now_ms)
                return
            self.quorum_since_ms = now_ms
            self.quorum_deadline_ms = now_ms + self.timing.election_min_ms

    def quorum_heard(self, since_ms: int, contact: Mapping[int, int] = NO_CONTACT) -> bool:
        """Leading, and a quorum has shown life at or after `since_ms` (decision 7: whoever expires sessions must
        ask).
        """
        return self.role is LEADER and replication.quorum_contact_ms(self, contact) >= since_ms

    def campaign(self, now_ms: int) -> None:
        """Start a pre-vote now."""
        election.campaign(self, now_ms)

    def abdicate(self, now_ms: int) -> None:
        """While leading: the own disk is stuck, so stop, and have the best heir campaign at once (rule 16)."""
        transfer.abdicate(self, now_ms)

    def ahead_of_own_disk(self) -> int:
        """While leading: the voter that has most of what is not durable here yet, or NOBODY."""
        return transfer.ahead_of_own_disk(self)

    def step_down(self, now_ms: int) -> None:
        """Give up leading or campaigning, without an heir."""
        if self.role is not FOLLOWER:
            become_follower(self, now_ms, self.term, NOBODY)

    # Disk and state machine.

    def persisted(self, term: int, index: int) -> None:
        """The batch of the `Ready` with this `persist_term` and `persist_index`, and all before it, are durable."""
        # Followers may have acknowledged before this disk did: the own acknowledgement can be the one that commits.
        if self.log.written(term, index) and self.role is LEADER:
            replication.advance_commit(self)

    def applied_to(self, index: int) -> None:
        """The state machine holds everything up to `index`."""
        output.applied_to(self, index)

    def checkpointed(self, index: int, term: int) -> None:
        """A checkpoint at (index, term) is durable here: followers that are too far behind are offered it."""
        self.log.checkpoint = max(self.log.checkpoint, (index, term))

    def compacted(self, index: int, term: int) -> None:
        """Forget entries up to (index, term), which a durable checkpoint covers."""
        assert index <= self.applied, "only applied entries are compacted"
        self.log.compact(index, term)
        self.members.compact(index)

    def entered(self, now_ms: int, term: int) -> None:
        """An entry of `term` is committed somewhere, so that term began: be in it, before its checkpoint is taken over.
        Whoever was not in it yet has not voted in it either."""
        if self.term < term <= TERM_MAX:
            become_follower(self, now_ms, term, NOBODY)

    def snapshot_installed(self, index: int, term: int, config: Config | None = None) -> bool:
        """An installed checkpoint at (index, term), with its configuration, is durable here. None: that of the
        group's beginning, since no entry up to `index` brought one. False: the core is past it; do not use it."""
        return following.snapshot_installed(self, index, term, config)

    def skip_to(self, index: int) -> None:
        """The state machine holds a checkpoint at `index` that `snapshot_installed` found the core to be past."""
        output.skip_to(self, index)

    # Out.

    def has_ready(self) -> bool:
        """Is there anything to take?"""
        return output.has_ready(self)

    def ready(self) -> Ready:
        """Take everything since the last one."""
        return output.take(self)

    def take_grants(self) -> list[ReadGrant]:
        """Take the confirmed reads alone, ahead of the next `Ready`: nothing else in it bears on them, since a reader
        waits for its index to be applied anyway."""
        return output.take_grants(self)

    def progress(self) -> dict[int, ProgressView]:
        """While leading: where each other voter stands."""
        return {peer: progress.view() for peer, progress in self.progresses.items()}

    def status(self) -> Status:
        """A copy for people."""
        return Status(
            role=self.role,
            term=self.term,
            leader=self.leader,
            vote=self.vote,
            commit=self.commit,
            applied=self.applied,
            first_index=self.first_index,
            last_index=self.last_index,
            stable_index=self.log.stable,
            checkpoint_index=self.log.checkpoint[0],
            transfer_target=self.transfer_target,
            suspended=bool(self.suspended),
            reads=len(self.reads),
            config=self.config,
            progress=self.progress(),
        )


_HANDLERS = (
    election.on_vote_request,
    election.on_pre_vote_reply,
    election.on_vote_request,
    election.on_vote_reply,
    following.on_append,
    replication.on_append_reply,
    following.on_heartbeat,
    replication.on_heartbeat_reply,
    following.on_snapshot,
    None,
    election.on_timeout_now,
)
