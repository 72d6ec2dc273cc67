"""One pass over a CoordinatorCluster: its children first, then at most one step of a restart, then its status.

Three conditions block a restart in a pass: the object is paused, its live children could not be observed, or the
StatefulSet or ConfigMap differs from the intent. In the last case the StatefulSet's revision may come from another
writer. The first action that fails ends a pass, so deletions come after the restart's step, and what replaces a lost
replica after all others. Larger volumes come first,
whatever state the cluster is in: a cluster with a full disk never converges. A refused growth ends no pass.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster_operator.api.conditions import ClusterCondition, Reason
from muster_operator.drift import quantity
from muster_operator.limits import NAME_TAKEN_RETRY_MS
from muster_operator.naming import CONFIG_HASH_ANNOTATION, OPERATOR_USER, USERNAME_KEY, identity
from muster_operator.plan.actions import Action, DeleteChild, EnsureSecret, Event, GrowClaim, Plan, ReplaceReplica
from muster_operator.plan.certificates import CertificatesPlan, plan_certificates
from muster_operator.plan.children import WORKLOAD, ChildrenPlan, plan_children
from muster_operator.plan.conditions import condition
from muster_operator.plan.lost_volumes import judge
from muster_operator.plan.members import Members, plan_members
from muster_operator.plan.peer_security import rotation, rotation_wait_ms, wanted_mode
from muster_operator.plan.refused_image import Refused, refused_image
from muster_operator.plan.release import unheard, wanted_release
from muster_operator.plan.replacement import Replacement, plan_replacement
from muster_operator.plan.rollout import Step, next_step
from muster_operator.plan.settings import PlanSettings
from muster_operator.plan.status_cluster import cluster_status
from muster_operator.resources.cluster import children
from muster_operator.resources.coordinator_statefulset import claim_name
from muster_operator.resources.identity import says_formed
from muster_operator.resources.own_secrets import of_operator, of_peers
from muster_operator.resources.owned import is_owned_by
from muster_operator.resources.surplus import of_cluster
from muster_operator.resources.token_secret import admin_token
from muster_operator.world.cluster import ClusterWorld
from muster_operator.world.views import StatefulSetView, Unknown


def plan_cluster(world: ClusterWorld, settings: PlanSettings) -> Plan:
    """The actions for one CoordinatorCluster now, and its whole status."""
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
    refused = refused_image(world, settings)
    members = plan_members(world, frozen=owner.paused or refused is not None)
    made = _children(world, settings, members, refused)
    step = next_step(world, settings)
    replacement = plan_replacement(world, settings)
    status = cluster_status(
        world, members=members, children=made, step=step, settings=settings, refused=refused, replacement=replacement,
    )  # fmt: skip
    if owner.paused:
        return Plan(
            actions=(),
            status=status,
            events=(),
            requeue_after_ms=settings.wait_ms,
            decision=Reason.PAUSED,
            reason="only the status is written",
        )
    if made.held:
        step = replace(step, action=None, events=())
    growing = () if made.taken else _growing(world)
    tidying = tuple(one for one in made.actions if isinstance(one, DeleteChild))
    making = tuple(one for one in made.actions if not isinstance(one, DeleteChild))
    lost = replacement.finding.status == "True"
    unsettled = lost or members.under_way or bool(members.claims) or members.finding.status == "True"
    again_ms = min(step.again_ms, settings.wait_ms) if unsettled else step.again_ms
    replacing = () if made.taken else _beside(step, replacement)
    raised = members.raising.action if members.raising is not None else None
    leaving = () if made.taken else (*members.marks, *members.claims, *(() if raised is None else (raised,)))
    restart = (step.action,) if step.action is not None else ()
    certificates = plan_certificates(world)
    actions = (
        *growing, *_of_secrets(world, settings, made, certificates), *making, *restart, *tidying, *replacing, *leaving
    )  # fmt: skip
    again_ms = min(again_ms, _secrets_due_ms(world, settings, certificates))
    if made.taken:
        again_ms = min(again_ms, NAME_TAKEN_RETRY_MS)
    decision, reason = refused if refused is not None else _decision(made, step, members)
    return Plan(
        actions=actions,
        status=status,
        events=(*step.events, *_news(world, status)),
        requeue_after_ms=min(settings.step_ms if actions else again_ms, again_ms),
        decision=decision,
        reason=reason,
    )


def _beside(step: Step, replacement: Replacement) -> tuple[Action, ...]:
    """A roll-out goes on whatever becomes of a lost volume. Pods and claims are deleted in a pass of their own: one
    disruptive action a pass."""
    action = replacement.action
    if action is None or (step.action is not None and not isinstance(action, ReplaceReplica)):
        return ()
    return (action,)


def _of_secrets(
    world: ClusterWorld, settings: PlanSettings, made: ChildrenPlan, certificates: CertificatesPlan
) -> tuple[Action, ...]:
    """Before the pods that mount them."""
    if made.taken or made.unknown is not None:
        return ()
    turned = rotation(world, settings)
    return (*certificates.actions, *(() if turned is None else (turned,)))


def _secrets_due_ms(world: ClusterWorld, settings: PlanSettings, certificates: CertificatesPlan) -> int:
    """Until a Secret is to be changed without any event."""
    waits = [settings.resync_ms]
    overlap_ms = rotation_wait_ms(world, settings)
    if overlap_ms is not None:
        waits.append(overlap_ms)
    if certificates.due_ms is not None:
        waits.append(certificates.due_ms - world.now_ms)
    return max(settings.step_ms, min(waits))


def _children(world: ClusterWorld, settings: PlanSettings, members: Members, refused: Refused | None) -> ChildrenPlan:
    """`refused`: the wanted image may not reach the pods, so their template and settings stay unchanged."""
    owner, spec, statefulset = world.owner, world.spec, world.statefulset
    if isinstance(statefulset, Unknown):
        return plan_children(owner, statefulset, ())
    if (why := unheard(world, settings)) is not None:
        return plan_children(owner, Unknown(reason="ReleaseUnknown", message=why), ())
    live = world.children if not isinstance(world.children, Unknown) else {}
    release = wanted_release(world, settings)
    told = live.get(("ConfigMap", identity(owner.name)))
    told = told if told is not None and is_owned_by(told, owner) else None
    desired = children(
        owner,
        spec,
        image=settings.operator_image,
        operator_namespace=settings.operator_namespace,
        operator_labels=settings.operator_labels,
        replicas=members.pods,
        founders=members.founders,
        cluster_id=members.cluster_id,
        joins=told is not None,
        has_joined=says_formed(told) if members.has_joined is None else members.has_joined,
        storage_size=_made_size(live.get(("StatefulSet", owner.name))),
        pull_policy=settings.image_pull_policy,
        platform_sets_user=settings.platform_sets_user,
        release=release.release,
        release_is_said=release.is_said,
        operator_release=settings.operator_release,
        lost=len(judge(world).out()),
        peers=wanted_mode(world, settings, pods=members.pods),
        node_addresses=() if isinstance(world.node_addresses, Unknown) else sorted(set(world.node_addresses.values())),
    )
    secrets = [EnsureSecret(**admin_token(owner)), EnsureSecret(**of_peers(owner))]
    if spec.has_operator_user:
        secrets.append(EnsureSecret(**of_operator(owner), beside={USERNAME_KEY: OPERATOR_USER}))
    if refused is not None:
        return plan_children(
            owner, world.children, [one for one in desired if one["kind"] not in WORKLOAD], secrets=secrets
        )
    pods = statefulset.pods if statefulset is not None else ()
    in_use = {pod.annotations.get(CONFIG_HASH_ANNOTATION, "") for pod in pods}
    surplus = of_cluster(owner, live=live, wanted=desired, config_hashes_in_use=in_use)
    return plan_children(owner, world.children, desired, secrets=secrets, surplus=surplus)


def _made_size(live: Mapping[str, Any] | None) -> str | None:
    """Size in the live StatefulSet's claim template, which is immutable."""
    templates = ((live or {}).get("spec") or {}).get("volumeClaimTemplates") or ()
    return _storage(templates[0]) if templates else None


def _storage(claim: Mapping[str, Any]) -> str | None:
    found = claim.get("spec", {}).get("resources", {}).get("requests", {}).get("storage")
    return str(found) if found is not None else None


def _growing(world: ClusterWorld) -> tuple[GrowClaim, ...]:
    """Live volume claims that request less than the spec. They are read only if the spec has grown."""
    statefulset, live, size = world.statefulset, world.children, world.spec.storage.size
    if not isinstance(statefulset, StatefulSetView) or isinstance(live, Unknown):
        return ()
    found = []
    for ordinal in range(statefulset.replicas):
        claim = live.get(("PersistentVolumeClaim", claim_name(world.owner, ordinal)))
        asked, wanted = quantity(_storage(claim)) if claim is not None else None, quantity(size)
        if asked is not None and wanted is not None and asked < wanted:
            metadata = live["PersistentVolumeClaim", claim_name(world.owner, ordinal)]["metadata"]
            found.append(GrowClaim(name=metadata["name"], uid=metadata["uid"], size=size))
    return tuple(found)


def _decision(made: ChildrenPlan, step: Step, members: Members) -> tuple[Reason, str]:
    if made.unknown is not None:
        return Reason.NOT_OBSERVED, made.reason
    if made.taken:
        return Reason.NAME_TAKEN, made.reason
    if made.actions and step.action is None:
        return Reason.CREATING_CHILDREN, made.reason
    if step.decision == Reason.CONVERGED and members.under_way:
        return Reason(members.finding.reason), members.finding.message
    return step.decision, step.reason


def _news(world: ClusterWorld, status: dict[str, Any]) -> tuple[Event, ...]:
    """Events about changes against the stored status: recorded once, not in each pass."""
    found = []
    before, now = (condition(one, ClusterCondition.DEGRADED) for one in (world.owner.status, status))
    if now.get("status") == "True" and now.get("reason") != before.get("reason"):
        found.append(Event(reason=now["reason"], message=now["message"], warning=True))
    refused, was = (condition(one, ClusterCondition.SCALING_REFUSED) for one in (status, world.owner.status))
    if refused.get("status") == "True" and was.get("message") != refused["message"]:
        found.append(Event(reason=refused["reason"], message=refused["message"], warning=True))
    told, was = (condition(one, ClusterCondition.CERTIFICATES_READY) for one in (status, world.owner.status))
    if told.get("reason") == Reason.CERTIFICATE_EXPIRING and was.get("reason") != told["reason"]:
        found.append(Event(reason=told["reason"], message=told["message"], warning=True))
    found += _news_of_volumes(*(condition(one, ClusterCondition.VOLUME_LOST) for one in (status, world.owner.status)))
    ready = condition(status, ClusterCondition.READY)
    if world.owner.status.get("rollout") and ready.get("status") == "True":
        found.append(Event(reason=Reason.CONVERGED, message=ready["message"]))
    return tuple(found)


def _news_of_volumes(now: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[Event, ...]:
    was = before.get("reason") if before.get("status") == "True" else None
    under_way = (Reason.REPLACING_REPLICA, Reason.REPLACEMENT_REFUSED)
    if now["status"] == "True" and now["reason"] != was and not (now["reason"] in under_way and was in under_way):
        return (Event(reason=now["reason"], message=now["message"], warning=True),)
    if now["status"] == "False" and was in under_way:
        message = "the lost coordinator was replaced, and every Raft group has taken it in"
        return (Event(reason=Reason.REPLICA_REPLACED, message=message),)
    return ()
