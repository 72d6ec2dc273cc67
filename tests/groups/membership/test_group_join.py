"""JoinGroup: the rows of protocol notes 3.3, admission (3.5), protocols (3.6)."""

import re

import pytest
from muster_coordinator.errors import Code

from tests.groups.host import Host, Member, beat, commit, join, leave, listed, settle, stable, state, sync
from tests.made_settings import shard_config


def completing(host: Host, count: int = 2, **how) -> list[Member]:
    """Joined, answered, nobody synced."""
    members = [Member(host, **how).join() for _ in range(count)]
    host.advance(2 * host.config.initial_rebalance_delay_ms)
    return [m.took() for m in members]


# Whole-request checks.


def test_empty_group_id_is_24():
    assert Host().ask(join("")).error == Code.INVALID_GROUP_ID


def test_group_id_that_the_log_cannot_hold_is_24():
    assert Host().ask(join("g" * 32_768)).error == Code.INVALID_GROUP_ID
    assert Host().ask(join("é" * 20_000)).error == Code.INVALID_GROUP_ID


@pytest.mark.parametrize(("session", "code"), [(5_999, 26), (6_000, 79), (1_800_000, 79), (1_800_001, 26)])
def test_session_timeout_bounds_are_inclusive_and_the_id_is_echoed(session, code):
    host = Host()
    answer = host.ask(join(session=session, known=True))
    assert answer.error == code
    assert host.ask(join(member="me", session=1)).member == "me"


# No such group.


def test_unknown_group_dynamic_v4_is_created_in_the_log_and_an_id_handed_out():
    host = Host()
    host.hold = True
    ticket = host.send(join(known=True, client="app"))
    assert ticket not in host.answers, "79 before the group is in the log"
    host.commit_all()
    answer = host.answers[ticket]
    assert answer.error == Code.MEMBER_ID_REQUIRED
    assert re.fullmatch(r"app-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", answer.member)
    assert state(host) == "Empty"
    host.check_replicas()


def test_unknown_group_whose_record_is_dropped_answers_the_mapped_error():
    host = Host()
    host.hold = True
    ticket = host.send(join(known=True))
    host.drop(Code.NOT_ENOUGH_REPLICAS)
    assert host.answers[ticket].error == Code.COORDINATOR_NOT_AVAILABLE
    assert state(host) == "Dead"


def test_unknown_group_dynamic_before_v4_is_added_and_parked():
    host = Host(shard_config())
    host.send(join())
    assert state(host) == "PreparingRebalance"
    host.advance(3_000)
    assert host.answers[1].error == 0
    assert host.answers[1].generation == 1


def test_unknown_group_with_a_new_instance_needs_no_second_step():
    host = Host()
    answer_ticket = host.send(join(instance="i", known=True))
    host.advance(0)
    answer = host.answers[answer_ticket]
    assert answer.error == 0
    assert answer.member.startswith("i-")


def test_unknown_group_with_a_member_id_is_25_and_creates_nothing():
    host = Host()
    answer = host.ask(join(member="me"))
    assert (answer.error, answer.member) == (25, "me")
    assert not host.log


@pytest.mark.parametrize(("type_", "names"), [("", ("range",)), ("consumer", ())])
def test_unknown_group_without_type_or_protocols_is_23_and_creates_nothing(type_, names):
    host = Host()
    assert host.ask(join(protocol_type=type_, names=names)).error == 23
    assert not host.log


# KIP-394.


def test_pending_id_comes_back_and_becomes_a_member():
    host = Host()
    given = host.ask(join(known=True)).member
    ticket = host.send(join(member=given, known=True))
    host.advance(0)
    answer = host.answers[ticket]
    assert (answer.error, answer.member, answer.generation, answer.leader) == (0, given, 1, given)


def test_pending_id_with_an_instance_id_is_a_server_error():
    host = Host()
    given = host.ask(join(known=True)).member
    assert host.ask(join(member=given, instance="i", known=True)).error == Code.UNKNOWN_SERVER_ERROR


def test_pending_id_is_dropped_at_its_session_timeout():
    host = Host()
    given = host.ask(join(known=True, session=6_000)).member
    host.advance(6_000)
    assert host.ask(join(member=given, known=True)).error == 25


def test_pending_id_keeps_a_join_phase_open_and_its_end_closes_it():
    host = Host()
    (member,) = stable(host, 1)
    host.ask(join(known=True, session=6_000))
    member.join()
    host.advance(5_999)
    assert member.ticket not in host.answers
    host.advance(1)
    assert member.took().generation == 2


def test_pending_ids_survive_the_completion_of_a_phase():
    host = Host(shard_config(initial_rebalance_delay_ms=100))
    member = Member(host).join()
    given = host.ask(join(known=True)).member
    host.advance(200)
    assert member.took().generation == 1
    assert host.ask(leave(given)).leavers[0][2] == 0


def test_pending_ids_are_capped():
    host = Host(shard_config(initial_rebalance_delay_ms=0, pending_members_max=3))
    assert [host.ask(join(known=True)).error for _ in range(4)] == [79, 79, 79, 15]


def test_pending_ids_do_not_count_for_the_group_size():
    host = Host(shard_config(initial_rebalance_delay_ms=0, group_max_size=1))
    assert [host.ask(join(known=True)).error for _ in range(3)] == [79, 79, 79]


# Empty.


def test_empty_group_known_member_id_is_25():
    host = Host()
    (member,) = stable(host, 1)
    host.ask(leave(member.id))
    assert state(host) == "Empty"
    assert host.ask(join(member=member.id)).error == 25


def test_empty_group_takes_another_protocol_type():
    host = Host()
    (member,) = stable(host, 1)
    host.ask(leave(member.id))
    ticket = host.send(join(protocol_type="connect", names=("v2",)))
    host.advance(0)
    assert host.answers[ticket].protocol_type == "connect"
    assert host.answers[ticket].generation == 3
    host.check_replicas()


def test_joiner_of_a_simple_group_makes_it_a_classic_one_and_keeps_its_offsets():
    host = Host()
    host.ask(commit(offset=9))
    stable(host, 1)
    assert listed(host)["g"].state == "Stable"
    assert host.offset_count() == 1


# PreparingRebalance.


def test_preparing_new_member_is_parked_and_completes_the_phase_when_all_are_there():
    host = Host()
    first, second = stable(host, 2)
    new = Member(host).join()
    assert state(host) == "PreparingRebalance"
    first.join()
    assert new.ticket not in host.answers
    second.join()
    assert {m.took().generation for m in (new, first, second)} == {2}
    assert first.leads
    assert {m.member for m in host.answers[first.ticket].members} == {first.id, second.id, new.id}
    assert host.answers[second.ticket].members == ()


def test_preparing_repeated_join_answers_the_older_one_27():
    host = Host()
    first, second = stable(host, 2)
    first.join()
    older = first.ticket
    first.join()
    assert host.answers[older].error == 27
    second.join()
    assert first.took().generation == 2


def test_preparing_unknown_member_is_25_and_a_wrong_instance_82():
    host = Host()
    members = stable(host, 1, instance="i")
    Member(host).join()
    assert state(host) == "PreparingRebalance"
    assert host.ask(join(member="nobody")).error == 25
    assert host.ask(join(member="nobody", instance="x")).error == 25
    assert host.ask(join(member="nobody", instance="i")).error == 82
    assert host.ask(join(member=members[0].id, instance="x")).error == 25


# CompletingRebalance.


def test_completing_unchanged_member_gets_the_generation_again():
    host = Host()
    leader, follower = completing(host)
    again = host.ask(join(member=follower.id))
    assert (again.error, again.generation, again.members) == (0, 1, ())
    again = host.ask(join(member=leader.id))
    assert (again.error, again.generation, len(again.members)) == (0, 1, 2)
    assert state(host) == "CompletingRebalance"


def test_completing_changed_member_starts_again():
    host = Host()
    leader, follower = completing(host)
    parked = follower.sync()
    host.send(join(member=leader.id, data=b"other-"))
    assert state(host) == "PreparingRebalance"
    assert host.answers[parked].error == 27


def test_completing_new_member_starts_again_and_parked_syncs_get_27():
    host = Host()
    _, follower = completing(host)
    parked = follower.sync()
    Member(host).join()
    assert host.answers[parked].error == 27
    assert state(host) == "PreparingRebalance"


# Stable.


def test_stable_unchanged_follower_gets_the_generation_without_a_rebalance():
    host = Host()
    _, follower = stable(host)
    records = len(host.log)
    again = host.ask(join(member=follower.id))
    assert (again.error, again.generation, again.protocol, again.skip_assignment) == (0, 1, "range", False)
    assert state(host) == "Stable"
    assert len(host.log) == records


def test_stable_changed_follower_rebalances():
    host = Host()
    _, follower = stable(host)
    ticket = host.send(join(member=follower.id, data=b"other-"))
    assert ticket not in host.answers
    assert state(host) == "PreparingRebalance"


def test_stable_follower_that_reorders_its_protocols_has_changed():
    host = Host()
    _, follower = stable(host, names=("range", "sticky"))
    assert host.ask(join(member=follower.id, names=("range", "sticky"))).error == 0
    host.send(join(member=follower.id, names=("sticky", "range")))
    assert state(host) == "PreparingRebalance"


def test_stable_leader_rejoining_always_rebalances():
    host = Host()
    leader, _ = stable(host)
    leader.join()
    assert state(host) == "PreparingRebalance"


def test_single_member_that_rejoins_gets_the_next_generation():
    host = Host()
    (member,) = stable(host, 1)
    assert member.join().took().generation == 2
    host.check_replicas()


def test_stable_new_member_starts_a_rebalance():
    host = Host()
    stable(host)
    Member(host).join()
    assert state(host) == "PreparingRebalance"
    assert host.leader.stats.rebalances_started == 2


# Protocols (3.6).


def test_type_and_name_mismatch_are_both_23_and_change_nothing():
    host = Host()
    members = stable(host)
    records = len(host.log)
    assert host.ask(join(protocol_type="connect")).error == 23
    assert host.ask(join(names=("sticky",))).error == 23
    assert host.ask(join(member=members[1].id, names=("sticky",))).error == 23
    assert state(host) == "Stable"
    assert len(host.log) == records


def test_errors_carry_no_protocol():
    host = Host()
    stable(host)
    answer = host.ask(join(names=("sticky",)))
    assert (answer.protocol_type, answer.protocol, answer.generation, answer.leader) == (None, None, -1, "")


def test_vote_takes_what_most_prefer_of_what_all_support():
    host = Host()
    lists = [("a", "b", "x"), ("b", "a", "y"), ("b", "a")]
    members = [Member(host, names=names).join() for names in lists]
    host.advance(0)
    assert {m.took().joined.protocol for m in members} == {"b"}
    assert [m.metadata for m in members[0].joined.members] == [b"meta-b"] * 3


def test_vote_tie_goes_to_the_leaders_own_order():
    for names, chosen in ((("a", "b"), "a"), (("b", "a"), "b")):
        host = Host()
        leader = Member(host, names=names).join()
        other = Member(host, names=names[::-1]).join()
        host.advance(0)
        assert leader.took().leads
        assert leader.joined.protocol == other.took().joined.protocol == chosen


def test_member_that_lists_a_name_twice_counts_once():
    host = Host()
    Member(host, names=("a", "a")).join()
    Member(host, names=("b", "a")).join()
    assert host.ask(join(names=("b",))).error == 23
    host.advance(0)
    assert host.answers[1].protocol == "a"


# group.max.size (3.5).


def small(limit: int) -> Host:
    return Host(shard_config(initial_rebalance_delay_ms=0, group_max_size=limit))


def test_full_stable_group_refuses_a_newcomer_with_81_and_keeps_its_members():
    host = small(2)
    members = stable(host)
    answer = host.ask(join())
    assert (answer.error, answer.member) == (81, "")
    assert state(host) == "Stable"
    assert [m.beat() for m in members] == [0, 0]


def test_full_group_lets_its_own_members_rejoin():
    host = small(2)
    members = stable(host)
    for member in members:
        member.join()
    assert [m.took().generation for m in members] == [2, 2]


def test_full_group_lets_a_static_member_come_back():
    """Quirk Q1, fixed: Kafka answers 81 here."""
    host = small(1)
    stable(host, 1, instance="i")
    assert host.ask(join(instance="i")).error == 0


def test_join_phase_counts_parked_joins_and_kicks_the_late_rejoiner():
    host = small(2)
    first, second = stable(host)
    first.join()
    assert host.send(join()) not in host.answers
    answer = host.ask(join(member=second.id))
    assert (answer.error, answer.member) == (81, "")
    assert first.took().generation == 2
    assert second.beat() == 25
    host.check_replicas()


def test_kicking_the_last_awaited_member_ends_the_join_phase_without_its_timer():
    """Kafka waits for the rest of the rebalance timeout; docs/clients.md says that ours does not."""
    host = small(2)
    first, second = stable(host)
    first.join()
    newcomer = host.send(join())
    assert newcomer not in host.answers
    assert first.ticket not in host.answers
    host.ask(join(member=second.id))
    assert host.answers[newcomer].generation == 2
    assert host.answers[first.ticket].generation == 2


def test_member_parked_in_a_full_phase_may_ask_again():
    host = small(1)
    first = Member(host).join()
    assert host.ask(join()).error == 81
    host.advance(0)
    assert first.took().generation == 1


def test_kicked_pending_id_is_forgotten():
    host = small(1)
    given = host.ask(join(known=True)).member
    stable(host, 1)
    assert host.ask(join(member=given, known=True)).error == 81
    assert host.ask(join(member=given, known=True)).error == 81
    host.advance(0)
    assert host.ask(leave(given)).leavers[0][2] == 25


# Stored size (decision 24).


def test_join_above_the_stored_size_is_81_and_evicts_nobody():
    host = Host(shard_config(initial_rebalance_delay_ms=0, group_stored_bytes_max=4_000))
    members = stable(host, 1, data=b"x" * 1_500)
    assert host.ask(join(data=b"y" * 3_000)).error == 81
    assert host.ask(join(member=members[0].id, data=b"y" * 5_000)).error == 81
    assert members[0].beat() == 0
    assert state(host) == "Stable"


def test_names_too_long_for_the_log_are_refused():
    host = Host()
    assert host.ask(join(instance="i" * 40_000)).error == Code.INVALID_REQUEST


def test_generation_answers_agree_on_leader_protocol_and_number():
    """invariant G3."""
    host = Host()
    members = completing(host, 5, names=("range", "sticky"))
    assert len({(m.joined.leader, m.joined.protocol, m.joined.generation) for m in members}) == 1
    assert sum(bool(m.joined.members) for m in members) == 1


def test_joins_that_wait_for_a_record_are_judged_in_order():
    host = Host()
    members = stable(host, 2)
    host.hold = True
    new = Member(host).join()
    members[0].join()
    waiting = host.send(beat(members[0].id))
    assert host.answers[waiting].error == 0, "a heartbeat never waits"
    assert new.ticket not in host.answers
    host.commit_all()
    assert host.ask(sync(members[1].id)).error == 27
    members[1].join()
    host.commit_all()
    settle_all = [new, *members]
    host.hold = False
    settle(host, settle_all)
    assert state(host) == "Stable"
