"""Who counts as alive: protocol notes 3.8, invariant G14."""

from tests.groups.host import Host, Member, commit, join, leave, settle, stable, state, sync
from tests.made_settings import shard_config


def test_silent_member_is_removed_at_its_session_timeout():
    host = Host()
    quiet, live = stable(host)
    host.advance(9_000)
    assert live.beat() == 0
    host.advance(1_000)
    assert state(host) == "PreparingRebalance"
    assert quiet.beat() == 25
    assert live.beat() == 27
    host.check_replicas()


def test_heartbeat_restarts_the_session_also_when_answered_27():
    host = Host()
    first, second = stable(host)
    first.join()
    for _ in range(5):
        host.advance(9_000)
        assert second.beat() == 27
    assert state(host) == "PreparingRebalance"


def test_accepted_commit_restarts_the_session():
    host = Host()
    (member,) = stable(host, 1)
    for _ in range(5):
        host.advance(9_000)
        host.ask(commit(member.id, 1))
    assert state(host) == "Stable"


def test_refused_heartbeat_and_commit_do_not_restart_it():
    host = Host()
    (member,) = stable(host, 1)
    host.advance(9_000)
    member.generation = 0
    assert member.beat() == 22
    host.ask(commit(member.id, 0))
    host.advance(1_000)
    assert state(host) == "Empty"


def test_sync_in_stable_does_not_restart_it():
    host = Host()
    (member,) = stable(host, 1)
    host.advance(9_000)
    assert host.ask(sync(member.id)).error == 0
    host.advance(1_000)
    assert state(host) == "Empty"


def test_join_by_a_member_does_not_restart_it_but_parking_protects_it():
    host = Host()
    first, second = stable(host)
    host.advance(9_000)
    first.join()
    second.beat()
    host.advance(5_000)
    assert first.ticket not in host.answers, "parked, so its silence is ours"
    second.join()
    first.took()
    assert first.generation == 2


def test_session_starts_anew_when_the_phase_completes():
    host = Host()
    first, second = stable(host)
    host.advance(9_000)
    second.beat()
    first.join()
    host.advance(4_000)
    second.join()
    host.advance(9_999)
    assert state(host) == "CompletingRebalance"
    host.advance(1)
    assert state(host) == "Empty"


def test_parked_sync_protects_and_its_answer_restarts():
    host = Host()
    leader, follower = [Member(host).join() for _ in range(2)]
    host.advance(0)
    leader.took()
    follower.took()
    parked = follower.sync()
    host.advance(9_000)
    leader.beat()
    host.advance(8_000)
    assert parked not in host.answers
    leader.sync(((follower.id, b"x"),))
    assert host.answers[parked].assignment == b"x"
    host.advance(9_999)
    assert follower.beat() == 0


def test_new_member_parked_for_five_minutes_is_removed_with_25():
    host = Host()
    stable(host, 1, rebalance=1_800_000, session=1_800_000)
    ticket = host.send(join(rebalance=1_800_000))
    host.advance(299_999)
    assert ticket not in host.answers
    host.advance(1)
    answer = host.answers[ticket]
    assert (answer.error, answer.member) == (25, "")


def test_expiry_of_a_new_member_can_end_an_initial_phase_early():
    """Quirk Q2."""
    host = Host(shard_config(initial_rebalance_delay_ms=400_000))
    host.send(join())
    host.advance(300_000)
    assert state(host) == "Empty"
    assert next(host.leader.views()).generation == 1


def test_last_silent_member_makes_the_group_empty():
    host = Host()
    stable(host, 3)
    records = len(host.log)
    host.advance(10_000)
    assert state(host) == "Empty"
    assert len(host.log) == records + 1, "one record for all who expired together"
    host.check_replicas()


def test_expired_member_completes_the_phase_that_waited_for_it():
    host = Host()
    first, second = stable(host)
    second.beat()
    first.join()
    host.advance(10_000)
    assert first.took().generation == 2
    assert second.beat() == 25


def test_expiry_that_cannot_be_stored_is_tried_again():
    host = Host()
    stable(host, 1)
    host.hold = True
    host.advance(10_000)
    host.drop(15)
    assert not host.in_flight
    host.advance(250)
    host.commit_all()
    assert state(host) == "Empty"


def test_heartbeat_during_a_failed_expulsion_saves_the_member():
    host = Host()
    (member,) = stable(host, 1)
    host.hold = True
    host.advance(10_000)
    assert member.beat() == 0
    host.drop(15)
    host.advance(500)
    assert not host.in_flight
    assert state(host) == "Stable"


def test_paused_leader_evicts_nobody_when_it_wakes_up():
    host = Host()
    members = stable(host)
    host.mono += 60_000
    host.wall += 60_000
    host.tick()
    assert [m.beat() for m in members] == [0, 0]
    host.mono += 5_000
    host.tick()
    assert state(host) == "Stable"
    host.advance(10_000)
    assert state(host) == "Empty"


def test_left_member_leaves_no_timer_behind():
    host = Host()
    (member,) = stable(host, 1)
    host.ask(leave(member.id))
    assert not host.leader._core.lives
    host.advance(20_000)
    assert state(host) == "Empty"


def test_two_thousand_members_expire_in_one_record():
    host = Host(followers=0)
    members = [Member(host).join() for _ in range(300)]
    host.advance(0)
    settle(host, members)
    records = len(host.log)
    host.advance(10_000)
    assert len(host.log) == records + 1
