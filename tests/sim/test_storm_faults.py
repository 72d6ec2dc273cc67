"""Each fault of machines and links does what it says, and ends."""

import errno
from collections.abc import Callable

import pytest
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId
from muster_coordinator.links import limits
from muster_coordinator.links.channels import APPEND, BULK, CONTROL

from tests.sim import drains, link_faults, machine_faults
from tests.sim.cluster import Cluster, Replica, Setup
from tests.sim.loop import SimLoop, World
from tests.sim.net import SimNet

A, B = BrokerId(0), BrokerId(1)


class Sink:
    def __init__(self, world: World) -> None:
        self.world = world
        self.heard_us: list[tuple[int, int]] = []

    def peer_up(self, peer: BrokerId, hello: bytes) -> None: ...
    def peer_down(self, peer: BrokerId) -> None: ...

    def peer_message(self, peer: BrokerId, channel: int, payload: bytes) -> None:
        self.heard_us.append((channel, self.world.now_us))


def linked() -> tuple[SimNet, Sink]:
    """Two ends; what A sends, the sink of B hears."""
    world = World("faults")
    net = SimNet(world, delay_us=(100, 100))
    sinks = [Sink(world), Sink(world)]
    for broker, sink in zip((A, B), sinks, strict=True):
        net.port(broker, SimLoop(world)).start(sink)
    world.run_until("linked", lambda: net.link_up(A, B), 1_000)
    return net, sinks[1]


def send(net: SimNet, channel: int, size: int) -> bool:
    return net.carry(net._ports[A], B, channel, bytes(size))


def test_a_link_refuses_one_send_in_twenty_and_no_more_when_calm() -> None:
    net, _ = linked()
    link_faults.refuse_sends(net)
    refused = sum(not send(net, CONTROL, 1) for _ in range(2_000))
    assert 60 <= refused <= 140
    link_faults.calm(net)
    assert all(send(net, CONTROL, 1) for _ in range(200))


def test_a_new_life_hears_nothing_of_the_connections_of_the_one_before() -> None:
    """Both machines went dark, and the other is dark still: what it had sent is not for the process that starts."""
    net, _ = linked()
    link_faults.limit_rate(net, 1)
    assert send(net, CONTROL, 50)
    net.vanished(B)
    net.vanished(A)
    sink = Sink(net.world)
    net.port(B, SimLoop(net.world)).start(sink)
    net.world.run_for(2_000)
    assert sink.heard_us == []


def test_bytes_take_their_time_and_the_control_channel_goes_before_them() -> None:
    net, sink = linked()
    link_faults.limit_rate(net, 100)
    began_us = net.world.now_us
    for _ in range(10):
        assert send(net, APPEND, 10_000)
    assert send(net, CONTROL, 100)
    net.world.run_for(2_000)
    heard = [(channel, (at_us - began_us) // 1_000) for channel, at_us in sink.heard_us]
    assert heard[0] == (CONTROL, 1)
    assert [at_ms for channel, at_ms in heard if channel == APPEND] == [100 * n for n in range(1, 11)]


@pytest.mark.parametrize(
    ("channel", "most"), [(APPEND, limits.PEER_UNSENT_BYTES_MAX), (BULK, limits.LINK_BULK_UNSENT_BYTES_MAX)]
)
def test_a_slow_link_refuses_a_channel_with_too_much_unsent(channel: int, most: int) -> None:
    """At the high-water mark that the channel of a real link has."""
    net, _ = linked()
    link_faults.limit_rate(net, 100)
    taken = 0
    while send(net, channel, 100_000):
        taken += 100_000
    assert most < taken <= most + 200_000
    assert send(net, CONTROL, 100)


@pytest.mark.parametrize("parts_per_million", [-2_000, 2_000])
def test_a_clock_that_drifts_shows_other_times_and_its_timers_follow_it(parts_per_million: int) -> None:
    world = World("drift")
    loop = SimLoop(world, skew_us=12_345)
    fired: list[tuple[int, int]] = []
    began_ms, wall_ms = loop.monotonic_ms(), loop.wall_ms()
    loop.call_at(began_ms + 100_000, lambda: fired.append((loop.monotonic_ms(), world.now_us // 1_000)))
    began_world_ms = world.now_us // 1_000
    world.run_for(1_000)
    loop.drift(parts_per_million)
    world.run_for(101_000)
    passed_ms = 1_000 + 101_000 + 101 * parts_per_million // 1_000
    assert abs(loop.monotonic_ms() - began_ms - passed_ms) <= 1
    assert abs(loop.wall_ms() - wall_ms - passed_ms) <= 1
    shown_ms, at_ms = fired[0]
    assert began_ms + 100_000 <= shown_ms <= began_ms + 100_201, "never early by its own clock"
    assert at_ms - began_world_ms >= 99_700


def test_a_full_disk_takes_what_fits_and_stays_full_over_a_restart() -> None:
    cluster = Cluster(Setup())
    replica = cluster.replicas[0]
    machine_faults.fill_disk(replica, 1)
    replica.disk.open("file", create=True).pwrite(0, [bytes(1_024)])
    replica.disk.restart()
    assert replica.disk_may_fail
    with pytest.raises(OSError) as refused:  # its number is what counts
        replica.disk.open("file").pwrite(1_024, [b"x"])
    assert refused.value.errno == errno.ENOSPC
    assert replica.disk_may_fail
    machine_faults.free_disk(replica)
    assert replica.disk.open("file").pwrite(1_024, [b"x"]) == 1


def test_a_stalled_thread_delays_its_own_jobs_only() -> None:
    cluster = Cluster(Setup())
    replica = cluster.replicas[0]
    replica.start()
    assert replica.life is not None
    loop, world = replica.life.loop, cluster.world
    machine_faults.stall_queue(replica, 0)
    done: list[tuple[str, int]] = []
    began_us = world.now_us
    for queue in machine_faults.QUEUES[:2]:
        loop.submit(
            queue, lambda: None, lambda _, queue=queue: done.append((queue, (world.now_us - began_us) // 1_000))
        )
    world.run_for(1_500)
    waited = dict(done)
    assert waited[machine_faults.QUEUES[0]] >= 200
    assert waited[machine_faults.QUEUES[1]] < 200


def drained() -> tuple[Cluster, Replica]:
    """A cluster that serves, and a replica of it that leads something, drained."""
    cluster = Cluster(Setup(seed="drain", node={"takeback_ms": 500}))
    cluster.start()
    cluster.world.run_until("serving", cluster.serving, 10_000)
    replica = next(replica for replica in cluster.replicas if replica.node.leaderships())
    cluster.world.run_until("all know it", lambda: all(r.node.image() is not None for r in cluster.replicas), 5_000)
    assert replica.life is not None
    drains.begin(replica.life)
    cluster.world.run_until("drained", lambda: "a replica was drained" in cluster.marks, 5_000)
    return cluster, replica


def test_a_drained_replica_leads_nothing_until_the_drain_is_undone_and_then_takes_back_what_was_its_own() -> None:
    cluster, replica = drained()
    assert replica.node.leaderships() == 0
    cluster.world.run_for(5_000)
    assert replica.node.leaderships() == 0
    assert drains.marked(cluster)
    assert replica.life is not None
    drains.end(replica.life)
    cluster.world.run_until("undone", lambda: not drains.marked(cluster), 5_000)
    cluster.world.run_until("it leads again", replica.node.leaderships, 10_000)
    assert not cluster.violations


def test_a_drain_ends_that_a_paused_process_had_not_begun() -> None:
    """It was left drained for good, and the product accused."""
    cluster, replica = drained()
    assert replica.life is not None
    drains.end(replica.life)
    cluster.world.run_until("undone", lambda: not drains.marked(cluster), 5_000)
    replica.life.loop.pause()
    drains.begin(replica.life)
    drains.end(replica.life)
    replica.life.loop.resume()
    cluster.world.run_for(10_000)
    assert not drains.marked(cluster)
    assert not cluster.violations


def test_a_drained_replica_that_leads_what_another_could_is_noticed() -> None:
    cluster, replica = drained()
    assert replica.life is not None
    replica.life.node.host.heartbeats.led = lambda: [CONTROLLER_GROUP]  # type: ignore[method-assign]
    drains.begin(replica.life)
    cluster.world.run_for(100)
    assert {violation.invariant for violation in cluster.violations} == {"drain"}


def of_a_call(loop: SimLoop, late: Callable[[], None]) -> None:
    loop.call_soon(late)


def of_a_job(loop: SimLoop, late: Callable[[], None]) -> None:
    loop.submit("wal", late, lambda result: None)


@pytest.mark.parametrize("slice_us", [None, (1, 10)])
@pytest.mark.parametrize("within", [of_a_call, of_a_job])
def test_the_end_of_a_tests_time_ends_the_run_and_is_no_finding(
    within: Callable[[SimLoop, Callable[[], None]], None], slice_us: tuple[int, int] | None
) -> None:
    """It comes as an error in the middle of whatever runs. A run that takes it for the product's ends early, with
    fewer operations than the same seed had before, and says that a replica broke."""
    cluster = Cluster(Setup(nodes=1, partitions=1, slice_us=slice_us))
    cluster.start()
    cluster.world.run_for(500)
    life = cluster.replicas[0].life
    assert life is not None
    within(life.loop, lambda: pytest.fail("no time is left"))
    with pytest.raises(pytest.fail.Exception, match="no time is left"):
        cluster.world.run_for(500)
    assert cluster.violations == []
