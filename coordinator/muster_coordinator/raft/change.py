"""Changing the members of a group, by joint consensus (raft rules 12, 19, 20).

Problem: between two configurations there must be no moment in which two disjoint majorities could each elect or commit.
Mechanism: a change of one voter, or of learners alone, is one entry: majorities of both configurations overlap anyway.
Any other change appends a joint configuration first, and when that is committed its leader, whoever leads by then,
appends the one that follows from it. One change at a time, and none before the leader has committed an entry of its own
term: without that, two leaders could each change a configuration that the other does not know of (rule 19).

A leader that is not a voter of the new configuration goes on, without counting itself, until that is committed. Then it
hands leadership over to one of the voters (`raft.transfer`), and steps down if none takes it. A member that was removed
gets no more entries, so it may not hear of its removal and ask for votes: nobody grants one who hears a leader, or
whose log is longer. Its host learns of the removal from the controller's image.

What it does not do: wait until a learner has caught up, or choose members: whoever asks for a change does.
"""

from collections.abc import Sequence

from muster_coordinator.ids import LogIndex
from muster_coordinator.raft.log import OVERHEAD
from muster_coordinator.raft.members import encode_config, is_sound
from muster_coordinator.raft.messages import NOBODY, EntryKind, Refused
from muster_coordinator.raft.progress import Progress
from muster_coordinator.raft.quorum import Config
from muster_coordinator.raft.state import LEADER, RaftState


def begin(state: RaftState, voters: Sequence[int], learners: Sequence[int]) -> LogIndex | Refused:
    """See `RaftCore.change_members`."""
    if state.role is not LEADER:
        return Refused.NOT_LEADER
    if not state.may_change:
        return Refused.UNSUPPORTED
    if state.transfer_target != NOBODY or state.resigns:
        return Refused.TRANSFERRING
    present = state.config
    if not state.committed_in_term or state.members.newest.at > state.commit:
        return Refused.CHANGING
    assert not present.outgoing, "a joint configuration is left in the very step that commits it"
    wanted = Config(tuple(voters), (), tuple(learners))
    assert is_sound(wanted), "some voters, each member named once, not too many"
    if len(set(present.voters) ^ set(wanted.voters)) > 1:
        wanted = wanted._replace(outgoing=present.voters)
    elif _same(wanted, present):
        return LogIndex(state.members.newest.at)
    return LogIndex(_append(state, wanted))


def _same(one: Config, other: Config) -> bool:
    return set(one.voters) == set(other.voters) and set(one.learners) == set(other.learners)


def _append(state: RaftState, config: Config) -> int:
    data = encode_config(config)
    index = state.append_own(((EntryKind.CONF, data),), OVERHEAD + len(data))
    state.members.append(index, config)
    adopt(state)
    return index


def settle(state: RaftState) -> None:
    """The leader's commit index moved, and its configuration is one to be left: a joint one, or one without itself."""
    if state.members.newest.at > state.commit:
        return
    config = state.config
    if config.outgoing:
        # Only here is the joint configuration left, by whoever leads: a leader that dies before leaves it to the next.
        _append(state, config._replace(outgoing=()))
    else:
        state.resigns = True


def _newcomer(state: RaftState) -> Progress:
    """It is probed from the end of the log, like everybody at the beginning of a term; at once, as there may be no
    other reason to send it anything."""
    progress = Progress(state.log.last_index + 1)
    progress.look = True
    state.send_due = True
    return progress


def adopt(state: RaftState) -> None:
    """Another configuration is in effect: everything that depends on one follows it."""
    config = state.members.newest.config
    state.take_config(config)
    if state.role is not LEADER:
        return
    before = state.progresses
    state.progresses = {peer: before.get(peer) or _newcomer(state) for peer in state.peers}
    for elector in state.electors:
        state.progresses[elector].throttled = False  # what is acknowledged may wait for it from now on
    state.reads.reconfigured(config)
    # With fewer voters a read may be confirmed by now, and nobody else would have to say anything any more.
    if state.commit >= state.term_start_index:
        state.grants += state.reads.granted()
