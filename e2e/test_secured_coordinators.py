"""A cluster with TLS and SCRAM from its first pod on, on a node, under the chart's own role.

Clients verify chain and host name, by the certificate of the operator's CA and by the user that it makes. Certificate
and CA change under them, by the kubelet's own way; that nothing was rebalanced is what the groups' generations say.
"""

import base64
import hashlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from e2e.commit_load import TOPIC, KafkaPython, Librdkafka, committing
from e2e.fleet import Cluster, condition, until
from e2e.node.client import Client
from e2e.node.session import Description

pytestmark = pytest.mark.timeout(900)

REPLICAS = 3
KUBELET_S = 240.0
"""A Secret's file in a pod is brought up to date within two minutes; a busy node takes longer."""
SECURED: dict[str, Any] = {
    "offsetsPartitions": 3,
    "listeners": [
        {"name": "secure", "type": "internal", "port": 9092, "tls": {}, "authentication": {"type": "scram-sha-512"}}
    ],
    "authorization": {"type": "simple"},
    "certificates": {"trustDelayMinutes": 3},
}


def secret(client: Client, name: str, key: str) -> str:
    return base64.b64decode(client.read("secret", name)["data"][key]).decode()


def secured(client: Client, folder: Path, spec: dict[str, Any] = SECURED) -> Cluster:
    """Ready, with what its clients need: the CA and the operator's own user, as an administrator may read them."""
    Cluster.create(client, **spec).ready()
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


PARTNERS = {
    "name": "partners", "type": "nodePort", "port": 9095, "nodePortBase": 31770, "tls": {},
    "authentication": {"type": "tls"},
}  # fmt: skip
RIGHTS = [
    {"resource": {"type": "topic", "name": TOPIC}, "operations": ["Read", "Describe"]},
    {"resource": {"type": "group", "name": "load-", "patternType": "prefixed"}, "operations": ["Read"]},
]


def object_of(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """Of the cluster, without a word about TLS or logins."""
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"clusterRef": {"name": "main"}, **spec},
    }


def partner(client: Client, folder: Path) -> dict[str, str]:
    """What the User's Secret has, as a partner outside sets it."""
    folder.mkdir(exist_ok=True)
    for key in ("ca.crt", "tls.crt", "tls.key"):
        (folder / key).write_text(secret(client, "partner", key))
    return {
        "bootstrap.servers": secret(client, "partner", "bootstrap.servers"),
        "security.protocol": "SSL",
        "ssl.ca.location": str(folder / "ca.crt"),
        "ssl.certificate.location": str(folder / "tls.crt"),
        "ssl.key.location": str(folder / "tls.key"),
    }


def modes(cluster: Cluster) -> set[str]:
    """How the pods dial their peers, and what each accepts besides."""
    pods = cluster.pods().values()
    return {pod["metadata"].get("annotations", {}).get("muster.dev/peer-security", "none") for pod in pods}


def test_a_partner_by_certificate_while_open_peers_are_closed(
    operator: Client, namespace: Client, tmp_path: Path
) -> None:
    """From outside, by the certificate of a User's Secret alone; the peers' change is two roll-outs under its load;
    then a certificate of another CA. Topic, User and ConsumerGroup of the closed cluster name no Secret."""
    spec = {**SECURED, "listeners": [*SECURED["listeners"], PARTNERS], "peers": {"security": "none"}}
    admin = secured(namespace, tmp_path, spec)
    assert modes(admin) == {"none"}
    uids = {name: pod["metadata"]["uid"] for name, pod in admin.pods().items()}
    namespace.apply(
        object_of("Topic", TOPIC, partitions=2),
        object_of("User", "partner", authentication={"type": "tls"}, acls=RIGHTS),
        object_of("ConsumerGroup", "seen", groupId="load-partner-0", topics=[TOPIC]),
    )
    for words in (f"mt/{TOPIC}", "mu/partner"):
        namespace.kubectl("wait", "--for=condition=Ready", words, "--timeout=120s", timeout_s=130)
    assert condition(namespace.read("mu", "partner"), "CredentialsReady")["reason"] == "CertificateIssued"
    first = partner(namespace, tmp_path / "first")
    nodes = {pod["status"]["hostIP"] for pod in admin.pods().values()}
    assert {address.rpartition(":")[0] for address in first["bootstrap.servers"].split(",")} <= nodes, first
    with committing(admin, "load-partner", (Librdkafka, Librdkafka), first) as load:

        def seen() -> bool:
            status = namespace.read("cg", "seen").get("status", {})
            return status.get("state") == "Stable" and "generation" in status and status.get("memberCount") == 1

        until("the group's members and generation", seen, 60)
        namespace.kubectl("patch", "cc/main", "--type=merge", "--patch", '{"spec":{"peers":{"security":"secret"}}}')
        until("closed peers", lambda: modes(admin) == {"secret"}, 600, every=1.0)
        admin.ready()
        assert not {pod["metadata"]["uid"] for pod in admin.pods().values()} & set(uids.values())
        load.check()
    before = secret(namespace, "partner", "tls.crt")
    namespace.kubectl("annotate", "cc/main", "muster.dev/rotate-ca=now")
    until(
        "a certificate of the next CA", lambda: secret(namespace, "partner", "tls.crt") != before, 180 + 300, every=2.0
    )
    until("every pod trusts it", lambda: secret(namespace, "main-clients-ca-cert", "ca.crt").count("BEGIN") == 2, 60)
    second = partner(namespace, tmp_path / "second")
    Path(admin.access["ssl.ca.location"]).write_text(secret(namespace, "main-cluster-ca-cert", "ca.crt"))
    with committing(admin, "load-partner-again", (Librdkafka,), second) as load:
        load.check()


@pytest.fixture
def zone(node: Description) -> Iterator[str]:
    """The zone of every node, for as long as the test."""
    node.client().kubectl("label", "nodes", "--all", "topology.kubernetes.io/zone=zone-b")
    yield "zone-b"
    node.client().kubectl("label", "nodes", "--all", "topology.kubernetes.io/zone-")


def test_admin_api_and_probes_by_https_and_the_nodes_zone_is_the_rack(
    operator: Client, namespace: Client, zone: str
) -> None:
    """The kubelet's probes and the operator's questions; a token in the clear is taken by nobody. The zone comes by
    Kubernetes' own label of the pod: no right on nodes is needed."""
    one = Cluster.create(namespace, replicas=1, offsetsPartitions=1, admin={"tls": True}, probes={"tls": True}).ready()
    status = one.read()["status"]
    assert (status["brokers"], status["voters"]) == (1, 1), "told by the admin API alone"
    assert status["clusterId"]
    assert one.admin(0, "/v1/status") == (0, {})
    client = AdminClient({"bootstrap.servers": one.bootstrap})
    (broker,) = client.describe_cluster().result(20).nodes
    assert broker.rack == zone
