"""Only members that were recorded in pods of this very object are removed, and no pod is stopped before that."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from muster_operator.api.conditions import Reason
from muster_operator.api.group_status import DEPARTING_MAX
from muster_operator.plan.actions import Apply, RemoveMembers
from muster_operator.plan.conditions import condition
from muster_operator.plan.departing import departing, stored_records
from muster_operator.plan.group import plan_group
from muster_operator.plan.scaling import departure
from muster_operator.world.group import GroupWorld, Leaver, MemberView
from muster_operator.world.views import PodView, StatefulSetView, Unknown

from tests.operator.plan.making import group_view, group_world, member, pod, recorded
from tests.operator.plan.model_cluster import SETTINGS
from tests.operator.plan.model_group import SESSION_TICKS, ModelGroup
from tests.operator.plan.test_group_properties import run

OURS = [member(f"g-{number}", f"10.0.0.{number}") for number in range(3)]
PODS = [pod(number) for number in range(3)]


def shrinking(
    *,
    pods: Sequence[PodView] = PODS,
    members: Sequence[MemberView] = OURS,
    status: Mapping[str, Any] | None = None,
    now: int = 3,
    wanted: int = 1,
) -> GroupWorld:
    """`wanted` replicas, of which the StatefulSet does not know yet."""
    world = group_world(pods=pods, group=group_view(members), replicas=wanted, status=status)
    assert isinstance(world.statefulset, StatefulSetView)
    return replace(world, statefulset=replace(world.statefulset, replicas=now))


def gone(*, members: Sequence[MemberView], status: Mapping[str, Any]) -> GroupWorld:
    """One replica, and its pod is the only one."""
    return group_world(pods=PODS[:1], group=group_view(members), replicas=1, status=status)


def replicas_applied(world: GroupWorld) -> list[int]:
    applied = [one.manifest for one in plan_group(world, SETTINGS).actions if isinstance(one, Apply)]
    return [one["spec"]["replicas"] for one in applied if one["kind"] == "StatefulSet"]


# -- Foreign members. --


def test_members_that_only_have_the_names_are_never_removed() -> None:
    """Of another Kubernetes cluster, or of a StatefulSet of the same name in another namespace."""
    strangers = [member(f"g-{number}", "172.16.0.9") for number in range(3, 10)]
    world = gone(members=[OURS[0], *strangers], status={})
    assert departure(world).members == ()
    assert not any(isinstance(one, RemoveMembers) for one in plan_group(world, SETTINGS).actions)


def test_strangers_stay_through_three_to_one_to_three() -> None:
    model = ModelGroup()
    run(model, 10)
    for number in range(3, 10):
        model.join_from_elsewhere(f"g-{number}")
    for replicas in (1, 3):
        model.scale(replicas)
        run(model, 60)
        assert {f"g-{number}" for number in range(3, 10)} <= set(model.members)
    assert [name for _, name in model.removed] == ["g-1", "g-2"]


def test_who_joined_from_elsewhere_under_the_name_of_a_departed_pod_stays() -> None:
    model = ModelGroup()
    run(model, 10)
    model.scale(2)
    while "g-2" in model.pods:
        run(model, 1)
        model.members.pop("g-2", None)  # it left by itself, in its last moment
        model.join_from_elsewhere("g-2")
    run(model, 60)
    assert (model.removed, model.members["g-2"].stranger) == ([], True)


@pytest.mark.parametrize(
    "now",
    [
        member("g-2", "10.0.0.2", member_id="another process at a reused address"),
        member("g-2", "172.16.0.9"),
        member("g-2", "172.16.0.9", member_id="another"),
        member(None, "10.0.0.2", member_id=OURS[2].member_id),
    ],
    ids=["address reused", "same id elsewhere", "joined elsewhere", "no instance id"],
)
def test_whoever_differs_from_the_record_stays(now: MemberView) -> None:
    status = recorded(OURS[2])
    assert departure(gone(members=[OURS[0], OURS[2]], status=status)).members == (
        Leaver(instance_id="g-2", member_id=OURS[2].member_id),
    )
    assert departure(gone(members=[OURS[0], now], status=status)).members == ()


def test_a_stranger_that_holds_the_name_of_a_living_pod_is_not_recorded() -> None:
    """Both fence each other; the address tells whose turn it is. Nor is one that comes in by the node's address."""
    stranger = member("g-2", "192.168.0.1", member_id="stranger")
    fought = departing(shrinking(members=[*OURS[:2], stranger]))
    assert [(one.pod, one.uid, one.member_id) for one in fought.records] == [
        ("g-1", "u1", OURS[1].member_id),
        ("g-2", "u2", None),
    ]
    status = {"departing": [one.as_status() for one in fought.records]}
    assert departure(gone(members=[OURS[0], stranger], status=status)).members == ()


def test_an_address_of_a_pod_that_is_over_may_be_anothers() -> None:
    over = [*PODS[:2], pod(2, phase="Failed", ready=False)]
    assert departing(shrinking(pods=over)).records[1].member_id is None


def test_a_record_without_a_member_removes_nobody() -> None:
    """Its member was never seen in the pod: the coordinator was silent, or the members come through NAT."""
    status = {"departing": [{"pod": "g-2", "uid": "u2"}]}
    assert departure(gone(members=[OURS[0], OURS[2]], status=status)).members == ()
    assert departing(gone(members=[OURS[0], OURS[2]], status=status)).records == ()


@pytest.mark.parametrize("host", ["::ffff:10.0.0.2", "fd00:0::2", "10.0.0.2"])
def test_any_address_of_the_pod_will_do_however_it_is_spelled(host: str) -> None:
    both = [*PODS[:2], pod(2, pod_ips=("10.0.0.2", "fd00::2"))]
    world = shrinking(pods=both, members=[*OURS[:2], member("g-2", host)])
    assert departing(world).records[1].member_id == "id-of-g-2"


# -- The order of things. --


def test_the_statefulset_keeps_its_number_until_the_records_are_stored() -> None:
    world = shrinking()
    plan = plan_group(world, SETTINGS)
    assert (set(replicas_applied(world)), plan.decision) == ({3}, Reason.RECORDING_PODS)
    assert plan.requeue_after_ms == SETTINGS.step_ms
    assert plan.status["departing"] == [
        {"pod": f"g-{number}", "uid": f"u{number}", "memberId": f"id-of-g-{number}", "host": f"10.0.0.{number}"}
        for number in (1, 2)
    ]
    assert condition(plan.status, "Progressing")["reason"] == Reason.RECORDING_PODS
    assert replicas_applied(shrinking(status=plan.status)) == [1]


def test_a_status_that_is_not_written_holds_the_scale_down() -> None:
    """Refused, in conflict, or the operator died before it: the next pass sees what was stored before."""
    for _ in range(3):
        assert set(replicas_applied(shrinking(status={}))) == {3}


def test_a_silent_coordinator_does_not_hold_it() -> None:
    silent = replace(shrinking(), group=Unknown(reason="Unreachable", message="no answer"))
    plan = plan_group(silent, SETTINGS)
    assert plan.status["departing"] == [{"pod": "g-1", "uid": "u1"}, {"pod": "g-2", "uid": "u2"}]
    assert replicas_applied(shrinking(status=plan.status)) == [1]


def test_a_definition_without_a_place_for_records_holds_it_for_one_try() -> None:
    """A chart is upgraded without the CRDs: nobody is removed, and the scale-down goes on."""
    status = {key: value for key, value in plan_group(shrinking(), SETTINGS).status.items() if key != "departing"}
    assert replicas_applied(shrinking(status=status)) == [1]
    assert departure(gone(members=OURS, status=status)).members == ()
    changed = shrinking(status=status)
    changed = replace(changed, owner=replace(changed.owner, generation=2))
    assert set(replicas_applied(changed)) == {3}, "another generation, another try"


def test_a_pod_that_came_after_the_records_is_recorded_too() -> None:
    status = plan_group(shrinking(), SETTINGS).status
    again = shrinking(pods=[*PODS[:2], pod(2, uid="new")], status=status)
    assert set(replicas_applied(again)) == {3}
    assert stored_records(plan_group(again, SETTINGS).status)["g-2"].uid == "new"


def test_a_pod_of_the_same_name_inherits_no_member() -> None:
    """Its member was not seen yet; the one before it may be anywhere."""
    status = recorded(OURS[2])
    world = shrinking(pods=[*PODS[:2], pod(2, uid="new", ip="10.0.0.99")], status=status)
    assert [(one.uid, one.member_id) for one in departing(world).records] == [("u1", "id-of-g-1"), ("new", None)]


def test_a_namesake_at_the_recorded_address_does_not_keep_the_record() -> None:
    world = gone(members=[OURS[0], member("g-2", "10.0.0.2", member_id="another")], status=recorded(OURS[2]))
    assert departing(world).records == ()


def test_a_record_follows_a_container_that_restarts_while_its_pod_is_stopped() -> None:
    later = member("g-2", "10.0.0.2", member_id="after the restart")
    stopping = [PODS[0], pod(2, terminating=True)]
    world = shrinking(pods=stopping, members=[OURS[0], later], status=recorded(OURS[2]), now=1)
    assert [one.member_id for one in departing(world).records] == ["after the restart"]


def test_a_scale_down_that_an_older_operator_began_records_what_is_still_there() -> None:
    world = shrinking(pods=[PODS[0], pod(2, terminating=True)], status={}, now=1)
    plan = departing(world)
    assert ([one.pod for one in plan.records], plan.held) == (["g-2"], None)
    assert departure(gone(members=OURS, status={})).members == (), "g-1 was gone before: its session timeout ends it"


def test_records_go_when_they_are_of_no_use() -> None:
    status = recorded(*OURS[1:])
    assert [one.pod for one in departing(gone(members=OURS, status=status)).records] == ["g-1", "g-2"]
    assert [one.pod for one in departing(gone(members=OURS[:2], status=status)).records] == ["g-1"]
    unseen = replace(gone(members=OURS, status=status), group=Unknown(reason="Unreachable", message="no answer"))
    assert [one.pod for one in departing(unseen).records] == ["g-1", "g-2"]
    blind = replace(unseen, statefulset=Unknown(reason="ApiError", message="503"))
    assert [one.pod for one in departing(blind).records] == ["g-1", "g-2"]
    back = group_world(pods=PODS, group=group_view(OURS), replicas=3, status=status)
    assert departing(back).records == ()


def test_as_many_records_as_replicas_can_be() -> None:
    pods = [pod(number) for number in range(DEPARTING_MAX + 5)]
    plan = departing(shrinking(pods=pods, now=DEPARTING_MAX + 5, wanted=0))
    assert (len(plan.records), plan.records[-1].pod) == (DEPARTING_MAX, f"g-{DEPARTING_MAX - 1}")
    status = {"departing": [one.as_status() for one in plan.records]}
    assert departing(shrinking(pods=pods, now=DEPARTING_MAX + 5, wanted=0, status=status)).held is None


def test_a_pod_deleted_by_force_is_removed_once_and_its_process_may_join_again() -> None:
    model = ModelGroup()
    run(model, 10)
    model.cut_off("g-2")
    model.scale(2)
    run(model, 10)
    address = model.pods.pop("g-2").ip
    model.strangers.add(address)  # it still speaks
    run(model, 2)
    assert [name for _, name in model.removed] == ["g-2"]
    model.join_from_elsewhere("g-2", host=address)
    run(model, SESSION_TICKS)
    assert len(model.removed) == 1
    assert "g-2" in model.members
