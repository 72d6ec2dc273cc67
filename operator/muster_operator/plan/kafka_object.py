"""What the plans of a Topic and a User share: who is obeyed, what cannot be known, the finalizer, the status.

The finalizer keeps an object that is to remove something of Kafka's until that is removed. It is set before anything is
made, and it is given up when nothing of the object can be left: with `deletionPolicy: Retain`, for the younger of two
objects of one name, and when its CoordinatorCluster does not exist any more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster_operator import naming
from muster_operator.api.conditions import KafkaObjectCondition, Reason
from muster_operator.plan.actions import Action, Event, Plan, SetFinalizer
from muster_operator.plan.conditions import Finding, condition, finding, merged
from muster_operator.plan.settings import PlanSettings
from muster_operator.world.kafka_object import KafkaObjectWorld
from muster_operator.world.views import Unknown

NEWS = (
    Reason.NOT_ADOPTED, Reason.NAME_SHARED, Reason.FEWER_PARTITIONS, Reason.REPLICATION_DIFFERS, Reason.NO_AUTHORIZER,
    Reason.NAME_TAKEN, Reason.SECRET_NOT_FOUND, Reason.SECRET_UNUSABLE, Reason.AUTHENTICATION_FAILED,
    Reason.AUTHORIZATION_FAILED, Reason.CERTIFICATE_NOT_TRUSTED,
)  # fmt: skip
"""Reasons that ask a user to act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a plan has decided, before it is a status."""

    decision: Reason
    reason: str
    actions: tuple[Action, ...] = ()
    ready: bool | None = False
    """None: not known."""
    degraded: bool = False
    fields: Mapping[str, Any] | None = None
    """Fields of the status besides the conditions; None: as stored."""
    when_done: Mapping[str, Any] | None = None
    soon: bool = False
    """Look again at once: something was done, or recorded."""


def known_reason(unknown: Unknown) -> Reason:
    try:
        return Reason(unknown.reason)
    except ValueError:
        return Reason.UNREACHABLE


def not_known(unknown: Unknown) -> Judgement:
    return Judgement(decision=known_reason(unknown), reason=unknown.message, ready=None)


def has_finalizer(world: KafkaObjectWorld) -> bool:
    return naming.FINALIZER in world.owner.finalizers


def shared(world: KafkaObjectWorld, what: str) -> Judgement:
    message = f"{world.elder} is older and names {what} of the same cluster too: it alone is obeyed"
    return Judgement(decision=Reason.NAME_SHARED, reason=message, degraded=True, actions=released(world))


def released(world: KafkaObjectWorld) -> tuple[Action, ...]:
    return (SetFinalizer(present=False),) if has_finalizer(world) else ()


def guarded(world: KafkaObjectWorld, deletes: bool) -> tuple[Action, ...]:
    """What makes the finalizer as it should be while the object exists."""
    return () if has_finalizer(world) == deletes else (SetFinalizer(present=deletes),)


def as_plan(
    world: KafkaObjectWorld, found: Judgement, settings: PlanSettings, *, extra: Sequence[Finding] = ()
) -> Plan:
    """`extra`: findings of one kind alone."""
    owner = world.owner
    stored = owner.status
    if owner.paused:
        found = Judgement(
            decision=Reason.PAUSED, reason=f"annotation {naming.PAUSED_ANNOTATION}", ready=None, fields=found.fields
        )
    kept = {key: value for key, value in stored.items() if key not in ("conditions", "observedGeneration")}
    findings = (_ready(found, stored), _reachable(world, found), *extra, _degraded(found), _paused(owner.paused))
    status = {
        **(kept if found.fields is None else found.fields),
        "observedGeneration": owner.generation,
        "conditions": merged(stored, findings, generation=owner.generation, now_ms=world.now_ms),
    }
    actions = () if owner.paused else found.actions
    return Plan(
        actions=actions,
        status=status,
        events=_news(stored, found),
        requeue_after_ms=_again_ms(found, actions, settings),
        decision=found.decision,
        reason=found.reason,
        when_done=dict(found.when_done or {}) if actions else {},
    )


def _again_ms(found: Judgement, actions: tuple[Action, ...], settings: PlanSettings) -> int:
    if actions or found.soon:
        return settings.step_ms
    return settings.kafka_object_poll_ms if found.ready is not None else settings.wait_ms


def _ready(found: Judgement, stored: Mapping[str, Any]) -> Finding:
    if found.decision == Reason.PAUSED:
        before = condition(stored, KafkaObjectCondition.READY)
        if before.get("status") in ("True", "False"):
            return Finding(
                type=KafkaObjectCondition.READY, status=before["status"], reason=before["reason"],
                message=before["message"],
            )  # fmt: skip
    return finding(KafkaObjectCondition.READY, found.ready, found.decision, found.reason)


def _reachable(world: KafkaObjectWorld, found: Judgement) -> Finding:
    type_ = KafkaObjectCondition.CLUSTER_REACHABLE
    if isinstance(world.where, Unknown):
        return finding(type_, False, known_reason(world.where), world.where.message)
    if found.ready is None and found.decision != Reason.PAUSED:
        return finding(type_, False, found.decision, found.reason)
    if found.decision in (Reason.PAUSED, Reason.NAME_SHARED):
        return finding(type_, None, Reason.NOT_OBSERVED, "it was not asked")
    return finding(type_, True, Reason.REACHABLE, "the cluster answered")


def _degraded(found: Judgement) -> Finding:
    type_ = KafkaObjectCondition.DEGRADED
    if found.degraded:
        return finding(type_, True, found.decision, found.reason)
    if found.ready is None and found.decision != Reason.PAUSED:
        return finding(type_, None, Reason.NOT_OBSERVED, "not everything could be observed")
    return finding(type_, False, Reason.AS_EXPECTED, "nothing is wrong that would not heal by waiting")


def _paused(paused: bool) -> Finding:
    if paused:
        return finding(KafkaObjectCondition.PAUSED, True, Reason.PAUSED, f"annotation {naming.PAUSED_ANNOTATION}")
    return finding(KafkaObjectCondition.PAUSED, False, Reason.NOT_PAUSED, "it is not paused")


def _news(stored: Mapping[str, Any], found: Judgement) -> tuple[Event, ...]:
    before = condition(stored, KafkaObjectCondition.READY)
    if found.decision not in NEWS or (before.get("reason"), before.get("message")) == (found.decision, found.reason):
        return ()
    return (Event(reason=found.decision, message=found.reason, warning=True),)
