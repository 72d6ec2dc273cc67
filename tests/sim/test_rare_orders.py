"""The scheduler that prefers rare orders gives some that even latencies never do; other seeds stay as they were."""

from collections.abc import Callable

import pytest

from tests.sim.cluster import Cluster, Setup
from tests.sim.loop import SimLoop, World
from tests.sim.rare_orders import EVERY_MS, MARK, RareOrders

pytestmark = [pytest.mark.sim]

JOBS = 20
QUEUES = ("wal-offsets", "checkpoint")


def head_start(seed: int, *, orders: bool) -> int:
    """Two threads with twenty jobs each: how many the slower one has done when the other is through."""
    world, done = World(seed), dict.fromkeys(QUEUES, 0)
    loop = SimLoop(world)
    if orders:
        made = RareOrders(str(seed), world, lambda _: None, share=1.0)
        made.arm()
        loop.place = made.of(0)

    def counted(queue: str) -> Callable[[None], None]:
        def one(_: None) -> None:
            done[queue] += 1

        return one

    for queue in QUEUES:
        for _ in range(JOBS):
            loop.submit(queue, lambda: None, counted(queue))
    while max(done.values()) < JOBS:
        world.step()
    return min(done.values())


def test_one_thread_is_through_before_another_has_done_a_quarter() -> None:
    """Never by latencies that are drawn one by one, in 300 seeds; in every tenth by places."""
    assert min(head_start(seed, orders=False) for seed in range(300)) > JOBS // 4
    rare = sum(head_start(seed, orders=True) <= JOBS // 4 for seed in range(300))
    assert rare >= 30, rare


def test_a_seed_has_the_same_orders_again_and_those_that_have_none_draw_nothing() -> None:
    assert [head_start(seed, orders=True) for seed in range(20)] == [
        head_start(seed, orders=True) for seed in range(20)
    ]
    world = World(1)
    for seed in ("mutant-3", "12"):
        made = RareOrders(seed, world, lambda _: None, share=0.0 if seed.isdigit() else 1.0)
        made.arm()
        assert made.of(0) is None
    assert not world.step(), "no timer either"


def test_a_cluster_serves_meanwhile_and_after_the_storm_latencies_are_drawn_as_ever() -> None:
    seed = next(str(n) for n in range(100) if RareOrders(str(n), World(), lambda _: None).enabled)
    cluster = Cluster(Setup(seed=seed, partitions=1))
    cluster.orders.arm()
    cluster.start()
    cluster.world.run_until("serving", cluster.serving, 20_000)
    cluster.world.run_for(2 * EVERY_MS[1])
    assert MARK in cluster.marks
    cluster.orders.heal()
    cluster.marks.discard(MARK)
    cluster.world.run_for(2 * EVERY_MS[1])
    assert MARK not in cluster.marks
    assert cluster.violations == []
