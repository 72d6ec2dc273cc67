"""Which claim each coordinator's data was on when it last took part: `status.volumes`, the operator's only memory of
that.

Problem: a lost volume can be told from a new one only by what was there before, and a data folder can be declared gone
only by its uuid, which nobody can ask for any more when it is lost. Mechanism: while a replica runs on the folder that
is bound to its id (by the controller's leader), its claim's uid is recorded beside that folder. Replica, claim and pod
are read in this order, and the pod must be the one that answered: then the claim existed all the time, because
Kubernetes keeps a claim as long as its pod, so both belong together.

A record of a pod that has not changed needs no further reading: a cluster at rest costs no request.

Of a coordinator that has left (`plan.members`) the claim is read until its record is dropped.

Deliberately absent: any conclusion from a record that is missing (`plan.lost_volumes`). An older release wrote none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from muster_operator.api.cluster import REPLICAS_MAX
from muster_operator.naming import ordinal_of
from muster_operator.plan import quorum
from muster_operator.world.cluster import ClusterWorld, ReplicaView, Seat
from muster_operator.world.views import StatefulSetView, Unknown
from muster_operator.world.volumes import ClaimView

VOLUMES_MAX = REPLICAS_MAX
"""As many as the definition allows."""
UNREADY_LOOK_MS = 10_000
"""Of a pod that has not been Ready for this time, the volume and its nodes are looked at, too: a restart is shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRecord:
    name: str
    """Of the pod."""
    pod_uid: str
    claim_uid: str
    """"": unknown, so it equals no claim's."""
    volume: str | None
    """Name of the PersistentVolume."""
    folder: str
    binding: int

    def status(self) -> dict[str, Any]:
        found = {
            "name": self.name, "uid": self.pod_uid, "claimUid": self.claim_uid, "folder": self.folder,
            "binding": self.binding,
        }  # fmt: skip
        return found if self.volume is None else found | {"volume": self.volume}


class Look(StrEnum):
    """What has to be read about the storage of one ordinal."""

    CLAIM = "claim"
    """The claim, and the pod after it."""
    VOLUME = "volume"
    """The claim, its volume, and the nodes where that can be used."""


def stored_records(status: Mapping[str, Any]) -> dict[str, VolumeRecord]:
    """`status.volumes` by pod. An entry that is not whole is none."""
    found = {}
    for one in status.get("volumes") or ():
        words = [one.get(key) for key in ("name", "uid", "claimUid", "folder")]
        binding, volume = one.get("binding"), one.get("volume")
        if all(isinstance(word, str) and word for word in words) and isinstance(binding, int):
            name, pod_uid, claim_uid, folder = words
            found[name] = VolumeRecord(
                name=name, pod_uid=pod_uid, claim_uid=claim_uid, volume=volume, folder=folder, binding=binding
            )
    return found


def looks(
    statefulset: StatefulSetView | Unknown | None,
    replicas: Mapping[str, ReplicaView | Unknown],
    status: Mapping[str, Any],
    now_ms: int,
) -> dict[str, Look]:
    """By pod name, what has to be read to record or to judge it."""
    if not isinstance(statefulset, StatefulSetView):
        return {}
    records = stored_records(status)
    pods = {pod.name: pod for pod in statefulset.pods}
    found = {name: Look.CLAIM for name in records if name not in pods and ordinal_of(name) >= statefulset.replicas}
    for ordinal in statefulset.ordinals(statefulset.replicas):
        name = f"{statefulset.name}-{ordinal}"
        record, view, pod = records.get(name), replicas.get(name), pods.get(name)
        if isinstance(view, ReplicaView):
            known = None if record is None else (record.folder, record.pod_uid)
            if view.folder is not None and pod is not None and known != (view.folder, pod.uid):
                found[name] = Look.CLAIM
        elif record is not None and (pod is None or not pod.ready):
            since_ms = None if pod is None else pod.unready_since_ms or pod.created_ms
            long = since_ms is None or now_ms - since_ms >= UNREADY_LOOK_MS
            found[name] = Look.VOLUME if long or (pod is not None and pod.terminating) else Look.CLAIM
    return found


def seats(world: ClusterWorld) -> Mapping[int, Seat] | None:
    """Which folder is bound to which id, as the controller's leader has it; None: no leader answered."""
    views = [view for view in world.replicas.values() if isinstance(view, ReplicaView)]
    leader = quorum.controller_leader(views)
    return next((view.seats for view in views if view.broker_id == leader), None)


def records(world: ClusterWorld) -> dict[str, VolumeRecord]:
    """By pod, as they are after this pass. Who is not seen keeps the record that it had."""
    found = stored_records(world.owner.status)
    formed_anew = anew(world)
    told = acknowledged(world, formed_anew)
    for name, one in _seen(world).items():
        if name not in formed_anew or told:
            found[name] = one
    return dict(sorted(found.items())[:VOLUMES_MAX])


def anew(world: ClusterWorld) -> tuple[str, ...]:
    """Pods whose cluster was formed anew by empty folders: another folder is bound to the id than was recorded, and
    nobody has replaced that one. So nobody had the data any more."""
    stored = stored_records(world.owner.status)
    return tuple(
        name
        for name, one in _bound(world).items()
        if name in stored and one[0] != stored[name].folder and one[1] <= stored[name].binding
    )


def acknowledged(world: ClusterWorld, formed_anew: tuple[str, ...]) -> bool:
    """A person says that the data of a cluster that was formed anew is gone."""
    stored = stored_records(world.owner.status)
    return any(stored[name].folder == world.owner.replace_folder for name in formed_anew)


def _bound(world: ClusterWorld) -> dict[str, tuple[str, int]]:
    """By pod: folder and binding of the replicas that run on the folder that is bound to their id."""
    known = seats(world) or {}
    found = {}
    for name, view in world.replicas.items():
        if isinstance(view, ReplicaView) and view.folder is not None:
            seat = known.get(view.broker_id)
            if seat is not None and seat.folder == view.folder:
                found[name] = (view.folder, seat.binding)
    return found


def _seen(world: ClusterWorld) -> dict[str, VolumeRecord]:
    """What this pass has proven: see the module."""
    pods = {pod.name: pod for pod in world.statefulset.pods} if isinstance(world.statefulset, StatefulSetView) else {}
    found = {}
    for name, (folder, binding) in _bound(world).items():
        storage, pod = world.storage.get(name), pods.get(name)
        if storage is None or pod is None or storage.pod_uid != pod.uid or not isinstance(storage.claim, ClaimView):
            continue
        found[name] = VolumeRecord(
            name=name, pod_uid=pod.uid, claim_uid=storage.claim.uid, volume=storage.claim.volume, folder=folder,
            binding=binding,
        )  # fmt: skip
    return found
