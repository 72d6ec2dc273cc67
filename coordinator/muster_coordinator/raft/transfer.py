"""Handing leadership to a chosen follower.

Problem: a drain or a rebalance should move a leader within milliseconds, without an election timeout and without
losing a write. Mechanism (thesis 3.10; raft rule 27): refuse proposals, bring the target level with the log's end,
then tell it to campaign at once. If it has not taken over within the shortest election timeout, go on leading.

A leader that is no voter any more has to go, and its heirs are the voters that hold the configuration which says so. It
asks one of them at a time, and the next when one has not taken over in time, or its link broke: two that campaign at
once take each other's votes, and cost the group an election timeout. Proposals are refused meanwhile as in any
transfer. Otherwise no heir would be level while clients write, and nobody be told.

A leader whose disk is stuck abdicates: it leads no more from that moment on, and tells the voter that holds most of
its log to campaign. That takes nothing of its disk, and spares the group an election timeout and a split vote.

There is no transfer while a configuration is joint: the leader appends another entry when that is committed, behind
which a target that campaigns already would find no majority. It lasts as long as one commit.
"""

from muster_coordinator.raft.messages import NOBODY, MsgType
from muster_coordinator.raft.roles import become_follower
from muster_coordinator.raft.state import LEADER, RaftState


def begin(state: RaftState, now_ms: int, target: int) -> bool:
    """Start, or go on with, a transfer to `target`. False: not leader, not another voter, one to somebody else runs,
    or the configuration is joint.
    """
    if state.role is not LEADER or target not in state.config.voters or target == state.node:
        return False
    if state.config.outgoing:
        return False
    if state.progresses[target].suspended:
        return False
    if state.transfer_target == target:
        return True
    if state.transfer_target != NOBODY:
        return False
    state.transfer_target = target
    state.transfer_deadline_ms = now_ms + state.timing.election_min_ms
    hand_over_when_matched(state)
    return True


def to_an_heir(state: RaftState, now_ms: int) -> bool:
    """Start a transfer to the next heir of a leader that is no voter. False: all that could were asked before."""
    assert state.node not in state.config.voters, "who votes goes on leading"
    since = state.members.newest.at
    for voter in state.config.voters:
        if voter not in state.asked and state.progresses[voter].match >= since:
            state.asked.append(voter)
            if begin(state, now_ms, voter):
                return True
    return False


def abdicate(state: RaftState, now_ms: int) -> None:
    """Stop leading, and have the best heir campaign: of those that hold most of the log, the one that was asked to take
    over already. It may lose as anybody may; then the others' timers decide."""
    assert state.role is LEADER, "who does not lead has nothing to hand over"
    heirs = [peer for peer in state.electors if peer in state.config.voters and not state.progresses[peer].suspended]
    if heirs:
        # Two that campaign at once take each other's votes.
        heir = max(heirs, key=lambda peer: (state.progresses[peer].match, peer == state.transfer_target))
        state.send(MsgType.TIMEOUT_NOW, heir)
    become_follower(state, now_ms, state.term, NOBODY)


def ahead_of_own_disk(state: RaftState) -> int:
    """The voter that holds most of what is not durable here, while this disk is slow; NOBODY: none has any of it, so
    their disks are no faster, or nothing is to be written."""
    best, most = NOBODY, state.log.stable
    for peer in state.config.voters:
        progress = state.progresses.get(peer)
        if progress is not None and not progress.suspended and progress.match > most:
            best, most = peer, progress.match
    return best


def unreachable(state: RaftState, peer: int) -> None:
    """The link to `peer` broke: a target may not have been told, or be dead. Who has left asks its next heir, any other
    leader takes proposals again; a target that campaigns all the same wins or loses as ever."""
    if state.transfer_target == peer:
        state.transfer_target = NOBODY


def tell_that_it_stands(state: RaftState, heir: int) -> None:
    """The heir asked us for its vote, in the term that we are in now. It may be the last that it did, and nobody else
    hears of it: they would be loyal to us for an election timeout, and we lead no longer. So they learn the term as a
    deposed leader does, have no leader in it, and their votes are free."""
    for peer in state.electors:
        if peer != heir:
            state.send(MsgType.APPEND_REPLY, peer, reject=True)


def hand_over_when_matched(state: RaftState) -> None:
    """Tell the target to campaign once it holds the whole log."""
    target = state.transfer_target
    if target == NOBODY or state.progresses[target].suspended:
        return
    # Proposals are refused meanwhile, so the end of the log stands still, and a target that reaches it wins every
    # comparison of logs.
    if state.progresses[target].match == state.log.last_index:
        state.send(MsgType.TIMEOUT_NOW, target)


def abort_when_late(state: RaftState, now_ms: int) -> None:
    """Take proposals again when the target did not take over in time."""
    if state.transfer_target != NOBODY and now_ms >= state.transfer_deadline_ms:
        state.transfer_target = NOBODY
