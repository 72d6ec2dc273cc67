"""What a consumer pod gets for a secured cluster: by reference only, under the names that are documented."""

from typing import Any

from muster_operator.api.consumer_env import FAMILIES
from muster_operator.resources import client_login

from tests.operator.resources.owners import group_children, group_spec

TEMPLATE: dict[str, Any] = {"image": "consumer:1"}
SCRAM = {"type": "scram-sha-512", "secret": {"name": "orders"}}
TLS = {"caSecret": {"name": "ca", "key": "root.pem"}}


def pod(**fields: Any) -> dict[str, Any]:
    spec = group_spec(**({"template": TEMPLATE} | fields))
    (made,) = [one for one in group_children(spec) if one["kind"] == "StatefulSet"]
    found: dict[str, Any] = made["spec"]["template"]["spec"]
    return found


def variables(**fields: Any) -> dict[str, Any]:
    (consumer,) = pod(**fields)["containers"]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in consumer["env"]}


def test_an_open_cluster_changes_nothing() -> None:
    assert client_login.environment(group_spec(template=TEMPLATE)) == []
    assert "volumes" not in pod()
    assert not [name for name in variables() if "SASL" in name or "SSL" in name or "SECURITY" in name]


def test_user_and_password_come_from_the_secret_under_all_names() -> None:
    found = variables(authentication=SCRAM, tls=TLS)
    for family in FAMILIES:
        assert found[f"{family}_SECURITY_PROTOCOL"] == "SASL_SSL"
        assert found[f"{family}_SASL_MECHANISM"] == "SCRAM-SHA-512"
        for word, key in (("USERNAME", "username"), ("PASSWORD", "password")):
            assert found[f"{family}_SASL_{word}"] == {"secretKeyRef": {"name": "orders", "key": key}}
        assert found[f"{family}_SSL_CA_LOCATION"] == "/etc/muster/client-ca/ca.crt"
    assert found["SPRING_KAFKA_PROPERTIES_SASL_JAAS_CONFIG"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="$(KAFKA_SASL_USERNAME)" password="$(KAFKA_SASL_PASSWORD)";'
    )
    names = list(found)
    assert names.index("KAFKA_SASL_PASSWORD") < names.index("SPRING_KAFKA_PROPERTIES_SASL_JAAS_CONFIG"), (
        "Kubernetes replaces $(NAME) only by variables that stand before"
    )


def test_files_are_whole_volumes_so_that_the_kubelet_renews_them() -> None:
    found = pod(authentication=SCRAM, tls=TLS)
    assert found["volumes"] == [
        {"name": "muster-client", "secret": {"secretName": "orders"}},
        {"name": "muster-client-ca", "secret": {"secretName": "ca", "items": [{"key": "root.pem", "path": "ca.crt"}]}},
    ]
    assert [
        (one["mountPath"], one["readOnly"], "subPath" in one) for one in found["containers"][0]["volumeMounts"]
    ] == [("/etc/muster/client", True, False), ("/etc/muster/client-ca", True, False)]


def test_other_types() -> None:
    certificate = variables(authentication={"type": "tls", "secret": {"name": "c"}}, tls={})
    assert certificate["KAFKA_SECURITY_PROTOCOL"] == "SSL"
    assert certificate["KAFKA_SSL_KEY_LOCATION"] == "/etc/muster/client/tls.key"
    assert "KAFKA_SASL_MECHANISM" not in certificate
    assert "KAFKA_SSL_CA_LOCATION" not in certificate, "the image's own authorities"
    token = variables(authentication={"type": "oauthbearer", "secret": {"name": "c"}}, tls={})
    assert token["KAFKA_SASL_OAUTHBEARER_TOKEN_LOCATION"] == "/etc/muster/client/token"
    assert "KAFKA_SASL_PASSWORD" not in token
    plain = variables(authentication=SCRAM)
    assert plain["KAFKA_SECURITY_PROTOCOL"] == "SASL_PLAINTEXT"


def test_what_the_template_sets_itself_is_left_to_it() -> None:
    own = {"name": "KAFKA_SECURITY_PROTOCOL", "value": "mine"}
    (consumer,) = pod(authentication=SCRAM, tls=TLS, template={**TEMPLATE, "env": [own]})["containers"]
    assert [one for one in consumer["env"] if one["name"] == own["name"]] == [own]
