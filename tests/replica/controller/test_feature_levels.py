"""A cluster of the release before is raised to the new one's level after its replicas were rolled, and not sooner."""

from dataclasses import replace
from typing import Any

import pytest
from muster_coordinator.controller.image import Broker, ClusterImage, Routing
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId
from muster_coordinator.replica.controller.feature_level import NEVER_MS, common_level
from muster_coordinator.replica.settings import FEATURE_LEVEL, REPLICATED_ROLLS_LEVEL, NodeSettings

from tests.replica.cluster import SimCluster
from tests.sim.loop import World

BEFORE = FEATURE_LEVEL - 1
FINALIZE_MS = 20_000


class Rolled(SimCluster):
    """Replicas of two releases: `levels` says what each one's binary can do from its next start on."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.levels = dict.fromkeys(range(3), BEFORE)
        super().__init__(World(seed), feature_finalize_ms=FINALIZE_MS, **settings)

    def settings_of(self, broker: int) -> NodeSettings:
        return replace(super().settings_of(broker), feature_max=self.levels[broker])

    def roll(self, broker: int, level: int) -> None:
        self.kill(broker)
        self.levels[broker] = level
        self.restart(broker)
        self.wait_ready()

    def level(self) -> int:
        self.converge([CONTROLLER_GROUP])
        return self.nodes[0].image().feature_level


def cluster(*levels: int | None) -> ClusterImage:
    """Of voters that registered with these; None: never."""
    brokers = {
        BrokerId(n): Broker(
            broker=BrokerId(n), replica_uuid=bytes(16), incarnation=1, endpoints=(), admin="", draining=False,
            feature_max=level,
        )
        for n, level in enumerate(levels)
        if level is not None
    }  # fmt: skip
    return ClusterImage(
        applied=1, cluster_id="c", voters=tuple(BrokerId(n) for n in range(len(levels))), brokers=brokers, topics={},
        names_by_id={}, deleted_topic_ids=frozenset(), routing=Routing(offsets_partitions=1), feature_level=2,
        next_group=2, next_producer_id=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("levels", "common"), [((3, 4, 3), 3), ((3, 3, 2), 2), ((3, None, 3), 2), ((2,), 2), ((9, 9, 9, 9, 9), 9)]
)
def test_what_all_voters_can_do(levels: tuple[int | None, ...], common: int) -> None:
    assert common_level(cluster(*levels)) == common


def test_a_rolled_cluster_is_raised_after_the_time_to_go_back() -> None:
    it = Rolled(1)
    it.start()
    assert it.level() == BEFORE
    it.world.run_for(3 * FINALIZE_MS)
    assert it.level() == BEFORE
    for broker in (0, 1, 2):
        it.roll(broker, FEATURE_LEVEL)
    it.world.run_for(FINALIZE_MS - 6_000)
    assert it.level() == BEFORE, "there is time to go back"
    it.world.run_until("raised", lambda: it.nodes[0].image().feature_level == FEATURE_LEVEL, 20_000)
    it.world.run_for(5_000)
    assert it.level() == FEATURE_LEVEL


def test_one_replica_of_the_release_before_keeps_the_level() -> None:
    it = Rolled(2)
    it.start()
    it.roll(0, FEATURE_LEVEL)
    it.roll(2, FEATURE_LEVEL)
    it.world.run_for(3 * FINALIZE_MS)
    assert it.level() == BEFORE


def test_going_back_in_time_begins_the_wait_anew() -> None:
    it = Rolled(3)
    it.start()
    for broker in (0, 1, 2):
        it.roll(broker, FEATURE_LEVEL)
    it.world.run_for(FINALIZE_MS // 2)
    it.roll(1, BEFORE)
    it.world.run_for(2 * FINALIZE_MS)
    assert it.level() == BEFORE
    it.roll(1, FEATURE_LEVEL)
    it.world.run_for(FINALIZE_MS // 2)
    assert it.level() == BEFORE


def test_a_replica_that_is_away_may_be_going_back() -> None:
    it = Rolled(4)
    it.start()
    for broker in (0, 1, 2):
        it.roll(broker, FEATURE_LEVEL)
    it.kill(1)
    it.world.run_for(3 * FINALIZE_MS)
    it.levels[1] = BEFORE
    it.restart(1)
    it.wait_ready()
    assert it.level() == BEFORE


def test_after_that_the_release_before_is_refused_in_words() -> None:
    it = Rolled(5)
    it.start()
    for broker in (0, 1, 2):
        it.roll(broker, FEATURE_LEVEL)
    it.world.run_for(2 * FINALIZE_MS)
    assert it.level() == FEATURE_LEVEL
    it.kill(2)
    it.levels[2] = BEFORE
    it.restart(2)
    it.world.run_for(10_000)
    assert any(f"the cluster has feature level {FEATURE_LEVEL}" in why for why in it.nodes[2].not_ready())
    it.roll(2, FEATURE_LEVEL)


def test_it_can_be_forbidden() -> None:
    it = Rolled(6)
    it.base = replace(it.base, feature_finalize_ms=NEVER_MS)
    it.start()
    for broker in (0, 1, 2):
        it.roll(broker, FEATURE_LEVEL)
    it.world.run_for(5 * FINALIZE_MS)
    assert it.level() == BEFORE


def test_a_new_leader_waits_anew() -> None:
    it = Rolled(7)
    it.start()
    for broker in (0, 1, 2):
        it.roll(broker, FEATURE_LEVEL)
    for _ in range(3):
        it.world.run_for(FINALIZE_MS * 2 // 3)
        it.roll(it.wait_leader(CONTROLLER_GROUP), FEATURE_LEVEL)
        assert it.level() == BEFORE
    it.world.run_for(2 * FINALIZE_MS)
    assert it.level() == FEATURE_LEVEL


def test_what_the_new_release_writes_begins_then() -> None:
    """Segment ends are said by the log from level 2 on (`SetRoll`)."""
    it = Rolled(8)
    it.levels = dict.fromkeys(range(3), REPLICATED_ROLLS_LEVEL - 1)
    it.start()
    leader = it.wait_leader(1)
    assert it.nodes[leader].group_manager._roll_wanted(1) is None
    for broker in (0, 1, 2):
        it.roll(broker, FEATURE_LEVEL)

    def known() -> bool:
        """By everybody: who begins to lead before says it with the next look, as who goes on does."""
        return all(node.image().feature_level == FEATURE_LEVEL for node in it.nodes.values())

    it.world.run_until("the level", known, 10 * FINALIZE_MS)
    it.roll(it.wait_leader(1), FEATURE_LEVEL)
    assert it.commit(it.wait_leader(1), 0, "g", 1) == 0
    it.world.run_until(
        "all logs say it",
        lambda: all(n.group_manager.states[1].replicated_roll is not None for n in it.nodes.values()),
        10_000,
    )
