"""All objects of one ConsumerGroup, in the order in which they are applied. The entry point for planning."""

from muster_operator.api.group import GroupSpec
from muster_operator.resources import consumer_pod, consumer_statefulset, disruption_budget, services
from muster_operator.resources.owned import Manifest
from muster_operator.world.views import OwnerView


def children(owner: OwnerView, spec: GroupSpec, *, bootstrap: str) -> tuple[Manifest, ...]:
    """`()` if the object only observes. `bootstrap`: the host:port,... that the pods get."""
    if spec.template is None:
        return ()
    template = consumer_pod.template(owner, spec, spec.template, bootstrap=bootstrap)
    return (
        services.members(owner),
        disruption_budget.consumers(owner, spec.rollout.max_unavailable),
        consumer_statefulset.statefulset(owner, spec, template=template),
    )
