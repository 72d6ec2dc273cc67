"""Who a core is: the four transitions, each of which sets every volatile number that the new role relies on.

Problem: half of all Raft bugs are a number of the last role or term that survived into the next.
Mechanism: the term changes in one function, the only one that clears the vote (raft rule 4), and every change of
role draws a fresh election timeout (rule 28). Nothing here decides *when* to change (`election`, `core` do).
"""

from muster_coordinator.raft.log import OVERHEAD
from muster_coordinator.raft.messages import NOBODY, EntryKind
from muster_coordinator.raft.progress import Progress
from muster_coordinator.raft.state import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE, RaftState


def become_follower(state: RaftState, now_ms: int, term: int, leader: int) -> None:
    """Follow `leader` (or nobody yet) in `term`."""
    if term != state.term:
        _enter_term(state, term)
        state.snapshot_offer = None
    elif leader != state.leader:
        state.snapshot_offer = None
    _leave(state)
    state.role = FOLLOWER
    state.leader = leader
    arm_election(state, now_ms)


def become_pre_candidate(state: RaftState, now_ms: int) -> None:
    """Ask whether an election could be won, without touching term or vote."""
    assert state.role is not LEADER
    _leave(state)
    state.role = PRE_CANDIDATE
    state.leader = NOBODY
    state.snapshot_offer = None
    state.ballot = {state.node: True}
    arm_election(state, now_ms)


def become_candidate(state: RaftState, now_ms: int) -> None:
    """Begin a new term with the own vote.

    The own vote is in the ballot at once although it is not durable yet: the requests that can bring the votes that are
    missing leave only after it is (`Ready.after_persist`), so no majority can be counted before (raft rule 3). A
    single voter needs nobody's vote; what it then says depends on entries that are durable no earlier than the vote.
    """
    assert state.role is not LEADER
    _enter_term(state, state.term + 1)
    _leave(state)
    state.vote = state.node
    state.role = CANDIDATE
    state.leader = NOBODY
    state.snapshot_offer = None
    state.ballot = {state.node: True}
    arm_election(state, now_ms)


def become_leader(state: RaftState, now_ms: int) -> None:
    """Lead the term that was won: everybody is probed, and a no-op makes earlier entries committable (rules 1, 2)."""
    assert state.role is CANDIDATE
    _leave(state)
    state.role = LEADER
    state.leader = state.node
    state.hurried_until_ms = 0
    last = state.log.last_index
    # `match` begins at 0: what a follower acknowledged to a leader before may have been cut since.
    state.progresses = {peer: Progress(last + 1) for peer in state.peers}
    state.reads.start(state.config, state.node)
    state.quorum_since_ms = now_ms
    state.quorum_deadline_ms = now_ms + state.timing.election_min_ms
    state.heartbeat_deadline_ms = now_ms + state.timing.heartbeat_ms
    state.uncommitted_bytes = 0
    # Until the no-op is committed nothing before it can be (rule 1), and no read can be answered (rule 17).
    state.term_start_index = last + 1
    state.resigns = False
    state.asked.clear()
    state.append_own(((EntryKind.NOOP, b""),), OVERHEAD)


def arm_election(state: RaftState, now_ms: int) -> None:
    """Draw a fresh timeout, a short one while a leader is known to be gone, a long one for who should not be first."""
    timing = state.timing
    if state.hesitates:
        state.election_timeout_ms = timing.hesitation_ms + timing.election_timeout_ms(state.rand)
    elif now_ms < state.hurried_until_ms:
        state.election_timeout_ms = timing.hurried_timeout_ms(state.rand)
    else:
        state.election_timeout_ms = timing.election_timeout_ms(state.rand)
    state.election_deadline_ms = now_ms + state.election_timeout_ms


def _enter_term(state: RaftState, term: int) -> None:
    assert term > state.term, "terms only grow"
    state.term = term
    state.vote = NOBODY
    state.after_persist.clear()  # promises of an earlier term that nobody has heard yet are not made any more


def _leave(state: RaftState) -> None:
    state.ballot = {}
    if state.role is not LEADER:
        return
    state.progresses = {}
    state.lost_reads += state.reads.lost()
    state.transfer_target = NOBODY
    state.send_due = False
    state.heartbeat_due = False
