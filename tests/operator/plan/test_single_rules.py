"""Single rules that the models seldom reach: pods between two states, groups without a leader, numbers not seen yet."""

from dataclasses import replace

import pytest
from muster_operator.api.conditions import Reason
from muster_operator.plan.actions import DeleteChild, EvictPod
from muster_operator.plan.cluster import plan_cluster
from muster_operator.plan.conditions import condition
from muster_operator.plan.group import plan_group
from muster_operator.plan.pods import broken, degraded, stuck, unsettled
from muster_operator.plan.rollout import Step, next_step
from muster_operator.plan.scaling import departure
from muster_operator.world.cluster import RaftGroupView, ReplicaView
from muster_operator.world.group import GroupWorld
from muster_operator.world.views import StatefulSetView, Unknown

from tests.operator.plan.making import NOW_MS, group_view, group_world, member, pod, recorded
from tests.operator.plan.model_cluster import SETTINGS, ModelCluster
from tests.operator.plan.test_rollout_properties import fresh, one_pass


def test_a_terminating_pod_is_waited_for_although_it_still_says_ready() -> None:
    assert unsettled(pod(0, terminating=True), now_ms=NOW_MS, settings=SETTINGS) == "is terminating"
    assert unsettled(pod(0), now_ms=NOW_MS, settings=SETTINGS) is None
    young = pod(0, ready_since_ms=NOW_MS - 9_999)
    assert "less than 10 s" in str(unsettled(young, now_ms=NOW_MS, settings=SETTINGS))


def test_a_running_pod_that_is_not_ready_is_neither_broken_nor_stuck_until_its_patience_is_over() -> None:
    recovering = pod(0, ready=False, ready_since_ms=None, unready_since_ms=NOW_MS - 60_000)
    assert broken(recovering) is None
    assert stuck(recovering, until_ms=NOW_MS, settings=SETTINGS) is None
    assert stuck(recovering, until_ms=NOW_MS + 1, settings=SETTINGS) is not None
    crashing = pod(0, ready=False, restarts=3)
    assert (broken(crashing), stuck(crashing, until_ms=NOW_MS, settings=SETTINGS)) == (None, "3 restarts")


@pytest.mark.parametrize(("age_ms", "told"), [(9_999, False), (10_000, True), (None, True)])
def test_a_pod_that_was_made_just_now_may_have_no_node_yet(age_ms: int | None, *, told: bool) -> None:
    """Seen on a node: "persistentvolumeclaim not found", for a claim that was made in the same second."""
    made_ms = None if age_ms is None else NOW_MS - age_ms
    waits = replace(pod(0, ready=False, unschedulable=True), created_ms=made_ms, ready_since_ms=None)
    group = plan_group(group_world(pods=(waits,), group=group_view(())), SETTINGS)
    world = fresh().world()
    assert isinstance(world.statefulset, StatefulSetView)
    mine = replace(waits, created_ms=None if age_ms is None else world.now_ms - age_ms)
    pods = (mine, *world.statefulset.pods[1:])
    cluster = plan_cluster(replace(world, statefulset=replace(world.statefulset, pods=pods)), SETTINGS)
    for plan in (group, cluster):
        reasons = {str(condition(plan.status, "Degraded")["reason"]), *(str(one.reason) for one in plan.events)}
        assert (str(Reason.POD_UNSCHEDULABLE) in reasons) == told, reasons
    failing = replace(waits, waiting_reason="ImagePullBackOff")
    assert degraded(failing, now_ms=NOW_MS) == "ImagePullBackOff"


def drained() -> ModelCluster:
    """c-2 is drained and would be evicted in the next pass."""
    model = fresh()
    model.set_image("good-2")
    while model.pods[2].drain != "drained":
        one_pass(model)
        model.tick()
    assert next_step(model.world(), SETTINGS).decision == Reason.EVICTING_POD
    return model


def test_a_drained_pod_stays_while_any_group_has_no_leader() -> None:
    model = drained()
    model.rafts[1].leader = None
    step = next_step(model.world(), SETTINGS)
    assert (step.decision, step.action) == (Reason.WAITING_FOR_QUORUM, None)
    assert "__consumer_offsets-0" in step.reason


def test_a_drained_pod_stays_while_it_leads_again() -> None:
    model = drained()
    model.elect(2, 2)
    step = next_step(model.world(), SETTINGS)
    assert (step.decision, step.action) == (Reason.DRAINING_POD, None)


def test_a_drained_pod_goes_with_partitions_that_have_their_only_replica_there_and_with_no_other() -> None:
    world = drained().world()
    view = world.replicas["c-2"]
    assert isinstance(view, ReplicaView)
    alone = RaftGroupView(
        group=99, topic="t", partition=4, role="leader", term=1, leader=2, voters=(2,), last_index=9, commit_index=9,
        applied_index=9, match={2: 9},
    )  # fmt: skip

    def step(leaderships: int) -> Step:
        told = replace(view, groups=(*view.groups, alone), leaderships=leaderships)
        return next_step(replace(world, replicas={**world.replicas, "c-2": told}), SETTINGS)

    going = step(1)
    assert going.decision == Reason.EVICTING_POD
    assert isinstance(going.action, EvictPod)
    assert going.reason.endswith("but for those that have their only replica there and are away with it: t-4")
    assert (step(2).decision, step(2).action) == (Reason.DRAINING_POD, None)
    assert "still leads 1 Raft groups" in step(2).reason


def test_a_drained_pod_stays_while_another_has_not_caught_up() -> None:
    model = drained()
    model.fall_behind(1)
    step = next_step(model.world(), SETTINGS)
    assert (step.decision, step.action) == (Reason.WAITING_FOR_QUORUM, None)


def test_nothing_is_done_before_the_controller_has_seen_the_statefulset() -> None:
    model = drained()
    model.observed -= 1
    assert next_step(model.world(), SETTINGS).action is None


def test_a_statefulset_that_could_not_be_seen_is_waited_for() -> None:
    world = replace(fresh().world(), statefulset=Unknown(reason="ApiError", message="503"))
    assert next_step(world, SETTINGS).action is None


def shrunk(**other: object) -> GroupWorld:
    """From three to two, g-2 was recorded, is gone and still listed."""
    members = [member(f"g-{number}", f"10.0.0.{number}") for number in range(3)]
    status = recorded(members[2])
    world = group_world(pods=[pod(0), pod(1)], group=group_view(members), replicas=2, status=status)
    assert isinstance(world.statefulset, StatefulSetView)
    return replace(world, statefulset=replace(world.statefulset, **other))


def test_the_departed_is_removed() -> None:
    assert departure(shrunk()).instance_ids == ("g-2",)


@pytest.mark.parametrize(
    "unsure",
    [
        {"observed_generation": 2},
        {"replicas": 3},
        {"pods": (pod(0), pod(1), pod(2, terminating=True))},
        {"pods": (pod(0), pod(1), pod(2, phase="Failed", ready=False))},
    ],
    ids=["not observed", "not scaled yet", "terminating", "failed"],
)
def test_nobody_is_removed_as_long_as_the_pod_may_be_there(unsure: dict[str, object]) -> None:
    assert departure(shrunk(**unsure)).instance_ids == ()


def test_nobody_is_removed_on_unknown() -> None:
    unknown = Unknown(reason="ApiError", message="503")
    assert departure(replace(shrunk(), statefulset=unknown)).instance_ids == ()
    assert departure(replace(shrunk(), group=unknown)).instance_ids == ()


def test_ids_that_only_look_similar_are_left_alone() -> None:
    members = [member(one, "10.0.0.9") for one in ("g-02", "g-x", "other-5", "g--3", "g")]
    world = replace(shrunk(), group=group_view([*members, member(None, "10.0.0.8")]))
    written = replace(world, owner=replace(world.owner, status=recorded(*members)))
    assert departure(world).instance_ids == departure(written).instance_ids == ()


def test_what_only_tidies_up_comes_after_a_restart_and_cannot_hold_it_back() -> None:
    """The first action that fails ends a pass: what may not be deleted must not stop a roll-out or its cure."""
    model = drained()
    key, service = next((key, one) for key, one in model.live.items() if key[0] == "Service")
    old = f"{key[1]}-old"
    model.live["Service", old] = {**service, "metadata": {**service["metadata"], "name": old, "uid": "u-old"}}
    actions = plan_cluster(model.world(), SETTINGS).actions
    assert [type(one) for one in actions] == [EvictPod, DeleteChild]
