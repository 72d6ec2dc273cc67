"""Workloads that the operator did not make, on a fake API server with controllers and virtual time."""

import dataclasses
from typing import Any

import pytest
from muster_operator.naming import RESTART_ANNOTATION
from muster_operator.plugin.waiting import restart_progress
from muster_operator.world.group import MemberView, ObservedGroup

from tests.operator.fakes.bench import World, cluster, group, run
from tests.operator.fakes.faults import Crash, FaultLine
from tests.operator.runtime.test_crashes import READS, SETTLE_MS, members, settled, stable

AT = "2026-03-01T12:00:00Z"
PAST = "1970-01-01T00:10:00Z"
"""Before the fake clock begins."""


def workload(kind: str = "Deployment", *, name: str = "g", replicas: int = 3, **spec: Any) -> dict[str, Any]:
    version = "argoproj.io/v1alpha1" if kind == "Rollout" else "apps/v1"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "ns", "labels": {"team": "theirs"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "theirs:1"}]},
            },
            **({"updateStrategy": {"type": "RollingUpdate"}} if kind == "StatefulSet" else {}),
            **spec,
        },
    }


def referring(kind: str = "Deployment", *, name: str = "group", to: str = "g", **spec: Any) -> dict[str, Any]:
    version = "argoproj.io/v1alpha1" if kind == "Rollout" else "apps/v1"
    found = group(name, template=False, workloadRef={"apiVersion": version, "kind": kind, "name": to}, **spec)
    if "replicas" not in spec:
        del found["spec"]["replicas"]
    found["spec"]["groupId"] = spec.get("groupId", "g")
    return found


async def started(*objects: dict[str, Any], instances: int = 3) -> World:
    world = World()
    for one in objects:
        world.fake.put(one)
    world.kafka.groups["g"] = stable(instances)
    world.start()
    return await settled(world)


def live(world: World, kind: str, name: str = "g") -> dict[str, Any]:
    return world.fake.objects[kind, "ns", name]


def status(world: World, name: str = "group") -> dict[str, Any]:
    found: dict[str, Any] = live(world, "ConsumerGroup", name)["status"]
    return found


def said(world: World, type_: str, name: str = "group") -> tuple[str, str]:
    one = next(one for one in status(world, name)["conditions"] if one["type"] == type_)
    return one["status"], one["reason"]


def ask(world: World, name: str = "group", **spec: Any) -> None:
    world.fake.edit("ConsumerGroup", "ns", name, lambda one: one["spec"].update(spec))


def pods(world: World, name: str = "g") -> list[str]:
    return [pod for kind, _, pod in sorted(world.fake.objects) if kind == "Pod" and pod.startswith(f"{name}-")]


def without_replicas(obj: dict[str, Any]) -> dict[str, Any]:
    """Everything of a workload that only its maker may write."""
    metadata = {k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion", "generation")}
    return {"metadata": metadata, "spec": {k: v for k, v in obj["spec"].items() if k != "replicas"}}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Rollout"])
def test_it_is_scaled_as_the_group_says_and_nothing_else_of_it_is_written(kind: str) -> None:
    async def scene() -> World:
        world = await started(workload(kind), referring(kind))
        before = without_replicas(live(world, kind))
        assert status(world)["readyText"] == "3/3"
        for replicas in (5, 1, 0, 2):
            ask(world, replicas=replicas)
            await world.run(SETTLE_MS)
            assert live(world, kind)["spec"]["replicas"] == replicas
            assert len(pods(world)) == replicas
            assert status(world)["readyText"] == f"{replicas}/{replicas}"
        assert without_replicas(live(world, kind)) == before
        world.fake.remove("ConsumerGroup", "ns", "group")
        await world.run(SETTLE_MS)
        assert without_replicas(live(world, kind)) == before
        return world

    world = run(scene())
    assert {verb for verb, its_kind, _ in world.fake.writes() if its_kind == kind} == {"scale"}
    assert len(pods(world)) == 2, "the ConsumerGroup is gone, and its workload is not"
    made = {key for key in world.fake.objects if key[0] in ("Service", "PodDisruptionBudget", "ConfigMap")}
    assert made == set()


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_without_a_number_it_follows_whoever_scales_it(kind: str) -> None:
    """An autoscaler's changes are told and never undone."""

    async def scene() -> World:
        world = await started(workload(kind), referring(kind))
        for replicas in (6, 2):
            world.fake.edit(kind, "ns", "g", lambda one, now=replicas: one["spec"].update(replicas=now))
            await world.run(SETTLE_MS)
            assert status(world)["readyText"] == f"{replicas}/{replicas}"
        return world

    world = run(scene())
    assert [one for one in world.fake.writes() if one[1] == kind] == []


def strangers() -> tuple[MemberView, ...]:
    return tuple(
        MemberView(member_id=f"s{n}", instance_id=f"g-{n}", client_id="x", host="172.16.0.9", assignment=())
        for n in range(3, 10)
    )


def test_members_of_a_statefulset_leave_with_its_pods_and_those_from_elsewhere_stay() -> None:
    """Scale 3, 1, 3, and deletion of the object."""

    async def scene() -> World:
        world = await started(workload("StatefulSet"), referring("StatefulSet", replicas=3))
        view = world.kafka.groups["g"]
        assert isinstance(view, ObservedGroup)
        world.kafka.groups["g"] = dataclasses.replace(view, members=(*view.members, *strangers()))
        for replicas in (1, 3):
            ask(world, replicas=replicas)
            await world.run(SETTLE_MS)
        world.fake.remove("ConsumerGroup", "ns", "group")
        await world.run(SETTLE_MS)
        return world

    world = run(scene())
    assert world.kafka.removed == [("g", ("g-1", "g-2"))]
    assert set(strangers()) <= set(members(world))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Rollout"])
def test_a_restart_replaces_its_pods_once(kind: str) -> None:
    async def scene() -> tuple[World, list[str]]:
        world = await started(workload(kind), referring(kind))
        before = [live(world, "Pod", pod)["metadata"]["uid"] for pod in pods(world)]
        world.fake.edit(
            "ConsumerGroup", "ns", "group", lambda one: one["metadata"].update(annotations={RESTART_ANNOTATION: AT})
        )
        await world.run(2 * SETTLE_MS)
        return world, before

    world, before = run(scene())
    after = [live(world, "Pod", pod)["metadata"]["uid"] for pod in pods(world)]
    assert len(after) == 3
    assert not set(after) & set(before)
    assert [one for one in world.fake.writes() if one[1] == kind] == [("restart", kind, "g")]
    assert status(world)["restartedAt"] == AT
    assert said(world, "Progressing") == ("False", "Converged")


def test_whoever_follows_the_restart_of_a_rollout_hears_done_when_all_pods_are_new() -> None:
    """`kubectl muster restart` reads the status; Argo replaces pod after pod, with all Ready in between."""

    async def scene() -> tuple[set[str], set[str]]:
        world = await started(workload("Rollout"), referring("Rollout"))
        before = set(pods(world))
        world.fake.edit(
            "ConsumerGroup", "ns", "group", lambda one: one["metadata"].update(annotations={RESTART_ANNOTATION: PAST})
        )
        for _ in range(200):
            await world.run(1_000)
            if restart_progress(live(world, "ConsumerGroup", "group"), restarted_at=PAST)[0] == "done":
                break
        return before, set(pods(world))

    before, after = run(scene())
    assert len(after) == 3
    assert not before & after


# -- What cannot be used. --


def test_a_workload_that_is_missing_is_waited_for() -> None:
    async def scene() -> World:
        world = await started(referring(replicas=4))
        assert said(world, "Degraded") == ("True", "WorkloadNotFound")
        assert status(world)["state"] == "Stable", "the group is observed all the same"
        world.fake.put(workload())
        await world.run(SETTLE_MS)
        assert status(world)["readyText"] == "4/4"
        world.fake.remove("Deployment", "ns", "g")
        await world.run(SETTLE_MS)
        return world

    world = run(scene())
    assert said(world, "Ready") == ("False", "WorkloadNotFound")
    assert world.kafka.removed == []


@pytest.mark.parametrize("owner", ["another ConsumerGroup", "a CoordinatorCluster"])
def test_what_the_operator_made_for_another_object_is_not_taken(owner: str) -> None:
    async def scene() -> World:
        maker = group("made") if owner == "another ConsumerGroup" else cluster("made")
        return await started(maker, referring("StatefulSet", to="made", replicas=0, groupId="g"))

    world = run(scene())
    assert said(world, "Degraded") == ("True", "WorkloadTaken")
    assert live(world, "StatefulSet", "made")["spec"]["replicas"] == 3
    assert not [one for one in world.fake.calls if one[0] in ("scale", "restart")]


def test_a_workload_without_a_selector() -> None:
    world = run(started(workload("Rollout", selector=None), referring("Rollout", replicas=0)))
    assert said(world, "Degraded") == ("True", "WorkloadWithoutSelector")
    assert live(world, "Rollout")["spec"]["replicas"] == 3


def test_of_two_that_refer_to_one_workload_the_elder_scales_and_the_younger_follows_it() -> None:
    async def scene() -> World:
        elder, younger = referring(name="elder", replicas=2), referring(name="younger", replicas=5, groupId="other")
        elder["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z"
        world = await started(workload(), elder, younger)
        assert live(world, "Deployment")["spec"]["replicas"] == 2
        assert said(world, "Degraded", "younger") == ("True", "WorkloadShared")
        assert status(world, "younger")["readyText"] == "2/2"
        assert said(world, "Degraded", "elder")[0] == "False"
        world.fake.remove("ConsumerGroup", "ns", "elder")
        await world.run(SETTLE_MS)
        return world

    world = run(scene())
    assert live(world, "Deployment")["spec"]["replicas"] == 5
    assert said(world, "Degraded", "younger")[1] != "WorkloadShared"


@pytest.mark.parametrize("what", [("get", "Deployment"), ("list", "Pod")])
def test_a_right_that_is_missing_costs_the_pods_and_not_the_group(what: tuple[str, str]) -> None:
    async def scene() -> World:
        world = World()
        world.fake.put(workload())
        world.fake.put(referring(replicas=1))
        world.kafka.groups["g"] = stable(3)
        world.start()
        await world.begin()
        world.fake.refuse[what] = "HTTP 403 Forbidden"
        await world.run(SETTLE_MS)
        assert said(world, "Degraded") == ("True", "WorkloadRefused")
        assert status(world)["memberCount"] == 3
        assert live(world, "Deployment")["spec"]["replicas"] == 3
        world.fake.refuse.clear()
        await world.run(SETTLE_MS)
        return world

    assert status(run(scene()))["readyText"] == "1/1"


def test_a_right_to_scale_that_is_missing_is_told_and_tried_again() -> None:
    async def scene() -> World:
        world = await started(workload(), referring())
        world.fake.refuse["scale", "Deployment"] = "HTTP 403 Forbidden"
        ask(world, replicas=1)
        await world.run(SETTLE_MS)
        assert said(world, "Degraded")[0] == "True"
        assert live(world, "Deployment")["spec"]["replicas"] == 3
        world.fake.refuse.clear()
        await world.run(10 * SETTLE_MS)
        return world

    assert status(run(scene()))["readyText"] == "1/1"


# -- Cost, crashes. --


def test_a_calm_workload_costs_one_small_read_a_look_and_a_list_a_minute() -> None:
    async def scene() -> list[tuple[str, str, str]]:
        world = await started(workload(), referring(replicas=3))
        world.fake.calls.clear()
        await world.run(300_000)
        assert world.fake.writes() == []
        return world.fake.calls

    calls = run(scene())
    lists = [one for one in calls if one[:2] == ("list", "Pod")]
    reads = [one for one in calls if one[:2] == ("get", "Deployment")]
    assert len(lists) <= 6
    assert len(lists) < len(reads) <= 40


def test_a_pod_that_is_replaced_by_itself_is_seen_at_the_next_look() -> None:
    async def scene() -> World:
        world = await started(workload(), referring())
        world.fake.remove("Pod", "ns", pods(world)[0])
        await world.run(15_000, controllers=False)
        return world

    world = run(scene())
    assert status(world)["readyText"] in ("2/3", "3/3")


@pytest.mark.computes
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_operator_that_dies_at_any_request_of_a_scale_down_changes_nothing_about_the_end() -> None:
    async def scene(at: int | None, after: bool) -> tuple[World, FaultLine]:
        world = World()
        world.fake.put(workload("StatefulSet"))
        world.fake.put(referring("StatefulSet"))
        world.kafka.groups["g"] = stable(3)
        world.start()
        await settled(world)
        world.stop()
        ask(world, replicas=1)
        world.fake.edit(
            "ConsumerGroup", "ns", "group", lambda one: one["metadata"].update(annotations={RESTART_ANNOTATION: AT})
        )
        line = FaultLine(at, after=after)
        world.start(line)
        try:
            await settled(world)
            assert at is None
        except Crash:
            world.stop()
            world.start()
            await settled(world)
        return world, line

    def end(world: World) -> Any:
        return (
            live(world, "StatefulSet")["spec"], pods(world), sorted(m.instance_id or "" for m in members(world)),
            status(world)["restartedAt"], said(world, "Ready"), world.kafka.removed,
        )  # fmt: skip

    calm, line = run(scene(None, False))
    wanted = end(calm)
    assert wanted[1:4] == (["g-0"], ["g-0"], AT)
    boundaries = [at for at, name in enumerate(line.names, 1) if name not in READS]
    assert {"scale", "restart", "remove_members"} <= {line.names[at - 1] for at in boundaries}
    for at in boundaries:
        for after in (False, True):
            world, _ = run(scene(at, after))
            found = end(world)
            assert found[:5] == wanted[:5], f"crash {'after' if after else 'before'} {line.names[at - 1]}"
