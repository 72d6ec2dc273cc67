"""Two ConsumerGroups that run consumers in one Kafka group: the older one keeps its rights, the younger one gets a
condition.

Problem: group ids belong to a Kafka cluster, not to a namespace, so two objects may name the same group, on purpose or
not. Each would take the other's members for unwanted ones and remove them when it scales. Mechanism: the object that
was created first wins; an object that only observes (no `template`, no `workloadRef`) conflicts with none.

Two Topics, or two Users, of one name in one cluster conflict as well: only the older one is obeyed.

Two objects that refer to one workload (`workloadRef`) conflict too, whatever their groups: the older one scales it.

Clusters are compared by the specs alone: a CoordinatorCluster is recognised under any of its names in the Kubernetes
DNS, other addresses are equal if they are spelled equally. Two names of one Apache Kafka cluster without a common
address are not recognised, nor is an object that this operator does not watch.
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
    """`namespace/name` of the oldest other ConsumerGroup that runs consumers in the group of `own` and was created
    before it.

    `others`: ConsumerGroups with the group id of `own`; may include `own`.
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
    """`namespace/name` of the oldest other ConsumerGroup that refers to the workload of `own` and was created before
    it.

    `others`: ConsumerGroups that refer to that workload; may include `own`.
    """
    born = _born(own)
    older = sorted((_born(one), one["metadata"]["namespace"], one["metadata"]["name"]) for one in others)
    return f"{older[0][1]}/{older[0][2]}" if older and older[0][0] < born else None


def namesake_elder_of(own: Object, others: Iterable[Object]) -> str | None:
    """`namespace/name` of the oldest other Topic or User for the same topic or user of the same cluster that was
    created before `own`.

    `others`: objects of the kind of `own` with its topic or user name; may include `own`.
    """
    mine, born = clusters_of(own), _born(own)
    older = sorted(
        (_born(one), one["metadata"]["namespace"], one["metadata"]["name"])
        for one in others
        if _born(one) < born and clusters_of(one) & mine
    )
    return f"{older[0][1]}/{older[0][2]}" if older else None


def clusters_of(group: Object) -> frozenset[str]:
    """Keys of the cluster of `group`: a name for a CoordinatorCluster, addresses for other clusters."""
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
    """Kubernetes writes times in UTC to the second, so their texts sort by time. Within one second the uid decides,
    which is arbitrary and the same in every comparison."""
    metadata = group["metadata"]
    return str(metadata.get("creationTimestamp") or ""), str(metadata.get("uid"))
