"""Coordinators that are short of disk: told in the status, and in the way of nothing that the operator does."""

from dataclasses import replace

import pytest
from muster_operator.api.conditions import Reason
from muster_operator.plan.cluster import plan_cluster
from muster_operator.plan.conditions import condition
from muster_operator.world.cluster import ClusterWorld, ReplicaView
from muster_operator.world.views import Unknown

from tests.operator.plan.model_cluster import SETTINGS
from tests.operator.plan.test_rollout_properties import fresh


def low(world: ClusterWorld, *pods: str) -> ClusterWorld:
    replicas = {
        name: replace(view, disk_low=name in pods) if isinstance(view, ReplicaView) else view
        for name, view in world.replicas.items()
    }
    return replace(world, replicas=replicas)


def test_room_on_all_disks_is_worth_no_word() -> None:
    status = plan_cluster(low(fresh().world()), SETTINGS).status
    assert condition(status, "Degraded")["reason"] == Reason.AS_EXPECTED


@pytest.mark.parametrize(
    ("pods", "meaning"),
    [
        (("c-1",), "the disk of c-1: others lead what it led;"),
        (("c-0", "c-2"), "the disk of c-0, c-2: commits are refused until there is space;"),
        (("c-0", "c-1", "c-2"), "the disk of c-0, c-1, c-2: commits are refused until there is space;"),
    ],
)
def test_low_disks_degrade_a_cluster_that_is_ready_and_converged_all_the_same(
    pods: tuple[str, ...], meaning: str
) -> None:
    plan = plan_cluster(low(fresh().world(), *pods), SETTINGS)
    found = condition(plan.status, "Degraded")
    assert (found["status"], found["reason"]) == ("True", Reason.DISK_LOW)
    assert meaning in found["message"]
    assert condition(plan.status, "Ready")["status"] == "True"
    assert condition(plan.status, "Progressing")["status"] == "False"


def test_what_is_worse_is_told_first() -> None:
    model = fresh()
    model.set_image("bad-image")
    world = low(model.world(), "c-0")
    assert world.statefulset is not None
    assert not isinstance(world.statefulset, Unknown)
    pods = tuple(
        replace(one, waiting_reason="ImagePullBackOff", ready=False) if one.ordinal == 2 else one
        for one in world.statefulset.pods
    )
    world = replace(world, statefulset=replace(world.statefulset, pods=pods))
    assert condition(plan_cluster(world, SETTINGS).status, "Degraded")["reason"] == Reason.POD_FAILING
