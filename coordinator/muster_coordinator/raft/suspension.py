"""A voter that lost what it had promised: it stands aside until a leader has made good for it (raft rules 11, 31).

Problem: damage may take the end of a voter's log, and with it acknowledged entries, its term and its vote. A voter that
then votes, acknowledges or confirms a leader as if nothing were lost makes one promise twice: two leaders of a term, or
a committed entry that is overwritten. To stay away for good would cost the group a voter for each flipped bit.
Mechanism: a *suspended* voter neither votes nor campaigns and accepts no heartbeat; what it acknowledges carries its
token, and a leader counts no such acknowledgement, for commits, reads or check-quorum. It is suspended from the start
by what recovery found, or when the leader of its term says how far it has acknowledged and its log ends before that.

A leader that meets a new token appends an entry (the barrier) and releases the voter once the barrier is committed, by
a quorum without it, and held by it. That is enough:
* The barrier was made after the loss. Whoever acknowledged it was in no later term then, so of any majority that the
  lost votes may have been part of, at least one member gives its vote after it holds the barrier: whoever wins with
  them holds what is committed so far.
* What the voter had acknowledged came from leaders of this term or earlier ones, since no leader of a later term was
  elected before. So all of it that was or may yet be committed lies before the barrier, and the voter holds it again.

A voter that hears of its release promises nothing before the release is stored (`release`). Else all voters of a group,
each released and counted, could lose their power at once and begin suspended: nobody could release them.

A suspended voter may restart before its loss is written down, and not know of it any more: it answers without its
token. The leader then claims to have been acknowledged more than any log holds, and the voter suspends itself under a
new one. To a voter that is suspended still (the answer was one from before its loss) that says nothing new.

A leader of a release before this one does not know of tokens: what it is not told it cannot count. So a suspended voter
acknowledges only to a leader whose messages say that it knows.
What it does not do: find a loss that no leader tells of, or write one down (the WAL does).
"""

from muster_coordinator.raft.log import OVERHEAD
from muster_coordinator.raft.messages import ACKNOWLEDGED_MAX, KNOWS_SUSPENSION, EntryKind, Message
from muster_coordinator.raft.progress import Progress
from muster_coordinator.raft.state import RaftState

_TOKEN_MAX = 1 << 62


# The voter that lost something.


def suspend(state: RaftState) -> None:
    """From now on, under a token of its own: a later loss is told from this one. What was promised and has not left
    yet is not promised any more. A release that is not stored yet was for the loss before, and comes to nothing."""
    if not state.suspended or state.release_told:
        state.suspended = state.rand.randrange(KNOWS_SUSPENSION + 1, _TOKEN_MAX)
        state.release_told = False
        state.after_persist.clear()


def release(state: RaftState) -> None:
    """It is stored that this voter is suspended no more: it promises again, if that is what its leader said last."""
    if state.release_told:
        state.suspended = 0
        state.release_told = False


def may_answer(state: RaftState, message: Message) -> bool:
    """An append or offer of the leader of this term has come: is there anything to be said to it?

    Its `hint` is what this voter has acknowledged to it, in this term. Nothing but a loss takes that back.
    """
    if message.hint > state.log.last_index:
        suspend(state)
    state.told_in_term = state.term if message.context else 0
    if state.suspended and message.context == state.suspended:
        state.release_told = True
    return may_acknowledge(state)


def may_acknowledge(state: RaftState) -> bool:
    """Can the leader of this term tell our acknowledgements from promises?"""
    return not state.suspended or state.told_in_term == state.term


# Its leader.


def counts(state: RaftState, progress: Progress, message: Message) -> bool:
    """False for an acknowledgement, or a refusal, that a suspended voter sent before it was suspended, or after it
    forgot that it is."""
    token = message.context
    if token:
        progress.forgot = False
        if token != progress.suspended:
            _learn(state, progress, token)
        return True
    if progress.suspended:
        if not progress.released:
            progress.forgot = True
            return False
        progress.suspended = progress.barrier = 0
        progress.released = False
    return True


def acknowledged(progress: Progress) -> int:
    """What to tell a voter that it has acknowledged to this leader."""
    return ACKNOWLEDGED_MAX if progress.forgot and not progress.released else progress.match


def _learn(state: RaftState, progress: Progress, token: int) -> None:
    """What it had acknowledged may be gone: where it stands is found out anew."""
    progress.suspended = token
    progress.released = False
    progress.match = 0
    progress.contact_ms = 0
    progress.barrier = state.append_own(((EntryKind.NOOP, b""),), OVERHEAD)
    progress.next = progress.barrier
    progress.probe_from_next()


def release_healed(state: RaftState) -> None:
    """Tell the suspended voters that hold their barrier, now that it is committed."""
    for progress in state.progresses.values():
        if progress.suspended and not progress.released and progress.barrier <= min(progress.match, state.commit):
            progress.released = True
            progress.paused = False
            progress.look = True
            state.send_due = True
