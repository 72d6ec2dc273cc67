"""Attackers on real processes: each gets a typed refusal or a closed connection, and nobody honest notices.

Three replicas know each other by certificates and have a SASL_SSL listener and, beside it, an open one. A consumer of
librdkafka keeps its membership (a session of six seconds) through all that is done here; a replica's memory stays
within a bound, it writes no error of its own, and no password, token or proof is in anything that it says. What the
pure parts refuse, bit by bit, is in `tests/security`; the table of attacks is in docs/security.md.
"""

import json
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.net.sasl.scram import ScramClient
from muster_coordinator.cli.dev_layout import DevLayout
from muster_coordinator.ids import BrokerId
from muster_coordinator.links.channels import HANDSHAKE
from muster_coordinator.links.frames import frame_header
from muster_coordinator.links.handshake import Handshake, encode_handshake
from muster_coordinator.replica.multiraft.payloads import Hello, encode_hello
from muster_coordinator.runtime.limits import TLS_IDLE_BYTES_MAX
from muster_coordinator.wire.limits import UNAUTHENTICATED_FRAME_BYTES_MAX
from muster_coordinator.wire.versions import Api

from tests.certificates import Authority
from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.integration.test_sasl_clients import muster
from tests.security.test_oauth import OTHER_KEY, RSA_KEY, RULES, jwk, message, token
from tests.wire.kio_entities import decode_answer, encode_request

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

ROOT = Authority()
USER, PASSWORD = "alice", "canary-alice"
MECHANISM = "SCRAM-SHA-512"
STORM = 1_000
ALL_AT_ONCE = 16
GROWTH_BYTES_MAX = STORM * TLS_IDLE_BYTES_MAX + 64 * 1024 * 1024
"""Of a replica's memory while all of a storm are connected: what a connection may hold, and what an allocator keeps."""
SASL_FAILED = 58
CLOSED_S = 30.0


class Attacked:
    """The cluster, and somebody honest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        crt, key = ROOT.issue("replica", ("127.0.0.1",)).write(folder)
        self.ca = folder / "ca.crt"
        self.ca.write_text(ROOT.pem)
        keys = folder / "jwks.json"
        keys.write_text(json.dumps({"keys": [jwk(RSA_KEY, "rsa")]}))
        of_tls = {"keystore.certificate.chain": crt, "keystore.key": key, "truststore.location": self.ca}
        settings = {
            **{f"ssl.{name}": str(path) for name, path in of_tls.items() if not name.startswith("truststore")},
            **{f"listener.name.peer.ssl.{name}": str(path) for name, path in of_tls.items()},
            "muster.peer.security": "tls",
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
            "sasl.enabled.mechanisms": f"{MECHANISM},OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
            "sasl.oauthbearer.expected.issuer": RULES.issuer,
            "sasl.oauthbearer.expected.audience": "muster",
            "group.initial.rebalance.delay.ms": "0",
        }
        self.honest: Any = None
        self.cluster = MusterCluster(folder / "data", replicas=3, partitions=4, settings=settings)
        layout = DevLayout(self.cluster.folder, 3, self.cluster.port)
        layout.folder.mkdir()
        layout.write(4, self.cluster.settings)
        text = f"{MECHANISM}=[name={USER},password={PASSWORD}]"
        formatted = muster("format", "--config", str(layout.config_file(0)), "--add-scram", text)
        assert formatted.returncode == 0, formatted.stderr

    def start(self) -> None:
        self.cluster.start(fresh=False)
        login = {
            "bootstrap.servers": self.cluster.bootstrap, "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca), "sasl.mechanism": MECHANISM, "sasl.username": USER,
            "sasl.password": PASSWORD, "error_cb": lambda _: None, "log_level": 0,
        }  # fmt: skip
        wait_until("the first user is made", lambda: known(login), 60)
        admin = AdminClient(login)
        admin.create_topics([NewTopic("t", 4, 3)])["t"].result(60)
        self.producer = Producer(login)
        self.honest = Member(
            "librdkafka", bootstrap=self.cluster.bootstrap, group="honest", topics=["t"], session_ms=6_000,
            ca=str(self.ca), sasl={"mechanism": MECHANISM, "user": USER, "password": PASSWORD},
        )  # fmt: skip
        self.honest.wait_owns(4, 60)
        self.settled = len(self.honest.events)

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca)

    def plain(self, port: int | None = None) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port or self.cluster.client_port(0)), 30)

    def encrypted(self) -> ssl.SSLSocket:
        return self.context().wrap_socket(self.plain(), server_hostname="127.0.0.1")

    def rss_bytes(self, replica: int = 0) -> int:
        status = Path(f"/proc/{self.cluster.pid(replica)}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def nobody_honest_noticed(self) -> None:
        seen = len(self.honest.records)
        self.producer.produce("t", b"x")
        assert self.producer.flush(30) == 0
        self.honest.wait("it reads", lambda it: len(it.records) > seen, 30)
        assert self.honest.commit(30)["e"] == "committed"
        kinds = {event["e"] for event in self.honest.events[self.settled :]}
        assert not kinds & {"assigned", "revoked", "lost", "commit_failed"}, kinds
        wait_until("all are linked", lambda: self.alive(0), 20)

    def alive(self, replica: int) -> bool:
        return all(broker["alive"] for broker in self.cluster.status(replica)["brokers"])

    def said(self) -> str:
        logs = [self.cluster.output, *self.cluster.folder.glob("replica-*/*.log")]
        return "".join(log.read_text(errors="replace") for log in logs)


def known(login: dict[str, Any]) -> bool:
    try:
        return bool(AdminClient(login).list_topics(timeout=5).brokers)
    except KafkaException:
        return False


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    it = Attacked(tmp_path_factory.mktemp("attacked"))
    try:
        it.start()
        yield it
    finally:
        if it.honest is not None:
            it.honest.dispose()
        it.cluster.close()


def answered_before_the_end(line: socket.socket) -> bytes:
    """All that comes until the other side closes, which it has to."""
    line.settimeout(CLOSED_S)
    got = b""
    with suppress(ConnectionError, ssl.SSLError):
        while data := line.recv(65_536):
            got += data
    return got


def ask(line: ssl.SSLSocket, api: Api, version: int, **values: Any) -> Any:
    """EOFError when the connection is closed instead."""
    try:
        line.sendall(encode_request(api, version, values, 7, "attacker"))
        head = _exactly(line, 4)
        return decode_answer(api, version, head + _exactly(line, struct.unpack(">i", head)[0]))[1]
    except (ConnectionError, ssl.SSLEOFError):
        raise EOFError from None


def _exactly(line: ssl.SSLSocket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        data = line.recv(size - len(got))
        if not data:
            raise EOFError
        got += data
    return got


def authenticate(line: ssl.SSLSocket, data: bytes) -> Any:
    return ask(line, Api.SASL_AUTHENTICATE, 2, auth_bytes=data)


# -- strangers' bytes


TLS_1_1 = bytes.fromhex("0302")


def client_hello(version: bytes) -> bytes:
    """RFC 5246's ClientHello with one cipher suite and no extension: the most that it offers is `version`."""
    body = version + bytes(32) + b"\0" + b"\0\x02\x00\x2f" + b"\x01\0"
    handshake = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + len(handshake).to_bytes(2, "big") + handshake


REQUEST = encode_request(Api.API_VERSIONS, 0, {}, 1, "c")
STRANGE = {
    "a Kafka request on a TLS port": REQUEST,
    "a large claim on a TLS port": struct.pack(">i", 2**31 - 1),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "SSL 2": bytes.fromhex("802e0100020015000000100100800200800300800400800500800600400700c0"),
    "zeros": bytes(4_096),
}


def test_strangers_bytes_end_their_connection(attacked: Attacked) -> None:
    """Plaintext on TLS ports, of clients and of peers, and a downgrade: an alert at most, and no byte of Kafka's."""
    peer_port = attacked.cluster.port + 100
    for what, data in STRANGE.items():
        for port in (None, peer_port):
            with attacked.plain(port) as line:
                with suppress(ConnectionError):
                    line.sendall(data)
                got = answered_before_the_end(line)
                assert not got or got[0] == 0x15, (what, port, got)
    for port in (None, peer_port):
        with attacked.plain(port) as line:
            line.sendall(client_hello(TLS_1_1))
            alert = answered_before_the_end(line)
            assert (alert[0], alert[-2:]) == (0x15, b"\x02\x46"), "fatal, protocol_version (70)"
    # The reverse: TLS where HTTP is spoken.
    for port in (attacked.cluster.port + 200, attacked.cluster.port + 300):
        with attacked.plain(port) as line:
            line.sendall(client_hello(bytes.fromhex("0303")))
            assert not answered_before_the_end(line).startswith(b"\x16"), "no ServerHello"
    attacked.nobody_honest_noticed()


# -- before authentication


def test_frames_before_authentication_are_small_or_the_end(attacked: Attacked) -> None:
    before = attacked.rss_bytes()
    with ExitStack() as stack:
        for claim in (UNAUTHENTICATED_FRAME_BYTES_MAX + 1, 10_000_000, 2**31 - 1, -1):
            line = stack.enter_context(attacked.encrypted())
            line.sendall(struct.pack(">i", claim))
            with suppress(ConnectionError, ssl.SSLError):  # ten megabytes to whoever does not listen any more
                line.sendall(bytes(10_000_000))
            assert answered_before_the_end(line) == b"", claim
        # A hundred that say as much as they may, and never the last byte, hold that and no more.
        for _ in range(100):
            line = stack.enter_context(attacked.encrypted())
            line.sendall(struct.pack(">i", UNAUTHENTICATED_FRAME_BYTES_MAX) + bytes(60_000))
        assert attacked.rss_bytes() - before < GROWTH_BYTES_MAX
        # And who asks for data is closed without a word.
        line = stack.enter_context(attacked.encrypted())
        with pytest.raises(EOFError):
            ask(line, Api.METADATA, 9, topics=None)
    attacked.nobody_honest_noticed()


def scram(line: ssl.SSLSocket, user: str = USER, password: str = PASSWORD) -> tuple[bytes, bytes, Any]:
    """(first message, last message, what the last was answered)"""
    client = ScramClient(user, password, MECHANISM)
    assert ask(line, Api.SASL_HANDSHAKE, 1, mechanism=MECHANISM).error_code.value == 0
    first = client.first_message()
    challenge = authenticate(line, first)
    client.process_server_first_message(challenge.auth_bytes)
    last = client.final_message()
    return first, last, authenticate(line, last)


def test_replays_and_wrong_nonces_are_refused_like_a_wrong_password(attacked: Attacked) -> None:
    with attacked.encrypted() as line:
        first, last, answer = scram(line)
        assert answer.error_code.value == 0
    refusals = []
    with attacked.encrypted() as line:
        refusals.append(scram(line, password="canary-wrong")[2])
    with attacked.encrypted() as line:
        refusals.append(scram(line, user="nobody")[2])
    with attacked.encrypted() as line:  # the whole exchange again
        ask(line, Api.SASL_HANDSHAKE, 1, mechanism=MECHANISM)
        authenticate(line, first)
        refusals.append(authenticate(line, last))
    with attacked.encrypted() as line:  # the server's nonce, cut off
        ask(line, Api.SASL_HANDSHAKE, 1, mechanism=MECHANISM)
        authenticate(line, first)
        own_nonce = first.rpartition(b"r=")[2]
        refusals.append(authenticate(line, b"c=biws,r=" + own_nonce + b",p=" + last.rpartition(b"p=")[2]))
    codes = {answer.error_code.value for answer in refusals}
    words = {answer.error_message for answer in refusals}
    assert (codes, len(words)) == ({SASL_FAILED}, 1), "they are told apart by nothing"
    assert {bytes(answer.auth_bytes) for answer in refusals} == {b""}
    with attacked.encrypted() as line:  # a first message of ten megabytes, in frames that are small enough
        ask(line, Api.SASL_HANDSHAKE, 1, mechanism=MECHANISM)
        assert authenticate(line, b"n,,n=" + b"x" * 60_000 + b",r=abc").error_code.value == SASL_FAILED
        assert answered_before_the_end(line) == b""
    with attacked.encrypted() as line:  # a weaker mechanism than is offered
        refused = ask(line, Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert refused.error_code.value == 33
        assert "PLAIN" not in refused.mechanisms
        assert answered_before_the_end(line) == b""


def test_tokens_that_are_not_the_issuers_are_refused(attacked: Attacked) -> None:
    now = int(time.time())
    valid = {"exp": now + 600, "iat": now, "nbf": now}
    good = token(**valid)
    head, body, signature = good.split(".")
    bad = {
        "alg none": token(None, "none", **valid),  # no signature at all
        "expired": token(exp=now - 600, iat=now - 1_200, nbf=now - 1_200),
        "not yet": token(exp=now + 1_200, iat=now, nbf=now + 600),
        "signed by another": token(OTHER_KEY, **valid),
        "of another issuer": token(**valid, iss="https://foreign"),
        "for others": token(**valid, aud="somebody"),
        "an unknown key": token(OTHER_KEY, kid="theirs", **valid),
        "another's body": f"{head}.{token(**valid, sub='admin').split('.')[1]}.{signature}",
        "cut": f"{head}.{body}.",
    }
    with attacked.encrypted() as line:
        ask(line, Api.SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER")
        assert authenticate(line, message(good)).error_code.value == 0, "the oracle of those below"
    for what, text in bad.items():
        with attacked.encrypted() as line:
            ask(line, Api.SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER")
            try:
                authenticate(line, message(text))
                answer = authenticate(line, b"\x01")
            except EOFError:
                continue
            assert answer.error_code.value == SASL_FAILED, what
            assert answered_before_the_end(line) == b"", what
    assert not any(text in attacked.said() for text in [good, *bad.values()]), "tokens are not logged"


# -- storms


def test_a_thousand_handshakes_slow_or_whole_cost_nobody_a_heartbeat(attacked: Attacked) -> None:
    before = attacked.rss_bytes()
    hello = client_hello(bytes.fromhex("0303"))

    def slow(_: int) -> socket.socket:
        line = attacked.plain()
        line.sendall(hello[:20])
        return line

    def whole(_: int) -> socket.socket | None:
        try:
            return attacked.encrypted()
        except (OSError, ssl.SSLError):  # it was the oldest of too many
            return None

    with ThreadPoolExecutor(ALL_AT_ONCE) as pool, ExitStack() as stack:
        lines = [stack.enter_context(line) for line in pool.map(slow, range(STORM))]
        assert len(lines) == STORM
        attacked.nobody_honest_noticed()
        made = [line for line in pool.map(whole, range(STORM)) if line is not None]
        for line in made:
            stack.enter_context(line)
        assert len(made) > STORM / 2, "most of them are served"
        assert attacked.rss_bytes() - before < GROWTH_BYTES_MAX
        attacked.nobody_honest_noticed()
        with attacked.encrypted() as line:
            assert scram(line)[2].error_code.value == 0, "who is honest gets in meanwhile"
    closed = 'muster_client_connections{listener="PLAINTEXT"}'
    wait_until("nothing of them is left", lambda: metric(attacked, closed) < 20, 60)


def metric(attacked: Attacked, name: str) -> float:
    found = [line for line in attacked.cluster.metrics(0).splitlines() if line.startswith(name)]
    assert found, name
    return float(found[0].rpartition(" ")[2])


# -- peers


def test_a_peer_with_a_right_certificate_and_a_wrong_cluster_is_no_peer(attacked: Attacked, tmp_path: Path) -> None:
    """It is of our CA and for this host, as a replica of another cluster in the same namespace would be."""
    context = attacked.context()
    context.load_cert_chain(*ROOT.issue("replica", ("127.0.0.1",)).write(tmp_path))
    own = str(attacked.cluster.status(0)["cluster_id"])
    strange = "x" * len(own)

    # It gets a link, as a broker would that restarted or is to join, and is told who we are: that is all. With our
    # cluster's id it is known by its folder, which no broker of ours has.
    # While the replica dials the broker itself, the link that it loses to this one, it refuses without a word.
    def told(sender: int, cluster: str) -> bool:
        with (
            attacked.plain(attacked.cluster.port + 100) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as line,
        ):
            hello = encode_hello(Hello(BrokerId(sender), b"u" * 16, 1, cluster))
            body = encode_handshake(Handshake(BrokerId(sender), BrokerId(0), 7, hello))
            line.sendall(frame_header(HANDSHAKE, body) + body)
            line.settimeout(CLOSED_S)
            answer = line.recv(65_536)
            if not answer:
                return False
            assert own.encode() in answer
            line.sendall(frame_header(HANDSHAKE, b"again") + b"again")
            answered_before_the_end(line)
            return True

    for sender, cluster in ((1, strange), (1, own), (7, strange), (7, own)):
        wait_until(f"an answer to {sender}", partial(told, sender, cluster), 30)
    brokers = [attacked.cluster.status(replica)["brokers"] for replica in range(3)]
    assert [[one["broker"] for one in known] for known in brokers] == [[0, 1, 2]] * 3
    wait_until("all are linked again", lambda: all(attacked.alive(replica) for replica in range(3)), 30)
    attacked.nobody_honest_noticed()


@pytest.fixture(scope="module", autouse=True)
def nothing_leaks(attacked: Attacked) -> Iterator[None]:
    """Whatever was done: no secret in any output, no error of ours."""
    yield
    said = attacked.said()
    assert "canary" not in said
    assert "Traceback" not in said
    stored = b"".join(path.read_bytes() for path in attacked.cluster.folder.rglob("*.wal"))
    assert b"canary" not in stored
