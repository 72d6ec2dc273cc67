"""The settings file that the operator writes is one that the coordinator starts with, on every pod."""

from collections.abc import Mapping
from typing import Any

import pytest
from muster_coordinator import redis_settings
from muster_coordinator.properties import parse_properties, with_environment
from muster_coordinator.setting_values import Listener
from muster_coordinator.settings import Settings, key_docs, settings_of
from muster_operator.api import topic_store as store_api
from muster_operator.api.config_keys import OPERATOR_KEYS
from muster_operator.api.errors import InvalidObject
from muster_operator.api.topic_store import KEYS as TOPIC_STORE_KEYS
from muster_operator.resources import server_properties, topic_store
from muster_operator.resources.identity import identity
from muster_operator.resources.peer_mode import PeerMode

from tests.operator.resources.owners import EXTERNAL, INTERNAL, cluster_children, cluster_spec, one, owner, secret_files


def settings(
    ordinal: int, *, replicas: int | None = None, environment: Mapping[str, str] | None = None, **spec: Any
) -> Settings:
    """What pod `ordinal` reads on a node with address 10.0.0.<ordinal + 1>."""
    parsed = cluster_spec(**spec)
    text = server_properties.text(owner(), parsed, replicas=replicas or parsed.replicas)
    variables = {
        "POD_INDEX": str(ordinal),
        "POD_NAME": f"main-{ordinal}",
        "NODE_IP": f"10.0.0.{ordinal + 1}",
        "RACK": "zone-b",
        **(environment or {}),
    }
    return settings_of(with_environment(parse_properties(text), variables))


REDIS = {
    "url": "rediss://redis.example.com:6379/2", "prefix": "orders", "durability": "wait", "waitReplicas": 3,
    "authentication": {"username": "muster", "passwordSecretName": "redis-login"},
    "tls": {"trustedSecretName": "redis-ca", "secretName": "redis-client"},
}  # fmt: skip


def test_topics_in_redis_are_the_coordinators_settings_and_no_password_is_in_the_file() -> None:
    children = cluster_children(cluster_spec(topics={"mode": "redis", "redis": REDIS}))
    pod = one(children, "StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (variable,) = [it for it in container["env"] if it["name"] == "REDIS_PASSWORD"]
    assert variable["valueFrom"] == {"secretKeyRef": {"name": "redis-login", "key": "password"}}
    read = settings(0, environment={"REDIS_PASSWORD": "of-the-secret"}, topics={"mode": "redis", "redis": REDIS})
    assert (read.topics_mode, read.redis_url, read.redis_prefix) == ("redis", REDIS["url"], "orders")
    assert (read.redis_durability, read.redis_wait_replicas) == ("wait", 3)
    assert (read.redis_username, read.redis_password) == ("muster", "of-the-secret")
    files = secret_files(pod)
    named = [read.redis_ssl_ca, read.redis_ssl_certificate, read.redis_ssl_key]
    assert [files[str(path)] for path in named] == [
        ("redis-ca", "ca.crt"), ("redis-client", "tls.crt"), ("redis-client", "tls.key"),
    ]  # fmt: skip


SENTINELS = {
    "url": "redis://Orders/2",
    "sentinels": {
        "addresses": "s-0.shop.svc:26379,s-1.shop.svc:26379",
        "authentication": {"username": "asker", "passwordSecretName": "sentinel-login"},
    },
}


def test_sentinels_and_their_login_are_settings_beside_those_of_the_redis_they_name() -> None:
    login = {"authentication": {"passwordSecretName": "redis-login"}}
    topics = {"mode": "redis", "redis": {**SENTINELS, **login}}
    children = cluster_children(cluster_spec(topics=topics))
    (container,) = one(children, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    secrets = {
        it["name"]: it["valueFrom"]["secretKeyRef"] for it in container["env"] if it["name"].startswith("REDIS_")
    }
    assert secrets == {
        "REDIS_PASSWORD": {"name": "redis-login", "key": "password"},
        "REDIS_SENTINEL_PASSWORD": {"name": "sentinel-login", "key": "password"},
    }
    read = settings(0, environment={"REDIS_PASSWORD": "p", "REDIS_SENTINEL_PASSWORD": "s"}, topics=topics)
    assert (read.redis_primary, read.redis_password) == ("Orders", "p")
    assert read.redis_sentinels == (("s-0.shop.svc", 26379), ("s-1.shop.svc", 26379))
    assert (read.redis_sentinel_username, read.redis_sentinel_password) == ("asker", "s")


def test_as_many_addresses_of_a_redis_as_an_object_may_have_are_taken_by_the_coordinator() -> None:
    numbered = ",".join(f"s{number}.{'x' * 80}:26379" for number in range(store_api.SENTINELS_MAX))
    read = settings(0, topics={"redis": {"url": "redis://orders", "sentinels": {"addresses": numbered}}})
    assert len(read.redis_sentinels) == store_api.SENTINELS_MAX == redis_settings.SENTINELS_MAX
    read = settings(0, topics={"redis": {"url": "redis://cluster", "clusterNodes": numbered}})
    assert len(read.redis_nodes) == store_api.NODES_TOLD_MAX <= redis_settings.NODES_TOLD_MAX
    for field in ({"sentinels": {"addresses": f"{numbered},t:1"}}, {"clusterNodes": f"{numbered},t:1"}):
        with pytest.raises(InvalidObject, match="at most 20"):
            cluster_spec(topics={"redis": {"url": "redis://cluster", **field}})


NODES = {"url": "rediss://cluster", "clusterNodes": "redis-0:6379,redis-1:6379"}


def test_nodes_of_a_redis_cluster_are_settings() -> None:
    read = settings(0, topics={"mode": "redis", "redis": NODES})
    assert (read.redis_url, read.redis_nodes) == ("rediss://cluster", (("redis-0", 6379), ("redis-1", 6379)))


def test_the_rest_of_redis_is_the_coordinators_default_and_other_settings_of_it_may_be_in_config() -> None:
    topics = {"mode": "redis", "redis": {"url": "redis://redis:6379"}}
    read = settings(0, topics=topics, config={"redis.connections.max": 32})
    assert (read.redis_prefix, read.redis_durability, read.redis_password) == ("muster", "", "")
    assert (read.redis_connections_max, read.redis_ssl_ca) == (32, None)
    assert settings(0).topics_mode == settings(0, topics={}).topics_mode == "embedded"
    assert settings(0, topics={"mode": "none"}).topics_mode == settings(0, config={"topics.mode": "none"}).topics_mode
    beside = settings(0, topics={"redis": {"url": "redis://redis:6379"}})
    assert (beside.topics_mode, beside.redis_url) == ("embedded", "redis://redis:6379")


@pytest.mark.parametrize("mode", ["embedded", "none", "redis"])
def test_every_setting_that_topics_write_may_not_be_in_config_beside_it(mode: str) -> None:
    redis = {"redis": REDIS} if mode == "redis" else {}
    for key in TOPIC_STORE_KEYS:
        with pytest.raises(InvalidObject, match=r"`config` may not hold `topics\.mode`"):
            cluster_spec(topics={"mode": mode, **redis}, config={key: "x"})
    written = topic_store.settings(
        cluster_spec(topics={"mode": "redis", "redis": {**REDIS, **SENTINELS, "url": "rediss://Orders/2"}})
    )
    written |= topic_store.settings(cluster_spec(topics={"redis": NODES}))
    assert set(written) == set(TOPIC_STORE_KEYS)


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
    told = identity(owner(), cluster_id or None, has_joined=True)["data"]
    children = cluster_children(cluster_spec(replicas=5, replicationFactor=3), joins=True, replicas=5, founders=3)
    (container,) = one(children, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    sources = {it["name"]: it["valueFrom"].get("configMapKeyRef") for it in container["env"]}
    for ordinal in range(5 if cluster_id else 3):
        environment = {"POD_INDEX": str(ordinal), "POD_NAME": f"main-{ordinal}", "NODE_IP": "10.0.0.1", "RACK": ""}
        for name in ("CLUSTER_ID", "CLUSTER_FORMED"):
            assert sources[name]["name"] == "main-identity"
            environment[name] = told[sources[name]["key"]]
        read = settings_of(with_environment(parse_properties(text), environment))
        assert (read.cluster_id, read.cluster_formed) == (cluster_id or None, bool(cluster_id))
        assert read.joins == (ordinal > 2)
        assert read.peer_advertised == (f"main-{ordinal}.main-peers.shop.svc", 9093)


def test_the_zone_of_the_pods_node_is_its_rack_and_without_one_it_has_none() -> None:
    """Nodes without zones, and Kubernetes before 1.35, give the pod no such label: the variable is empty then."""
    assert settings(2).rack == "zone-b"
    container = one(cluster_children(cluster_spec()), "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    (told,) = [it for it in container["env"] if it["name"] == "RACK"]
    assert told["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['topology.kubernetes.io/zone']"
    text = server_properties.text(owner(), cluster_spec(), replicas=3)
    environment = {"POD_INDEX": "0", "POD_NAME": "main-0", "NODE_IP": "10.0.0.1", "RACK": ""}
    assert settings_of(with_environment(parse_properties(text), environment)).rack == ""


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


SECURED = {
    "listeners": [
        {**INTERNAL, "tls": {}, "authentication": {"type": "scram-sha-512"}},
        {"name": "open", "type": "internal", "port": 9095},
        {"name": "by-hand", "type": "internal", "port": 9096, "tls": {"secretName": "mine"},
         "authentication": {"type": "tls"}},
        {"name": "plain", "type": "internal", "port": 9097, "authentication": {"type": "scram-sha-256"}},
    ],
    "authorization": {"type": "simple", "superUsers": ["admin", "CN=ops,O=shop"], "reportOnly": True},
}  # fmt: skip


def test_a_secured_cluster_starts_with_what_its_fields_say() -> None:
    """Read by the coordinator: protocols, mechanisms, files, super users."""
    read = settings(1, **SECURED)
    protocols = {name: read.security_protocol(name).name for name in ("INTERNAL", "OPEN", "BY-HAND", "PLAIN")}
    assert protocols == {"INTERNAL": "SASL_SSL", "OPEN": "PLAINTEXT", "BY-HAND": "SSL", "PLAIN": "SASL_PLAINTEXT"}
    tls = read.tls("INTERNAL")
    assert (tls.keystore_chain, tls.keystore_key) == (
        "/etc/muster-tls/internal/tls.crt",
        "/etc/muster-tls/internal/tls.key",
    )
    assert tls.client_auth.name == "NONE"
    assert read.tls("BY-HAND").client_auth.name == "REQUIRED"
    assert read.tls("BY-HAND").truststore_certificates == "/etc/muster-trust/by-hand/ca.crt"
    assert read.super_users == {"User:muster-operator", "User:admin", "User:CN=ops,O=shop"}


@pytest.mark.parametrize(
    ("mode", "dials", "accepts"),
    [
        (PeerMode("none", ("secret",)), "NONE", {"NONE", "SECRET"}),
        (PeerMode("secret", ("none",)), "SECRET", {"NONE", "SECRET"}),
        (PeerMode("secret"), "SECRET", {"SECRET"}),
        (PeerMode("tls", ("none", "secret")), "TLS", {"NONE", "SECRET", "TLS"}),
        (PeerMode("tls"), "TLS", {"TLS"}),
    ],
)
def test_peers_are_dialled_and_accepted_as_the_mode_says(mode: PeerMode, dials: str, accepts: set[str]) -> None:
    text = server_properties.text(owner(), cluster_spec(), replicas=3, peers=mode)
    environment = {"POD_INDEX": "0", "POD_NAME": "main-0", "NODE_IP": "10.0.0.1", "RACK": ""}
    read = settings_of(with_environment(parse_properties(text), environment))
    assert read.peer_security.name == dials
    assert {one.name for one in read.peer_methods} == accepts
    assert (read.peer_secret_file is not None) == ("SECRET" in accepts)
    if "TLS" in accepts:
        assert read.tls("PEER").truststore_certificates == "/etc/muster-trust/peer/ca.crt"


def test_every_file_that_a_setting_names_is_mounted_from_a_secret_that_the_kubelet_brings_up_to_date() -> None:
    """A `subPath` would not be; and every mount has its volume."""
    pod = one(cluster_children(cluster_spec(**SECURED), peers=PeerMode("tls", ("secret",))), "StatefulSet")
    container = pod["spec"]["template"]["spec"]["containers"][0]
    mounts = {item["mountPath"]: item for item in container["volumeMounts"]}
    assert not any("subPath" in item for item in mounts.values())
    text = server_properties.text(owner(), cluster_spec(**SECURED), replicas=3, peers=PeerMode("tls", ("secret",)))
    named = [value for value in parse_properties(text).values() if value.startswith("/etc/muster-")]
    assert len(named) == 10
    volumes = {item["name"]: item for item in pod["spec"]["template"]["spec"]["volumes"]}
    for path in named:
        folder, _, name = path.rpartition("/")
        assert name in [item["path"] for item in volumes[mounts[folder]["name"]]["secret"]["items"]]


def test_the_operators_user_is_made_before_the_coordinator_starts_and_its_password_is_nowhere_else() -> None:
    pod = one(cluster_children(cluster_spec(**SECURED)), "StatefulSet")["spec"]["template"]["spec"]
    (first,) = pod["initContainers"]
    added = [item for item in first["args"] if item.startswith("--add-scram")]
    assert [item.partition("=")[2].partition("=")[0] for item in added] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert all("password=${env:OPERATOR_PASSWORD}" in item for item in added)
    (password,) = [item for item in first["env"] if item["name"] == "OPERATOR_PASSWORD"]
    assert password["valueFrom"]["secretKeyRef"] == {"name": "main-operator-user", "key": "password"}
    assert not [item for item in pod["containers"][0]["env"] if item["name"] == "OPERATOR_PASSWORD"]
    assert {item["name"] for item in first["volumeMounts"]} == {"data", "config", "tmp"}
    assert "initContainers" not in one(cluster_children(cluster_spec()), "StatefulSet")["spec"]["template"]["spec"]


def test_own_ports_over_tls_are_read_by_the_coordinators_own_parser() -> None:
    read = settings(1, admin={"tls": True}, probes={"tls": True})
    assert (read.admin_tls, read.probe_tls) == (True, True)
    assert read.tls("ADMIN").keystore_chain == "/etc/muster-tls/admin/tls.crt"
    assert read.tls("PROBE").keystore_key == "/etc/muster-tls/probe/tls.key"
