"""A plaintext cluster that 7d8ab59 formed becomes closed by settings alone, under static members that notice nothing.

Peers by certificates, a SASL_SSL listener beside the open one, an authorizer that only reports, one that decides, the
open listener off: each a roll-out, and the way back to the settings before it. No generation changes, not once. At the
end the last administrator is locked out, and gets in again through a replica's admin token.

`make test` goes three roll-outs with two clients; MUSTER_CLOSING=whole goes each step by itself, back and forward
again, with six (`make closing`, in .ci/nightly).
"""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.properties import format_properties, parse_properties
from muster_coordinator.replica.settings import FEATURE_LEVEL
from muster_coordinator.settings import STANDARD_AUTHORIZER

from tests.certificates import Authority
from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.integration.test_sasl_clients import muster
from tests.releases.life import REPLICAS
from tests.releases.release import FIRST, Release
from tests.releases.running import form, levels, replace

WHOLE = os.environ.get("MUSTER_CLOSING") == "whole"
pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.timeout(3_000 if WHOLE else 600)]

FEW = ("librdkafka", "kafka-python")
CLIENTS = (*FEW, "aiokafka", "java", "franz-go", "confluent-kafka-go") if WHOLE else FEW
ROOT = Authority()
PARTITIONS = 4
MECHANISM = "SCRAM-SHA-512"
ADMIN = "admin"
SESSION_MS = 45_000
FINALIZE = {"muster.feature.finalize.ms": "1000"}
AUTHORIZER = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": f"User:{ADMIN}"}
Settings = dict[str, str]


class Closing:
    """The cluster, its clients, and the settings of each stage."""

    def __init__(self, folder: Path, old: Release, stack: ExitStack) -> None:
        self.stack = stack
        self.cluster = MusterCluster(
            folder / "cluster",
            replicas=REPLICAS,
            partitions=PARTITIONS,
            settings={"group.initial.rebalance.delay.ms": "0"},
            room_for=REPLICAS,
        )
        stack.callback(self.cluster.close)
        crt, key = ROOT.issue("replica", ("127.0.0.1",)).write(folder)
        self.ca = folder / "ca.crt"
        self.ca.write_text(ROOT.pem)
        self.files = {"keystore.certificate.chain": crt, "keystore.key": key, "truststore.location": self.ca}
        self.properties = folder / "admin.properties"
        form(self.cluster, old)
        self.base = [parse_properties(self.config(replica).read_text()) for replica in range(REPLICAS)]
        self.secured = False
        self.producer_login: dict[str, Any] = {"bootstrap.servers": self.cluster.bootstrap}
        wait_until("the topic is made", self.make_topic, 60)
        self.members = {client: self.member(client) for client in CLIENTS}
        for member in self.members.values():
            member.wait_owns(PARTITIONS, 60)
        self.generations = {client: self.generation(client) for client in CLIENTS}

    def make_topic(self) -> bool:
        """Leaders may change while a cluster starts: what is not known is asked again."""
        admin = AdminClient({**self.producer_login, "log_level": 0})
        with suppress(KafkaException):
            admin.create_topics([NewTopic("t", PARTITIONS, REPLICAS)], request_timeout=20)["t"].result(30)
        return "t" in admin.list_topics(timeout=30).topics

    # -- settings

    def config(self, replica: int) -> Path:
        return self.cluster.folder / f"replica-{replica}" / "server.properties"

    def secure_port(self, replica: int) -> int:
        return self.cluster.client_port(REPLICAS + replica)

    @property
    def secure_bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.secure_port(replica)}" for replica in range(REPLICAS))

    def of_tls(self, prefix: str) -> Settings:
        return {f"{prefix}ssl.{name}": str(path) for name, path in self.files.items()}

    def peers(self, accept: str) -> Settings:
        security = {"muster.peer.security": "tls", "muster.peer.security.accept": accept}
        return {**FINALIZE, **security, **self.of_tls("listener.name.peer.")}

    def beside(self) -> Settings:
        return {
            **self.peers(""),
            "listeners": "PLAINTEXT,SECURE",  # see `roll`
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
            "listener.name.secure.sasl.enabled.mechanisms": MECHANISM,
            **{name: path for name, path in self.of_tls("listener.name.secure.").items() if "truststore" not in name},
        }

    def reporting(self) -> Settings:
        return {**self.beside(), **AUTHORIZER, "muster.authorizer.report.only": "true"}

    def deciding(self) -> Settings:
        return {**self.beside(), **AUTHORIZER}

    def closed(self) -> Settings:
        return {**self.deciding(), "listeners": "SECURE", "listener.security.protocol.map": "SECURE:SASL_SSL"}

    def roll(self, settings: Settings) -> None:
        """One replica after the other, drained; all clients go on, and nobody's generation changes."""
        for replica in range(REPLICAS):
            found = self.base[replica] | settings
            ports = {"PLAINTEXT": self.cluster.client_port(replica), "SECURE": self.secure_port(replica)}
            if "listeners" in settings:
                names = settings["listeners"].split(",")
                found["listeners"] = ",".join(f"{name}://127.0.0.1:{ports[name]}" for name in names)
            self.config(replica).write_text(format_properties(found, "a stage of closing"))
            replace(self.cluster, replica, None)
            for other in range(REPLICAS):
                wait_until("all are linked", lambda other=other: self.linked(other), 60)
        self.go_on()

    def linked(self, replica: int) -> bool:
        return all(broker["alive"] for broker in self.cluster.status(replica)["brokers"])

    # -- clients

    def login(self, user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.secure_bootstrap, "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca), "sasl.mechanism": MECHANISM, "sasl.username": user,
            "sasl.password": f"canary-{user}", "error_cb": lambda _: None, "log_level": 0,
        }  # fmt: skip

    def member(self, client: str) -> Member:
        secure: dict[str, Any] = {}
        if self.secured:
            who = {"mechanism": MECHANISM, "user": client, "password": f"canary-{client}"}
            secure = {"sasl": who, "ca": str(self.ca)}
        made = Member(
            client, bootstrap=self.secure_bootstrap if self.secured else self.cluster.bootstrap, group=f"g-{client}",
            instance=f"one-{client}", topics=["t"], session_ms=SESSION_MS, poll_ms=120_000, **secure,
        )  # fmt: skip
        self.stack.callback(made.dispose)
        return made

    def move(self, *, secured: bool) -> None:
        """Each is restarted with other settings, as a roll-out of the clients does; its place is kept for it."""
        self.secured = secured
        for client in CLIENTS:
            self.members[client].dispose()
            self.members[client] = self.member(client)
        self.producer_login = self.login(ADMIN) if secured else {"bootstrap.servers": self.cluster.bootstrap}
        for member in self.members.values():
            member.wait_owns(PARTITIONS, 60)
        self.go_on()

    def go_on(self) -> None:
        seen = {client: len(member.records) for client, member in self.members.items()}
        producer = Producer(self.producer_login)
        producer.produce("t", b"x", partition=0)
        assert producer.flush(60) == 0
        for client, member in self.members.items():
            member.wait(f"{client} reads", lambda it, client=client: len(it.records) > seen[client], 60)
            assert member.commit(60)["e"] == "committed", client
            assert self.generation(client) == self.generations[client], client

    def generation(self, client: str) -> int:
        def found() -> int | None:
            answers = [self.cluster.admin(n, f"/v1/groups/{quote(f'g-{client}')}") for n in self.cluster.alive()]
            return next((int(body["generation"]) for code, body in answers if code == 200), None)

        return int(wait_until("a coordinator tells the generation", found, 30))

    # -- administration

    def muster(self, *arguments: str, stdin: str = "") -> str:
        where = ["-b", self.secure_bootstrap, "--config", str(self.properties)]
        done = muster(*arguments, *(where if self.secured else ["-b", self.cluster.bootstrap]), stdin=stdin)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def make_users(self) -> None:
        """By whoever comes, while the cluster is open."""
        wait_until("the level is raised", lambda: levels(self.cluster) == {FEATURE_LEVEL}, 60)
        for user in (ADMIN, *CLIENTS):
            self.muster("user", "create", user, stdin=f"canary-{user}\n")
        self.properties.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism={MECHANISM}\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.ca}\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{ADMIN}" password="canary-{ADMIN}";\n'
        )

    def allow(self) -> None:
        for client in CLIENTS:
            who = ("--allow-principal", f"User:{client}", "--consumer", "--topic", "t", "--group", f"g-{client}")
            self.muster("acl", "add", *who)

    def would_be_denied(self) -> set[str]:
        """Principals that the authorizer has reported."""
        logs = [self.cluster.output, *self.cluster.folder.glob("replica-*/*.log")]
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        return {line.split('"principal": "')[1].split('"')[0] for line in lines if '"would be denied"' in line}

    def anonymous_sees_the_topic(self) -> bool:
        stranger = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        return "t" in stranger.list_topics(timeout=30).topics


@pytest.fixture
def closing(tmp_path: Path) -> Iterator[Closing]:
    with ExitStack() as stack:
        yield Closing(tmp_path, Release(FIRST), stack)


def test_an_open_cluster_becomes_closed_and_its_administrator_gets_back_in(closing: Closing) -> None:
    if WHOLE:
        step_by_step(closing)
    else:
        in_three(closing)
    for replica in range(REPLICAS):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", closing.cluster.client_port(replica)), 5)
    for client in CLIENTS:
        ended = {event["e"] for event in closing.members[client].events}
        assert not ended & {"lost", "commit_failed"}, (client, ended)
    lock_out_and_recover(closing)
    closing.go_on()


def in_three(closing: Closing) -> None:
    closing.roll(closing.peers("none"))  # another release, too: with the one before, peers are linked by its dials
    closing.roll(closing.reporting())
    closing.make_users()
    reports(closing)
    closing.roll(closing.closed())


def step_by_step(closing: Closing) -> None:
    closing.roll(FINALIZE)
    back_and_forth(closing, FINALIZE, closing.peers("none"))
    back_and_forth(closing, closing.peers("none"), closing.peers(""))
    closing.roll(closing.beside())
    closing.make_users()
    closing.move(secured=True)
    closing.move(secured=False)
    back_and_forth(closing, closing.peers(""), closing.beside())
    back_and_forth(closing, closing.beside(), closing.reporting())
    reports(closing)
    back_and_forth(closing, closing.reporting(), closing.deciding())
    assert not closing.anonymous_sees_the_topic()
    back_and_forth(closing, closing.deciding(), closing.closed())


def back_and_forth(closing: Closing, before: Settings, after: Settings) -> None:
    for settings in (after, before, after):
        closing.roll(settings)


def reports(closing: Closing) -> None:
    """Nobody is denied, and whoever would be is named: first all who come without a name, then nobody else."""
    assert closing.anonymous_sees_the_topic()
    wait_until("it is told", lambda: "User:ANONYMOUS" in closing.would_be_denied(), 20)
    closing.allow()
    closing.move(secured=True)
    assert closing.would_be_denied() == {"User:ANONYMOUS"}, "those with ACLs are not among them"


def lock_out_and_recover(closing: Closing) -> None:
    closing.muster("user", "delete", ADMIN)
    wait_until("nobody gets in as administrator", lambda: not gets_in(closing), 60)
    recovered = muster("user", "recover", ADMIN, "--dev", str(closing.cluster.folder), stdin=f"canary-{ADMIN}\n")
    assert recovered.returncode == 0, recovered.stderr
    wait_until("the administrator is back", lambda: gets_in(closing), 60)
    assert "canary" not in recovered.stdout + recovered.stderr
    assert ADMIN in closing.muster("user", "list"), "a super user by the settings"
    audit = '"POST /v1/users/admin/scram"'
    logs = [closing.cluster.output, *closing.cluster.folder.glob("replica-*/*.log")]
    wait_until("the audit has it", lambda: any(audit in log.read_text(errors="replace") for log in logs), 20)


def gets_in(closing: Closing) -> bool:
    try:
        return bool(AdminClient(closing.login(ADMIN)).list_topics(timeout=5).brokers)
    except KafkaException:
        return False
