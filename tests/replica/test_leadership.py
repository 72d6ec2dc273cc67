"""Where leaders are: hand-over, drain marks, take-back, stuck disks, stalls, one-sided losses."""

import pytest
from muster_coordinator.controller.commands import CreateTopic, SetDraining
from muster_coordinator.errors import Code
from muster_coordinator.events import TRANSFER_STARTED, WAL_SLOW
from muster_coordinator.groups.requests import Heartbeat, JoinGroup, JoinGroupAnswer, Protocol, SyncGroup
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import COORDINATOR_LOOKUP_WAIT_MS
from muster_coordinator.raft import limits as raft_limits
from muster_coordinator.raft.messages import Role
from muster_coordinator.replica import limits as replica_limits
from muster_coordinator.replica.maintenance import preferred

from tests.replica.cluster import SimCluster, commit_request
from tests.sim.loop import Latency, World

GROUP = GroupNo(1)
SESSION_MS = 10_000


def join_request(group: str = "g", member: str = "") -> JoinGroup:
    return JoinGroup(
        group=group,
        member=member,
        instance=None,
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(Protocol("range", b""),),
        reason="",
        requires_known_member=False,
        supports_skip_assignment=True,
    )


def stable_member(cluster: SimCluster, leader: int) -> Heartbeat:
    """The one member of group "g" in partition 0."""
    answer = cluster.ask(leader, 0, join_request())
    assert isinstance(answer, JoinGroupAnswer)
    sync = SyncGroup(
        group="g",
        generation=answer.generation,
        member=answer.member,
        instance=None,
        protocol_type="consumer",
        protocol="range",
        assignments=((answer.member, b"plan"),),
    )
    assert cluster.ask(leader, 0, sync).error == Code.NONE
    return Heartbeat("g", answer.generation, answer.member, None)


def others_of(cluster: SimCluster, broker: int) -> list[int]:
    return [other for other in cluster.nodes if other != broker]


def test_a_transfer_moves_leadership_without_losing_a_commit() -> None:
    cluster = SimCluster(World(1))
    cluster.start()
    old = cluster.wait_leader(1)
    target = others_of(cluster, old)[0]
    assert cluster.commit(old, 0, "g", 1) == Code.NONE
    flying = [cluster.ask_later(old, 0, commit_request("g", 2 + n)) for n in range(20)]
    assert cluster.nodes[old].transfer(GROUP, BrokerId(target))
    during = cluster.ask_later(old, 0, commit_request("g", 100))
    began_us = cluster.world.now_us
    cluster.world.run_until("the target leads", lambda: cluster.leader_of(1) == target, 3_000)
    assert (cluster.world.now_us - began_us) / 1000 < 150
    cluster.world.run_until("answers", lambda: all(flying) and during, 3_000)
    assert {a[0].topics[0][1][0][1] for a in flying} == {Code.NONE}, "what was proposed before is committed first"
    assert during[0].topics[0][1][0][1] == Code.NOT_COORDINATOR
    assert cluster.nodes[old].leadership(GROUP).leader == target, "who was refused is told the right one next"
    assert cluster.fetch(target, 0, "g") == (Code.NONE, 21)


def test_parked_joins_are_answered_when_the_new_leader_is_known() -> None:
    cluster = SimCluster(World(2))
    cluster.start()
    old = cluster.wait_leader(1)
    target = others_of(cluster, old)[0]
    first = cluster.ask(old, 0, join_request())
    assert isinstance(first, JoinGroupAnswer)
    assert first.error == Code.NONE
    waiting = cluster.ask_later(old, 0, join_request())  # a rebalance: waits for the first member
    cluster.world.run_for(100)
    assert not waiting
    known: list[int | None] = []
    cluster.nodes[old].transfer(GROUP, BrokerId(target))
    cluster.world.run_until("the parked join is answered", lambda: waiting, 3_000)
    known.append(cluster.nodes[old].leadership(GROUP).leader)
    assert waiting[0].error == Code.NOT_COORDINATOR
    assert known == [target]


def test_requests_to_a_leader_that_may_not_serve_yet_wait_for_its_no_op() -> None:
    cluster = SimCluster(World(3))
    cluster.start()
    old = cluster.wait_leader(1)
    others = others_of(cluster, old)
    cluster.kill(old)

    def led_not_serving() -> int | None:
        for broker in others:
            group = cluster.nodes[broker].host.groups[GROUP]
            if group.leads and not group.serves:
                return broker + 1
        return None

    new = cluster.world.run_until("somebody was elected", led_not_serving, 3_000) - 1
    parked = cluster.ask_later(new, 0, commit_request("g", 5))
    assert not parked
    cluster.world.run_until("served", lambda: parked, 1_000)
    assert parked[0].topics[0][1][0][1] == Code.NONE


def test_a_leader_that_never_gets_to_serve_answers_15_after_a_second() -> None:
    cluster = SimCluster(World(4))
    cluster.start()
    old = cluster.wait_leader(1)
    others = others_of(cluster, old)
    cluster.kill(old)
    new = cluster.world.run_until(
        "somebody was elected",
        lambda: next((b + 1 for b in others if cluster.nodes[b].host.groups[GROUP].leads), None),
        3_000,
    )
    new -= 1
    cluster.net.isolate(new)
    if not cluster.nodes[new].host.groups[GROUP].serves:
        parked = cluster.ask_later(new, 0, commit_request("g", 5))
        began = cluster.world.now_us
        cluster.world.run_until("an answer", lambda: parked, 5_000)
        assert (cluster.world.now_us - began) / 1000 <= replica_limits.PARK_MS_MAX + COORDINATOR_LOOKUP_WAIT_MS + 200
        assert parked[0].topics[0][1][0][1] in (Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)


def test_the_preferred_leader_takes_back_after_its_time_and_not_while_draining() -> None:
    cluster = SimCluster(World(5), partitions=6, takeback_ms=5_000)
    cluster.start()
    cluster.world.run_for(3_000)
    before = {p: cluster.leader_of(1 + p) for p in range(6)}
    victim = before[0]
    assert victim is not None
    cluster.kill(victim)
    for p in range(6):
        cluster.wait_leader(1 + p)
    cluster.restart(victim)
    cluster.wait_ready()
    mark = SetDraining(broker=BrokerId(victim), draining=True)
    assert cluster.submit(others_of(cluster, victim)[0], mark).error == Code.NONE
    cluster.world.run_for(15_000)
    assert all(cluster.leader_of(1 + p) != victim for p in range(6)), "a draining replica gets nothing"
    unmark = SetDraining(broker=BrokerId(victim), draining=False)
    assert cluster.submit(others_of(cluster, victim)[0], unmark).error == Code.NONE
    cluster.world.run_for(20_000)
    assert {p: cluster.leader_of(1 + p) for p in range(6)} == before


NEVER_MS = 3_600_000


def without_its_leaderships(partitions: int) -> tuple[SimCluster, int, dict[int, int | None]]:
    """A replica that was away and is back, and who led before; by itself leadership would return after an hour."""
    cluster = SimCluster(World(5), partitions=partitions, takeback_ms=NEVER_MS)
    cluster.start()
    cluster.world.run_for(3_000)
    before = {p: cluster.leader_of(1 + p) for p in range(partitions)}
    victim = before[0]
    assert victim is not None
    cluster.kill(victim)
    for p in range(partitions):
        cluster.wait_leader(1 + p)
    cluster.restart(victim)
    cluster.wait_ready()
    cluster.world.run_for(3_000)
    assert all(cluster.leader_of(1 + p) != victim for p in range(partitions))
    return cluster, victim, before


def test_a_wanted_election_moves_leadership_whichever_replica_is_asked() -> None:
    """The leader itself, the one that is to lead, and a third."""
    cluster, _, before = without_its_leaderships(60)
    moved = [p for p, leader in before.items() if cluster.leader_of(1 + p) != leader]
    assert len(moved) > preferred.ELECTIONS_AT_ONCE // 2
    for p in moved:
        cluster.nodes[p % 3].elect_preferred(GroupNo(1 + p))
    cluster.world.run_for(1_000)
    assert {p: cluster.leader_of(1 + p) for p in before} == before


def test_of_many_wanted_elections_a_leader_holds_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody serves a group while it changes hands."""
    monkeypatch.setattr(preferred, "ELECTIONS_AT_ONCE", 2)
    cluster, victim, before = without_its_leaderships(60)
    moved = [p for p, leader in before.items() if leader == victim]
    for p in moved:
        cluster.nodes[victim].elect_preferred(GroupNo(1 + p))
    most = 0
    for _ in range(10_000):
        cluster.world.step()
        for node in cluster.nodes.values():
            most = max(most, sum(group.transferring for group in node.host.groups.values()))
    cluster.world.run_for(2_000)
    assert most == 2
    assert {p: cluster.leader_of(1 + p) for p in before} == before


def test_a_wanted_election_waits_for_a_preferred_replica_that_is_fit_and_not_for_ever() -> None:
    cluster, victim, before = without_its_leaderships(6)
    other = others_of(cluster, victim)[0]

    def drains(*, draining: bool) -> None:
        mark = SetDraining(broker=BrokerId(victim), draining=draining)
        assert cluster.submit(other, mark).error == Code.NONE
        cluster.world.run_for(500)  # all replicas know it

    drains(draining=True)
    cluster.nodes[other].elect_preferred(GroupNo(1))
    cluster.world.run_for(preferred.ELECTION_MS_MAX / 2)
    assert cluster.leader_of(1) != victim
    drains(draining=False)
    cluster.world.run_for(1_000)
    assert cluster.leader_of(1) == victim

    late = next(p for p, leader in before.items() if p and leader == victim)
    drains(draining=True)
    cluster.nodes[other].elect_preferred(GroupNo(1 + late))
    cluster.world.run_for(preferred.ELECTION_MS_MAX + 1_000)
    drains(draining=False)
    cluster.world.run_for(5_000)
    assert cluster.leader_of(1 + late) != victim, "it was given up"


def test_a_wanted_election_of_what_is_not_here_or_not_led_is_nothing() -> None:
    cluster, victim, _ = without_its_leaderships(6)
    other = others_of(cluster, victim)[0]
    formed = cluster.nodes[victim].formed
    assert formed is not None
    formed.preferred.asked(GroupNo(999))
    formed.preferred.asked(GroupNo(1))
    cluster.nodes[other].elect_preferred(GroupNo(999))
    cluster.world.run_for(1_000)
    assert cluster.leader_of(1) != victim, "only its leader hands over"
    assert formed.preferred._asked == {}


def test_a_slow_replica_still_gets_the_new_partitions_that_are_meant_for_it() -> None:
    """It needs 2.5 s to make them; the others would have elected one of themselves after one or two."""
    cluster = SimCluster(World(31))
    cluster.start()
    controller = cluster.wait_leader(0)
    slow = others_of(cluster, controller)[0]
    cluster.loops[slow].pause()
    created = cluster.submit(controller, CreateTopic(name="t", topic_id=bytes([1]) * 16, partitions=9, configs=()))
    assert created.error == Code.NONE
    cluster.world.run_for(2_500)
    cluster.loops[slow].resume()
    groups = [p.group for p in cluster.nodes[controller].image().topics["t"].partitions]
    leaders = [cluster.wait_leader(group) for group in groups]
    meant = [cluster.nodes[controller].host.groups[group].voters[group % 3] for group in groups]
    assert slow in meant
    assert leaders == meant


def test_new_partitions_of_a_dead_replica_have_a_leader_as_soon_as_ever() -> None:
    cluster = SimCluster(World(32))
    cluster.start()
    controller = cluster.wait_leader(0)
    dead = others_of(cluster, controller)[0]
    cluster.kill(dead)
    cluster.world.run_for(3_000)
    alive = cluster.wait_leader(0)
    created = cluster.submit(alive, CreateTopic(name="t", topic_id=bytes([1]) * 16, partitions=9, configs=()))
    assert created.error == Code.NONE
    began_us = cluster.world.now_us
    for partition in cluster.nodes[alive].image().topics["t"].partitions:
        cluster.wait_leader(partition.group)
    assert cluster.world.now_us - began_us < 4_000_000


def test_a_restart_clears_the_draining_mark() -> None:
    cluster = SimCluster(World(6))
    cluster.start()
    assert cluster.submit(0, SetDraining(broker=BrokerId(2), draining=True)).error == Code.NONE
    cluster.kill(2)
    cluster.restart(2)
    cluster.wait_ready()
    cluster.world.run_for(500)
    assert not cluster.nodes[0].image().brokers[BrokerId(2)].draining


def test_a_leader_with_a_stuck_disk_loses_leadership() -> None:
    """Heartbeats stop, it steps down from everything, and the others elect (raft rule 16)."""
    cluster = SimCluster(World(7))
    cluster.start()
    old = cluster.wait_leader(1)
    cluster.loops[old].latency["wal-offsets"] = Latency(60_000_000, 60_000_000)
    stuck = cluster.ask_later(old, 0, commit_request("g", 1))
    others = others_of(cluster, old)
    new = cluster.wait_leader(1, among=others, ms=5_000)
    assert cluster.commit(new, 0, "g", 2) == Code.NONE
    assert not any(group.core.role is Role.LEADER for group in cluster.nodes[old].host.groups.values())
    assert stuck[0].topics[0][1][0][1] in (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE)


def since_stuck(cluster: SimCluster, old: BrokerId, group: int) -> float:
    """Milliseconds until another one serves the group."""
    began_us = cluster.world.now_us
    cluster.wait_leader(group, among=others_of(cluster, old), ms=5_000)
    return (cluster.world.now_us - began_us) / 1_000


def test_what_waits_for_a_slow_disk_is_handed_over_within_a_second() -> None:
    """Another's disk has taken what this one has not: it leads before this replica is taken for stuck."""
    for seed in range(5):
        cluster = SimCluster(World(f"slow/{seed}"))
        cluster.start()
        assert cluster.commit(cluster.wait_leader(1), 0, "g", 1) == Code.NONE
        old = cluster.wait_leader(1)
        cluster.loops[old].latency["wal-offsets"] = Latency(60_000_000, 60_000_000)
        cluster.ask_later(old, 0, commit_request("g", 2))
        assert since_stuck(cluster, old, 1) < 1_000
        assert [told["target"] for told in cluster.told(TRANSFER_STARTED) if told["raft_group"] == 1]
        (slow,) = cluster.told(WAL_SLOW, old)
        assert slow["wal"] == "wal-offsets"
        assert 750 <= int(str(slow["running_ms"])) < 1_000
        new = cluster.wait_leader(1, among=others_of(cluster, old))
        assert cluster.fetch(new, 0, "g")[1] in (1, 2)
        assert cluster.commit(new, 0, "g", 3) == Code.NONE


def test_who_is_stuck_names_an_heir_for_what_waits_for_nothing() -> None:
    """Groups without writes, of which nobody can know more: their next leader comes by no election timeout."""
    for seed in range(5):
        cluster = SimCluster(World(f"idle/{seed}"), partitions=9)
        cluster.start()
        cluster.world.run_for(3_000)
        old = cluster.wait_leader(1)
        led = [n for n in range(2, 10) if cluster.leader_of(n) == old]
        assert led
        cluster.loops[old].latency["wal-offsets"] = Latency(60_000_000, 60_000_000)
        cluster.ask_later(old, 0, commit_request("g", 2))
        assert max([since_stuck(cluster, old, group) for group in led]) < 1_500
        assert not [told for told in cluster.told(TRANSFER_STARTED) if told["raft_group"] in led]


def test_a_stall_of_all_disks_moves_nothing() -> None:
    cluster = SimCluster(World("all"))
    cluster.start()
    cluster.world.run_for(3_000)
    old = cluster.wait_leader(1)
    term = cluster.nodes[old].host.groups[GroupNo(1)].core.term
    for loop in cluster.loops.values():
        loop.latency["wal-offsets"] = Latency(950_000, 950_000)
    answers = cluster.ask_later(old, 0, commit_request("g", 2))
    cluster.world.run_for(900)
    assert not answers
    cluster.world.run_until("answered", lambda: bool(answers), 3_000)
    assert answers[0].topics[0][1][0][1] == Code.NONE
    assert (cluster.leader_of(1), cluster.nodes[old].host.groups[GroupNo(1)].core.term) == (old, term)
    assert not cluster.told(TRANSFER_STARTED)
    assert [len(cluster.told(WAL_SLOW, broker)) for broker in range(3)] == [1, 1, 1]


def test_a_freeze_of_a_leader_is_not_taken_for_a_slow_disk() -> None:
    """Its write ended meanwhile, and nobody could say so: others hold what waits, and are not to lead for that. A
    worker thread tells its result after the timers that came due in the freeze."""
    for seed in range(5):
        cluster = SimCluster(World(f"freeze/{seed}"))
        cluster.start()
        cluster.world.run_for(3_000)
        old = cluster.wait_leader(1)
        term = cluster.nodes[old].host.groups[GroupNo(1)].core.term
        cluster.loops[old].latency["wal-offsets"] = Latency(920_000, 920_000)
        answers = cluster.ask_later(old, 0, commit_request("g", 1))
        cluster.world.run_for(10)
        cluster.loops[old].latency.clear()
        cluster.loops[old].pause()
        cluster.world.run_for(900)
        cluster.loops[old].resume()
        cluster.world.run_until("answered", lambda here=answers: bool(here), 100)
        assert answers[0].topics[0][1][0][1] == Code.NONE
        cluster.world.run_for(2_000)
        assert (cluster.leader_of(1), cluster.nodes[old].host.groups[GroupNo(1)].core.term) == (old, term)
        assert not cluster.told(TRANSFER_STARTED)
        assert not cluster.told(WAL_SLOW)


def test_no_write_is_excused_for_longer_than_it_runs() -> None:
    """One that began as a freeze of five seconds ended is told in time all the same."""
    cluster = SimCluster(World("excused"))
    cluster.start()
    old = cluster.wait_leader(1)
    cluster.world.run_for(3_000)
    (wal_writer,) = (each for each in cluster.nodes[old].host.wal_writers if each.name == "wal-offsets")
    cluster.loops[old].latency["wal-offsets"] = Latency(60_000_000, 60_000_000)
    cluster.ask_later(old, 0, commit_request("g", 1))
    cluster.world.run_until("it writes", lambda: wal_writer.stuck_ms(cluster.loops[old].monotonic_ms()) > 0, 100)
    wal_writer.excuse(cluster.loops[old].monotonic_ms(), 5_000)
    cluster.world.run_until("it is told", lambda: bool(cluster.told(WAL_SLOW, old)), 1_000)


def test_a_paused_leader_does_not_answer_old_state_when_it_wakes() -> None:
    cluster = SimCluster(World(8))
    cluster.start()
    old = cluster.wait_leader(1)
    assert cluster.commit(old, 0, "g", 1) == Code.NONE
    cluster.loops[old].pause()
    new = cluster.wait_leader(1, among=others_of(cluster, old), ms=10_000)
    assert cluster.commit(new, 0, "g", 2) == Code.NONE
    cluster.loops[old].resume()
    error, offset = cluster.fetch(old, 0, "g")
    assert (error, offset) in ((Code.NOT_COORDINATOR, -1), (Code.COORDINATOR_NOT_AVAILABLE, -1))
    cluster.converge()


def test_a_short_stall_of_a_follower_costs_no_election() -> None:
    """Input that has arrived is taken before overdue time-outs fire."""
    cluster = SimCluster(World(9))
    cluster.start()
    cluster.world.run_for(2_000)
    leader = cluster.wait_leader(1)
    terms = {n: cluster.nodes[0].host.groups[GroupNo(n)].core.term for n in range(4)}
    for other in others_of(cluster, leader):
        cluster.loops[other].pause()
        cluster.world.run_for(700)
        cluster.loops[other].resume()
        cluster.world.run_for(2_000)
    assert {n: cluster.nodes[leader].host.groups[GroupNo(n)].core.term for n in range(4)} == terms


def test_a_stall_of_all_replicas_costs_no_election() -> None:
    """As of a machine that gets no processor: nobody was heard meanwhile, since nobody spoke. They come round one after
    the other, within less than a heartbeat."""
    for seed in range(8):
        world = World(f"stall/{seed}")
        cluster = SimCluster(world)
        cluster.start()
        world.run_for(2_000)
        terms = [[group.core.term for group in node.host.groups.values()] for node in cluster.nodes.values()]
        leaders = [cluster.leader_of(number) for number in range(4)]
        for loop in cluster.loops.values():
            loop.pause()
            world.at(world.now_us + 1_000 * (3_000 + world.rand.randrange(80)), loop.resume)
        world.run_for(6_000)
        assert [[group.core.term for group in node.host.groups.values()] for node in cluster.nodes.values()] == terms
        assert [cluster.leader_of(number) for number in range(4)] == leaders


def test_a_lost_link_between_two_replicas_moves_no_leader_that_the_third_still_hears() -> None:
    """Pre-vote makes a one-sided loss harmless for the term (decision 17)."""
    cluster = SimCluster(World(10))
    cluster.start()
    cluster.world.run_for(2_000)
    leader = cluster.wait_leader(1)
    term = cluster.nodes[leader].host.groups[GROUP].core.term
    follower, third = others_of(cluster, leader)
    cluster.net.cut(leader, follower)
    cluster.net.cut(follower, leader)
    cluster.net.reset(leader, follower)
    cluster.world.run_for(5_000)
    assert cluster.leader_of(1, [leader, third]) == leader
    assert cluster.nodes[leader].host.groups[GROUP].core.term == term
    assert cluster.commit(leader, 0, "g", 3) == Code.NONE


def test_sessions_expire_only_at_a_leader_that_hears_a_quorum() -> None:
    """A session ends while its leader hears nobody and has not found that out by its check of the quorum, which looks
    once an election timeout: the member lives on until the leader hears a quorum again (decision 7)."""
    cluster = SimCluster(World(11))
    cluster.start()
    leader = cluster.wait_leader(1)
    heartbeat = stable_member(cluster, leader)
    shard = cluster.nodes[leader].group_manager.shards[0]
    group, others, period_ms = shard.group, others_of(cluster, leader), raft_limits.ELECTION_TIMEOUT_MIN_MS

    def until(when_ms: int) -> None:
        cluster.world.run_for(when_ms - cluster.loops[leader].monotonic_ms())

    until(group.core.quorum_deadline_ms + period_ms // 2)
    assert cluster.ask(leader, 0, heartbeat).error == Code.NONE
    ends_ms = cluster.loops[leader].monotonic_ms() + SESSION_MS
    until(ends_ms - 2 * period_ms)
    until(group.core.quorum_deadline_ms + 100)  # the last check but one before the session's end
    for other in others:
        cluster.loops[other].pause()
    proposed = group.core.last_index
    until(ends_ms + 200)
    assert group.leads
    assert group.core.last_index == proposed, "nobody could say whether the member lives elsewhere by now"
    for other in others:
        cluster.loops[other].resume()
    cluster.world.run_until("the session has ended", lambda: group.core.last_index > proposed, 1_000)
    assert cluster.leader_of(1) == leader
