"""SyncGroup, Heartbeat and LeaveGroup: protocol notes 3.3, 3.4, 3.9 (leave), 3.10."""

import pytest
from muster_coordinator.errors import Code

from tests.groups.host import Host, Member, beat, join, leave, settle, stable, state, sync
from tests.made_settings import shard_config


def completing(host: Host, count: int = 2, **how) -> list[Member]:
    members = [Member(host, **how).join() for _ in range(count)]
    host.advance(0)
    return [m.took() for m in members]


# SyncGroup.


def test_sync_with_empty_group_id_is_24_and_of_an_unknown_group_25():
    assert Host().ask(sync("m", group="")).error == 24
    assert Host().ask(sync("m", group="nobody")).error == 25


def test_sync_to_an_empty_group_is_25():
    host = Host()
    (member,) = stable(host, 1)
    host.ask(leave(member.id))
    assert host.ask(sync(member.id, 2)).error == 25


@pytest.mark.parametrize("phase", ["preparing", "completing", "stable"])
def test_sync_is_checked_for_member_then_generation_then_protocol(phase):
    host = Host()
    members = completing(host, instance=None) if phase == "completing" else stable(host)
    if phase == "preparing":
        Member(host).join()
    me = members[1].id
    assert host.ask(sync("nobody", 99, protocol="x")).error == 25
    assert host.ask(sync(me, 99, protocol="x")).error == 22
    assert host.ask(sync(me, 1, protocol="x")).error == 23
    assert host.ask(sync(me, 1, protocol_type="x")).error == 23


def test_sync_in_preparing_is_27():
    host = Host()
    members = stable(host)
    Member(host).join()
    assert host.ask(sync(members[0].id)).error == 27


def test_sync_without_type_and_name_is_accepted():
    host = Host()
    (member,) = stable(host, 1)
    assert host.ask(sync(member.id, protocol_type=None, protocol=None)).error == 0


def test_followers_wait_for_the_leaders_plan_and_it_is_in_the_log_first():
    host = Host()
    leader, follower = completing(host)
    waiting = follower.sync()
    host.hold = True
    led = leader.sync(((leader.id, b"one"), (follower.id, b"two"), ("stranger", b"three")))
    assert not {waiting, led} & host.answers.keys()
    assert state(host) == "CompletingRebalance"
    late = follower.sync()
    host.commit_all()
    assert host.answers[led].assignment == b"one"
    assert host.answers[late].assignment == b"two"
    assert (host.answers[led].protocol_type, host.answers[led].protocol) == ("consumer", "range")
    assert state(host) == "Stable"
    host.check_replicas()


def test_a_repeated_sync_answers_the_older_one_27():
    """Quirk Q4."""
    host = Host()
    _, follower = completing(host)
    older = follower.sync()
    newer = follower.sync()
    assert host.answers[older].error == 27
    assert newer not in host.answers


def test_plans_of_followers_are_ignored():
    host = Host()
    leader, follower = completing(host)
    follower.sync(((leader.id, b"evil"), (follower.id, b"evil")))
    assert state(host) == "CompletingRebalance"
    ticket = leader.sync(((leader.id, b"good"),))
    assert host.answers[ticket].assignment == b"good"
    assert host.ask(sync(follower.id)).assignment == b""


def test_members_that_the_plan_leaves_out_get_empty_bytes():
    host = Host()
    (leader,) = completing(host, 1)
    assert host.answers[leader.sync(())].assignment == b""
    assert state(host) == "Stable"


def test_sync_in_stable_gets_the_assignment_again_and_never_another():
    """invariant G4."""
    host = Host()
    leader, follower = stable(host)
    assert host.ask(sync(follower.id)).assignment == b"plan-" + follower.id.encode()
    assert host.ask(sync(leader.id, plan=((follower.id, b"changed"),))).error == 0
    assert host.ask(sync(follower.id)).assignment == b"plan-" + follower.id.encode()


@pytest.mark.parametrize(
    ("cause", "answer"),
    [
        (Code.NOT_ENOUGH_REPLICAS, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.REQUEST_TIMED_OUT, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_COORDINATOR),
        (Code.KAFKA_STORAGE_ERROR, Code.NOT_COORDINATOR),
        (Code.RECORD_LIST_TOO_LARGE, Code.UNKNOWN_SERVER_ERROR),
        (Code.MESSAGE_TOO_LARGE, Code.UNKNOWN_SERVER_ERROR),
        (Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_plan_that_is_not_stored_answers_everybody_and_rebalances_again(cause, answer):
    host = Host()
    leader, follower = completing(host)
    waiting = follower.sync()
    host.hold = True
    led = leader.sync(((leader.id, b"one"),))
    host.drop(cause)
    assert [host.answers[t].error for t in (waiting, led)] == [answer, answer]
    host.hold = False
    host.advance(250)
    assert state(host) == "PreparingRebalance"
    assert leader.beat() == 27
    for member in (leader, follower):
        member.join()
    settle(host, [leader, follower])
    assert leader.generation == 2


def test_a_plan_above_the_stored_size_is_refused_and_rebalances_again():
    host = Host(shard_config(initial_rebalance_delay_ms=0, group_stored_bytes_max=2_000))
    leader, follower = completing(host)
    waiting = follower.sync()
    led = leader.sync(((leader.id, b"x" * 2_000),))
    assert [host.answers[t].error for t in (waiting, led)] == [-1, -1]
    host.advance(0)
    assert state(host) == "PreparingRebalance"


def test_a_retried_plan_that_gets_in_cancels_the_pending_rebalance():
    host = Host()
    (leader,) = completing(host, 1)
    host.hold = True
    leader.sync(((leader.id, b"one"),))
    host.drop(Code.COORDINATOR_NOT_AVAILABLE)
    host.hold = False
    ticket = leader.sync(((leader.id, b"one"),))
    assert host.answers[ticket].error == 0
    host.advance(1_000)
    assert state(host) == "Stable"


# Heartbeat.


def test_heartbeat_of_no_group_is_24_of_an_unknown_one_25_of_an_empty_one_25():
    host = Host()
    assert host.ask(beat("m", group="")).error == 24
    assert host.ask(beat("m")).error == 25
    (member,) = stable(host, 1)
    host.ask(leave(member.id))
    assert host.ask(beat(member.id, 2)).error == 25


def test_heartbeat_in_each_state():
    host = Host()
    members = completing(host)
    assert members[0].beat() == 0
    host.answers.clear()
    host.asked.clear()
    tickets = [members[1].sync(), members[0].sync()]
    assert all(host.answers[t].error == 0 for t in tickets)
    assert members[0].beat() == 0
    assert host.ask(beat("nobody", 99)).error == 25
    assert host.ask(beat(members[0].id, 99)).error == 22
    assert host.ask(beat(members[0].id, 0)).error == 22
    Member(host).join()
    assert members[0].beat() == 27
    assert host.ask(beat(members[0].id, 2)).error == 22


def test_member_validation_with_instances():
    """protocol notes 3.4."""
    host = Host()
    (static,) = stable(host, 1, instance="i")
    assert host.ask(beat(static.id, instance="unknown")).error == 25
    assert host.ask(beat("other", instance="i")).error == 82
    assert host.ask(beat(static.id, instance="i")).error == 0
    assert host.ask(beat(static.id)).error == 0, "a static member that leaves its instance id out"


def test_heartbeat_while_a_record_is_in_flight_is_answered_from_applied_state():
    host = Host()
    first, second = stable(host)
    host.hold = True
    host.send(leave(second.id))
    assert [first.beat(), second.beat()] == [0, 0]
    host.commit_all()
    assert [first.beat(), second.beat()] == [27, 25]


# LeaveGroup.


def test_leave_of_an_unknown_group_is_per_member_25():
    answer = Host().ask(leave("a", ("", "i")))
    assert (answer.error, answer.leavers) == (0, (("a", None, 25), ("", "i", 25)))
    assert Host().ask(leave("a", group="")).error == 24


def test_leave_is_in_the_log_before_it_is_answered():
    host = Host()
    first, second = stable(host)
    host.hold = True
    ticket = host.send(leave(second.id))
    assert ticket not in host.answers
    host.commit_all()
    assert host.answers[ticket].leavers == ((second.id, None, 0),)
    host.check_replicas()
    host.hold = False
    host.crash()
    assert second.beat() == 25, "a removed member came back"
    assert first.beat() == 27


def test_leave_whose_record_is_dropped_changes_nothing():
    host = Host()
    first, second = stable(host)
    host.hold = True
    ticket = host.send(leave(second.id))
    host.drop(Code.NOT_ENOUGH_REPLICAS)
    assert host.answers[ticket].error == 15
    assert [first.beat(), second.beat()] == [0, 0]


def test_leave_in_preparing_completes_the_phase_that_waited():
    host = Host()
    first, second = stable(host)
    first.join()
    host.ask(leave(second.id))
    assert first.took().generation == 2


def test_leave_in_completing_rebalances_and_parked_syncs_get_27_the_leaver_25():
    """Quirk Q5: Kafka never answers the leaver's parked sync."""
    host = Host()
    _, second, third = completing(host, 3)
    waits = [second.sync(), third.sync()]
    host.ask(leave(third.id))
    assert [host.answers[t].error for t in waits] == [27, 25]
    assert state(host) == "PreparingRebalance"


def test_leaver_that_is_parked_gets_25_without_a_member_id():
    host = Host()
    first, second = stable(host)
    first.join()
    host.ask(leave(first.id))
    answer = host.answers[first.ticket]
    assert (answer.error, answer.member) == (25, "")
    assert second.beat() == 27


def test_batch_of_leavers_is_one_record_with_an_answer_each():
    host = Host()
    members = stable(host, 3)
    static = Member(host, instance="i").join()
    for member in members:
        member.join()
    settle(host, [*members, static])
    given = host.ask(join(known=True)).member
    records = len(host.log)
    answer = host.ask(leave(members[1].id, ("", "i"), "nobody", ("", "x"), given, members[1].id, ("", None)))
    assert [code for *_, code in answer.leavers] == [0, 0, 25, 25, 0, 25, 25]
    assert answer.leavers[1][:2] == ("", "i")
    assert len(host.log) == records + 1
    assert next(v for v in host.leader.views()).members == 2


def test_leave_with_a_wrong_instance():
    host = Host()
    (static,) = stable(host, 1, instance="i")
    answer = host.ask(leave(("other", "i"), (static.id, "x")))
    assert [code for *_, code in answer.leavers] == [82, 25]
    assert host.ask(leave((static.id, "i"))).leavers[0][2] == 0
    assert state(host) == "Empty"


def test_leave_of_a_pending_id_disturbs_no_generation():
    host = Host()
    stable(host)
    given = host.ask(join(known=True)).member
    records = len(host.log)
    assert host.ask(leave(given)).leavers[0][2] == 0
    assert state(host) == "Stable"
    assert len(host.log) == records


def test_leader_that_leaves_hands_over_to_the_first_who_remains():
    """Quirk Q12."""
    host = Host()
    members = stable(host, 3)
    host.ask(leave(members[0].id))
    members[2].join()
    members[1].join()
    assert members[1].took().leads
    host.check_replicas()


def test_newcomer_that_leaves_while_parked_needs_no_record():
    host = Host()
    first, second = stable(host)
    given = host.ask(join(known=True)).member
    ticket = host.send(join(member=given, known=True))
    records = len(host.log)
    host.ask(leave(given))
    assert host.answers[ticket].error == 25
    assert len(host.log) == records
    first.join()
    second.join()
    assert {m.member for m in host.answers[first.ticket].members} == {first.id, second.id}
