"""Status of a CoordinatorCluster: what this pass observed, and what the plan does about it.

Fast-changing numbers (indexes, terms) are left out: each would be a write. What could not be observed is not guessed:
the condition is Unknown, and numbers stay as last observed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from muster_operator import naming
from muster_operator.api.cluster import REPLICAS_MAX
from muster_operator.api.conditions import ClusterCondition, Reason
from muster_operator.plan import quorum
from muster_operator.plan.certificates_told import certificates_finding, certificates_status, needs_person
from muster_operator.plan.children import ChildrenPlan
from muster_operator.plan.conditions import Finding, condition, finding, merged, restart_told, timestamp
from muster_operator.plan.downgrade import feature_level
from muster_operator.plan.members import Members, forgotten, scaling_status
from muster_operator.plan.node_loss import node_loss_finding
from muster_operator.plan.pods import degraded
from muster_operator.plan.refused_image import Refused
from muster_operator.plan.replacement import Replacement
from muster_operator.plan.replication import replication_status
from muster_operator.plan.rollout import Step
from muster_operator.plan.settings import PlanSettings
from muster_operator.plan.volume_records import records
from muster_operator.resources.cluster import external_bootstrap, internal_bootstrap
from muster_operator.world.cluster import ClusterWorld, ReplicaView
from muster_operator.world.views import StatefulSetView, Unknown

MEMBERS_MAX = REPLICAS_MAX


def cluster_status(
    world: ClusterWorld,
    *,
    members: Members,
    children: ChildrenPlan,
    step: Step,
    settings: PlanSettings,
    replacement: Replacement,
    refused: Refused | None = None,
) -> dict[str, Any]:
    """The whole `.status`. `refused`: why the wanted image may not reach the pods."""
    owner, statefulset, kept = world.owner, world.statefulset, members.pods
    available = _quorum(world, settings)
    certificates = certificates_finding(world)
    status: dict[str, Any] = {
        "observedGeneration": owner.generation,
        "selector": ",".join(
            f"{key}={value}"
            for key, value in naming.selector(component=naming.COORDINATOR, instance=owner.name).items()
        ),
        **_addresses(world, kept),
        "conditions": merged(
            owner.status,
            (
                _ready(world, available, children, step, members),
                available,
                node_loss_finding(world),
                _progressing(world, children, step, members),
                _degraded(world, available, children, step, refused, replacement, certificates),
                replacement.finding,
                members.finding,
                *(() if certificates is None else (certificates,)),
                _paused(world),
            ),
            generation=owner.generation,
            now_ms=world.now_ms,
        ),
    }
    left = forgotten(world, kept)
    volumes = [one.status() for one in records(world).values() if one.name not in left]
    if volumes:
        status["volumes"] = volumes
    if certificates is not None:
        status["certificates"] = certificates_status(world)
    status |= _releases(world) | _of_members(world, members, settings) | restart_told(owner, paused=owner.paused)
    if isinstance(statefulset, StatefulSetView):
        status |= _of_statefulset(world, statefulset, kept, step)
    else:
        carried = ("replicas", "readyReplicas", "readyText", "currentRevision", "updateRevision", "members")
        status |= {key: owner.status[key] for key in carried if key in owner.status}
        status["controllerLeader"] = "Unknown"
    return status


def _releases(world: ClusterWorld) -> dict[str, Any]:
    """Release and feature level as the coordinators report them; the last known ones while none answers."""
    told = {view.version for view in world.replicas.values() if isinstance(view, ReplicaView)} - {None}
    version = ", ".join(sorted(one for one in told if one)) or world.owner.status.get("version")
    found = {"version": version, "featureLevel": feature_level(world)}
    return {key: value for key, value in found.items() if value is not None}


def _of_members(world: ClusterWorld, members: Members, settings: PlanSettings) -> dict[str, Any]:
    """Who belongs to the cluster, and what lacks; the last known numbers while no leader answers."""
    views = [view for view in world.replicas.values() if isinstance(view, ReplicaView)]
    survey = quorum.survey(views)
    leader = next((view for view in views if view.broker_id == survey.controller_leader), None)
    found: dict[str, Any] = {
        "founders": members.founders if world.statefulset is not None else None,
        "clusterId": members.cluster_id,
        "brokers": len(leader.seats) if leader is not None else world.owner.status.get("brokers"),
        "voters": len(leader.voters) if leader is not None else world.owner.status.get("voters"),
        "underReplicated": len(_lacking(world, survey, settings)) if survey.complete else None,
        "scaling": scaling_status(world, members) or None,
        "replicationFactor": _factor(world, members),
        "replication": replication_status(world, members.raising) or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _factor(world: ClusterWorld, members: Members) -> int | None:
    """Recorded when every group has it; it never falls."""
    if members.raising is not None and members.raising.done:
        return world.spec.replication_factor
    stored = world.owner.status.get("replicationFactor")
    return stored if isinstance(stored, int) else None


def _lacking(world: ClusterWorld, survey: quorum.Survey, settings: PlanSettings) -> tuple[int, ...]:
    """Raft groups with a replica that does not answer, or is not caught up."""
    there = frozenset(view.broker_id for view in world.replicas.values() if isinstance(view, ReplicaView))
    return tuple(
        number
        for number, led in survey.led.items()
        if any(one not in there or not led.caught_up(one, settings.caught_up_entries_max) for one in led.view.voters)
    )


def _of_statefulset(world: ClusterWorld, statefulset: StatefulSetView, kept: int, step: Step) -> dict[str, Any]:
    views = [view for view in world.replicas.values() if isinstance(view, ReplicaView)]
    old = [pod.revision for pod in statefulset.pods if pod.revision != statefulset.update_revision]
    ready = sum(1 for pod in statefulset.pods if pod.ready and not pod.terminating)
    found: dict[str, Any] = {
        "replicas": kept,
        "readyReplicas": ready,
        "readyText": f"{ready}/{kept}",
        "currentRevision": old[0] if old else statefulset.update_revision,
        "updateRevision": statefulset.update_revision,
        "members": [_member(world, pod.name, pod.ready) for pod in statefulset.pods[:MEMBERS_MAX]],
    }
    leader = quorum.controller_leader(views)
    found["controllerLeader"] = next((view.pod for view in views if view.broker_id == leader), "Unknown")
    if step.rolling:
        found["rollout"] = _rollout(world, statefulset, step)
    return found


def _member(world: ClusterWorld, name: str, ready: bool) -> dict[str, Any]:
    view = world.replicas.get(name)
    if not isinstance(view, ReplicaView):
        return {"name": name, "ready": ready, "drainPhase": "Unknown"}
    return {
        "name": name,
        "brokerId": view.broker_id,
        "ready": ready,
        "drainPhase": view.drain_phase,
        "leaderships": view.leaderships,
    }


def _rollout(world: ClusterWorld, statefulset: StatefulSetView, step: Step) -> dict[str, Any]:
    """For people: the pod that is being restarted, and since when pods roll to this revision."""
    before: Mapping[str, Any] = world.owner.status.get("rollout") or {}
    same = before.get("toRevision") == statefulset.update_revision
    found = {
        "toRevision": statefulset.update_revision,
        "since": before["since"] if same and "since" in before else timestamp(world.now_ms),
    }
    pod = next((pod for pod in statefulset.pods if pod.name == step.pod), None)
    return found if pod is None else found | {"pod": pod.name, "uid": pod.uid}


def _quorum(world: ClusterWorld, settings: PlanSettings) -> Finding:
    """Until every group has had its majority once, nothing can be lost: the cluster is forming.

    NotObserved is the CRD's default for an object without any pass yet.
    """
    type_ = ClusterCondition.QUORUM_AVAILABLE
    found = _quorum_now(world, settings)
    before = condition(world.owner.status, type_).get("reason")
    if found.status != "True" and before in (None, Reason.NOT_OBSERVED, Reason.NOT_FORMED):
        return Finding(type=type_, status=found.status, reason=Reason.NOT_FORMED, message=found.message)
    return found


def _quorum_now(world: ClusterWorld, settings: PlanSettings) -> Finding:
    type_ = ClusterCondition.QUORUM_AVAILABLE
    statefulset = world.statefulset
    views = [view for view in world.replicas.values() if isinstance(view, ReplicaView)]
    if not isinstance(statefulset, StatefulSetView) or not views:
        return finding(type_, None, Reason.QUORUM_UNKNOWN, "no replica answered on its admin port")
    if all(view.cluster_id is None for view in views) and len(views) == statefulset.replicas:
        return finding(type_, False, Reason.NOT_FORMED, "the coordinators have not formed their cluster yet")
    survey = quorum.survey(views)
    ready = frozenset(pod.ordinal for pod in statefulset.pods if pod.ready and not pod.terminating)
    ending = {pod.ordinal for pod in statefulset.pods if pod.terminating}
    answering = frozenset(view.broker_id for view in views) - ending
    weak = quorum.without_majority(survey, ready, settings.caught_up_entries_max, answering)
    if weak:
        return finding(type_, False, Reason.QUORUM_LOST, f"no caught-up majority of {survey.naming(weak)}")
    if not survey.complete:
        if len(ready) < statefulset.replicas // 2 + 1:
            message = f"{len(ready)} of {statefulset.replicas} coordinators are Ready: no majority"
            return finding(type_, False, Reason.QUORUM_LOST, message)
        groups = survey.headless or (quorum.CONTROLLER_GROUP,)
        return finding(type_, None, Reason.QUORUM_UNKNOWN, f"no leader is known of {survey.naming(groups)}")
    unheard = quorum.unproven(survey, ready | answering, settings.caught_up_entries_max)
    if unheard:
        message = f"the leader of {survey.naming(unheard)} has not heard from a majority yet"
        return finding(type_, None, Reason.QUORUM_UNKNOWN, message)
    return finding(type_, True, Reason.QUORUM_HEALTHY, f"{len(survey.led)} Raft groups have a caught-up majority")


def _ready(world: ClusterWorld, available: Finding, children: ChildrenPlan, step: Step, members: Members) -> Finding:
    type_ = ClusterCondition.READY
    if children.unknown is not None or isinstance(world.statefulset, Unknown):
        return finding(type_, None, Reason.NOT_OBSERVED, children.unknown or step.reason)
    if children.taken:
        return finding(type_, False, Reason.NAME_TAKEN, children.reason)
    if children.workload_drifted:
        return finding(type_, False, Reason.CREATING_CHILDREN, children.reason)
    if step.decision in (Reason.CONVERGED, Reason.WAITING_FOR_TURN):
        if available.status == "True" and members.under_way:
            return finding(type_, False, Reason(members.finding.reason), members.finding.message)
        if available.status == "True":
            return finding(type_, True, Reason.ALL_READY, step.reason)
        return Finding(type=type_, status=available.status, reason=available.reason, message=available.message)
    unknown = step.decision == Reason.REPLICAS_UNREACHABLE
    return finding(type_, None if unknown else False, step.decision, step.reason)


def _progressing(world: ClusterWorld, children: ChildrenPlan, step: Step, members: Members) -> Finding:
    type_ = ClusterCondition.PROGRESSING
    if world.owner.paused:
        return finding(type_, False, Reason.PAUSED, "nothing is done while it is paused")
    if children.unknown is not None or isinstance(world.statefulset, Unknown):
        return finding(type_, None, Reason.NOT_OBSERVED, children.unknown or step.reason)
    if children.taken:
        return finding(type_, False, Reason.NAME_TAKEN, children.reason)
    if children.actions and (children.held or step.action is None):
        return finding(type_, True, Reason.CREATING_CHILDREN, children.reason)
    if step.halted:
        return finding(type_, False, step.decision, step.reason)
    if step.decision == Reason.CONVERGED and members.under_way:
        return finding(type_, True, Reason(members.finding.reason), members.finding.message)
    return finding(type_, step.decision != Reason.CONVERGED, step.decision, step.reason)


def _degraded(
    world: ClusterWorld,
    available: Finding,
    children: ChildrenPlan,
    step: Step,
    refused: Refused | None,
    replacement: Replacement,
    certificates: Finding | None,
) -> Finding:
    type_ = ClusterCondition.DEGRADED
    if children.unknown is not None or isinstance(world.statefulset, Unknown):
        return finding(type_, None, Reason.NOT_OBSERVED, children.unknown or step.reason)
    if children.taken:
        return finding(type_, True, Reason.NAME_TAKEN, children.reason)
    if step.halted:
        return finding(type_, True, step.decision, step.reason)
    if refused is not None:
        return finding(type_, True, refused.reason, refused.message)
    if available.reason == Reason.QUORUM_LOST:
        return finding(type_, True, Reason.QUORUM_LOST, available.message)
    if replacement.needs_person:
        return Finding(
            type=type_, status="True", reason=replacement.finding.reason, message=replacement.finding.message
        )
    if certificates is not None and needs_person(certificates):
        return Finding(type=type_, status="True", reason=certificates.reason, message=certificates.message)
    pods = world.statefulset.pods if world.statefulset is not None else ()
    for pod in pods:
        why = degraded(pod, now_ms=world.now_ms)
        if why is not None:
            reason = Reason.POD_UNSCHEDULABLE if pod.unschedulable else Reason.POD_FAILING
            return finding(type_, True, reason, f"{pod.name}: {why}")
    low = [view.pod for _, view in sorted(world.replicas.items()) if isinstance(view, ReplicaView) and view.disk_low]
    if low:
        return finding(type_, True, Reason.DISK_LOW, _told_of_disks(low, len(pods)))
    return finding(type_, False, Reason.AS_EXPECTED, "nothing is wrong that would not heal by waiting")


def _told_of_disks(low: Sequence[str], pods: int) -> str:
    """Without numbers of bytes, because each change would be a write."""
    majority = len(low) * 2 < pods
    meaning = "others lead what it led" if majority else "commits are refused until there is space"
    return f"little space is left on the disk of {', '.join(low)}: {meaning}; make the volumes larger, or delete data"


def _paused(world: ClusterWorld) -> Finding:
    if world.owner.paused:
        return finding(ClusterCondition.PAUSED, True, Reason.PAUSED, f"annotation {naming.PAUSED_ANNOTATION}")
    return finding(ClusterCondition.PAUSED, False, Reason.NOT_PAUSED, "it is not paused")


def _addresses(world: ClusterWorld, kept: int) -> dict[str, Any]:
    """Where clients of each listener begin: inside at the bootstrap Service, outside pod by pod."""
    owner, spec = world.owner, world.spec
    nodes = world.node_addresses if not isinstance(world.node_addresses, Unknown) else {}
    pods = world.statefulset.pods if isinstance(world.statefulset, StatefulSetView) else ()
    hosts = {pod.ordinal: nodes[pod.node] for pod in pods if pod.node is not None and pod.node in nodes}
    listeners, outside = [], []
    for listener in spec.listeners:
        if listener.type == "internal":
            address: str | None = internal_bootstrap(owner, spec, listener)
        else:
            address = external_bootstrap(owner, listener, hosts, kept)
            outside.append(address or "Unknown")
        told = {"name": listener.name, "type": listener.type, "bootstrapServers": address}
        listeners.append({key: value for key, value in told.items() if value is not None})
    bootstrap = {"internal": internal_bootstrap(owner, spec, spec.internal_listener)}
    if outside:
        bootstrap["external"] = outside[0]
    return {"bootstrapServers": bootstrap, "listeners": listeners}
