"""The rules that Raft implementations are known to break, one by one, numbered as on docs/raft-rules.md.

Longer than other files, because it is a list that is looked up by number: the page, and the mutants that must fail
here, name its tests rule by rule, and parts by size would only have to be searched one after the other.
"""

import pytest
from muster_coordinator.raft.limits import COLD_APPEND_BYTES_MAX
from muster_coordinator.raft.log import OVERHEAD, entries_bytes
from muster_coordinator.raft.members import encode_config
from muster_coordinator.raft.messages import NOBODY, EntryKind, HardState, Message, MsgType, Refused, Role
from muster_coordinator.raft.progress import ProgressState
from muster_coordinator.raft.quorum import Config
from muster_coordinator.raft.timing import FLOW

from tests.made_settings import TIMING
from tests.raft.making import (
    NOW,
    acknowledge,
    append,
    entries,
    kinds,
    log_terms,
    make_core,
    make_leader,
    persist,
    settle,
    vote_request,
)

WORD = ((EntryKind.NORMAL, b"word"),)


def test_rule_01_only_entries_of_the_current_term_are_committed_by_counting() -> None:
    core = make_leader((1, 1), commit_noop=False, size=5)
    settle(core)
    acknowledge(core, 2, 2)
    acknowledge(core, 3, 2)
    assert core.commit == 0  # (2, term 1) is on three of five, the term is 2
    acknowledge(core, 2, 3)
    acknowledge(core, 3, 3)
    assert core.commit == 3


def test_rule_02_a_term_begins_with_a_no_op() -> None:
    core = make_leader((1,), commit_noop=False)
    (noop,) = core.ready().entries
    assert (noop.term, noop.index, noop.kind) == (2, 2, EntryKind.NOOP)
    assert core.term_start_index == 2


def test_rule_03_a_vote_leaves_only_after_it_is_durable() -> None:
    core = make_core((1,))
    vote_request(core, term=2, last=(1, 1))
    ready = core.ready()
    assert ready.messages == ()
    assert kinds(ready.after_persist) == [MsgType.VOTE_REPLY]
    assert (ready.hard_state, ready.must_sync) == (HardState(2, 2, 0), True)


def test_rule_03_a_candidate_asks_only_after_its_own_vote_is_durable() -> None:
    core = make_core((1,))
    core.campaign(NOW)
    core.ready()
    core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, 2, 1, 2))
    ready = core.ready()
    assert ready.messages == ()
    assert kinds(ready.after_persist) == [MsgType.VOTE, MsgType.VOTE]
    assert ready.hard_state == HardState(2, 1, 0)


def test_rule_03_a_vote_goes_to_a_log_with_a_later_last_term_or_else_a_longer_one() -> None:
    for last, granted in (((9, 1), False), ((1, 2), False), ((2, 2), True), ((1, 3), True)):
        core = make_core((1, 2))
        vote_request(core, term=4, last=last)
        assert (core.vote == 2) is granted, last


def test_rule_04_a_new_term_clears_the_vote_and_stepping_down_within_it_does_not() -> None:
    core = make_core((1,), term=3, vote=2)
    append(core, (1, 1), (), sender=3, term=3)
    assert (core.term, core.vote) == (3, 2)
    vote_request(core, sender=3, term=3, last=(9, 3))
    assert core.vote == 2
    append(core, (1, 1), (), sender=3, term=4)
    assert (core.term, core.vote) == (4, NOBODY)


def test_rule_04_a_candidate_that_follows_a_winner_keeps_its_vote_for_itself() -> None:
    core = make_core((1,))
    core.campaign(NOW)
    core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, 2, 1, 2))
    append(core, (1, 1), (), sender=3, term=2)
    assert (core.role, core.vote) == (Role.FOLLOWER, 1)


def test_rule_05_term_and_entries_of_one_turn_are_one_batch() -> None:
    core = make_core((1,))
    append(core, (1, 1), (4, 4), term=4)
    ready = core.ready()
    assert ready.hard_state == HardState(4, NOBODY, 0)
    assert [entry.index for entry in ready.entries] == [2, 3]


def test_rule_06_an_append_is_acknowledged_after_the_write_and_the_leader_counts_itself_after_its_own() -> None:
    follower = make_core((1,))
    append(follower, (1, 1), (1,))
    ready = follower.ready()
    assert ready.messages == ()
    assert kinds(ready.after_persist) == [MsgType.APPEND_REPLY]

    leader = make_leader()
    leader.propose(NOW, WORD)
    ready = leader.ready()
    acknowledge(leader, 2)
    assert leader.commit == 1
    leader.persisted(ready.persist_term, ready.persist_index)
    assert leader.commit == 2


def test_rule_06_a_quorum_of_followers_commits_without_the_leaders_disk_but_is_applied_after_it() -> None:
    leader = make_leader()
    leader.propose(NOW, WORD)
    ready = leader.ready()
    acknowledge(leader, 2)
    acknowledge(leader, 3)
    assert leader.commit == 2
    assert leader.ready().committed == ()
    leader.persisted(ready.persist_term, ready.persist_index)
    assert [entry.index for entry in leader.ready().committed] == [2]


def test_rule_06_a_single_voter_does_not_commit_before_its_disk() -> None:
    core = make_leader(size=1)
    core.propose(NOW, WORD)
    ready = core.ready()
    assert core.commit == 1
    core.persisted(ready.persist_term, ready.persist_index)
    assert core.commit == 2


def test_rule_07_only_what_conflicts_is_cut() -> None:
    core = make_core((1, 1, 1, 1))
    append(core, (1, 1), (1, 1))  # repeated
    assert core.last_index == 4
    append(core, (1, 1), (1,))  # older than the repeated one
    assert core.last_index == 4
    assert core.ready().entries == ()
    append(core, (2, 1), (2, 2), term=2)
    assert log_terms(core) == [1, 1, 2, 2]
    assert [entry.index for entry in core.ready().entries] == [3, 4]


def test_rule_07_nothing_at_or_below_the_commit_index_is_ever_replaced() -> None:
    core = make_core((1, 1, 1), commit=2)
    append(core, (1, 1), (2, 2), term=2)  # a leader without a committed entry: no correct one
    assert log_terms(core) == [1, 1, 1]
    assert core.ready().after_persist[0].index == 2


def test_rule_08_an_append_from_before_the_commit_index_is_answered_with_it() -> None:
    core = make_core((1, 1, 1), commit=3)
    append(core, (1, 1), (1, 1, 1, 1), commit=9)
    (reply,) = core.ready().after_persist
    assert (reply.index, reply.reject) == (3, False)
    assert (core.last_index, core.commit) == (3, 3)


def test_rule_09_a_follower_commits_no_further_than_the_append_reaches() -> None:
    core = make_core((1, 1, 1, 1))  # 3 and 4 may be a dead tail
    append(core, (1, 1), (1,), commit=4)
    assert core.commit == 2


def test_rule_10_heartbeats_carry_no_more_than_the_follower_is_known_to_hold() -> None:
    leader = make_leader(own_heartbeats=False)
    leader.propose(NOW, WORD)
    settle(leader)
    acknowledge(leader, 2)
    assert leader.commit == 2
    assert (leader.heartbeat_commit(2), leader.heartbeat_commit(3)) == (2, 1)

    leader = make_leader()
    leader.propose(NOW, WORD)
    settle(leader)
    acknowledge(leader, 2)
    leader.advance(NOW + TIMING.heartbeat_ms)
    heartbeats = {m.to: m.commit for m in leader.ready().messages if m.type == MsgType.HEARTBEAT}
    assert heartbeats == {2: 2, 3: 1}


def test_rule_10_a_heartbeat_beyond_the_own_log_is_not_followed() -> None:
    core = make_core((1, 1), own_heartbeats=False)
    assert not core.heartbeat(NOW, 2, 1, 7)
    assert core.commit == 0
    assert core.suspended


def test_rule_11_answers_of_an_earlier_term_count_for_nothing_and_match_never_falls() -> None:
    leader = make_leader((1, 1))
    leader.propose(NOW, WORD)
    settle(leader)
    leader.step(NOW, Message(MsgType.APPEND_REPLY, 2, 1, leader.term - 1, index=4))
    assert leader.progress()[2].match == 3
    acknowledge(leader, 2, 4)
    acknowledge(leader, 2, 1)
    assert leader.progress()[2].match == 4


def test_rule_11_one_voter_counts_once() -> None:
    core = make_core((1,), size=5)
    core.campaign(NOW)
    for _ in range(3):
        core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, 2, 1, 2))
    assert core.role is Role.PRE_CANDIDATE
    core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, 3, 1, 2))
    settle(core)
    for _ in range(3):
        core.step(NOW, Message(MsgType.VOTE_REPLY, 2, 1, 2))
    assert core.role is Role.CANDIDATE


def test_rule_11_strangers_and_other_recipients_are_not_heard() -> None:
    core = make_core((1,))
    core.step(NOW, Message(MsgType.APPEND, 9, 1, 7))
    core.step(NOW, Message(MsgType.APPEND, 2, 3, 7))
    core.step(NOW, Message(99, 2, 1, 7))
    core.step(NOW, Message(-1, 2, 1, 7))
    core.step(NOW, Message(9, 2, 1, 1))
    core.step(NOW, Message(MsgType.APPEND, 2, 1, 2**31))
    assert not core.heartbeat(NOW, 9, 7, 0)
    assert not core.heartbeat(NOW, 2, 2**31, 0)
    core.heartbeat_rejected(NOW, 9, 7)
    assert core.term == 1
    assert not core.has_ready()


def test_rule_13_a_pre_vote_changes_nothing_and_is_granted_with_the_future_term() -> None:
    core = make_core((1,), vote=3)
    vote_request(core, pre=True, term=2, last=(1, 1))
    ready = core.ready()
    assert (ready.hard_state, ready.soft_state) == (None, None)
    (reply,) = ready.messages
    assert (reply.term, reply.reject) == (2, False)
    assert (core.term, core.vote) == (1, 3)


def test_rule_13_a_refused_pre_vote_carries_the_local_term_and_a_late_one_is_answered() -> None:
    core = make_core((1, 5))
    vote_request(core, pre=True, term=6, last=(9, 4))
    vote_request(core, pre=True, term=3, last=(9, 2))
    replies = core.ready().messages
    assert [(reply.term, reply.reject) for reply in replies] == [(5, True), (5, True)]


def test_rule_13_a_pre_candidate_learns_the_term_from_a_refusal() -> None:
    core = make_core((1,))
    core.campaign(NOW)
    core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, 2, 1, 5, reject=True))
    assert (core.term, core.role) == (5, Role.FOLLOWER)


@pytest.mark.parametrize("pre", [True, False])
def test_rule_14_a_voter_that_hears_its_leader_ignores_candidates(pre: bool) -> None:
    core = make_core((1,))
    append(core, (1, 1), ())
    settle(core)
    vote_request(core, sender=3, pre=pre, term=2, last=(9, 1))
    assert (core.term, core.leader, core.has_ready()) == (1, 2, False)


def test_rule_14_heartbeats_of_the_host_make_a_voter_loyal_too() -> None:
    core = make_core((1,), own_heartbeats=False)
    append(core, (1, 1), ())
    settle(core)
    later = NOW + 2 * TIMING.election_max_ms
    request = Message(MsgType.PRE_VOTE, 3, 1, 2, index=9, log_term=1)
    core.step(later, request, {2: later - TIMING.election_min_ms + 1})
    assert not core.has_ready()
    core.step(later, request, {2: later - TIMING.election_min_ms})
    assert kinds(core.ready().messages) == [MsgType.PRE_VOTE_REPLY]


def test_rule_14_a_leader_ignores_candidates_too() -> None:
    leader = make_leader((1,))
    vote_request(leader, sender=3, term=9, last=(9, 8))
    assert (leader.role, leader.term) == (Role.LEADER, 2)


def test_rule_14_a_transfer_is_not_disloyal() -> None:
    core = make_core((1,))
    append(core, (1, 1), ())
    settle(core)
    vote_request(core, sender=3, term=2, last=(1, 1), forced=True)
    assert (core.term, core.vote) == (2, 3)


def test_rule_14_a_voter_whose_leader_link_is_lost_has_no_leader() -> None:
    core = make_core((1,))
    append(core, (1, 1), ())
    core.peer_lost(NOW, 3)
    assert core.leader == 2
    core.peer_lost(NOW, 2)
    assert core.leader == NOBODY
    settle(core)
    vote_request(core, sender=3, term=2, last=(1, 1))
    assert (core.term, core.vote) == (2, 3)


def test_rule_14_a_stale_leader_is_told_the_higher_term() -> None:
    for kind in (MsgType.APPEND, MsgType.HEARTBEAT, MsgType.SNAPSHOT):
        core = make_core((1,), term=5)
        core.step(NOW, Message(kind, 2, 1, 1, index=1, log_term=1))
        (reply,) = core.ready().messages
        assert (reply.type, reply.term) == (MsgType.APPEND_REPLY, 5), kind
        leader = make_leader((1,))
        leader.step(NOW, reply._replace(sender=2, to=1))
        assert (leader.role, leader.term) == (Role.FOLLOWER, 5), kind


def test_rule_14_a_heartbeat_below_the_own_term_is_refused_and_frees_this_node() -> None:
    core = make_core((1,), term=5, own_heartbeats=False)
    assert not core.heartbeat(NOW, 2, 4, 0)
    leader = make_leader((1,), own_heartbeats=False)
    leader.heartbeat_rejected(NOW, 2, 5)
    assert (leader.role, leader.term) == (Role.FOLLOWER, 5)
    leader.heartbeat_rejected(NOW, 2, 4)
    assert leader.term == 5


def test_rule_15_answers_to_the_pre_vote_are_no_votes() -> None:
    core = make_core((1,), size=5)
    core.campaign(NOW)
    core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, 2, 1, 2))
    core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, 3, 1, 2))
    assert core.role is Role.CANDIDATE
    core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, 4, 1, 2))
    core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, 5, 1, 3))
    assert (core.role, core.term) == (Role.CANDIDATE, 2)


def test_rule_15_a_grant_of_an_earlier_pre_vote_does_not_count() -> None:
    core = make_core((1,))
    core.campaign(NOW)
    append(core, (1, 1), (), sender=3, term=2)
    core.campaign(NOW)
    core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, 2, 1, 2))  # asked in term 1; now term 3 is asked for
    assert core.role is Role.PRE_CANDIDATE


def test_rule_16_check_quorum_counts_since_the_last_check() -> None:
    leader = make_leader(size=5)
    first = NOW + TIMING.election_min_ms
    leader.advance(first)
    assert leader.role is Role.LEADER
    leader.step(first + 1, Message(MsgType.HEARTBEAT_REPLY, 2, 1, leader.term))
    leader.advance(first + TIMING.election_min_ms)
    assert leader.role is Role.FOLLOWER
    assert leader.leader == NOBODY


def test_rule_16_contact_of_the_host_counts_for_check_quorum() -> None:
    leader = make_leader(own_heartbeats=False)
    first = NOW + TIMING.election_min_ms
    leader.advance(first)
    leader.advance(first + TIMING.election_min_ms, {3: first + 5})
    assert leader.role is Role.LEADER
    assert leader.quorum_heard(first, {3: first + 5})
    assert not leader.quorum_heard(first + 6, {3: first + 5})
    leader.advance(first + 2 * TIMING.election_min_ms, {3: first + 5})
    assert leader.role is Role.FOLLOWER


def test_rule_16_an_answered_heartbeat_is_proof_of_life_at_its_sending_and_takes_nothing_back() -> None:
    leader = make_leader(own_heartbeats=False)  # both have acknowledged the no-op now
    leader.heartbeat_ok(NOW - 700, 2, 3)
    assert leader.progress()[2].contact_ms == NOW
    leader.heartbeat_ok(NOW + 400, 2, 4)
    assert leader.quorum_heard(NOW + 400)
    assert not leader.quorum_heard(NOW + 401)


@pytest.mark.parametrize("names_an_heir", [False, True])
def test_rule_16_a_leader_with_a_stuck_disk_can_give_up(names_an_heir: bool) -> None:
    leader = make_leader()
    leader.read(NOW, 5)
    if names_an_heir:
        leader.abdicate(NOW)
    else:
        leader.step_down(NOW)
    ready = leader.ready()
    assert ready.soft_state is not None
    assert (ready.soft_state.role, ready.lost_reads) == (Role.FOLLOWER, (5,))
    assert leader.term == 1
    assert (MsgType.TIMEOUT_NOW in kinds(ready.messages)) is names_an_heir


def test_rule_16_the_heir_of_a_stuck_disk_holds_most_of_the_log() -> None:
    leader = make_leader(size=5)
    leader.propose(NOW, WORD)
    settle(leader)
    acknowledge(leader, 4, 2)
    leader.abdicate(NOW)
    (told,) = [message for message in settle(leader) if message.type == MsgType.TIMEOUT_NOW]
    assert (told.to, told.term) == (4, 1)


def test_rule_16_the_heir_of_a_stuck_disk_is_the_one_that_was_asked_before() -> None:
    for asked in (2, 3):
        leader = make_leader()
        assert leader.transfer(NOW, asked)
        assert [message.to for message in settle(leader) if message.type == MsgType.TIMEOUT_NOW] == [asked]
        leader.abdicate(NOW)
        assert [message.to for message in settle(leader) if message.type == MsgType.TIMEOUT_NOW] == [asked]


def test_rule_16_a_leader_without_other_voters_names_nobody() -> None:
    leader = make_leader(size=1)
    leader.abdicate(NOW)
    assert leader.role is Role.FOLLOWER
    assert settle(leader) == []


def test_rule_16_who_has_what_the_own_disk_has_not_is_ahead_of_it() -> None:
    leader = make_leader()
    assert leader.ahead_of_own_disk() == NOBODY, "all of it is durable here"
    leader.propose(NOW, WORD)
    written = leader.ready()
    assert leader.ahead_of_own_disk() == NOBODY, "nobody has it yet"
    acknowledge(leader, 3, 2)
    assert leader.ahead_of_own_disk() == 3
    persist(leader, written)
    assert leader.ahead_of_own_disk() == NOBODY


def test_rule_17_a_read_waits_for_the_first_commit_of_the_term() -> None:
    leader = make_leader((1,), commit_noop=False)
    settle(leader)
    assert leader.read(NOW, 5)
    settle(leader)
    leader.step(NOW, Message(MsgType.HEARTBEAT_REPLY, 2, 1, leader.term, context=1))
    assert leader.ready().grants == ()
    acknowledge(leader, 2)
    (grant,) = leader.ready().grants
    assert grant == (5, 2)


def test_rule_17_a_read_records_the_commit_index_at_its_arrival() -> None:
    leader = make_leader()
    leader.read(NOW, 5)
    leader.propose(NOW, WORD)
    settle(leader)
    acknowledge(leader, 2)
    leader.step(NOW, Message(MsgType.HEARTBEAT_REPLY, 2, 1, leader.term, context=1))
    assert leader.commit == 2
    assert leader.ready().grants == ((5, 1),)


def test_rule_17_rounds_that_began_before_the_read_do_not_confirm_it() -> None:
    leader = make_leader(own_heartbeats=False)
    assert leader.read(NOW, 5, 8)
    leader.heartbeat_ok(NOW, 2, 7)
    assert leader.ready().grants == ()
    leader.heartbeat_ok(NOW, 2, 8)
    assert leader.ready().grants == ((5, 1),)


def test_rule_17_an_answer_to_the_round_before_the_read_does_not_confirm_it() -> None:
    leader = make_leader()
    leader.advance(NOW + TIMING.heartbeat_ms)
    (first, _) = leader.ready().messages
    leader.read(NOW, 5)
    leader.step(NOW, Message(MsgType.HEARTBEAT_REPLY, 2, 1, leader.term, context=first.context))
    ready = leader.ready()
    assert ready.grants == ()
    leader.step(NOW, Message(MsgType.HEARTBEAT_REPLY, 2, 1, leader.term, context=ready.messages[0].context))
    assert leader.ready().grants == ((5, 1),)


def test_rule_17_two_of_five_do_not_confirm_a_read() -> None:
    leader = make_leader(size=5, own_heartbeats=False)
    leader.read(NOW, 5, 0)
    leader.heartbeat_ok(NOW, 2, 0)
    leader.heartbeat_ok(NOW, 2, 1)
    assert leader.ready().grants == ()
    leader.heartbeat_ok(NOW, 5, 3)
    assert leader.ready().grants == ((5, 1),)


def test_rule_17_a_later_leadership_does_not_inherit_confirmations() -> None:
    leader = make_leader(own_heartbeats=False)
    leader.read(NOW, 5, 3)
    leader.step_down(NOW)
    assert leader.ready().lost_reads == (5,)
    leader.heartbeat_ok(NOW, 2, 3)
    assert leader.ready().grants == ()
    assert not leader.read(NOW, 6, 4)


def test_rule_17_reads_are_bounded() -> None:
    leader = make_leader(flow=FLOW._replace(reads_max=2))
    assert [leader.read(NOW, context) for context in (1, 2, 3)] == [True, True, False]


def test_rule_19_configuration_changes_are_refused_where_members_are_fixed() -> None:
    leader = make_leader()
    assert leader.propose(NOW, ((EntryKind.CONF, b""),)) is Refused.UNSUPPORTED
    assert leader.change_members((1, 2)) is Refused.UNSUPPORTED
    follower = make_core((1,))
    conf = entries((1,), 2)[0]._replace(kind=EntryKind.CONF, data=encode_config(Config((1, 2))))
    follower.step(NOW, Message(MsgType.APPEND, 2, 1, 1, index=1, log_term=1, entries=(conf,)))
    assert follower.last_index == 1
    assert follower.ready().after_persist == ()


def test_rule_22_an_offer_behind_the_commit_index_is_answered_with_it() -> None:
    core = make_core((1, 1, 1), commit=3)
    core.step(NOW, Message(MsgType.SNAPSHOT, 2, 1, 1, index=2, log_term=1))
    (reply,) = core.ready().after_persist
    assert (reply.type, reply.index) == (MsgType.APPEND_REPLY, 3)
    assert core.snapshot_offer is None


def test_rule_22_an_offer_that_the_log_holds_only_moves_the_commit_index() -> None:
    core = make_core((1, 1, 1))
    core.step(NOW, Message(MsgType.SNAPSHOT, 2, 1, 1, index=2, log_term=1))
    assert (core.commit, core.last_index, core.snapshot_offer) == (2, 3, None)


def test_rule_22_an_offer_beyond_the_log_is_for_the_host_to_fetch() -> None:
    core = make_core((1, 1, 1))
    core.step(NOW, Message(MsgType.SNAPSHOT, 2, 1, 2, index=9, log_term=2))
    assert core.snapshot_offer == (2, 9, 2)
    assert core.snapshot_installed(9, 2)
    assert (core.commit, core.applied, core.last_index, core.first_index) == (9, 9, 9, 10)
    (reply,) = core.ready().after_persist
    assert (reply.type, reply.index, reply.reject) == (MsgType.APPEND_REPLY, 9, False)
    append(core, (9, 2), (2,))
    assert log_terms(core) == [2]


def test_rule_22_a_checkpoint_the_core_is_past_is_not_taken() -> None:
    core = make_core((1, 1, 1), commit=3)
    assert not core.snapshot_installed(2, 1)
    assert core.last_index == 3


def test_rule_22_what_a_checkpoint_in_place_covers_is_not_handed_out_any_more() -> None:
    """The core committed past it while the files were swapped; the WAL may forget what it covers at once."""
    core = make_core((1, 1, 1, 1, 1), commit=4)
    assert not core.snapshot_installed(3, 1)
    core.skip_to(3)
    assert core.applied == 3
    core.compacted(3, 1)
    assert [entry.index for entry in core.ready().committed] == [4]
    core.skip_to(2)
    assert core.applied == 3


def test_rule_22_who_was_elected_while_the_files_were_swapped_goes_on_leading() -> None:
    core = make_leader((1, 1, 1), commit_noop=False)
    assert core.commit < 3
    assert core.snapshot_installed(3, 1)
    assert (core.role, core.commit, core.applied, core.first_index) == (Role.LEADER, 3, 3, 4)
    acknowledge(core, 2)
    persist(core)
    assert core.commit == core.last_index == 4


def test_rule_22_a_new_leader_withdraws_the_offer() -> None:
    core = make_core((1, 1, 1))
    core.step(NOW, Message(MsgType.SNAPSHOT, 2, 1, 2, index=9, log_term=2))
    core.peer_lost(NOW, 2)
    assert core.snapshot_offer is None


def test_rule_23_a_checkpoint_keeps_the_suffix_that_matches_and_discards_one_that_does_not() -> None:
    core = make_core((1, 1, 2, 2))
    assert core.snapshot_installed(3, 2)
    assert (log_terms(core), core.first_index) == ([2], 4)
    core = make_core((1, 1, 1, 1), term=2)
    assert core.snapshot_installed(3, 2)
    assert (log_terms(core), core.first_index) == ([], 4)


def test_rule_23_writes_in_flight_when_the_log_is_discarded_do_not_count() -> None:
    core = make_core((1,))
    append(core, (1, 1), (1, 1, 1, 1, 1))
    old = core.ready()
    assert core.snapshot_installed(4, 2) is True
    append(core, (4, 2), (2, 2), term=2)
    new = core.ready()
    core.persisted(old.persist_term, old.persist_index)
    assert core.log.stable == 4
    core.persisted(new.persist_term, new.persist_index)
    assert core.log.stable == 6


def test_rule_23_the_compaction_point_still_answers_for_its_term() -> None:
    core = make_core((2,), compacted=(5, 2))
    append(core, (5, 2), (2, 2))
    (reply,) = core.ready().after_persist
    assert (reply.index, reply.reject) == (7, False)


def test_rule_24_a_completion_from_before_a_cut_counts_only_below_it() -> None:
    core = make_core((1,))
    append(core, (1, 1), (1, 1))
    first = core.ready()
    append(core, (2, 1), (2,), term=2)  # cuts 3
    second = core.ready()
    assert [entry.index for entry in second.entries] == [3]
    core.persisted(first.persist_term, first.persist_index)
    assert core.log.stable == 2
    core.persisted(second.persist_term, second.persist_index)
    assert core.log.stable == 3


def test_rule_24_the_same_entry_overwritten_and_written_again_is_not_stable_by_its_first_write() -> None:
    core = make_core((1,))
    append(core, (1, 1), (1,))
    first = core.ready()
    append(core, (1, 1), (2,), term=2)
    second = core.ready()
    append(core, (1, 1), (1, 3), term=3, sender=3)
    third = core.ready()
    core.persisted(first.persist_term, first.persist_index)
    core.persisted(second.persist_term, second.persist_index)
    assert core.log.stable == 1
    core.persisted(third.persist_term, third.persist_index)
    assert core.log.stable == 3


def test_rule_24_a_completion_that_is_told_late_is_too_old_to_mean_anything() -> None:
    core = make_core((1,))
    append(core, (1, 1), (1, 1, 1, 1))
    first = core.ready()
    append(core, (2, 1), (2,), term=2)
    second = core.ready()
    append(core, (3, 2), (2, 2, 2))
    core.ready()
    core.persisted(second.persist_term, second.persist_index)
    core.persisted(first.persist_term, first.persist_index)
    assert core.log.stable == 3


def test_rule_24_the_last_of_several_completions_is_enough() -> None:
    core = make_core((1,))
    append(core, (1, 1), (1, 1))
    core.ready()
    append(core, (2, 1), (2,), term=2)
    last = core.ready()
    core.persisted(last.persist_term, last.persist_index)
    assert core.log.stable == 3


def test_rule_25_a_full_window_still_probes_after_a_sign_of_life() -> None:
    leader = make_leader(flow=FLOW._replace(inflight_appends_max=1))
    for _ in range(3):
        leader.propose(NOW, WORD)
        leader.ready()
    leader.propose(NOW, WORD)
    assert leader.ready().messages == ()
    leader.step(NOW, Message(MsgType.HEARTBEAT_REPLY, 2, 1, leader.term, context=1))
    (probe,) = leader.ready().messages
    assert (probe.type, probe.to, probe.index, probe.entries) == (MsgType.APPEND, 2, 2, ())


def test_rule_25_a_broken_link_means_looking_again_from_what_is_known() -> None:
    leader = make_leader()
    leader.propose(NOW, WORD)
    leader.ready()
    assert leader.progress()[2].next == 3
    leader.peer_unreachable(2)
    assert leader.progress()[2].state is ProgressState.PROBE
    assert leader.progress()[2].next == 2
    resent = [m for m in leader.ready().messages if m.to == 2]
    assert [m.index for m in resent] == [1]
    leader.propose(NOW, WORD)
    assert [m for m in leader.ready().messages if m.to == 2] == []
    assert leader.wants_heartbeats
    leader.heartbeat_ok(NOW, 2, 1)
    assert [m.index for m in leader.ready().messages if m.to == 2] == [1]


def test_rule_25_stale_refusals_change_nothing() -> None:
    leader = make_leader((1, 1))
    leader.propose(NOW, WORD)
    settle(leader)
    leader.step(NOW, Message(MsgType.APPEND_REPLY, 2, 1, leader.term, index=2, reject=True, hint=1, log_term=1))
    assert leader.progress()[2].state is ProgressState.REPLICATE
    assert leader.progress()[2].next == 5


def test_rule_26_follower_and_leader_skip_whole_terms() -> None:
    follower = make_core((1, 1, 1, 3, 3, 3))
    append(follower, (6, 5), (), term=5)
    (reply,) = follower.ready().messages
    assert (reply.reject, reply.index, reply.hint, reply.log_term) == (True, 6, 6, 3)

    leader = make_leader((1, 1, 2, 2, 4, 4), commit_noop=False, term=4)
    settle(leader)
    refusal = Message(MsgType.APPEND_REPLY, 2, 1, leader.term, index=6, reject=True, hint=6, log_term=3)
    leader.step(NOW, refusal)
    (probe,) = [m for m in leader.ready().messages if m.to == 2]
    assert (probe.index, probe.log_term) == (4, 2)


def test_rule_26_a_short_follower_is_found_at_once() -> None:
    follower = make_core((1,))
    append(follower, (900, 1), ())
    (reply,) = follower.ready().messages
    assert (reply.hint, reply.log_term) == (1, 1)


def test_rule_27_proposals_are_refused_during_a_transfer() -> None:
    leader = make_leader()
    assert leader.transfer(NOW, 2)
    assert leader.propose(NOW, WORD) is Refused.TRANSFERRING
    assert kinds(leader.ready().messages) == [MsgType.TIMEOUT_NOW]


def test_rule_27_the_target_is_told_only_when_it_holds_everything() -> None:
    leader = make_leader()
    leader.propose(NOW, WORD)
    settle(leader)
    assert leader.transfer(NOW, 2)
    assert MsgType.TIMEOUT_NOW not in kinds(leader.ready().messages)
    acknowledge(leader, 3)
    assert MsgType.TIMEOUT_NOW not in kinds(leader.ready().messages)
    acknowledge(leader, 2)
    assert kinds(leader.ready().messages) == [MsgType.TIMEOUT_NOW]


def test_rule_27_a_transfer_ends_after_an_election_timeout() -> None:
    leader = make_leader()
    leader.transfer(NOW, 2)
    assert leader.deadline_ms <= NOW + TIMING.election_min_ms
    leader.advance(NOW + TIMING.election_min_ms - 1)
    assert leader.propose(NOW, WORD) is Refused.TRANSFERRING
    leader.advance(NOW + TIMING.election_min_ms)
    assert leader.propose(NOW, WORD) == 2


def test_rule_27_a_transfer_ends_when_the_link_to_its_target_breaks() -> None:
    leader = make_leader()
    leader.transfer(NOW, 2)
    leader.peer_unreachable(3)
    assert leader.propose(NOW, WORD) is Refused.TRANSFERRING, "that of another says nothing"
    leader.peer_unreachable(2)
    assert leader.propose(NOW, WORD) == 2


def test_rule_27_the_target_stands_without_a_pre_vote_and_says_why() -> None:
    core = make_core((1,))
    append(core, (1, 1), ())
    settle(core)
    core.step(NOW, Message(MsgType.TIMEOUT_NOW, 3, 1, 1))
    assert core.role is Role.FOLLOWER  # only the leader may say so
    core.step(NOW, Message(MsgType.TIMEOUT_NOW, 2, 1, 1))
    assert core.role is Role.CANDIDATE
    assert [message.context for message in core.ready().after_persist] == [1, 1]


def test_rule_28_the_election_timer_starts_anew_on_leader_traffic_also_when_it_is_refused() -> None:
    core = make_core((1,))
    append(core, (1, 1), ())
    before = core.deadline_ms
    core.step(NOW + 50, Message(MsgType.APPEND, 2, 1, 1, index=7, log_term=1))
    assert core.deadline_ms == before + 50
    core.step(NOW + 70, Message(MsgType.HEARTBEAT, 2, 1, 1))
    assert core.deadline_ms == before + 70


def test_rule_28_a_granted_vote_postpones_the_own_campaign_and_a_refused_one_does_not() -> None:
    core = make_core((1, 1))
    core.step(NOW + 10, Message(MsgType.VOTE, 2, 1, 2, index=1, log_term=1))
    refused = core.deadline_ms
    core.step(NOW + 60, Message(MsgType.VOTE, 3, 1, 2, index=1, log_term=1))
    assert core.deadline_ms == refused
    core.step(NOW + 90, Message(MsgType.VOTE, 3, 1, 2, index=2, log_term=1))
    assert (core.vote, core.deadline_ms) == (3, refused + 80)


def test_rule_28_timeouts_differ_between_nodes_and_lie_in_their_range() -> None:
    deadlines = {make_core(node=node).deadline_ms - NOW for node in (1, 2, 3)}
    assert len(deadlines) == 3
    assert all(TIMING.election_min_ms <= d <= TIMING.election_max_ms for d in deadlines)


class Draws:
    """Says what it was asked for, and answers with the next number of that range."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def random(self) -> float:
        return 0.5

    def randrange(self, start: int, stop: int) -> int:
        self.ranges.append((start, stop))
        return start + len(self.ranges)

    def randbytes(self, n: int) -> bytes:
        return bytes(n)


def test_rule_28_every_change_of_role_draws_a_fresh_timeout() -> None:
    core = make_core((1,))
    core.rand = Draws()
    timeouts = []
    core.campaign(NOW)
    timeouts.append(core.election_timeout_ms)
    core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, 2, 1, 2))
    timeouts.append(core.election_timeout_ms)
    append(core, (1, 1), (), sender=3, term=2)
    timeouts.append(core.election_timeout_ms)
    assert core.role is Role.FOLLOWER
    assert timeouts == [TIMING.election_min_ms + n for n in (1, 2, 3)]
    assert core.deadline_ms == NOW + timeouts[-1]


def test_rule_28_followers_of_a_lost_leader_campaign_one_after_another() -> None:
    core = make_core((1,))
    append(core, (1, 1), ())
    core.rand = draws = Draws()
    core.peer_lost(NOW, 2)
    assert draws.ranges == [(0, TIMING.link_stagger_ms + 1)]
    assert core.deadline_ms == NOW + 1


def test_rule_28_fresh_contact_of_the_host_only_moves_the_deadline() -> None:
    core = make_core((1,), own_heartbeats=False)
    assert core.heartbeat(NOW, 2, 1, 0)
    due = core.deadline_ms
    core.advance(due, {2: due - 30})
    assert core.role is Role.FOLLOWER
    assert core.deadline_ms == due - 30 + core.election_timeout_ms
    core.advance(core.deadline_ms, {2: due - 30})
    assert core.role is Role.PRE_CANDIDATE


def test_rule_29_fates_are_told_by_index_and_term() -> None:
    leader = make_leader((1,))
    index = leader.propose(NOW, WORD)
    assert index == 3
    settle(leader)
    acknowledge(leader, 2)
    (entry,) = leader.ready().committed
    assert (entry.index, entry.term, entry.data) == (3, 2, b"word")


def test_rule_29_a_proposal_checked_in_another_term_is_refused() -> None:
    leader = make_leader((1,))
    assert leader.propose(NOW, WORD, leader.term - 1) is Refused.TERM_CHANGED
    assert leader.propose(NOW, WORD, leader.term) == 3
    leader.step_down(NOW)
    assert leader.propose(NOW, WORD, leader.term) is Refused.NOT_LEADER


def test_rule_33_proposals_are_bounded_by_bytes_and_count_and_one_oversize_passes() -> None:
    big = ((EntryKind.NORMAL, bytes(500)),)
    leader = make_leader(flow=FLOW._replace(uncommitted_bytes_max=300))
    assert leader.propose(NOW, big) == 2
    assert leader.propose(NOW, WORD) is Refused.BUSY
    settle(leader)
    acknowledge(leader, 2)
    settle(leader)
    assert leader.propose(NOW, WORD) == 3

    leader = make_leader(flow=FLOW._replace(uncommitted_entries_max=2))
    assert leader.propose(NOW, WORD * 2) == 2
    assert leader.propose(NOW, WORD) is Refused.BUSY


def test_rule_33_appends_are_bounded_by_bytes_and_one_oversize_travels_alone() -> None:
    leader = make_leader(flow=FLOW._replace(append_bytes_max=100))
    leader.propose(NOW, ((0, bytes(10)), (0, bytes(20)), (0, bytes(300)), (0, bytes(1))))
    sent = [len(m.entries) for m in leader.ready().messages if m.to == 2]
    assert sent == [2, 1, 1]


def test_rule_33_what_is_read_back_from_the_disk_at_once_is_less() -> None:
    """The loop reads it, and requests wait meanwhile. A follower far behind still gets everything, read by read."""
    leader = make_leader((1,) * 3_000, commit_noop=False)  # of an earlier life: none of them is in memory
    assert leader.log.cache_first > 3_000
    settle(leader)
    leader.step(NOW, Message(MsgType.APPEND_REPLY, 3, 1, leader.term, index=3_000, reject=True))
    at, reads = 0, []
    while at < leader.last_index:
        [sent] = [m for m in settle(leader) if m.to == 3 and m.entries]
        assert sent.index == at
        at = sent.entries[-1].index
        reads.append(entries_bytes(sent.entries))
        acknowledge(leader, 3, at)
    assert len(reads) == 3, "two of what was read back, and what is in memory"
    assert COLD_APPEND_BYTES_MAX // 2 < reads[0] <= COLD_APPEND_BYTES_MAX < FLOW.append_bytes_max


def test_a_follower_that_is_throttled_gets_no_entries_and_stays_in_touch() -> None:
    """Copies are throttled by the host (ADR 46): appends without entries, probes and commits go on, and once it is let
    go the follower gets all at once."""
    leader = make_leader()
    leader.throttle(3, True)
    leader.propose(NOW, [(EntryKind.NORMAL, b"x")])
    sent = settle(leader)
    assert [m.to for m in sent if m.entries] == [2]
    acknowledge(leader, 2)
    assert leader.commit == leader.last_index, "the other follower and the leader are a majority"
    leader.heartbeat_ok(NOW, 3, leader.round)
    told = [m for m in settle(leader) if m.to == 3 and m.type == MsgType.APPEND]
    assert told
    assert not any(m.entries for m in told)
    leader.peer_unreachable(3)
    probes = [m for m in settle(leader) if m.to == 3 and m.type == MsgType.APPEND]
    assert len(probes) == 1
    assert not probes[0].entries
    acknowledge(leader, 3, probes[0].index)
    assert not any(m.entries for m in settle(leader) if m.to == 3)
    leader.throttle(3, False)
    [last] = [m for m in settle(leader) if m.to == 3 and m.entries]
    assert last.entries[-1].index == leader.last_index
    leader.throttle(9, True)  # no member


def test_rule_33_the_window_is_bounded_by_count() -> None:
    leader = make_leader(flow=FLOW._replace(inflight_appends_max=2, append_bytes_max=1))
    leader.propose(NOW, WORD * 5)
    assert [m.index for m in leader.ready().messages if m.to == 2] == [1, 2]
    acknowledge(leader, 2, 2)
    assert [m.index for m in leader.ready().messages if m.to == 2] == [3]


def test_rule_33_the_window_is_bounded_by_bytes() -> None:
    size = 10 + OVERHEAD
    leader = make_leader(flow=FLOW._replace(inflight_bytes_max=2 * size, append_bytes_max=size))
    leader.propose(NOW, ((0, bytes(10)),) * 5)
    assert len([m for m in leader.ready().messages if m.to == 2]) == 2
    acknowledge(leader, 2, 2)
    assert [m.index for m in leader.ready().messages if m.to == 2] == [3]


def test_rule_33_what_is_handed_out_for_applying_is_bounded() -> None:
    size = 10 + OVERHEAD
    leader = make_leader(flow=FLOW._replace(apply_bytes_max=size, unapplied_bytes_max=2 * size))
    leader.propose(NOW, ((0, bytes(10)),) * 4)
    ready = leader.ready()
    leader.persisted(ready.persist_term, ready.persist_index)
    acknowledge(leader, 2)
    assert [entry.index for entry in leader.ready().committed] == [2]
    assert [entry.index for entry in leader.ready().committed] == [3]
    assert not leader.has_ready()
    leader.applied_to(2)
    assert [entry.index for entry in leader.ready().committed] == [4]
