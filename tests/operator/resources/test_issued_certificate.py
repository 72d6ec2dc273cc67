"""The Certificate for cert-manager has fields, kinds and words that its definition of cert-manager.io/v1 has (read at
commit 0509c05 of its repository). The definition itself, on a real API server, is in `e2e/test_cert_manager.py`."""

from typing import Any

import jsonschema
import pytest

from tests.operator.resources.owners import EXTERNAL, INTERNAL, cluster_children, cluster_spec, one

TEXTS = {"type": "array", "items": {"type": "string"}}
USAGES = ("digital signature", "key encipherment", "server auth", "client auth")
SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["secretName", "issuerRef"],
    "additionalProperties": False,
    "properties": {
        "secretName": {"type": "string"},
        "commonName": {"type": "string", "maxLength": 64},
        "duration": {"type": "string", "pattern": r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"},
        "dnsNames": TEXTS,
        "ipAddresses": TEXTS,
        "usages": {"type": "array", "items": {"enum": list(USAGES)}},
        "privateKey": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "algorithm": {"enum": ["RSA", "ECDSA", "Ed25519"]},
                "encoding": {"enum": ["PKCS1", "PKCS8"]},
                "rotationPolicy": {"enum": ["Never", "Always"]},
                "size": {"type": "integer", "enum": [256, 384, 521]},
            },
        },
        "issuerRef": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {name: {"type": "string"} for name in ("name", "kind", "group")},
        },
    },
}


def certificate(name: str, listeners: list[dict[str, Any]], **given: Any) -> dict[str, Any]:
    return one(cluster_children(cluster_spec(listeners=listeners), **given), "Certificate", name)


@pytest.mark.parametrize("addresses", [(), ("10.0.0.1", "fd00::1")])
def test_its_definition_takes_it(addresses: tuple[str, ...]) -> None:
    outside = {**EXTERNAL, "tls": {"issuerRef": {"name": "ca", "kind": "ClusterIssuer"}}}
    found = certificate("main-external-tls", [INTERNAL, outside], node_addresses=addresses)
    jsonschema.validate(found["spec"], SPEC)
    assert (found["apiVersion"], found["spec"]["secretName"]) == ("cert-manager.io/v1", "main-external-tls")
    assert found["spec"]["duration"] == "2160h0m0s", "it renews at two thirds by itself"
    assert found["spec"].get("ipAddresses", []) == list(addresses)


def test_only_listeners_with_an_issuer_have_one() -> None:
    listeners = [
        {**INTERNAL, "tls": {}},
        {**INTERNAL, "name": "mine", "port": 9095, "tls": {"secretName": "mine"}},
        {**INTERNAL, "name": "issued", "port": 9096, "tls": {"issuerRef": {"name": "ca"}}},
    ]
    found = [item for item in cluster_children(cluster_spec(listeners=listeners)) if item["kind"] == "Certificate"]
    assert [item["metadata"]["name"] for item in found] == ["main-issued-tls"]
    assert found[0]["spec"]["issuerRef"] == {"name": "ca", "kind": "Issuer", "group": "cert-manager.io"}
