"""What is done about a lost volume: its replica's place is given to a new one, one at a time (ADR 39).

Problem: the pod comes back with an empty folder, which stays out until somebody who knows declares the old one gone for
good; and a claim whose volume is gone keeps its pod from starting at all. Mechanism, each pass from what is true then:

 1. The controller's leader says that the recorded folder is bound to the id -> ReplaceReplica. Where the claim is a
    new one, only once its replica runs on a folder of its own: no replica could take the place before that.
 2. It says that the id waits for a new folder, and the lost claim is in the way -> DeleteClaim and DeletePod. So no
    claim is deleted before a majority of the coordinators has agreed that what is on it is never used again.
 3. The new folder is bound -> the record is replaced (`plan.volume_records`), so nothing is lost any more.
 4. Every Raft group has taken the new folder in -> VolumeLost is False.

Nothing here is remembered, so an operator that was killed goes on from the next observation; a folder that was declared
gone is declared so again without effect. The coordinators judge quorums (ADR 38), not this.

Never by itself: for the only replica, for a folder that was emptied under its old claim, and with
`spec.replaceLostReplicas: false`; a person's annotation names the folder then.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from muster_operator import naming
from muster_operator.api.conditions import ClusterCondition, Reason
from muster_operator.plan import quorum
from muster_operator.plan.actions import DeleteClaim, DeletePod, ReplaceReplica
from muster_operator.plan.conditions import Finding, condition, finding
from muster_operator.plan.lost_volumes import Evidence, Judgement, Lost, Unclear, judge, unusable
from muster_operator.plan.settings import PlanSettings
from muster_operator.plan.volume_records import acknowledged, records, seats, stored_records
from muster_operator.resources.coordinator_statefulset import claim_name
from muster_operator.world.cluster import ClusterWorld, ReplicaView
from muster_operator.world.views import PodView, StatefulSetView, Unknown
from muster_operator.world.volumes import ClaimView

TYPE = ClusterCondition.VOLUME_LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    finding: Finding
    action: ReplaceReplica | DeleteClaim | DeletePod | None = None
    needs_person: bool = False
    """It does not resolve by itself."""


def plan_replacement(world: ClusterWorld, settings: PlanSettings) -> Replacement:
    """The condition VolumeLost, and the next step of a replacement."""
    statefulset = world.statefulset
    if not isinstance(statefulset, StatefulSetView):
        why = statefulset.message if isinstance(statefulset, Unknown) else "the StatefulSet does not exist yet"
        return Replacement(finding=finding(TYPE, None, Reason.NOT_OBSERVED, why))
    judgement = judge(world)
    if judgement.anew and not acknowledged(world, judgement.anew):
        return _formed_anew(world, judgement.anew)
    if not judgement.lost:
        return _nothing_lost(world, judgement)
    lost = _chosen(world, judgement)
    if statefulset.replicas == 1:
        why = f"{lost.why}; it was the only coordinator, so what the cluster had stored is lost"
        return _for_people(Reason.DATA_LOST, f"{why}: restore the claim, or let it begin anew with an empty volume")
    others = len(judgement.lost) - 1
    return _step(world, settings, statefulset, lost, f"{lost.why} (and {others} more)" if others else lost.why)


def _chosen(world: ClusterWorld, judgement: Judgement) -> Lost:
    """The one whose replacement is under way, else the first that needs no person."""
    known = seats(world) or {}

    def order(one: Lost) -> tuple[bool, bool, int]:
        seat = known.get(one.ordinal)
        return (seat is None or seat.folder is not None, not _may_act(world, one), one.ordinal)

    return min(judgement.lost, key=order)


def _may_act(world: ClusterWorld, lost: Lost) -> bool:
    return lost.asked or (world.spec.replace_lost_replicas and lost.evidence is not Evidence.EMPTIED)


def _step(
    world: ClusterWorld, settings: PlanSettings, statefulset: StatefulSetView, lost: Lost, why: str
) -> Replacement:
    known = seats(world)
    if known is None:
        return _leaderless(world, lost, why)
    seat = known.get(lost.ordinal)
    if seat is None:
        return _for_people(Reason.VOLUME_LOST, f"{why}; the coordinators know no replica with id {lost.ordinal}")
    pod = next((one for one in statefulset.pods if one.name == lost.pod), None)
    if seat.folder is None:
        step = _make_room(world, settings, lost, pod, why)
        return step if _may_act(world, lost) else replace(step, action=None)
    if lost.evidence is Evidence.EMPTIED and not lost.asked:
        why += f"; if its data is gone for good: {command(world, seat.folder)}"
        return _for_people(Reason.FOLDER_EMPTIED, why)
    if not _may_act(world, lost):
        why += f"; replaceLostReplicas is false, and {command(world, seat.folder)} replaces it"
        return _for_people(Reason.VOLUME_LOST, why)
    waiting = sorted(broker for broker, other in known.items() if other.folder is None)
    if waiting:
        return _waits(f"{why}; {world.owner.name}-{waiting[0]} is replaced first")
    return _declare(world, settings, lost, pod, why)


def _declare(world: ClusterWorld, settings: PlanSettings, lost: Lost, pod: PodView | None, why: str) -> Replacement:
    """Step 1."""
    answers = isinstance(world.replicas.get(lost.pod), ReplicaView)
    if lost.evidence is Evidence.NO_CLAIM and pod is not None and _never_starts(pod, world, settings):
        return _acts(f"{why}; its pod is made anew, with a claim", DeletePod(name=pod.name, uid=pod.uid))
    if lost.evidence in (Evidence.NO_CLAIM, Evidence.NEW_CLAIM) and not answers:
        return _waits(f"{why}; it is replaced when it runs on a new one")
    if lost.evidence is Evidence.ASKED and not lost.node_away and not _long_down(pod, world, settings):
        patience_s = settings.node_gone_patience_ms // 1_000
        return _waits(f"{why}; it is replaced when its pod has not been Ready for {patience_s} s")
    since_ms = _node_gone_since_ms(world, lost, pod)
    if since_ms is not None and world.now_ms - since_ms < settings.node_gone_patience_ms:
        patience_s = settings.node_gone_patience_ms // 1_000
        return _waits(f"{why}; it is replaced unless the node is back {patience_s} s after it was missed")
    leader = quorum.controller_leader(_views(world))
    if leader is None:
        return _leaderless(world, lost, why)
    action = ReplaceReplica(pod=lost.pod, broker=lost.ordinal, folder=lost.record.folder, leader=leader)
    return _acts(f"{why}; its data folder {lost.record.folder} is being declared gone for good", action)


def _leaderless(world: ClusterWorld, lost: Lost, why: str) -> Replacement:
    """Who voted for the controller alone, as all others say, comes back by no wait: nobody could give it its place. One
    of them alone may be behind."""
    told = [view.voters for view in _views(world) if view.voters]
    statefulset = world.statefulset
    others = statefulset.replicas - len(judge(world).lost) if isinstance(statefulset, StatefulSetView) else 0
    if len(told) < others or set(told) != {(lost.ordinal,)}:
        return _waits(f"{why}; no leader of the controller group answers")
    why = f"{why}; it alone had the controller group, so the cluster cannot go on by itself"
    return _for_people(
        Reason.DATA_LOST,
        f"{why}: restore the claim, or recover from another folder (runbook: a majority lost for good)",
    )


def _node_gone_since_ms(world: ClusterWorld, lost: Lost, pod: PodView | None) -> int | None:
    """Since when a node was missed, or its pod not Ready if that is later: another volume may have been lost before.
    None: that is not the evidence. A node that is made anew may bring its volume back."""
    if lost.evidence is not Evidence.NODE_GONE:
        return None
    stored = condition(world.owner.status, TYPE)
    if stored.get("status") != "True":
        return world.now_ms
    told_ms = int(datetime.fromisoformat(stored["lastTransitionTime"]).timestamp() * 1_000)
    return told_ms if pod is None else max(told_ms, pod.unready_since_ms or pod.created_ms or told_ms)


def _long_down(pod: PodView | None, world: ClusterWorld, settings: PlanSettings) -> bool:
    if pod is None:
        return True
    since_ms = pod.unready_since_ms or pod.created_ms
    return since_ms is not None and world.now_ms - since_ms >= settings.node_gone_patience_ms


def _never_starts(pod: PodView, world: ClusterWorld, settings: PlanSettings) -> bool:
    """Kubernetes makes a missing claim when it makes a pod; for one that is Pending, only newer releases do."""
    if pod.terminating or pod.phase != "Pending" or pod.created_ms is None:
        return False
    return world.now_ms - pod.created_ms >= settings.min_ready_ms


def _make_room(world: ClusterWorld, settings: PlanSettings, lost: Lost, pod: PodView | None, why: str) -> Replacement:
    """Step 2: the folder is gone for good; what keeps the next one from coming goes too."""
    why = f"{why}; its place waits for a new data folder"
    storage = world.storage.get(lost.pod)
    claim = storage.claim if storage is not None else None
    if lost.evidence is Evidence.NO_CLAIM and pod is not None and _never_starts(pod, world, settings):
        return _acts(f"{why}; its pod is made anew, with a claim", DeletePod(name=pod.name, uid=pod.uid))
    if not isinstance(claim, ClaimView) or not _in_the_way(world, lost, pod, claim):
        return _waits(why, Reason.REPLACING_REPLICA)
    if not claim.ours:
        return _for_people(Reason.VOLUME_LOST, f"{why}: delete claim {claim.name}, which the operator has not made")
    why = f"{why}, for which claim {claim.name} makes room"
    if not claim.terminating:
        return _acts(why, DeleteClaim(name=claim.name, uid=claim.uid))
    at_once = lost.node_away or unusable(world, lost) is Evidence.NODE_GONE
    if pod is None or (pod.terminating and not at_once):
        return _waits(why, Reason.REPLACING_REPLICA)
    return _acts(why, DeletePod(name=pod.name, uid=pod.uid, at_once=at_once))


def _in_the_way(world: ClusterWorld, lost: Lost, pod: PodView | None, claim: ClaimView) -> bool:
    """The claim keeps its pod from starting with an empty volume: its volume or node is gone, or it is the recorded
    one. By a person's word alone it is not: a replica may run on it, with a new folder."""
    if isinstance(world.replicas.get(lost.pod), ReplicaView):
        return False
    if unusable(world, lost) is not None:
        return True
    if claim.uid != lost.record.claim_uid:
        return False
    if lost.evidence is Evidence.ASKED and not lost.node_away:
        return pod is None or (pod.phase == "Pending" and pod.node is None)
    return lost.evidence in (Evidence.VOLUME_GONE, Evidence.NODE_GONE, Evidence.ASKED)


def _nothing_lost(world: ClusterWorld, judgement: Judgement) -> Replacement:
    views = _views(world)
    waiting = sorted(broker for broker, seat in (seats(world) or {}).items() if seat.folder is None)
    if waiting:
        pod = f"{world.owner.name}-{waiting[0]}"
        why = f"{pod} waits for a new data folder; claim {claim_name(world.owner, waiting[0])} and the pod have to be"
        return _waits(f"{why} deleted if the claim is still the old one", Reason.REPLACING_REPLICA)
    survey = quorum.survey(views)
    before = condition(world.owner.status, TYPE)
    changing = len(survey.changing)
    if before.get("status") == "True":
        # A member that was left out, and is not taken in yet, is seen in these only; so are replicas that are moved
        # for other reasons, which alone are no loss.
        changing = max(changing, sum(view.groups_to_change for view in views))
    doubt = next((_in_words(world, one) for one in judgement.unclear), "")
    if changing:
        why = f"{changing} Raft groups have not taken in a replaced coordinator's new data folder yet"
        return _waits(f"{why}; {doubt}" if doubt else why, Reason.REPLACING_REPLICA)
    if before.get("status") == "True" and not survey.complete:
        kept = Finding(type=TYPE, status="True", reason=before["reason"], message=before["message"])
        return Replacement(finding=kept)
    if doubt:
        return Replacement(finding=finding(TYPE, None, judgement.unclear[0].reason, doubt))
    if not records(world):
        return Replacement(finding=finding(TYPE, None, Reason.NOT_OBSERVED, "no coordinator's volume was recorded yet"))
    return Replacement(finding=finding(TYPE, False, Reason.VOLUMES_PRESENT, "no coordinator has lost its volume"))


def _in_words(world: ClusterWorld, doubt: Unclear) -> str:
    return f"{doubt.why}; if it never comes back: {command(world, doubt.folder)}" if doubt.folder else doubt.why


def _formed_anew(world: ClusterWorld, pods: tuple[str, ...]) -> Replacement:
    folder = stored_records(world.owner.status)[pods[0]].folder
    why = f"{', '.join(pods)} formed the cluster anew with empty volumes: what it had stored before is lost"
    return _for_people(Reason.DATA_LOST, f"{why}; {command(world, folder)} ends this message")


def command(world: ClusterWorld, folder: str) -> str:
    """What a person enters to declare a data folder gone for good."""
    owner = world.owner
    return f"`kubectl -n {owner.namespace} annotate --overwrite cc/{owner.name} {naming.REPLACE_ANNOTATION}={folder}`"


def _views(world: ClusterWorld) -> list[ReplicaView]:
    return [view for view in world.replicas.values() if isinstance(view, ReplicaView)]


def _waits(why: str, reason: Reason = Reason.VOLUME_LOST) -> Replacement:
    return Replacement(finding=finding(TYPE, True, reason, why))


def _acts(why: str, action: ReplaceReplica | DeleteClaim | DeletePod) -> Replacement:
    return Replacement(finding=finding(TYPE, True, Reason.REPLACING_REPLICA, why), action=action)


def _for_people(reason: Reason, why: str) -> Replacement:
    return Replacement(finding=finding(TYPE, True, reason, why), needs_person=True)
