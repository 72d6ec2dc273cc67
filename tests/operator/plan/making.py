"""Worlds of a ConsumerGroup by hand, for tests about one judgement."""

from collections.abc import Mapping, Sequence
from typing import Any

from muster_operator.api.group import parse_group
from muster_operator.world.group import GroupWorld, MemberView, ObservedGroup, PartitionView
from muster_operator.world.views import OwnerView, PodView, ReferencedView, StatefulSetView, Unknown, Unusable

NOW_MS = 1_700_000_000_000
OLD_MS = NOW_MS - 3_600_000


def pod(ordinal: int, *, ip: str | None = None, created_ms: int = OLD_MS, **other: Any) -> PodView:
    values: dict[str, Any] = {
        "name": f"g-{ordinal}", "uid": f"u{ordinal}", "ordinal": ordinal, "revision": "r1", "phase": "Running",
        "ready": True, "ready_since_ms": OLD_MS, "terminating": False, "node": "n", "waiting_reason": None,
        "unschedulable": False, "restarts": 0, "pod_ip": ip or f"10.0.0.{ordinal}", "annotations": {},
        "created_ms": created_ms, "unready_since_ms": None,
    }  # fmt: skip
    return PodView(**(values | other))


def member(instance: str | None, host: str, *, member_id: str | None = None) -> MemberView:
    return MemberView(
        member_id=member_id or f"id-of-{instance or host}", instance_id=instance, client_id="app", host=f"/{host}",
        assignment=(),
    )  # fmt: skip


def group_view(members: Sequence[MemberView], **other: Any) -> ObservedGroup:
    values: dict[str, Any] = {
        "state": "Stable", "coordinator": "1 (host:9092)", "protocol_type": "consumer", "protocol": "range",
        "members": tuple(members), "partitions": (), "generation": 7, "last_rebalance_ms": None,
        "last_rebalance_reason": None,
    }  # fmt: skip
    return ObservedGroup(**(values | other))


def recorded(*members: MemberView) -> dict[str, Any]:
    """A status that recorded these members in the pods of their names."""
    return {
        "departing": [
            {"pod": one.instance_id, "uid": f"u-of-{one.instance_id}", "memberId": one.member_id,
             "host": one.host.removeprefix("/")}
            for one in members
        ]
    }  # fmt: skip


def partition(number: int, committed: int | None, log_end: int | None) -> PartitionView:
    return PartitionView(topic="orders", partition=number, committed=committed, log_end=log_end)


def group_world(
    *,
    pods: Sequence[PodView] = (),
    group: ObservedGroup | Unknown,
    status: Mapping[str, Any] | None = None,
    replicas: int = 3,
    static: bool = True,
    template: bool = True,
    current_revision: str = "r1",
) -> GroupWorld:
    spec: dict[str, Any] = {
        "bootstrapServers": "k:9092", "groupId": "orders", "topics": ["orders"], "replicas": replicas,
        "staticMembership": static,
    }  # fmt: skip
    if template:
        spec["template"] = {"image": "consumer:1"}
    statefulset = StatefulSetView(
        name="g", uid="s", generation=3, observed_generation=3, replicas=replicas, ready_replicas=0,
        current_revision=current_revision, update_revision="r1", template_hash="", pods=tuple(pods),
    )  # fmt: skip
    return GroupWorld(
        owner=OwnerView(
            name="g", namespace="ns", uid="o", generation=1, resource_version="1", deleting=False, paused=False,
            restarted_at=None, status=status or {},
        ),
        spec=parse_group({"metadata": {"name": "g"}, "spec": spec}),
        bootstrap="k:9092", statefulset=statefulset if template else None, children={}, group=group, now_ms=NOW_MS,
    )  # fmt: skip


def referring_world(
    *,
    kind: str = "Deployment",
    pods: Sequence[PodView] = (),
    group: ObservedGroup | Unknown,
    status: Mapping[str, Any] | None = None,
    replicas: int | None = None,
    now: int = 3,
    restarted_at: str | None = None,
    unusable: Unusable | None = None,
    **view: Any,
) -> GroupWorld:
    """`replicas`: as the object asks; `now`: as the workload has it."""
    api_version = "argoproj.io/v1alpha1" if kind == "Rollout" else "apps/v1"
    spec: dict[str, Any] = {
        "bootstrapServers": "k:9092", "groupId": "orders", "topics": ["orders"],
        "workloadRef": {"apiVersion": api_version, "kind": kind, "name": "g"},
    }  # fmt: skip
    if replicas is not None:
        spec["replicas"] = replicas
    values: dict[str, Any] = {
        "api_version": api_version, "kind": kind, "name": "g", "uid": "s", "generation": 3, "observed_generation": 3,
        "replicas": now, "updated_replicas": now, "selector": "app=g", "restarted_at": None,
        "pods": tuple(pods),
    }  # fmt: skip
    statefulset = StatefulSetView(
        name="g", uid="s", generation=3, observed_generation=3, replicas=now, ready_replicas=0, current_revision="r1",
        update_revision="r1", template_hash="", pods=tuple(pods),
    )  # fmt: skip
    return GroupWorld(
        owner=OwnerView(
            name="billing", namespace="ns", uid="o", generation=1, resource_version="1", deleting=False, paused=False,
            restarted_at=restarted_at, status=status or {},
        ),
        spec=parse_group({"metadata": {"name": "billing"}, "spec": spec}),
        bootstrap="k:9092", statefulset=statefulset if kind == "StatefulSet" and unusable is None else None,
        children={}, group=group, now_ms=NOW_MS, referenced=unusable or ReferencedView(**(values | view)),
    )  # fmt: skip
