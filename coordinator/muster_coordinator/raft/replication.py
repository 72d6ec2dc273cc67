"""The leader's side of the log: what to send to whom, what an answer means, and when an entry is committed.

Problem: followers in step should see entries before the leader's own sync, followers that are not must be found their
place in few round trips, and only the count of a quorum for an entry of the *current* term commits anything.
Mechanism: proposals only mark that something is due; `flush` builds the appends once a turn, when the host takes the
`Ready`, so that a turn's proposals share one message a follower. Answers move `Progress`; `advance_commit` takes the
quorum's median (raft rule 1).

The own acknowledgement is `log.stable`, so a leader counts itself only after its own sync (rule 6).
"""

from collections.abc import Mapping

from muster_coordinator.raft import change, suspension, transfer
from muster_coordinator.raft.limits import COLD_APPEND_BYTES_MAX
from muster_coordinator.raft.messages import KNOWS_SUSPENSION, Message, MsgType
from muster_coordinator.raft.progress import PROBE, REPLICATE, SNAPSHOT, Progress
from muster_coordinator.raft.quorum import UNBOUNDED, committed, highest_common
from muster_coordinator.raft.state import LEADER, RaftState


def flush(state: RaftState) -> None:
    """Queue every append and heartbeat that is due."""
    state.send_due = False
    for peer, progress in state.progresses.items():
        _send_appends(state, peer, progress)
    if state.heartbeat_due:
        state.heartbeat_due = False
        state.round += 1
        for peer, progress in state.progresses.items():
            state.messages.append(
                Message(
                    MsgType.HEARTBEAT,
                    state.node,
                    peer,
                    state.term,
                    # Behind `match` the follower's log may differ from ours, and it would commit what it holds there
                    # (rule 10).
                    commit=min(progress.match, state.commit),
                    context=state.round,
                )
            )


def _send_appends(state: RaftState, peer: int, progress: Progress) -> None:
    last = state.log.last_index
    if progress.state is REPLICATE:
        while progress.next <= last and not progress.full(state.flow):
            # One read of the disk a turn: the loop serves other groups as well.
            cold = progress.next < state.log.cache_first
            _send_append(state, peer, progress, with_entries=True)
            progress.look = False
            if cold or progress.state is not REPLICATE:
                break
        if progress.look:
            _send_append(state, peer, progress, with_entries=False)
    elif progress.state is PROBE and not progress.paused and (progress.look or progress.next <= last):
        _send_append(state, peer, progress, with_entries=progress.next <= last and not progress.throttled)
    progress.look = False


def _send_append(state: RaftState, peer: int, progress: Progress, *, with_entries: bool) -> None:
    log = state.log
    previous = progress.next - 1
    previous_term = log.term_at(previous)
    # Compacted: without the term before it no append can be checked by the follower.
    if previous_term is None:
        _offer_checkpoint(state, peer, progress)
        return
    if with_entries:
        most = state.flow.append_bytes_max
        if progress.next < log.cache_first:
            most = min(most, COLD_APPEND_BYTES_MAX)
        entries, size = log.slice(progress.next, log.last_index + 1, most)
    else:
        entries, size = (), 0
    state.messages.append(
        Message(
            MsgType.APPEND,
            state.node,
            peer,
            state.term,
            previous,
            previous_term,
            state.commit,
            entries,
            hint=suspension.acknowledged(progress),
            context=progress.suspended if progress.released else KNOWS_SUSPENSION,
        )
    )
    progress.sent(previous + len(entries), size)


def _offer_checkpoint(state: RaftState, peer: int, progress: Progress) -> None:
    """The follower needs entries that are compacted: it must fetch the newest checkpoint first."""
    index, term = state.log.checkpoint
    state.messages.append(
        Message(
            MsgType.SNAPSHOT,
            state.node,
            peer,
            state.term,
            index=index,
            log_term=term,
            commit=state.commit,
            hint=suspension.acknowledged(progress),
            context=KNOWS_SUSPENSION,
        )
    )
    progress.snapshot(progress.contact_ms)


def on_append_reply(state: RaftState, now_ms: int, message: Message) -> None:
    """A follower acknowledged or refused an append (or installed a checkpoint)."""
    if state.role is not LEADER:
        return
    progress = state.progresses.get(message.sender)
    if progress is None:  # removed meanwhile
        return
    if not suspension.counts(state, progress, message):
        return
    progress.contact_ms = now_ms
    if message.reject:
        _on_refusal(state, progress, message)
        return
    log = state.log
    index = message.index
    # Nobody can hold what the leader of its term has not appended: the sender is not a correct voter.
    if index > log.last_index:
        return
    moved = progress.acknowledged(index)
    if (progress.state is PROBE and index == progress.match) or (
        progress.state is SNAPSHOT and progress.match >= log.compacted_index
    ):
        progress.replicate()
    if progress.next <= log.last_index:
        state.send_due = True
    if moved:
        if progress.suspended:
            suspension.release_healed(state)
        elif index > state.commit:
            advance_commit(state)
        if message.sender == state.transfer_target:
            transfer.hand_over_when_matched(state)


def _on_refusal(state: RaftState, progress: Progress, message: Message) -> None:
    hint = message.hint
    # From both sides: the follower skipped its entries of terms too late, the leader skips its own (rule 26).
    if message.log_term > 0:
        hint, _ = state.log.find_conflict_by_term(hint, message.log_term)
    if progress.refused(message.index, hint):
        progress.look = True
        state.send_due = True


def on_heartbeat_reply(state: RaftState, now_ms: int, message: Message) -> None:
    """A follower accepted a heartbeat of ours. A round that was not begun yet is not confirmed by anybody."""
    if message.reject:
        not_accepted(state, now_ms, message.sender)
    else:
        heard(state, now_ms, message.sender, min(message.context, state.round))


def not_accepted(state: RaftState, now_ms: int, peer: int) -> None:
    """`peer` is in our term and does not accept our heartbeats: it may be suspended, which only an answer to an append
    says. It is no proof of anything, so it counts for nothing."""
    progress = state.progresses.get(peer)
    if state.role is LEADER and progress is not None:
        _look_again(state, now_ms, peer, progress)


def _look_again(state: RaftState, now_ms: int, peer: int, progress: Progress) -> None:
    progress.paused = False
    if progress.state is not SNAPSHOT:
        progress.look = True
        state.send_due = True
    elif now_ms - progress.offered_ms >= state.timing.election_min_ms:
        _offer_checkpoint(state, peer, progress)


def heard(state: RaftState, at_ms: int, peer: int, round_no: int) -> None:
    """`peer` accepted our leadership in round `round_no` of heartbeats, at `at_ms` or later.

    That is proof of life, confirms reads, and is a reason to look again where it stands: something may be lost
    (rule 25).
    """
    if state.role is not LEADER:
        return
    progress = state.progresses.get(peer)
    if progress is None:
        return
    if progress.suspended:
        _look_again(state, at_ms, peer, progress)
        return
    # `at_ms` is when the question left. A late answer must not make a contact later than it was (rule 18).
    progress.contact_ms = max(progress.contact_ms, at_ms)
    progress.paused = False
    if progress.state is not REPLICATE or progress.match < state.log.last_index:
        _look_again(state, at_ms, peer, progress)
    if state.reads:
        state.reads.reached(state.config, peer, round_no)
        grant_reads(state)


def advance_commit(state: RaftState) -> None:
    """Commit what a quorum holds, if its newest entry is of this term."""
    log = state.log
    progresses = state.progresses
    if not state.is_plain:
        reached = {peer: 0 if progress.suspended else progress.match for peer, progress in progresses.items()}
        reached[state.node] = log.stable
        index = committed(state.config, reached)
    else:
        matches = [0 if progress.suspended else progress.match for progress in progresses.values()]
        matches.append(log.stable)
        index = highest_common(matches)
    # An entry of an earlier term is never committed by counting: it may be on a majority and still be overwritten by a
    # leader that a later term elects (section 5.4.2, figure 8). It is committed with the first entry of this term.
    if index <= state.commit or index < state.term_start_index:
        return
    assert index <= log.last_index, "nothing beyond the log's end is committed"
    state.commit = index
    suspension.release_healed(state)
    if state.reads:
        grant_reads(state)
    if state.unsettled:
        change.settle(state)


def grant_reads(state: RaftState) -> None:
    """Release the reads whose round is confirmed, once an entry of the term is committed."""
    if state.commit >= state.term_start_index:
        state.grants += state.reads.granted()


def unreachable(state: RaftState, peer: int) -> None:
    """The link to `peer` broke: what was on its way may be lost."""
    transfer.unreachable(state, peer)
    progress = state.progresses.get(peer)
    # In PROBE one append at most is lost, and the follower's next sign of life asks again.
    if progress is not None and progress.state is not PROBE:
        progress.probe()
        state.send_due = True


def quorum_contact_ms(state: RaftState, contact: Mapping[int, int]) -> int:
    """The latest time since which a quorum has shown life; what the host knows beyond the core is in `contact`."""
    times = {
        peer: 0 if progress.suspended else max(progress.contact_ms, contact.get(peer, 0))
        for peer, progress in state.progresses.items()
    }
    times[state.node] = UNBOUNDED
    return committed(state.config, times)
