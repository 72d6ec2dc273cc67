"""Status of a ConsumerGroup: pods as Kubernetes reports them, members and lag as the coordinator reports them.

Neither stands in for the other: if the coordinator does not answer, `state` and `lagText` are `Unknown`, members and
lag are absent, and nothing says Empty or 0. The generation stays as last observed, so that a rebalance in the meantime
is noticed.
"""

from collections.abc import Mapping
from typing import Any

from muster_operator import naming
from muster_operator.api.conditions import GroupCondition, Reason
from muster_operator.api.group_status import MEMBERS_MAX, SELECTOR_CHARS_MAX
from muster_operator.plan import referenced
from muster_operator.plan.addresses import address
from muster_operator.plan.children import ChildrenPlan
from muster_operator.plan.conditions import Finding, finding, merged, restart_told
from muster_operator.plan.consumers import STANDSTILLS, degraded_by_argo, lacking, ready, unusable
from muster_operator.plan.departing import Departing
from muster_operator.plan.partitions import UNKNOWN, by_partition, lag_of, lag_over, text_of
from muster_operator.plan.pausing import held_at
from muster_operator.plan.pods import degraded
from muster_operator.plan.rebalances import MOVING, last_rebalance
from muster_operator.plan.referenced import Move, described
from muster_operator.plan.scaling import Departure, naming_some
from muster_operator.plan.static_membership import judge, pods_of, shared_with
from muster_operator.world.group import GroupWorld, MemberView, ObservedGroup, PartitionView
from muster_operator.world.views import PodView, ReferencedView, Unknown

NO_SUCH_GROUP = "Dead"


def group_status(
    world: GroupWorld, *, children: ChildrenPlan, leaving: Departure, recorded: Departing, moves: tuple[Move, ...]
) -> dict[str, Any]:
    """The whole `.status`. `moves`: actions on the workload in `workloadRef`."""
    owner, group = world.owner, world.group
    static = judge(world)
    lag = lag_of(group)
    status: dict[str, Any] = {
        "observedGeneration": owner.generation,
        "lagText": lag.text,
        "lagQuality": lag.quality,
        "state": _state(group),
        "conditions": merged(
            owner.status,
            (
                _ready(world, children),
                _reachable(world),
                static,
                _progressing(world, children, leaving, recorded, static, described(world, moves)),
                _degraded(world, children, static),
                _paused(world),
            ),
            generation=owner.generation,
            now_ms=world.now_ms,
        ),
    }
    status |= (
        restart_told(owner, paused=is_paused(world))
        if world.spec.workload_ref is None
        else referenced.restart_told(world)
    )
    status |= _of_pods(world)
    if recorded.records:
        status["departing"] = [one.as_status() for one in recorded.records]
    if isinstance(world.bootstrap, str):
        status["bootstrapServers"] = {"internal": world.bootstrap}
    if lag.records is not None:
        status["lag"] = lag.records
    rebalance = last_rebalance(world)
    if rebalance is not None:
        status["lastRebalance"] = dict(rebalance)
    return status | (_of_group(world, group) if isinstance(group, ObservedGroup) else _last_generation(owner.status))


def unknown_reason(unknown: Unknown) -> Reason:
    """An adapter's reason as a documented one."""
    try:
        return Reason(unknown.reason)
    except ValueError:
        return Reason.NOT_OBSERVED


def _state(group: ObservedGroup | Unknown) -> str:
    """Kafka reports Dead for a group that does not exist, which looks like a failure; it is left empty, and condition
    Ready says that the group does not exist."""
    if isinstance(group, Unknown):
        return UNKNOWN
    return "Empty" if group.state == NO_SUCH_GROUP else group.state


def _of_pods(world: GroupWorld) -> dict[str, Any]:
    if isinstance(world.statefulset, Unknown):
        stored = world.owner.status
        return {key: stored[key] for key in ("replicas", "readyReplicas", "readyText", "selector") if key in stored}
    if unusable(world) is not None:
        return {"readyText": UNKNOWN}
    count = len(ready(world))
    text = "-" if world.wanted is None else f"{count}/{world.wanted}"
    found: dict[str, Any] = {"replicas": len(world.pods), "readyReplicas": count, "readyText": text}
    selector = _selector(world)
    return found | ({"selector": selector} if len(selector) <= SELECTOR_CHARS_MAX else {})


def _selector(world: GroupWorld) -> str:
    if isinstance(world.referenced, ReferencedView):
        return world.referenced.selector
    own = naming.selector(component=naming.CONSUMER, instance=world.owner.name)
    return ",".join(f"{key}={value}" for key, value in own.items())


def _of_group(world: GroupWorld, group: ObservedGroup) -> dict[str, Any]:
    known, pods = by_partition(group), pods_of(world, group.members)
    members = sorted(group.members, key=lambda one: (_ordinal(one), one.instance_id or "", one.member_id))
    found: dict[str, Any] = {
        "coordinator": group.coordinator,
        "protocol": group.protocol,
        "protocolType": group.protocol_type,
        "memberCount": len(members),
        "members": [_member(one, pods.get(one.member_id), known) for one in members[:MEMBERS_MAX]],
        "partitions": _counts(group),
    }
    return found if group.generation is None else found | {"generation": group.generation}


def _counts(group: ObservedGroup) -> dict[str, int]:
    lag = lag_of(group)
    return {
        "total": lag.total,
        "assigned": len({(topic, n) for one in group.members for topic, numbers in one.assignment for n in numbers}),
        "committed": lag.total - lag.without_commit,
        "uncommitted": lag.without_commit,
        "unknown": lag.unknown,
    }


def _last_generation(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {"generation": stored["generation"]} if "generation" in stored else {}


def _ordinal(member: MemberView) -> int:
    return naming.ordinal_of(member.instance_id or "")


def _member(member: MemberView, pod: PodView | None, known: Mapping[tuple[str, int], PartitionView]) -> dict[str, Any]:
    owned = [(topic, number) for topic, numbers in member.assignment for number in numbers]
    found: dict[str, Any] = {
        "memberId": member.member_id,
        "clientId": member.client_id,
        "host": address(member),
        "partitions": text_of(member.assignment),
    }
    if member.instance_id is not None:
        found["instanceId"] = member.instance_id
    if pod is not None:
        found["pod"] = pod.name
    if all(one in known for one in owned):
        records = lag_over([known[one] for one in owned]).records
        if records is not None:
            found["lag"] = records
    return found


def _ready(world: GroupWorld, children: ChildrenPlan) -> Finding:
    type_ = GroupCondition.READY
    group = world.group
    if children.taken:
        return finding(type_, False, Reason.NAME_TAKEN, children.reason)
    trouble = unusable(world)
    if trouble is not None:
        return finding(type_, False, *trouble)
    if world.spec.runs_consumers:
        if isinstance(world.statefulset, Unknown) or isinstance(world.children, Unknown):
            return finding(type_, None, Reason.NOT_OBSERVED, "the pods could not be observed")
        pods = lacking(world)
        if pods is not None:
            return finding(type_, False, pods[0], pods[1])
    if isinstance(group, Unknown):
        return finding(type_, None, unknown_reason(group), group.message)
    if group.state in MOVING:
        return finding(type_, False, Reason.GROUP_REBALANCING, f"the group is in {group.state}")
    if world.wanted == 0:
        return finding(type_, True, Reason.SCALED_TO_ZERO, "`replicas` is 0 and no pod is left")
    if group.state == NO_SUCH_GROUP:
        return finding(type_, False, Reason.GROUP_NOT_FOUND, "the coordinator does not know the group")
    if not group.members:
        return finding(type_, False, Reason.GROUP_EMPTY, "the group has no members")
    absent = _absent(world, group)
    if absent is not None:
        return finding(type_, False, Reason.MEMBERS_MISSING, absent)
    return finding(type_, True, Reason.GROUP_STABLE, f"{len(group.members)} members have their partitions")


def _absent(world: GroupWorld, group: ObservedGroup) -> str | None:
    """Ready pods that are not members, as far as it can be known."""
    if not world.spec.runs_consumers:
        return None
    there = ready(world)
    if len(group.members) >= len(there):
        return None
    present = {pod.name for pod in pods_of(world, group.members).values()}
    absent = [pod.name for pod in there if pod.name not in present]
    return f"{len(group.members)} members, {len(there)} Ready pods; not seen in the group: {naming_some(absent)}"


def _reachable(world: GroupWorld) -> Finding:
    type_ = GroupCondition.CLUSTER_REACHABLE
    for answer in (world.bootstrap, world.group):
        if isinstance(answer, Unknown):
            reason = unknown_reason(answer)
            return finding(type_, None if reason == Reason.NOT_OBSERVED else False, reason, answer.message)
    return finding(type_, True, Reason.REACHABLE, "the group's coordinator answered")


def _progressing(
    world: GroupWorld,
    children: ChildrenPlan,
    leaving: Departure,
    recorded: Departing,
    static: Finding,
    moved: tuple[Reason, str] | None,
) -> Finding:
    type_ = GroupCondition.PROGRESSING
    if is_paused(world):
        return finding(type_, False, Reason.PAUSED, "nothing is done while it is paused")
    if children.taken:
        return finding(type_, False, Reason.NAME_TAKEN, children.reason)
    if recorded.held is not None:
        names = naming_some([one.pod for one in recorded.records])
        return finding(type_, True, Reason.RECORDING_PODS, f"{names} will leave: first they are recorded in the status")
    if children.actions:
        return finding(type_, True, Reason.CREATING_CHILDREN, children.reason)
    if moved is not None:
        return finding(type_, True, *moved)
    trouble = unusable(world)
    if trouble is not None:
        return finding(type_, False, *trouble)
    if world.spec.runs_consumers:
        if isinstance(world.statefulset, Unknown) or isinstance(world.children, Unknown):
            return finding(type_, None, Reason.NOT_OBSERVED, "the pods could not be observed")
        if leaving.members or leaving.waiting_for:
            return finding(type_, True, leaving.decision, leaving.reason)
        pods = lacking(world)
        if pods is not None:
            return finding(type_, pods[0] not in STANDSTILLS.values(), pods[0], pods[1] + _promise(pods[0], static))
    if isinstance(world.group, ObservedGroup) and world.group.state in MOVING:
        return finding(type_, True, Reason.GROUP_REBALANCING, f"the group is in {world.group.state}")
    if not world.spec.runs_consumers:
        message = "there is no `template` and no `workloadRef`: the operator runs no consumers"
        return finding(type_, False, Reason.OBSERVING_ONLY, message)
    return finding(type_, False, Reason.CONVERGED, "nothing is left to do")


def _promise(reason: Reason, static: Finding) -> str:
    """Only observed static membership allows a promise about rebalances."""
    if reason != Reason.ROLLING_OUT:
        return ""
    if static.status == "True":
        return "; members are static: a pod that is back within the session timeout costs no rebalance"
    return f"; no promise about rebalances ({static.reason})"


def _degraded(world: GroupWorld, children: ChildrenPlan, static: Finding) -> Finding:
    type_ = GroupCondition.DEGRADED
    if children.taken:
        return finding(type_, True, Reason.NAME_TAKEN, children.reason)
    if world.elder is not None:
        return finding(type_, True, Reason.GROUP_ID_SHARED, shared_with(world.elder, world.spec.group_id))
    trouble = _of_workload(world)
    if trouble is not None:
        return finding(type_, True, *trouble)
    if static.reason == Reason.DUPLICATE_INSTANCE_ID:
        return finding(type_, True, Reason.DUPLICATE_INSTANCE_ID, static.message)
    for pod in world.pods:
        why = degraded(pod, now_ms=world.now_ms)
        if why is not None:
            reason = Reason.POD_UNSCHEDULABLE if pod.unschedulable else Reason.POD_FAILING
            return finding(type_, True, reason, f"{pod.name}: {why}")
    if isinstance(world.bootstrap, Unknown) and unknown_reason(world.bootstrap) == Reason.CLUSTER_NOT_FOUND:
        return finding(type_, True, Reason.CLUSTER_NOT_FOUND, world.bootstrap.message)
    if isinstance(world.group, Unknown) or isinstance(world.statefulset, Unknown):
        return finding(type_, None, Reason.NOT_OBSERVED, "not everything could be observed")
    return finding(type_, False, Reason.AS_EXPECTED, "nothing is wrong that would not heal by waiting")


def _of_workload(world: GroupWorld) -> tuple[Reason, str] | None:
    """What is wrong with the workload in `workloadRef`, or with a change that was requested of it."""
    trouble = unusable(world)
    if trouble is not None:
        return trouble
    if world.workload_elder is not None and isinstance(world.referenced, ReferencedView):
        message = f"ConsumerGroup {world.workload_elder} is older and refers to {world.referenced.title} too: it alone"
        return Reason.WORKLOAD_SHARED, f"{message} scales and restarts it"
    refused = referenced.refusal(world)
    return degraded_by_argo(world) if refused is None else (Reason.RESTART_REFUSED, refused)


def is_paused(world: GroupWorld) -> bool:
    return world.owner.paused or world.spec.paused


def _paused(world: GroupWorld) -> Finding:
    if is_paused(world):
        by = "`paused`" if world.spec.paused else f"annotation {naming.PAUSED_ANNOTATION}"
        held = held_at(world)
        if held is not None:
            by += f"; the roll-out is held: pods below ordinal {held} are not replaced"
        return finding(GroupCondition.PAUSED, True, Reason.PAUSED, by)
    return finding(GroupCondition.PAUSED, False, Reason.NOT_PAUSED, "it is not paused")
