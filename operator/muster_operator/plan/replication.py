"""More replicas of each Raft group than the cluster was formed with: `spec.replicationFactor`, raised.

Problem: the number takes as long as copying the data, and needs brokers that have joined; whoever asks must survive
nothing. Mechanism: the coordinators keep the wish and carry it out (ADR 48), so each pass compares what they say with
the spec: asks while they want another number, tells how far they are, and records it (`status.replicationFactor`) when
all have it. From then on it is the number below which no coordinator leaves, and nobody is asked any more.

Deliberately absent: to lower it. A topic that loses copies of its data is a person's word, not that of an edit:
`muster cluster replication-factor`.
"""

from dataclasses import dataclass
from typing import Any

from muster_operator.api.conditions import ClusterCondition, Reason
from muster_operator.api.releases import MEMBERS_LEVEL
from muster_operator.plan import quorum
from muster_operator.plan.actions import RaiseReplication
from muster_operator.plan.conditions import Finding, finding, timestamp
from muster_operator.plan.pace import seconds_left
from muster_operator.world.cluster import ClusterWorld, ReplicationView, ReplicaView

TYPE = ClusterCondition.SCALING_REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Raising:
    finding: Finding
    action: RaiseReplication | None = None
    done: bool = False


def recorded_factor(world: ClusterWorld, founders: int) -> int:
    """Replicas that each group is known to have."""
    stored = world.owner.status.get("replicationFactor")
    known = stored if isinstance(stored, int) and not isinstance(stored, bool) else 0
    return max(founders, known)


def is_raised(world: ClusterWorld, founders: int) -> bool:
    """The spec wants more replicas than the groups are known to have."""
    asked = world.spec.replication_factor
    return asked is not None and asked > recorded_factor(world, founders)


def raising(world: ClusterWorld, *, level: int | None, leader: int | None, registered: int | None) -> Raising:
    """What is to be done, of a spec that wants more. `level`: the cluster's feature level; `leader`: of the controller
    group; `registered`: brokers; None: not known."""
    wanted, view = world.spec.replication_factor or 0, world.replication
    asked = f"`replicationFactor` is {wanted}"
    if level is not None and level < MEMBERS_LEVEL:
        why = f"{asked}; it can be raised from feature level {MEMBERS_LEVEL} on, the cluster's is {level}"
        return Raising(finding=finding(TYPE, True, Reason.SCALING_UNSUPPORTED, why))
    if registered is not None and registered < wanted:
        why = f"{asked}; {registered} coordinators have joined so far"
        return Raising(finding=finding(TYPE, False, Reason.RAISING_REPLICATION, why))
    if leader is None or registered is None or not isinstance(view, ReplicationView):
        why = f"{asked}; no leader of the controller group says how many replicas there are"
        return Raising(finding=finding(TYPE, False, Reason.RAISING_REPLICATION, why))
    if view.factor != wanted:
        why = f"{asked}; the coordinators are asked for it"
        action = RaiseReplication(factor=wanted, leader=leader)
        return Raising(finding=finding(TYPE, False, Reason.RAISING_REPLICATION, why), action=action)
    if view.done:
        return Raising(finding=finding(TYPE, False, Reason.SCALE_AS_WANTED, f"{asked}, as wanted"), done=True)
    why = f"{asked}; to be raised: {_left(view)}"
    return Raising(finding=finding(TYPE, False, Reason.RAISING_REPLICATION, f"{why}; {view.reason}".rstrip("; ")))


def _left(view: ReplicationView) -> str:
    controller = "" if view.voters == view.voters_to_be else f", and the controller's of {view.voters} voters"
    return f"{view.partitions_to_go} partitions, {view.moving} of them on their way{controller}"


def _bytes_to_move(world: ClusterWorld, factor: int) -> int:
    """Records of which further copies are to be made, as the groups' leaders have them."""
    views = [view for view in world.replicas.values() if isinstance(view, ReplicaView)]
    led = quorum.survey(views).led.values()
    return sum((one.view.log_bytes or 0) * max(0, factor - len(one.view.voters)) for one in led)


def replication_status(world: ClusterWorld, raised: Raising | None) -> dict[str, Any]:
    """`status.replication`: how far it is. {}: nothing is being raised, or nobody tells."""
    view = world.replication
    if raised is None or raised.done or not isinstance(view, ReplicationView):
        return {}
    if view.factor != world.spec.replication_factor:
        return {}
    before = world.owner.status.get("replication") or {}
    same = before.get("wanted") == world.spec.replication_factor
    left = view.partitions_to_go
    first = max(int(before.get("partitionsAtFirst") or 0), left) if same else left
    since = str(before["since"]) if same and "since" in before else timestamp(world.now_ms)
    found: dict[str, Any] = {
        "wanted": world.spec.replication_factor, "partitionsToGo": left, "partitionsAtFirst": first,
        "moving": view.moving, "since": since, "bytesToMove": _bytes_to_move(world, view.factor),
    }  # fmt: skip
    eta_s = seconds_left(left=left, first=first, since=since, now_ms=world.now_ms)
    return found if eta_s is None else found | {"secondsLeft": eta_s}
