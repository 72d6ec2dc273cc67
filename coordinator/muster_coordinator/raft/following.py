"""The follower's side: taking a leader's entries, its commit index and its checkpoints.

Problem: appends arrive late, twice, out of order, from deposed leaders, and the log here may hold a tail nobody
committed.
Mechanism: an append is taken only where it joins on; the log is cut only at the first entry that really conflicts,
never at or below the commit index (raft rules 7-9); a refusal says by (index, term) where to look next (rule 26).
Acknowledgements wait for the disk (`after_persist`); refusals promise nothing and leave at once.
"""

from muster_coordinator.errors import Corruption
from muster_coordinator.raft import change, suspension
from muster_coordinator.raft.log import entries_bytes
from muster_coordinator.raft.members import decode_config
from muster_coordinator.raft.messages import Entry, EntryKind, Message, MsgType
from muster_coordinator.raft.quorum import Config
from muster_coordinator.raft.roles import become_follower
from muster_coordinator.raft.state import FOLLOWER, LEADER, RaftState


def follow(state: RaftState, now_ms: int, leader: int) -> bool:
    """Traffic of the leader of the own term: its election timer starts anew (rule 28). False if that cannot be."""
    # There is one leader a term (section 5.2), and it is this one: the sender is not a correct voter.
    if state.role is LEADER:
        return False
    if state.role is not FOLLOWER or state.leader != leader:
        become_follower(state, now_ms, state.term, leader)
    else:
        state.election_deadline_ms = now_ms + state.election_timeout_ms
    state.leader_contact_ms = now_ms
    state.hurried_until_ms = 0
    return True


def on_append(state: RaftState, now_ms: int, message: Message) -> None:
    """APPEND in the own term."""
    if not follow(state, now_ms, message.sender) or not suspension.may_answer(state, message):
        return
    log = state.log
    previous = message.index
    entries: tuple[Entry, ...] | None = message.entries
    # What is committed agrees with every later leader (section 5.4), so a late append has nothing to say about it, and
    # the entries before `commit` may be compacted: there would be no term to compare.
    if previous < state.commit:
        _acknowledge(state, message.sender, state.commit)
        return
    # Log matching (section 5.3): two logs that agree in one entry agree in all before it.
    if log.term_at(previous) != message.log_term:
        _refuse(state, message)
        return
    if entries:
        if not _well_formed(state, message):
            return
        # The usual append joins on at the end; only another can repeat or contradict what is here.
        if previous != log.last_index:
            entries = _new_part(state, entries)
            if entries is None:
                return
        if entries:
            log.append(entries, entries_bytes(entries))
            if state.may_change:
                _note_configs(state, entries)
    last = previous + len(message.entries)
    # Not `message.commit`: behind `last` this log may hold a tail that the leader does not have (rule 9).
    commit_to(state, min(message.commit, last))
    _acknowledge(state, message.sender, last)


def _well_formed(state: RaftState, message: Message) -> bool:
    """Indexes without gaps, terms that do not fall or exceed the leader's, no kinds that this version cannot follow."""
    index = message.index
    term = message.log_term
    for entry in message.entries:
        index += 1
        if entry.index != index or entry.term < term:
            return False
        if entry.kind == EntryKind.CONF and not _is_known(state, entry):
            return False
        term = entry.term
    return term <= message.term


def _is_known(state: RaftState, entry: Entry) -> bool:
    """Can this release follow the configuration? One that takes effect elsewhere and not here would count other
    majorities, so it does not even get into the log."""
    if not state.may_change:
        return False
    try:
        decode_config(entry.data)
    except Corruption:
        return False
    return True


def _note_configs(state: RaftState, entries: tuple[Entry, ...]) -> None:
    """A configuration is in effect from the moment it stands in the log, committed or not."""
    changed = False
    for entry in entries:
        if entry.kind == EntryKind.CONF:
            state.members.append(entry.index, decode_config(entry.data))
            changed = True
    if changed:
        change.adopt(state)


def _new_part(state: RaftState, entries: tuple[Entry, ...]) -> tuple[Entry, ...] | None:
    """The entries that are not in the log; a tail in conflict with them is cut.

    None if the log was cut in this term already: since then it is a prefix of the leader's, so one of two such appends
    is not from the leader that a majority elected, and nobody here can tell which.
    """
    log = state.log
    for position, entry in enumerate(entries):
        if log.term_at(entry.index) == entry.term:
            continue
        # Cut only where a term differs. To cut at each append would drop entries that this voter has acknowledged, when
        # an old and shorter append arrives late (rule 7).
        if entry.index <= log.last_index:
            assert entry.index > state.commit, "a committed entry is never overwritten"
            if state.term <= log.era:
                return None
            log.cut(entry.index - 1, state.term)
            if state.members.cut(entry.index - 1):
                change.adopt(state)
        return entries[position:]
    return ()


def _acknowledge(state: RaftState, leader: int, index: int) -> None:
    """Promise, once durable, everything up to `index`. Of several acknowledgements in one Ready the last is enough."""
    if not suspension.may_acknowledge(state):
        return
    reply = Message(MsgType.APPEND_REPLY, state.node, leader, state.term, index, context=state.suspended)
    replies = state.after_persist
    if replies:
        last = replies[-1]
        # Both wait for the same batch, and the larger promise contains the smaller.
        if last.type == MsgType.APPEND_REPLY and last.term == state.term and last.to == leader and last.index <= index:
            replies[-1] = reply
            return
    replies.append(reply)


def _refuse(state: RaftState, message: Message) -> None:
    index, term = state.log.find_conflict_by_term(message.index, message.log_term)
    # A refusal promises nothing, so it does not wait for the disk.
    state.messages.append(
        Message(
            MsgType.APPEND_REPLY,
            state.node,
            message.sender,
            state.term,
            message.index,
            log_term=term,
            reject=True,
            hint=index,
            context=state.suspended,
        )
    )


def commit_to(state: RaftState, index: int) -> None:
    """The leader has committed up to `index`, and our log agrees with its log up to there."""
    if index > state.commit:
        assert index <= state.log.last_index, "nothing beyond the log's end is committed"
        state.commit = index


def on_heartbeat(state: RaftState, now_ms: int, message: Message) -> None:
    """HEARTBEAT in the own term."""
    accepted = heartbeat(state, now_ms, message.sender, message.commit)
    if accepted or state.suspended:
        state.send(MsgType.HEARTBEAT_REPLY, message.sender, reject=not accepted, context=message.context)


def heartbeat(state: RaftState, now_ms: int, leader: int, commit: int) -> bool:
    """The leader of the own term lives, and knows that we hold, and may commit, everything up to `commit` (rule 10).

    A `commit` above our end means that this replica lost what it had promised. False: it counts for nothing.
    """
    if not follow(state, now_ms, leader):
        return False
    # A heartbeat names no more than this voter has acknowledged to this leader (rule 10).
    if commit > state.log.last_index:
        suspension.suspend(state)
    else:
        commit_to(state, commit)
    return not state.suspended


def on_snapshot(state: RaftState, now_ms: int, message: Message) -> None:
    """The leader has compacted what we need and offers its checkpoint at (index, log_term)."""
    if not follow(state, now_ms, message.sender) or not suspension.may_answer(state, message):
        return
    index, term = message.index, message.log_term
    if index <= state.commit:
        _acknowledge(state, message.sender, state.commit)
    elif state.log.term_at(index) == term:
        # The log holds the last entry that the checkpoint covers, so it holds all of them: nothing need be fetched.
        commit_to(state, index)
        _acknowledge(state, message.sender, index)
    else:
        state.snapshot_offer = (message.sender, index, term)


def snapshot_installed(state: RaftState, index: int, term: int, config: Config | None) -> bool:
    """A checkpoint at (index, term), with the configuration that it carries, is durable here. False when the core is
    past it already: it must not be used.

    The entries behind it stay if the log holds (index, term); otherwise the whole log is discarded (rules 22, 23).
    """
    if state.snapshot_offer is not None and state.snapshot_offer[1] <= index:
        state.snapshot_offer = None
    if index <= state.commit:
        return False
    log = state.log
    # Elected while the files were put in place: what a checkpoint covers is committed, also if the core cannot know.
    assert state.role is not LEADER or log.term_at(index) == term, "a leader holds every committed entry"
    if log.term_at(index) == term:
        log.covered(index, term)
        state.members.compact(index)
    else:
        log.restart_at(index, term, state.term)
        state.members.restart_at(index, config)
        change.adopt(state)
    state.commit = state.handed = state.applied = index
    state.unapplied.clear()
    state.unapplied_bytes = 0
    if state.role is FOLLOWER and state.leader >= 0:
        _acknowledge(state, state.leader, index)
    return True
