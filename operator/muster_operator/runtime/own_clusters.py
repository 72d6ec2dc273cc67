"""Finds how a cluster of ours, or any other, is reached for one object: addresses and login of the operator's own look,
and what the object's clients get.

Nothing is asked but Secrets, by `Logins`; specs of clusters are those in the cache, parsed once for each version.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster_operator.api.client_access import Access
from muster_operator.api.cluster import ClusterSpec, Listener, parse_cluster
from muster_operator.api.errors import InvalidObject
from muster_operator.kube.kinds import CLUSTER
from muster_operator.limits import OWN_CLUSTERS_MAX
from muster_operator.resources.own_access import clients_listener, filled, operators_access, trusted, users_listener
from muster_operator.runtime.cache import Cache
from muster_operator.runtime.logins import Logins
from muster_operator.world.login import Login, Where, where
from muster_operator.world.views import Unknown

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """`bootstrap` and `clients` are for the object's clients, `where` for the operator."""

    bootstrap: str | Unknown
    clients: Access
    asked_at: str | Unknown
    login: Login | Unknown | None
    asked_as: Access
    """What `login` was read from, for `Logins.distrust`."""

    @property
    def where(self) -> Where | Unknown:
        return where(self.asked_at, self.login)


class OwnClusters:
    def __init__(self, cache: Cache, logins: Logins) -> None:
        self._cache, self._logins = cache, logins
        self._specs: dict[tuple[str, str], tuple[str, ClusterSpec | None]] = {}

    async def reach(
        self,
        namespace: str,
        cluster: str | None,
        given: Access,
        *,
        bootstrap: str | None = None,
        kind: str | None = None,
    ) -> Reached:
        """`cluster`: of `clusterRef`; `bootstrap`: of `bootstrapServers`. `kind`: how the object's clients show who
        they are, if that is not how the operator does (`given`). Raises nothing."""
        if cluster is None:
            told = bootstrap or Unknown(reason="ClusterNotFound", message="no bootstrap servers are given")
            login = await self._logins.of(namespace, given)
            return Reached(bootstrap=told, clients=given, asked_at=told, login=login, asked_as=given)
        address, spec = self._cache.bootstrap_of(namespace, cluster), self._spec(namespace, cluster)
        if spec is None or isinstance(address, Unknown):
            login = await self._logins.of(namespace, given)
            return Reached(bootstrap=address, clients=given, asked_at=address, login=login, asked_as=given)
        listener, access = operators_access(cluster, spec, given)
        if kind is not None:
            theirs = users_listener(spec, kind)
            clients = Access(tls=trusted(cluster, theirs, given.tls), authentication=given.authentication)
        else:
            theirs = clients_listener(spec, given.authentication.type if given.authentication is not None else None)
            clients = filled(cluster, theirs, given)
        inside = theirs.type == "internal"
        told = _at(address, theirs) if inside else self._cache.listener_of(namespace, cluster, theirs.name)
        return Reached(
            bootstrap=told, clients=clients, asked_at=_at(address, listener),
            login=await self._logins.of(namespace, access), asked_as=access,
        )  # fmt: skip

    async def authorities(self, namespace: str, clients: Access) -> str | Unknown:
        """Certificates that the object's clients have to trust; "": public ones, or there is no TLS."""
        login = await self._logins.of(namespace, Access(tls=clients.tls, authentication=None))
        if isinstance(login, Unknown):
            return login
        return login.ca if login is not None else ""

    def clients_authority(self, namespace: str, cluster: str) -> tuple[str, ClusterSpec] | Unknown | None:
        """(uid of the CoordinatorCluster, its spec) if it trusts the operator's CA of clients; None: it does not."""
        live, spec = self._cache.get(CLUSTER, namespace, cluster), self._spec(namespace, cluster)
        if live is None or spec is None:
            return Unknown(reason="ClusterNotFound", message=f"CoordinatorCluster {cluster} is not known")
        return (str(live["metadata"]["uid"]), spec) if spec.has_clients_ca else None

    def _spec(self, namespace: str, cluster: str) -> ClusterSpec | None:
        """None: there is none, or it is one that this release does not understand."""
        live = self._cache.get(CLUSTER, namespace, cluster)
        if live is None:
            return None
        metadata = live["metadata"]
        version = f"{metadata['uid']} {metadata.get('generation')}"
        known = self._specs.get((namespace, cluster))
        if known is not None and known[0] == version:
            return known[1]
        try:
            spec: ClusterSpec | None = parse_cluster(live)
        except InvalidObject:
            spec = None
        if len(self._specs) >= OWN_CLUSTERS_MAX:
            self._specs.clear()
        self._specs[namespace, cluster] = (version, spec)
        return spec


def _at(address: str, listener: Listener) -> str:
    """The bootstrap Service has every internal listener's port."""
    return f"{address.rpartition(':')[0]}:{listener.port}"
