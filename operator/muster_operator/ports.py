"""The operator's interfaces to the outside: the Kubernetes API, the coordinators' admin API, Kafka's protocol, time,
random numbers.

Errors come in two families (`errors`): `Transient` (retried with back-off) and `Refused` (a retry does not help until
something is changed). Any other exception from an adapter is a bug: it is logged with its traceback and counted, and
the object that met it is retried with back-off. It does not end the process, since one object that triggers a bug would
then stop the management of all others.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from muster_operator.world.admin_at import AdminAt
from muster_operator.world.cluster import MovesView, ReplicationView, ReplicaView
from muster_operator.world.group import GroupFacts, Leaver, ObservedGroup
from muster_operator.world.kafka_object import KafkaChange, TopicView, UserView
from muster_operator.world.login import Where
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
    """The API server. Names are within `namespace` for namespaced kinds."""

    async def get(self, *, api_version: str, kind: str, namespace: str, name: str) -> Manifest | None:
        """None: 404. Read from the API server, not from a cache, because preconditions need the current state."""
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
        """`selector`: a label selector as text, instead of `labels`. Raises `errors.NotServed` if the API server does
        not know the kind. The list of a namespace that does not exist is empty."""
        ...

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply by `naming.FIELD_MANAGER`, with force; returns the object as stored."""
        ...

    async def apply_status(self, manifest: Manifest) -> Manifest | None:
        """Server-side apply of `.status` by `naming.STATUS_MANAGER`, under the `metadata.resourceVersion` that was
        read. Raises `errors.Conflict` if the object changed or another one has the name by now; None if no object has
        the name."""
        ...

    async def create(self, manifest: Manifest) -> bool:
        """False: an object of the name exists already."""
        ...

    async def replace(self, manifest: Manifest) -> Manifest:
        """PUT under `metadata.resourceVersion` (the Lease only). Raises `errors.Conflict` if it changed in between."""
        ...

    async def patch(self, manifest: Manifest) -> bool:
        """JSON merge patch: Event series, volume claims, a held roll-out. `metadata.uid`, if given, is a precondition.
        False: it does not exist."""
        ...

    async def scale(self, *, api_version: str, kind: str, namespace: str, name: str, replicas: int) -> bool:
        """Set `spec.replicas` of the object's scale subresource, and no other field. False: it does not exist."""
        ...

    async def restart(self, *, api_version: str, kind: str, namespace: str, name: str, at: str) -> bool:
        """Set annotation `naming.RESTART_ANNOTATION` in a Deployment's or StatefulSet's pod template, or a Rollout's
        `spec.restartAt`, by `naming.FIELD_MANAGER`, and no other field. False: it does not exist."""
        ...

    async def delete(
        self, *, api_version: str, kind: str, namespace: str, name: str, uid: str, at_once: bool = False
    ) -> bool:
        """Delete with a uid precondition. False: it is gone, or another object has the name by now. `at_once`: of a
        pod, without waiting for its node, which must be known not to answer."""
        ...

    async def evict(self, *, namespace: str, pod: str, uid: str) -> bool:
        """False: a disruption budget forbids it now (429). True: the pod is evicted or gone."""
        ...

    async def secret_value(self, *, namespace: str, name: str, key: str) -> str | None: ...


class Admin(Protocol):
    """The coordinators' admin API (docs/admin-api.md)."""

    async def replica(self, *, host: AdminAt, pod: str, token: str) -> ReplicaView | Unknown: ...

    async def drain(self, *, host: AdminAt, token: str) -> None: ...

    async def undrain(self, *, host: AdminAt, token: str) -> None: ...

    async def replace(self, *, hosts: Mapping[int, AdminAt], token: str, first: int, broker: int, folder: str) -> None:
        """Declare the data folder of a replica gone for good, at the controller's leader, `first` if that is still it.
        Asking again changes nothing. Raises Refused with the coordinator's reason, or Transient."""
        ...

    async def decommission(self, *, hosts: Sequence[AdminAt], token: str, broker: int, departing: bool) -> None:
        """Mark a broker as one that is to leave, or to stay after all, at the first of `hosts` that answers. Asking
        again changes nothing; one that has left already is no error. Raises Refused with the coordinator's reason, or
        Transient."""
        ...

    async def replication(self, *, host: AdminAt, token: str) -> ReplicationView | Unknown:
        """How many replicas are wanted, and how far that is, by the controller's leader at `host`."""
        ...

    async def raise_replication(self, *, hosts: Mapping[int, AdminAt], token: str, first: int, factor: int) -> None:
        """Ask the controller's leader, `first` if that is still it, for so many replicas of every Raft group. Asking
        again changes nothing. Raises Refused with the coordinator's reason, or Transient."""
        ...

    async def moves(self, *, host: AdminAt, token: str) -> MovesView | Unknown:
        """What the controller's leader, at `host`, moves by itself."""
        ...

    async def group_facts(self, *, hosts: Mapping[int, AdminAt], token: str, group_id: str) -> GroupFacts | Unknown:
        """`hosts`: broker id → address. From the replica that coordinates the group."""
        ...


class Kafka(Protocol):
    """Kafka's protocol, through kafka-python. Each call is bounded in time; `group` does not raise for a cluster that
    does not answer."""

    async def group(self, *, bootstrap: Where, group_id: str, topics: Sequence[str]) -> ObservedGroup | Unknown: ...

    async def remove_members(self, *, bootstrap: Where, group_id: str, members: Sequence[Leaver]) -> None:
        """Remove exactly these members: one that holds the instance id under another member id stays."""
        ...

    async def topic(self, *, where: Where, name: str) -> TopicView | Unknown | None:
        """None only if the cluster says that there is no such topic. Raises nothing."""
        ...

    async def user(
        self, *, where: Where, name: str, principal: str, credentials: bool, acls: bool, quotas: bool
    ) -> UserView | Unknown:
        """What the cluster knows of a user; only what is asked for is asked. Raises nothing."""
        ...

    async def change(self, *, where: Where, change: KafkaChange, password: str = "") -> None:
        """Carry out one change; `password` is for `SetPassword` alone. To repeat it is harmless. Raises Transient or
        Refused."""
        ...
