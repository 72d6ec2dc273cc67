"""Records in flight, and what waits behind them: decision 8, limits."""

from muster_coordinator.errors import Code
from muster_coordinator.groups import limits
from muster_coordinator.groups.requests import DescribeGroup, OffsetFetch

from tests.groups.host import Host, Member, beat, code_of, commit, fetch, join, leave, settle, stable, state
from tests.made_settings import shard_config


def test_waiting_requests_are_bounded_and_the_next_is_answered_15():
    host = Host(shard_config(initial_rebalance_delay_ms=0, waiting_requests_max=3))
    first, second = stable(host)
    host.hold = True
    host.send(leave(second.id))
    waiting = [host.send(commit(first.id, 1)) for _ in range(3)]
    refused = host.ask(commit(first.id, 1))
    assert code_of(refused) == Code.COORDINATOR_NOT_AVAILABLE
    assert host.leader.stats.requests_refused_waiting == 1
    host.commit_all()
    assert [code_of(host.answers[t]) for t in waiting] == [0, 0, 0]


def test_reads_and_heartbeats_never_wait():
    host = Host()
    first, second = stable(host)
    host.hold = True
    host.send(leave(second.id))
    host.send(commit(first.id, 1))
    assert host.ask(beat(first.id)).error == 0
    assert host.ask(OffsetFetch("g", None, False)).error == 0
    assert host.ask(DescribeGroup("g")).state == "Stable"


def test_order_of_waiting_requests_is_kept():
    host = Host()
    first, second = stable(host)
    host.hold = True
    host.send(leave(second.id))
    tickets = [host.send(commit(first.id, 1, offset)) for offset in range(10)]
    assert len(host.in_flight) == 1
    host.commit()
    assert len(host.in_flight) == 10
    host.commit_all()
    assert [t for t in host.order if t in tickets] == tickets
    assert fetch(host).offset == 9


def test_one_turn_judges_a_bounded_number_of_waiting_requests():
    host = Host()
    first, second = stable(host)
    host.hold = True
    host.send(leave(second.id))
    count = limits.GROUP_WAITING_PER_TURN + 50
    for offset in range(count):
        host.send(commit(first.id, 1, offset))
    host.commit()
    assert len(host.in_flight) == limits.GROUP_WAITING_PER_TURN
    late = host.send(commit(first.id, 1, 999))
    assert len(host.in_flight) == limits.GROUP_WAITING_PER_TURN, "overtook those who waited longer"
    host.tick()
    host.commit_all()
    assert code_of(host.answers[late]) == 0
    assert fetch(host).offset == 999


def test_second_leaver_waits_for_the_first_and_both_are_stored():
    host = Host()
    members = stable(host, 3)
    host.hold = True
    one = host.send(leave(members[1].id))
    two = host.send(leave(members[2].id))
    assert len(host.in_flight) == 1
    host.commit()
    assert one in host.answers
    assert two not in host.answers
    host.commit()
    assert host.answers[two].leavers[0][2] == 0
    assert [m.beat() for m in members] == [27, 25, 25]
    host.check_replicas()


def test_joins_during_a_candidate_in_flight_belong_to_the_next_generation():
    host = Host()
    members = stable(host)
    members[1].join(data=b"changed-")
    host.hold = True
    members[0].join()
    late = Member(host).join()
    host.commit()
    assert [m.took().generation for m in members] == [2, 2]
    assert {m.member for m in members[0].joined.members} == {m.id for m in members}
    assert late.ticket not in host.answers
    host.commit_all()
    for member in members:
        member.join()
    host.commit_all()
    assert late.took().generation == 3


def test_dropped_candidate_answers_everybody_and_the_group_rebalances_again():
    host = Host()
    members = stable(host)
    members[1].join(data=b"changed-")
    host.hold = True
    members[0].join()
    new_ids = [m.ticket for m in members]
    host.drop(Code.NOT_ENOUGH_REPLICAS)
    assert [host.answers[t].error for t in new_ids] == [15, 15]
    assert state(host) == "PreparingRebalance"
    host.hold = False
    for member in members:
        member.join()
    settle(host, members)
    assert members[0].generation == 2
    host.check_replicas()


def test_dropped_first_candidate_leaves_an_empty_group_and_usable_ids():
    host = Host()
    given = host.ask(join(known=True)).member
    ticket = host.send(join(member=given, known=True))
    host.hold = True
    host.tick()
    host.drop(Code.NOT_ENOUGH_REPLICAS)
    assert host.answers[ticket].error == 15
    assert state(host) == "Empty"
    host.hold = False
    ticket = host.send(join(member=given, known=True))
    host.advance(0)
    assert host.answers[ticket].generation == 1


def test_dropped_rebalance_leaves_the_stable_group_alone():
    host = Host()
    leader, follower = stable(host)
    host.hold = True
    new = Member(host).join()
    host.drop(Code.COORDINATOR_NOT_AVAILABLE)
    assert (host.answers[new.ticket].error, host.answers[new.ticket].member) == (15, "")
    assert state(host) == "Stable"
    assert [leader.beat(), follower.beat()] == [0, 0]


def test_dropped_sync_timeout_is_tried_again():
    host = Host()
    leader, late = [Member(host, rebalance=30_000, session=100_000).join() for _ in range(2)]
    host.advance(0)
    leader.took()
    late.took()
    leader.sync(())
    host.hold = True
    host.advance(30_000)
    host.drop(Code.COORDINATOR_NOT_AVAILABLE)
    assert state(host) == "Stable"
    host.advance(limits.APPEND_RETRY_MS)
    host.commit_all()
    assert late.beat() == 25


def test_dropped_empty_record_is_tried_again():
    host = Host(shard_config())
    ticket = host.send(join())
    host.advance(2_000)
    host.ask(leave(next(iter(host.leader._core.lives["g"].roster.members))))
    assert host.answers[ticket].error == 25
    host.hold = True
    host.advance(1_000)
    host.drop(Code.COORDINATOR_NOT_AVAILABLE)
    host.advance(limits.APPEND_RETRY_MS)
    host.commit_all()
    assert state(host) == "Empty"
    assert not host.leader._core.lives


def test_dropped_removal_of_absent_members_in_a_static_only_phase_is_tried_again():
    host = Host()
    static = Member(host, instance="i", session=1_000_000).join()
    dynamic = Member(host, session=1_000_000).join()
    host.advance(0)
    settle(host, [static, dynamic])
    new = Member(host).join()
    host.ask(leave(next(iter(host.leader._core.lives["g"].phase.parked))))
    assert host.answers[new.ticket].error == 25
    host.hold = True
    host.advance(60_000)
    assert len(host.in_flight) == 1
    host.drop(Code.COORDINATOR_NOT_AVAILABLE)
    host.advance(limits.APPEND_RETRY_MS)
    host.commit_all()
    assert [dynamic.beat(), static.beat()] == [25, 27]


def test_timers_that_fire_during_a_record_are_judged_after_it():
    host = Host()
    first, second = stable(host)
    host.advance(9_000)
    first.beat()
    host.hold = True
    host.send(commit(first.id, 1))
    joined = Member(host).join()
    assert len(host.in_flight) == 2
    host.advance(1_000)
    assert len(host.in_flight) == 2, "an expulsion overtook the record in flight"
    host.commit_all()
    host.tick()
    host.commit_all()
    assert second.beat() == 25
    assert joined.ticket not in host.answers


def test_member_heard_during_a_record_keeps_its_session():
    host = Host()
    first, second = stable(host)
    host.advance(9_000)
    first.beat()
    host.hold = True
    host.send(join())
    host.advance(1_000)
    assert second.beat() == 0
    host.commit_all()
    host.tick()
    assert second.beat() == 27


def test_queue_is_gone_when_nothing_is_in_flight():
    host = Host()
    stable(host)
    host.ask(commit(group="x"))
    assert not host.leader._core.queues
