"""More replicas than the cluster was formed with: asked for when all pods are there, told, recorded, never taken back.

The coordinators' side of it is the model's: they want what they were asked for last, and carry it out between looks.
"""

from dataclasses import replace
from typing import Any

import pytest
from muster_operator.api.conditions import Reason
from muster_operator.plan.actions import RaiseReplication
from muster_operator.plan.cluster import plan_cluster
from muster_operator.plan.members import plan_members
from muster_operator.world.cluster import ReplicationView, ReplicaView
from muster_operator.world.views import Unknown

from tests.operator.plan.model_cluster import SETTINGS, ModelCluster
from tests.operator.plan.test_members import did, said
from tests.operator.plan.test_rollout_properties import converge, one_pass

JOINS = "good:0.2.0"
"""A release whose pods need no other template to join: nobody is restarted."""
VIEW = ReplicationView(factor=1, partitions_to_go=0, moving=0, voters=1, voters_to_be=1, done=True)


def alone() -> ModelCluster:
    model = ModelCluster(replicas=1, factor_now=1, image=JOINS)
    converge(model)
    assert model.status["founders"] == 1
    return model


def grown(replicas: int, factor: int) -> ModelCluster:
    model = alone()
    model.factor = factor
    model.set_replicas(replicas)
    converge(model)
    return model


def until_asked(model: ModelCluster) -> None:
    for _ in range(50):
        if did(model, "raise"):
            return
        one_pass(model)
        model.tick()
    raise AssertionError(f"nobody is asked: {said(model)}")


@pytest.mark.parametrize("factor", [3, 5])
def test_one_grows_to_three_and_five_and_it_is_asked_for_once(factor: int) -> None:
    model = grown(factor, factor)
    assert did(model, "raise") == [f"raise {factor}"]
    assert (model.status["founders"], model.status["replicationFactor"]) == (1, factor)
    assert said(model) == ("False", Reason.SCALE_AS_WANTED)
    assert "replication" not in model.status
    model.set_replicas(1)
    model.factor = 0
    converge(model)
    assert model.made == factor, "below it no coordinator leaves"
    assert said(model) == ("True", Reason.REPLICATION_FACTOR_FIXED)


def test_from_one_to_three_and_then_to_five() -> None:
    model = grown(3, 3)
    model.factor = 5
    model.set_replicas(5)
    converge(model)
    assert did(model, "raise") == ["raise 3", "raise 5"]
    assert model.status["replicationFactor"] == 5


def test_pods_come_first_and_nothing_is_asked_before_all_have_joined() -> None:
    model = alone()
    model.factor = 3
    model.set_replicas(3)
    until_asked(model)
    assert set(model.volumes.seats) == {0, 1, 2}


def test_it_is_told_how_far_it_is_until_all_is_done() -> None:
    model = alone()
    model.factor = 3
    model.set_replicas(3)
    until_asked(model)
    seen: list[Any] = []
    for left in (8, 6, 2):
        view = replace(VIEW, factor=3, partitions_to_go=left, moving=2, voters_to_be=3, done=False, reason="a wait")
        model.now_ms += 10_000
        status = plan_cluster(replace(model.world(), replication=view), SETTINGS).status
        model.status = status
        seen.append({key: value for key, value in status["replication"].items() if key != "since"})
        assert said(model) == ("False", Reason.RAISING_REPLICATION)
        assert next(one for one in status["conditions"] if one["type"] == "Ready")["status"] == "False"
    base = {"wanted": 3, "partitionsAtFirst": 8, "moving": 2, "bytesToMove": 0}
    assert seen == [
        {**base, "partitionsToGo": 8},
        {**base, "partitionsToGo": 6, "secondsLeft": 30},
        {**base, "partitionsToGo": 2, "secondsLeft": 7},
    ]


@pytest.mark.parametrize(
    "view", [None, Unknown(reason="X", message="y"), replace(VIEW, factor=3, done=False), replace(VIEW, factor=3)]
)
def test_only_what_is_known_to_want_another_number_is_asked(view: Any) -> None:
    model = alone()
    model.factor = 3
    model.set_replicas(3)
    until_asked(model)
    found = plan_members(replace(model.world(), replication=view))
    assert found.raising is not None
    assert found.raising.action is None
    assert found.raising.done == (view is not None and getattr(view, "done", False) and view.factor == 3)


def test_frozen_nothing_is_asked() -> None:
    model = grown(3, 0)
    model.factor = 3
    asked = plan_members(replace(model.world(), replication=VIEW))
    assert asked.raising is not None
    assert asked.raising.action == RaiseReplication(factor=3, leader=asked.raising.action.leader)  # type: ignore[union-attr]
    frozen = plan_members(replace(model.world(), replication=VIEW), frozen=True)
    assert frozen.raising is not None
    assert frozen.raising.action is None


def test_below_the_level_it_is_told_and_nothing_is_asked() -> None:
    model = ModelCluster(replicas=3, factor_now=3, level=2)
    converge(model)
    status = {**model.status, "founders": 1}
    world = model.world()
    early = plan_members(replace(
        world, owner=replace(world.owner, status=status), spec=replace(world.spec, replication_factor=3),
        replication=VIEW,
    ))  # fmt: skip
    assert early.raising is not None
    assert (early.raising.action, early.finding.status) == (None, "True")
    assert "from feature level 3 on" in early.finding.message


def test_to_lower_is_a_persons_word() -> None:
    model = grown(3, 3)
    model.factor = 1
    model.set_replicas(3)
    converge(model)
    assert did(model, "raise") == ["raise 3"]
    assert said(model) == ("True", Reason.REPLICATION_FACTOR_FIXED)
    assert model.status["replicationFactor"] == 3


def test_bytes_are_those_of_the_copies_that_lack() -> None:
    """Two more of each group of one voter; a coordinator that does not tell sizes counts for nothing."""
    model = alone()
    model.factor = 3
    model.set_replicas(3)
    until_asked(model)
    world = model.world()
    sizes = iter((1_000, 200, None, 5))
    views = {}
    for name, one in world.replicas.items():
        assert isinstance(one, ReplicaView)
        groups = tuple(
            replace(it, voters=(0,), log_bytes=next(sizes, None)) if it.role == "leader" else it for it in one.groups
        )
        views[name] = replace(one, groups=groups)
    told = sum(it.log_bytes or 0 for one in views.values() for it in one.groups)
    view = replace(VIEW, factor=3, partitions_to_go=3, voters_to_be=3, done=False)
    status = plan_cluster(replace(world, replicas=views, replication=view), SETTINGS).status
    assert told >= 1_000
    assert status["replication"]["bytesToMove"] == 2 * told
