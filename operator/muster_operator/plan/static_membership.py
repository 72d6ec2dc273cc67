"""Judges the promise of static membership: does every member carry its pod's name as `group.instance.id`?

Only then does a restart within the session timeout cost no rebalance, so the condition is `True` only then. Observable
from outside are the ids that the group lists and the address of each member. Two processes with one id fence each other
in turn, and the group lists only the last one; so a duplicate shows as an id whose holder has another address than the
pod of that name, for longer than an old member of that pod could still be listed (twice the session timeout after the
pod was created, because a new coordinator arms sessions anew once).

Not judged: addresses, if no member is seen at its pod's address (a proxy or NAT hides them all).
"""

from collections.abc import Iterable

from muster_operator.api.conditions import GroupCondition, Reason
from muster_operator.plan.addresses import OVER, address, addresses_of, is_at
from muster_operator.plan.conditions import Finding, condition, finding
from muster_operator.plan.scaling import is_expected_id, naming_some
from muster_operator.world.group import GroupWorld, MemberView, ObservedGroup
from muster_operator.world.views import PodView, ReferencedView, StatefulSetView, Unknown, Unusable

TYPE = GroupCondition.STATIC_MEMBERSHIP
SESSIONS_UNTIL_SURE = 2


def judge(world: GroupWorld) -> Finding:
    """The condition StaticMembership."""
    if not world.spec.static_membership:
        return finding(TYPE, False, Reason.NOT_REQUESTED, "`staticMembership` is false: every restart rebalances")
    if world.elder is not None:
        return finding(TYPE, False, Reason.GROUP_ID_SHARED, shared_with(world.elder, world.spec.group_id))
    group = world.group
    if isinstance(group, Unknown):
        return finding(TYPE, None, Reason.NOT_OBSERVED, f"members are not known: {group.message}")
    if not group.members:
        return finding(TYPE, None, Reason.NO_MEMBERS, "the group has no members")
    if isinstance(world.statefulset, Unknown):
        return finding(TYPE, None, Reason.NOT_OBSERVED, f"pods are not known: {world.statefulset.message}")
    if isinstance(world.referenced, ReferencedView) and world.statefulset is None:
        message = f"pods of {world.referenced.title} get new names when they are replaced: no promise"
        return finding(TYPE, False, Reason.NAMES_NOT_STABLE, message)
    if isinstance(world.referenced, Unusable):
        return finding(TYPE, None, Reason.NOT_OBSERVED, f"pods are not known: {world.referenced.message}")
    duplicate = _duplicate(world, group)
    if duplicate is not None:
        return finding(TYPE, False, Reason.DUPLICATE_INSTANCE_ID, duplicate)
    strays = [member for member in group.members if not _is_static(world, member)]
    if strays:
        pods = pods_of(world, strays)
        dynamic = [_described(pods.get(member.member_id), member) for member in strays]
        message = f"without the expected group.instance.id: {naming_some(dynamic)}; every restart rebalances the group"
        return finding(TYPE, False, Reason.MEMBERS_DYNAMIC, message)
    return finding(TYPE, True, Reason.MEMBERS_STATIC, "every member joined with its expected group.instance.id")


def shared_with(elder: str, group_id: str) -> str:
    return (
        f"ConsumerGroup {elder} is older and runs consumers in group {group_id} too: no promise, no member is removed"
    )


def pods_of(world: GroupWorld, members: Iterable[MemberView]) -> dict[str, PodView]:
    """Member id → the pod that the member runs in, if known: by instance id, else by an address that only one pod has.
    In pods of the operator, a member whose id is not a pod's name runs in none of them; the programs of a `workloadRef`
    may choose their ids."""
    by_name = {pod.name: pod for pod in world.pods}
    by_address: dict[str, list[PodView]] = {}
    for one in world.pods:
        for place in addresses_of(one) if one.phase not in OVER else ():
            by_address.setdefault(place, []).append(one)
    found = {}
    for member in members:
        pod = by_name.get(member.instance_id or "")
        if pod is None and (member.instance_id is None or world.referenced is not None):
            there = by_address.get(address(member), [])
            pod = there[0] if len(there) == 1 else None
        if pod is not None:
            found[member.member_id] = pod
    return found


def _is_static(world: GroupWorld, member: MemberView) -> bool:
    if not world.spec.runs_consumers or not isinstance(world.statefulset, StatefulSetView):
        return member.instance_id is not None
    return member.instance_id is not None and is_expected_id(world.statefulset.name, member.instance_id)


def _described(pod: PodView | None, member: MemberView) -> str:
    if pod is not None:
        return f"pod {pod.name}"
    if member.instance_id is not None:
        return f"instance {member.instance_id} at {address(member)}"
    return f"client {member.client_id} at {address(member)}"


def _duplicate(world: GroupWorld, group: ObservedGroup) -> str | None:
    """The instance id that two processes use, as far as it can be known."""
    statefulset = world.statefulset
    if not isinstance(statefulset, StatefulSetView):
        return None
    pods = {pod.name: pod for pod in statefulset.pods if pod.pod_ip and not pod.terminating}
    held = [(pods[m.instance_id], m) for m in group.members if m.instance_id in pods]
    sure_ms = SESSIONS_UNTIL_SURE * world.spec.session.timeout_seconds * 1_000
    if any(is_at(pod, member) for pod, member in held):
        for pod, member in held:
            old_enough = pod.created_ms is not None and world.now_ms - pod.created_ms > sure_ms
            if not is_at(pod, member) and old_enough:
                return (
                    f"instance {pod.name} is held by a process at {address(member)} while pod {pod.name} runs"
                    f" at {pod.pod_ip}: they fence each other"
                )
    return _not_over_yet(world, statefulset, sure_ms)


def _not_over_yet(world: GroupWorld, statefulset: StatefulSetView, sure_ms: int) -> str | None:
    """A duplicate that was seen stays in the condition while its pod still restarts: in between, the pod itself may be
    the listed holder."""
    stored = condition(world.owner.status, TYPE)
    if stored.get("reason") != Reason.DUPLICATE_INSTANCE_ID:
        return None
    for pod in statefulset.pods:
        calm = pod.ready_since_ms is not None and world.now_ms - pod.ready_since_ms > sure_ms
        if f"instance {pod.name} " in stored.get("message", "") and pod.restarts > 0 and not calm:
            return str(stored["message"])
    return None
