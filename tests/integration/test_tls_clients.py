"""Four real clients over TLS, each verifying chain and host name: through a rotated certificate, a damaged file and a
fail-over without one rebalance; and none gets in by a name that the certificate lacks."""

import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator import exits
from muster_coordinator.properties import format_properties

from tests.certificates import Authority
from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.timeout(240)]

CLIENTS = ("librdkafka", "kafka-python", "aiokafka", "java")
ROOT = Authority()


class Encrypted:
    """Three replicas with the files of one Secret, as cert-manager writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "secret"
        self.renew("first")
        (self.folder / "ca.crt").write_text(ROOT.pem)
        self.ca = str(self.folder / "ca.crt")
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:SSL",
            "ssl.keystore.certificate.chain": str(self.folder / "tls.crt"),
            "ssl.keystore.key": str(self.folder / "tls.key"),
            "ssl.truststore.location": self.ca,
            "group.initial.rebalance.delay.ms": "0",
        }
        self.cluster = MusterCluster(folder / "data", replicas=3, partitions=4, settings=settings)
        self.cluster.start()
        self.client = {
            "bootstrap.servers": self.cluster.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": self.ca,
        }

    def renew(self, name: str) -> None:
        """A new certificate, for the address that clients are told."""
        ROOT.issue(name, ("127.0.0.1",)).write(self.folder)

    def shown(self, replica: int) -> str:
        """The common name that a new connection sees."""
        context = ssl.create_default_context(cafile=self.ca)
        line = socket.create_connection(("127.0.0.1", self.cluster.client_port(replica)), 5)
        with context.wrap_socket(line, server_hostname="127.0.0.1") as tls:
            found = tls.getpeercert()
        assert found is not None, "it was verified"
        return str(dict(part for (part,) in found["subject"])["commonName"])

    def metric(self, replica: int, name: str) -> float:
        lines = self.cluster.metrics(replica).splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


class Stream(threading.Thread):
    """Produces until it is told to stop."""

    def __init__(self, client: dict[str, str], topic: str) -> None:
        super().__init__(daemon=True)
        self.producer = Producer({**client, "enable.idempotence": True, "linger.ms": 5})
        self.topic = topic
        self.ended = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.ended.wait(0.02):
            self.producer.produce(self.topic, str(number).encode(), partition=number % 4)
            self.producer.poll(0)
            number += 1
        self.producer.flush(20)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    made = Encrypted(tmp_path_factory.mktemp("tls"))
    try:
        yield made
    finally:
        made.cluster.close()


def test_clients_go_on_through_a_rotation_and_a_fail_over(encrypted: Encrypted) -> None:
    cluster = encrypted.cluster
    admin = AdminClient(encrypted.client)
    admin.create_topics([NewTopic("t", 4, 3)])["t"].result(20)
    stream = Stream(encrypted.client, "t")
    stream.start()
    members = [
        Member(client, bootstrap=cluster.bootstrap, ca=encrypted.ca, group=client, topics=["t"], reset="earliest")
        for client in CLIENTS
    ]

    def all_go_on(what: str) -> None:
        for member in members:
            seen = len(member.records)
            member.wait(f"{member.client} {what}", lambda it, seen=seen: len(it.records) > seen + 20, 60)
            assert member.commit()["e"] == "committed"

    try:
        all_go_on("reads")
        settled = [len(member.events) for member in members]
        encrypted.renew("second")
        for replica in range(3):
            wait_until("the new one is shown", lambda replica=replica: encrypted.shown(replica) == "second", 20)
        all_go_on("reads while the certificate changes")
        # Whoever was connected to this one connects anew, and verifies the new certificate.
        cluster.kill(1)
        all_go_on("reads after a fail-over")
        cluster.start_replica(1)
        key = (encrypted.folder / "tls.key").read_text()
        (encrypted.folder / "tls.key").write_text(key.replace("A", "B"))
        wait_until("it is told", lambda: encrypted.metric(0, "muster_certificate_stale") == 1, 20)
        problem = cluster.status(0)["certificates"][0]["problem"]
        assert str(encrypted.folder / "tls.key") in problem
        assert encrypted.shown(0) == "second"
        (encrypted.folder / "tls.key").write_text(key)
        wait_until("it is mended", lambda: encrypted.metric(0, "muster_certificate_stale") == 0, 20)
        assert 29 < encrypted.metric(0, "muster_certificate_left_days") < 30
        all_go_on("reads at the end")
        for member, since in zip(members, settled, strict=True):
            kinds = {event["e"] for event in member.events[since:]}
            assert not kinds & {"assigned", "revoked", "lost", "commit_failed"}, (member.client, kinds)
    finally:
        stream.ended.set()
        stream.join(30)
        for member in members:
            member.dispose()


def test_a_name_that_the_certificate_lacks_lets_nobody_in(encrypted: Encrypted) -> None:
    """`localhost` leads to the same port, and the certificate is for 127.0.0.1."""
    bootstrap = f"localhost:{encrypted.cluster.client_port(0)}"
    closed = 'muster_client_connections_closed_total{listener="PLAINTEXT",reason="handshake"}'
    for client in CLIENTS:
        before = encrypted.metric(0, closed)
        member = Member(client, bootstrap=bootstrap, ca=encrypted.ca, group=f"wrong-{client}", topics=["t"])
        try:
            wait_until(f"{client} gives up", lambda before=before: encrypted.metric(0, closed) >= before + 1, 30)
            assert not member.assigned
            assert not member.records
        finally:
            member.dispose()


class Impostor:
    """Listens where clients are told that the broker is, with a certificate of the same CA for another host."""

    def __init__(self, folder: Path) -> None:
        crt, key = ROOT.issue("impostor", ("127.0.0.2",)).write(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(crt, key)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.refused = 0
        self.heard = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                line = self._socket.accept()[0]
            except OSError:
                return
            line.settimeout(10)
            try:
                with self._context.wrap_socket(line, server_side=True) as tls:
                    self.heard += tls.recv(1)
                    self.refused += 1
            except OSError:  # an alert, or an end in the middle of the handshake
                self.refused += 1

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(20)


def test_an_impostor_at_an_advertised_address_hears_nothing(tmp_path: Path) -> None:
    """The bootstrap address is the broker's own and is verified; where it says that it is, somebody else answers."""
    impostor = Impostor(tmp_path / "impostor")
    crt, key = ROOT.issue("server", ("127.0.0.1",)).write(tmp_path)
    (tmp_path / "ca.crt").write_text(ROOT.pem)
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SSL",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{impostor.port}",
        "ssl.keystore.certificate.chain": str(crt),
        "ssl.keystore.key": str(key),
    }
    try:
        with MusterCluster(tmp_path / "data", replicas=1, partitions=1, settings=settings) as cluster:
            for client in CLIENTS:
                before = impostor.refused
                bootstrap, ca = cluster.bootstrap, str(tmp_path / "ca.crt")
                member = Member(client, bootstrap=bootstrap, ca=ca, group=client, topics=["t"])
                try:
                    wait_until(f"{client} has tried", lambda before=before: impostor.refused > before, 60)
                    assert not member.assigned
                finally:
                    member.dispose()
        assert impostor.heard == b""
    finally:
        impostor.close()


def test_a_broker_whose_certificate_lacks_its_advertised_name_does_not_start(
    encrypted: Encrypted, tmp_path: Path
) -> None:
    keys = {
        "node.id": "0",
        "log.dirs": str(tmp_path / "data"),
        "listeners": "OUTSIDE://127.0.0.1:0",
        "advertised.listeners": "OUTSIDE://broker-0.example:9092",
        "listener.security.protocol.map": "OUTSIDE:SSL",
        "muster.probe.listener": "127.0.0.1:0",
        "listener.name.outside.ssl.keystore.certificate.chain": str(encrypted.folder / "tls.crt"),
        "listener.name.outside.ssl.keystore.key": str(encrypted.folder / "tls.key"),
    }
    path = tmp_path / "server.properties"
    path.write_text(format_properties(keys, "a name that is not there"))
    command = [sys.executable, "-m", "muster_coordinator.cli.main", "server", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == exits.UNAVAILABLE, done.stderr
    assert str(encrypted.folder / "tls.crt") in done.stderr
    assert "not for broker-0.example" in done.stderr
    assert "subject alternative name" in done.stderr
