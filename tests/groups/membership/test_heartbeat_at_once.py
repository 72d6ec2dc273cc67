"""When a heartbeat may be answered at once, and that its session is restarted by it. `host.Host` compares the short
way with the long one at every heartbeat of every other test of groups."""

from muster_coordinator.errors import Code
from muster_coordinator.groups.live.deadlines import Deadlines, Timer, TimerKind

from tests.groups.host import Host, Member, beat, leave, stable


def at_once(host: Host, member: Member, *, generation: int | None = None, instance: str | None = None) -> Code | None:
    return host.leader.heartbeat_at_once(
        host.mono, beat(member.id, member.generation if generation is None else generation, instance=instance)
    )


def test_a_member_of_a_stable_group_and_of_one_that_rebalances() -> None:
    host = Host()
    members = stable(host)
    assert at_once(host, members[0]) is Code.NONE
    Member(host).join()
    assert at_once(host, members[0]) is Code.REBALANCE_IN_PROGRESS


def test_whatever_else_there_is_to_say_takes_the_long_way() -> None:
    host = Host()
    member = stable(host, 1)[0]
    assert at_once(host, member, generation=member.generation + 1) is None
    assert at_once(host, member, instance="nobody") is None
    assert host.leader.heartbeat_at_once(host.mono, beat("nobody")) is None
    assert host.leader.heartbeat_at_once(host.mono, beat(member.id, group="")) is None
    host.ask(leave(member.id))
    assert at_once(host, member) is None


def test_a_static_member_that_was_replaced_is_not_answered_at_once() -> None:
    host = Host()
    old = stable(host, 1, instance="pod-0")[0]
    assert at_once(host, old, instance="pod-0") is Code.NONE
    new = Member(host, instance="pod-0").join()
    assert new.took().id != old.id
    assert at_once(host, old, instance="pod-0") is None


def test_a_follower_and_a_leader_that_resigned_answer_nothing_at_once() -> None:
    host = Host()
    member = stable(host, 1)[0]
    assert host.followers[0].heartbeat_at_once(host.mono, beat(member.id, member.generation)) is None
    host.hand_over()
    assert host.followers[-1].heartbeat_at_once(host.mono, beat(member.id, member.generation)) is None


def test_a_member_that_only_repeats_itself_stays_and_one_that_stops_is_gone() -> None:
    host = Host()
    member = stable(host, 1)[0]
    for _ in range(5):
        host.advance(9_000)
        assert at_once(host, member) is Code.NONE
    host.advance(9_999)
    assert at_once(host, member) is Code.NONE
    host.advance(10_001)
    assert at_once(host, member) is None


def test_a_timer_is_postponed_only_when_armed_and_never_made_earlier() -> None:
    deadlines, timer = Deadlines(), Timer(TimerKind.SESSION)
    assert not deadlines.postpone(timer, 10)
    assert timer.at_ms is None
    deadlines.arm(timer, 10)
    assert not deadlines.postpone(timer, 9)
    assert timer.at_ms == 10
    assert deadlines.postpone(timer, 30)
    assert list(deadlines.due(29, 9)) == []
    assert list(deadlines.due(30, 9)) == [timer]
    assert not deadlines.postpone(timer, 40), "it fired"
