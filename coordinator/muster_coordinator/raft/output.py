"""What a core wants done, collected once a turn into a `Ready`.

Problem: disk, network and state machine work at their own pace, and a promise must not overtake what it promises.
Mechanism: the host takes a `Ready`, does its parts side by side and reports completions; nothing is handed out twice.
Committed entries are handed out only when they are durable here as well, and only as fast as they are applied
(raft rule 33).
"""

from muster_coordinator.raft import replication
from muster_coordinator.raft.messages import Entry, HardState, ReadGrant, Ready, SoftState
from muster_coordinator.raft.state import RaftState


def has_ready(state: RaftState) -> bool:
    """Would a `Ready` hold anything?"""
    log = state.log
    if state.send_due or state.messages or state.after_persist or log.offered < log.last_index:
        return True
    if state.handed < state.commit and state.handed < log.stable and _may_apply(state):
        return True
    if state.heartbeat_due or state.grants or state.lost_reads:
        return True
    soft = state.given_soft
    if soft.leader != state.leader or soft.role is not state.role or soft.term != state.term:
        return True
    hard = state.given_hard
    return hard.term != state.term or hard.vote != state.vote


def take_grants(state: RaftState) -> list[ReadGrant]:
    """The grants that the next `Ready` would hold."""
    grants, state.grants = state.grants, []
    return grants


def take(state: RaftState) -> Ready:
    """Everything since the last one."""
    if state.send_due or state.heartbeat_due:
        replication.flush(state)
    log = state.log
    entries = log.unoffered()
    given = state.given_hard
    must_sync = bool(entries) or given.term != state.term or given.vote != state.vote
    hard_state = None
    # A moved commit index alone is not worth a sync: a restart learns it from the next leader.
    if must_sync and (given.commit != state.commit or given.term != state.term or given.vote != state.vote):
        hard_state = state.given_hard = HardState(state.term, state.vote, state.commit)
    soft_state = None
    soft = state.given_soft
    if soft.leader != state.leader or soft.role is not state.role or soft.term != state.term:
        soft_state = state.given_soft = SoftState(state.role, state.term, state.leader)
    messages, state.messages = state.messages, []
    after_persist, state.after_persist = state.after_persist, []
    grants = take_grants(state)
    lost_reads, state.lost_reads = state.lost_reads, []
    return Ready(
        soft_state,
        hard_state,
        entries,
        tuple(messages),
        tuple(after_persist),
        _committed(state),
        tuple(grants),
        tuple(lost_reads),
        must_sync,
        log.era,
        log.last_index,
    )


def _may_apply(state: RaftState) -> bool:
    return state.unapplied_bytes < state.flow.unapplied_bytes_max


def _committed(state: RaftState) -> tuple[Entry, ...]:
    log = state.log
    # A majority may hold an entry before this disk does. If it were applied here first, a power loss would leave a
    # state ahead of the log that it came from.
    end = min(state.commit, log.stable)
    if state.handed >= end or not _may_apply(state):
        return ()
    entries, size = log.slice(state.handed + 1, end + 1, state.flow.apply_bytes_max)
    state.handed += len(entries)
    state.unapplied.append((state.handed, size))
    state.unapplied_bytes += size
    state.uncommitted_bytes = max(0, state.uncommitted_bytes - size)
    return entries


def skip_to(state: RaftState, index: int) -> None:
    """The state machine took everything up to `index`, which is committed, from a checkpoint."""
    assert index <= state.commit, "a checkpoint covers what is committed"
    if index > state.handed:
        state.handed = index
        state.unapplied.clear()
        state.unapplied_bytes = 0
    applied_to(state, index)


def applied_to(state: RaftState, index: int) -> None:
    """Everything up to `index` is in the state machine."""
    assert index <= state.handed, "only what was handed out can have been applied"
    if index <= state.applied:
        return
    state.applied = index
    unapplied = state.unapplied
    while unapplied and unapplied[0][0] <= index:
        state.unapplied_bytes -= unapplied.popleft()[1]
