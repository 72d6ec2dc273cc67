"""Coordinators on a node whose certificate is cert-manager's, under clients: cert-manager's own controller, an Issuer
with a CA, the operator under the chart's role with `rbac.certManager`.

Clients verify chain and host name by that CA alone. Renewal, a deleted Secret and one more name reach the pods by the
kubelet's own way; that nothing was rebalanced is what the groups' generations say.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import cert_manager
from e2e.audit import USER
from e2e.commit_load import KafkaPython, Librdkafka, committing
from e2e.fleet import Cluster, condition, install_operator, until
from e2e.node.cert_manager import CertManager
from e2e.node.cert_manager import cert_manager as built
from e2e.node.client import Client, Refused
from e2e.node.errors import Unavailable
from e2e.node.session import Description
from e2e.test_secured_coordinators import KUBELET_S, SECURED, all_serve_another, secret, served
from tests.machine_parts import give_up

pytestmark = pytest.mark.timeout(900)

NAME = "main-secure-tls"


@pytest.fixture
def made() -> CertManager:
    try:
        return built()
    except Unavailable as reason:
        give_up("node", str(reason))


@pytest.fixture
def issuing(operator: Client, node: Description, made: CertManager, tmp_path: Path) -> Iterator[None]:
    """cert-manager, and an operator that may ask it; afterwards both are as before."""
    client = node.client()
    cert_manager.define(client, made)
    install_operator(node, "--set=rbac.certManager=true")
    until("a role that the API server knows", lambda: all(may(client, verb) for verb in ("get", "create", "patch")), 30)
    try:
        with cert_manager.running(client, made, tmp_path / "cert-manager.log"):
            yield
            until("no cluster that asks", lambda: not asking(client), 120)
    finally:
        install_operator(node)
        cert_manager.undefine(client, made)


def may(client: Client, verb: str) -> bool:
    """`test_rbac` forgives nothing that was refused before it was granted."""
    try:
        words = ("auth", "can-i", verb, "certificates.cert-manager.io", "--all-namespaces", f"--as={USER}", "--quiet")
        client.kubectl(*words)
    except Refused:
        return False
    return True


def asking(client: Client) -> list[str]:
    """Clusters with an Issuer; they go with their namespaces."""
    found = client.read("cc", "--all-namespaces")["items"]
    return [
        one["metadata"]["name"]
        for one in found
        if any("issuerRef" in listener.get("tls", {}) for listener in one["spec"].get("listeners", ()))
    ]


def spec(*names: str) -> dict[str, Any]:
    """SECURED, with the certificate of the Issuer."""
    tls = {"issuerRef": {"name": cert_manager.ISSUER}, "alternativeNames": list(names)}
    (listener,) = SECURED["listeners"]
    return {**SECURED, "listeners": [{**listener, "tls": tls if names else {"issuerRef": tls["issuerRef"]}}]}


def test_issued_renewed_and_made_anew_under_load(
    issuing: None, node: Description, namespace: Client, tmp_path: Path
) -> None:
    """Three other certificates, 0 generation changes, 0 failed commits, no pod restarted."""
    authority = cert_manager.issuer(namespace)
    trust = tmp_path / "ca.crt"
    trust.write_text(authority.pem)
    Cluster.create(namespace, **spec()).ready()
    access = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": secret(namespace, "main-operator-user", "username"),
        "sasl.password": secret(namespace, "main-operator-user", "password"),
        "ssl.ca.location": str(trust),
    }
    cluster = Cluster(client=namespace, access=access)
    until("a word that all is well", lambda: told(cluster)[1] == "CertificatesValid", 90)
    assert NAME in told(cluster)[2]
    assert secret(namespace, NAME, "ca.crt").strip() == authority.pem.strip()
    uids = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    steps = {
        "renewed": lambda: cert_manager.renew(namespace, NAME),
        "made anew": lambda: namespace.kubectl("delete", "secret", NAME),
        "of one more name": lambda: Cluster.create(namespace, **spec("kafka.example.com")),
    }
    with committing(cluster, "load-issued", (Librdkafka, Librdkafka, Librdkafka), access) as load:
        for what, act in steps.items():
            before = served(cluster, 0)
            act()
            until(
                f"certificate {what} on every pod", lambda before=before: all_serve_another(cluster, before), KUBELET_S
            )
        load.check()
    cluster.ready()
    assert {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()} == uids
    assert "kafka.example.com" in namespace.read("certificate", NAME)["spec"]["dnsNames"]
    python = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": access["sasl.username"],
        "sasl_plain_password": access["sasl.password"],
        "ssl_cafile": access["ssl.ca.location"],
    }
    with committing(cluster, "load-issued-python", (KafkaPython,), python) as load:
        load.check()


def told(cluster: Cluster) -> tuple[str, str, str]:
    found = condition(cluster.read(), "CertificatesReady")
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")
