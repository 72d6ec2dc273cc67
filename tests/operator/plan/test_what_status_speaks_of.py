"""What a status says of a restart that was asked for, a cluster that never formed, a group that does not exist."""

from dataclasses import replace
from typing import Any

import pytest
from muster_operator.api.conditions import Reason
from muster_operator.api.kinds import COORDINATOR_CLUSTER
from muster_operator.plan.cluster import plan_cluster
from muster_operator.plan.conditions import condition
from muster_operator.plan.group import plan_group
from muster_operator.world.cluster import ClusterWorld
from muster_operator.world.group import GroupWorld

from tests.operator.plan.making import group_view, group_world, pod
from tests.operator.plan.model_cluster import SETTINGS, ModelCluster
from tests.operator.plan.test_rollout_properties import fresh, one_pass

RESTART = "2026-01-01T00:00:00.000+00:00"


def asked(world: GroupWorld, *, paused: bool = False, told: str | None = None) -> GroupWorld:
    status = {"restartedAt": told} if told else {}
    return replace(world, owner=replace(world.owner, restarted_at=RESTART, paused=paused, status=status))


@pytest.mark.parametrize(
    ("paused", "told", "expected"),
    [(False, None, RESTART), (False, "before", RESTART), (True, "before", "before"), (True, None, None)],
)
def test_a_status_names_the_restart_that_it_is_about(paused: bool, told: str | None, expected: str | None) -> None:
    """A paused object has taken up no newer one, so nobody who waits may read it as done."""
    world = asked(group_world(pods=[pod(0)], group=group_view([])), paused=paused, told=told)
    assert plan_group(world, SETTINGS).status.get("restartedAt") == expected


def test_a_restart_shows_as_progress_in_the_pass_that_first_names_it() -> None:
    world = asked(group_world(pods=[pod(n) for n in range(3)], group=group_view([])))
    status = plan_group(world, SETTINGS).status
    assert (status["restartedAt"], condition(status, "Progressing")["status"]) == (RESTART, "True")


def test_a_group_that_does_not_exist_is_empty_and_says_why() -> None:
    world = group_world(group=group_view([], state="Dead"), template=False)
    status = plan_group(world, SETTINGS).status
    assert (status["state"], condition(status, "Ready")["reason"]) == ("Empty", Reason.GROUP_NOT_FOUND)


def judgements(model: ModelCluster) -> tuple[Any, Any, list[str]]:
    plan = one_pass(model)
    found = condition(plan.status, "QuorumAvailable")
    return found["status"], found["reason"], [event.reason for event in plan.events if event.warning]


def test_a_cluster_that_never_had_its_majorities_has_not_lost_them() -> None:
    """Whatever is seen of it until then."""
    model = ModelCluster()
    for _ in range(30):
        status, reason, warnings = judgements(model)
        assert warnings == []
        if status == "True":
            break
        assert reason == Reason.NOT_FORMED
        model.tick()
    else:
        raise AssertionError("never formed")


def weak(world: ClusterWorld) -> ClusterWorld:
    """Groups have leaders by now, but one pod alone is Ready, and no other one answers."""
    assert world.statefulset is not None
    pods = tuple(replace(one, ready=one.ordinal == 0) for one in world.statefulset.pods)
    first = next(one.name for one in pods if one.ordinal == 0)
    return replace(world, statefulset=replace(world.statefulset, pods=pods), replicas={first: world.replicas[first]})


UNSEEN = dict(COORDINATOR_CLUSTER.unseen)


@pytest.mark.parametrize(
    ("before", "reason"), [({}, Reason.NOT_FORMED), (UNSEEN, Reason.NOT_FORMED), (None, Reason.QUORUM_LOST)]
)
def test_the_same_sight_is_a_loss_only_after_the_first_time(before: dict[str, Any] | None, reason: Reason) -> None:
    world = weak(fresh().world())
    if before is not None:
        world = replace(world, owner=replace(world.owner, status=before))
    plan = plan_cluster(world, SETTINGS)
    assert condition(plan.status, "QuorumAvailable")["reason"] == reason
    assert [event.reason for event in plan.events] == ([] if reason == Reason.NOT_FORMED else [reason])


def test_a_transition_does_not_begin_in_1970() -> None:
    """The definition's default says "never"; the first look says when."""
    world = weak(fresh().world())
    status = plan_cluster(replace(world, owner=replace(world.owner, status=UNSEEN)), SETTINGS).status
    assert "1970" not in str(status)
