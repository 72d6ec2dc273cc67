"""Causes of rebalances, from what changed between the stored status and a pass."""

from typing import Any

import pytest
from muster_operator.api.conditions import Reason
from muster_operator.plan.rebalances import last_rebalance
from muster_operator.world.views import Unknown

from tests.operator.plan.making import NOW_MS, group_view, group_world, member, pod


def static(*ordinals: int) -> list[Any]:
    return [member(f"g-{number}", f"10.0.0.{number}") for number in ordinals]


def stored(*keys: str, state: str = "Stable", generation: int = 7, replicas: int = 3, **other: Any) -> dict[str, Any]:
    members = [{"instanceId": one} if one.startswith("g-") else {"memberId": one} for one in keys]
    status = {"state": state, "members": members, "memberCount": len(members), "replicas": replicas}
    return status | {"generation": generation} | other


def cause(world: Any) -> str | None:
    record = last_rebalance(world)
    return record["cause"] if record else None


PODS = [pod(0), pod(1), pod(2)]
THREE = ("g-0", "g-1", "g-2")


def test_the_same_generation_is_no_rebalance_whoever_restarted() -> None:
    status = stored(*THREE, lastRebalance={"time": "t", "cause": "x"})
    world = group_world(pods=PODS, group=group_view(static(0, 1, 2)), status=status)
    assert last_rebalance(world) == {"time": "t", "cause": "x"}


def test_left_with_the_scale_down() -> None:
    world = group_world(pods=PODS[:2], group=group_view(static(0, 1), generation=8), status=stored(*THREE), replicas=2)
    assert cause(world) == Reason.SCALED_DOWN


def test_a_pod_that_is_not_there_was_lost() -> None:
    world = group_world(pods=PODS[:2], group=group_view(static(0, 1), generation=8), status=stored(*THREE))
    record = last_rebalance(world)
    assert record is not None
    assert (record["cause"], record["generation"]) == (Reason.POD_LOST, 8)
    assert "g-2" in record["message"]


def test_a_ready_pod_that_left_the_group_left() -> None:
    world = group_world(pods=PODS, group=group_view(static(0, 1), generation=8), status=stored(*THREE))
    assert cause(world) == Reason.MEMBER_LEFT


def test_new_ordinals_above_the_old_are_a_scale_up() -> None:
    status = stored("g-0", "g-1")
    world = group_world(pods=PODS, group=group_view(static(0, 1, 2), generation=8), status=status)
    assert cause(world) == Reason.SCALED_UP


def test_a_returning_instance_joined() -> None:
    world = group_world(pods=PODS, group=group_view(static(0, 1, 2), generation=8), status=stored("g-0", "g-2"))
    assert cause(world) == Reason.MEMBER_JOINED


def test_dynamic_members_that_are_exchanged_in_a_rollout() -> None:
    members = [member(None, f"10.0.0.{number}", member_id=f"m{number}") for number in (0, 1, 9)]
    world = group_world(
        pods=PODS, group=group_view(members, generation=8), status=stored("m0", "m1", "m2"), current_revision="r0"
    )
    assert cause(world) == Reason.ROLLOUT


def test_nothing_seen_is_unknown_not_guessed() -> None:
    world = group_world(pods=PODS, group=group_view(static(0, 1, 2), generation=9), status=stored(*THREE))
    assert cause(world) == Reason.UNKNOWN_CAUSE


def test_members_beyond_the_list_are_not_guessed_about() -> None:
    status = stored(*THREE) | {"memberCount": 150}
    world = group_world(pods=PODS, group=group_view(static(0, 1), generation=8), status=status)
    assert cause(world) == Reason.UNKNOWN_CAUSE


def test_a_rebalance_over_several_passes_is_recorded_once_and_completed() -> None:
    """Preparing without the lost one; then Stable with a new generation: one record, its first cause."""
    moving = group_world(
        pods=PODS[:2], group=group_view(static(0, 1), state="PreparingRebalance"), status=stored(*THREE)
    )
    record = last_rebalance(moving)
    assert record is not None
    assert record["cause"] == Reason.POD_LOST
    status = stored("g-0", "g-1", state="PreparingRebalance", lastRebalance=record)
    view = group_view(static(0, 1), generation=8, last_rebalance_ms=NOW_MS - 1_000)
    over = last_rebalance(group_world(pods=PODS[:2], group=view, status=status))
    assert over is not None
    assert (over["cause"], over["generation"]) == (Reason.POD_LOST, 8)
    assert over["time"] != record["time"], "the coordinator knows the time better"


def test_an_apache_kafka_without_generations_is_judged_by_its_members() -> None:
    status = {key: value for key, value in stored(*THREE).items() if key != "generation"}
    same = group_world(pods=PODS, group=group_view(static(0, 1, 2), generation=None), status=status)
    assert last_rebalance(same) is None
    fewer = group_world(pods=PODS, group=group_view(static(0, 1), generation=None), status=status)
    assert cause(fewer) == Reason.MEMBER_LEFT


@pytest.mark.parametrize("known", [None, {"time": "t", "cause": "ScaledUp"}])
def test_an_unknown_group_changes_nothing(known: dict[str, str] | None) -> None:
    status = stored(*THREE) | ({"lastRebalance": known} if known else {})
    world = group_world(pods=PODS, group=Unknown(reason="Unreachable", message=""), status=status)
    assert last_rebalance(world) == known


def test_a_rebalance_while_nobody_looked_is_noticed_by_its_generation() -> None:
    status = {"state": "Unknown", "generation": 7}
    assert cause(group_world(pods=PODS, group=group_view(static(0, 1, 2), generation=8), status=status)) == (
        Reason.UNKNOWN_CAUSE
    )
    assert last_rebalance(group_world(pods=PODS, group=group_view(static(0, 1, 2)), status=status)) is None


def test_the_coordinators_own_word_is_added() -> None:
    view = group_view(static(0, 1), generation=8, last_rebalance_reason="session of g-2 expired")
    record = last_rebalance(group_world(pods=PODS[:2], group=view, status=stored(*THREE)))
    assert record is not None
    assert "session of g-2 expired" in record["message"]


def test_the_word_comes_when_the_rebalance_is_over() -> None:
    """While members move, what the coordinator tells is about the rebalance before."""
    moving = group_view(static(0, 1), state="PreparingRebalance", last_rebalance_reason="an older one")
    record = last_rebalance(group_world(pods=PODS[:2], group=moving, status=stored(*THREE), replicas=2))
    assert record is not None
    assert "coordinator" not in record["message"]
    over = group_view(static(0, 1), generation=8, last_rebalance_ms=NOW_MS, last_rebalance_reason="scaled down")
    for _ in range(2):
        status = stored("g-0", "g-1", state="PreparingRebalance", lastRebalance=record)
        record = last_rebalance(group_world(pods=PODS[:2], group=over, status=status, replicas=2))
        assert record is not None
        assert record["message"].endswith("; the coordinator says: scaled down")
        assert record["message"].count("the coordinator says") == 1
