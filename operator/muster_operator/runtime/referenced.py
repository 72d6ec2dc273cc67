"""The workloads in `workloadRef` of ConsumerGroups, and their pods, read from the API server.

They carry none of our labels, and a watch on every pod of the cluster would cost more than everything else. So they are
read in a pass: the workload each time (one request), its pods only if they may have changed: the workload changed (its
controller counts pods in its status), a pod was not Ready, pods are about to leave, or the last list is a minute old. A
group with a stable workload costs one small read per pass.

A workload that is missing, belongs to the operator's own objects, has no usable selector or may not be read is reported
as such, and the rest of the group is observed all the same. An API server that does not answer ends the pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from muster_operator.api.conditions import Reason
from muster_operator.api.group import GroupSpec
from muster_operator.api.workload import STATEFULSET, WorkloadRef
from muster_operator.errors import Refused
from muster_operator.kube.kinds import POD
from muster_operator.kube.workloads import (
    made_by,
    pods_of,
    referenced_view,
    replicas_of,
    selector_of,
    view_of_statefulset,
)
from muster_operator.limits import REFERENCED_PODS_AGE_MAX_MS
from muster_operator.ports import Clock, Kube
from muster_operator.runtime.keys import OwnerKey
from muster_operator.world.views import OwnerView, PodView, ReferencedView, StatefulSetView, Unknown, Unusable

Object = Mapping[str, Any]


class Seen(NamedTuple):
    referenced: ReferencedView | Unusable | None
    statefulset: StatefulSetView | Unknown | None
    """The same workload if it is a StatefulSet. Unknown: it could not be read."""


NOTHING = Seen(None, None)


@dataclass(frozen=True, slots=True)
class _Listed:
    uid: str
    version: str
    at_ms: int
    pods: tuple[PodView, ...]

    def settled(self, replicas: int) -> bool:
        return len(self.pods) == replicas and all(pod.ready and not pod.terminating for pod in self.pods)


class Referenced:
    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube, self._clock = kube, clock
        self._listed: dict[OwnerKey, _Listed] = {}

    async def look(self, key: OwnerKey, owner: OwnerView, spec: GroupSpec) -> Seen:
        """The workload of `spec.workloadRef`. Raises Transient."""
        ref = spec.workload_ref
        if ref is None:
            self.forget(key)
            return NOTHING
        try:
            return await self._look(key, owner, spec, ref)
        except Refused as error:
            message = f"{ref.title} or its pods may not be read: {error.message}"
            unknown = Unknown(reason=Reason.WORKLOAD_REFUSED, message=message)
            return Seen(Unusable(reason=Reason.WORKLOAD_REFUSED, message=message), unknown)

    def forget(self, key: OwnerKey) -> None:
        self._listed.pop(key, None)

    async def _look(self, key: OwnerKey, owner: OwnerView, spec: GroupSpec, ref: WorkloadRef) -> Seen:
        found = await self._kube.get(api_version=ref.api_version, kind=ref.kind, namespace=key.namespace, name=ref.name)
        if found is None:
            self.forget(key)
            return _none(Reason.WORKLOAD_NOT_FOUND, f"there is no {ref.title} in {key.namespace}")
        live = {**found, "apiVersion": ref.api_version, "kind": ref.kind}
        maker = made_by(live)
        if maker is not None:
            self.forget(key)
            whose = f"{maker[0]} {maker[1]}"
            if maker[2] == owner.uid:
                whose = "this object, which has no `template` any more"
            return _none(
                Reason.WORKLOAD_TAKEN, f"{ref.title} was made by the operator for {whose}: it is not referred to"
            )
        selector = selector_of(live)
        if selector is None:
            self.forget(key)
            return _none(Reason.WORKLOAD_WITHOUT_SELECTOR, f"{ref.title} has no label selector: its pods are not known")
        leaving = bool(owner.status.get("departing")) or spec.replicas not in (None, replicas_of(live))
        pods = await self._pods(key, live, selector, leaving=leaving)
        statefulset = view_of_statefulset(live, pods) if ref.kind == STATEFULSET else None
        return Seen(referenced_view(live, pods, selector=selector), statefulset)

    async def _pods(self, key: OwnerKey, live: Object, selector: str, *, leaving: bool) -> tuple[PodView, ...]:
        now, known = self._clock.monotonic_ms(), self._listed.get(key)
        uid, version = str(live["metadata"]["uid"]), str(live["metadata"].get("resourceVersion"))
        if (
            known is not None
            and (known.uid, known.version) == (uid, version)
            and known.settled(replicas_of(live))
            and not leaving
            and now - known.at_ms < REFERENCED_PODS_AGE_MAX_MS
        ):
            return known.pods
        found = await self._kube.list(
            api_version=POD.api_version, kind=POD.kind, namespace=key.namespace, selector=selector
        )
        pods = pods_of(live, found)
        self._listed[key] = _Listed(uid, version, now, pods)
        return pods


def _none(reason: Reason, message: str) -> Seen:
    return Seen(Unusable(reason=reason, message=message), None)
