"""Refuses an image whose release could not read the cluster's data, before any pod is touched.

Problem: the coordinators finalise a feature level when all of them know it; what they write from then on may be
unreadable to a release that does not (decision 16). A wrong image in the StatefulSet's template does harm even without
a roll-out: a pod that is lost restarts with it. Mechanism: while an image is refused, neither the StatefulSet nor its
settings are changed, and nothing rolls.

An unknown level is not taken as compatible: a level that no coordinator reports counts as the one that the running
release knows. Without a StatefulSet there are no data to protect, so nothing is refused; the coordinator itself checks
at its start, as for unknown releases.
"""

from muster_operator.api.releases import level_of, release_of
from muster_operator.plan.release import live_image, wanted_release
from muster_operator.plan.settings import PlanSettings
from muster_operator.world.cluster import ClusterWorld, ReplicaView


def refusal(world: ClusterWorld, settings: PlanSettings) -> str | None:
    """Why the wanted image must not reach the StatefulSet; None: it may."""
    running = live_image(world)
    wanted = world.spec.image or settings.operator_image
    if running is None or running == wanted:
        return None
    release = wanted_release(world, settings).release
    level = level_of(release) if release is not None else None
    if level is None:
        return None
    final = feature_level(world)
    if final is not None and level < final:
        return (
            f"image {wanted} is release {release}, which knows feature level {level}; the cluster's is {final}, so it"
            " could not read what is written: no pod is changed until the image is another one"
        )
    if final is None and level < (_level_of_image(running, settings) or level):
        return (
            f"image {wanted} is release {release}, which knows feature level {level}, less than the one that runs; no"
            " coordinator says which level is final: no pod is changed until one does, or the image is another one"
        )
    return None


def feature_level(world: ClusterWorld) -> int | None:
    """The cluster's feature level as its coordinators report it now or reported it last. It never falls."""
    told = [one.feature_level for one in world.replicas.values() if isinstance(one, ReplicaView)]
    stored = world.owner.status.get("featureLevel")
    levels = [one for one in (*told, stored) if isinstance(one, int) and not isinstance(one, bool)]
    return max(levels, default=None)


def _level_of_image(image: str, settings: PlanSettings) -> int | None:
    release = release_of(
        image, told=None, operator_image=settings.operator_image, operator_release=settings.operator_release
    )
    return level_of(release) if release is not None else None
