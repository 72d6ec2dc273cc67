"""What the operator needs of the outside: the Kubernetes API, the coordinators' admin API, Kafka's protocol, time,
chance.

Errors come in two families (`errors`): `Transient` (ask again with back-off) and `Refused` (asking again will not help
until somebody changes something). Everything else that escapes an adapter is a bug: it is logged with its traceback and
counted, and the object that met it is tried again with back-off. It does not end the process, since one object that
trips a bug would then take the management of all others down with it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from muster_operator.world.cluster import ReplicaView
from muster_operator.world.group import Leaver, ObservedGroup
from muster_operator.world.views import Unknown

Manifest = Mapping[str, Any]


class Clock(Protocol):
    def monotonic_ms(self) -> int: ...

    def wall_ms(self) -> int: ...


class Rand(Protocol):
    def uniform(self, low: float, high: float) -> float: ...

    def token(self) -> str:
        """A fresh bearer token of at least 256 bits, URL-safe."""
        ...


class Kube(Protocol):
    """The API server. `resource` is the plural; names are namespaced where the kind is."""

    async def get(self, *, api_version: str, kind: str, namespace: str, name: str) -> Manifest | None:
        """None: 404. Read from the API server, not from a cache: preconditions need it."""
        ...

    async def list(
        self,
        *,
        api_version: str,
        kind: str,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        selector: str = "",
    ) -> Sequence[Manifest]:
        """`selector`: a label selector as text, instead of `labels`.
        `errors.NotServed` when the API server does not know the kind. A namespace that is not there has none."""
        ...

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply, `naming.FIELD_MANAGER`, force; the object as it is now stored."""
        ...

    async def apply_status(self, manifest: Manifest) -> Manifest | None:
        """Server-side apply of `.status` by `naming.STATUS_MANAGER`, on the `metadata.resourceVersion` that was read:
        `errors.Conflict` when the object changed or is another one by now; None when there is none of the name."""
        ...

    async def create(self, manifest: Manifest) -> bool:
        """False: it exists already."""
        ...

    async def replace(self, manifest: Manifest) -> Manifest:
        """PUT under `metadata.resourceVersion` (the Lease only); `errors.Conflict` when it changed meanwhile."""
        ...

    async def patch(self, manifest: Manifest) -> bool:
        """JSON merge patch: Event series, volume claims, a roll-out that is held. `metadata.uid`, where given, is a
        precondition. False: it does not exist."""
        ...

    async def scale(self, *, api_version: str, kind: str, namespace: str, name: str, replicas: int) -> bool:
        """`spec.replicas` of the object's scale subresource, and nothing else of it; False: it does not exist."""
        ...

    async def restart(self, *, api_version: str, kind: str, namespace: str, name: str, at: str) -> bool:
        """Annotation `naming.RESTART_ANNOTATION` of a Deployment's or StatefulSet's pod template, or a Rollout's
        `spec.restartAt`, by `naming.FIELD_MANAGER`, and nothing else of it; False: it does not exist."""
        ...

    async def delete(self, *, api_version: str, kind: str, namespace: str, name: str, uid: str) -> bool:
        """With a uid precondition; False: gone, or another object by now."""
        ...

    async def evict(self, *, namespace: str, pod: str, uid: str) -> bool:
        """False: a disruption budget forbids it now (429). True: evicted or gone."""
        ...

    async def secret_value(self, *, namespace: str, name: str, key: str) -> str | None: ...


class Admin(Protocol):
    """The coordinators' admin API (docs/admin-api.md)."""

    async def replica(self, *, host: str, pod: str, token: str) -> ReplicaView | Unknown: ...

    async def drain(self, *, host: str, token: str) -> None: ...

    async def undrain(self, *, host: str, token: str) -> None: ...

    async def group_facts(
        self, *, hosts: Mapping[int, str], token: str, group_id: str
    ) -> tuple[int | None, int | None, str | None] | Unknown:
        """`hosts`: broker id → address. (generation if anybody ever joined, last rebalance at ms, its reason) from
        whichever replica coordinates the group."""
        ...


class Kafka(Protocol):
    """Kafka's protocol, through kafka-python. One bounded call each; never raises for a cluster that does not
    answer."""

    async def group(self, *, bootstrap: str, group_id: str, topics: Sequence[str]) -> ObservedGroup | Unknown: ...

    async def remove_members(self, *, bootstrap: str, group_id: str, members: Sequence[Leaver]) -> None:
        """Exactly these: who holds an instance id under another member id stays."""
        ...
