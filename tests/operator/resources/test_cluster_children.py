"""What must hold of a CoordinatorCluster's objects whatever its spec says."""

from typing import Any

import pytest
from muster_operator.naming import CONFIG_HASH_ANNOTATION, RESTART_ANNOTATION
from muster_operator.plan.actions import EnsureSecret
from muster_operator.resources import cluster
from muster_operator.resources.owned import is_owned_by
from muster_operator.resources.token_secret import admin_token

from tests.operator.resources.owners import (
    EXTERNAL,
    IMAGE,
    INTERNAL,
    OPERATOR,
    UID,
    cluster_children,
    cluster_spec,
    group_children,
    group_spec,
    one,
    owner,
)


def template(manifests: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    found: dict[str, Any] = one(manifests, "StatefulSet")["spec"]["template"]
    return found


def test_every_object_goes_with_its_owner() -> None:
    for manifest in cluster_children(cluster_spec(listeners=[INTERNAL, EXTERNAL])):
        (reference,) = manifest["metadata"]["ownerReferences"]
        assert (reference["uid"], reference["controller"], reference["blockOwnerDeletion"]) == (UID, True, True)
        assert manifest["metadata"]["namespace"] == "shop"
        assert is_owned_by(manifest, owner())


def test_the_same_name_does_not_make_somebody_elses_object_ours() -> None:
    theirs = {"metadata": {"name": "main", "ownerReferences": [{"uid": "other", "controller": True, "name": "main"}]}}
    assert not is_owned_by(theirs, owner())
    assert not is_owned_by({"metadata": {"name": "main"}}, owner())
    watched = {"metadata": {"name": "main", "ownerReferences": [{"uid": UID}]}}
    assert not is_owned_by(watched, owner()), "an owner that does not control it"


def test_selectors_select_the_pods_and_nothing_in_them_can_change() -> None:
    spec = cluster_spec(listeners=[INTERNAL, EXTERNAL], podTemplate={"labels": {"team": "x"}})
    manifests = cluster_children(spec)
    pods = template(manifests)["metadata"]["labels"] | {"apps.kubernetes.io/pod-index": "1"}
    chosen = [one(manifests, "StatefulSet")["spec"]["selector"]["matchLabels"]]
    chosen += [
        item["spec"]["selector"]
        for item in manifests
        if item["kind"] == "Service" and item["metadata"]["name"][-2:] not in ("-0", "-2")
    ]
    chosen.append(one(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"])
    chosen.append(one(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"])
    assert len(chosen) == 6
    for selector in chosen:
        assert selector.items() <= pods.items()
        assert "team" not in selector


def takers(constraint: dict[str, Any], pods_on: dict[str, int], tainted: set[str]) -> set[str]:
    """The nodes on which Kubernetes may put one more pod: none where it would have more than `maxSkew` beyond the node
    with fewest. Nodes whose taints the pod does not tolerate take none, and are counted unless the policy says that
    taints are honoured (PodTopologySpread, `nodeTaintsPolicy`, which is Ignore where nothing is said)."""
    assert constraint["whenUnsatisfiable"] == "DoNotSchedule"
    honoured = constraint.get("nodeTaintsPolicy", "Ignore") == "Honor"
    fewest = min(count for node, count in pods_on.items() if not (honoured and node in tainted))
    return {
        node for node, count in pods_on.items() if node not in tainted and count + 1 - fewest <= constraint["maxSkew"]
    }


def test_a_coordinator_of_a_lost_node_finds_a_place_on_another_and_never_where_one_is_free() -> None:
    """Its claim is deleted, and the Node of the lost machine is still there, tainted as unreachable. And where the
    control plane takes no pods, two workers take three coordinators."""
    constraints = template(cluster_children(cluster_spec()))["spec"]["topologySpreadConstraints"]
    (by_node,) = [each for each in constraints if each["topologyKey"] == "kubernetes.io/hostname"]
    assert takers(by_node, {"a": 1, "b": 1, "lost": 0}, {"lost"}) == {"a", "b"}
    assert takers(by_node, {"a": 1, "b": 1, "control-plane": 0}, {"control-plane"}) == {"a", "b"}
    assert takers(by_node, {"a": 1, "b": 1, "c": 0}, set()) == {"c"}
    assert takers(by_node, {"a": 1, "b": 1, "c": 0, "lost": 0}, {"lost"}) == {"c"}


def test_the_statefulset_comes_last() -> None:
    assert cluster_children(cluster_spec())[-1]["kind"] == "StatefulSet"


def test_settings_belong_to_a_revision_of_the_pods() -> None:
    """Another setting is another ConfigMap and another template; the old pods keep theirs."""
    before, after = cluster_children(cluster_spec()), cluster_children(cluster_spec(config={"topics.mode": "none"}))
    names = [one(manifests, "ConfigMap")["metadata"]["name"] for manifests in (before, after)]
    hashes = [template(manifests)["metadata"]["annotations"][CONFIG_HASH_ANNOTATION] for manifests in (before, after)]
    assert len(set(names)) == 2
    assert len(set(hashes)) == 2
    for manifests, name in zip((before, after), names, strict=True):
        volumes = {item["name"]: item for item in template(manifests)["spec"]["volumes"]}
        assert volumes["config"]["configMap"]["name"] == name
        assert one(manifests, "ConfigMap")["immutable"] is True


def test_what_is_no_setting_of_the_coordinator_restarts_nobody() -> None:
    quiet = cluster_spec(networkPolicy={"enabled": False}, storage={"reclaimPolicy": "Delete", "size": "20Gi"})
    assert template(cluster_children(quiet, storage_size="10Gi")) == template(cluster_children(cluster_spec()))


def test_a_restart_that_is_asked_for_is_a_new_revision() -> None:
    arguments: dict[str, Any] = {"image": IMAGE, "operator_namespace": "m", "operator_labels": OPERATOR}
    made = [template(cluster.children(owner(restarted_at=at), cluster_spec(), **arguments)) for at in (None, "1", "2")]
    assert [item["metadata"]["annotations"].get(RESTART_ANNOTATION) for item in made] == [None, "1", "2"]


def test_what_was_made_stays_as_made() -> None:
    """Replicas are kept until scaling exists; claim templates cannot change at all."""
    manifests = cluster_children(cluster_spec(replicas=5, storage={"size": "20Gi"}), replicas=3, storage_size="10Gi")
    spec = one(manifests, "StatefulSet")["spec"]
    assert spec["replicas"] == 3
    assert spec["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] == "10Gi"


@pytest.mark.parametrize(("asked", "used"), [(None, IMAGE), ("mine:2", "mine:2")])
def test_the_operators_image_is_the_default(asked: str | None, used: str) -> None:
    spec = cluster_spec(image=asked) if asked else cluster_spec()
    assert template(cluster_children(spec))["spec"]["containers"][0]["image"] == used


def test_a_users_labels_do_not_replace_ours() -> None:
    labels = template(cluster_children(cluster_spec(podTemplate={"labels": {"team": "x"}})))["metadata"]["labels"]
    assert labels["team"] == "x"
    assert labels["app.kubernetes.io/instance"] == "main"


def test_the_admin_port_is_for_peers_and_the_operator_only() -> None:
    policy = one(cluster_children(cluster_spec(networkPolicy={"clients": [{"podSelector": {}}]})), "NetworkPolicy")
    by_port = {port["port"]: rule.get("from") for rule in policy["spec"]["ingress"] for port in rule["ports"]}
    assert len(by_port[8081]) == 2
    assert by_port[8081][1]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "muster-system"}
    assert by_port[8081][1]["podSelector"]["matchLabels"] == OPERATOR
    assert len(by_port[9093]) == 1
    assert by_port[8080] is None, "metrics are read-only"


def test_the_operator_reaches_the_client_port_whoever_else_may() -> None:
    policy = one(cluster_children(cluster_spec(networkPolicy={"clients": [{"podSelector": {}}]})), "NetworkPolicy")
    allowed = [rule["from"] for rule in policy["spec"]["ingress"] if {"port": 9092, "protocol": "TCP"} in rule["ports"]]
    assert any("namespaceSelector" in peer for peers in allowed for peer in peers)


def test_consumers_that_the_operator_runs_reach_the_internal_port_whoever_else_may() -> None:
    """They are told that very port; a `clients` that forgets them would be a cluster without its own consumers."""
    pods = one(group_children(group_spec(template={"image": "consumer:1"})), "StatefulSet")["spec"]["template"]
    labels = pods["metadata"]["labels"]
    ipblock = {"ipBlock": {"cidr": "10.9.0.0/16"}}
    policy = one(cluster_children(cluster_spec(networkPolicy={"clients": [ipblock]})), "NetworkPolicy")

    def lets_in(port: int, pod: dict[str, str]) -> bool:
        peers = [
            peer
            for rule in policy["spec"]["ingress"]
            if {"port": port, "protocol": "TCP"} in rule["ports"]
            for peer in rule["from"]
        ]
        own = [peer["podSelector"]["matchLabels"] for peer in peers if set(peer) == {"podSelector"}]
        return any(wanted.items() <= pod.items() for wanted in own)

    assert lets_in(9092, labels)
    assert not lets_in(9092, {"app": "anything else"})
    assert not lets_in(8081, labels)
    assert not lets_in(9093, labels)


def test_the_tokens_value_is_in_no_object() -> None:
    intent = EnsureSecret(**admin_token(owner()))
    assert (intent.name, intent.key) == ("main-admin-token", "token")
    assert all(manifest["kind"] != "Secret" for manifest in cluster_children(cluster_spec()))


def test_outside_clients_begin_at_the_pods_whose_node_is_known() -> None:
    spec = cluster_spec(listeners=[INTERNAL, EXTERNAL])
    (outside,), hosts = spec.external_listeners, {0: "10.0.0.1", 2: "10.0.0.3"}
    assert cluster.external_bootstrap(owner(), outside, hosts, 3) == "10.0.0.1:31090,10.0.0.3:31092"
    assert cluster.external_bootstrap(owner(), outside, {}, 3) is None
    (fixed,) = cluster_spec(
        listeners=[INTERNAL, EXTERNAL | {"advertisedHost": "k$(ORDINAL).example"}]
    ).external_listeners
    assert cluster.external_bootstrap(owner(), fixed, {}, 3) == "k0.example:31090,k1.example:31091,k2.example:31092"


def test_inside_clients_of_each_listener_begin_at_the_service() -> None:
    spec = cluster_spec(listeners=[INTERNAL, {"name": "second", "port": 9095}])
    told = [cluster.internal_bootstrap(owner(), spec, listener) for listener in spec.listeners]
    assert told == ["main-bootstrap.shop.svc:9092", "main-bootstrap.shop.svc:9095"]
