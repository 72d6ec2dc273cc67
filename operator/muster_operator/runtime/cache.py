"""The watched objects as one dictionary: by key, and by the CoordinatorCluster or ConsumerGroup that they belong to.

Three sources write it: the watch (`observe`), our own lists (`begin_list`, `finish_list`) and our own writes (`observe`
with the API server's answer, so that a pass reads its own writes). An older state never replaces a newer one of the
same uid.

A watch that breaks does not report what was deleted in between, so `finish_list` removes what a list no longer
contains, except for objects that the watch added or removed while the list was being read. Until then a deleted object
still looks as if it existed. That is the safe side: an existing object is never taken for absent, and every destructive
call carries a uid.

Single-threaded: belongs to the event loop.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster_operator.kube.kinds import CLUSTER, GROUP, OWNERS, POD, TOPIC, USER, Kind
from muster_operator.kube.views import controller_uid
from muster_operator.runtime.keys import ObjectKey, OwnerKey, object_key, owner_key
from muster_operator.world.views import Unknown

Object = Mapping[str, Any]
Trait = tuple[str, ...]
DELETED = "DELETED"
_INDEXED = (GROUP, TOPIC, USER)
_REFERRING = frozenset(one.kind for one in _INDEXED)
"""Kinds with a `clusterRef`."""
_OWNER_NOISE = ("resourceVersion", "managedFields")


@dataclass(slots=True)
class ListMark:
    """A list in progress: what was cached when it began, and the objects that the watch has changed since."""

    kind: Kind
    namespace: str
    before: dict[ObjectKey, str]
    touched: set[ObjectKey] = field(default_factory=set)


class Cache:
    """See the module. `observe` and `finish_list` return the keys that need a pass."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, Object] = {}
        self._owned: defaultdict[OwnerKey, set[ObjectKey]] = defaultdict(set)
        self._groups: defaultdict[Trait, set[ObjectKey]] = defaultdict(set)
        """Objects of our kinds by what two of a kind may share (`_traits`)."""
        self._marks: list[ListMark] = []

    def observe(self, kind: Kind, change: str | None, live: Object) -> set[OwnerKey]:
        """Take one watch event (`change` as Kubernetes names it, None for the first list) or the answer to a write."""
        key = object_key(kind, live)
        for mark in self._marks:
            mark.touched.add(key)
        return self._take(kind, key, change, live)

    def begin_list(self, kind: Kind, namespace: str) -> ListMark:
        """Call before the list is requested. `namespace`: "" for all."""
        before = {
            key: str(live["metadata"].get("uid"))
            for key, live in self._objects.items()
            if key.kind == kind.kind and namespace in ("", key.namespace)
        }
        mark = ListMark(kind=kind, namespace=namespace, before=before)
        self._marks.append(mark)
        return mark

    def abandon_list(self, mark: ListMark) -> None:
        """End a list that failed."""
        self._marks.remove(mark)

    def finish_list(self, mark: ListMark, items: Iterable[Object]) -> set[OwnerKey]:
        """Make the cache equal to `items`, except for objects that the watch changed since `begin_list`."""
        self._marks.remove(mark)
        woken: set[OwnerKey] = set()
        listed = set()
        for live in items:
            key = object_key(mark.kind, live)
            listed.add(key)
            if key not in mark.touched:
                woken |= self._take(mark.kind, key, None, live)
        for key in mark.before.keys() - listed - mark.touched:
            ghost = self._objects.get(key)
            if ghost is not None:
                woken |= self._take(mark.kind, key, DELETED, ghost)
        return woken

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self._objects.get(ObjectKey(kind.kind, namespace, name))

    def owner(self, key: OwnerKey) -> Object | None:
        return self._objects.get(ObjectKey(*key))

    def owners(self) -> list[OwnerKey]:
        """Keys of all CoordinatorClusters and ConsumerGroups."""
        kinds = {one.kind for one in OWNERS}
        return [OwnerKey(*key) for key in self._objects if key.kind in kinds]

    def clusters(self) -> list[OwnerKey]:
        """All CoordinatorClusters."""
        return [OwnerKey(*key) for key in self._objects if key.kind == CLUSTER.kind]

    def children(self, key: OwnerKey, uid: str) -> dict[tuple[str, str], Object]:
        """(kind, name) → live object, for the objects that the owner of `uid` controls."""
        found = ((one, self._objects[one]) for one in self._owned.get(key, ()) if one.kind != POD.kind)
        return {(one.kind, one.name): live for one, live in found if controller_uid(live) == uid}

    def pods(self, key: OwnerKey) -> list[Object]:
        return [self._objects[one] for one in self._owned.get(key, ()) if one.kind == POD.kind]

    def groups_of(self, cluster: OwnerKey) -> set[OwnerKey]:
        """ConsumerGroups, Topics and Users that refer to this CoordinatorCluster."""
        return {
            OwnerKey(*key)
            for key, live in self._objects.items()
            if key.kind in _REFERRING and key.namespace == cluster.namespace and _cluster_ref(live) == cluster.name
        }

    def groups_with_id(self, group_id: str) -> list[Object]:
        """ConsumerGroups of all namespaces with that `groupId`."""
        return [self._objects[key] for key in self._groups.get(("groupId", group_id), ())]

    def groups_with_workload(self, namespace: str, kind: str, name: str) -> list[Object]:
        """ConsumerGroups whose `workloadRef` names that workload."""
        return [self._objects[key] for key in self._groups.get(("workload", namespace, kind, name), ())]

    def namesakes(self, live: Object) -> list[Object]:
        """Topics, or Users, of all namespaces for a topic or user of the name of `live`'s."""
        return [self._objects[key] for trait in _traits(live) for key in self._groups.get(trait, ())]

    def bootstrap_of(self, namespace: str, cluster: str) -> str | Unknown:
        """The address in a CoordinatorCluster's status."""
        live = self.get(CLUSTER, namespace, cluster)
        if live is None:
            return Unknown(reason="ClusterNotFound", message=f"there is no CoordinatorCluster {cluster} in {namespace}")
        address = _internal(live)
        if not address:
            return Unknown(reason="ClusterNotReady", message=f"CoordinatorCluster {cluster} has no address yet")
        return str(address)

    def listener_of(self, namespace: str, cluster: str, name: str) -> str | Unknown:
        """The addresses of one listener in a CoordinatorCluster's status."""
        live = self.get(CLUSTER, namespace, cluster) or {}
        address = _addresses_by_listener(live).get(name)
        if address and address != "Unknown":
            return str(address)
        message = f"CoordinatorCluster {cluster} has no address of listener {name} yet"
        return Unknown(reason="ClusterNotReady", message=message)

    def counts(self) -> dict[str, int]:
        """Kind → objects cached: a metric."""
        found: defaultdict[str, int] = defaultdict(int)
        for key in self._objects:
            found[key.kind] += 1
        return dict(found)

    def _take(self, kind: Kind, key: ObjectKey, change: str | None, live: Object) -> set[OwnerKey]:
        old = self._objects.get(key)
        if old is not None and _is_late(live, old, change):
            return set()
        owner = owner_key(kind, live)
        former = owner_key(kind, old) if old is not None else None
        if former is not None and kind not in OWNERS and (former != owner or change == DELETED):
            self._owned[former].discard(key)
            if not self._owned[former]:
                del self._owned[former]
        if kind in _INDEXED:
            self._index(key, old, None if change == DELETED else live)
        if change == DELETED:
            self._objects.pop(key, None)
        else:
            self._objects[key] = live
            if owner is not None and kind not in OWNERS:
                self._owned[owner].add(key)
        woken = {one for one in (owner, former) if one is not None}
        if kind not in OWNERS or old is None or change == DELETED:
            return woken | self._dependents(kind, old, live, change)
        if _without_status(old) == _without_status(live):
            woken = set()  # the change is our own status write
        return woken | self._dependents(kind, old, live, change)

    def _index(self, key: ObjectKey, old: Object | None, new: Object | None) -> None:
        for trait in _traits(old) if old is not None else ():
            self._groups[trait].discard(key)
            if not self._groups[trait]:
                del self._groups[trait]
        for trait in _traits(new) if new is not None else ():
            self._groups[trait].add(key)

    def _dependents(self, kind: Kind, old: Object | None, live: Object, change: str | None) -> set[OwnerKey]:
        """The groups that refer to a cluster need a pass when it is created, deleted or changes its address."""
        if kind is not CLUSTER:
            return set()
        if old is not None and change != DELETED and _addresses(old) == _addresses(live):
            return set()
        return self.groups_of(OwnerKey(*object_key(kind, live)))


def _cluster_ref(group: Object) -> str | None:
    found = ((group.get("spec") or {}).get("clusterRef") or {}).get("name")
    return str(found) if found else None


def _traits(group: Object) -> list[Trait]:
    """The values by which other objects of the kind may conflict with this one."""
    spec = group.get("spec") or {}
    if group.get("kind") == TOPIC.kind:
        return [("topic", str(spec.get("topicName") or group["metadata"]["name"]))]
    if group.get("kind") == USER.kind:
        certificate = (spec.get("authentication") or {}).get("type") == "tls"
        made_up = f"CN={group['metadata']['name']}" if certificate else group["metadata"]["name"]
        return [("user", str(spec.get("userName") or made_up))]
    found: list[Trait] = [("groupId", str(spec.get("groupId") or ""))]
    ref = spec.get("workloadRef")
    if ref:
        found.append(("workload", str(group["metadata"].get("namespace")), str(ref.get("kind")), str(ref.get("name"))))
    return found


def _internal(cluster: Object) -> object:
    return ((cluster.get("status") or {}).get("bootstrapServers") or {}).get("internal")


def _addresses(cluster: Object) -> object:
    status = cluster.get("status") or {}
    return status.get("bootstrapServers"), status.get("listeners")


def _addresses_by_listener(cluster: Object) -> dict[str, object]:
    """A definition (CRD) of before `status.listeners` has a place for those of the first external listener only."""
    status = cluster.get("status") or {}
    if "listeners" in status:
        return {one["name"]: one.get("bootstrapServers") for one in status["listeners"]}
    outside = [one["name"] for one in (cluster.get("spec") or {}).get("listeners") or () if one["type"] == "nodePort"]
    return {name: (status.get("bootstrapServers") or {}).get("external") for name in outside[:1]}


def _without_status(live: Object) -> dict[str, Any]:
    metadata = {key: value for key, value in live["metadata"].items() if key not in _OWNER_NOISE}
    return {key: value for key, value in live.items() if key not in ("status", "metadata")} | {"metadata": metadata}


def _is_late(live: Object, old: Object, change: str | None) -> bool:
    """The event is older than the cached state.

    Resource versions of one kind are compared as numbers, which Kubernetes guarantees since 1.35 and etcd always did.
    For another object of the same name, only a deletion or a state of an older object counts as late: after a restore
    of etcd numbers may begin again, and then a list must win.
    """
    new, known = live["metadata"], old["metadata"]
    versions = [str(one.get("resourceVersion", "")) for one in (new, known)]
    comparable = all(one.isdigit() for one in versions)
    older = comparable and int(versions[0]) < int(versions[1])
    if new.get("uid") == known.get("uid"):
        return older
    if change == DELETED:
        return older or not comparable or versions[0] == versions[1]
    made, known_made = (str(one.get("creationTimestamp") or "") for one in (new, known))
    return older and bool(made) and made < known_made
