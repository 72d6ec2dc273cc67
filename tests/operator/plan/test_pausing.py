"""Where a pause holds a roll-out: above the highest pod that would still be replaced, and afterwards as it was."""

import dataclasses
from typing import Any

import pytest
from muster_operator.plan.actions import HoldRollout
from muster_operator.plan.conditions import condition
from muster_operator.plan.group import plan_group
from muster_operator.world.group import GroupWorld
from muster_operator.world.views import PodView, StatefulSetView

from tests.operator.plan.making import group_view, group_world, member, pod
from tests.operator.plan.model_cluster import SETTINGS


def world(*pods: PodView, paused: bool = True, template: bool = True, **statefulset: Any) -> GroupWorld:
    made = group_world(pods=pods, group=group_view([member("g-0", "10.0.0.0")]), replicas=len(pods))
    assert isinstance(made.statefulset, StatefulSetView)
    spec = made.spec if template else dataclasses.replace(made.spec, template=None)
    return dataclasses.replace(
        made,
        owner=dataclasses.replace(made.owner, paused=paused),
        spec=spec,
        statefulset=dataclasses.replace(made.statefulset, **statefulset),
    )


def hold(seen: GroupWorld) -> tuple[int, int | None] | None:
    """(partition, what to come back to), the only action of a paused pass."""
    actions = plan_group(seen, SETTINGS).actions
    if seen.owner.paused:
        assert all(isinstance(one, HoldRollout) for one in actions)
    found = [one for one in actions if isinstance(one, HoldRollout)]
    assert len(found) <= 1
    return (found[0].partition, found[0].before) if found else None


def old(ordinal: int, **other: Any) -> PodView:
    return pod(ordinal, revision="r0", **other)


@pytest.mark.parametrize(
    ("pods", "partition"),
    [
        ([old(0), old(1), old(2)], 3),
        ([old(0), old(1), pod(2)], 2),
        ([old(0), old(1), old(2, terminating=True)], 2),
        ([old(0), pod(1), pod(2)], 1),
        ([pod(0), old(1), pod(2)], 2),
        ([old(0, terminating=True), pod(1), pod(2)], None),
        ([pod(0), pod(1), pod(2)], None),
        ([pod(0, revision=""), pod(1), pod(2)], None),
        ([], None),
    ],
    ids=[
        "not begun",
        "begun",
        "being stopped",
        "nearly done",
        "a gap",
        "the last stops",
        "done",
        "no label",
        "no pods",
    ],
)
def test_a_pause_holds_above_the_highest_pod_of_the_old_revision(pods: list[PodView], partition: int | None) -> None:
    assert hold(world(*pods)) == (None if partition is None else (partition, 0))


def test_a_thousand_pods() -> None:
    pods = [old(n) if n < 617 else pod(n) for n in range(1_000)]
    assert hold(world(*pods)) == (617, 0)


def test_what_is_held_is_held_once_and_comes_back_to_what_it_was() -> None:
    pods = [old(0), old(1), pod(2)]
    held = {"partition": 2, "partition_before": 0}
    assert hold(world(*pods, **held)) is None
    assert hold(world(*pods, paused=False, **held)) == (0, None)
    assert hold(world(*pods, paused=False)) is None


def test_somebodys_own_partition_is_kept_and_given_back() -> None:
    """A canary by hand: nothing below it is replaced in any case."""
    pods = [old(0), old(1), pod(2)]
    assert hold(world(*pods, partition=2)) is None
    assert hold(world(*[old(n) for n in range(3)], partition=1)) == (3, 1)
    assert hold(world(*pods, paused=False, partition=2)) is None
    assert hold(world(*[pod(n) for n in range(3)], partition=3, partition_before=1)) == (1, 1)
    assert hold(world(*pods, paused=False, partition=3, partition_before=1)) == (1, None)


def test_a_template_that_the_controller_has_not_seen_holds_everything_until_it_has() -> None:
    pods = [pod(0), pod(1), pod(2)]
    assert hold(world(*pods, generation=4)) == (3, 0)
    assert hold(world(*pods, generation=5, partition=3, partition_before=0)) is None, "its own write is not seen yet"
    assert hold(world(old(0), old(1), pod(2), partition=3, partition_before=0)) == (2, 0)
    assert hold(world(*pods, partition=3, partition_before=0)) == (0, 0), (
        "nothing is outdated: a dead pod comes back new"
    )


def test_a_pause_says_where_it_holds() -> None:
    status = plan_group(world(old(0), old(1), pod(2), partition=2, partition_before=0), SETTINGS).status
    assert "pods below ordinal 2 are not replaced" in condition(status, "Paused")["message"]
    assert condition(status, "Ready")["reason"] == "RollingOut"


def test_without_a_template_or_a_view_nothing_is_held() -> None:
    assert hold(world(old(0), template=False)) is None
    assert hold(world(old(0), rolls=False)) is None
    assert hold(dataclasses.replace(world(old(0)), statefulset=None)) is None


def test_the_newest_template_comes_before_the_roll_out_is_let_go() -> None:
    kinds = [
        type(one).__name__
        for one in plan_group(world(old(0), pod(1), paused=False, partition=1, partition_before=0), SETTINGS).actions
    ]
    assert kinds[-1] == "HoldRollout"
    assert kinds[0] == "Apply"
