"""Campaigns, votes, and what makes a follower want one.

Problem: a new leader within a second of the old one's death, and none while it lives, whatever a returning or half
cut-off node believes.
Mechanism: pre-vote (no term moves until a majority would vote), loyalty (a voter that hears a leader ignores candidates
that the leader has not sent itself; raft rule 14), and the lost link as the usual sign of a leader's death
(decision 17): after it followers campaign within `link_stagger_ms` and retry quickly for one election timeout. A one-
sided loss costs pre-votes only.

A voter that `hesitates` (its host is short of disk) waits longer before each campaign, also after a lost link, so that
any other that can win has tried before; it never stays away: it may be the only one that can win.

Answers are counted by the state that asked (rule 15), and a pre-vote's grant names the term it was asked for.
"""

from muster_coordinator.raft import quorum
from muster_coordinator.raft.messages import NOBODY, Message, MsgType
from muster_coordinator.raft.quorum import VoteResult
from muster_coordinator.raft.roles import (
    arm_election,
    become_candidate,
    become_follower,
    become_leader,
    become_pre_candidate,
)
from muster_coordinator.raft.state import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE, RaftState

FORCED = 1
"""`Message.context` of a vote request that the leader itself asked for (leadership transfer)."""


def campaign(state: RaftState, now_ms: int) -> None:
    """Start with a pre-vote; a leader ignores it."""
    if state.role is LEADER:
        return
    # Try again later: the reason may go away without any message of Raft.
    if not state.may_lead or state.suspended or not state.is_voter:
        arm_election(state, now_ms)
        return
    become_pre_candidate(state, now_ms)
    # The only voter of its group has nobody to ask.
    if _tally(state) is VoteResult.WON:
        _stand(state, now_ms)
        return
    log = state.log
    for peer in state.electors:
        state.messages.append(
            Message(MsgType.PRE_VOTE, state.node, peer, state.term + 1, index=log.last_index, log_term=log.last_term)
        )


def _stand(state: RaftState, now_ms: int, called_by: int = NOBODY) -> None:
    """Ask for votes in a new term, by the will of the leader `called_by` if there is one."""
    become_candidate(state, now_ms)
    if _tally(state) is VoteResult.WON:
        become_leader(state, now_ms)
        return
    log = state.log
    asked = state.electors
    # A leader that has left the group has no vote here, and hears of its successor by nothing else so soon.
    if called_by != NOBODY and called_by not in asked:
        asked = (*asked, called_by)
    for peer in asked:
        state.after_persist.append(
            Message(
                MsgType.VOTE,
                state.node,
                peer,
                state.term,
                index=log.last_index,
                log_term=log.last_term,
                context=0 if called_by == NOBODY else FORCED,
            )
        )


def _tally(state: RaftState) -> VoteResult:
    return quorum.vote_result(state.config, state.ballot)


def loyal(state: RaftState, now_ms: int, contact_ms: int) -> bool:
    """Does this voter have a leader that it heard within the shortest election timeout? A leader is its own."""
    # A leader that lost its quorum finds that out by itself, within an election timeout.
    if state.role is LEADER:
        return True
    if state.leader == NOBODY:
        return False
    return now_ms - max(state.leader_contact_ms, contact_ms) < state.timing.election_min_ms


def on_vote_request(state: RaftState, now_ms: int, message: Message) -> None:
    """VOTE in the own term, or PRE_VOTE in the own or a later one (which changes nothing here, rule 13).

    Who is no voter by the own log is answered all the same, and a learner votes: the configuration that makes it a
    voter may be known to the candidate only (rule 21). Whose answers count is the candidate's to say.
    """
    pre_vote = message.type == MsgType.PRE_VOTE
    sender = message.sender
    # Invariant: one vote a term (section 5.2). Who has a leader in this term has seen its election: another cannot win.
    # A pre-vote for a later term takes no vote, so neither stands in its way.
    free = (
        state.vote == sender
        or (state.vote == NOBODY and state.leader == NOBODY)
        or (pre_vote and message.term > state.term)
    )
    reply = MsgType.PRE_VOTE_REPLY if pre_vote else MsgType.VOTE_REPLY
    # The election restriction (section 5.4.1): a log that lacks a committed entry finds no majority that votes for it.
    if state.suspended or not (free and state.log.up_to_date(message.index, message.log_term)):
        state.send(reply, sender, reject=True)
        return
    # The term that was asked about, not ours, so that the grant counts for that pre-vote only (rule 15).
    grant = Message(reply, state.node, sender, message.term)
    if pre_vote:
        state.messages.append(grant)
        return
    # A vote is a promise: it leaves only when it is durable (rule 3).
    state.vote = sender
    state.election_deadline_ms = now_ms + state.election_timeout_ms
    state.after_persist.append(grant)


def on_pre_vote_reply(state: RaftState, now_ms: int, message: Message) -> None:
    """An answer to the pre-vote of this state and term, or an old one, which counts for nothing."""
    if state.role is not PRE_CANDIDATE:
        return
    # A grant of an earlier pre-vote, which was about another term.
    if not message.reject and message.term != state.term + 1:
        return
    state.ballot.setdefault(message.sender, not message.reject)
    result = _tally(state)
    if result is VoteResult.WON:
        _stand(state, now_ms)
    elif result is VoteResult.LOST:
        become_follower(state, now_ms, state.term, NOBODY)


def on_vote_reply(state: RaftState, now_ms: int, message: Message) -> None:
    """An answer in the own term."""
    if state.role is not CANDIDATE:
        return
    # A voter counts once, by what it said first: an answer may arrive twice.
    state.ballot.setdefault(message.sender, not message.reject)
    result = _tally(state)
    if result is VoteResult.WON:
        become_leader(state, now_ms)
    elif result is VoteResult.LOST:
        become_follower(state, now_ms, state.term, NOBODY)


def on_timeout_now(state: RaftState, now_ms: int, message: Message) -> None:
    """The leader wants this follower to take over: no pre-vote, and voters are told not to be loyal (rule 27)."""
    if not state.may_lead or state.suspended or not state.is_voter:
        return
    # A leader that was deposed in the meantime asked in an earlier term, and `step` dropped that.
    if state.role is FOLLOWER and state.leader in (message.sender, NOBODY):
        _stand(state, now_ms, message.sender)


def leader_lost(state: RaftState, now_ms: int, peer: int) -> None:
    """The link to `peer` is gone for good: if it led us, nobody does, and we campaign after a random
    delay of at most `link_stagger_ms` (jitter, so that two followers rarely campaign at once)."""
    if state.role is not FOLLOWER or state.leader != peer:
        _ballot_lost(state, now_ms, peer)
        return
    state.leader = NOBODY
    state.snapshot_offer = None
    if state.hesitates:
        arm_election(state, now_ms)
        return
    state.hurried_until_ms = now_ms + state.timing.election_min_ms
    state.election_deadline_ms = now_ms + state.rand.randrange(0, state.timing.link_stagger_ms + 1)


def _ballot_lost(state: RaftState, now_ms: int, peer: int) -> None:
    """An election is under way that may fail without `peer`: one of ours which it might have voted in, or its own, with
    our vote or before it asked for that. So it was when a leader died just as it handed over, or its heir did. There is
    no leader to be loyal to, so the next round comes soon, after a pause in which this one can still be won."""
    votes = peer in state.electors
    ours = state.role is CANDIDATE and votes
    its = state.role is FOLLOWER and state.leader == NOBODY and (state.vote == peer or (state.vote == NOBODY and votes))
    if (ours or its) and not state.hesitates:
        state.hurried_until_ms = now_ms + state.timing.election_min_ms
        arm_election(state, now_ms)
