"""How long a join phase lasts: protocol notes 3.7."""

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.records.keys import encode_group_key
from muster_coordinator.records.offsets_log import GroupMetadataValue, MetadataMember, encode_group_value

from tests.groups.host import WALL, Host, Member, join, leave, settle, stable, state
from tests.made_settings import shard_config


def initial(host: Host, **how) -> Member:
    return Member(host, **how).join()


def test_a_lone_first_member_waits_the_initial_delay_only():
    host = Host(shard_config())
    member = initial(host)
    host.advance(2_999)
    assert member.ticket not in host.answers
    host.advance(1)
    assert member.took().generation == 1


def test_joins_in_each_window_extend_to_the_rebalance_timeout_and_no_further():
    host = Host(shard_config())
    members = [initial(host, rebalance=6_000)]
    host.advance(1_000)
    members.append(initial(host, rebalance=6_000))
    host.advance(3_000)
    members.append(initial(host, rebalance=6_000))
    host.advance(1_999)
    assert all(m.ticket not in host.answers for m in members)
    host.advance(1)
    assert len({m.took().generation for m in members}) == 1


def test_a_window_without_joins_ends_the_initial_phase():
    host = Host(shard_config())
    members = [initial(host)]
    host.advance(1_000)
    members.append(initial(host))
    host.advance(2_000 + 2_999)
    assert members[0].ticket not in host.answers
    host.advance(1)
    assert [m.took().generation for m in members] == [1, 1]


def test_the_cap_is_the_rebalance_timeout_known_at_the_start():
    host = Host(shard_config())
    members = [initial(host, rebalance=4_000)]
    host.advance(100)
    members.append(initial(host, rebalance=100_000))
    host.advance(3_900)
    assert [m.took().generation for m in members] == [1, 1]


def test_zero_delay_still_goes_through_the_timer():
    host = Host()
    ticket = host.send(join())
    assert ticket not in host.answers
    host.advance(0)
    assert host.answers[ticket].error == 0


def test_everybody_joining_does_not_end_an_initial_phase_early():
    host = Host(shard_config())
    members = [initial(host), initial(host)]
    host.advance(2_999)
    assert not any(m.ticket in host.answers for m in members)


def test_a_later_phase_ends_as_soon_as_all_are_there():
    host = Host(shard_config())
    members = stable(host, 3)
    for member in members:
        member.join()
    assert [m.took().generation for m in members] == [2, 2, 2]


def test_members_that_do_not_rejoin_are_dropped_at_the_largest_rebalance_timeout():
    host = Host()
    first = Member(host, rebalance=20_000, session=60_000).join()
    second = Member(host, rebalance=30_000, session=60_000).join()
    host.advance(0)
    settle(host, [first, second])
    first.join()
    host.advance(29_999)
    assert first.ticket not in host.answers
    host.advance(1)
    assert first.took().generation == 2
    assert [m.member for m in first.joined.members] == [first.id]
    assert second.beat() == 25
    host.check_replicas()


def test_absent_static_members_stay_in_the_next_generation():
    host = Host()
    static = Member(host, instance="i", session=1_000_000).join()
    dynamic = Member(host).join()
    host.advance(0)
    settle(host, [static, dynamic])
    dynamic.join(data=b"changed-")
    host.advance(60_000)
    dynamic.took()
    assert {m.member for m in host.answers[dynamic.ticket].members} == {static.id, dynamic.id}
    assert dynamic.leads


def test_only_absent_static_members_left_keeps_the_phase_open():
    host = Host()
    static = Member(host, instance="i", session=200_000, rebalance=60_000).join()
    dynamic = Member(host, session=200_000).join()
    host.advance(0)
    settle(host, [static, dynamic])
    new = Member(host).join()
    generation = static.generation
    host.advance(60_000)
    # the newcomer was parked, so it leads a generation with the absent static member
    assert new.took().generation == generation + 1
    host.ask(leave(new.id))
    assert state(host) == "PreparingRebalance"
    assert dynamic.beat() == 25
    host.advance(100_000)
    assert state(host) == "PreparingRebalance", "nobody to complete it with"
    host.advance(200_000)
    assert state(host) == "Empty"
    host.check_replicas()


def test_leader_keeps_its_role_if_it_rejoins():
    host = Host()
    first, second = stable(host)
    second.join(data=b"changed-")
    first.join()
    assert first.took().leads


def test_first_member_that_rejoined_leads_when_the_leader_does_not():
    host = Host()
    members = stable(host, 3, session=100_000)
    members[2].join(data=b"changed-")
    members[1].join()
    host.advance(60_000)
    assert members[1].took().leads, "first in order of membership, not of rejoining"
    assert members[2].took().joined.leader == members[1].id


def test_last_member_leaving_makes_the_group_empty_with_the_next_generation():
    host = Host()
    (member,) = stable(host, 1)
    assert host.ask(leave(member.id)).leavers[0][2] == 0
    view = next(host.leader.views())
    assert (view.state, view.generation, view.protocol_type, view.members) == ("Empty", 2, "consumer", 0)


def test_last_member_leaving_with_an_id_still_out_becomes_empty_at_once_too():
    host = Host()
    (member,) = stable(host, 1)
    given = host.ask(join(known=True)).member
    host.ask(leave(member.id))
    host.advance(0)
    assert state(host) == "Empty"
    ticket = host.send(join(member=given, known=True))
    host.advance(0)
    assert host.answers[ticket].generation == 3


def test_sync_timeout_removes_whoever_never_synced():
    host = Host()
    members = [Member(host, rebalance=30_000, session=100_000).join() for _ in range(3)]
    host.advance(0)
    for member in members:
        member.took()
    parked = members[1].sync()
    host.advance(29_999)
    assert state(host) == "CompletingRebalance"
    host.advance(1)
    assert host.answers[parked].error == 27
    assert state(host) == "PreparingRebalance"
    assert [m.beat() for m in members] == [25, 27, 25]


def test_sync_timeout_also_acts_in_stable():
    host = Host()
    leader, late = [Member(host, rebalance=30_000, session=100_000).join() for _ in range(2)]
    host.advance(0)
    leader.took()
    late.took()
    assert host.answers[leader.sync(((leader.id, b"x"),))].error == 0
    assert state(host) == "Stable"
    host.advance(30_000)
    assert state(host) == "PreparingRebalance"
    assert [leader.beat(), late.beat()] == [27, 25]


def test_sync_timeout_is_off_once_everybody_synced():
    host = Host()
    members = stable(host, 2, rebalance=30_000, session=100_000)
    host.advance(60_000)
    assert state(host) == "Stable"
    assert [m.beat() for m in members] == [0, 0]


def test_sync_timeout_that_removes_everybody_leaves_an_empty_group():
    host = Host()
    member = Member(host, rebalance=30_000, session=100_000).join()
    host.advance(0)
    member.took()
    host.advance(30_000)
    assert state(host) == "Empty"


def test_duration_and_count_of_rebalances_are_known():
    host = Host(shard_config())
    stable(host, 2)
    assert host.leader.stats.rebalances_completed == 1
    assert (host.leader.stats.rebalances_timed, host.leader.stats.rebalances_ms) == (1, 6_000)


def test_a_newcomer_with_a_longer_rebalance_timeout_makes_the_phase_longer():
    """Kafka asks the group's longest timeout again for each phase; one that has begun is no exception here."""
    host = Host()
    (first,) = stable(host, 1, rebalance=10_000, session=60_000)
    patient = Member(host, rebalance=30_000, session=60_000).join()
    host.advance(9_000)
    late = Member(host, rebalance=40_000, session=60_000).join()
    host.advance(30_999)
    assert patient.ticket not in host.answers
    host.advance(1)
    assert patient.took().generation == late.took().generation == 2
    assert first.beat() == Code.UNKNOWN_MEMBER_ID


def test_an_impatient_newcomer_does_not_make_the_phase_shorter():
    host = Host()
    (first,) = stable(host, 1, rebalance=20_000, session=60_000)
    hasty = Member(host, rebalance=1_000, session=60_000).join()
    host.advance(19_000)
    assert hasty.ticket not in host.answers
    assert first.join().took().generation == 2


@pytest.mark.parametrize("timeout", [0, -1, -(2**31), 1])
def test_no_rebalance_timeout_makes_a_group_turn_in_circles(timeout):
    """An absent static member and nobody parked: the phase waits for its session, and looks at most once a second."""
    host = Host()
    stable(host, 1, instance="i", rebalance=timeout, session=30_000)
    dynamic = Member(host, rebalance=timeout, session=30_000, known=True).join()
    dynamic.id = host.answers[dynamic.ticket].member
    assert dynamic.join().ticket not in host.answers, "parked: the static member is waited for"
    host.ask(leave(dynamic.id))
    turns, end = 0, host.mono + 29_000
    while host.mono < end and turns < 200:
        due = host.leader.next_deadline_ms()
        assert due is not None
        step = min(max(due - host.mono, 0), end - host.mono)
        host.mono, host.wall, turns = host.mono + step, host.wall + step, turns + 1
        host.run(host.leader.on_timer(host.now))
    assert turns < 200
    assert state(host) == "PreparingRebalance", "it waits for the static member's session"
    host.advance(2_000)
    assert state(host) == "Empty"


@pytest.mark.parametrize("stored", [0, -1, -5])
def test_a_stored_rebalance_timeout_that_is_none_is_the_session_timeout(stored):
    """Records of other brokers, and of releases that stored what the client said."""
    host = Host()
    value = GroupMetadataValue(
        "consumer", 3, "range", "m", WALL, (MetadataMember("m", None, "c", "/h", stored, 9_000, b"meta-range", b""),)
    )
    host.apply_records((encode_group_key("g"), encode_group_value(value)))
    host.hand_over()
    newcomer = Member(host).join()
    host.advance(8_999)
    assert newcomer.ticket not in host.answers
    host.advance(1)
    assert newcomer.took().generation == 4
