"""How the coordinators of one cluster know each other, and how they get from one way to another without a stop.

Problem: a pod that asks its peers for a secret and a pod that has none cannot link, so one roll-out cannot close an
open cluster; and the operator, which may be killed at any time, must not have to remember a step. Mechanism: each pod's
template says how it dials, and which other way it accepts too. The wanted template dials as the spec says, and accepts
too what some pod (or the live template) still dials. So every new pod can link to every pod that is there. When all
pods accept the new way, nothing else has to be accepted any more, and the template without it is the second roll-out.

Invariant, held by a property test: whatever changes and whenever a pod is lost, two pods that exist at the same time
link, if their cluster has more than one.

A cluster that was open keeps accepting that until its feature level is one that no release without peer secrets could
read: up to then the image may go back, and its pods dial openly. One whose release nobody tells does not even begin
before.

A new secret (annotation `muster.dev/rotate-peer-secret`) is valid beside the one before for `ROTATION_MS`, in which
every kubelet brings the file up to date; the coordinators read it again, and nothing restarts.
"""

from collections.abc import Mapping
from typing import Any

from muster_operator.api.releases import MEMBERS_LEVEL, knows
from muster_operator.api.security import NONE
from muster_operator.naming import OVERLAP_ANNOTATION, PEER_KEY, ROTATE_PEERS_ANNOTATION, peer_secret
from muster_operator.plan.actions import RotateSecret
from muster_operator.plan.downgrade import feature_level
from muster_operator.plan.pods import observed
from muster_operator.plan.release import wanted_release
from muster_operator.plan.settings import PlanSettings
from muster_operator.resources.owned import is_owned_by
from muster_operator.resources.peer_mode import OPEN, PeerMode, mode_of
from muster_operator.world.cluster import ClusterWorld
from muster_operator.world.views import StatefulSetView, Unknown

KEY = "muster.peer.security"
_DIGITS_MAX = 15


def wanted_mode(world: ClusterWorld, settings: PlanSettings, *, pods: int) -> PeerMode:
    """`pods`: coordinators that have a pod or are to have one."""
    wanted = wanted_release(world, settings)
    target = world.spec.peers.security if knows(wanted.release, KEY) else NONE
    statefulset = world.statefulset
    if not isinstance(statefulset, StatefulSetView):
        return PeerMode(target)
    template = template_mode(world)
    if not observed(statefulset):
        return template  # a pod of the one before may still be made, and would link to this one's
    if max(pods, statefulset.replicas, len(statefulset.pods)) <= 1:
        return PeerMode(target)
    modes = [mode_of(pod.annotations) for pod in statefulset.pods] + [template]
    besides = {mode.dials for mode in modes if target not in mode.accepted}
    level = feature_level(world)
    early = level is None or level < MEMBERS_LEVEL
    if not wanted.is_said and early and template == OPEN:
        return OPEN  # the image may be of a release that does not start with such a key
    if target != NONE and NONE in template.accepted and early:
        besides.add(NONE)
    return PeerMode(target, tuple(sorted(besides)))


def template_mode(world: ClusterWorld) -> PeerMode:
    """Of the live StatefulSet; one of a release before has no annotation."""
    if isinstance(world.children, Unknown):
        return OPEN
    live: Mapping[str, Any] = world.children.get(("StatefulSet", world.owner.name)) or {}
    template = ((live.get("spec") or {}).get("template") or {}).get("metadata") or {}
    return mode_of(template.get("annotations") or {})


def closed_refusal(world: ClusterWorld, settings: PlanSettings) -> str | None:
    """Why an image that knows no peer secrets must not reach the pods: its coordinators would link to nobody."""
    statefulset = world.statefulset
    if not isinstance(statefulset, StatefulSetView) or statefulset.replicas <= 1:
        return None
    release = wanted_release(world, settings).release
    if knows(release, KEY):
        return None
    modes = [template_mode(world), *(mode_of(pod.annotations) for pod in statefulset.pods)]
    if all(NONE in mode.accepted for mode in modes):
        return None
    return (
        f"image {world.spec.image or settings.operator_image} is release {release}, whose coordinators know no peer"
        " secret, and those that run ask for it: set `peers.security` to none first, and the image when that is done"
    )


def rotation(world: ClusterWorld, settings: PlanSettings) -> RotateSecret | None:
    """What is to be done about the peer secret now."""
    secret = _live_secret(world)
    if secret is None:
        return None
    metadata = secret["metadata"]
    annotations = metadata.get("annotations") or {}
    asked, since = world.owner.rotate_peers, _ms(annotations.get(OVERLAP_ANNOTATION))
    if since is None and asked is not None and asked != annotations.get(ROTATE_PEERS_ANNOTATION):
        return _rotate(world, metadata, keep_old=True, asked=asked)
    if since is not None and world.now_ms - since >= settings.rotation_ms:
        return _rotate(world, metadata, keep_old=False)
    return None


def rotation_wait_ms(world: ClusterWorld, settings: PlanSettings) -> int | None:
    """Until the secret before is not valid any more; None: it is not now."""
    secret = _live_secret(world)
    since = _ms(((secret or {}).get("metadata") or {}).get("annotations", {}).get(OVERLAP_ANNOTATION))
    return None if since is None else max(0, since + settings.rotation_ms - world.now_ms)


def _rotate(
    world: ClusterWorld, metadata: Mapping[str, Any], *, keep_old: bool, asked: str | None = None
) -> RotateSecret:
    annotations: dict[str, str | None] = {OVERLAP_ANNOTATION: str(world.now_ms) if keep_old else None}
    if asked is not None:
        annotations[ROTATE_PEERS_ANNOTATION] = asked
    return RotateSecret(
        name=metadata["name"], uid=metadata["uid"], version=str(metadata.get("resourceVersion") or ""), key=PEER_KEY,
        keep_old=keep_old, annotations=annotations,
    )  # fmt: skip


def _live_secret(world: ClusterWorld) -> Mapping[str, Any] | None:
    if isinstance(world.children, Unknown):
        return None
    found = world.children.get(("Secret", peer_secret(world.owner.name)))
    return found if found is not None and is_owned_by(found, world.owner) else None


def _ms(text: object) -> int | None:
    """Anybody who may write Secrets may write annotations; 0, long ago, for what is no number."""
    if text is None:
        return None
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) <= _DIGITS_MAX else 0
