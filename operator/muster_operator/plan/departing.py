"""Which members may be removed from a group: only those seen in pods of this object and recorded while the pods
existed.

Problem: an instance id proves nothing. Consumers in another Kubernetes cluster, or in a StatefulSet of the same name
elsewhere, have the same ids in the same group. Mechanism: a pod that is to leave is recorded in `status.departing`
while it exists: its uid, and the member that the group lists under its name *from the pod's own address*. A member id
is unique and new after every join of a new process; so a process that joins under that name later is not the recorded
one.

The StatefulSet is the operator's own (`template`) or the one in `workloadRef`. If another client scales the latter
down, the operator cannot delay it: its pods are recorded if they still exist, terminating, in the next pass.

1. `spec.replicas` is below the StatefulSet's: the pods beyond it are recorded, and the StatefulSet keeps its number
   (`held`).
2. The API server has stored the records: the StatefulSet gets its number. As long as a pod exists, its record follows
   its member (a container that restarted while terminating has joined anew).
3. The pod is gone: `plan.scaling` removes the recorded member, by instance id and member id.
4. The group does not list the member any more, or a pod of the ordinal is wanted again: the record is dropped.

What could not be observed is not recorded: if the coordinator does not answer until the pods are gone, or members
connect through NAT, the session timeout ends the membership. The same holds for pods that left before there were
records.

A CRD of an older release has no field for the records (CRDs are upgraded separately). Then the status comes back
without them, the scale-down proceeds after one such attempt, and no member is removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster_operator import naming
from muster_operator.api.conditions import GroupCondition, Reason
from muster_operator.api.group_status import DEPARTING_MAX
from muster_operator.plan.addresses import OVER, address, is_at
from muster_operator.plan.conditions import condition
from muster_operator.world.group import GroupWorld, MemberView, ObservedGroup
from muster_operator.world.views import OwnerView, PodView, StatefulSetView, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One leaving pod. `member_id` and `host` are None until its member was seen in it."""

    pod: str
    uid: str
    member_id: str | None = None
    host: str | None = None

    def is_of(self, member: MemberView) -> bool:
        """The member is the one that was seen in the pod."""
        return (
            self.member_id is not None
            and member.member_id == self.member_id
            and member.instance_id == self.pod
            and address(member) == self.host
        )

    def as_status(self) -> dict[str, str]:
        found = {"pod": self.pod, "uid": self.uid, "memberId": self.member_id, "host": self.host}
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Departing:
    records: tuple[Record, ...]
    """The new `status.departing`, by ordinal."""
    held: int | None
    """Replica count that the StatefulSet keeps until the records are stored; None: not held."""


NOBODY = Departing(records=(), held=None)


def departing(world: GroupWorld) -> Departing:
    """The records of this pass, and whether the StatefulSet waits for them."""
    statefulset = world.statefulset
    if not world.spec.runs_consumers or not world.may_remove:
        return NOBODY
    stored = stored_records(world.owner.status)
    if isinstance(statefulset, Unknown):
        return Departing(records=tuple(stored.values()), held=None)
    wanted = world.wanted
    if wanted is None:
        return NOBODY
    pods = statefulset.pods if statefulset is not None else ()
    staying = statefulset.ordinals(wanted) if statefulset is not None else range(wanted)
    leaving = [pod for pod in pods if pod.ordinal not in staying]
    records = [_of_pod(pod, stored.get(pod.name), world.group) for pod in leaving]
    there = {pod.name for pod in pods}
    records += [one for one in stored.values() if one.pod not in there and _still_needed(one, world, staying)]
    records.sort(key=lambda one: naming.ordinal_of(one.pod))
    kept = tuple(records[:DEPARTING_MAX])
    return Departing(records=kept, held=_held(world, statefulset, wanted, kept, stored))


def present(world: GroupWorld, before: Mapping[str, Record]) -> dict[str, Record] | None:
    """The members in the pods of this object now, by pod: the ones to remove if the object is deleted. `before`: the
    last result.

    None: no member may be removed, because there are no pods or instance ids of ours, the object is paused, or the
    group belongs to an older object. Pods that go while the object is being deleted stay in the result, as do those
    whose removal is in progress.
    """
    spec = world.spec
    if spec.template is None or not spec.static_membership or world.elder is not None:
        return None
    if world.owner.paused or spec.paused:
        return None
    if not isinstance(world.statefulset, StatefulSetView):
        return dict(before)
    found = {pod: one for pod, one in stored_records(world.owner.status).items() if one.member_id is not None}
    if world.owner.deleting:
        found |= before
    return found | {pod.name: _of_pod(pod, before.get(pod.name), world.group) for pod in world.statefulset.pods}


def stored_records(status: Mapping[str, Any]) -> dict[str, Record]:
    """`status.departing` as stored by the API server, by pod. Entries without pod or uid are ignored."""
    found = {}
    for one in status.get("departing") or ():
        pod, uid = one.get("pod"), one.get("uid")
        if pod and uid:
            found[str(pod)] = Record(pod=str(pod), uid=str(uid), member_id=one.get("memberId"), host=one.get("host"))
    return found


def _of_pod(pod: PodView, before: Record | None, group: ObservedGroup | Unknown) -> Record:
    member = _member_in(pod, group)
    if member is not None:
        return Record(pod=pod.name, uid=pod.uid, member_id=member.member_id, host=address(member))
    return before if before is not None and before.uid == pod.uid else Record(pod=pod.name, uid=pod.uid)


def _member_in(pod: PodView, group: ObservedGroup | Unknown) -> MemberView | None:
    if isinstance(group, Unknown) or pod.phase in OVER:
        return None
    return next((one for one in group.members if one.instance_id == pod.name and is_at(pod, one)), None)


def _still_needed(record: Record, world: GroupWorld, staying: range) -> bool:
    """The pod is gone, and its member may still be listed."""
    if record.member_id is None or naming.ordinal_of(record.pod) in staying:
        return False
    return isinstance(world.group, Unknown) or any(record.is_of(member) for member in world.group.members)


def _held(
    world: GroupWorld,
    statefulset: StatefulSetView | None,
    wanted: int,
    records: tuple[Record, ...],
    stored: Mapping[str, Record],
) -> int | None:
    if statefulset is None or wanted >= statefulset.replicas:
        return None
    existing = {pod.uid for pod in statefulset.pods}
    lacking = {one.uid for one in records} & existing - {one.uid for one in stored.values()}
    if not lacking or (not stored and _was_tried(world.owner)):
        return None
    return statefulset.replicas


def _was_tried(owner: OwnerView) -> bool:
    """A status of this generation with records was written, and (see the caller) none of them was stored."""
    told = condition(owner.status, GroupCondition.PROGRESSING)
    return told.get("reason") == Reason.RECORDING_PODS and told.get("observedGeneration") == owner.generation
