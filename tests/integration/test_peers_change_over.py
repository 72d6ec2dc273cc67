"""Three open replicas come to know each other by a secret and then by certificates, by roll-outs under consuming
groups: no generation changes; and afterwards whoever is not one of them is refused."""

import signal
import socket
import ssl
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.ids import BrokerId
from muster_coordinator.links.channels import HANDSHAKE
from muster_coordinator.links.frames import frame_header
from muster_coordinator.links.handshake import Handshake, encode_handshake
from muster_coordinator.properties import format_properties, parse_properties

from tests.certificates import Authority
from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.processes import has_ended

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
ROOT = Authority()
SECRET = "a secret of more than thirty-two bytes"


def configure(cluster: MusterCluster, replica: int, settings: dict[str, str]) -> None:
    """Set these in the replica's file."""
    path = cluster.folder / f"replica-{replica}" / "server.properties"
    path.write_text(format_properties(parse_properties(path.read_text()) | settings, "changed over"))


def roll(cluster: MusterCluster, settings: dict[str, str]) -> None:
    """One after the other, each with a drain."""
    for replica in range(3):
        configure(cluster, replica, settings)
        pid = cluster.pid(replica)
        cluster.kill(replica, signal.SIGTERM)
        wait_until(f"replica {replica} has ended", lambda pid=pid: has_ended(pid), 30)
        cluster.start_replica(replica)
        for other in range(3):
            wait_until("all are linked", lambda other=other: linked(cluster, other), 20)


def linked(cluster: MusterCluster, replica: int) -> bool:
    return all(broker["alive"] for broker in cluster.status(replica)["brokers"])


def ends(port: int, sent: bytes) -> bool:
    """Does the replica close this connection to its peer port without an answer?"""
    with socket.create_connection(("127.0.0.1", port), 5) as line:
        line.sendall(sent)
        try:
            return line.recv(1) == b""
        except ConnectionResetError:
            return True


def test_a_running_cluster_is_closed_among_its_replicas(tmp_path: Path) -> None:
    secret = tmp_path / "peer-secret"
    secret.write_text(SECRET)
    crt, key = ROOT.issue("replica", ("127.0.0.1",)).write(tmp_path)
    (tmp_path / "ca.crt").write_text(ROOT.pem)
    by_secret = {
        "muster.peer.security": "secret",
        "muster.peer.security.accept": "none",
        "muster.peer.secret.file": str(secret),
    }
    by_tls = {
        "muster.peer.security": "tls",
        "muster.peer.security.accept": "secret",
        "listener.name.peer.ssl.keystore.certificate.chain": str(crt),
        "listener.name.peer.ssl.keystore.key": str(key),
        "listener.name.peer.ssl.truststore.location": str(tmp_path / "ca.crt"),
    }
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with MusterCluster(tmp_path / "data", replicas=3, partitions=4, settings=settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("t", 4, 3)])["t"].result(20)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        members = [
            Member(client, bootstrap=cluster.bootstrap, group=client, topics=["t"], reset="earliest")
            for client in ("librdkafka", "kafka-python")
        ]
        try:
            for member in members:
                member.wait_owns(4)
            settled = [len(member.events) for member in members]
            for stage in (by_secret, by_tls, {"muster.peer.security.accept": ""}):
                counts = [len(member.records) for member in members]
                roll(cluster, stage)
                producer.produce("t", b"x")
                assert producer.flush(30) == 0
                for member, count in zip(members, counts, strict=True):
                    member.wait(f"{member.client} reads", lambda it, count=count: len(it.records) > count, 30)
                    assert member.commit()["e"] == "committed"
            for member, since in zip(members, settled, strict=True):
                kinds = {event["e"] for event in member.events[since:]}
                assert not kinds & {"assigned", "revoked", "lost", "commit_failed"}, (member.client, kinds)
        finally:
            for member in members:
                member.dispose()
        port = int(
            parse_properties((cluster.folder / "replica-0" / "server.properties").read_text())[
                "controller.quorum.voters"
            ]
            .split(",")[0]
            .rpartition(":")[2]
        )
        hello = encode_handshake(Handshake(BrokerId(1), BrokerId(0), 7, b"evil"))
        assert ends(port, frame_header(HANDSHAKE, hello) + hello)
        stranger = Authority("Strangers").issue("stranger", ("127.0.0.1",)).write(tmp_path, "stranger")
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        context.load_cert_chain(*stranger)
        with (
            pytest.raises((ssl.SSLError, ConnectionError)),
            socket.create_connection(("127.0.0.1", port), 5) as line,
            context.wrap_socket(line, server_hostname="127.0.0.1") as tls,
        ):
            tls.recv(1)
        assert all(linked(cluster, replica) for replica in range(3))
