"""Why the wanted image must not reach the pods, by the first reason that there is.

Problem: a coordinator that finds a setting it does not know ends at once, and one that ignored it would do something
else than what the object asks for. Mechanism: before pods are touched, the image's release is held against what it
would have to read (`downgrade`), against whom it would have to link to (`peer_security`), and against fields of the
spec that came with a later release, which is here. The first pods of a cluster are not made either then.

An unknown release is taken for the operator's own, as everywhere: its coordinators decide, and the roll-out halts at
the first that does not start.
"""

from typing import NamedTuple

from muster_operator.api.conditions import Reason
from muster_operator.api.releases import UPSTREAM_SINCE
from muster_operator.plan.downgrade import refusal
from muster_operator.plan.peer_security import closed_refusal
from muster_operator.plan.release import wanted_release
from muster_operator.plan.settings import PlanSettings
from muster_operator.world.cluster import ClusterWorld


class Refused(NamedTuple):
    """An image."""

    reason: Reason
    message: str


def refused_image(world: ClusterWorld, settings: PlanSettings) -> Refused | None:
    """None: the wanted image may reach the pods."""
    why = refusal(world, settings) or closed_refusal(world, settings)
    if why is not None:
        return Refused(Reason.DOWNGRADE_REFUSED, why)
    release = wanted_release(world, settings).release
    asked = world.spec.topics is not None and world.spec.topics.kafka is not None
    if not asked or release is None or release >= UPSTREAM_SINCE:
        return None
    return Refused(
        Reason.RELEASE_TOO_OLD,
        f"image {world.spec.image or settings.operator_image} is release {release}, which does not know `topics.kafka`:"
        f" that came with {UPSTREAM_SINCE}; no pod is made or changed until the image is another one",
    )
