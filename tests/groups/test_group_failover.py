"""What survives the leader: decisions 4-7, protocol notes 3.12, invariants G2, G14, G15, B10."""

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import DeleteGroup, DescribeGroup, ListGroups, OffsetFetch

from tests.groups.host import (
    Host,
    Member,
    beat,
    code_of,
    commit,
    fetch,
    join,
    leave,
    listed,
    settle,
    stable,
    state,
    sync,
)
from tests.made_settings import shard_config


def change(host: Host, how: str) -> None:
    host.crash() if how == "crash" else host.hand_over()


@pytest.mark.parametrize("how", ["crash", "hand over"])
def test_stable_group_stays_stable_with_no_rebalance(how):
    host = Host()
    members = stable(host, 3, names=("range", "sticky"))
    change(host, how)
    assert state(host) == "Stable"
    assert [m.beat() for m in members] == [0, 0, 0]
    assert host.ask(sync(members[1].id)).assignment == b"plan-" + members[1].id.encode()
    assert host.ask(join(member=members[1].id, names=("range", "sticky"))).generation == 1, "a re-sent unchanged join"
    assert code_of(host.ask(commit(members[0].id, 1))) == 0
    assert host.leader.stats.rebalances_started == 0
    host.check_replicas()


@pytest.mark.parametrize("how", ["crash", "hand over"])
def test_members_answered_by_the_last_leader_go_on_with_their_generation(how):
    """Decision 6: CompletingRebalance is restored with its people, and the leader's plan is taken."""
    host = Host()
    leader, follower = [Member(host, names=("range", "sticky")).join() for _ in range(2)]
    host.advance(0)
    leader.took()
    follower.took()
    follower.sync()
    change(host, how)
    assert state(host) == "CompletingRebalance"
    assert [leader.beat(), follower.beat()] == [0, 0]
    again = host.ask(join(member=leader.id, names=("range", "sticky")))
    assert (again.generation, len(again.members), again.leader) == (1, 2, leader.id)
    waiting = follower.sync()
    host.ask(sync(leader.id, plan=((follower.id, b"x"),)))
    assert host.answers[waiting].assignment == b"x"
    assert state(host) == "Stable"
    host.check_replicas()


def test_generation_is_in_the_log_before_anybody_is_told():
    host = Host()
    host.hold = True
    member = Member(host).join()
    host.commit()
    host.tick()
    assert member.ticket not in host.answers
    assert state(host) == "PreparingRebalance"
    host.commit()
    assert member.took().generation == 1


def test_a_candidate_that_was_not_stored_gives_its_number_to_nobody_and_then_to_others():
    """invariant G2: no number goes to two member sets."""
    host = Host()
    members = stable(host)
    host.hold = True
    for member in members:
        member.join()
    host.commit()
    host.tick()
    assert members[0].ticket not in host.answers
    host.hold = False
    host.crash()
    assert state(host) == "PreparingRebalance"
    new = Member(host).join()
    members[0].join()
    members[1].join()
    generations = {m.took().generation for m in (*members, new)}
    assert generations == {2}


def test_a_candidate_stored_but_not_answered_is_the_generation_of_the_next_leader():
    host = Host()
    members = stable(host)
    members[1].join(data=b"changed-")
    host.hold = True
    members[0].join()
    host.commit()  # its answers never reach anybody
    host.hold = False
    host.crash()
    again = host.ask(join(member=members[0].id))
    assert (again.error, again.generation) == (0, 2)
    assert host.ask(join(member=members[1].id, data=b"changed-")).generation == 2
    Member(host).join()
    for member in members:
        member.join()
    assert [m.took().generation for m in members] == [3, 3]


def test_a_group_in_preparing_goes_on_with_its_join_phase():
    host = Host()
    first, second = stable(host)
    first.join()
    host.crash()
    assert state(host) == "PreparingRebalance"
    assert second.beat() == 27
    first.join()
    second.join()
    assert first.took().generation == 2
    assert first.leads, "the leader of the last generation"


def test_a_group_in_preparing_whose_members_stay_away_ends_by_the_timers_of_the_new_leader():
    host = Host()
    first, _ = stable(host, session=100_000)
    first.join()
    host.crash()
    first.join()
    host.advance(59_999)
    assert first.ticket not in host.answers
    host.advance(1)
    assert first.took().generation == 2
    assert len(first.joined.members) == 1


def test_a_group_in_completing_gets_the_sync_timer_of_the_new_leader():
    host = Host()
    members = [Member(host, session=100_000, rebalance=30_000).join() for _ in range(2)]
    host.advance(0)
    for member in members:
        member.took()
    host.crash()
    members[0].sync()
    host.advance(30_000)
    assert [m.beat() for m in members] == [27, 25]


def test_removed_members_never_come_back():
    """Decision 7: by leave, session expiry, sync timeout and join timeout."""
    host = Host()
    keeper = Member(host, session=1_000_000).join()
    others = [Member(host, session=1_000_000).join() for _ in range(2)]
    short = Member(host, session=6_000).join()
    host.advance(0)
    settle(host, [keeper, *others, short])
    host.ask(leave(others[0].id))
    host.crash()
    assert others[0].beat() == 25
    host.advance(6_000)
    assert short.beat() == 25
    host.crash()
    assert short.beat() == 25
    keeper.join()
    host.advance(60_000)
    assert keeper.took().generation == 2
    host.crash()
    assert [others[1].beat(), keeper.beat()] == [25, 0]


def test_new_leader_grants_full_sessions_to_all():
    host = Host()
    members = stable(host)
    host.advance(9_999)
    host.crash()
    host.advance(9_999)
    assert state(host) == "Stable"
    host.advance(1)
    assert state(host) == "Empty"
    assert members[0].beat() == 25


def test_warm_up_arms_groups_that_nobody_touches():
    host = Host()
    for n in range(30):
        stable(host, 1, f"g{n}")
    host.crash()
    host.advance(10_000)
    assert {entry.state for entry in listed(host).values()} == {"Empty"}


def test_group_above_the_size_limit_rebalances_when_loaded_and_kicks_the_late():
    """protocol notes 3.12."""
    host = Host()
    members = stable(host, 3)
    host.config = shard_config(initial_rebalance_delay_ms=0, group_max_size=2)
    for shard in host.followers:
        shard._core.config = host.config
    host.crash()
    assert state(host) == "PreparingRebalance"
    members[0].join()
    members[1].join()
    assert host.ask(join(member=members[2].id)).error == 81
    assert [m.took().generation for m in members[:2]] == [2, 2]


def test_pending_ids_die_with_their_leader():
    host = Host()
    given = host.ask(join(known=True)).member
    host.crash()
    assert host.ask(join(member=given, known=True)).error == 25


def test_first_join_phase_dies_with_its_leader_and_nobody_was_told_anything():
    host = Host(shard_config())
    member = Member(host).join()
    host.crash()
    assert state(host) == "Empty"
    member.join()
    host.advance(3_000)
    assert member.took().generation == 1


def test_resign_answers_every_open_ticket_16():
    host = Host(shard_config())
    parked = Member(host, "parked").join()
    completing = [Member(host, "completing").join() for _ in range(2)]
    host.advance(6_000)
    parked.took()
    for member in completing:
        member.took()
    new = Member(host, "parked").join()
    parked_sync = completing[1].sync()
    host.hold = True
    tickets = [
        new.ticket,
        parked_sync,
        host.send(commit(group="a")),
        host.send(DeleteGroup("a")),
        host.send(commit(group="a", offset=2)),
        host.send(join("fresh", known=True)),
        host.send(leave(parked.id, group="parked")),
        host.send(sync(parked.id, group="parked")),
    ]
    host.hand_over()
    assert [code_of(host.answers[t]) for t in tickets] == [16] * len(tickets)
    assert not host.followers[-1]._core.lives
    assert host.followers[-1].next_deadline_ms() is None


def test_late_news_of_old_proposals_is_ignored():
    host = Host()
    host.hold = True
    host.send(commit())
    host.send(commit(group="h"))
    first, second = host.in_flight
    resigned = host.leader
    host.hand_over()
    assert resigned.applied(host.now, first.token) == []
    assert resigned.dropped(host.now, second.token, Code.NOT_LEADER_OR_FOLLOWER) == []


def test_who_does_not_lead_refuses():
    host = Host()
    (effect,) = host.followers[0].handle(host.now, 1, beat("m"))
    assert effect.answer.error == 16
    for request in (OffsetFetch("g", None, False), DescribeGroup("g"), ListGroups((), ())):
        (effect,) = host.followers[0].handle(host.now, 1, request)
        assert effect.answer.error == 16


def test_generation_rises_across_every_failover_and_empty_spell():
    """invariant G2."""
    host = Host()
    seen = []
    for _ in range(4):
        members = stable(host)
        seen.append(members[0].generation)
        host.crash()
        for member in members:
            host.ask(leave(member.id))
        host.hand_over()
    assert seen == sorted(set(seen))
    assert listed(host)["g"].state == "Empty"


def test_offsets_answered_are_never_lost():
    """invariants O1, O4."""
    host = Host()
    for n in range(20):
        host.ask(commit(partition=n, offset=n))
        if n % 5 == 0:
            host.crash()
    assert [fetch(host, partition=n).offset for n in range(20)] == list(range(20))
