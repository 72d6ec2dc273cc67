"""When a group last rebalanced, and why, as far as passes can tell.

A rebalance is noticed by a new generation (from Muster's admin API), else by the group's state, else by changed
members. Its cause follows from the changes between the stored status and this pass: who joined, who left, and the state
of the pods. Members are compared by instance id if they have one: a static member that restarts gets another member id
and causes no rebalance. A rebalance that lasts several passes is recorded once, when it is first seen, and its cause is
added when it becomes visible.

Passes cannot see members beyond those that the status lists, or two rebalances between two passes: then the cause is
unknown.
"""

from collections.abc import Mapping
from typing import Any

from muster_operator import naming
from muster_operator.api.conditions import Reason
from muster_operator.plan.conditions import timestamp
from muster_operator.plan.consumers import ready, rolling
from muster_operator.plan.scaling import is_expected_id, naming_some
from muster_operator.world.group import GroupWorld, ObservedGroup
from muster_operator.world.views import StatefulSetView, Unknown

SETTLED = ("Stable", "Empty", "Dead")
MOVING = ("PreparingRebalance", "CompletingRebalance")

_SAYS = "; the coordinator says: "
Record = Mapping[str, Any]
"""`{"time", "cause", "message", "generation"}`: `status.lastRebalance`."""


def last_rebalance(world: GroupWorld) -> Record | None:
    """`status.lastRebalance` after this pass; None if none was ever seen."""
    stored, group = world.owner.status, world.group
    known: Record | None = stored.get("lastRebalance")
    if isinstance(group, Unknown):
        return known
    before, generation = stored.get("state"), stored.get("generation")
    counted = group.generation is not None and generation is not None
    if before not in (*SETTLED, *MOVING):
        if counted and generation != group.generation:
            return _record(world, group, [], [])
        if known is None and group.last_rebalance_ms is not None:
            return _record(world, group, [], [])
        return known
    joined, left = _moved(stored, group)
    if before in MOVING:
        return known if known is None else _completed(world, group, known, joined, left)
    if group.state in SETTLED and (generation == group.generation if counted else not (joined or left)):
        return known
    return _record(world, group, joined, left)


def _record(world: GroupWorld, group: ObservedGroup, joined: list[str], left: list[str]) -> Record:
    """The coordinator's data about the last rebalance are about this one only once it has ended."""
    told = group.last_rebalance_ms if group.state in SETTLED else None
    found = {"time": timestamp(told if told is not None else world.now_ms), **_explained(world, group, joined, left)}
    return found if group.generation is None else found | {"generation": group.generation}


def _completed(world: GroupWorld, group: ObservedGroup, known: Record, joined: list[str], left: list[str]) -> Record:
    """The record of a rebalance in progress: its cause when it becomes visible, its generation when it has ended."""
    found = dict(known)
    if known.get("cause") == Reason.UNKNOWN_CAUSE and (joined or left):
        found |= _explained(world, group, joined, left)
    if group.state in SETTLED and group.generation is not None:
        found["generation"] = group.generation
    if group.state in SETTLED and group.last_rebalance_ms is not None:
        found["time"] = timestamp(group.last_rebalance_ms)
    if _SAYS not in found["message"]:
        found["message"] = _with_word(found["message"], group)
    return found


def _explained(world: GroupWorld, group: ObservedGroup, joined: list[str], left: list[str]) -> dict[str, str]:
    cause, message = _cause(world, joined, left)
    return {"cause": str(cause), "message": _with_word(message, group)}


def _with_word(message: str, group: ObservedGroup) -> str:
    """While the group is rebalancing, the coordinator's reason may be that of the previous rebalance."""
    said = group.last_rebalance_reason if group.state in SETTLED else None
    return f"{message}{_SAYS}{said}" if said else message


def _moved(stored: Mapping[str, Any], group: ObservedGroup) -> tuple[list[str], list[str]]:
    """Who joined and who left since the stored status; ([], []) if the status does not list every member."""
    listed = stored.get("members") or ()
    if len(listed) != stored.get("memberCount", 0):
        return [], []
    before = {str(one.get("instanceId") or one.get("memberId")) for one in listed}
    now = {member.instance_id or member.member_id for member in group.members}
    return sorted(now - before), sorted(before - now)


def _cause(world: GroupWorld, joined: list[str], left: list[str]) -> tuple[Reason, str]:
    statefulset, wanted = world.statefulset, world.wanted
    if wanted is None or isinstance(statefulset, Unknown):
        return _by_members(joined, left)
    own_joined: list[str] = []
    if statefulset is not None:
        left_by_name = _left_by_name(world, statefulset, wanted, left)
        if left_by_name is not None:
            return left_by_name
        own_joined = [one for one in joined if is_expected_id(statefulset.name, one)]
    pods_before = world.owner.status.get("replicas")
    if isinstance(pods_before, int) and (joined or left) and pods_before != wanted:
        grown = wanted > pods_before
        if (joined and grown) or (left and not grown):
            word = Reason.SCALED_UP if grown else Reason.SCALED_DOWN
            return word, f"from {pods_before} to {wanted} consumers"
    if own_joined and not left and _is_growth(world, own_joined):
        return Reason.SCALED_UP, f"{naming_some(own_joined)} joined"
    if (joined or left) and rolling(world):
        return Reason.ROLLOUT, "pods are being replaced, and members are not static"
    return _by_members(joined, left)


def _left_by_name(
    world: GroupWorld, statefulset: StatefulSetView, wanted: int, left: list[str]
) -> tuple[Reason, str] | None:
    """What the names of the members that left show; None: nothing."""
    own_left = [one for one in left if is_expected_id(statefulset.name, one)]
    unwanted = [one for one in own_left if naming.ordinal_of(one) not in statefulset.ordinals(wanted)]
    if unwanted:
        return Reason.SCALED_DOWN, f"{naming_some(unwanted)} left with the scale-down to {wanted}"
    there = {pod.name for pod in ready(world)}
    lost = [one for one in own_left if one not in there]
    return (Reason.POD_LOST, f"{naming_some(lost)} left, and the pod is not there or not Ready") if lost else None


def _is_growth(world: GroupWorld, joined: list[str]) -> bool:
    """All that joined have higher ordinals than every member before."""
    before = [naming.ordinal_of(str(one.get("instanceId") or "")) for one in world.owner.status.get("members") or ()]
    return bool(before) and min(naming.ordinal_of(one) for one in joined) > max(before)


def _by_members(joined: list[str], left: list[str]) -> tuple[Reason, str]:
    if left:
        also = f", {naming_some(joined)} joined" if joined else ""
        return Reason.MEMBER_LEFT, f"{naming_some(left)} left or was expelled{also}"
    if joined:
        return Reason.MEMBER_JOINED, f"{naming_some(joined)} joined"
    return Reason.UNKNOWN_CAUSE, "nothing that was seen explains it"
