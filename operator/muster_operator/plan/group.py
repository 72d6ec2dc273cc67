"""One pass over a ConsumerGroup: its children, members that have left for good, its status.

The StatefulSet controller rolls the pods: replacing a static member within its session timeout costs no rebalance, so
the only decision here is to hold a roll-out while the object is paused. Nothing is created or changed while there is no
bootstrap address for the pods. `plan.referenced` plans for a workload in `workloadRef`.
"""

import dataclasses
from typing import Any

from muster_operator.api.conditions import GroupCondition, Reason
from muster_operator.plan.actions import Action, Event, Plan, RemoveMembers
from muster_operator.plan.children import ChildrenPlan, plan_children
from muster_operator.plan.conditions import condition
from muster_operator.plan.departing import Departing, departing
from muster_operator.plan.pausing import rollout_hold
from muster_operator.plan.referenced import described, moves
from muster_operator.plan.scaling import Departure, departure
from muster_operator.plan.settings import PlanSettings
from muster_operator.plan.status_group import group_status, is_paused
from muster_operator.resources.group import children
from muster_operator.resources.surplus import of_group
from muster_operator.world.group import GroupWorld, ObservedGroup
from muster_operator.world.views import Unknown

NEWS = (
    (GroupCondition.STATIC_MEMBERSHIP, (Reason.MEMBERS_DYNAMIC,)),
    (
        GroupCondition.DEGRADED,
        (
            Reason.DUPLICATE_INSTANCE_ID,
            Reason.GROUP_ID_SHARED,
            Reason.NAME_TAKEN,
            Reason.POD_FAILING,
            Reason.RESTART_REFUSED,
            Reason.WORKLOAD_DEGRADED,
            Reason.WORKLOAD_NOT_FOUND,
            Reason.WORKLOAD_REFUSED,
            Reason.WORKLOAD_SHARED,
            Reason.WORKLOAD_TAKEN,
            Reason.WORKLOAD_WITHOUT_SELECTOR,
        ),
    ),
)
"""Conditions and reasons that ask a user to act."""


def plan_group(world: GroupWorld, settings: PlanSettings) -> Plan:
    """The actions for one ConsumerGroup now, and its whole status."""
    owner = world.owner
    if owner.deleting:
        return Plan(
            actions=(),
            status=owner.status,
            events=(),
            requeue_after_ms=settings.resync_ms,
            decision=Reason.DELETING,
            reason="Kubernetes removes what belongs to it",
        )
    recorded = departing(world)
    made = _children(world, recorded)
    leaving = departure(world)
    done = moves(world, recorded)
    status = group_status(world, children=made, leaving=leaving, recorded=recorded, moves=done)
    paused = is_paused(world)
    hold = rollout_hold(world, paused=paused)
    actions: tuple[Action, ...] = () if hold is None else (hold,)
    events: tuple[Event, ...] = _news(world, status)
    if not paused:
        actions = (*made.actions, *done, *actions)  # the newest template first: pods released from the hold roll to it
        told = described(world, done)
        if told is not None:
            events += (Event(reason=told[0], message=told[1]),)
        if leaving.members and not made.held:
            actions += (RemoveMembers(group_id=world.spec.group_id, members=leaving.members),)
            events += (Event(reason=Reason.REMOVING_MEMBERS, message=leaving.reason),)
    decision, reason = _decision(world, made, leaving, recorded, status)
    return Plan(
        actions=actions,
        status=status,
        events=events,
        requeue_after_ms=_again_ms(world, actions, recorded, status, settings),
        decision=decision,
        reason=reason,
    )


def _children(world: GroupWorld, recorded: Departing) -> ChildrenPlan:
    owner = world.owner
    if isinstance(world.statefulset, Unknown):
        return plan_children(owner, world.statefulset, ())
    live = world.children if not isinstance(world.children, Unknown) else {}
    if isinstance(world.bootstrap, Unknown):
        if world.spec.template is not None:
            return plan_children(owner, world.bootstrap, ())
        return plan_children(owner, world.children, (), surplus=of_group(owner, live=live, wanted=()))
    spec = world.spec if recorded.held is None else dataclasses.replace(world.spec, replicas=recorded.held)
    desired = children(owner, spec, bootstrap=world.bootstrap)
    return plan_children(owner, world.children, desired, surplus=of_group(owner, live=live, wanted=desired))


def _decision(
    world: GroupWorld, made: ChildrenPlan, leaving: Departure, recorded: Departing, status: dict[str, Any]
) -> tuple[Reason, str]:
    if is_paused(world):
        return Reason.PAUSED, "only the status is written"
    if made.taken:
        return Reason.NAME_TAKEN, made.reason
    if made.actions and recorded.held is None:
        return Reason.CREATING_CHILDREN, made.reason
    if leaving.members and recorded.held is None:
        return leaving.decision, leaving.reason
    progressing = condition(status, GroupCondition.PROGRESSING)
    return Reason(progressing["reason"]), progressing["message"]


def _again_ms(
    world: GroupWorld,
    actions: tuple[Action, ...],
    recorded: Departing,
    status: dict[str, Any],
    settings: PlanSettings,
) -> int:
    """A group sends no events, so it is polled: seldom while it is Stable and nothing is in progress."""
    if actions or recorded.held is not None:
        return settings.step_ms
    settled = condition(status, GroupCondition.PROGRESSING)["status"] == "False"
    stable = isinstance(world.group, ObservedGroup) and world.group.state in ("Stable", "Empty")
    return settings.group_poll_ms if settled and stable else settings.wait_ms


def _news(world: GroupWorld, status: dict[str, Any]) -> tuple[Event, ...]:
    """Events about changes against the stored status: recorded once, not in each pass."""
    found = []
    for type_, reasons in NEWS:
        before, now = condition(world.owner.status, type_), condition(status, type_)
        if now["reason"] in reasons and now["reason"] != before.get("reason"):
            found.append(Event(reason=now["reason"], message=now["message"], warning=True))
    return tuple(found)
