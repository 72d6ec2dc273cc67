"""Two ConsumerGroups that run consumers in one Kafka group: the older one keeps its rights, the younger one is told.

Group ids belong to a Kafka cluster, not to a namespace, so two objects may name the same group, knowingly or not. Each
would take the other's members for strays and remove them when it scales. Who was made first decides; what only
observes (no `template`, no `workloadRef`) is nobody's rival.

Two that refer to one workload (`workloadRef`) are rivals too, whatever their groups: the older one scales it.

Clusters are compared by what the specs say, without asking anybody: a CoordinatorCluster under any of its names in the
cluster's DNS is one, other addresses are equal when they are spelled equally. Two names of one Apache Kafka cluster
that have no address in common are not recognised, nor is an object that this operator does not watch.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from muster_operator import naming

Object = Mapping[str, Any]
_SERVICES = "|".join(re.escape(service("")) for service in (naming.bootstrap_service, naming.peers_service))
_SERVICE = re.compile(rf"(?:[^.]+\.)?(?P<cluster>[^.]+)(?:{_SERVICES})\.(?P<namespace>[^.]+)(?:\.svc(?:\..+)?)?")
"""`main-bootstrap.shop.svc`, `main-0.main-peers.shop.svc.cluster.local`, `main-bootstrap.shop`."""


def elder_of(own: Object, others: Iterable[Object]) -> str | None:
    """`namespace/name` of the oldest other ConsumerGroup that runs consumers in the group of `own` and was made before.

    `others`: ConsumerGroups with the group id of `own`, itself perhaps among them.
    """
    if not _runs_consumers(own):
        return None
    mine, born = clusters_of(own), _born(own)
    older = sorted(
        (_born(one), one["metadata"]["namespace"], one["metadata"]["name"])
        for one in others
        if _runs_consumers(one) and _born(one) < born and clusters_of(one) & mine
    )
    return f"{older[0][1]}/{older[0][2]}" if older else None


def workload_elder_of(own: Object, others: Iterable[Object]) -> str | None:
    """`namespace/name` of the oldest other ConsumerGroup that refers to the workload of `own` and was made before.

    `others`: ConsumerGroups that refer to that workload, `own` perhaps among them.
    """
    born = _born(own)
    older = sorted((_born(one), one["metadata"]["namespace"], one["metadata"]["name"]) for one in others)
    return f"{older[0][1]}/{older[0][2]}" if older and older[0][0] < born else None


def clusters_of(group: Object) -> frozenset[str]:
    """What stands for the cluster of `group`: a name for ours, addresses for others."""
    spec, namespace = group.get("spec") or {}, group["metadata"]["namespace"]
    reference = (spec.get("clusterRef") or {}).get("name")
    if reference:
        return frozenset({_ours(str(reference), namespace)})
    given = str(spec.get("bootstrapServers") or "").split(",")
    return frozenset(_of_address(one.strip().lower()) for one in given if one.strip())


def _of_address(address: str) -> str:
    found = _SERVICE.fullmatch(address.rpartition(":")[0].rstrip("."))
    return _ours(found["cluster"], found["namespace"]) if found else address


def _ours(name: str, namespace: str) -> str:
    return f"CoordinatorCluster {namespace}/{name}"


def _runs_consumers(group: Object) -> bool:
    spec = group.get("spec") or {}
    return spec.get("template") is not None or spec.get("workloadRef") is not None


def _born(group: Object) -> tuple[str, str]:
    """Kubernetes writes times in UTC to the second, so their texts are in order. Two of one second are ordered by uid,
    which is arbitrary and the same for everybody who compares."""
    metadata = group["metadata"]
    return str(metadata.get("creationTimestamp") or ""), str(metadata.get("uid"))
