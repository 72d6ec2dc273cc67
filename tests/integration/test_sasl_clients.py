"""Clients that show who they are, by SCRAM and PLAIN over TLS: they consume, produce and commit through a fail-over and
many re-authentications, without one rebalance; administrators by Kafka's own tools and `muster user`; who is deleted is
out within seconds.

A SASL_SSL listener on loopback; sessions last three seconds, so each client authenticates again while it works.
"""

import base64
import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.net.sasl.scram import ScramClient
from muster_coordinator.cli.dev_layout import DevLayout
from muster_coordinator.settings import STANDARD_AUTHORIZER
from muster_coordinator.wire.versions import Api

from tests import kafka_tools
from tests.certificates import Authority
from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.integration.failover_load import JavaProducerLoad
from tests.live_files import live_contents, live_paths
from tests.security.test_oauth import RSA_KEY, RULES, jwk, token
from tests.wire.kio_entities import decode_answer, encode_request

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.timeout(300)]

ROOT = Authority()
ADMIN, PASSWORD = "admin", "canary-admin"
SESSION_MS = 3_000
PARTITIONS = 4
AGAIN_MIN = 8
"""Two clients have each mechanism, with two connections and more each: at least two sessions of some of them."""
CLIENTS = {
    "librdkafka": ("SCRAM-SHA-512", ScramMechanism.SCRAM_SHA_512),
    "kafka-python": ("SCRAM-SHA-256", ScramMechanism.SCRAM_SHA_256),
    "aiokafka": ("SCRAM-SHA-512", ScramMechanism.SCRAM_SHA_512),
    "java": ("SCRAM-SHA-256", ScramMechanism.SCRAM_SHA_256),
}
PLAIN_USER = "plain-user"
"""Of the listener's file: no administrator can make or delete it."""
ENVIRONMENT = {**os.environ, "PLAIN_PASSWORD": f"canary-{PLAIN_USER}"}
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{PLAIN_USER}="${{env:PLAIN_PASSWORD}}";'
    ),
    "connections.max.reauth.ms": str(SESSION_MS),
    "group.initial.rebalance.delay.ms": "0",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:{ADMIN}",
    "sasl.oauthbearer.expected.issuer": RULES.issuer,
    "sasl.oauthbearer.expected.audience": "muster",
}


def muster(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "muster_coordinator.cli.main", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT
    )


class Closed:
    """A cluster that nobody gets into unasked, with one administrator."""

    def __init__(self, folder: Path) -> None:
        keys = folder / "jwks.json"
        keys.write_text(json.dumps({"keys": [jwk(RSA_KEY, "rsa")]}))
        secret = folder / "secret"
        ROOT.issue("server", ("127.0.0.1",)).write(secret)
        (secret / "ca.crt").write_text(ROOT.pem)
        self.ca = str(secret / "ca.crt")
        settings = {
            **SETTINGS,
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
            "ssl.keystore.certificate.chain": str(secret / "tls.crt"),
            "ssl.keystore.key": str(secret / "tls.key"),
        }
        self.cluster = MusterCluster(folder / "data", replicas=3, partitions=PARTITIONS, settings=settings)
        self.cluster.environment = ENVIRONMENT
        layout = DevLayout(self.cluster.folder, 3, self.cluster.port)
        layout.folder.mkdir()
        layout.write(PARTITIONS, self.cluster.settings)
        text = f"SCRAM-SHA-512=[name={ADMIN},password={PASSWORD}]"
        formatted = muster("format", "--config", str(layout.config_file(1)), "--add-scram", text)
        assert formatted.returncode == 0, formatted.stderr
        self.properties = folder / "admin.properties"
        self.properties.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.ca}\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{ADMIN}" password="{PASSWORD}";\n'
        )
        self.cluster.start(fresh=False)
        self.who = self.login(ADMIN, PASSWORD)
        self.admin = AdminClient(self.who)
        wait_until("the first user is made", self.known, 30)
        self.admin.create_topics([NewTopic("orders", PARTITIONS, 3)])["orders"].result(20)
        self.produced = 0

    def produce(self, producer: Producer, count: int) -> None:
        """`produced` is what a group that begins at the earliest offset has to read."""
        failed: list[object] = []
        for n in range(count):
            producer.produce(
                "orders", str(n), partition=n % PARTITIONS, on_delivery=lambda e, _: e and failed.append(e)
            )
        assert producer.flush(40) == 0
        assert failed == []
        self.produced += count

    def known(self) -> bool:
        try:
            return bool(AdminClient(self.who).list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    @property
    def trusting(self) -> dict[str, Any]:
        """What every client of librdkafka needs besides its login."""
        return {
            "bootstrap.servers": self.cluster.bootstrap, "security.protocol": "SASL_SSL", "ssl.ca.location": self.ca,
        }  # fmt: skip

    def login(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
        return {
            **self.trusting, "sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password,
            "error_cb": lambda _: None, "log_level": 0,
        }  # fmt: skip

    def add(self, user: str, mechanism: ScramMechanism) -> None:
        info = ScramCredentialInfo(mechanism, 4096)
        change = UserScramCredentialUpsertion(user, info, f"canary-{user}".encode())
        for future in self.admin.alter_user_scram_credentials([change]).values():
            future.result(20)

    def remove(self, user: str, mechanism: ScramMechanism) -> None:
        for future in self.admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, mechanism)]).values():
            future.result(20)

    def tool(self, *arguments: str, tool: str = kafka_tools.CONFIGS) -> str:
        where = ["--bootstrap-server", self.cluster.bootstrap, "--command-config", str(self.properties)]
        return kafka_tools.run(tool, *where, *arguments)

    def muster(self, *arguments: str, stdin: str = "") -> str:
        """What the administrator's command says."""
        done = muster(*arguments, "-b", self.cluster.bootstrap, "--config", str(self.properties), stdin=stdin)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def acls(self, *arguments: str) -> set[tuple[str, ...]]:
        rows = json.loads(self.muster("acl", "list", "-o", "json", *arguments))
        keys = ("resource", "name", "pattern", "principal", "host", "operation", "permission")
        return {tuple(row[key] for key in keys) for row in rows}

    def said(self, event: str) -> list[str]:
        return [line for line in self.output().splitlines() if f'"{event}"' in line]

    def output(self) -> str:
        """All that the replicas and their supervisor have said."""
        texts = [self.cluster.output.read_text(errors="replace")]
        return "".join(texts + [one.read_text(errors="replace") for one in self.cluster.folder.glob("replica-*/*.log")])


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    it = Closed(tmp_path_factory.mktemp("closed"))
    try:
        yield it
    finally:
        it.cluster.close()


def test_groups_of_all_clients_go_on_through_a_fail_over_and_re_authentications(closed: Closed) -> None:
    everybody = [word for client in CLIENTS for word in ("--allow-principal", f"User:{client}")]
    closed.muster(
        "acl", "add", *everybody, "--consumer", "--topic", "orders", "--group", "g-", "--pattern", "prefixed"
    )  # fmt: skip
    members: dict[str, Member] = {}
    producer = Producer(closed.who | {"enable.idempotence": True})
    try:
        for client, (mechanism, kind) in CLIENTS.items():
            closed.add(client, kind)
            who = {"mechanism": mechanism, "user": client, "password": f"canary-{client}"}
            members[client] = Member(
                client, bootstrap=closed.cluster.bootstrap, group=f"g-{client}", topics=["orders"], sasl=who,
                ca=closed.ca, session_ms=20_000,
            )  # fmt: skip
        for one in members.values():
            one.wait_owns(PARTITIONS, 60)
        joined = {client: len(one.events) for client, one in members.items()}
        closed.produce(producer, 100)
        for one in members.values():
            one.wait("the first hundred", lambda m: len(m.records) >= closed.produced, 40)
        closed.cluster.kill(0)
        closed.produce(producer, 100)
        before = again(closed)
        wait_until(
            "sessions have ended and gone on",
            lambda: all(count >= before.get(one, 0) + AGAIN_MIN for one, count in again(closed).items()),
            40,
        )
        closed.produce(producer, 100)
        for client, one in members.items():
            one.wait("all three hundred", lambda m: len(m.records) >= closed.produced, 60)
            assert one.commit(60)["e"] == "committed", client
            # kafka-python joins before it knows the topic's partitions, and again as it does: that was before.
            told = [event["e"] for event in one.events[joined[client] :]]
            changes = [event for event in told if event in ("assigned", "revoked", "lost")]
            assert changes == [], (client, told, closed.said("preparing to rebalance"))
            assert one.ended() is None
    finally:
        for one in members.values():
            one.dispose()
    closed.cluster.start_replica(0)


def test_a_user_of_the_file_gets_in_by_plain(closed: Closed) -> None:
    closed.produce(Producer(closed.who), 100)
    who = {"mechanism": "PLAIN", "user": PLAIN_USER, "password": f"canary-{PLAIN_USER}"}
    stranger = AdminClient(closed.login(PLAIN_USER, who["password"], "PLAIN"))
    assert "orders" not in stranger.list_topics(timeout=20).topics, "nobody has allowed it to see that"
    names = ("--topic", "orders", *(word for client in CLIENTS for word in ("--group", f"plain-{client}")))
    closed.muster("acl", "add", "--allow-principal", f"User:{PLAIN_USER}", "--consumer", *names)
    wait_until("it may see the topic", lambda: "orders" in stranger.list_topics(timeout=20).topics, 5)
    members = [
        Member(
            client, bootstrap=closed.cluster.bootstrap, group=f"plain-{client}", topics=["orders"], sasl=who,
            ca=closed.ca, session_ms=20_000,
        )
        for client in CLIENTS
    ]  # fmt: skip
    try:
        for one in members:
            one.wait(f"{one.client} reads", lambda m: len(m.records) >= closed.produced, 60)
            assert one.commit(60)["e"] == "committed", one.client
    finally:
        for one in members:
            one.dispose()
    with pytest.raises(KafkaException):
        AdminClient(closed.login(PLAIN_USER, "wrong", "PLAIN")).list_topics(timeout=5)


def again(closed: Closed) -> dict[str, float]:
    """How often clients authenticated again with replicas 1 and 2, by mechanism of SCRAM."""
    found = dict.fromkeys(("SCRAM-SHA-256", "SCRAM-SHA-512"), 0.0)
    for line in metrics(closed, (1, 2)):
        for mechanism in found:
            if "successful again" in line and f'"{mechanism}"' in line:
                found[mechanism] += float(line.rsplit(" ", 1)[1])
    return found


def metrics(closed: Closed, replicas: Iterable[int] = range(3)) -> list[str]:
    lines: list[str] = []
    for replica in replicas:
        address = f"http://127.0.0.1:{closed.cluster.port + 200 + replica}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            lines += [line for line in answer.read().decode().splitlines() if "muster_authentications_total{" in line]
    return lines


class Stranger:
    """One connection by hand, so that nothing reconnects behind the test's back."""

    def __init__(self, closed: Closed, port: int) -> None:
        context = ssl.create_default_context(cafile=closed.ca)
        line = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket = context.wrap_socket(line, server_hostname="127.0.0.1")
        self.read = self.socket.makefile("rb")

    def ask(self, api: Api, version: int, **values: Any) -> Any:
        """Raises EOFError once the connection is closed."""
        try:
            self.socket.sendall(encode_request(api, version, values, 7, "stranger"))
            size = self.read.read(4)
        except ConnectionError:
            size = b""
        if not size:
            raise EOFError
        return decode_answer(api, version, size + self.read.read(int.from_bytes(size, "big")))[1]

    def log_in(self, user: str, password: str) -> int:
        """The code of the last answer."""
        client = ScramClient(user, password, "SCRAM-SHA-512")
        self.ask(Api.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-512")
        challenge = self.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=client.first_message())
        client.process_server_first_message(challenge.auth_bytes)
        return int(self.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=client.final_message()).error_code.value)

    def closed(self) -> bool:
        """ApiVersions is answered to anybody, at any time: who is not, is out."""
        try:
            self.ask(Api.API_VERSIONS, 0)
        except EOFError:
            return True
        return False

    def close(self) -> None:
        self.read.close()
        self.socket.close()


def entered(closed: Closed, port: int, user: str, password: str) -> Stranger:
    """As clients do it: again, where a replica that has not heard of the user yet has closed the connection."""

    def attempt() -> Stranger | None:
        stranger = Stranger(closed, port)
        try:
            assert stranger.log_in(user, password) == 0
        except EOFError:
            stranger.close()
            return None
        return stranger

    found: Stranger = wait_until(f"{user} is in", attempt, 20)
    return found


def test_who_is_deleted_is_out_within_five_seconds(closed: Closed) -> None:
    closed.add("leaver", ScramMechanism.SCRAM_SHA_512)
    port = closed.cluster.client_port(1)
    with contextlib.closing(entered(closed, port, "leaver", "canary-leaver")) as inside:
        assert not inside.closed()
        closed.remove("leaver", ScramMechanism.SCRAM_SHA_512)
        wait_until("its connection is closed", inside.closed, 5)
    assert "leaver" in "".join(closed.said("user revoked"))
    with contextlib.closing(Stranger(closed, port)) as later:
        assert later.log_in("leaver", "canary-leaver") == 58
        assert later.closed()


def test_librdkafka_produces_by_tokens_that_are_renewed_while_it_works(closed: Closed) -> None:
    """It fetches the next token at four fifths of the life of one, and authenticates again at nine tenths of the
    session. With less than ten seconds those may be less than one apart, which is refused, by Kafka too."""
    life_s = 10
    given: list[float] = []

    def fresh(_config: str) -> tuple[str, float]:
        now = int(time.time())
        given.append(now)
        return token(exp=now + life_s, iat=now, nbf=now), now + life_s

    producer = Producer(closed.trusting | {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": fresh, "log_level": 0})
    failed: list[object] = []
    # The right stands before the topic in the controller's log, so whoever leads the topic has applied it.
    closed.muster("acl", "add", "--allow-principal", "User:alice", "--producer", "--topic", "by-token")
    closed.admin.create_topics([NewTopic("by-token", 1, 3)])["by-token"].result(20)

    def renewed() -> bool:
        producer.produce("by-token", b"x", on_delivery=lambda error, _: error and failed.append(error))
        producer.poll(0.2)
        again = [line for line in metrics(closed) if '"OAUTHBEARER"' in line and "successful again" in line]
        return len(given) > 1 and bool(again)

    wait_until("it has authenticated again by another token", renewed, 60, every=0)
    assert producer.flush(20) == 0
    assert failed == []


class TokenEndpoint(ThreadingHTTPServer):
    """Where clients fetch their tokens: by client credentials (RFC 6749, 4.4), each for a few seconds. Who has the
    secret `canary-NAME` is NAME."""

    LIFE_SECONDS = 12
    CLIENT = "java-client"

    def __init__(self) -> None:
        self.given = 0
        super().__init__(("127.0.0.1", 0), self._Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"

    @property
    def jvm(self) -> tuple[str, ...]:
        """Since 4.0 a client asks nobody whom the operator of its JVM has not named."""
        return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.url}",)

    def properties(self, ca: str, client: str = CLIENT) -> dict[str, str]:
        """Of Java's client."""
        package = "org.apache.kafka.common.security.oauthbearer"
        return {
            "security.protocol": "SASL_SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": ca,
            "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f"{package}.OAuthBearerLoginModule required "
            f'clientId="{client}" clientSecret="canary-{client}";',
            "sasl.login.refresh.window.factor": "0.5", "sasl.login.refresh.buffer.seconds": "0",
            "sasl.login.refresh.min.period.seconds": "0",
        }  # fmt: skip

    class _Answer(BaseHTTPRequestHandler):
        server: "TokenEndpoint"

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
            shown = base64.b64decode(str(self.headers["Authorization"]).removeprefix("Basic ")).decode()
            client, _, secret = shown.partition(":")
            if secret != f"canary-{client}" or "grant_type=client_credentials" not in asked:
                self.send_error(401)
                return
            self.server.given += 1
            now = int(time.time())
            life = self.server.LIFE_SECONDS
            given = token(sub=client, exp=now + life, iat=now, nbf=now)
            body = json.dumps({"access_token": given, "token_type": "Bearer", "expires_in": life}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """The test says what was asked."""


def by_token(closed: Closed, replicas: Iterable[int]) -> float:
    """How often a token was shown on a connection that had shown one before."""
    lines = [one for one in metrics(closed, replicas) if '"OAUTHBEARER"' in one and "successful again" in one]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_java_consumes_and_produces_by_tokens_of_an_endpoint_through_a_fail_over(
    closed: Closed, tmp_path: Path
) -> None:
    endpoint = TokenEndpoint()
    properties = tmp_path / "producer.properties"
    properties.write_text("".join(f"{name}={text}\n" for name, text in endpoint.properties(closed.ca).items()))
    who = ("--allow-principal", f"User:{endpoint.CLIENT}")
    closed.muster("acl", "add", *who, "--consumer", "--topic", "java-token", "--group", "g-java-token")
    closed.muster("acl", "add", *who, "--producer", "--topic", "java-token")
    closed.admin.create_topics([NewTopic("java-token", 1, 3)])["java-token"].result(20)
    producer = JavaProducerLoad(closed.cluster.bootstrap, "java-token", 0, properties=properties, jvm=endpoint.jvm)
    member = Member(
        "java", bootstrap=closed.cluster.bootstrap, group="g-java-token", topics=["java-token"], session_ms=20_000,
        properties=endpoint.properties(closed.ca), jvm=endpoint.jvm,
    )  # fmt: skip

    def goes_on(what: str) -> None:
        seen = len(member.records)
        member.wait(what, lambda it: len(it.records) > seen + 20, 60)
        assert member.commit(60)["e"] == "committed", what

    try:
        goes_on("reads what the other one writes")
        joined = len(member.events)
        found = closed.admin.describe_consumer_groups(["g-java-token"])["g-java-token"].result(20)
        coordinator = found.coordinator.id
        others = [replica for replica in range(3) if replica != coordinator]
        closed.cluster.kill(coordinator)
        goes_on("goes on after its coordinator has gone")
        before, given = by_token(closed, others), endpoint.given
        wait_until("both have fetched new tokens", lambda: endpoint.given >= given + 4, 60)
        wait_until("connections went on by them", lambda: by_token(closed, others) >= before + AGAIN_MIN, 60)
        goes_on("goes on by later tokens")
        producer.finish()
        member.wait("everything once", lambda it: len(it.records) >= producer.sent, 60)
        assert [value for *_, value in member.records] == [str(n) for n in range(producer.sent)]
        told = [event["e"] for event in member.events[joined:]]
        assert not {"assigned", "revoked", "lost", "error", "commit_failed"} & set(told), told
    finally:
        member.dispose()
        producer.dispose()
        endpoint.shutdown()
        endpoint.server_close()
    closed.cluster.start_replica(coordinator)


def test_kafkas_tool_and_muster_user_administer_the_same_users(closed: Closed) -> None:
    entity = ("--entity-type", "users", "--entity-name", "by-tool")
    added = closed.tool("--alter", *entity, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=canary-tool]")
    assert added.strip() == "Completed updating config for user by-tool."
    shown = closed.tool("--describe", *entity)
    assert "SCRAM credential configs for user-principal 'by-tool' are SCRAM-SHA-512=iterations=8192" in shown
    at = ("-b", closed.cluster.bootstrap, "--config", str(closed.properties))
    made = muster("user", "create", "by-muster", "--mechanism", "SCRAM-SHA-256", *at, stdin="canary-muster\n")
    assert made.returncode == 0, made.stderr
    listed = muster("user", "list", "-o", "json", *at)
    users = {row["user"]: (row["mechanism"], row["iterations"]) for row in json.loads(listed.stdout)}
    assert users["by-tool"] == ("SCRAM-SHA-512", 8192)
    assert users["by-muster"] == ("SCRAM-SHA-256", 8192)
    for user, password, mechanism in (
        ("by-tool", "canary-tool", "SCRAM-SHA-512"),
        ("by-muster", "canary-muster", "SCRAM-SHA-256"),
    ):
        assert AdminClient(closed.login(user, password, mechanism)).list_topics(timeout=20).brokers
    gone = closed.tool("--alter", *entity, "--delete-config", "SCRAM-SHA-512")
    assert gone.strip() == "Completed updating config for user by-tool."
    assert muster("user", "delete", "by-muster", "--mechanism", "SCRAM-SHA-256", *at).returncode == 0
    again = muster("user", "delete", "by-muster", "--mechanism", "SCRAM-SHA-256", *at)
    assert "does not exist" in again.stderr


def test_kafkas_tool_and_muster_acl_say_the_same(closed: Closed) -> None:
    grant = ("--allow-principal", "User:bob", "--deny-principal", "User:eve", "--deny-host", "10.0.0.9")
    closed.tool("--add", *grant, "--operation", "Read", "--topic", "by-tool", tool=kafka_tools.ACLS)
    by_tool = {
        ("TOPIC", "by-tool", "LITERAL", "User:bob", "*", "READ", "ALLOW"),
        ("TOPIC", "by-tool", "LITERAL", "User:eve", "10.0.0.9", "READ", "DENY"),
    }
    assert closed.acls("--topic", "by-tool") == by_tool
    closed.muster("acl", "add", *grant, "--operation", "Read", "--topic", "by-", "--pattern", "prefixed")
    assert len(closed.acls("--topic", "by-tool", "--pattern", "match")) == 4, "the prefix holds for it, too"
    listed = closed.tool("--list", "--topic", "by-", "--resource-pattern-type", "prefixed", tool=kafka_tools.ACLS)
    assert "ResourcePattern(resourceType=TOPIC, name=by-, patternType=PREFIXED)" in listed
    assert "(principal=User:eve, host=10.0.0.9, operation=READ, permissionType=DENY)" in listed
    closed.muster("acl", "remove", "--topic", "by-tool", "--dry-run")
    assert closed.acls("--topic", "by-tool") == by_tool
    closed.muster("acl", "remove", "--topic", "by-tool", "--deny")
    assert closed.acls("--topic", "by-tool") == {one for one in by_tool if one[-1] == "ALLOW"}
    closed.muster("acl", "remove", "--principal", "User:bob", "--principal", "User:eve", "--pattern", "any")
    assert not closed.acls("--principal", "User:bob") | closed.acls("--principal", "User:eve")
    refused = muster("acl", "remove", "-b", closed.cluster.bootstrap, "--config", str(closed.properties))
    assert (refused.returncode, "name a resource or --principal" in refused.stderr) == (2, True)


def test_no_password_is_in_anything_that_was_said_or_stored(closed: Closed) -> None:
    """Run last: of all passwords of this file."""
    assert "canary" not in closed.output()
    for path, data in live_contents(live_paths(closed.cluster.folder, "**/*")):
        assert b"canary" not in data, path
    for line in metrics(closed):
        assert "canary" not in line
