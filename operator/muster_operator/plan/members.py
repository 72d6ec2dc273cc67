"""How many coordinators there are to be now: brokers that join, and brokers that leave before their pods do.

Problem: a pod that is taken away takes replicas with it, and one that is added must join the cluster that exists, not
form another. Mechanism, each pass from what is true then:

 1. As many coordinators as `spec.founders` says form the cluster, those with the lowest ordinals (`status.founders`,
    which never changes). Further pods join by the cluster's id, which the coordinators tell (`resources.identity`).
 2. Up: all pods that lack are made at once; the coordinators level their groups by themselves (ADR 47).
 3. Down: every coordinator beyond the wanted number is to leave (`Decommission`, the highest first). The StatefulSet
    keeps its number until the controller's leader does not list the highest one any more; then it is lowered, as far as
    ordinals have left. So no pod is taken away that holds anything.
 4. Its claim is deleted when its pod is gone, by uid, and only the one that its data folder was seen on
    (`storage.whenScaled`). A folder that left never takes part again; another pod of its ordinal needs an empty one.
 5. Who is to leave and is wanted is to stay: after `replicas` was raised again, or because a person had another
    coordinator than the highest decommissioned. A StatefulSet's pods are numbered from 0 without gaps.

 6. More replicas than before, by `spec.replicationFactor`, when all pods are there: `plan.replication`.

The number that the StatefulSet had is kept in `status.replicas`, since the StatefulSet may be what somebody changed; a
coordinator that has a pod and is registered counts too, else a change of mind at the wrong moment would take it away.

Deliberately absent: judging quorums, free disks and who is connected. The coordinators refuse what would lower a group
below its replicas (`runtime.replacing`), and say what is stuck.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from muster_operator import naming
from muster_operator.api.conditions import ClusterCondition, Reason
from muster_operator.api.releases import MEMBERS_LEVEL
from muster_operator.plan import quorum
from muster_operator.plan.actions import Decommission, DeleteClaim
from muster_operator.plan.conditions import Finding, condition, finding, timestamp
from muster_operator.plan.downgrade import feature_level
from muster_operator.plan.pace import seconds_left
from muster_operator.plan.replication import Raising, is_raised, raising, recorded_factor
from muster_operator.plan.volume_records import seats, stored_records
from muster_operator.resources.coordinator_statefulset import claim_name
from muster_operator.world.cluster import ClusterWorld, MovesView, ReplicaView, Seat
from muster_operator.world.views import StatefulSetView, Unknown
from muster_operator.world.volumes import ClaimView

TYPE = ClusterCondition.SCALING_REFUSED
NAMED_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    pods: int
    """The number that the StatefulSet is to have."""
    founders: int
    cluster_id: str | None
    finding: Finding
    has_joined: bool | None = None
    """Coordinators beside the founders belong to the cluster; None: not known."""
    leaving: tuple[int, ...] = ()
    """Ordinals that are to leave and are still registered, the highest first."""
    marks: tuple[Decommission, ...] = ()
    claims: tuple[DeleteClaim, ...] = ()
    raising: Raising | None = None

    @property
    def under_way(self) -> bool:
        changing = (Reason.SCALING_UP, Reason.SCALING_DOWN, Reason.RAISING_REPLICATION)
        return self.finding.reason in changing or bool(self.marks)


def plan_members(world: ClusterWorld, *, frozen: bool = False) -> Members:
    """`frozen`: neither the StatefulSet nor a coordinator may be changed in this pass, so its number stays."""
    founders = _founders(world)
    held = _held(world, founders)
    made = Members(pods=held, founders=founders, cluster_id=_cluster_id(world), finding=_as_wanted(world, held))
    made = replace(made, claims=() if frozen else _claims_of_the_left(world, held))
    floor = recorded_factor(world, founders)
    wanted, target = world.spec.replicas, max(world.spec.replicas, floor)
    known = _registered(world)
    leaving = tuple(one for one in range(held - 1, target - 1, -1) if known is not None and one in known)
    others = None if known is None else any(ordinal >= founders for ordinal in known)
    made = replace(made, leaving=leaving, has_joined=others)
    if world.statefulset is None or isinstance(world.statefulset, Unknown):
        return made
    kept = _kept(world, made, target, known)
    if kept is not None:
        return kept if not frozen else replace(kept, marks=())
    if target > held:
        made = _up(world, made, target, known)
    elif target < held:
        made = _down(world, made, target, known)
    elif is_raised(world, founders):
        made = _raised(world, made, known, frozen=frozen)
    elif wanted < floor or world.spec.replication_factor not in (None, floor):
        made = replace(made, finding=_fixed(world, floor, held))
    return replace(made, pods=held, marks=()) if frozen else made


def _founders(world: ClusterWorld) -> int:
    """What an older operator made had as many founders as pods, which it kept in `status.replicas`."""
    for stored in (_number(world, "founders"), _number(world, "replicas")):
        if stored is not None:
            return stored
    live = world.statefulset
    return live.replicas if isinstance(live, StatefulSetView) and live.replicas > 0 else world.spec.founders


def _held(world: ClusterWorld, founders: int) -> int:
    live = world.statefulset
    stored = _number(world, "replicas")
    if stored is None:
        stored = live.replicas if isinstance(live, StatefulSetView) and live.replicas > 0 else founders
    pods = live.pods if isinstance(live, StatefulSetView) else ()
    joined = _registered(world) or {}
    return max([stored, *(pod.ordinal + 1 for pod in pods if pod.ordinal in joined)])


def _number(world: ClusterWorld, field: str) -> int | None:
    found = world.owner.status.get(field)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


def _leader(world: ClusterWorld) -> ReplicaView | None:
    views = [view for view in world.replicas.values() if isinstance(view, ReplicaView)]
    leader = quorum.controller_leader(views)
    return next((view for view in views if view.broker_id == leader), None)


def _cluster_id(world: ClusterWorld) -> str | None:
    """As the controller's leader says now, else as it was last told."""
    leader, stored = _leader(world), world.owner.status.get("clusterId")
    if leader is not None and leader.cluster_id:
        return leader.cluster_id
    return stored if isinstance(stored, str) and stored else None


def _registered(world: ClusterWorld) -> Mapping[int, Seat] | None:
    """Who is registered, by the controller's leader, which names itself; None: not known. Earlier releases and levels
    know nobody who comes or goes."""
    known, leader = seats(world), _leader(world)
    if known is None or leader is None or leader.broker_id not in known:
        return None
    return known if (leader.feature_level or 0) >= MEMBERS_LEVEL else None


def _as_wanted(world: ClusterWorld, held: int) -> Finding:
    return finding(TYPE, False, Reason.SCALE_AS_WANTED, f"{held} coordinators, as wanted")


def _raised(world: ClusterWorld, made: Members, known: Mapping[int, Seat] | None, *, frozen: bool) -> Members:
    """Rule 6."""
    leader = _leader(world)
    found = raising(
        world, level=feature_level(world), leader=None if leader is None else leader.broker_id,
        registered=None if known is None else len(known),
    )  # fmt: skip
    return replace(made, finding=found.finding, raising=replace(found, action=None) if frozen else found)


def _fixed(world: ClusterWorld, factor: int, held: int) -> Finding:
    asked = world.spec.replication_factor
    if asked not in (None, factor):
        said = f"`replicationFactor` is {asked}, and that of the cluster stays {factor}"
    else:
        said = f"`replicas` is {world.spec.replicas}, below the replication factor {factor}"
    return finding(TYPE, True, Reason.REPLICATION_FACTOR_FIXED, f"{said}: {held} coordinators stay")


def _kept(world: ClusterWorld, made: Members, target: int, known: Mapping[int, Seat] | None) -> Members | None:
    """Rule 5; None: nobody has to be kept."""
    pods = world.statefulset.pods if isinstance(world.statefulset, StatefulSetView) else ()
    there = {pod.ordinal for pod in pods} | set(range(made.pods))
    back = sorted(one for one, seat in (known or {}).items() if seat.departing and one < target and one in there)
    if not back:
        return None
    ours = str((world.owner.status.get("scaling") or {}).get("leaving", "")).split(", ")
    by_hand = [one for one in back if _pod(world, one) not in ours]
    why = f"the decommission of {_named(world, back)} is taken back: `replicas` wants it"
    if by_hand:
        why += (
            ". On Kubernetes only the coordinators with the highest numbers leave, by a lower `replicas`; one whose"
            f" volume is given up is replaced: annotation {naming.REPLACE_ANNOTATION}, or `muster cluster replace`"
        )
    marks = tuple(Decommission(pod=_pod(world, one), broker=one, departing=False) for one in back)
    return replace(made, marks=marks, finding=finding(TYPE, bool(by_hand), Reason.KEEPING_COORDINATOR, why))


def _up(world: ClusterWorld, made: Members, target: int, known: Mapping[int, Seat] | None) -> Members:
    """Rule 2."""
    asked = f"`replicas` is {world.spec.replicas}, and there are {made.pods} coordinators"

    def waits(why: str) -> Members:
        return replace(made, finding=finding(TYPE, False, Reason.SCALING_UP, f"{asked}; {why}"))

    def cannot(why: str) -> Members:
        return replace(made, finding=finding(TYPE, True, Reason.SCALING_UNSUPPORTED, f"{asked}; {why}"))

    if _number(world, "founders") is None:
        stale = condition(world.owner.status, TYPE).get("reason") == Reason.SCALING_UP
        why = "how many have formed the cluster has to be in the status first"
        return cannot(f"{why}: update the definitions (CRDs)") if stale else waits(why)
    level = feature_level(world)
    if level is not None and level < MEMBERS_LEVEL:
        why = f"more can join from feature level {MEMBERS_LEVEL} on, the cluster's is {level}"
        return cannot(f"{why}: it rises by itself an hour after all coordinators run a release that knows it")
    if level is None or made.cluster_id is None:
        return waits("they have to form their cluster first")
    if known is None:
        return waits("no leader of the controller group answers")
    left = [one for one in range(made.pods, target) if one not in known and _claim_of_the_left(world, one) is not None]
    if left and world.spec.storage.when_scaled == "Delete":
        return waits(f"the volume claim of {_named(world, left)} from before has to be gone first")
    why = f"joining: {_named(world, range(made.pods, target))}"
    return replace(waits(why), pods=target)


def _down(world: ClusterWorld, made: Members, target: int, known: Mapping[int, Seat] | None) -> Members:
    """Rule 3."""
    asked = f"`replicas` is {world.spec.replicas}"
    if target > world.spec.replicas:
        asked += f", the replication factor {target}: {target} coordinators will stay"
    if known is None:
        said = f"{asked}; who of the {made.pods} has left is not known: no leader of the controller group answers"
        return replace(made, finding=finding(TYPE, False, Reason.SCALING_DOWN, said))
    pods = made.pods
    while pods > target and pods - 1 not in known:
        pods -= 1
    marks = tuple(
        Decommission(pod=_pod(world, one), broker=one, departing=True)
        for one in made.leaving
        if not known[one].departing
    )
    if not made.leaving:
        said = f"{asked}; left: {_named(world, range(made.pods - 1, pods - 1, -1))}, and so does the pod"
        return replace(made, pods=pods, finding=finding(TYPE, False, Reason.COORDINATOR_LEFT, said))
    names, moves = _named(world, made.leaving), world.moves
    said = f"{asked}; leaving: {names}, with {to_move(world, made.leaving)} replicas of Raft groups to move"
    found = finding(TYPE, False, Reason.SCALING_DOWN, said)
    if isinstance(moves, MovesView) and moves.paused:
        why = "moving by itself is paused (`muster cluster balance --resume`)"
        found = finding(TYPE, True, Reason.DECOMMISSION_STUCK, f"{said}; {why}")
    elif isinstance(moves, MovesView) and (moves.stuck or _in_doubt(moves)):
        found = finding(TYPE, True, Reason.DECOMMISSION_STUCK, f"{said}; {'; '.join(moves.stuck) or moves.reason}")
    return replace(made, pods=pods, marks=marks, finding=found)


def _in_doubt(moves: MovesView) -> bool:
    """A voter of the controller group cannot be replaced: it is in no list, but in the leader's words."""
    return moves.reason.startswith("a voter of the controller's group")


def _claims_of_the_left(world: ClusterWorld, held: int) -> tuple[DeleteClaim, ...]:
    """Rule 4."""
    if world.spec.storage.when_scaled != "Delete":
        return ()
    found = []
    for ordinal in left_ordinals(world, held):
        claim = _claim_of_the_left(world, ordinal)
        if claim is not None and claim.ours and not claim.terminating:
            found.append(DeleteClaim(name=claim.name, uid=claim.uid, of_lost=False))
    return tuple(found)


def left_ordinals(world: ClusterWorld, held: int) -> tuple[int, ...]:
    """Ordinals beyond the StatefulSet's whose coordinators were recorded, have left, and have no pod any more."""
    known, live = _registered(world), world.statefulset
    if known is None or not isinstance(live, StatefulSetView) or live.replicas > held:
        return ()
    there = {pod.ordinal for pod in live.pods}
    recorded = {naming.ordinal_of(name) for name in stored_records(world.owner.status)}
    return tuple(sorted(one for one in recorded if one >= held and one not in known and one not in there))


def _claim_of_the_left(world: ClusterWorld, ordinal: int) -> ClaimView | None:
    """The claim that the coordinator was recorded on, if it is still there."""
    record, storage = (
        stored_records(world.owner.status).get(_pod(world, ordinal)),
        world.storage.get(_pod(world, ordinal)),
    )
    if record is None or storage is None or not isinstance(storage.claim, ClaimView):
        return None
    same = storage.claim.name == claim_name(world.owner, ordinal) and storage.claim.uid == record.claim_uid
    return storage.claim if same else None


def forgotten(world: ClusterWorld, held: int) -> frozenset[str]:
    """Pods whose record of a volume is needed no more: they have left, and the claim is gone or stays by wish."""
    found = set()
    for ordinal in left_ordinals(world, held):
        storage = world.storage.get(_pod(world, ordinal))
        read = storage is not None and not isinstance(storage.claim, Unknown)
        if world.spec.storage.when_scaled != "Delete" or (read and _claim_of_the_left(world, ordinal) is None):
            found.add(_pod(world, ordinal))
    return frozenset(found)


def to_move(world: ClusterWorld, leaving: tuple[int, ...]) -> int:
    """Replicas that coordinators hold which are to leave, as the groups' leaders have them."""
    views = [view for view in world.replicas.values() if isinstance(view, ReplicaView)]
    led = quorum.survey(views).led.values()
    return sum(voter in leaving for one in led for voter in one.view.voters)


def bytes_to_move(world: ClusterWorld, leaving: tuple[int, ...]) -> int:
    """Records of which the others have to get another copy, as the groups' leaders have them."""
    views = [view for view in world.replicas.values() if isinstance(view, ReplicaView)]
    led = quorum.survey(views).led.values()
    return sum((one.view.log_bytes or 0) * sum(voter in leaving for voter in one.view.voters) for one in led)


def scaling_status(world: ClusterWorld, members: Members) -> dict[str, Any]:
    """`status.scaling`: who is leaving, and how far that is. {}: nobody is."""
    if not members.leaving:
        return {}
    before = world.owner.status.get("scaling") or {}
    names = ", ".join(_pod(world, one) for one in sorted(members.leaving))
    left = to_move(world, members.leaving)
    same = set(names.split(", ")) <= set(str(before.get("leaving", "")).split(", "))
    first = max(int(before.get("groupsAtFirst") or 0), left) if same else left
    since = str(before["since"]) if same and "since" in before else timestamp(world.now_ms)
    found: dict[str, Any] = {"leaving": names, "groupsToMove": left, "groupsAtFirst": first, "since": since}
    found["bytesToMove"] = bytes_to_move(world, members.leaving)
    if isinstance(world.moves, MovesView):
        found["moving"] = world.moves.moving
    eta_s = seconds_left(left=left, first=first, since=since, now_ms=world.now_ms)
    return found if eta_s is None else found | {"secondsLeft": eta_s}


def _pod(world: ClusterWorld, ordinal: int) -> str:
    return naming.pod_name(world.owner.name, ordinal)


def _named(world: ClusterWorld, ordinals: Iterable[int]) -> str:
    names = [_pod(world, one) for one in ordinals]
    rest = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
