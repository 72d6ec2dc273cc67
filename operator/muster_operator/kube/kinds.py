"""The kinds that the operator reads or writes, and their paths in the API. A table instead of discovery: no additional
requests or rights.

`watched` kinds are kept in the cache; Secrets are not among them (RBAC: get, create, patch only), nor are Nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from muster_operator import naming


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    api_version: str
    kind: str
    plural: str

    @property
    def group(self) -> str:
        """ "" for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    def path(self, *, namespace: str, name: str = "", subresource: str = "") -> str:
        """The URL path. Without `namespace`: all namespaces; without `name`: the collection."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        parts = [root]
        if namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


CLUSTER: Final = Kind(api_version=naming.API_VERSION, kind="CoordinatorCluster", plural="coordinatorclusters")
GROUP: Final = Kind(api_version=naming.API_VERSION, kind="ConsumerGroup", plural="consumergroups")
TOPIC: Final = Kind(api_version=naming.API_VERSION, kind="Topic", plural="topics")
USER: Final = Kind(api_version=naming.API_VERSION, kind="User", plural="users")
STATEFULSET: Final = Kind(api_version="apps/v1", kind="StatefulSet", plural="statefulsets")
POD: Final = Kind(api_version="v1", kind="Pod", plural="pods")
SERVICE: Final = Kind(api_version="v1", kind="Service", plural="services")
CONFIG_MAP: Final = Kind(api_version="v1", kind="ConfigMap", plural="configmaps")
SERVICE_ACCOUNT: Final = Kind(api_version="v1", kind="ServiceAccount", plural="serviceaccounts")
SECRET: Final = Kind(api_version="v1", kind="Secret", plural="secrets")
BUDGET: Final = Kind(api_version="policy/v1", kind="PodDisruptionBudget", plural="poddisruptionbudgets")
NETWORK_POLICY: Final = Kind(api_version="networking.k8s.io/v1", kind="NetworkPolicy", plural="networkpolicies")
CLAIM: Final = Kind(api_version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims")
VOLUME: Final = Kind(api_version="v1", kind="PersistentVolume", plural="persistentvolumes")
NODE: Final = Kind(api_version="v1", kind="Node", plural="nodes")
"""PersistentVolumes and Nodes belong to no namespace: they are read where a coordinator's volume may be lost, if the
role allows it, and never watched."""
LEASE: Final = Kind(api_version="coordination.k8s.io/v1", kind="Lease", plural="leases")
DEPLOYMENT: Final = Kind(api_version="apps/v1", kind="Deployment", plural="deployments")
ROLLOUT: Final = Kind(api_version="argoproj.io/v1alpha1", kind="Rollout", plural="rollouts")
"""The kind of Argo Rollouts. Rollouts and Deployments are read and patched if a `workloadRef` names one, and never
watched."""
CERTIFICATE: Final = Kind(api_version="cert-manager.io/v1", kind="Certificate", plural="certificates")
"""The kind of cert-manager: read and applied if a listener's `tls.issuerRef` names an issuer, and never watched."""
EVENT: Final = Kind(api_version="events.k8s.io/v1", kind="Event", plural="events")

OWNERS: Final = (CLUSTER, GROUP, TOPIC, USER)
LATER: Final = frozenset({TOPIC, USER})
"""Of `OWNERS`, those that the definitions of earlier releases do not have: an operator is ready without them."""
CHILDREN: Final = (STATEFULSET, SERVICE, CONFIG_MAP, SERVICE_ACCOUNT, BUDGET, NETWORK_POLICY)
"""Watched kinds that a CoordinatorCluster or ConsumerGroup owns, selected by our managed-by label."""
WATCHED: Final = (*OWNERS, *CHILDREN, POD)

OWNED_SELECTOR: Final[Mapping[str, str]] = {naming.MANAGED_BY_LABEL: naming.FIELD_MANAGER}
POD_SELECTOR: Final[Mapping[str, str]] = {naming.NAME_LABEL: "muster"}
"""Pods carry the immutable selector labels; their template may not carry more."""

_BY_NAME: Final = {
    (one.api_version, one.kind): one
    for one in (*WATCHED, SECRET, CLAIM, VOLUME, NODE, LEASE, EVENT, DEPLOYMENT, ROLLOUT, CERTIFICATE)
}  # fmt: skip


def kind_of(api_version: str, kind: str) -> Kind:
    """The kind. Raises KeyError for one that the operator does not know, which is a bug of the caller."""
    return _BY_NAME[api_version, kind]


def selector_for(kind: Kind) -> Mapping[str, str]:
    """The labels by which `kind` is watched and listed; {} for our own kinds."""
    if kind in OWNERS:
        return {}
    return POD_SELECTOR if kind is POD else OWNED_SELECTOR


def selector_text(labels: Mapping[str, str]) -> str:
    """`a=b,c=d`, the form of the API's labelSelector."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
