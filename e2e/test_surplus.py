"""What is no longer wanted goes away, and nothing else: each kind of object that the operator may delete."""

from collections.abc import Iterator

import pytest

from e2e.fleet import Cluster, Group, condition, until
from e2e.node.client import Client
from e2e.node.session import Description

pytestmark = pytest.mark.timeout(400)

INTERNAL = {"name": "internal", "type": "internal", "port": 9092}
EXTERNAL = {
    "name": "external",
    "type": "nodePort",
    "port": 9094,
    "advertisedHost": "$(NODE_IP)",
    "nodePortBase": 31_290,
}
KINDS = "services,configmaps,serviceaccounts,networkpolicies,secrets,persistentvolumeclaims"
OPTIONAL = {"service/main-external-0", "networkpolicy.networking.k8s.io/main", "serviceaccount/main-coordinator"}


def names(client: Client) -> set[str]:
    return set(client.kubectl("get", KINDS, "--selector=app.kubernetes.io/instance=main", "--output=name").split())


def test_a_cluster_that_wants_less(operator: Client, namespace: Client) -> None:
    """Listener, NetworkPolicy and account are taken out of the spec; settings that no pod uses any more go too."""
    Cluster.create(namespace, replicas=1, listeners=[INTERNAL, EXTERNAL]).ready()
    namespace.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mine"}})
    before = names(namespace)
    assert before >= OPTIONAL
    template = {"serviceAccountName": "mine"}
    Cluster.create(
        namespace, replicas=1, listeners=[INTERNAL], networkPolicy={"enabled": False}, podTemplate=template
    ).ready()

    def gone() -> set[str]:
        return before - names(namespace)

    def settings() -> list[str]:
        return sorted(name for name in names(namespace) if name.startswith("configmap/main-config-"))

    until("one set of settings", lambda: len(settings()) == 1, 60)
    old = {name for name in before if name.startswith("configmap/main-config-")}
    assert gone() == old | OPTIONAL
    left = names(namespace)
    assert {"secret/main-admin-token", "persistentvolumeclaim/data-main-0", "service/main-peers"} <= left


@pytest.fixture
def given_up(shared: Cluster, node: Description) -> Iterator[Group]:
    group = Group(cluster=shared, image=node.demo_image, name="given-up")
    yield group.create(1)
    group.delete()


def test_a_group_that_gives_up_its_template_is_only_observed(given_up: Group) -> None:
    client = given_up.client
    until("pod", given_up.pods, 60)
    client.kubectl("patch", "cg/given-up", "--type=json", '--patch=[{"op": "remove", "path": "/spec/template"}]')
    kinds = ("statefulset", "service", "poddisruptionbudget")
    labels = "--selector=app.kubernetes.io/instance=given-up"
    until("end of its objects", lambda: not client.read(",".join(kinds), labels)["items"], 60)
    until("end of its pods", lambda: not given_up.pods(), 60)
    until("word", lambda: condition(given_up.read(), "Progressing")["reason"] == "ObservingOnly", 30)


@pytest.fixture
def taken(shared: Cluster, node: Description) -> Iterator[Group]:
    """A group whose headless Service's name belongs to somebody else."""
    name = "taken"
    service = {"metadata": {"name": f"{name}-members"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "else"}}}
    shared.client.apply({"apiVersion": "v1", "kind": "Service", **service})
    group = Group(cluster=shared, image=node.demo_image, name=name)
    yield group.create(1)
    group.delete()
    shared.client.kubectl("delete", "service", f"{name}-members", "--ignore-not-found")


def test_what_belongs_to_somebody_else_is_left_alone_and_named(taken: Group) -> None:
    until("word", lambda: condition(taken.read(), "Degraded").get("reason") == "NameTaken", 60)
    assert f"{taken.name}-members" in condition(taken.read(), "Degraded")["message"]
    assert taken.client.read("service", f"{taken.name}-members")["spec"]["selector"] == {"app": "else"}
    query = ("events", f"--field-selector=reason=NameTaken,involvedObject.uid={taken.read()['metadata']['uid']}")
    (event,) = until("warning", lambda: taken.client.read(*query)["items"], 30)
    assert event["type"] == "Warning"
    taken.client.kubectl("delete", "service", f"{taken.name}-members")
    taken.stable(1, seconds=90)  # nothing of ours changed: it is asked for every half minute


def test_a_refusal_of_the_api_server_is_told_and_heals(operator: Client, namespace: Client) -> None:
    """A NodePort that somebody else has: the object says so, in one series of Events, and goes on when it is free."""
    port = EXTERNAL["nodePortBase"] + 100  # of its own: a namespace that ends keeps its ports for a while
    spec = {"type": "NodePort", "selector": {"app": "else"}, "ports": [{"port": 80, "nodePort": port}]}
    namespace.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "theirs"}, "spec": spec})
    cluster = Cluster.create(namespace, replicas=1, listeners=[INTERNAL, {**EXTERNAL, "nodePortBase": port}])
    until("word", lambda: condition(cluster.read(), "Degraded").get("reason") == "ApiError", 60)
    assert f"{port}" in condition(cluster.read(), "Degraded")["message"]
    query = ("events", "--field-selector=type=Warning,involvedObject.kind=CoordinatorCluster")
    nudges = iter(range(1_000))

    def series() -> bool:
        """Each change of the object is a pass, so a refusal more."""
        namespace.kubectl("annotate", "cc/main", f"example.com/nudge={next(nudges)}", "--overwrite")
        told = [one for one in namespace.read(*query)["items"] if str(port) in one["message"]]
        assert len(told) <= 1, "one series, not an Event for each pass"
        return bool(told) and (told[0].get("series") or {}).get("count", 0) >= 2

    until("series", series, 120, every=5)
    namespace.kubectl("delete", "service", "theirs")
    namespace.kubectl("annotate", "cc/main", "example.com/nudge=free", "--overwrite")
    cluster.ready()
    until("calm", lambda: condition(cluster.read(), "Degraded")["status"] == "False", 30)

    # Local volumes cannot grow, which only their StorageClass knows.
    namespace.kubectl("patch", "cc/main", "--type=merge", '--patch={"spec":{"storage":{"size":"2Gi"}}}')
    until("word", lambda: condition(cluster.read(), "Degraded").get("reason") == "StorageRefused", 60)
    assert "data-main-0 cannot be made 2Gi" in condition(cluster.read(), "Degraded")["message"]
    assert condition(cluster.read(), "Ready").get("status") == "True", "it goes on with what it has"
