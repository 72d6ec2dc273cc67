"""Listeners that ask for tokens (`spec.oauth`, ADR 102): the coordinator's own parser reads what was meant, the pods
have the file that it names, and the operator, which has no token, logs in elsewhere."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from muster_coordinator.errors import CallerError
from muster_coordinator.security.limits import CLOCK_SKEW_SECONDS_MAX
from muster_coordinator.settings import Settings, key_docs
from muster_operator.api.client_access import Access, Authentication, AuthenticationSecret
from muster_operator.api.cluster import Listener
from muster_operator.api.errors import InvalidObject
from muster_operator.api.fields import Record
from muster_operator.api.oauth import AUDIENCES_MAX, PREFIX, Oauth
from muster_operator.api.topic_store import TopicStore
from muster_operator.resources import oauth
from muster_operator.resources.own_access import clients_listener, operators_access

from tests.operator.api.cel_examples import PROVIDER, TOKENS
from tests.operator.resources.owners import INTERNAL, cluster_children, cluster_spec, one, secret_files
from tests.operator.resources.test_server_properties import settings
from tests.operator.resources.test_upstream_kafka import LOGIN, beside, started

ASKING = {**INTERNAL, "authentication": {"type": "scram-sha-256"}}
ENCRYPTED = {**ASKING, "tls": {}}
CERTIFIED = {"name": "by-hand", "port": 9096, "tls": {}, "authentication": {"type": "tls"}}
BOTH: dict[str, Any] = {"listeners": [ENCRYPTED, TOKENS], "oauth": PROVIDER}


def tokens_of(read: Settings) -> tuple[str, ...]:
    offered = read.sasl("TOKENS")
    assert offered is not None
    return offered.mechanisms


def test_the_coordinators_take_the_tokens_that_the_object_says() -> None:
    told = {**PROVIDER, "userNameClaim": "azp", "clockSkewSeconds": 5, "jwksRefreshSeconds": 600}
    read = settings(0, listeners=[ENCRYPTED, TOKENS], oauth=told)
    assert (read.jwks_url, read.token_issuer) == (PROVIDER["jwksEndpointUri"], PROVIDER["validIssuerUri"])
    assert (read.token_audiences, read.token_subject_claim) == (("muster",), "azp")
    assert (read.token_skew_seconds, read.jwks_refresh_ms, read.jwks_ca_file) == (5, 600_000, None)
    assert tokens_of(read) == ("OAUTHBEARER",)
    assert read.security_protocol("TOKENS").name == "SASL_SSL"


def test_what_is_left_out_is_the_coordinators_default() -> None:
    read, bare = settings(0, **BOTH), settings(0)
    for field in ("token_subject_claim", "token_skew_seconds", "jwks_refresh_ms", "jwks_ca_file"):
        assert getattr(read, field) == getattr(bare, field)


def test_who_is_trusted_for_the_providers_address_is_a_file_of_the_secret() -> None:
    spec = {**BOTH, "oauth": {**PROVIDER, "trustedSecretName": "provider-ca"}}
    named = settings(0, **spec).jwks_ca_file
    pod = one(cluster_children(cluster_spec(**spec)), "StatefulSet")["spec"]["template"]["spec"]
    assert secret_files(pod)[str(named)] == ("provider-ca", "ca.crt")


def test_longest_values_and_most_audiences_arrive() -> None:
    audiences = [f"{number:02}{'a' * 253}" for number in range(AUDIENCES_MAX)]
    told = {
        "validIssuerUri": "i" * 1000, "jwksEndpointUri": "https://" + "k" * 992, "audiences": audiences,
        "userNameClaim": "c" * 255, "clockSkewSeconds": 60, "jwksRefreshSeconds": 86_400,
    }  # fmt: skip
    read = settings(0, listeners=[ENCRYPTED, TOKENS], oauth=told)
    assert (len(read.token_audiences), len(read.jwks_url), len(read.token_issuer)) == (20, 1000, 1000)
    assert read.token_skew_seconds == CLOCK_SKEW_SECONDS_MAX
    with pytest.raises(InvalidObject, match=r"oauth\.clockSkewSeconds"):
        cluster_spec(**{**BOTH, "oauth": {**PROVIDER, "clockSkewSeconds": CLOCK_SKEW_SECONDS_MAX + 1}})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("jwksEndpointUri", "http://login.example.com/certs"), ("jwksEndpointUri", "file:///etc/passwd"),
        ("jwksEndpointUri", "https://"), ("jwksEndpointUri", "https://a\nlisteners=x"), ("validIssuerUri", ""),
        ("validIssuerUri", "a\nb"), ("audiences", []), ("audiences", ["a,b"]), ("audiences", ["a", "a"]),
        ("audiences", [" a"]), ("userNameClaim", ""), ("userNameClaim", "a\nb"), ("jwksRefreshSeconds", 9),
    ],
)  # fmt: skip
def test_values_that_cannot_be(field: str, value: Any) -> None:
    with pytest.raises(InvalidObject, match=rf"oauth\.{field}"):
        cluster_spec(**{**BOTH, "oauth": {**PROVIDER, field: value}})


def test_the_operator_logs_in_where_a_password_is_asked_for_and_clients_where_their_token_is() -> None:
    for listeners, authorization in itertools.product(
        ([TOKENS, ENCRYPTED], [ENCRYPTED, TOKENS], [TOKENS, CERTIFIED, ASKING]), (None, {"type": "simple"})
    ):
        more = {} if authorization is None else {"authorization": authorization}
        spec = cluster_spec(listeners=listeners, oauth=PROVIDER, **more)
        assert clients_listener(spec, "oauthbearer").name == "tokens"
        assert spec.has_operator_user
        listener, access = operators_access("main", spec, Access(tls=None, authentication=None))
        assert listener.name == "internal"
        assert access.authentication is not None
        assert access.authentication.type == "scram-sha-256"
        pod = one(cluster_children(spec), "StatefulSet")["spec"]["template"]["spec"]
        added = [text for text in pod["initContainers"][0]["args"] if "add-scram" in text]
        assert [text.partition("=[")[0] for text in added] == ["--add-scram=SCRAM-SHA-256"]


def test_one_with_an_open_listener_too_asks_there_for_nothing() -> None:
    open_one = {"name": "open", "port": 9097}
    spec = cluster_spec(listeners=[TOKENS, open_one, ASKING], oauth=PROVIDER)
    listener, access = operators_access("main", spec, Access(tls=None, authentication=None))
    assert (listener.name, access.authentication) == ("open", None)


_LISTENERS = ([INTERNAL], [ASKING], [TOKENS], [ASKING, TOKENS], [CERTIFIED, TOKENS], [INTERNAL, TOKENS])
_OAUTH: tuple[dict[str, Any] | None, ...] = (None, {}, {"userNameClaim": "azp"}, PROVIDER)


def test_the_rules_refuse_what_the_coordinator_would_not_start_with_and_the_operator_not_log_in_to() -> None:
    taken = refused = not_the_operator = 0
    for listeners, told in itertools.product(_LISTENERS, _OAUTH):
        try:
            spec = cluster_spec(listeners=listeners, **({} if told is None else {"oauth": told}))
        except InvalidObject as error:
            parsed = replace(
                cluster_spec(),
                listeners=tuple(Record(Listener).parse(each, "") for each in listeners),
                oauth=None if told is None else Record(Oauth).parse(told, ""),
            )
            try:
                started(parsed)
            except CallerError as why:
                assert "sasl.oauthbearer" in str(why)
                refused += 1
            else:
                assert "listener with SCRAM must be beside one of type `oauthbearer`" in error.message
                not_the_operator += 1
        else:
            started(spec)
            taken += 1
    assert (taken, refused, not_the_operator) == (2 * 4 + 1, 4 * 3, 3)


def test_where_logins_are_passed_on_the_kafka_judges_tokens_and_only_the_claim_is_said_here() -> None:
    login = {"authentication": {"type": "scram-sha-256", "secret": {"name": "kafka-login"}}, "passLoginsOn": True}
    for told, claim in ((None, "sub"), ({"userNameClaim": "azp"}, "azp"), (PROVIDER, "sub")):
        more = {} if told is None else {"oauth": told}
        spec = cluster_spec(listeners=[ASKING, TOKENS], topics=beside(tls={}, **login), **more)
        read = started(spec)
        offered = read.sasl("TOKENS")
        assert offered is not None
        assert (offered.elsewhere, offered.mechanisms, offered.subject_claim) == (True, ("OAUTHBEARER",), claim)
        listener, access = operators_access("main", spec, Access(tls=None, authentication=None))
        assert (listener.name, access.authentication) == (
            "internal", Authentication(type="scram-sha-256", secret=AuthenticationSecret(name="kafka-login")),
        )  # fmt: skip
        assert not spec.has_operator_user
    with pytest.raises(InvalidObject, match=r"topics\.kafka\.tls"):
        cluster_spec(listeners=[ASKING, TOKENS], topics=beside(**login))
    spec = cluster_spec(listeners=[ASKING, TOKENS], topics=beside(tls={}, **login))
    assert spec.topics is not None
    assert spec.topics.kafka is not None
    in_the_open = TopicStore(mode="kafka", kafka=replace(spec.topics.kafka, tls=None))
    with pytest.raises(CallerError, match="shows the token"):
        started(replace(spec, topics=in_the_open))


def test_every_setting_about_tokens_is_the_objects_alone() -> None:
    keys = [doc.key for doc in key_docs() if PREFIX in doc.key]
    assert len(keys) == 7
    for key in keys:
        with pytest.raises(InvalidObject, match=r"settings with `sasl\.oauthbearer\.` may not be in"):
            cluster_spec(**BOTH, config={key: "x"})
    spec = cluster_spec(**{**BOTH, "oauth": {**PROVIDER, "trustedSecretName": "ca"}})
    assert set(oauth.settings(spec)) == set(keys)
    by_hand = {f"{PREFIX}expected.issuer": "i", "muster.sasl.oauthbearer.jwks.ca.file": "/x"}
    assert settings(0, config=by_hand).token_issuer == "i"


def test_an_administrators_token_is_of_the_same_provider() -> None:
    """No listener asks for one."""
    admin = {"muster.admin.oidc.audience": "admin", "muster.admin.oidc.roles": "admin=ops"}
    read = settings(0, oauth=PROVIDER, config=admin)
    assert (read.oidc_audiences, read.jwks_url) == (("admin",), PROVIDER["jwksEndpointUri"])


def test_without_it_nothing_of_it_is_in_the_pods() -> None:
    assert oauth.settings(cluster_spec()) == {}
    text = json.dumps(cluster_children(cluster_spec(listeners=[ENCRYPTED])))
    assert "oauth" not in text.lower()
    assert LOGIN["UPSTREAM_PASSWORD"] not in text
