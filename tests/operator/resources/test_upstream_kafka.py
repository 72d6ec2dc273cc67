"""Groups beside an existing Kafka (`spec.topics.kafka`): the settings are read by the coordinator's own parser, and the
pods have the ports, variables and files that these name."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.errors import CallerError
from muster_coordinator.properties import parse_properties, with_environment
from muster_coordinator.setting_values import Listener
from muster_coordinator.settings import Settings, key_docs, settings_of
from muster_coordinator.upstream import limits
from muster_coordinator.upstream.node_ids import parse_node_ids
from muster_operator.api import upstream_kafka as api
from muster_operator.api.client_access import Access, Authentication, AuthenticationSecret
from muster_operator.api.cluster import ClusterSpec
from muster_operator.api.errors import InvalidObject
from muster_operator.api.fields import Record
from muster_operator.api.topic_store import TopicStore
from muster_operator.api.upstream_kafka import KafkaStore, UpstreamLogin, UpstreamSecret, UpstreamTls
from muster_operator.naming import ADMIN_PORT, PEER_PORT, PROBE_PORT
from muster_operator.resources import server_properties, upstream_kafka
from muster_operator.resources.own_access import operators_access

from tests.operator.resources.owners import EXTERNAL, INTERNAL, cluster_children, cluster_spec, one, owner, secret_files
from tests.operator.resources.test_server_properties import settings

SERVERS = "kafka-0.kafka:9092,kafka-1.kafka:9092"
PLAIN_KAFKA = {"mode": "kafka", "kafka": {"bootstrapServers": SERVERS}}
ASKING = {**INTERNAL, "authentication": {"type": "scram-sha-512"}}
BY_CERTIFICATE = {"name": "by-hand", "port": 9095, "tls": {}, "authentication": {"type": "tls"}}
KNOWN = {
    "mode": "kafka",
    "kafka": {
        "bootstrapServers": SERVERS, "nodeIds": "0-2,1001",
        "authentication": {"type": "scram-sha-256", "secret": {"name": "kafka-login"}},
        "tls": {"trustedSecretName": "kafka-ca", "certificateSecretName": "kafka-client"},
    },
}  # fmt: skip
PASSING = {"passLoginsOn": True}
BY_256 = {**INTERNAL, "authentication": {"type": "scram-sha-256"}}
LOGIN = {"UPSTREAM_USERNAME": "muster", "UPSTREAM_PASSWORD": "of-the-secret"}


def beside(**kafka: Any) -> dict[str, Any]:
    return {"mode": "kafka", "kafka": {"bootstrapServers": SERVERS, **kafka}}


def pod_of(spec: ClusterSpec) -> dict[str, Any]:
    found: dict[str, Any] = one(cluster_children(spec), "StatefulSet")["spec"]["template"]["spec"]
    return found


def test_each_pod_tells_clients_its_own_name_for_every_broker() -> None:
    for ordinal in range(3):
        read = settings(ordinal, topics=PLAIN_KAFKA)
        assert (read.topics_mode, read.upstream_protocol.name) == ("kafka", "PLAINTEXT")
        assert read.upstream_servers == (("kafka-0.kafka", 9092), ("kafka-1.kafka", 9092))
        assert read.upstream_nodes.ids == tuple(range(9))
        assert read.upstream_listeners == (Listener("INTERNAL", "0.0.0.0", 20_000),)
        assert read.upstream_told == (Listener("INTERNAL", f"main-{ordinal}.main-peers.shop.svc", 20_000),)
        assert not read.upstream_knows_us
    read = settings(1, topics=PLAIN_KAFKA, clusterDomain="k8s.example")
    assert read.upstream_told[0].host == "main-1.main-peers.shop.svc.k8s.example"


def test_login_and_certificates_are_those_of_the_secrets_and_nothing_secret_is_in_an_object() -> None:
    spec = {"topics": KNOWN, "listeners": [ASKING, BY_CERTIFICATE]}
    read = settings(0, environment=LOGIN, **spec)
    assert (read.upstream_protocol.name, read.upstream_nodes.ids) == ("SASL_SSL", (0, 1, 2, 1001))
    login = read.upstream_login
    assert login is not None
    assert (login.mechanism, login.user, login.password) == ("SCRAM-SHA-256", "muster", "of-the-secret")
    assert [(one.name, one.port) for one in read.upstream_listeners] == [("INTERNAL", 20_000), ("BY-HAND", 20_200)]
    pod = pod_of(cluster_spec(**spec))
    (container,), (first,) = pod["containers"], pod["initContainers"]
    for has in (container, first):
        told = {it["name"]: it["valueFrom"] for it in has["env"]}
        assert told["UPSTREAM_USERNAME"] == {"secretKeyRef": {"name": "kafka-login", "key": "username"}}
        assert told["UPSTREAM_PASSWORD"] == {"secretKeyRef": {"name": "kafka-login", "key": "password"}}
    files = secret_files(pod)
    named = [read.upstream_truststore, read.upstream_keystore, read.upstream_key]
    assert [files[str(path)] for path in named] == [
        ("kafka-ca", "ca.crt"), ("kafka-client", "tls.crt"), ("kafka-client", "tls.key"),
    ]  # fmt: skip


def test_clients_log_in_there_and_groups_are_judged_by_its_acls_with_the_coordinators_user_above_them() -> None:
    spec = {
        "topics": {**KNOWN, "kafka": {**KNOWN["kafka"], **PASSING}}, "listeners": [BY_256],
        "authorization": {"type": "simple", "superUsers": ["admin"]},
    }  # fmt: skip
    read = settings(0, environment=LOGIN, **spec)
    assert read.upstream_passes_logins
    assert read.super_users == {"User:muster", "User:admin"}
    offered = read.sasl("INTERNAL")
    assert offered is not None
    assert (offered.elsewhere, offered.mechanisms) == (True, ("SCRAM-SHA-256",))
    parsed = cluster_spec(**spec)
    assert not parsed.has_operator_user, "nobody here could judge it"
    assert "operator-user" not in json.dumps(cluster_children(parsed))
    listener, access = operators_access("main", parsed, Access(tls=None, authentication=None))
    assert (listener.name, access.authentication) == (
        "internal", Authentication(type="scram-sha-256", secret=AuthenticationSecret(name="kafka-login")),
    )  # fmt: skip


def test_the_operator_takes_the_listener_that_takes_its_login() -> None:
    other = {"name": "other", "port": 9095, "authentication": {"type": "scram-sha-512"}}
    kafka = {**KNOWN["kafka"], **PASSING}
    for listeners, name in (([BY_256, other], "internal"), ([other, BY_256], "internal")):
        parsed = cluster_spec(topics={**KNOWN, "kafka": kafka}, listeners=listeners)
        assert operators_access("main", parsed, Access(tls=None, authentication=None))[0].name == name


@pytest.mark.parametrize("password", ["a b", "p#;=!'ö", "${env:POD_NAME}", "x" * 4_000, "\t"])
def test_a_password_arrives_as_it_is_in_the_secret(password: str) -> None:
    login = settings(
        0, environment={**LOGIN, "UPSTREAM_PASSWORD": password}, topics=KNOWN, listeners=[ASKING]
    ).upstream_login
    assert login is not None
    assert login.password == password


@pytest.mark.parametrize("password", ['of"the"secret', 'x" username="other', "of-the-secret\\"])
def test_a_password_with_a_quotation_mark_ends_the_start_and_is_not_told(password: str) -> None:
    """As the field's text says it; a backslash within is taken for an escape, and the Kafka refuses the login."""
    with pytest.raises(CallerError, match=r"upstream\.sasl\.jaas\.config") as refused:
        settings(0, environment={**LOGIN, "UPSTREAM_PASSWORD": password}, topics=KNOWN, listeners=[ASKING])
    assert "secret" not in str(refused.value)
    assert "other" not in str(refused.value)


_LOGINS = (None, "plain", "scram-sha-256", "scram-sha-512")
_TLS: tuple[dict[str, str] | None, ...] = (
    None, {}, {"trustedSecretName": "ca"}, {"certificateSecretName": "client"},
    {"trustedSecretName": "ca", "certificateSecretName": "client"},
)  # fmt: skip
_LISTENERS = ([INTERNAL], [ASKING], [BY_CERTIFICATE], [ASKING, {"name": "open", "port": 9096}])


def started(spec: ClusterSpec) -> Settings:
    """Pod 0 of a spec that no rule has seen."""
    text = server_properties.text(owner(), spec, replicas=3)
    variables = {"POD_INDEX": "0", "POD_NAME": "main-0", "NODE_IP": "10.0.0.1", "RACK": "", **LOGIN}
    return settings_of(with_environment(parse_properties(text), variables))


def test_the_rules_refuse_exactly_what_the_coordinator_would_not_start_with() -> None:
    """A listener that asks nobody while the coordinators are somebody there, PLAIN in the open, an authorizer."""
    taken, refused = 0, 0
    for login, tls, listeners in itertools.product(_LOGINS, _TLS, _LISTENERS):
        kafka: dict[str, Any] = {} if tls is None else {"tls": tls}
        if login is not None:
            kafka["authentication"] = {"type": login, "secret": {"name": "kafka-login"}}
        try:
            spec = cluster_spec(topics=beside(**kafka), listeners=listeners)
        except InvalidObject as error:
            assert error.message.startswith(("`listeners` must all have", "`tls` must be set"))
            with pytest.raises(CallerError, match=r"asks nobody who he is|shows the password"):
                started(unseen(login, tls, listeners))
            refused += 1
        else:
            read = started(spec)
            assert read.upstream_knows_us == (login is not None or "certificateSecretName" in (tls or {}))
            assert (read.upstream_login is None) == (login is None)
            assert read.upstream_protocol.tls == (tls is not None)
            taken += 1
    assert (taken, refused) == (12 + 4 + 28, 4 + 32)


def unseen(login: str | None, tls: dict[str, str] | None, listeners: Any, *, passes: bool = False) -> ClusterSpec:
    """What no rule has seen."""
    store = KafkaStore(
        bootstrap_servers=SERVERS,
        authentication=None if login is None else UpstreamLogin(type=login, secret=UpstreamSecret(name="s")),
        tls=None if tls is None else Record(UpstreamTls).parse(tls, ""),
        pass_logins_on=passes,
    )
    return replace(cluster_spec(listeners=listeners), topics=TopicStore(mode="kafka", kafka=store))


def test_where_logins_are_passed_on_they_refuse_what_it_would_not_start_with_and_the_operator_not_log_in_to() -> None:
    taken = refused = not_the_operator = 0
    for login, tls, listeners in itertools.product(
        _LOGINS, _TLS, (*_LISTENERS, [BY_256], [ASKING, {**BY_256, "name": "b", "port": 9096}])
    ):
        kafka: dict[str, Any] = {**PASSING, **({} if tls is None else {"tls": tls})}
        if login is not None:
            kafka["authentication"] = {"type": login, "secret": {"name": "kafka-login"}}
        try:
            spec = cluster_spec(topics=beside(**kafka), listeners=listeners)
        except InvalidObject:
            try:
                started(unseen(login, tls, listeners, passes=True))
            except CallerError:
                refused += 1
            else:
                own = {one.get("authentication", {}).get("type") for one in listeners}
                assert login not in own, "a coordinator would start, and the operator not get in"
                not_the_operator += 1
        else:
            assert started(spec).upstream_passes_logins
            taken += 1
    assert taken == 5 * 4
    assert refused > not_the_operator > 0


@pytest.mark.parametrize("topics", [PLAIN_KAFKA, KNOWN])
def test_our_acls_are_in_front_where_logins_are_not_passed_on_and_the_operator_has_its_own_user(topics: Any) -> None:
    spec = {"topics": topics, "listeners": [ASKING], "authorization": {"type": "simple", "superUsers": ["admin"]}}
    read = settings(0, environment=LOGIN, **spec)
    assert read.upstream_judges
    parsed = cluster_spec(**spec)
    assert parsed.has_operator_user, "it is judged here, as without that Kafka"
    own = settings(0, listeners=[ASKING], authorization=spec["authorization"]).super_users
    assert read.super_users == own
    assert "User:muster" not in own, "who the coordinators are there is nobody here"


def test_a_listener_from_outside_is_refused_in_words() -> None:
    with pytest.raises(InvalidObject, match="`listeners` may only be of type `internal` beside"):
        cluster_spec(topics=PLAIN_KAFKA, listeners=[INTERNAL, EXTERNAL])


def test_no_setting_about_that_kafka_may_be_in_config_beside_topics() -> None:
    """Every key that the coordinator knows of them, whatever the mode; without `topics` they are the user's."""
    keys = [doc.key for doc in key_docs() if doc.key.startswith("upstream.")]
    assert len(keys) == 13
    for key, topics in itertools.product([*keys, "topics.mode"], [PLAIN_KAFKA, {"mode": "none"}, {}]):
        with pytest.raises(InvalidObject, match=r"`config` may not hold `topics\.mode`"):
            cluster_spec(topics=topics, config={key: "x"})
    passing = {**KNOWN, "kafka": {**KNOWN["kafka"], **PASSING}}
    written = upstream_kafka.settings(cluster_spec(topics=passing, listeners=[BY_256]), host="h")
    assert set(written) == {*keys} - {"upstream.coordinator.node.id.base", "upstream.ssl.key.password"}
    by_hand = {"topics.mode": "kafka", "upstream.bootstrap.servers": "k:1", "upstream.listeners": "INTERNAL://h:20000"}
    assert settings(0, config=by_hand).topics_mode == "kafka"


# -- ports -------------------------------------------------------------------------------------------------------------

OWN = {PEER_PORT, PROBE_PORT, ADMIN_PORT}
_PORT = st.one_of(st.integers(1_024, 65_535), st.integers(19_990, 24_010)).filter(lambda port: port not in OWN)


def listed(ports: list[int]) -> list[dict[str, Any]]:
    return [{"name": f"l{index}", "port": port} for index, port in enumerate(ports)]


@given(ports=st.lists(_PORT, min_size=1, max_size=8, unique=True), count=st.integers(1, 200))
def test_no_port_meets_another_and_each_is_where_the_coordinator_listens(ports: list[int], count: int) -> None:
    spec = {"topics": beside(nodeIds=f"0-{count - 1}"), "listeners": listed(ports)}
    parsed = cluster_spec(**spec)
    found = upstream_kafka.ports(parsed)
    assert list(found) == [one["name"] for one in spec["listeners"]]
    numbers = [number for each in found.values() for number in each]
    assert len({*numbers, *ports, *OWN}) == len(numbers) + len(ports) + len(OWN)
    assert all(20_000 <= number < 24_000 for number in numbers)
    read = settings(0, **spec)
    bound = [range(one.port, one.port + len(read.upstream_nodes.ids)) for one in read.upstream_listeners]
    assert bound == list(found.values())
    (container,) = pod_of(parsed)["containers"]
    assert sorted(one["containerPort"] for one in container["ports"]) == sorted([*numbers, *ports, *OWN])


def test_more_brokers_or_a_further_listener_move_no_port() -> None:
    few = upstream_kafka.ports(cluster_spec(topics=beside(nodeIds="0"), listeners=listed([9092, 9095])))
    many = upstream_kafka.ports(cluster_spec(topics=beside(nodeIds="0-199"), listeners=listed([9092, 9095, 9096])))
    assert {name: each[0] for name, each in few.items()} == {"l0": 20_000, "l1": 20_200}
    assert {name: each[0] for name, each in many.items()} == {"l0": 20_000, "l1": 20_200, "l2": 20_400}
    assert (len(few["l0"]), len(many["l0"])) == (1, 200)


def test_a_listener_within_a_block_costs_that_block() -> None:
    found = upstream_kafka.ports(cluster_spec(topics=PLAIN_KAFKA, listeners=listed([20_199, 20_400])))
    assert {name: each[0] for name, each in found.items()} == {"l0": 20_200, "l1": 20_600}


def test_the_most_listeners_and_brokers_are_a_statefulset_that_etcd_takes() -> None:
    """1,600 ports. A request to etcd may have 1.5 MiB, and the API server notes each port again as a managed field."""
    spec = cluster_spec(topics=beside(nodeIds="0-199"), listeners=listed(list(range(20_000, 21_600, 200))))
    statefulset = one(cluster_children(spec), "StatefulSet")
    (container,) = statefulset["spec"]["template"]["spec"]["containers"]
    assert len(container["ports"]) == 8 + 3 + 1_600
    assert len(json.dumps(statefulset)) < 256 * 1024


def reached(policy: dict[str, Any], peer: dict[str, Any] | None) -> set[int]:
    """Ports that this peer reaches, as Kubernetes' NetworkPolicyPort defines it; None: anybody."""
    return {
        number
        for rule in policy["spec"]["ingress"]
        if "from" not in rule or peer in rule["from"]
        for port in rule["ports"]
        for number in range(port["port"], port.get("endPort", port["port"]) + 1)
    }


def test_who_reaches_a_listener_reaches_its_brokers_and_nobody_else_does() -> None:
    clients = [{"ipBlock": {"cidr": "10.9.0.0/16"}}]
    spec = cluster_spec(topics=KNOWN, listeners=[ASKING, BY_CERTIFICATE], networkPolicy={"clients": clients})
    policy = one(cluster_children(spec), "NetworkPolicy")
    brokers = {*range(20_000, 20_004), *range(20_200, 20_204)}
    client_ports = {9092, 9095, *brokers}
    assert reached(policy, clients[0]) == client_ports | {PROBE_PORT}
    assert reached(policy, {"ipBlock": {"cidr": "10.8.0.0/16"}}) == {PROBE_PORT}
    operator, consumers, own = policy["spec"]["ingress"][1]["from"]
    assert reached(policy, operator) == client_ports | {PROBE_PORT, ADMIN_PORT}
    assert reached(policy, consumers) == client_ports | {PROBE_PORT}
    assert reached(policy, own) == client_ports | {PROBE_PORT, ADMIN_PORT, PEER_PORT}
    everybody = one(cluster_children(cluster_spec(topics=KNOWN, listeners=[ASKING])), "NetworkPolicy")
    assert reached(everybody, None) == {9092, *range(20_000, 20_004), PROBE_PORT}


def test_without_an_existing_kafka_nothing_of_it_is_in_the_pods() -> None:
    for topics in ({}, {"topics": {"mode": "none"}}):
        assert upstream_kafka.ports(cluster_spec(**topics)) == {}
        text = json.dumps(cluster_children(cluster_spec(**topics)))
        assert "upstream" not in text.lower()
        assert "endPort" not in text


# -- ids and addresses -------------------------------------------------------------------------------------------------


def test_limits_are_the_coordinators() -> None:
    (base,) = [doc.default for doc in key_docs() if doc.key == "upstream.coordinator.node.id.base"]
    assert (api.BOOTSTRAP_MAX, api.NODES_MAX) == (limits.BOOTSTRAP_MAX, limits.NODES_MAX)
    assert int(base) >= 10**api.NODE_ID_DIGITS_MAX, "no id reaches the coordinators' own"


_IDS = st.one_of(
    st.integers(0, 999_999).map(str), st.tuples(st.integers(0, 400), st.integers(0, 400)).map("{0[0]}-{0[1]}".format)
)


@given(parts=st.lists(_IDS, min_size=1, max_size=20))
def test_ids_are_taken_as_the_coordinator_takes_them(parts: list[str]) -> None:
    text = ",".join(parts)
    try:
        expected = parse_node_ids(text).ids
    except ValueError:
        with pytest.raises(InvalidObject, match=r"topics\.kafka\.nodeIds"):
            cluster_spec(topics=beside(nodeIds=text))
        return
    parsed = cluster_spec(topics=beside(nodeIds=text))
    assert parsed.topics is not None
    assert parsed.topics.kafka is not None
    assert parsed.topics.kafka.ids == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must have 1 to"), ("a", "must be ids of brokers"), ("0-", "must be ids"), ("-1", "must be ids"),
        ("0, 1", "must be ids"), ("1000000", "must be ids"), (",".join(map(str, range(21))), "must be ids"),
        ("3-1", "3-1 ends before it begins"), ("0-3,2", "may not hold an id twice"), ("0-200", "at most 200 ids"),
        ("0-99,100-200", "at most 200 ids"), ("0-999999", "at most 200 ids"), (0, "must be a string"),
    ],
)  # fmt: skip
def test_ids_that_cannot_be(text: Any, why: str) -> None:
    with pytest.raises(InvalidObject, match=why):
        cluster_spec(topics=beside(nodeIds=text))


def test_the_longest_ids_and_the_most_addresses_are_taken() -> None:
    ids = ",".join(f"{first}-{first + 9}" for first in range(999_790, 999_990, 10))
    servers = ",".join(f"{'h' * 80}{number}:65535" for number in range(20))
    read = settings(0, topics={"mode": "kafka", "kafka": {"bootstrapServers": servers, "nodeIds": ids}})
    assert (len(read.upstream_nodes.ids), len(read.upstream_servers)) == (200, 20)


@pytest.mark.parametrize(
    "servers",
    ["", "kafka", "kafka:0", "kafka:65536", "kafka:09092", "a:1,,b:1", "a:1, b:1", ",".join(["a:1"] * 21), "a:1,"],
)
def test_addresses_that_cannot_be(servers: str) -> None:
    with pytest.raises(InvalidObject, match=r"topics\.kafka\.bootstrapServers"):
        cluster_spec(topics=beside(bootstrapServers=servers))
