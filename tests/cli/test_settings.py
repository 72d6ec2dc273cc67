"""Settings: Kafka's names and defaults, nothing unknown, nothing half understood."""

import re
from pathlib import Path

import pytest
from muster_coordinator.controller.image import PEER_LISTENER
from muster_coordinator.links.peer_auth import Method
from muster_coordinator.node_settings import node_settings
from muster_coordinator.properties import PropertiesError, format_properties, parse_properties, with_environment
from muster_coordinator.sasl_settings import of_listener
from muster_coordinator.security.limits import ROLES_GIVEN_MAX
from muster_coordinator.security.protocol import SecurityProtocol
from muster_coordinator.security.roles import Role
from muster_coordinator.security.session import ListenerSasl
from muster_coordinator.setting_values import Listener
from muster_coordinator.settings import ConfigError, Settings, key_docs, load_settings, settings_of

from tests.cli import configuration_doc

MINIMAL = {"node.id": "0", "log.dirs": "/data"}


def made(**keys: str) -> Settings:
    return settings_of(MINIMAL | {key.replace("_", "."): value for key, value in keys.items()})


# -- the file ----------------------------------------------------------------------------------------------------------


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    text = """
# comment
! comment too
a=1
b : two words\t
c   3
d.long = one,\\
         two
e=back\\\\slash \\u00e9
f=
g=has=equals:and:colons
"""
    assert parse_properties(text) == {
        "a": "1",
        "b": "two words",
        "c": "3",
        "d.long": "one,two",
        "e": "back\\slash é",
        "f": "",
        "g": "has=equals:and:colons",
    }


@pytest.mark.parametrize(("text", "why"), [("a=1\na=2", "line 2: a is set twice"), ("ok=1\n\n=x", "line 3: no key")])
def test_a_file_that_hides_a_mistake_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(PropertiesError, match=why):
        parse_properties(text)


@pytest.mark.parametrize("value", ["", "plain", " leading", "back\\slash", "two\nlines", "a=b:c", "C:\\dir"])
def test_what_is_written_is_read_back(value: str) -> None:
    assert parse_properties(format_properties({"key": value}, "a comment")) == {"key": value}


# -- what comes from the environment -----------------------------------------------------------------------------------


def test_a_variable_may_stand_anywhere_in_a_value_and_more_than_once() -> None:
    """The operator writes one file for all pods: number, name and node address differ (KIP-887's syntax)."""
    values = {"node.id": "${env:POD_INDEX}", "a": "X://${env:NODE_IP}:3109${env:POD_INDEX}", "plain": "$ {env} $(A)"}
    assert with_environment(values, {"POD_INDEX": "2", "NODE_IP": "10.1.2.3", "OTHER": "x"}) == {
        "node.id": "2",
        "a": "X://10.1.2.3:31092",
        "plain": "$ {env} $(A)",
    }


def test_an_empty_variable_is_set_and_what_it_holds_is_not_read_again() -> None:
    assert with_environment({"a": "[${env:E}]", "b": "${env:F}"}, {"E": "", "F": "${env:E}"}) == {
        "a": "[]",
        "b": "${env:E}",
    }


def test_a_variable_that_is_not_set_is_named_with_its_key() -> None:
    with pytest.raises(PropertiesError, match=r"node\.id: the environment variable POD_INDEX is not set"):
        with_environment({"node.id": "${env:POD_INDEX}"}, {"PATH": "/bin"})


def test_another_provider_is_left_as_it_is() -> None:
    """As in Kafka, where a provider that is not configured leaves the text alone."""
    assert with_environment({"a": "${file:/secret:key}"}, {}) == {"a": "${file:/secret:key}"}


def test_a_settings_file_takes_the_environment_that_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("node.id=${env:POD_INDEX}\nlog.dirs=/data\n")
    assert load_settings(path, {"POD_INDEX": "4"}).node_id == 4
    assert load_settings(path, {"POD_INDEX": "4"}).texts["node.id"] == "4", "DescribeConfigs tells what counts"
    with pytest.raises(ConfigError, match=r"server\.properties: node\.id: .* POD_INDEX is not set"):
        load_settings(path, {})
    with pytest.raises(ConfigError, match=r"node\.id=x: not a whole number"):
        load_settings(path, {"POD_INDEX": "x"})


# -- keys --------------------------------------------------------------------------------------------------------------


def test_defaults_are_kafkas_where_kafka_has_the_setting() -> None:
    settings = made()
    assert settings.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert (settings.offsets_partitions, settings.offsets_segment_bytes) == (50, 104_857_600)
    assert (settings.group_session_timeout_min_ms, settings.group_session_timeout_max_ms) == (6_000, 1_800_000)
    assert settings.group_initial_rebalance_delay_ms == 3_000
    assert (settings.offsets_retention_minutes, settings.offsets_retention_check_ms) == (10_080, 600_000)
    assert settings.offset_metadata_chars_max == 4_096
    assert settings.connections_idle_ms == 600_000
    assert settings.shutdown_grace_ms == 60_000


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown key group\.max\.siz \(did you mean group\.max\.size\?\)"):
        settings_of(MINIMAL | {"group.max.siz": "5"})


@pytest.mark.parametrize("missing", sorted(MINIMAL))
def test_a_key_that_must_be_set_is_named(missing: str) -> None:
    with pytest.raises(ConfigError, match=f"{missing} must be set"):
        settings_of({key: value for key, value in MINIMAL.items() if key != missing})


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("node.id", "-1", "not between 0"),
        ("node.id", "zero", "not a whole number"),
        ("node.id", "1_0", "not a whole number"),
        ("log.dirs", "/a,/b", "one folder only"),
        ("offsets.topic.num.partitions", "0", "not between 1"),
        ("num.partitions", "1999", "not between 1 and 1998"),
        ("default.replication.factor", "2", "not 1, 3 or 5"),
        ("default.replication.factor", "-1", "not 1, 3 or 5"),
        ("default.replication.factor", "03", "not 1, 3 or 5"),
        ("broker.rack", "r" * 250, "longer than 249 characters"),
        ("listeners", "", "no listener"),
        ("listeners", "127.0.0.1:9092", "NAME://host:port"),
        ("listeners", "A://h:1,A://h:2", "comes twice"),
        ("listeners", "A://h:70000", "not host:port"),
        ("listeners", "A://fe80::1:9092", "brackets"),
        ("listener.security.protocol.map", "PLAINTEXT:NOTHING", "NOTHING is none of PLAINTEXT, SSL"),
        ("listener.security.protocol.map", "PLAINTEXT:TLS", "TLS is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("controller.quorum.voters", "0@h:1,1@h:2", "1, 3 or 5"),
        ("controller.quorum.voters", "0@h:1,0@h:2,1@h:3", "an id comes twice"),
        ("controller.quorum.voters", "h:1", "id@host:port"),
        ("topics.mode", "disk", "not one of embedded, kafka, none, redis"),
        ("upstream.node.ids", "3-1", "ends before it begins"),
        ("upstream.bootstrap.servers", "kafka", "not host:port"),
        ("upstream.bootstrap.servers", ",".join(["kafka:9092"] * 21), "more than 20 addresses"),
        ("upstream.listeners", "9092", "not NAME://host:port"),
        ("upstream.coordinator.node.id.base", "999", "not between 1000 and 2000000000"),
        ("redis.prefix", "{a}", "not 1 to 100 letters"),
        ("redis.durability", "disk", "not one of"),
        ("redis.connections.max", "1", "not between 2 and 1000"),
        ("muster.internal.topics.cleanup.policy", "compact,delete", "not one of compact, delete"),
        ("delete.topic.enable", "yes", "neither true nor false"),
        ("muster.log.level", "loud", "not one of"),
    ],
)
def test_a_bad_value_is_refused_and_its_key_named(key: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        settings_of(MINIMAL | {key: value})
    assert str(error.value).startswith(f"{key}={value}: ")


# -- relations ---------------------------------------------------------------------------------------------------------


JOINS = {
    "controller.quorum.voters": "0@one:9093,1@two:9093,2@three:9093",
    "node.id": "7",
    "muster.cluster.id": "c" * 22,
    "muster.peer.listener": "0.0.0.0:9093",
    "muster.peer.advertised": "seven:9093",
}


def test_a_replica_that_is_no_voter_joins() -> None:
    settings = settings_of(MINIMAL | JOINS)
    assert settings.joins
    assert settings.peer_bind == ("0.0.0.0", 9093)
    node = node_settings(settings)
    assert [(e.listener, e.host, e.port) for e in node.endpoints][-1] == (PEER_LISTENER, "seven", 9093)
    voter = settings_of(MINIMAL | JOINS | {"node.id": "1"})
    assert not voter.joins
    assert PEER_LISTENER not in {endpoint.listener for endpoint in node_settings(voter).endpoints}


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("muster.cluster.id", "", "to join a formed cluster, set muster.cluster.id"),
        ("muster.peer.listener", "", "muster.peer.listener is needed"),
        ("muster.peer.advertised", "", "peers cannot connect to 0.0.0.0"),
        ("muster.peer.advertised", "0.0.0.0:9093", "peers cannot connect to 0.0.0.0"),
    ],
)
def test_what_a_replica_that_joins_must_say(key: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        settings_of(MINIMAL | JOINS | {key: value})


def test_no_listener_of_clients_can_have_the_name_of_the_peers_endpoint() -> None:
    settings = settings_of(MINIMAL | {"listeners": f"{PEER_LISTENER}://127.0.0.1:9092"})
    assert PEER_LISTENER not in {listener.name for listener in settings.advertised_listeners}


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"controller.quorum.voters": "1@h:1,2@h:2,3@h:3"}, "node.id=0 is not among"),
        ({"offsets.topic.replication.factor": "3"}, "there are 1 voters"),
        ({"advertised.listeners": "OTHER://h:1"}, "names OTHER"),
        ({"listener.security.protocol.map": "OTHER:PLAINTEXT"}, "names OTHER"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to 0.0.0.0"),
        ({"group.min.session.timeout.ms": "2000000"}, "above group.max.session.timeout.ms"),
        ({"muster.raft.election.timeout.min.ms": "2000"}, "not below"),
        ({"muster.raft.heartbeat.ms": "500"}, "above a third"),
        ({"muster.wal.max.bytes": "300000"}, "below four times"),
        ({"num.partitions": "1950"}, "more than the 2000 Raft groups that a cluster may have"),
        ({"num.partitions": "1000", "offsets.topic.num.partitions": "1000"}, "more than the 2000 Raft groups"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(keys: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        settings_of(MINIMAL | keys)


def test_a_topic_may_take_all_the_room_that_there_is() -> None:
    assert settings_of(MINIMAL | {"broker.rack": "r" * 249}).rack == "r" * 249
    assert settings_of(MINIMAL | {"num.partitions": "1949"}).num_partitions == 1_949
    assert settings_of(MINIMAL | {"num.partitions": "1998", "offsets.topic.num.partitions": "1"})


def test_listeners_have_names_and_each_its_advertised_address() -> None:
    settings = settings_of(
        MINIMAL
        | {
            "listeners": "internal://0.0.0.0:9092, EXTERNAL://[::1]:9094",
            "advertised.listeners": "INTERNAL://pod-0.peers:9092",
        }
    )
    assert settings.listeners == (Listener("INTERNAL", "0.0.0.0", 9092), Listener("EXTERNAL", "::1", 9094))
    assert settings.advertised_listeners == (
        Listener("INTERNAL", "pod-0.peers", 9092),
        Listener("EXTERNAL", "::1", 9094),
    )


def test_a_listener_that_the_map_does_not_name_is_plaintext() -> None:
    settings = made(
        **{"listeners": "CLIENTS://:1,OTHER://:2", "listener.security.protocol.map": "other:plaintext"},
    )
    assert settings.protocol_map == {"OTHER": SecurityProtocol.PLAINTEXT}
    assert [settings.security_protocol(name) for name in ("CLIENTS", "OTHER")] == [SecurityProtocol.PLAINTEXT] * 2


def secure(**keys: str) -> Settings:
    both = {"listeners": "IN://:1,OUT://:2", "listener.security.protocol.map": "OUT:SASL_PLAINTEXT"}
    return settings_of(MINIMAL | both | keys)


def test_a_sasl_listener_offers_what_it_says_or_what_all_do() -> None:
    one = secure(**{"sasl.enabled.mechanisms": "SCRAM-SHA-512", "connections.max.reauth.ms": "60000"})
    assert one.sasl("IN") is None
    assert one.sasl("OUT") == ListenerSasl(mechanisms=("SCRAM-SHA-512",), reauth_ms={"SCRAM-SHA-512": 60_000})
    own = secure(
        **{
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.out.sasl.enabled.mechanisms": "SCRAM-SHA-256, SCRAM-SHA-512",
            "listener.name.out.connections.max.reauth.ms": "5000",
            "listener.name.out.scram-sha-256.connections.max.reauth.ms": "7",
        }
    )
    assert own.sasl("OUT") == ListenerSasl(
        mechanisms=("SCRAM-SHA-256", "SCRAM-SHA-512"), reauth_ms={"SCRAM-SHA-256": 7, "SCRAM-SHA-512": 5_000}
    )


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="canary";'


def test_plain_is_offered_where_the_connection_is_encrypted_and_its_users_are_no_config_that_is_shown() -> None:
    texts = {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": JAAS}
    offered = of_listener("OUT", SecurityProtocol.SASL_SSL, texts, (), 0)
    assert offered is not None
    assert offered.plain_users == {"bob": "canary"}
    keys = {"sasl.enabled.mechanisms": "SCRAM-SHA-512", "listener.name.out.plain.sasl.jaas.config": JAAS}
    settings = secure(**keys)
    assert "canary" not in repr(settings)
    assert "canary" not in repr(settings.texts)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "OUT has protocol SASL_PLAINTEXT, but sasl.enabled.mechanisms names no mechanism"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "OUT offers PLAIN, which sends passwords as they are"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI (Kerberos) is not supported"),
        (
            {"sasl.enabled.mechanisms": "SCRAM-SHA-1"},
            "SCRAM-SHA-1 is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
        ({"listener.name.out.sasl.enabled.mechanisms": "NO"}, "listener.name.out.sasl.enabled.mechanisms: NO is none"),
        (
            {"listener.name.in.sasl.enabled.mechanisms": "PLAIN"},
            "listener.name.in.sasl.enabled.mechanisms: the listener",
        ),
        ({"listener.name.other.sasl.enabled.mechanisms": "PLAIN"}, "about other, which is not in listeners"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "OUT offers OAUTHBEARER: sasl.oauthbearer.jwks.endpoint.url is"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "http://keys"}, "neither https:// nor file:///"),
        ({"sasl.oauthbearer.clock.skew.seconds": "61"}, "not between 0 and 60"),
        ({"listener.name.out.sasl.enabled": "PLAIN"}, "unknown key listener.name.out.sasl.enabled"),
        ({"listener.name.out.connections.max.reauth.ms": "-1"}, "reauth.ms: not between 0 and"),
        ({"listener.name.out.plain.sasl.jaas.config": "canary"}, "plain.sasl.jaas.config: not a login module"),
    ],
)
def test_what_a_sasl_listener_cannot_be_is_said_without_a_secret(keys: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        secure(
            **({"sasl.enabled.mechanisms": "SCRAM-SHA-512"} if keys and "sasl.enabled.mechanisms" not in keys else {}),
            **keys,
        )
    assert said in str(caught.value)
    assert "canary" not in str(caught.value)


def test_an_empty_host_is_loopback_and_not_every_interface() -> None:
    assert made(listeners="PLAINTEXT://:9092").listeners[0].host == "127.0.0.1"


def test_a_replica_without_voters_is_alone() -> None:
    assert list(made().peers) == [0]


def test_the_peer_address_is_the_own_voters_unless_a_bind_address_is_named() -> None:
    voters = {"controller.quorum.voters": "0@a.peers:9093,1@b.peers:9093,2@[fd00::3]:9093"}
    assert settings_of(MINIMAL | voters).peer_bind == ("a.peers", 9093)
    assert settings_of(MINIMAL | voters).peers[2] == ("fd00::3", 9093)
    assert settings_of(MINIMAL | voters | {"muster.peer.listener": "0.0.0.0:9093"}).peer_bind == ("0.0.0.0", 9093)


def test_the_only_replica_of_a_cluster_listens_for_peers_where_its_configuration_says_so() -> None:
    """So that others can join it (ADR 45)."""
    assert not settings_of(MINIMAL).listens_for_peers
    alone = MINIMAL | {"controller.quorum.voters": f"{MINIMAL['node.id']}@one:9093"}
    assert settings_of(alone).listens_for_peers
    assert settings_of(MINIMAL | {"muster.peer.listener": "0.0.0.0:9093"}).listens_for_peers


def test_a_file_that_cannot_be_read_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_settings(tmp_path / "absent.properties")
    bad = tmp_path / "bad.properties"
    bad.write_text("node.id=0\nnode.id=1\n")
    with pytest.raises(ConfigError, match=r"line 2: node\.id is set twice"):
        load_settings(bad)


def test_the_configuration_page_is_what_the_settings_say() -> None:
    assert configuration_doc.FILE.read_text("utf-8") == configuration_doc.text(), configuration_doc.__doc__


KAFKAS = {
    "replica.selector.class",
    "max.incremental.fetch.session.cache.slots",
    "transaction.max.timeout.ms",
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    "transaction.state.log.num.partitions",
    "transaction.state.log.segment.bytes",
    "transactional.id.expiration.ms",
    "allow.everyone.if.no.acl.found",
    "authorizer.class.name",
    "super.users",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "advertised.listeners",
    "auto.create.topics.enable",
    "broker.rack",
    "connections.max.idle.ms",
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.sub.claim.name",
    "controller.quorum.voters",
    "default.replication.factor",
    "delete.topic.enable",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "listener.security.protocol.map",
    "listeners",
    "log.dirs",
    "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.type",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.delete.retention.ms",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio",
    "log.cleaner.min.compaction.lag.ms",
    "log.cleanup.policy",
    "log.retention.bytes",
    "log.retention.check.interval.ms",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.hours",
    "log.roll.ms",
    "log.segment.bytes",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "quota.window.num",
    "quota.window.size.seconds",
    "controller.quota.window.num",
    "controller.quota.window.size.seconds",
    "message.max.bytes",
    "min.insync.replicas",
    "node.id",
    "num.partitions",
    "offset.metadata.max.bytes",
    "offsets.commit.timeout.ms",
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "offsets.topic.segment.bytes",
}
"""Names of Kafka's broker settings, with Kafka's meaning."""


def test_every_key_is_documented_once_and_ours_say_that_they_are() -> None:
    keys = [row.key for row in key_docs()]
    assert len(set(keys)) == len(keys) > 40
    unknown = (
        {key for key in keys if not key.startswith(("muster.", "redis.", "upstream."))}
        - KAFKAS
        - {"topics.mode", "shutdown.grace.ms"}
    )
    assert not unknown, "a key that Kafka has not begins with muster., redis. or upstream.; others are named in KAFKAS"


# -- TLS ---------------------------------------------------------------------------------------------------------------

ENCRYPTED = {
    "listeners": "INSIDE://127.0.0.1:1,OUTSIDE://127.0.0.1:2",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SSL",
    "ssl.keystore.location": "/all.pem",
    "ssl.key.password": "canary-1",
}


def test_a_listeners_own_keys_stand_before_those_of_all() -> None:
    found = settings_of(
        MINIMAL
        | ENCRYPTED
        | {
            "listener.name.outside.ssl.keystore.certificate.chain": "/tls.crt",
            "listener.name.outside.ssl.keystore.key": "/tls.key",
            "listener.name.outside.ssl.client.auth": "required",
            "listener.name.outside.ssl.truststore.location": "/ca.crt",
            "listener.name.outside.ssl.truststore.password": "canary-2",
            "ssl.enabled.protocols": "TLSv1.3",
        }
    )
    outside, inside = found.tls("OUTSIDE"), found.tls("INSIDE")
    assert (outside.keystore_chain, outside.keystore_key) == ("/tls.crt", "/tls.key")
    assert (outside.client_auth.value, inside.client_auth.value) == ("required", "none")
    assert (inside.keystore_location, outside.protocols) == (Path("/all.pem"), ("TLSv1.3",))
    assert (found.security_protocol("OUTSIDE"), found.security_protocol("INSIDE")) == (
        SecurityProtocol.SSL,
        SecurityProtocol.PLAINTEXT,
    )
    for shown in (repr(found), repr(outside), str(dict(found.texts))):
        assert "canary" not in shown


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"ssl.keystore.type": "JKS"}, "keytool -importkeystore"),
        ({"listener.name.outside.ssl.truststore.type": "jks"}, "keytool -importkeystore"),
        ({"ssl.keystore.type": "DER"}, "not one of PEM, PKCS12"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "not safe"),
        ({"ssl.enabled.protocols": ""}, "not safe"),
        ({"ssl.client.auth": "maybe"}, "not one of none, requested, required"),
        ({"ssl.client.auth": "required"}, "listener OUTSIDE: ssl.client.auth=required needs ssl.truststore.location"),
        ({"ssl.principal.mapping.rules": "DEFAULT/L"}, "invalid rule 'DEFAULT/L'"),
        ({"ssl.keystore.location": ""}, "listener OUTSIDE needs a key"),
        ({"listener.name.nobody.ssl.client.auth": "none"}, "listener.name.nobody. names a listener that is not"),
        ({"listener.name.outside.node.id": "1"}, "unknown key listener.name.outside.node.id"),
    ],
)
def test_a_key_of_tls_that_cannot_be_meant_is_refused(keys: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why.replace("(", r"\(")):
        settings_of(MINIMAL | ENCRYPTED | keys)


# -- peers -------------------------------------------------------------------------------------------------------------

VOTERS = {"controller.quorum.voters": "0@broker-0:9093,1@broker-1:9093,2@broker-2:9093"}


def test_peers_are_open_until_a_setting_closes_them() -> None:
    assert not settings_of(MINIMAL).peers_open, "nobody is let in"
    for host, is_open in (("localhost", False), ("127.0.0.2", False), ("[::1]", False), ("broker-0", True)):
        assert settings_of(MINIMAL | {"muster.peer.listener": f"{host}:9093"}).peers_open is is_open
    assert settings_of(MINIMAL | VOTERS).peers_open
    assert settings_of(MINIMAL | VOTERS | {"muster.peer.listener": "0.0.0.0:9093"}).peers_open
    secret = {"muster.peer.security": "secret", "muster.peer.secret.file": "/s"}
    assert not settings_of(MINIMAL | VOTERS | secret).peers_open
    both = settings_of(MINIMAL | VOTERS | secret | {"muster.peer.security.accept": "none"})
    assert both.peers_open
    assert both.peer_methods == {Method.NONE, Method.SECRET}
    assert both.peer_address == ("broker-0", 9093)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"muster.peer.security": "secret"}, "needs muster.peer.secret.file"),
        ({"muster.peer.security.accept": "none,secret"}, "needs muster.peer.secret.file"),
        ({"muster.peer.security": "tls"}, "listener PEER needs a key"),
        ({"muster.peer.security": "mtls"}, "not of none, secret, tls"),
    ],
)
def test_peers_that_could_not_be_known_are_refused(keys: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        settings_of(MINIMAL | VOTERS | keys)


def test_a_listener_may_encrypt_and_ask_who_its_clients_are() -> None:
    keys = ENCRYPTED | {
        "listener.security.protocol.map": "OUTSIDE:SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    found = settings_of(MINIMAL | keys)
    assert found.sasl("OUTSIDE") is not None
    assert found.tls("OUTSIDE").has_key


OVER_TLS = {
    "muster.admin.tls": "true",
    "listener.name.admin.ssl.keystore.location": "/admin.pem",
    "listener.name.admin.ssl.truststore.location": "/ca.pem",
    "listener.name.admin.ssl.client.auth": "requested",
}
PROVIDER = {
    "sasl.oauthbearer.jwks.endpoint.url": "https://keys",
    "sasl.oauthbearer.expected.issuer": "https://issuer",
    "muster.admin.oidc.audience": "muster-admin",
    "muster.admin.oidc.roles": "admin=ops",
}


def test_the_admin_api_is_open_for_whoever_has_a_role_and_encrypted_by_its_own_keys_or_those_of_all() -> None:
    assert not settings_of(MINIMAL).admin_is_open
    assert not settings_of(MINIMAL | OVER_TLS).admin_is_open, "nobody has a role"
    for keys in (
        {"muster.admin.token.file": "/t"}, {"muster.admin.viewer.token.file": "/t"}, PROVIDER,
        OVER_TLS | {"muster.admin.roles": "viewer=User:*"},
    ):  # fmt: skip
        assert settings_of(MINIMAL | keys).admin_is_open, keys
    found = settings_of(
        MINIMAL | OVER_TLS
        | {
            "ssl.keystore.location": "/all.pem", "muster.probe.tls": "true",
            "muster.admin.roles": "viewer = User:*; admin=User:CN=ann,O=x; viewer=User:CN=ann,O=x",
            "muster.admin.operator.token.file": "/o", "muster.admin.token.file": "/a",
        }
    )  # fmt: skip
    assert found.tls("ADMIN").keystore_location == Path("/admin.pem")
    assert found.tls("PROBE").keystore_location == Path("/all.pem")
    assert found.admin_takes_certificates
    assert found.admin_roles == {"User:*": Role.VIEWER, "User:CN=ann,O=x": Role.ADMIN}
    files = found.token_files(found.admin_token_file)
    assert files == ((Role.ADMIN, Path("/a")), (Role.OPERATOR, Path("/o")))
    most = ";".join(f"viewer=User:{n}" for n in range(ROLES_GIVEN_MAX))
    assert len(settings_of(MINIMAL | OVER_TLS | {"muster.admin.roles": most}).admin_roles) == ROLES_GIVEN_MAX
    with pytest.raises(ConfigError, match="more than 1000"):
        settings_of(MINIMAL | OVER_TLS | {"muster.admin.roles": f"{most};admin=User:one-more"})


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"muster.admin.tls": "true"}, "listener ADMIN needs a key"),
        ({"muster.probe.tls": "true"}, "listener PROBE needs a key"),
        ({"listener.name.admin.ssl.keystore.location": "/x"}, "admin. names a listener that is not in listeners"),
        (OVER_TLS | {"listeners": "ADMIN://127.0.0.1:1"}, "a listener of clients has the name ADMIN"),
        ({"muster.admin.roles": "viewer=User:*"}, "muster.admin.roles gives roles to nobody"),
        (OVER_TLS | {"muster.admin.roles": "viewer=bob"}, "bob is no user such as User:bob"),
        (OVER_TLS | {"muster.admin.roles": "root=User:bob"}, "not ROLE=NAME, with a role of viewer, operator, admin"),
        (OVER_TLS | {"muster.admin.roles": "admin="}, "not ROLE=NAME"),
        ({"muster.admin.oidc.roles": "admin=ops"}, "muster.admin.oidc.audience is needed"),
        (PROVIDER | {"sasl.oauthbearer.expected.issuer": ""}, "sasl.oauthbearer.expected.issuer is needed"),
        (PROVIDER | {"sasl.oauthbearer.jwks.endpoint.url": ""}, "sasl.oauthbearer.jwks.endpoint.url is needed"),
        (PROVIDER | {"muster.admin.oidc.roles": ""}, "muster.admin.oidc.roles or muster.admin.roles is needed"),
    ],
)
def test_roles_that_nobody_could_have_and_tls_without_a_key_are_refused(keys: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        settings_of(MINIMAL | keys)
