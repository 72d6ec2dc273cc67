"""Deadlines, leaders, identity files and the controller's client, each alone."""

import random
import struct

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code, Corruption, UnsupportedFormat
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.replica.bootstrap import identity
from muster_coordinator.replica.bootstrap.identity import ClusterRecord, Phase, StartRefused, Voter, open_identity
from muster_coordinator.replica.multiraft.deadlines import FIRED_PER_TURN_MAX, GRACE_MS, Deadlines, Due
from muster_coordinator.replica.multiraft.leaders import Leaders, Leadership

from tests.replica.cluster import SimCluster
from tests.sim.disk import PowerLoss, SimDisk
from tests.sim.loop import SimLoop, World

RECORD = ClusterRecord("c" * 22, (Voter(BrokerId(0), bytes(range(16))),), 50, bytes(16))


def test_deadlines_fire_once_in_order_and_move_both_ways() -> None:
    world = World()
    loop = SimLoop(world)
    deadlines = Deadlines(loop)
    fired: list[str] = []
    start = loop.monotonic_ms()
    dues = {name: Due(lambda now, name=name: fired.append(name)) for name in "abcd"}
    for name, after in (("a", 30), ("b", 20), ("c", 10), ("d", 15)):
        deadlines.set(dues[name], start + after)
    deadlines.set(dues["c"], start + 40)  # later
    deadlines.set(dues["a"], start + 5)  # earlier
    deadlines.set(dues["d"], None)
    world.run_for(100)
    assert fired == ["a", "b", "c"]
    deadlines.set(dues["b"], start + 10)  # overdue: at once
    world.run_for(1)
    assert fired[-1] == "b"


def test_renewing_a_deadline_a_million_times_keeps_the_heap_small() -> None:
    world = World()
    loop = SimLoop(world)
    deadlines = Deadlines(loop)
    due = Due(lambda now: None)
    for n in range(100_000):
        deadlines.set(due, loop.monotonic_ms() + 1_000 + n % 7)
    assert len(deadlines._heap) < 20


def test_input_of_a_stalled_loop_is_taken_before_overdue_deadlines_fire() -> None:
    world = World()
    loop = SimLoop(world)
    deadlines = Deadlines(loop)
    order: list[str] = []
    deadlines.set(Due(lambda now: order.append("deadline")), loop.monotonic_ms() + 100)
    loop.pause()
    world.run_for(3_000)
    loop.resume()
    world.at(world.now_us + 90_000, lambda: loop.call_soon(lambda: order.append("input")))
    world.run_for(GRACE_MS - 1)
    assert order == ["input"]
    world.run_for(2)
    assert order == ["input", "deadline"]
    assert deadlines.stalls == 1


def test_a_deadline_that_is_set_in_the_grace_after_a_stall_does_not_end_it() -> None:
    world = World()
    loop = SimLoop(world)
    deadlines = Deadlines(loop)
    fired: list[tuple[str, int]] = []
    start = loop.monotonic_ms()
    deadlines.set(Due(lambda now: fired.append(("overdue", now))), start + 100)
    loop.pause()
    world.run_for(3_000)
    loop.resume()
    world.run_for(10)
    deadlines.set(Due(lambda now: fired.append(("new", now))), start + 3_020)
    deadlines.set(Due(lambda now: fired.append(("past", now))), start)
    deadlines.set(Due(lambda now: fired.append(("later", now))), start + 3_200)
    world.run_for(300)
    ended = start + 3_000 + GRACE_MS
    assert fired == [("past", ended), ("overdue", ended), ("new", ended), ("later", start + 3_200)]


def test_a_deadline_moved_later_in_the_grace_is_not_fired_at_its_end() -> None:
    world = World()
    loop = SimLoop(world)
    deadlines = Deadlines(loop)
    fired: list[int] = []
    due, start = Due(fired.append), loop.monotonic_ms()
    deadlines.set(due, start + 100)
    loop.pause()
    world.run_for(3_000)
    loop.resume()
    world.run_for(50)
    deadlines.set(due, start + 4_000)
    world.run_for(2_000)
    assert fired == [start + 4_000]


def test_one_stall_has_one_grace_however_many_deadlines_are_overdue() -> None:
    world = World()
    loop = SimLoop(world)
    deadlines = Deadlines(loop)
    fired: list[int] = []
    start = loop.monotonic_ms()
    for n in range(3 * FIRED_PER_TURN_MAX):
        deadlines.set(Due(fired.append), start + 100 + n % 7)
    loop.pause()
    world.run_for(3_000)
    loop.resume()
    world.run_for(GRACE_MS + 10)
    assert len(fired) == 3 * FIRED_PER_TURN_MAX
    assert deadlines.stalls == 1


def test_a_deadline_that_is_long_overdue_when_it_is_set_is_no_stall() -> None:
    world = World()
    loop = SimLoop(world)
    deadlines = Deadlines(loop)
    fired: list[int] = []
    world.run_for(5_000)
    deadlines.set(Due(fired.append), loop.monotonic_ms() - 4_000)
    world.run_for(5)
    assert len(fired) == 1
    assert deadlines.stalls == 0


def test_a_loop_that_is_always_late_fires_its_deadlines_all_the_same() -> None:
    world = World()
    loop = SimLoop(world)
    deadlines = Deadlines(loop)
    fired: list[int] = []
    due, start = Due(fired.append), loop.monotonic_ms()
    for n in range(10):
        deadlines.set(due, start + 200 * n + 10)
        loop.pause()
        world.run_for(180)
        loop.resume()
        world.run_for(20)
    assert len(fired) >= 4


def test_the_highest_term_wins_whatever_the_order() -> None:
    rand = random.Random(1)
    news = [(GroupNo(g), term, BrokerId(term % 3)) for g in range(3) for term in range(1, 6)]
    for _ in range(50):
        rand.shuffle(news)
        leaders = Leaders(SimLoop(World()))
        for group, term, leader in news:
            leaders.note(group, term, leader)
        assert {leaders.of(GroupNo(g)) for g in range(3)} == {Leadership(BrokerId(2), 5)}


def test_who_waits_for_a_leader_is_called_once_known_or_in_time() -> None:
    world = World()
    leaders = Leaders(SimLoop(world))
    calls: list[str] = []
    leaders.when_known(GroupNo(1), 250, lambda: calls.append("known"))
    leaders.when_known(GroupNo(2), 250, lambda: calls.append("late"))
    leaders.note(GroupNo(1), 3, BrokerId(0))
    assert calls == ["known"]
    leaders.when_known(GroupNo(1), 250, lambda: calls.append("at once"))
    world.run_for(249)
    assert calls == ["known", "at once"]
    world.run_for(2)
    assert calls == ["known", "at once", "late"]


def test_a_gone_brokers_leaderships_are_unknown_until_somebody_names_it_again() -> None:
    leaders = Leaders(SimLoop(World()))
    leaders.note(GroupNo(1), 3, BrokerId(0))
    leaders.broker_gone(BrokerId(0))
    assert leaders.of(GroupNo(1)) == Leadership(None, 3)
    leaders.note(GroupNo(1), 2, BrokerId(1))
    assert leaders.of(GroupNo(1)).leader is None
    leaders.note(GroupNo(1), 3, BrokerId(0))
    assert leaders.of(GroupNo(1)).leader == 0


def test_an_identity_counts_its_starts_and_refuses_another_seat() -> None:
    disk, rand = SimDisk(), random.Random(1)
    first = open_identity(disk, BrokerId(1), rand)
    second = open_identity(disk, BrokerId(1), rand)
    assert (first.incarnation, second.incarnation) == (1, 2)
    assert first.replica_uuid == second.replica_uuid
    with pytest.raises(StartRefused, match="belongs to broker 1"):
        open_identity(disk, BrokerId(2), rand)


@pytest.mark.parametrize("after", range(8))
@pytest.mark.parametrize("seed", range(5))
def test_a_record_is_the_old_or_the_new_one_wherever_power_fails(after: int, seed: int) -> None:
    disk = SimDisk()
    identity.store_cluster(disk, Phase.PREPARED, RECORD)
    disk.power_off_after(after)
    done = False
    try:
        identity.store_cluster(disk, Phase.FORMED, RECORD)
        done = True
    except PowerLoss:
        pass
    disk.crash(random.Random(seed))
    phase, record = identity.load_cluster(disk)
    assert record == RECORD
    assert phase is Phase.FORMED if done else phase in (Phase.PREPARED, Phase.FORMED)


def test_only_a_folder_that_was_bound_anew_is_written_as_older_releases_cannot_read_it() -> None:
    name = b"c" * 22
    old = struct.pack(">B16sIHH", 1, bytes(16), 50, 1, 22) + name + struct.pack(">i16s", 0, bytes(range(16)))
    assert identity.pack_record(RECORD) == old
    seats = tuple(Voter(BrokerId(n), bytes([n]) * 16, 2**31 - n) for n in range(5))
    joined = RECORD._replace(joined=tuple(Voter(BrokerId(n), bytes([n]) * 16, n - 9) for n in range(9, 50)))
    for record in (RECORD, RECORD._replace(voters=seats), joined, joined._replace(voters=seats)):
        assert identity.unpack_record(b"x" + identity.pack_record(record), 1)[0] == record
    disk = SimDisk()
    first = open_identity(disk, BrokerId(1), random.Random(1))
    plain = disk.open(identity.IDENTITY_FILE).size()
    identity.store_identity(disk, first._replace(joined=True))
    assert open_identity(disk, BrokerId(1), random.Random(2)) == first._replace(joined=True, incarnation=2)
    assert disk.open(identity.IDENTITY_FILE).size() == plain + 1


def test_an_identity_of_another_length_is_refused() -> None:
    for body in (bytes(27), bytes(29), bytes(28) + b"\x02", bytes(28) + b"\x01\x01"):
        disk = SimDisk()
        identity.store(disk, identity.IDENTITY_FILE, identity._IDENTITY_MAGIC, body)
        with pytest.raises(Corruption):
            open_identity(disk, BrokerId(0), random.Random(1))


def test_a_damaged_record_is_refused_and_a_newer_one_is_named() -> None:
    disk = SimDisk()
    identity.store_cluster(disk, Phase.FORMED, RECORD)
    content = disk.content("cluster")
    disk.damage("cluster", len(content) - 1, b"\xff")
    with pytest.raises(Corruption, match="checksum"):
        identity.load_cluster(disk)
    disk.damage("cluster", 4, b"\x00\x09")
    with pytest.raises(UnsupportedFormat):
        identity.load_cluster(disk)


def test_a_command_without_a_controller_is_answered_41_and_one_in_flight_7() -> None:
    cluster = SimCluster(World(1))
    cluster.start()
    leader = cluster.wait_leader(0)
    other = next(b for b in cluster.nodes if b != leader)
    topic = CreateTopic(name="t", topic_id=bytes([1]) * 16, partitions=1, configs=())
    cluster.net.cut(leader, other)  # the command arrives, its result does not
    result = cluster.submit(other, topic)
    assert result.error == Code.REQUEST_TIMED_OUT
    cluster.net.heal()
    cluster.world.run_for(3_000)
    for broker in [b for b in cluster.nodes if b != other]:
        cluster.kill(broker)
    cluster.world.run_for(3_000)
    began_us = cluster.world.now_us
    assert cluster.submit(other, topic).error == Code.NOT_CONTROLLER
    assert (cluster.world.now_us - began_us) / 1000 <= 1_100


def test_producer_ids_are_unique_over_all_brokers_and_restarts() -> None:
    cluster = SimCluster(World(2))
    cluster.start()
    cluster.wait_leader(0)
    ids: list[int] = []
    for turn in range(3):
        for node in cluster.nodes.values():
            for _ in range(700):
                node.producer_id(ids.append)
        cluster.world.run_until("ids", lambda turn=turn: len(ids) == (turn + 1) * 2_100)
        cluster.kill(0)
        cluster.restart(0)
        cluster.wait_ready()
        cluster.world.run_for(500)
    assert len(set(ids)) == len(ids)
    assert min(ids) >= 0
