"""Peer links under TLS over real sockets: who is verified both ways is linked, and nobody else."""

import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace

import pytest
from muster_coordinator.ids import BrokerId
from muster_coordinator.links.channels import APPEND, CONTROL
from muster_coordinator.links.mesh import Mesh
from muster_coordinator.links.peer_auth import Method, PeerAuth
from muster_coordinator.runtime.peers import PeerTls, TcpPeers
from muster_coordinator.runtime.tls_connection import Handshakes
from muster_coordinator.runtime.tls_store import TlsStore
from muster_coordinator.security.tls_config import ClientAuth

from tests.certificates import Authority, Issued, tls_config
from tests.runtime.test_peers_tcp import A, B, Harness, Replica

ROOT = Authority()
RIGHT = ROOT.issue("right", ("127.0.0.1",))
ELSEWHERE = ROOT.issue("elsewhere", ("127.0.0.2",))
STRANGER = Authority("Strangers").issue("stranger", ("127.0.0.1",))
TLS = frozenset({Method.TLS})


class Secure(Harness):
    """Each replica with a certificate, and what it accepts."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: dict[BrokerId, list[str]] = {A: [], B: []}

    def secure(
        self,
        broker: BrokerId,
        issued: Issued = RIGHT,
        *,
        speaks: Method = Method.TLS,
        accepts: frozenset[Method] = TLS,
        trusts: Authority = ROOT,
    ) -> Replica:
        config = tls_config(
            keystore_chain=issued.pem, keystore_key=issued.key_pem(), truststore_certificates=trusts.pem
        )
        host = "127.0.0.2" if issued is ELSEWHERE else "127.0.0.1"
        store = TlsStore(
            self.loop, config, name="peer", hosts=(host,), tell=lambda _: None, client_auth=ClientAuth.REQUIRED,
            both_ways=trusts is ROOT and issued is not STRANGER,
        )  # fmt: skip
        store.load()
        if store.client is None:
            store.client = store._context(ssl.PROTOCOL_TLS_CLIENT, store._used)
        loop = self.loop.asyncio_loop
        refused = self.refusals[broker].append
        tls = PeerTls(store, Handshakes(loop), speaks is Method.TLS, accepts != TLS, refused)
        made = Replica(self.loop, broker, self.addresses)
        auth = PeerAuth(speaks, accepts | {speaks})
        made.tcp = TcpPeers(
            loop,
            self.addresses,
            lambda tcp: Mesh(
                broker, list(self.addresses), run=broker + 1, loop=self.loop, rand=made.rand, dialler=tcp,
                notice=lambda event, peer, detail: refused(detail), auth=lambda: auth,
            ),
            tls,
        )  # fmt: skip
        made.mesh = made.tcp.mesh
        made.listen()
        made.mesh.start(made.sink)
        self.replicas.append(made)
        return made

    def apart(self, *replicas: Replica) -> None:
        """After several dials of each."""
        self.until(lambda: len(self.refusals[A]) >= 3 or len(self.refusals[B]) >= 3)
        assert [replica.sink.events for replica in replicas] == [[] for _ in replicas]


@pytest.fixture
def harness() -> Iterator[Secure]:
    made = Secure()
    yield made
    for replica in made.replicas:
        replica.stop()
    made.run_turns(10)
    made.loop.close()
    made.loop.asyncio_loop.close()


def test_whoever_is_verified_both_ways_is_linked_and_large_messages_pass(harness: Secure) -> None:
    one, other = harness.secure(A), harness.secure(B)
    harness.until(lambda: one.mesh.is_up(B) and other.mesh.is_up(A))
    large = bytes(range(256)) * 4_000
    for _ in range(3):
        assert one.mesh.send(B, APPEND, large)
    assert one.mesh.send(B, CONTROL, b"small")
    harness.until(lambda: len(other.sink.messages) == 4)
    assert sorted(len(body) for _, body in other.sink.messages) == [5, *[len(large)] * 3]


def test_another_ca_is_refused(harness: Secure) -> None:
    harness.apart(harness.secure(A), harness.secure(B, STRANGER))
    assert any("not trusted" in why or "unknown ca" in why for why in harness.refusals[A] + harness.refusals[B])


def test_a_certificate_of_this_ca_for_another_host_is_refused(harness: Secure) -> None:
    harness.apart(harness.secure(A), harness.secure(B, ELSEWHERE))
    said = harness.refusals[A] + harness.refusals[B]
    assert any("the certificate is not of broker 1" in why or "not trusted: IP address mismatch" in why for why in said)


def test_who_speaks_no_tls_is_refused_where_it_is_wanted(harness: Secure) -> None:
    harness.secure(A)
    plain = harness.replica(B)
    harness.until(lambda: "the other side does not speak TLS" in harness.refusals[A])
    assert plain.sink.events == []


@pytest.mark.parametrize("turned", [False, True])
def test_while_a_cluster_changes_over_both_are_accepted(harness: Secure, turned: bool) -> None:
    if turned:
        one, other = harness.replica(A), harness.secure(B, accepts=TLS | {Method.NONE})
    else:
        one, other = harness.secure(A, accepts=TLS | {Method.NONE}), harness.replica(B)
    harness.until(lambda: one.mesh.is_up(B) and other.mesh.is_up(A))


def test_a_silent_connection_to_a_port_that_takes_both_ends_in_time(harness: Secure) -> None:
    one = harness.secure(A, accepts=TLS | {Method.NONE})
    lines = [socket.create_connection(harness.addresses[A], 5) for _ in range(70)]
    try:
        harness.until(lambda: one.tcp.unknown == 64)
        harness.until(lambda: one.tcp.unknown == 0)
    finally:
        for line in lines:
            line.close()


def test_a_new_certificate_is_for_new_links(harness: Secure) -> None:
    one, other = harness.secure(A), harness.secure(B)
    harness.until(lambda: one.mesh.is_up(B) and other.mesh.is_up(A))
    again = ROOT.issue("again", ("127.0.0.1",))
    tls = other.tcp.tls
    assert tls is not None
    tls.store._config = replace(tls.store._config, keystore_chain=again.pem, keystore_key=again.key_pem())
    tls.store.load()
    assert one.mesh.is_up(B)
    assert tls.store.status().subject == "CN=again"
