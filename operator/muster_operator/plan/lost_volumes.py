"""Whose volume is lost, and how that is known. Pure, and judged anew in each pass from what is there now.

A replica is never lost while it answers from the recorded data folder, or while its pod is Ready. Else it is lost when

* NEW_CLAIM: the ordinal's claim is another one than recorded, and it is on another volume, or its replica runs there on
  another folder;
* NO_CLAIM: the API server has no claim of the ordinal's name;
* VOLUME_GONE: the recorded claim's PersistentVolume does not exist, or the claim says Lost and another volume has its
  name by now, or it may not be asked for;
* NODE_GONE: the volume can be used only on nodes with certain host names, and no node has one of them;
* EMPTIED: the replica says that it runs on another folder, though the claim is the recorded one;
* ASKED: a person's annotation names the recorded folder, and its node is not Ready, or nothing can be read of it. Where
  claim, volume and node are fine, an annotation that was forgotten would cost the next pod that restarts its data.

EMPTIED proves nothing by itself: the wrong disk may be mounted. A claim on the recorded volume (by name) is not judged
before its replica answers: somebody may have bound it to the old data. A node that is not Ready, a right that is
missing and an error are no evidence (`Unclear`), and nor is a record that is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster_operator.api.conditions import Reason
from muster_operator.plan.volume_records import VolumeRecord, anew, seats, stored_records
from muster_operator.resources.coordinator_statefulset import claim_name
from muster_operator.world.cluster import ClusterWorld, ReplicaView
from muster_operator.world.views import PodView, StatefulSetView, Unknown
from muster_operator.world.volumes import ClaimView, StorageView, VolumeView


class Evidence(StrEnum):
    NEW_CLAIM = "new claim"
    NO_CLAIM = "no claim"
    VOLUME_GONE = "volume gone"
    NODE_GONE = "node gone"
    ASKED = "asked"
    EMPTIED = "emptied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    ordinal: int
    record: VolumeRecord
    evidence: Evidence
    why: str
    """A sentence that begins with the pod's name."""
    asked: bool
    """A person's annotation names the folder, whatever the evidence."""
    confirmed: bool
    """The controller's leader says that the recorded folder is bound, or that its place waits for another one."""
    node_away: bool
    """The only nodes of its volume are gone, or known not to be Ready: a pod there does not end by itself."""

    @property
    def pod(self) -> str:
        return self.record.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """It may be lost, and that could not be told."""

    reason: Reason
    why: str
    folder: str = ""
    """The data folder that a person may declare gone; "": that would not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    lost: tuple[Lost, ...]
    """By ordinal."""
    unclear: tuple[Unclear, ...]
    anew: tuple[str, ...]
    """Pods that belong to a cluster which empty folders have formed anew."""
    vacant: frozenset[str] = frozenset()
    """Pods whose place waits for a new data folder: the last one was declared gone, by the operator or a person."""

    def out(self) -> frozenset[str]:
        """Pods that have no vote, and get none by waiting."""
        return frozenset(one.pod for one in self.lost if one.confirmed) | self.vacant

    def may_run(self) -> frozenset[str]:
        """Of these, pods that start all the same, with another volume or an empty one."""
        starting = (Evidence.NEW_CLAIM, Evidence.EMPTIED)
        return frozenset(one.pod for one in self.lost if one.confirmed and one.evidence in starting)


def judge(world: ClusterWorld) -> Judgement:
    statefulset = world.statefulset
    if not isinstance(statefulset, StatefulSetView):
        return Judgement(lost=(), unclear=(), anew=())
    records = _with_asked(world, statefulset)
    pods = {pod.name: pod for pod in statefulset.pods}
    lost: list[Lost] = []
    unclear: list[Unclear] = []
    for ordinal in statefulset.ordinals(statefulset.replicas):
        name = f"{statefulset.name}-{ordinal}"
        record = records.get(name)
        if record is None or _lives(record, pods.get(name), world.replicas.get(name)):
            continue
        found = _judge_one(world, ordinal, record)
        if isinstance(found, Lost):
            lost.append(found)
        elif found is not None:
            unclear.append(found)
    waiting = (f"{statefulset.name}-{broker}" for broker, seat in (seats(world) or {}).items() if seat.folder is None)
    vacant = frozenset(name for name in waiting if name not in pods or not pods[name].ready)
    return Judgement(lost=tuple(lost), unclear=tuple(unclear), anew=anew(world), vacant=vacant)


def unusable(world: ClusterWorld, lost: Lost) -> Evidence | None:
    """VOLUME_GONE or NODE_GONE of the claim that the ordinal has now, which need not be the recorded one."""
    storage = world.storage.get(lost.pod)
    if storage is None or not isinstance(storage.claim, ClaimView):
        return None
    found = _by_volume(lost.record, storage.claim, storage)
    return found[0] if isinstance(found, tuple) else None


def _with_asked(world: ClusterWorld, statefulset: StatefulSetView) -> Mapping[str, VolumeRecord]:
    """The records, and one for each replica whose bound folder a person names though it was not recorded: it was lost
    before it was seen on a claim. Which claim that was is not known."""
    found = stored_records(world.owner.status)
    for ordinal, seat in (seats(world) or {}).items():
        name = f"{statefulset.name}-{ordinal}"
        if seat.folder is None or seat.folder != world.owner.replace_folder:
            continue
        if name not in found or found[name].folder != seat.folder:
            found[name] = VolumeRecord(
                name=name, pod_uid="", claim_uid="", volume=None, folder=seat.folder, binding=seat.binding
            )
    return found


def _lives(record: VolumeRecord, pod: PodView | None, view: ReplicaView | Unknown | None) -> bool:
    if isinstance(view, ReplicaView):
        return view.folder in (None, record.folder) or view.ready
    return pod is not None and pod.ready


def _judge_one(world: ClusterWorld, ordinal: int, record: VolumeRecord) -> Lost | Unclear | None:
    view, storage = world.replicas.get(record.name), world.storage.get(record.name)
    seat = (seats(world) or {}).get(ordinal)
    if isinstance(view, ReplicaView) and seat is not None and seat.folder == view.folder:
        return None  # its place is taken: it is recorded as soon as its claim was read
    if seat is not None and seat.folder not in (None, record.folder):
        why = f"data folder {seat.folder} is bound to {record.name}, which was seen on no claim: it may be lost"
        return Unclear(reason=Reason.NOT_OBSERVED, why=why, folder=seat.folder or "")
    found = _by_claim(world, ordinal, record, storage, answers=isinstance(view, ReplicaView))
    asked = world.owner.replace_folder == record.folder

    def lost(evidence: Evidence, why: str) -> Lost:
        away = evidence is Evidence.NODE_GONE or (isinstance(found, Unclear) and found.reason == Reason.NODE_NOT_READY)
        return Lost(
            ordinal=ordinal, record=record, evidence=evidence, why=f"{record.name} {why}", asked=asked,
            confirmed=seat is not None, node_away=away,
        )  # fmt: skip

    if isinstance(found, tuple):
        return lost(*found)
    if isinstance(view, ReplicaView) and isinstance(storage, StorageView) and isinstance(storage.claim, ClaimView):
        return lost(
            Evidence.EMPTIED,
            f"was emptied: it runs on data folder {view.folder} instead of {record.folder}, and its claim is the same",
        )
    if asked and (isinstance(found, Unclear) or record.claim_uid == ""):
        return lost(Evidence.ASKED, f"is declared lost with data folder {record.folder} by annotation")
    return found


def _by_claim(
    world: ClusterWorld, ordinal: int, record: VolumeRecord, storage: StorageView | None, *, answers: bool
) -> tuple[Evidence, str] | Unclear | None:
    """`answers`: its replica does, and runs on another folder than the recorded one."""
    if storage is None:
        return None
    claim, name = storage.claim, claim_name(world.owner, ordinal)
    if isinstance(claim, Unknown):
        return _unclear(record, f"{name} could not be read: {claim.message}")
    if record.claim_uid == "":
        return None
    if claim is None:
        return Evidence.NO_CLAIM, f"has lost its volume: there is no claim {name}"
    if claim.uid != record.claim_uid:
        if answers or record.volume is None or claim.volume != record.volume:
            return Evidence.NEW_CLAIM, f"has lost its volume: {name} is a new claim"
        return _unclear(record, f"{name} is a new claim on the old volume: {record.name} will say what is on it")
    return _by_volume(record, claim, storage)


def _by_volume(record: VolumeRecord, claim: ClaimView, storage: StorageView) -> tuple[Evidence, str] | Unclear | None:
    """Of a claim that is there."""
    volume, says_lost = storage.volume, claim.phase == "Lost"
    if not storage.volume_read:
        return None
    if volume is None or (isinstance(volume, Unknown) and says_lost):
        return Evidence.VOLUME_GONE, f"has lost its volume: {claim.volume} of claim {claim.name} does not exist"
    if isinstance(volume, Unknown):
        why = f"whether {record.name} still has volume {claim.volume} is not known: {volume.message}"
        return _unclear(record, why)
    if says_lost and volume.claim_uid != claim.uid:
        return Evidence.VOLUME_GONE, f"has lost its volume: {volume.name} is not that of claim {claim.name} any more"
    if says_lost:
        why = f"claim {claim.name} of {record.name} is Lost, though volume {volume.name} is bound to it"
        return _unclear(record, why)
    return _by_nodes(record, volume)


def _by_nodes(record: VolumeRecord, volume: VolumeView) -> tuple[Evidence, str] | Unclear | None:
    nodes = volume.nodes
    if nodes is None:
        return None
    if isinstance(nodes, Unknown):
        why = f"whether the node of {record.name}'s volume {volume.name} exists is not known: {nodes.message}"
        return _unclear(record, why)
    if not nodes:
        return Evidence.NODE_GONE, f"has lost its volume: {volume.name} was on a node that does not exist any more"
    if not any(node.ready for node in nodes):
        names = ", ".join(node.name for node in nodes)
        why = f"the volume of {record.name} is on {names}, which is not Ready"
        return _unclear(record, why, Reason.NODE_NOT_READY)
    return None


def _unclear(record: VolumeRecord, why: str, reason: Reason = Reason.NOT_OBSERVED) -> Unclear:
    return Unclear(reason=reason, why=why, folder=record.folder if reason == Reason.NODE_NOT_READY else "")
