"""DescribeGroups, ListGroups and the views for metrics: protocol notes 3.13."""

from dataclasses import fields

from muster_coordinator.groups import limits
from muster_coordinator.groups.requests import DescribeGroup, ListGroups
from muster_coordinator.groups.stats import ShardStats, summed

from tests.groups.host import Host, Member, commit, join, leave, listed, settle, stable, sync
from tests.made_settings import shard_config


def describe(host: Host, group: str = "g"):
    return host.ask(DescribeGroup(group))


def test_unknown_group_is_dead_and_not_known():
    answer = describe(Host())
    assert (answer.error, answer.state, answer.known, answer.members) == (0, "Dead", False, ())


def test_stable_group_is_described_in_full():
    host = Host()
    leader, follower = stable(host, names=("range", "sticky"))
    answer = describe(host)
    assert (answer.state, answer.protocol_type, answer.protocol, answer.generation) == (
        "Stable", "consumer", "range", 1,
    )  # fmt: skip
    assert [m.member for m in answer.members] == [leader.id, follower.id]
    member = answer.members[0]
    assert (member.client_id, member.client_host, member.instance) == ("c", "/127.0.0.1", None)
    assert (member.metadata, member.assignment) == (b"meta-range", b"plan-" + leader.id.encode())


def test_other_states_show_members_without_bytes():
    host = Host(shard_config())
    member = Member(host).join()
    for state in ("PreparingRebalance", "CompletingRebalance"):
        answer = describe(host)
        assert (answer.state, answer.protocol, len(answer.members)) == (state, "", 1)
        assert (answer.members[0].metadata, answer.members[0].assignment) == (b"", b"")
        assert answer.protocol_type == "consumer"
        host.advance(3_000)
    member.took()


def test_the_last_assignments_are_shown_while_the_group_rebalances():
    """Kafka's describeNoMetadata hides the metadata and nothing else."""
    host = Host()
    leader, follower = stable(host)
    plan = {m.id: b"plan-" + m.id.encode() for m in (leader, follower)}
    leader.join(data=b"other-")
    for _ in range(2):
        answer = describe(host)
        assert (answer.state, answer.protocol) == ("PreparingRebalance", "")
        assert {m.member: (m.metadata, m.assignment) for m in answer.members} == {
            member: (b"", held) for member, held in plan.items()
        }
        host.hand_over()  # the next leader has it from the log
    leader.join()
    follower.join()
    answer = describe(host)
    assert answer.state == "CompletingRebalance"
    assert {m.member: m.assignment for m in answer.members} == plan
    host.check_replicas()


def test_assignments_without_room_in_the_record_of_a_rebalance_are_left_out():
    host = Host(shard_config(initial_rebalance_delay_ms=0, group_stored_bytes_max=4_096))
    member = Member(host, data=b"m" * 1_500).join()
    host.advance(0)
    member.took()
    assert host.ask(sync(member.id, 1, plan=((member.id, b"a" * 2_000),))).error == 0
    assert describe(host).members[0].assignment == b"a" * 2_000
    Member(host, data=b"m" * 1_000).join()
    assert describe(host).members[0].assignment == b"a" * 2_000
    member.join()
    answer = describe(host)
    assert (answer.state, [m.assignment for m in answer.members]) == ("CompletingRebalance", [b"", b""])
    host.check_replicas()


def test_empty_and_simple_groups():
    host = Host()
    (member,) = stable(host, 1)
    host.ask(leave(member.id))
    host.ask(commit(group="s"))
    empty, simple = describe(host), describe(host, "s")
    assert (empty.state, empty.protocol_type, empty.protocol, empty.members) == ("Empty", "consumer", "", ())
    assert (simple.state, simple.protocol_type, simple.known) == ("Empty", "", True)


def test_the_last_rebalance_has_its_end_and_its_cause():
    host = Host()
    leader, follower = stable(host)
    first = describe(host)
    assert first.rebalanced_at_ms == host.wall
    assert first.rebalance_reason == "a member joined the empty group"
    host.advance(5_000)
    assert describe(host).rebalanced_at_ms == first.rebalanced_at_ms, "nothing has happened"

    host.ask(leave(follower.id))
    under_way = describe(host)
    assert (under_way.state, under_way.rebalanced_at_ms) == ("PreparingRebalance", None)
    assert under_way.rebalance_reason == "left"
    host.ask(leave(leader.id))
    over = describe(host)
    assert (over.state, over.rebalanced_at_ms) == ("Empty", host.wall)


def test_a_static_member_that_comes_back_is_no_rebalance():
    host = Host()
    members = [Member(host, instance=f"i{n}").join() for n in range(2)]
    host.advance(0)
    settle(host, members)
    before = describe(host)
    host.advance(5_000)
    assert host.ask(join(instance="i1")).error == 0
    after = describe(host)
    assert (after.state, after.generation) == ("Stable", before.generation)
    assert after.members[1].member != before.members[1].member
    assert after.rebalanced_at_ms == before.rebalanced_at_ms


def test_another_leader_knows_when_and_not_why():
    host = Host()
    stable(host)
    before = describe(host)
    host.crash()
    after = describe(host)
    assert (after.rebalanced_at_ms, after.rebalance_reason) == (before.rebalanced_at_ms, None)


def test_a_group_that_never_had_a_generation_never_rebalanced():
    host = Host()
    host.ask(commit(group="s"))
    for group in ("s", "unknown"):
        assert (describe(host, group).rebalanced_at_ms, describe(host, group).rebalance_reason) == (None, None)


def test_list_and_its_filters():
    host = Host()
    stable(host, 1, "live")
    host.ask(commit(group="simple"))
    assert {g: (e.state, e.protocol_type, e.type) for g, e in listed(host).items()} == {
        "live": ("Stable", "consumer", "classic"),
        "simple": ("Empty", "", "classic"),
    }
    assert listed(host, "stable").keys() == {"live"}
    assert listed(host, "STABLE", "empty").keys() == {"live", "simple"}
    assert listed(host, "nonsense") == {}
    assert listed(host, types=("classic",)).keys() == {"live", "simple"}
    assert listed(host, types=("Classic", "consumer")).keys() == {"live", "simple"}
    assert listed(host, types=("consumer",)) == {}


def test_a_long_list_takes_several_turns_and_misses_nothing():
    host = Host(followers=0)
    count = 2 * limits.GROUP_SLICE_WORK + 10
    for n in range(count):
        host.ask(commit(group=f"g{n}"))
    ticket = host.send(ListGroups((), ()))
    assert ticket not in host.answers
    assert host.leader.next_deadline_ms() <= host.mono
    host.tick()
    assert len(host.answers[ticket].groups) == count


def test_list_in_slices_is_answered_on_resign():
    host = Host()
    for n in range(limits.GROUP_SLICE_WORK + 10):
        host.ask(commit(group=f"g{n}"))
    ticket = host.send(ListGroups((), ()))
    host.hand_over()
    assert host.answers[ticket].error == 16


def test_views_on_leader_and_follower():
    host = Host()
    members = stable(host, 2, "live")
    host.ask(commit(members[0].id, 1, group="live"))
    host.ask(commit(group="simple"))
    follower = host.followers[0]
    expected = {
        ("live", "classic", "Stable", 1, 2, "consumer", "range", 1),
        ("simple", "simple", "Empty", 0, 0, "", "", 1),
    }
    assert set(host.leader.views()) == set(follower.views()) == expected


def test_every_counter_is_in_the_sum_of_all_shards():
    names = [field.name for field in fields(ShardStats)]
    one = ShardStats(**{name: place for place, name in enumerate(names, 1)})
    total = summed([one, one])
    assert {name: getattr(total, name) for name in names} == {name: 2 * place for place, name in enumerate(names, 1)}
    assert summed([]) == ShardStats()
