"""Members of a group that have left for good are removed from it (`plan.members` has the numbers of coordinators).

A static member that will not come back holds its partitions until its session times out. It has left for
good if all of these hold, and only then is it removed (LeaveGroup by instance id and member id):

 1. its ordinal is wanted neither by `spec.replicas` nor by the current StatefulSet;
 2. the StatefulSet's controller has observed that number, so no pod of that ordinal is being created;
 3. there is no pod object of its name. A terminating pod exists, and on a cut-off node it does so for ever: whether
    its process has stopped is unknown, so the member stays until Kafka's session timeout;
 4. the group still lists the member that was recorded in that pod (`plan.departing`), from the same address.

A force-deleted pod may still run: its member is removed once. Its process learns that from its next heartbeat, and the
member as which it joins again is not recorded, so it stays.

The StatefulSet may be the one in `workloadRef`, which other clients may scale: then its own number is the wanted one.
Pods of a Deployment or Rollout get new names each time, so none of their members is removed.

Unknown never means gone: if the StatefulSet or group could not be observed, no member is removed. The same holds for an
object whose group or workload belongs to an older object (`plan.rivals`): both may have created instances of the same
names.
"""

from dataclasses import dataclass

from muster_operator import naming
from muster_operator.api.conditions import Reason
from muster_operator.plan.departing import stored_records
from muster_operator.plan.pods import observed
from muster_operator.world.group import GroupWorld, Leaver, ObservedGroup
from muster_operator.world.views import StatefulSetView

NAMED_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """The members that leave a group."""

    members: tuple[Leaver, ...]
    """Gone for good and still listed: to be removed now."""
    waiting_for: tuple[str, ...]
    """Pods that are no longer wanted and still exist."""
    decision: Reason
    reason: str

    @property
    def instance_ids(self) -> tuple[str, ...]:
        return tuple(one.instance_id for one in self.members)


def departure(world: GroupWorld) -> Departure:
    """The members that have left for good, by the rule of the module."""
    statefulset, group = world.statefulset, world.group
    nobody = Departure(members=(), waiting_for=(), decision=Reason.CONVERGED, reason="no member leaves")
    wanted = world.wanted
    if not isinstance(statefulset, StatefulSetView) or wanted is None or not world.may_remove:
        return nobody
    staying = statefulset.ordinals(wanted)
    if not observed(statefulset) or statefulset.replicas != wanted:
        return Departure(
            members=(),
            waiting_for=(),
            decision=Reason.STATEFULSET_NOT_OBSERVED,
            reason=f"the StatefulSet has not been seen with {wanted} replicas yet",
        )
    there = {pod.name for pod in statefulset.pods}
    waiting_for = tuple(pod.name for pod in statefulset.pods if pod.ordinal not in staying)
    listed = {member.member_id: member for member in group.members} if isinstance(group, ObservedGroup) else {}
    gone = tuple(
        Leaver(instance_id=record.pod, member_id=record.member_id)
        for record in stored_records(world.owner.status).values()
        if record.member_id is not None
        and (member := listed.get(record.member_id)) is not None
        and record.is_of(member)
        and is_expected_id(statefulset.name, record.pod)
        and naming.ordinal_of(record.pod) not in staying
        and record.pod not in there
    )
    if gone:
        reason = (
            f"the pods of {naming_some([one.instance_id for one in gone])} are gone for good: removed from the group"
        )
        return Departure(members=gone, waiting_for=waiting_for, decision=Reason.REMOVING_MEMBERS, reason=reason)
    if waiting_for:
        reason = f"{naming_some(waiting_for)} still exist; a member is removed when its pod is gone"
        return Departure(members=(), waiting_for=waiting_for, decision=Reason.SCALING, reason=reason)
    return nobody


def is_expected_id(statefulset: str, instance_id: str) -> bool:
    """The instance id is the name of a pod of this StatefulSet, of any ordinal."""
    ordinal = naming.ordinal_of(instance_id)
    return ordinal >= 0 and instance_id == naming.pod_name(statefulset, ordinal)


def naming_some(names: tuple[str, ...] | list[str]) -> str:
    """A few names for a message; the rest is counted."""
    rest = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
