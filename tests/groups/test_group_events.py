"""What a group's life looks like in the log: which events, in which order, with which fields (`events`)."""

from muster_coordinator.groups.requests import LeaveGroup, Leaver

from tests.groups.host import Host, Member, leave, settle, stable, state
from tests.made_settings import shard_config


def names(told: list[tuple[str, dict[str, object]]]) -> list[str]:
    return [name for name, _ in told]


def test_a_group_that_forms_is_told_from_the_first_member_to_the_assignment():
    host = Host(shard_config(initial_rebalance_delay_ms=3_000))
    first, _ = stable(host)
    assert host.told() == [
        (
            "preparing to rebalance",
            {"consumer_group": "g", "generation": 0, "members": 1, "reason": "a member joined the empty group"},
        ),
        (
            "stabilized group",
            {"consumer_group": "g", "generation": 1, "members": 2, "leader": first.id, "protocol": "range"},
        ),
        (
            "assignment received",
            {"consumer_group": "g", "generation": 1, "members": 2, "leader": first.id, "took_ms": 6_000},
        ),
    ]


def test_a_silent_member_is_named_with_where_it_came_from_and_why_it_went():
    host = Host()
    quiet, live = stable(host)
    host.told()
    host.advance(9_000)
    live.beat()
    host.advance(1_000)
    preparing, expelled = host.told()
    assert preparing[0] == "preparing to rebalance"
    assert preparing[1]["reason"] == "session expired"
    assert expelled == (
        "member expelled",
        {
            "consumer_group": "g",
            "generation": 1,
            "member": quiet.id,
            "instance": None,
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "reason": "session expired",
        },
    )


def test_the_last_members_are_expelled_before_the_group_is_told_to_be_empty():
    host = Host()
    stable(host)
    host.told()
    host.advance(10_000)
    assert state(host) == "Empty"
    told = host.told()
    assert names(told) == ["member expelled", "member expelled", "group is empty"]
    assert told[-1][1] == {"consumer_group": "g", "generation": 2, "reason": "session expired"}


def test_who_leaves_is_told_with_its_own_reason():
    host = Host()
    first, second = stable(host)
    host.told()
    host.ask(LeaveGroup("g", (Leaver(second.id, None, "the consumer is being closed"),)))
    told = host.told()
    assert names(told) == ["preparing to rebalance", "member left"]
    assert [fields["reason"] for _, fields in told] == ["the consumer is being closed"] * 2
    assert told[1][1]["member"] == second.id
    host.ask(leave(first.id))
    assert names(host.told()) == ["member left", "group is empty"]


def test_who_does_not_join_again_in_time_is_expelled_with_the_generation_that_begins():
    host = Host()
    leader, absent, third = stable(host, 3)
    host.told()
    third.join(data=b"other-")
    leader.join()
    for _ in range(12):
        host.advance(4_900)
        absent.beat()
    host.advance(4_900)
    settle(host, [leader, third])
    told = host.told()
    assert names(told) == ["preparing to rebalance", "member expelled", "stabilized group", "assignment received"]
    assert (told[1][1]["member"], told[1][1]["reason"]) == (absent.id, "join phase timed out")


def test_a_static_member_that_comes_back_is_told_and_nothing_else():
    host = Host()
    (member,) = stable(host, 1, instance="pod-0")
    before = member.id
    host.told()
    member.id = ""
    member.join().took()
    ((name, fields),) = host.told()
    assert name == "static member replaced"
    assert (fields["instance"], fields["replaced"], fields["member"]) == ("pod-0", before, member.id)


def test_a_member_that_only_waits_is_told_when_it_goes():
    host = Host(shard_config(initial_rebalance_delay_ms=3_000))
    waiting = Member(host).join()
    (member,) = host.leader._core.lives["g"].roster.members
    assert waiting.ticket not in host.answers
    host.ask(leave(member))
    assert names(host.told()) == ["preparing to rebalance", "member left"]


def test_an_append_that_is_lost_tells_nothing():
    host = Host()
    quiet, live = stable(host)
    host.told()
    host.hold = True
    host.send(leave(quiet.id))
    assert host.told() == []
    host.crash()
    host.hold = False
    assert host.told() == []
    assert live.beat() == 0
    host.ask(leave(quiet.id))
    assert names(host.told()) == ["preparing to rebalance", "member left"]
