"""A workload that somebody else made: scaled by `replicas`, restarted once, judged, and otherwise left alone."""

import dataclasses
from typing import Any

import pytest
from muster_operator.api.conditions import Reason
from muster_operator.plan.actions import RemoveMembers, Restart, Scale
from muster_operator.plan.conditions import condition
from muster_operator.plan.group import plan_group
from muster_operator.world.group import GroupWorld, Leaver
from muster_operator.world.views import PodView, ReferencedView, StatefulSetView, Unknown, Unusable

from tests.operator.plan.making import group_view, member, pod, recorded, referring_world
from tests.operator.plan.model_cluster import SETTINGS

KINDS = ("Deployment", "StatefulSet", "Rollout")
PODS = [pod(number) for number in range(3)]
STATIC = [member(f"g-{number}", f"10.0.0.{number}") for number in range(3)]
DYNAMIC = [member(None, f"10.0.0.{number}") for number in range(3)]
AT = "2026-03-01T12:00:00.500+01:00"


def replica(number: int, **other: Any) -> PodView:
    """A pod of a Deployment."""
    return pod(number, **({"name": f"g-5d9f-{number:05}", "revision": ""} | other))


def said(world: GroupWorld, type_: str) -> tuple[str, str]:
    found = condition(plan_group(world, SETTINGS).status, type_)
    return found["status"], found["reason"]


def message(world: GroupWorld, type_: str) -> str:
    return str(condition(plan_group(world, SETTINGS).status, type_)["message"])


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_number_of_its_own_it_leaves_the_workloads_alone(kind: str) -> None:
    world = referring_world(kind=kind, pods=PODS, group=group_view(STATIC))
    plan = plan_group(world, SETTINGS)
    assert plan.actions == ()
    assert (plan.status["readyText"], plan.status["replicas"], plan.status["selector"]) == ("3/3", 3, "app=g")
    assert said(world, "Ready") == ("True", Reason.GROUP_STABLE)
    assert said(world, "Progressing") == ("False", Reason.CONVERGED)
    assert said(world, "Degraded") == ("False", Reason.AS_EXPECTED)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wanted", [0, 5, 1_000])
def test_a_number_goes_through_the_scale_subresource(kind: str, wanted: int) -> None:
    members = [] if kind == "StatefulSet" else DYNAMIC
    world = referring_world(kind=kind, group=group_view(members), replicas=wanted, now=3)
    version = "argoproj.io/v1alpha1" if kind == "Rollout" else "apps/v1"
    plan = plan_group(world, SETTINGS)
    assert plan.actions == (Scale(api_version=version, kind=kind, name="g", replicas=wanted),)
    assert said(world, "Progressing") == ("True", Reason.SCALING)
    assert message(world, "Progressing") == f"{kind} g is scaled from 3 to {wanted}"
    assert plan.status["readyText"] == f"0/{wanted}"
    same = referring_world(kind=kind, group=group_view(members), replicas=wanted, now=wanted)
    assert plan_group(same, SETTINGS).actions == ()


@pytest.mark.parametrize("kind", KINDS)
def test_paused_writes_nothing(kind: str) -> None:
    world = referring_world(kind=kind, pods=PODS, group=group_view(STATIC), replicas=7, restarted_at=AT)
    world = dataclasses.replace(world, owner=dataclasses.replace(world.owner, paused=True))
    plan = plan_group(world, SETTINGS)
    assert plan.actions == ()
    assert "restartedAt" not in plan.status
    held = dataclasses.replace(
        referring_world(kind="StatefulSet", pods=[pod(0, revision="r0")], group=group_view([])), owner=world.owner
    )
    assert plan_group(held, SETTINGS).actions == (), "the partition of a StatefulSet that is somebody else's is theirs"


# -- Restart. --


@pytest.mark.parametrize(("kind", "at"), [("Deployment", AT), ("StatefulSet", AT), ("Rollout", "2026-03-01T11:00:00Z")])
def test_a_restart_is_told_once_and_counts_when_it_is_seen(kind: str, at: str) -> None:
    asked = referring_world(kind=kind, pods=PODS, group=group_view(STATIC), restarted_at=AT)
    plan = plan_group(asked, SETTINGS)
    (restart,) = plan.actions
    assert isinstance(restart, Restart)
    assert (restart.kind, restart.at) == (kind, at)
    assert "restartedAt" not in plan.status, "it may not have arrived"
    assert isinstance(asked.referenced, ReferencedView)
    seen = dataclasses.replace(asked, referenced=dataclasses.replace(asked.referenced, restarted_at=at))
    plan = plan_group(seen, SETTINGS)
    assert (plan.actions, plan.status["restartedAt"]) == ((), AT)
    overwritten = referring_world(
        kind=kind, pods=PODS, group=group_view(STATIC), restarted_at=AT, status={"restartedAt": AT}
    )
    plan = plan_group(overwritten, SETTINGS)
    assert (plan.actions, plan.status["restartedAt"]) == ((), AT), "who writes the workload anew restarts nothing"


@pytest.mark.parametrize("text", ["now", "", "2026-03-01T12:00:00", "x" * 1_000, "9999-12-31T23:59:59-14:00"])
def test_a_rollout_takes_nothing_but_a_time(text: str) -> None:
    world = referring_world(kind="Rollout", pods=PODS, group=group_view(DYNAMIC), restarted_at=text)
    assert plan_group(world, SETTINGS).actions == ()
    assert said(world, "Degraded") == ("True", Reason.RESTART_REFUSED)
    assert "Rollout g restarts at a time" in message(world, "Degraded")
    other = referring_world(kind="Deployment", pods=PODS, group=group_view(DYNAMIC), restarted_at=text)
    assert plan_group(other, SETTINGS).actions == (
        Restart(api_version="apps/v1", kind="Deployment", name="g", at=text),
    )


# -- What cannot be used, and what is another's. --


@pytest.mark.parametrize(
    "reason",
    [
        Reason.WORKLOAD_NOT_FOUND,
        Reason.WORKLOAD_TAKEN,
        Reason.WORKLOAD_WITHOUT_SELECTOR,
        Reason.WORKLOAD_REFUSED,
    ],
)
def test_what_cannot_be_used_is_said_and_the_group_is_observed_all_the_same(reason: Reason) -> None:
    why = Unusable(reason=reason, message="Deployment g is none")
    world = referring_world(group=group_view(DYNAMIC), replicas=5, restarted_at=AT, unusable=why)
    plan = plan_group(world, SETTINGS)
    assert plan.actions == ()
    for type_, status in (("Ready", "False"), ("Progressing", "False"), ("Degraded", "True")):
        assert said(world, type_) == (status, reason)
    assert (plan.status["readyText"], plan.status["memberCount"], plan.status["state"]) == ("Unknown", 3, "Stable")
    assert "replicas" not in plan.status
    assert [(one.reason, one.warning) for one in plan.events] == [(reason, True)]


def test_of_two_that_refer_to_one_workload_the_younger_only_looks() -> None:
    world = referring_world(
        kind="StatefulSet", pods=PODS, group=group_view(STATIC), replicas=1, restarted_at=AT, status=recorded(STATIC[2])
    )
    world = dataclasses.replace(world, workload_elder="ns/older")
    plan = plan_group(world, SETTINGS)
    assert plan.actions == ()
    assert plan.status["readyText"] == "3/3"
    assert said(world, "Degraded") == ("True", Reason.WORKLOAD_SHARED)
    assert "ConsumerGroup ns/older is older and refers to StatefulSet g too" in message(world, "Degraded")
    assert "departing" not in plan.status


def test_nothing_is_known_of_pods_that_could_not_be_looked_at_and_records_stay() -> None:
    why = Unusable(reason=Reason.WORKLOAD_REFUSED, message="no right")
    world = referring_world(
        kind="StatefulSet", group=group_view(STATIC), replicas=1, status=recorded(STATIC[2]), unusable=why
    )
    world = dataclasses.replace(world, statefulset=Unknown(reason="WorkloadRefused", message="no right"))
    plan = plan_group(world, SETTINGS)
    assert plan.actions == ()
    assert [one["pod"] for one in plan.status["departing"]] == ["g-2"]


# -- A StatefulSet's members. --


def test_a_statefulset_is_made_smaller_only_when_the_records_are_stored() -> None:
    first = plan_group(referring_world(kind="StatefulSet", pods=PODS, group=group_view(STATIC), replicas=1), SETTINGS)
    assert first.actions == ()
    assert [(one["pod"], one["memberId"]) for one in first.status["departing"]] == [
        ("g-1", STATIC[1].member_id),
        ("g-2", STATIC[2].member_id),
    ]
    assert condition(first.status, "Progressing")["reason"] == Reason.RECORDING_PODS
    second = plan_group(
        referring_world(kind="StatefulSet", pods=PODS, group=group_view(STATIC), replicas=1, status=first.status),
        SETTINGS,
    )
    assert [type(one) for one in second.actions] == [Scale]


def removed(world: GroupWorld) -> tuple[Leaver, ...]:
    found = [one.members for one in plan_group(world, SETTINGS).actions if isinstance(one, RemoveMembers)]
    return found[0] if found else ()


@pytest.mark.parametrize("replicas", [1, None], ids=["scaled by us", "scaled by others"])
def test_members_that_were_seen_in_its_pods_are_removed_when_those_are_gone(replicas: int | None) -> None:
    strangers = [member(f"g-{number}", "172.16.0.9") for number in range(3, 10)]
    status = recorded(*STATIC[1:])
    world = referring_world(
        kind="StatefulSet", pods=PODS[:1], group=group_view([*STATIC, *strangers]), replicas=replicas, now=1,
        status=status,
    )  # fmt: skip
    assert [one.instance_id for one in removed(world)] == ["g-1", "g-2"]
    nothing_recorded = dataclasses.replace(world, owner=dataclasses.replace(world.owner, status={}))
    assert removed(nothing_recorded) == ()
    still_there = referring_world(
        kind="StatefulSet", pods=[*PODS[:2], pod(2, terminating=True)], group=group_view(STATIC), replicas=replicas,
        now=1, status=status,
    )  # fmt: skip
    assert removed(still_there) == ()


def test_others_who_scale_it_are_not_waited_for_and_the_pods_that_stop_are_recorded() -> None:
    pods = [PODS[0], pod(1, terminating=True), pod(2, terminating=True)]
    plan = plan_group(referring_world(kind="StatefulSet", pods=pods, group=group_view(STATIC), now=1), SETTINGS)
    assert plan.actions == ()
    assert [one["pod"] for one in plan.status["departing"]] == ["g-1", "g-2"]


def test_ordinals_that_begin_later() -> None:
    """`spec.ordinals.start` is 5: pods 5 to 7 are wanted, and 0 to 2 are not."""
    pods = [pod(number) for number in (5, 6, 7)]
    members = [member(f"g-{number}", f"10.0.0.{number}") for number in (5, 6, 7)]
    world = referring_world(kind="StatefulSet", pods=pods, group=group_view(members))
    assert isinstance(world.statefulset, StatefulSetView)
    world = dataclasses.replace(world, statefulset=dataclasses.replace(world.statefulset, first_ordinal=5))
    assert said(world, "Ready") == ("True", Reason.GROUP_STABLE)
    assert said(world, "StaticMembership") == ("True", Reason.MEMBERS_STATIC)
    assert "departing" not in plan_group(world, SETTINGS).status
    smaller = dataclasses.replace(world, spec=dataclasses.replace(world.spec, replicas=2))
    assert [one["pod"] for one in plan_group(smaller, SETTINGS).status["departing"]] == ["g-7"]


@pytest.mark.parametrize("kind", ["Deployment", "Rollout"])
def test_nobody_of_a_workload_with_changing_names_is_recorded_or_removed(kind: str) -> None:
    members = [member(f"g-{number}", f"10.0.0.{number}") for number in range(3)]
    world = referring_world(
        kind=kind, pods=[replica(0)], group=group_view(members), replicas=1, now=1, status=recorded(*members[1:])
    )
    assert removed(world) == ()
    assert said(world, "StaticMembership") == ("False", Reason.NAMES_NOT_STABLE)
    assert f"pods of {kind} g get new names" in message(world, "StaticMembership")


# -- Members and pods. --


def test_members_are_mapped_to_pods_by_name_and_by_address() -> None:
    pods = [replica(0), replica(1), replica(2, ip="10.0.0.9"), replica(3, ip="10.0.0.9")]
    members = [
        member(None, "10.0.0.0", member_id="a"),
        member("an id of its own", "10.0.0.1", member_id="b"),
        member(None, "10.0.0.9", member_id="c"),
        member(None, "172.16.0.1", member_id="d"),
    ]
    world = referring_world(pods=pods, group=group_view(members), now=4)
    found = {one["memberId"]: one.get("pod") for one in plan_group(world, SETTINGS).status["members"]}
    assert found == {"a": pods[0].name, "b": pods[1].name, "c": None, "d": None}, "an address of two pods is no proof"


def test_pods_that_are_no_members_are_named() -> None:
    world = referring_world(pods=[replica(n) for n in range(3)], group=group_view(DYNAMIC[:2]))
    assert said(world, "Ready") == ("False", Reason.MEMBERS_MISSING)
    assert replica(2).name in message(world, "Ready")


@pytest.mark.parametrize(
    ("pods", "view", "reason"),
    [
        ([replica(n) for n in range(3)], {"generation": 4}, Reason.WORKLOAD_NOT_OBSERVED),
        ([replica(n) for n in range(4)], {"updated_replicas": 2}, Reason.ROLLING_OUT),
        ([replica(n) for n in range(4)], {}, Reason.SCALING),
        ([*(replica(n) for n in range(3)), replica(3, terminating=True)], {}, Reason.POD_TERMINATING),
        ([replica(0), replica(1), replica(2, ready=False)], {}, Reason.WAITING_FOR_POD),
        ([replica(0)], {}, Reason.WAITING_FOR_POD),
    ],
)
def test_what_the_pods_of_a_deployment_lack(pods: list[PodView], view: dict[str, Any], reason: Reason) -> None:
    world = referring_world(pods=pods, group=group_view(DYNAMIC), **view)
    assert said(world, "Ready") == ("False", reason)
    assert said(world, "Progressing") == ("True", reason)


# -- A Rollout, as Argo tells of it. --


@pytest.mark.parametrize(
    ("phase", "reason"), [("Paused", Reason.WORKLOAD_PAUSED), ("Degraded", Reason.WORKLOAD_DEGRADED)]
)
@pytest.mark.parametrize(
    ("pods", "updated", "text"),
    [(3, 1, "1 of 3 pods are of the newest template"), (6, 3, "6 pods exist, 3 are wanted")],
    ids=["canary", "blue and green"],
)
def test_a_rollout_that_stands_still_does_not_progress(
    phase: str, reason: Reason, pods: int, updated: int, text: str
) -> None:
    view = {"kind": "Rollout", "pods": [replica(n) for n in range(pods)], "updated_replicas": updated}
    world = referring_world(group=group_view(DYNAMIC), phase=phase, phase_message="why", **view)
    for type_ in ("Ready", "Progressing"):
        assert said(world, type_) == ("False", reason)
        assert message(world, type_) == f"Rollout g is {phase} (why): {text}"
    assert said(world, "Degraded")[0] == ("True" if phase == "Degraded" else "False")
    goes_on = referring_world(group=group_view(DYNAMIC), phase="Progressing", phase_message="why", **view)
    assert said(goes_on, "Progressing") == ("True", Reason.ROLLING_OUT if updated < 3 else Reason.SCALING)
    unseen = referring_world(group=group_view(DYNAMIC), phase=phase, phase_message="why", generation=4, **view)
    assert said(unseen, "Progressing") == ("True", Reason.WORKLOAD_NOT_OBSERVED), "the phase is of an older spec"
    assert said(unseen, "Degraded")[0] == "False"


def test_a_rollout_that_is_paused_or_degraded_and_complete_is_ready() -> None:
    complete = {"kind": "Rollout", "pods": [replica(n) for n in range(3)]}
    paused = referring_world(group=group_view(DYNAMIC), phase="Paused", phase_message="manually paused", **complete)
    assert said(paused, "Ready") == ("True", Reason.GROUP_STABLE)
    assert said(paused, "Degraded") == ("False", Reason.AS_EXPECTED)
    invalid = referring_world(group=group_view(DYNAMIC), phase="Degraded", phase_message="InvalidSpec: x", **complete)
    assert said(invalid, "Ready") == ("True", Reason.GROUP_STABLE)
    assert said(invalid, "Degraded") == ("True", Reason.WORKLOAD_DEGRADED)
    assert message(invalid, "Degraded") == "Rollout g is Degraded: InvalidSpec: x"
    assert [one.reason for one in plan_group(invalid, SETTINGS).events] == [Reason.WORKLOAD_DEGRADED]


@pytest.mark.parametrize(
    ("done", "at", "restarts"),
    [
        (None, "2020-01-01T00:00:00Z", True),
        ("2019-01-01T00:00:00Z", "2020-01-01T00:00:00Z", True),
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", False),
        ("2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00", False),
        (None, "9999-01-01T00:00:00Z", False),
        (None, None, False),
    ],
    ids=["never before", "again", "done", "the same time", "later", "none"],
)
def test_a_restart_of_a_rollout_lasts_until_argo_has_finished_it(
    done: str | None, at: str | None, restarts: bool
) -> None:
    """No template changes and one pod is replaced at a time: in between all are Ready."""
    pods = [replica(n) for n in range(3)]
    world = referring_world(kind="Rollout", pods=pods, group=group_view(DYNAMIC), restart_done=done)
    assert isinstance(world.referenced, ReferencedView)
    world = dataclasses.replace(world, referenced=dataclasses.replace(world.referenced, restarted_at=at))
    assert said(world, "Ready")[0] == ("False" if restarts else "True")
    assert said(world, "Progressing") == (("True", Reason.ROLLING_OUT) if restarts else ("False", Reason.CONVERGED))
    if restarts:
        assert f"replaces the pods made before {at}" in message(world, "Progressing")


def test_who_replaces_pods_is_said_where_nobody_does() -> None:
    world = referring_world(kind="StatefulSet", pods=[pod(0, revision="r0"), pod(1), pod(2)], group=group_view(STATIC))
    assert isinstance(world.statefulset, StatefulSetView)
    world = dataclasses.replace(world, statefulset=dataclasses.replace(world.statefulset, rolls=False))
    assert "once they are deleted (its updateStrategy is OnDelete)" in message(world, "Progressing")


def test_a_thousand_pods_and_the_longest_names() -> None:
    name = "g" * 240
    pods = [replica(n, name=f"{name}-{n:010}", ip=f"10.1.{n // 250}.{n % 250}") for n in range(1_000)]
    members = [member(None, one.pod_ip or "", member_id=f"m{at}") for at, one in enumerate(pods)]
    world = referring_world(pods=pods, group=group_view(members), now=1_000, selector="a" * 10_001)
    plan = plan_group(world, SETTINGS)
    assert said(world, "Ready") == ("True", Reason.GROUP_STABLE)
    assert (plan.status["readyText"], plan.status["memberCount"], len(plan.status["members"])) == (
        "1000/1000",
        1_000,
        100,
    )
    assert "selector" not in plan.status, "the definition holds 10,000 characters"
    assert {one["pod"] for one in plan.status["members"]} < {one.name for one in pods}
