"""A cluster with TLS and SCRAM from its first pod on, on a node, under the chart's own role.

Clients verify chain and host name, by the certificate of the operator's CA and by the user that it makes. Certificate
and CA change under them, by the kubelet's own way; that nothing was rebalanced is what the groups' generations say.
"""

import base64
import hashlib
import ssl
from pathlib import Path

import pytest

from e2e.commit_load import KafkaPython, Librdkafka, committing
from e2e.fleet import Cluster, condition, until
from e2e.node.client import Client

pytestmark = pytest.mark.timeout(900)

REPLICAS = 3
KUBELET_S = 240.0
"""A Secret's file in a pod is brought up to date within two minutes; a busy node takes longer."""
SECURED = {
    "offsetsPartitions": 3,
    "listeners": [
        {"name": "secure", "type": "internal", "port": 9092, "tls": {}, "authentication": {"type": "scram-sha-512"}}
    ],
    "authorization": {"type": "simple"},
    "certificates": {"trustDelayMinutes": 3},
}


def secret(client: Client, name: str, key: str) -> str:
    return base64.b64decode(client.read("secret", name)["data"][key]).decode()


def secured(client: Client, folder: Path) -> Cluster:
    """Ready, with what its clients need: the CA and the operator's own user, as an administrator may read them."""
    Cluster.create(client, **SECURED).ready()
    trust = folder / "ca.crt"
    trust.write_text(secret(client, "main-cluster-ca-cert", "ca.crt"))
    access = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": secret(client, "main-operator-user", "username"),
        "sasl.password": secret(client, "main-operator-user", "password"),
        "ssl.ca.location": str(trust),
    }
    return Cluster(client=client, access=access)


def served(cluster: Cluster, ordinal: int) -> str:
    """Fingerprint of the certificate that a pod shows now."""
    pem = ssl.get_server_certificate((cluster.host(ordinal), 9092), timeout=5)
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


def all_serve_another(cluster: Cluster, before: str) -> bool:
    try:
        now = {served(cluster, ordinal) for ordinal in range(REPLICAS)}
    except OSError:
        return False
    return len(now) == 1 and before not in now


def test_certificate_and_peer_secret_change_under_load(operator: Client, namespace: Client, tmp_path: Path) -> None:
    """0 generation changes, 0 failed commits, no pod restarted; peers were never open."""
    cluster = secured(namespace, tmp_path)
    assert condition(cluster.read(), "CertificatesReady")["reason"] == "CertificatesValid"
    uids = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    modes = {pod["metadata"]["annotations"]["muster.dev/peer-security"] for pod in cluster.pods().values()}
    assert modes == {"secret"}
    before = served(cluster, 0)
    with committing(cluster, "load-leaf", (Librdkafka, Librdkafka, Librdkafka), cluster.access) as load:
        namespace.kubectl("delete", "secret", "main-server-cert")
        namespace.kubectl("annotate", "cc/main", "muster.dev/rotate-peer-secret=now")
        until("every pod serves another certificate", lambda: all_serve_another(cluster, before), KUBELET_S)
        assert len(secret(namespace, "main-peer-secret", "secret").split()) == 2
        load.check()
    assert {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()} == uids
    python = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": cluster.access["sasl.username"],
        "sasl_plain_password": cluster.access["sasl.password"],
        "ssl_cafile": cluster.access["ssl.ca.location"],
    }
    with committing(cluster, "load-python", (KafkaPython,), python) as load:
        load.check()


def test_another_ca_under_load(operator: Client, namespace: Client, tmp_path: Path) -> None:
    """Both are trusted until everything is of the new one; who reads the bundle at any time verifies what is served."""
    cluster = secured(namespace, tmp_path)
    before, old = served(cluster, 0), secret(namespace, "main-cluster-ca-cert", "ca.crt")
    trust = Path(cluster.access["ssl.ca.location"])

    def authorities() -> int:
        bundle = secret(namespace, "main-cluster-ca-cert", "ca.crt")
        trust.write_text(bundle)
        return bundle.count("BEGIN CERTIFICATE")

    with committing(cluster, "load-ca", (Librdkafka, Librdkafka), cluster.access) as load:
        namespace.kubectl("annotate", "cc/main", "muster.dev/rotate-ca=now")
        until("two CAs are trusted", lambda: authorities() == 2, 60)
        assert served(cluster, 0) == before, "the second one has to be trusted first"
        until("every pod serves one of the new CA", lambda: all_serve_another(cluster, before), 180 + KUBELET_S)
        until("the old one is forgotten", lambda: authorities() == 1, 180 + 60)
        assert secret(namespace, "main-cluster-ca-cert", "ca.crt") != old
        load.check()
    with committing(cluster, "load-new-ca", (Librdkafka,), cluster.access) as load:
        load.check()
