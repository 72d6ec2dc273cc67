"""Every host that clients and peers of a cluster are told: what a certificate of it must cover.

Pods are covered by one name with a `*`, so that a coordinator that is added needs no other certificate. Of external
listeners there are ten pods at most, so each of their names is listed. Addresses of nodes are those of the nodes that
pods are on: `tls.alternativeNames` has others in advance.
"""

import ipaddress
from collections.abc import Iterable
from typing import NamedTuple

from muster_operator.api.cluster import NODE_PORT_STRIDE, ClusterSpec, Listener
from muster_operator.naming import bootstrap_service, peers_service, pod_name, service_host
from muster_operator.world.views import OwnerView

DEFAULT_DOMAIN = "cluster.local"


class Names(NamedTuple):
    hosts: tuple[str, ...]
    addresses: tuple[str, ...]

    @property
    def all(self) -> frozenset[str]:
        return frozenset((*self.hosts, *self.addresses))


def names_of(
    owner: OwnerView, spec: ClusterSpec, listeners: Iterable[Listener], node_addresses: Iterable[str]
) -> Names:
    """For these listeners, and for peers. `node_addresses`: of the nodes with pods."""
    bootstrap, peers = bootstrap_service(owner.name), peers_service(owner.name)
    domain = spec.cluster_domain or DEFAULT_DOMAIN
    found = [bootstrap, f"{bootstrap}.{owner.namespace}"]
    for end in (None, domain):
        found.append(service_host(service=bootstrap, namespace=owner.namespace, domain=end))
        found.append("*." + service_host(service=peers, namespace=owner.namespace, domain=end))
    for listener in listeners:
        if listener.type == "nodePort":
            found += _external(owner, listener, node_addresses)
        if listener.tls is not None:
            found += listener.tls.alternative_names or ()
    unique = dict.fromkeys(_plain(name) for name in found)
    addresses = tuple(sorted(name for name in unique if _is_address(name)))
    return Names(tuple(name for name in unique if not _is_address(name)), addresses)


def _external(owner: OwnerView, listener: Listener, node_addresses: Iterable[str]) -> list[str]:
    host = listener.advertised_host or "$(NODE_IP)"
    hosts = [host.replace("$(NODE_IP)", one) for one in node_addresses] if "$(NODE_IP)" in host else [host]
    found = []
    for one in hosts:
        for ordinal in range(NODE_PORT_STRIDE):
            named = one.replace("$(POD_NAME)", pod_name(owner.name, ordinal)).replace("$(ORDINAL)", str(ordinal))
            found.append(named)
    return found


def _plain(name: str) -> str:
    """As certificates have it: without the brackets of an IPv6 address, which has one spelling."""
    bare = name.removeprefix("[").removesuffix("]")
    return str(ipaddress.ip_address(bare)) if _is_address(bare) else bare.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
