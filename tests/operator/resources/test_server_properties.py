"""The settings file that the operator writes is one that the coordinator starts with, on every pod."""

from typing import Any

import pytest
from muster_coordinator.properties import parse_properties, with_environment
from muster_coordinator.setting_values import Listener
from muster_coordinator.settings import Settings, key_docs, settings_of
from muster_operator.api.config_keys import OPERATOR_KEYS
from muster_operator.resources import server_properties

from tests.operator.resources.owners import EXTERNAL, INTERNAL, cluster_children, cluster_spec, one, owner


def settings(ordinal: int, *, replicas: int | None = None, **spec: Any) -> Settings:
    """What pod `ordinal` reads on a node with address 10.0.0.<ordinal + 1>."""
    parsed = cluster_spec(**spec)
    text = server_properties.text(owner(), parsed, replicas=replicas or parsed.replicas)
    environment = {"POD_INDEX": str(ordinal), "POD_NAME": f"main-{ordinal}", "NODE_IP": f"10.0.0.{ordinal + 1}"}
    return settings_of(with_environment(parse_properties(text), environment))


@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_every_pod_is_itself_and_knows_all_voters(replicas: int) -> None:
    for ordinal in range(replicas):
        read = settings(ordinal, replicas=replicas)
        assert read.node_id == ordinal
        assert {n: host for n, (host, _) in read.peers.items()} == {
            n: f"main-{n}.main-peers.shop.svc" for n in range(replicas)
        }
        assert read.offsets_replication_factor == replicas


@pytest.mark.parametrize("cluster_id", ["", "hCmvUkHcRJK7hCmvUkHcRA"])
def test_a_pod_beyond_the_founders_joins_by_the_clusters_id_and_these_form_it_without(cluster_id: str) -> None:
    """The same file for all of them: the id is empty while there is no cluster, which is what a founder takes for
    none."""
    text = server_properties.text(owner(), cluster_spec(replicas=5, replicationFactor=3), replicas=3, joins=True)
    for ordinal in range(5 if cluster_id else 3):
        environment = {"POD_INDEX": str(ordinal), "POD_NAME": f"main-{ordinal}", "NODE_IP": "10.0.0.1"}
        read = settings_of(with_environment(parse_properties(text), {**environment, "CLUSTER_ID": cluster_id}))
        assert read.cluster_id == (cluster_id or None)
        assert read.joins == (ordinal > 2)
        assert read.peer_advertised == (f"main-{ordinal}.main-peers.shop.svc", 9093)


def test_clients_are_told_the_pods_own_name() -> None:
    assert settings(2).advertised_listeners == (Listener("INTERNAL", "main-2.main-peers.shop.svc", 9092),)
    assert settings(2).admin_address == "main-2.main-peers.shop.svc:8081"


def test_with_a_cluster_domain_addresses_end_in_it() -> None:
    read = settings(0, clusterDomain="k8s.example")
    assert read.advertised_listeners[0].host == "main-0.main-peers.shop.svc.k8s.example"
    assert read.peers[2][0] == "main-2.main-peers.shop.svc.k8s.example"  # type: ignore[index]


@pytest.mark.parametrize(
    ("host", "told"),
    [
        (None, "10.0.0.3"),
        ("$(NODE_IP)", "10.0.0.3"),
        ("kafka-$(ORDINAL).example.com", "kafka-2.example.com"),
        ("$(POD_NAME).example.com", "main-2.example.com"),
        ("lb.example.com", "lb.example.com"),
    ],
)
def test_clients_from_outside_are_told_the_template_and_the_pods_node_port(host: str | None, told: str) -> None:
    """The same port that the pod's NodePort Service has: that is why the base must be known and divisible by ten."""
    listener = EXTERNAL | ({"advertisedHost": host} if host else {})
    read = settings(2, listeners=[INTERNAL, listener])
    assert read.advertised_listeners[1] == Listener("EXTERNAL", told, 31092)
    service = one(cluster_children(cluster_spec(listeners=[INTERNAL, listener])), "Service", "main-external-2")
    assert service["spec"]["ports"][0]["nodePort"] == 31092
    assert read.listeners[1] == Listener("EXTERNAL", "0.0.0.0", 9094)


def test_users_settings_reach_the_coordinator() -> None:
    read = settings(
        0, config={"group.initial.rebalance.delay.ms": 0, "topics.mode": "none", "delete.topic.enable": "false"}
    )
    assert (read.group_initial_rebalance_delay_ms, read.topics_mode, read.delete_topics) == (0, "none", False)


@pytest.mark.parametrize("value", ["back\\slash", " leading", "a=b:c", "#no comment", "\\u0041"])
def test_a_users_value_arrives_as_written(value: str) -> None:
    text = server_properties.text(owner(), cluster_spec(config={"x": value}), replicas=3)
    assert parse_properties(text)["x"] == value


def test_what_the_operator_writes_a_user_may_not() -> None:
    """Every key of the file without user settings is refused by CEL, and every refused key is one that exists."""
    assert set(server_properties.settings(owner(), cluster_spec(), replicas=3, joins=True)) <= set(OPERATOR_KEYS)
    assert set(OPERATOR_KEYS) <= {doc.key for doc in key_docs()}


def test_the_pods_have_the_time_that_the_coordinator_takes_to_drain() -> None:
    pod = one(cluster_children(cluster_spec()), "StatefulSet")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] * 1000 == settings(0).shutdown_grace_ms
