"""The cache follows watches, repairs itself by lists, reads its own writes, and wakes whom an object matters to."""

from typing import Any

from muster_operator.kube.kinds import CLUSTER, GROUP, POD, SERVICE, STATEFULSET
from muster_operator.runtime.cache import Cache
from muster_operator.runtime.keys import OwnerKey

C = OwnerKey("CoordinatorCluster", "ns", "c")
G = OwnerKey("ConsumerGroup", "ns", "g")


def thing(kind: str, name: str, version: int = 1, uid: str = "u", **more: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": uid,
        "resourceVersion": str(version),
        **more.pop("metadata", {}),
    }
    return {"apiVersion": "x", "kind": kind, "metadata": metadata, **more}


def owned(kind: str, name: str, owner_uid: str = "cu", **more: Any) -> dict[str, Any]:
    reference = {"apiVersion": "muster.dev/v1alpha1", "kind": C.kind, "name": "c", "uid": owner_uid, "controller": True}
    return thing(kind, name, metadata={"ownerReferences": [reference]}, **more)


def pod(name: str, version: int = 1, uid: str = "p") -> dict[str, Any]:
    labels = {"app.kubernetes.io/component": "coordinator", "app.kubernetes.io/instance": "c"}
    return thing("Pod", name, version, uid, metadata={"labels": labels})


def test_children_and_pods_wake_their_owner() -> None:
    cache = Cache()
    assert cache.observe(SERVICE, "ADDED", owned("Service", "c-peers")) == {C}
    assert cache.observe(POD, None, pod("c-0")) == {C}
    assert list(cache.children(C, "cu")) == [("Service", "c-peers")]
    assert cache.children(C, "another uid") == {}
    assert [one["metadata"]["name"] for one in cache.pods(C)] == ["c-0"]
    assert cache.observe(POD, "DELETED", pod("c-0", 2)) == {C}
    assert cache.pods(C) == []


def test_an_older_event_never_replaces_a_newer_state() -> None:
    cache = Cache()
    cache.observe(POD, "MODIFIED", pod("c-0", 7))
    assert cache.observe(POD, "MODIFIED", pod("c-0", 5)) == set()
    assert cache.observe(POD, "DELETED", pod("c-0", 6)) == set()
    assert cache.pods(C)[0]["metadata"]["resourceVersion"] == "7"
    cache.observe(POD, "ADDED", pod("c-0", 3, uid="another"))
    assert cache.pods(C)[0]["metadata"]["uid"] == "another"


def test_a_late_deletion_of_the_former_object_does_not_take_the_new_one_away() -> None:
    """Our own apply, or a list, tells of the new object before the watch tells that the old one went."""
    cache = Cache()
    cache.observe(POD, "ADDED", pod("c-0", 3, uid="old"))
    cache.observe(POD, "MODIFIED", pod("c-0", 9, uid="new"))
    assert cache.observe(POD, "DELETED", pod("c-0", 8, uid="old")) == set()
    assert [one["metadata"]["uid"] for one in cache.pods(C)] == ["new"]
    opaque = pod("c-0", 0, uid="old")
    opaque["metadata"]["resourceVersion"] = "opaque"
    assert cache.observe(POD, "DELETED", opaque) == set()
    assert [one["metadata"]["uid"] for one in cache.pods(C)] == ["new"]


def test_a_late_deletion_of_an_owner_leaves_its_successor_and_its_group_id() -> None:
    cache = Cache()
    cache.observe(GROUP, "ADDED", thing(G.kind, "g", 3, "old", spec={"groupId": "orders"}))
    cache.observe(GROUP, None, thing(G.kind, "g", 9, "new", spec={"groupId": "orders"}))
    assert cache.observe(GROUP, "DELETED", thing(G.kind, "g", 8, "old", spec={"groupId": "orders"})) == set()
    assert cache.owners() == [G]
    assert [one["metadata"]["uid"] for one in cache.groups_with_id("orders")] == ["new"]


def test_a_deletion_of_a_successor_that_was_never_seen_takes_the_former_away() -> None:
    cache = Cache()
    cache.observe(POD, "ADDED", pod("c-0", 3, uid="old"))
    assert cache.observe(POD, "DELETED", pod("c-0", 8, uid="unseen")) == {C}
    assert cache.pods(C) == []


def test_a_late_state_of_the_former_object_does_not_come_back() -> None:
    cache = Cache()
    old, new = pod("c-0", 5, uid="old"), pod("c-0", 9, uid="new")
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    new["metadata"]["creationTimestamp"] = "2026-01-01T00:00:07Z"
    cache.observe(POD, "ADDED", new)
    assert cache.observe(POD, "MODIFIED", old) == set()
    assert [one["metadata"]["uid"] for one in cache.pods(C)] == ["new"]


def test_our_own_status_coming_back_wakes_nobody() -> None:
    cache = Cache()
    assert cache.observe(CLUSTER, None, thing(C.kind, "c", 1, spec={"a": 1})) == {C}
    assert cache.observe(CLUSTER, "MODIFIED", thing(C.kind, "c", 2, spec={"a": 1}, status={"x": 1})) == set()
    assert cache.observe(CLUSTER, "MODIFIED", thing(C.kind, "c", 3, spec={"a": 2}, status={"x": 1})) == {C}


def test_a_cluster_that_gets_an_address_wakes_its_groups() -> None:
    cache = Cache()
    cache.observe(GROUP, None, thing(G.kind, "g", spec={"clusterRef": {"name": "c"}}))
    cache.observe(GROUP, None, thing(G.kind, "other", spec={"bootstrapServers": "k:9092"}))
    assert cache.observe(CLUSTER, "ADDED", thing(C.kind, "c", 1)) == {C, G}
    addressed = thing(C.kind, "c", 2, status={"bootstrapServers": {"internal": "c:9092"}})
    assert cache.observe(CLUSTER, "MODIFIED", addressed) == {G}
    again = {**addressed["status"], "listeners": [{"name": "outside", "bootstrapServers": "10.0.0.1:31090"}]}
    addressed = thing(C.kind, "c", 3, status=again)
    assert cache.observe(CLUSTER, "MODIFIED", addressed) == {G}
    assert cache.observe(CLUSTER, "DELETED", {**addressed, "metadata": {**addressed["metadata"]}}) == {C, G}


def test_a_list_removes_ghosts_and_spares_what_the_watch_touched_meanwhile() -> None:
    cache = Cache()
    for name in ("ghost", "stays", "reborn"):
        cache.observe(STATEFULSET, None, owned("StatefulSet", name, version=1, uid=name))
    mark = cache.begin_list(STATEFULSET, "")
    cache.observe(STATEFULSET, "ADDED", owned("StatefulSet", "new", version=9, uid="new"))
    cache.observe(STATEFULSET, "DELETED", owned("StatefulSet", "stays", version=9, uid="stays"))
    cache.observe(STATEFULSET, "ADDED", owned("StatefulSet", "reborn", version=9, uid="reborn-2"))
    listed = [owned("StatefulSet", "stays", version=1, uid="stays")]
    assert cache.finish_list(mark, listed) == {C}
    assert sorted(name for _, name in cache.children(C, "cu")) == ["new", "reborn"]


def test_a_list_of_one_namespace_leaves_the_others_alone() -> None:
    cache = Cache()
    elsewhere = thing(C.kind, "far", metadata={"namespace": "elsewhere"})
    cache.observe(CLUSTER, None, elsewhere)
    cache.finish_list(cache.begin_list(CLUSTER, "ns"), [])
    assert cache.owners() == [OwnerKey(C.kind, "elsewhere", "far")]


def test_groups_are_found_by_their_group_id_of_all_namespaces() -> None:
    def group(namespace: str, group_id: str, version: int = 1, uid: str = "u") -> dict[str, Any]:
        return thing(G.kind, "g", version, uid, metadata={"namespace": namespace}, spec={"groupId": group_id})

    def found(group_id: str) -> list[str]:
        return sorted(one["metadata"]["namespace"] for one in cache.groups_with_id(group_id))

    cache = Cache()
    for namespace in ("a", "b"):
        cache.observe(GROUP, "ADDED", group(namespace, "billing"))
    assert found("billing") == ["a", "b"]
    cache.observe(GROUP, "MODIFIED", group("a", "another", 2, uid="made anew"))
    assert (found("billing"), found("another")) == (["b"], ["a"])
    cache.observe(GROUP, "DELETED", group("b", "billing", 3))
    assert (found("billing"), found("another"), found("nobody")) == ([], ["a"], [])
