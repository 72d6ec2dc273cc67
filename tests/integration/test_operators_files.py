"""Three coordinators as the operator's pods start them: its settings file, its Secrets as files, its init container.

No Kubernetes: folders of the pods are folders here, and the pods' names are addresses of loopback. Peers link by the
operator's certificates, clients verify chain and name, the operator's own user is there from the first start on.
"""

import hashlib
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from muster_operator import naming
from muster_operator.resources import coordinator_pod, server_properties
from muster_operator.resources.certificate_names import names_of
from muster_operator.resources.peer_mode import PeerMode
from muster_operator.resources.secured import mounted
from muster_operator.runtime.clock import SystemClock
from muster_operator.runtime.x509 import Issued, new_authority, new_certificate

from tests.cluster import wait_until
from tests.operator.resources.owners import cluster_spec, owner

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]

PASSWORD = "canary-of-the-operator"
REPLICAS = 3
CLOCK = SystemClock()
PEERS = PeerMode("tls", ("secret",))


def address(ordinal: int) -> str:
    """Of loopback, this process's own: the operator's ports are fixed."""
    return f"127.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}.{ordinal + 1}"


def spec_of() -> dict[str, object]:
    addresses = [address(ordinal) for ordinal in range(REPLICAS)]
    secure = {"name": "secure", "type": "internal", "port": 9092, "tls": {"alternativeNames": addresses}}
    partners = {"name": "partners", "type": "internal", "port": 9094, "tls": {}}
    return {
        "listeners": [
            {**secure, "authentication": {"type": "scram-sha-512"}},
            {**partners, "authentication": {"type": "tls"}},
        ],
        "authorization": {"type": "simple"},
        "offsetsPartitions": 4,
    }


class Pods:
    def __init__(self, folder: Path) -> None:
        self.folder, self.spec = folder, cluster_spec(**spec_of())
        self.ca = new_authority("main-cluster-ca", now_ms=CLOCK.wall_ms(), days=30)
        self.clients_ca = new_authority("main-clients-ca", now_ms=CLOCK.wall_ms(), days=30)
        names = names_of(owner(), self.spec, self.spec.listeners, ())
        self.secrets: dict[str, dict[str, str]] = {
            naming.peer_secret("main"): {"secret": "canary-" + "p" * 40},
            naming.ca_certificates(naming.cluster_ca("main")): {"ca.crt": self.ca.certificate},
            naming.ca_certificates(naming.clients_ca("main")): {"ca.crt": self.clients_ca.certificate},
        }
        self.names = names
        self.renew()
        self.processes: list[subprocess.Popen[bytes]] = []

    def renew(self) -> None:
        """Another certificate, into the files of all pods, as their kubelets do it: by renaming."""
        made = new_certificate(
            self.ca, "main", hosts=self.names.hosts, addresses=self.names.addresses, now_ms=CLOCK.wall_ms(), days=5
        )
        self.secrets[naming.server_certificate("main")] = {"tls.crt": made.certificate, "tls.key": made.key}
        for one in mounted(owner(), self.spec, PEERS):
            target = Path(f"{self.folder}{one.folder}")
            target.mkdir(parents=True, exist_ok=True)
            for key, name in one.files.items():
                (target / "new").write_text(self.secrets[one.secret][key])
                (target / "new").rename(target / name)

    def start(self) -> None:
        (self.folder / "etc" / "muster-admin").mkdir(parents=True, exist_ok=True)
        (self.folder / "etc" / "muster-admin" / "token").write_text("canary-token")
        text = server_properties.text(owner(), self.spec, replicas=REPLICAS, peers=PEERS)
        for ordinal in range(REPLICAS):
            text = text.replace(f"main-{ordinal}.main-peers.shop.svc", address(ordinal))
        for ordinal in range(REPLICAS):
            own = text.replace("${env:POD_NAME}.main-peers.shop.svc", address(ordinal))
            own = own.replace("0.0.0.0", address(ordinal)).replace("/etc/muster-", f"{self.folder}/etc/muster-")
            config = self.folder / f"{ordinal}.properties"
            config.write_text(own.replace("log.dirs=/data", f"log.dirs={self.folder}/data-{ordinal}"))
            environment = {
                **os.environ,
                "POD_INDEX": str(ordinal),
                "POD_NAME": f"main-{ordinal}",
                "NODE_IP": "x",
                "RACK": "",
            }
            self._first_user(config, environment)
            command = [sys.executable, "-m", "muster_coordinator.cli.main", "server", "--config", str(config)]
            log = (self.folder / f"{ordinal}.log").open("ab")
            self.processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            log.close()

    def _first_user(self, config: Path, environment: dict[str, str]) -> None:
        """By the very arguments of the init container."""
        template = coordinator_pod.template(
            owner(), self.spec, image="i", pull_policy=None, platform_sets_user=False, config_map_name="c",
            config_hash="h", peers=PEERS,
        )  # fmt: skip
        arguments = template["spec"]["initContainers"][0]["args"]
        arguments[arguments.index("--config") + 1] = str(config)
        subprocess.run(
            [sys.executable, "-m", "muster_coordinator.cli.main", *arguments], check=True, capture_output=True,
            env={**environment, coordinator_pod.PASSWORD_VARIABLE: PASSWORD}, timeout=60,
        )  # fmt: skip

    def stop(self) -> None:
        for one in self.processes:
            one.terminate()
        for one in self.processes:
            one.wait(60)
        self.processes.clear()

    def output(self) -> str:
        return "".join((self.folder / f"{ordinal}.log").read_text() for ordinal in range(REPLICAS))


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    made = Pods(tmp_path)
    made.start()
    yield made
    made.stop()


def client(pods: Pods, *, port: int = 9092, **settings: str) -> AdminClient:
    trust = pods.folder / "trusted.pem"
    trust.write_text(pods.ca.certificate)
    return AdminClient(
        {
            "bootstrap.servers": f"{address(0)}:{port}",
            "ssl.ca.location": str(trust),
            "socket.timeout.ms": 5000,
            **settings,
        }
    )


def as_operator(pods: Pods, password: str = PASSWORD) -> AdminClient:
    return client(
        pods,
        **{
            "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.password": password,
            "sasl.username": naming.OPERATOR_USER,
        },
    )  # fmt: skip


def brokers(admin: AdminClient) -> int:
    try:
        return len(admin.list_topics(timeout=5).brokers)
    except KafkaException:
        return 0


def fingerprint(ordinal: int) -> str:
    try:
        pem = ssl.get_server_certificate((address(ordinal), 9092), timeout=5)
    except OSError:
        return ""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


def test_pods_are_closed_from_their_first_start_on_and_take_another_certificate_as_they_run(pods: Pods) -> None:
    admin = as_operator(pods)
    wait_until("the operator's user sees all three", lambda: brokers(admin) == REPLICAS, 90)
    admin.create_topics([NewTopic("orders", 2, 3)])["orders"].result(30)
    with pytest.raises(KafkaException):
        as_operator(pods, "another").list_topics(timeout=4)
    partner = new_certificate(pods.clients_ca, "partner", hosts=(), addresses=(), now_ms=CLOCK.wall_ms(), days=5)
    stranger = new_certificate(pods.ca, "stranger", hosts=(), addresses=(), now_ms=CLOCK.wall_ms(), days=5)
    known = by_certificate(pods, "partner", partner)
    wait_until("a partner is let in", lambda: brokers(known) == REPLICAS, 30)
    with pytest.raises(KafkaException) as caught:
        known.create_topics([NewTopic("theirs", 1, 3)])["theirs"].result(20)
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, "by ACLs, of which there are none"
    assert brokers(by_certificate(pods, "stranger", stranger)) == 0, "the CA of coordinators lets no client in"
    with socket.create_connection((address(0), 9093), timeout=5) as open_peer:
        open_peer.sendall(b"\x00" * 64)
        open_peer.settimeout(15)
        assert open_peer.recv(1) == b"", "whoever shows nothing is closed"

    before = {fingerprint(ordinal) for ordinal in range(REPLICAS)}
    pods.renew()

    def all_another() -> bool:
        now = {fingerprint(ordinal) for ordinal in range(REPLICAS)}
        return len(now) == 1 and not now & before and "" not in now

    wait_until("every pod serves the other certificate", all_another, 30)
    assert brokers(as_operator(pods)) == REPLICAS
    pods.stop()
    pods.start()  # with the init container again, now of a cluster that has users
    wait_until("they are back", lambda: brokers(as_operator(pods)) == REPLICAS, 90)
    said = pods.output()
    assert "peers are not authenticated" not in said
    for canary in (PASSWORD, "canary-token", "canary-ppp"):
        assert canary not in said


def by_certificate(pods: Pods, name: str, shown: Issued) -> AdminClient:
    for end, text in (("crt", shown.certificate), ("key", shown.key)):
        (pods.folder / f"{name}.{end}").write_text(text)
    return client(
        pods,
        port=9094,
        **{
            "security.protocol": "SSL", "ssl.certificate.location": str(pods.folder / f"{name}.crt"),
            "ssl.key.location": str(pods.folder / f"{name}.key"),
        },
    )  # fmt: skip
