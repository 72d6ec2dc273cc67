"""Which release of the coordinator a plan is for. What an image says of itself is `api.releases`.

Problem: an image by digest, or with a tag of its owner's, does not say which release it holds and is taken for the
operator's own. An upgrade of the operator would then write keys that such an image has never heard of, and its pods
would not start again, though nobody touched their cluster. Mechanism: the StatefulSet remembers which release it was
made for, in an annotation that is written together with the image. As long as that image stays, so does the release. A
StatefulSet that an earlier operator made remembers nothing and is judged by what its coordinators say of themselves.
Until one of them has said it, nothing of them is changed (`unheard`): on a busy node the first questions may have no
answer.

Deliberately absent: a guess about another image. It is taken for the operator's own release as before, and the roll-out
halts at the first pod that does not start.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from muster_operator.api.releases import Release, parse_release, release_of
from muster_operator.naming import MADE_FOR_ANNOTATION
from muster_operator.plan.settings import PlanSettings
from muster_operator.world.cluster import ClusterWorld, ReplicaView
from muster_operator.world.views import StatefulSetView, Unknown


class WantedRelease(NamedTuple):
    """Of the wanted image."""

    release: Release | None
    """None: unknown, and nothing says that it is less than the operator's own."""
    is_said: bool
    """By the object or the image. Else it is what the pods were made for: it forbids what that release does not know,
    and begins nothing."""


def wanted_release(world: ClusterWorld, settings: PlanSettings) -> WantedRelease:
    wanted = world.spec.image or settings.operator_image
    said = release_of(
        wanted, told=world.spec.version, operator_image=settings.operator_image,
        operator_release=settings.operator_release,
    )  # fmt: skip
    if said is not None or live_image(world) != wanted:
        return WantedRelease(said, said is not None)
    remembered = _remembered(world)
    found = parse_release(remembered) if remembered is not None else _running(world)
    own = parse_release(settings.operator_release)
    return WantedRelease(found if found is not None and own is not None and found < own else None, is_said=False)


def unheard(world: ClusterWorld, settings: PlanSettings) -> str | None:
    """Why nothing of the coordinators may be changed yet: which release they run is neither said nor remembered, and
    none of them has told it. None: it may."""
    statefulset = world.statefulset
    if not isinstance(statefulset, StatefulSetView) or not (statefulset.replicas or statefulset.pods):
        return None
    if world.spec.image in (None, settings.operator_image) or live_image(world) != world.spec.image:
        return None
    if wanted_release(world, settings).is_said or parse_release(settings.operator_release) is None:
        return None
    if _remembered(world) is not None or _running(world) is not None:
        return None
    return (
        "which release its image holds is not known: no coordinator has said it yet, and spec.version does not; "
        "nothing of its pods is changed until then"
    )


def live_image(world: ClusterWorld) -> str | None:
    """Image of the coordinators in the live StatefulSet; None without one."""
    template = ((_live(world).get("spec") or {}).get("template") or {}).get("spec") or {}
    containers = template.get("containers") or ()
    image = containers[0].get("image") if containers else None
    return str(image) if image else None


def _live(world: ClusterWorld) -> Mapping[str, Any]:
    return {} if isinstance(world.children, Unknown) else world.children.get(("StatefulSet", world.owner.name)) or {}


def _remembered(world: ClusterWorld) -> str | None:
    """The release that the live StatefulSet was made for, as text."""
    annotations = (_live(world).get("metadata") or {}).get("annotations") or {}
    remembered = annotations.get(MADE_FOR_ANNOTATION)
    return None if remembered is None else str(remembered)


def _running(world: ClusterWorld) -> Release | None:
    """The lowest release that a coordinator reports now or, where none does, that the status says was the last."""
    told = [view.version for view in world.replicas.values() if isinstance(view, ReplicaView) and view.version]
    texts = told or str(world.owner.status.get("version") or "").split(", ")
    return min((one for one in map(parse_release, texts) if one is not None), default=None)
