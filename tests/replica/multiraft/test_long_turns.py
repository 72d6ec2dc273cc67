"""However many Raft groups there are, one turn of the loop does a bounded part of what concerns all of them."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.replica.multiraft import host
from muster_coordinator.replica.multiraft.deadlines import LOOKED_AT_PER_TURN_MAX, Deadlines, Due
from muster_coordinator.replica.snapshots import checkpoints

from tests.replica.cluster import SimCluster
from tests.sim.loop import SimLoop, World

PARTITIONS = 60
BOUND = 20


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimCluster:
    """More groups than one turn may look at."""
    monkeypatch.setattr(checkpoints, "LOOKED_AT_A_TURN", BOUND)
    monkeypatch.setattr(host, "GROUPS_PER_TURN_MAX", BOUND)
    cluster = SimCluster(World(1))
    cluster.start()
    create = CreateTopic(name="many", topic_id=bytes([9]) * 16, partitions=PARTITIONS, configs=())
    assert cluster.submit(0, create).error == Code.NONE
    nodes = cluster.nodes.values()
    all_made = lambda: all(len(node.host.groups) > PARTITIONS for node in nodes)  # noqa: E731
    cluster.world.run_until("all groups are made", all_made, 20_000)
    cluster.world.run_until(
        "all are led", lambda: sum(node.leaderships() for node in nodes) == len(cluster.nodes[0].host.groups), 20_000
    )
    return cluster


def counted(world: World, holder: Any, name: str) -> Counter[int]:
    """How often a method is called in each turn."""
    calls: Counter[int] = Counter()
    method: Callable[..., Any] = getattr(holder, name)

    def call(*arguments: Any) -> Any:
        calls[world.steps] += 1
        return method(*arguments)

    setattr(holder, name, call)
    return calls


def test_a_look_for_checkpoints_goes_over_active_groups_in_several_turns(cluster: SimCluster) -> None:
    group_manager = cluster.nodes[1].group_manager
    assert group_manager is not None
    looks = counted(cluster.world, group_manager.checkpoints, "_maybe")
    cluster.world.run_for(3 * checkpoints.LOOK_MS)
    assert sum(looks.values()) >= 2 * PARTITIONS, "all groups, more than once"
    assert max(looks.values()) <= BOUND


def test_when_all_groups_have_something_to_do_a_turn_takes_some_of_them(cluster: SimCluster) -> None:
    """As when a link ends."""
    node = cluster.nodes[1]
    taken = counted(cluster.world, node.host, "_take")
    for group in node.host.groups.values():
        node.host.touch(group)
    cluster.world.run_for(1)
    assert sum(taken.values()) >= len(node.host.groups)
    assert max(taken.values()) <= BOUND


def test_groups_that_take_long_are_taken_in_more_turns_and_in_their_order(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that has become leader costs much more than most: of those a turn takes as many as it has time for."""
    monkeypatch.setattr(host, "GROUPS_PER_TURN_MAX", 10 * PARTITIONS)
    taker = cluster.nodes[1].host
    take_ms, took, began_ms = 3, list[int](), taker.now_ms
    take = taker._take

    def slowly(group: Any) -> None:
        took.append(group.number)
        take(group)

    monkeypatch.setattr(taker, "_take", slowly)
    monkeypatch.setattr(taker, "now_ms", lambda: began_ms() + take_ms * len(took))
    taken = counted(cluster.world, taker, "_take")
    groups = list(taker.groups.values())
    for group in groups:
        taker.touch(group)
    cluster.world.run_for(1)
    assert max(taken.values()) == 4, "after 12 of 10 ms"
    firsts = list(dict.fromkeys(took))
    assert firsts == [group.number for group in groups]


def test_deadlines_that_were_moved_are_passed_over_in_several_turns() -> None:
    world = World(2)
    loop = SimLoop(world)
    deadlines, now_ms = Deadlines(loop), loop.monotonic_ms()
    fired: list[int] = []
    dues = [Due(fired.append) for _ in range(3 * LOOKED_AT_PER_TURN_MAX)]
    for due in dues:
        deadlines.set(due, now_ms + 100)
        deadlines.set(due, now_ms + 200)
    moved = counted(world, deadlines, "set")
    world.run_for(150)
    assert sum(moved.values()) == len(dues)
    assert max(moved.values()) <= LOOKED_AT_PER_TURN_MAX
    world.run_for(150)
    assert len(fired) == len(dues)
