"""Handing leadership to a chosen follower.

Problem: a drain or a rebalance should move a leader within milliseconds, without an election timeout and without
losing a write. Mechanism (thesis 3.10; raft rule 27): refuse proposals, bring the target level with the log's end,
then tell it to campaign at once. If it has not taken over within the shortest election timeout, go on leading.
"""

from muster_coordinator.raft.messages import NOBODY, MsgType
from muster_coordinator.raft.state import LEADER, RaftState


def begin(state: RaftState, now_ms: int, target: int) -> bool:
    """Start, or go on with, a transfer to `target`. False: not leader, not another voter, or one to somebody else
    runs.
    """
    if state.role is not LEADER or target not in state.config.voters or target == state.node:
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
