"""Settings of where topics live: in Redis, or in a Kafka beside it."""

from pathlib import Path

import pytest
from muster_coordinator.controller.image import UPSTREAM_LISTENER
from muster_coordinator.node_settings import api_settings, node_settings, upstream_tls
from muster_coordinator.setting_values import Listener
from muster_coordinator.settings import STANDARD_AUTHORIZER, ConfigError, settings_of

from tests.cli.test_settings import MINIMAL

# -- in Redis ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("http://redis:6379", "not redis://HOST:PORT/DB"),
        ("redis://", "not redis://HOST:PORT/DB"),
        ("redis://:secret@redis:6379", "user and password have keys of their own"),
        ("redis://redis:6379?password=secret", "user and password have keys of their own"),
        ("rediss://redis:6379?ssl_cert_reqs=none", "only db=N may follow the question mark"),
        ("redis://redis:6379/0?retry_on_timeout=", "only db=N may follow the question mark"),
        ("redis://redis:6379/0#x", "only db=N may follow the question mark"),
    ],
)
def test_a_bad_address_of_redis_is_refused_without_showing_it(value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        settings_of(MINIMAL | {"redis.url": value})
    assert "secret" not in str(error.value)


def test_files_for_tls_to_redis_need_tls() -> None:
    found = settings_of(MINIMAL | {"redis.url": "rediss://redis:6379", "redis.ssl.certificate.location": "/c.pem"})
    assert (found.redis_ssl_certificate, found.redis_ssl_ca) == (Path("/c.pem"), None)
    for key in ("ca", "certificate", "key"):
        with pytest.raises(ConfigError, match=r"need a redis\.url that begins with rediss://"):
            settings_of(MINIMAL | {"redis.url": "redis://redis:6379", f"redis.ssl.{key}.location": "/x.pem"})
    with pytest.raises(ConfigError, match=r"redis\.ssl\.key\.location needs redis\.ssl\.certificate\.location"):
        settings_of(MINIMAL | {"redis.url": "rediss://redis:6379", "redis.ssl.key.location": "/k.pem"})


def test_topics_in_redis_need_to_know_which_and_its_password_is_never_shown() -> None:
    with pytest.raises(ConfigError, match=r"topics\.mode=redis needs redis\.url"):
        settings_of(MINIMAL | {"topics.mode": "redis"})
    told = {"topics.mode": "redis", "redis.url": "rediss://redis:6379/2", "redis.password": "hunter2"}
    found = settings_of(MINIMAL | told)
    assert (found.redis_url, found.redis_password) == ("rediss://redis:6379/2", "hunter2")
    assert "hunter2" not in repr(found)
    assert "redis.password" not in found.texts
    assert (api_settings(found).redis, api_settings(settings_of(MINIMAL)).redis) == (True, False)


SENTINELS = {
    "redis.url": "rediss://My-Primary_1/3",
    "redis.sentinels": "10.0.0.1:26379, [fd00::2]:26380,10.0.0.1:26379",
}


def test_sentinels_are_asked_for_the_primary_by_the_name_that_the_url_has() -> None:
    found = settings_of(MINIMAL | SENTINELS | {"redis.sentinel.password": "hunter2", "redis.sentinel.username": "u"})
    assert found.redis_sentinels == (("10.0.0.1", 26379), ("fd00::2", 26380))
    assert found.redis_primary == "My-Primary_1", "as it is written"
    assert (found.redis_sentinel_username, found.redis_sentinel_password) == ("u", "hunter2")
    assert "hunter2" not in repr(found)
    assert "redis.sentinel.password" not in found.texts
    assert settings_of(MINIMAL).redis_sentinels == ()


@pytest.mark.parametrize("url", ["redis://primary:6379/0", "redis://[::1]/0", "redis://a,b/0", "unix:///run/redis", ""])
def test_a_url_that_is_an_address_does_not_go_with_sentinels(url: str) -> None:
    with pytest.raises(ConfigError, match=r"redis\.sentinels need a redis\.url with their name for the primary"):
        settings_of(MINIMAL | SENTINELS | {"redis.url": url})


@pytest.mark.parametrize("key", ["redis.sentinel.username", "redis.sentinel.password"])
def test_a_login_at_sentinels_needs_some(key: str) -> None:
    with pytest.raises(ConfigError, match=r"redis\.sentinel\.\* need redis\.sentinels"):
        settings_of(MINIMAL | {"redis.url": "redis://redis:6379", key: "x"})


def test_a_redis_cluster_is_found_by_some_of_its_nodes() -> None:
    told = {"redis.url": "rediss://cluster", "redis.cluster.nodes": "redis-0:6379,redis-1:6380"}
    found = settings_of(MINIMAL | told)
    assert found.redis_nodes == (("redis-0", 6379), ("redis-1", 6380))
    for url in ("redis://redis-0:6379", "redis://cluster/1", "unix:///run/redis", ""):
        with pytest.raises(ConfigError, match=r"need redis\.url to be redis://cluster or rediss://cluster"):
            settings_of(MINIMAL | told | {"redis.url": url})
    many = [f"redis-{number}:6379" for number in range(101)]
    assert len(settings_of(MINIMAL | told | {"redis.cluster.nodes": ",".join(many[1:])}).redis_nodes) == 100
    with pytest.raises(ConfigError, match="more than 100 addresses"):
        settings_of(MINIMAL | told | {"redis.cluster.nodes": ",".join(many)})
    with pytest.raises(ConfigError, match="do not go together"):
        settings_of(MINIMAL | told | {"redis.url": "redis://cluster", "redis.sentinels": "s:26379"})


@pytest.mark.parametrize("text", ["redis", "redis:x", "redis:0", "::1:26379", ",".join(f"s{n}:1" for n in range(21))])
def test_what_is_no_list_of_sentinels(text: str) -> None:
    with pytest.raises(ConfigError, match=r"redis\.sentinels"):
        settings_of(MINIMAL | SENTINELS | {"redis.sentinels": text})


# -- in a Kafka beside it ----------------------------------------------------------------------------------------------

BESIDE = {
    "topics.mode": "kafka",
    "listeners": "PLAINTEXT://0.0.0.0:9092,INSIDE://10.0.0.1:9192",
    "advertised.listeners": "PLAINTEXT://muster-0:9092",
    "upstream.bootstrap.servers": "kafka-0:9092,kafka-1:9092",
    "upstream.listeners": "PLAINTEXT://0.0.0.0:19092,INSIDE://10.0.0.1:19192",
    "upstream.advertised.listeners": "PLAINTEXT://muster-0:29092",
}


def test_a_kafka_beside_it_has_a_port_for_each_broker_and_listener() -> None:
    found = settings_of(MINIMAL | BESIDE)
    assert found.upstream_servers == (("kafka-0", 9092), ("kafka-1", 9092))
    told = (Listener("PLAINTEXT", "muster-0", 29092), Listener("INSIDE", "10.0.0.1", 19192))
    assert found.upstream_told == told
    assert [(e.listener, e.host, e.port) for e in node_settings(found).endpoints][2:] == [
        (UPSTREAM_LISTENER + name, host, port) for name, host, port in told
    ]
    assert (api_settings(found).coordinator_base, api_settings(settings_of(MINIMAL)).coordinator_base) == (1_000_000, 0)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"upstream.bootstrap.servers": ""}, r"topics\.mode=kafka needs upstream\.bootstrap\.servers"),
        ({"topics.mode": "none"}, r"upstream\.\* need topics\.mode=kafka"),
        ({"upstream.listeners": "PLAINTEXT://0.0.0.0:19092"}, "INSIDE must be in it and in listeners"),
        ({"upstream.listeners": BESIDE["upstream.listeners"] + ",OUTSIDE://:1"}, "OUTSIDE must be in it and in"),
        ({"upstream.advertised.listeners": "OTHER://muster-0:1"}, "names OTHER, which is not in upstream.listeners"),
        ({"upstream.advertised.listeners": ""}, r"clients cannot connect to 0\.0\.0\.0 \(PLAINTEXT\)"),
        ({"upstream.advertised.listeners": "PLAINTEXT://muster-0:65528"}, "PLAINTEXT has no port for each"),
        ({"upstream.listeners": "PLAINTEXT://:0,INSIDE://:19192"}, "PLAINTEXT has no port for each"),
        ({"upstream.node.ids": "1000000"}, "reaches upstream.coordinator.node.id.base"),
    ],
)
def test_settings_of_a_kafka_beside_it_that_do_not_go_together(changed: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        settings_of(MINIMAL | BESIDE | changed)


SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="muster" password="canary";'
PLAIN = SCRAM.replace("scram.Scram", "plain.Plain")
KNOWN = {
    "upstream.security.protocol": "SASL_SSL",
    "upstream.sasl.mechanism": "SCRAM-SHA-512",
    "upstream.sasl.jaas.config": SCRAM,
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,INSIDE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
}


def test_who_replicas_are_at_a_kafka_is_shown_nowhere() -> None:
    found = settings_of(MINIMAL | BESIDE | KNOWN)
    login = found.upstream_login
    assert login is not None
    assert (login.mechanism, login.user, login.password) == ("SCRAM-SHA-512", "muster", "canary")
    assert "canary" not in repr(found)
    assert "upstream.sasl.jaas.config" not in found.texts
    tls = upstream_tls(found)
    assert tls is not None
    assert tls.paths() == ()
    assert upstream_tls(settings_of(MINIMAL | BESIDE)) is None
    files = {"upstream.ssl.truststore.location": "/ca.pem", "upstream.ssl.keystore.location": "/k.pem"}
    tls = upstream_tls(settings_of(MINIMAL | BESIDE | KNOWN | files | {"upstream.ssl.key.password": "canary"}))
    assert tls is not None
    assert (tls.paths(), tls.key_password) == ((Path("/ca.pem"), Path("/k.pem")), "canary")
    tls = upstream_tls(settings_of(MINIMAL | BESIDE | KNOWN | files | {"upstream.ssl.key.location": "/key.pem"}))
    assert tls is not None
    assert tls.paths() == (Path("/ca.pem"), Path("/k.pem"), Path("/key.pem"))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"upstream.security.protocol": "TLS"}, "not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"upstream.sasl.mechanism": "GSSAPI"}, "not one of"),
        ({"upstream.sasl.mechanism": ""}, r"upstream\.sasl\.mechanism belongs to"),
        ({"upstream.sasl.jaas.config": ""}, r"upstream\.sasl\.jaas\.config belongs to"),
        ({"upstream.sasl.jaas.config": "x"}, r"upstream\.sasl\.jaas\.config: not a login module"),
        ({"upstream.sasl.jaas.config": "Other required;"}, "the login module is neither"),
        ({"upstream.sasl.jaas.config": SCRAM.replace("username", "name")}, "username and password are needed"),
        ({"upstream.sasl.jaas.config": PLAIN}, "has the login module of another mechanism"),
        ({"upstream.sasl.mechanism": "PLAIN"}, "has the login module of another mechanism"),
        (
            {
                "upstream.sasl.mechanism": "PLAIN",
                "upstream.sasl.jaas.config": PLAIN,
                "upstream.security.protocol": "SASL_PLAINTEXT",
            },
            "shows the password",
        ),
        ({"upstream.security.protocol": "SSL"}, r"upstream\.sasl\.mechanism belongs to"),
        (
            {"upstream.security.protocol": "SASL_PLAINTEXT", "upstream.ssl.truststore.location": "/ca.pem"},
            r"upstream\.ssl\.\* need",
        ),
        (
            {"upstream.security.protocol": "SASL_PLAINTEXT", "upstream.ssl.key.location": "/key.pem"},
            r"upstream\.ssl\.\* need",
        ),
        ({"upstream.ssl.key.location": "/key.pem"}, r"upstream\.ssl\.key\.location needs upstream\.ssl\.keystore"),
        ({"listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT"}, "listener PLAINTEXT asks nobody who he is"),
        (
            {
                "listener.security.protocol.map": "",
                "upstream.security.protocol": "SSL",
                "upstream.sasl.mechanism": "",
                "upstream.sasl.jaas.config": "",
                "upstream.ssl.keystore.location": "/k.pem",
                "sasl.enabled.mechanisms": "",
            },
            "asks nobody who he is",
        ),
    ],
)
def test_logins_at_a_kafka_that_cannot_be(changed: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        settings_of(MINIMAL | BESIDE | KNOWN | changed)
    assert "canary" not in str(refused.value)


PASSED_ON = {"upstream.sasl.passthrough.enable": "true"}
ENCRYPTED = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,INSIDE:SASL_SSL",
    "ssl.keystore.certificate.chain": "/tls.crt",
    "ssl.keystore.key": "/tls.key",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
}


def test_logins_that_are_passed_on_need_no_users_here() -> None:
    found = settings_of(MINIMAL | BESIDE | KNOWN | PASSED_ON | ENCRYPTED)
    for listener in ("PLAINTEXT", "INSIDE"):
        offered = found.sasl(listener)
        assert offered is not None
        assert (offered.elsewhere, offered.mechanisms) == (True, ("PLAIN", "SCRAM-SHA-256"))
    assert settings_of(
        MINIMAL | BESIDE | KNOWN | PASSED_ON | ENCRYPTED | {"authorizer.class.name": STANDARD_AUTHORIZER}
    )
    offered = settings_of(MINIMAL | BESIDE | KNOWN).sasl("INSIDE")
    assert offered is not None
    assert not offered.elsewhere


def test_tokens_that_are_passed_on_need_no_keys_here_only_the_claim_that_is_the_user_there() -> None:
    tokens = {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.sub.claim.name": "client_id"}
    offered = settings_of(MINIMAL | BESIDE | KNOWN | PASSED_ON | ENCRYPTED | tokens).sasl("INSIDE")
    assert offered is not None
    assert (offered.elsewhere, offered.mechanisms, offered.subject_claim) == (True, ("OAUTHBEARER",), "client_id")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"topics.mode": "none", "upstream.bootstrap.servers": ""}, r"upstream\.\* need topics\.mode=kafka"),
        (
            {
                "upstream.security.protocol": "PLAINTEXT",
                "upstream.sasl.mechanism": "",
                "upstream.sasl.jaas.config": "",
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            },
            r"passthrough\.enable needs upstream\.security\.protocol=SASL_SSL or",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:SASL_SSL,INSIDE:SSL"},
            "listener INSIDE has no SASL, so .* no login that could be passed on",
        ),
        (
            {"upstream.security.protocol": "SASL_PLAINTEXT", "sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER"},
            "offers OAUTHBEARER, which shows the token",
        ),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.sub.claim.name": ""},
            r"offers OAUTHBEARER: sasl\.oauthbearer\.sub\.claim\.name is needed",
        ),
        ({"upstream.security.protocol": "SASL_PLAINTEXT"}, "offers PLAIN, which shows the password"),
        (
            {"listener.name.inside.plain.sasl.jaas.config": PLAIN.replace("username", "user_bob")},
            "users are the upstream's alone",
        ),
    ],
)
def test_logins_that_cannot_be_passed_on(changed: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        settings_of(MINIMAL | BESIDE | KNOWN | PASSED_ON | ENCRYPTED | changed)
    assert "canary" not in str(refused.value)


def test_a_listener_on_loopback_may_ask_nobody() -> None:
    open_one = {
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "advertised.listeners": "",
        "upstream.listeners": "PLAINTEXT://127.0.0.1:19092",
        "upstream.advertised.listeners": "",
        "listener.security.protocol.map": "",
        "sasl.enabled.mechanisms": "",
    }
    assert settings_of(MINIMAL | BESIDE | KNOWN | open_one).upstream_knows_us


def test_the_last_port_may_be_the_last_there_is() -> None:
    ends = BESIDE | {"upstream.advertised.listeners": "PLAINTEXT://muster-0:65527"}
    assert settings_of(MINIMAL | ends).upstream_told[0].port == 65_527


def test_our_acls_are_in_front_unless_logins_are_passed_on() -> None:
    acls = {"authorizer.class.name": STANDARD_AUTHORIZER}
    assert settings_of(MINIMAL | BESIDE | acls).upstream_judges
    assert settings_of(MINIMAL | BESIDE | KNOWN | acls).upstream_judges
    assert not settings_of(MINIMAL | BESIDE).upstream_judges
    assert not settings_of(MINIMAL | acls).upstream_judges
    assert not settings_of(MINIMAL | BESIDE | KNOWN | PASSED_ON | ENCRYPTED | acls).upstream_judges
