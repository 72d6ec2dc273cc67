"""Links by a secret: who has it gets in, nobody else does, whatever was overheard; and a cluster changes over while it
runs."""

import itertools

import pytest
from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId
from muster_coordinator.links.channels import CONTROL, HANDSHAKE
from muster_coordinator.links.frames import FrameSplitter, frame_header
from muster_coordinator.links.handshake import Handshake, decode_handshake, encode_handshake
from muster_coordinator.links.peer_auth import (
    NONCE_BYTES,
    PROOF_BYTES,
    SECRET_BYTES_MAX,
    SECRET_BYTES_MIN,
    Method,
    PeerAuth,
    Role,
    parse_methods,
    parse_secrets,
    proofs,
    proves,
)

from tests.links.test_mesh import A, B, C, FakeNet

OLD, NEW = b"o" * 32, b"n" * 32
SECRET = PeerAuth(Method.SECRET, frozenset({Method.SECRET}), (OLD,))
OPEN = PeerAuth()
BOTH = PeerAuth(Method.SECRET, frozenset({Method.SECRET, Method.NONE}), (OLD,))


def linked(*auths: PeerAuth, ms: int = 1_000) -> FakeNet:
    """Replicas with these, started one after the other."""
    net = FakeNet()
    brokers = [A, B, C][: len(auths)]
    net.auths = dict(zip(brokers, auths, strict=True))
    for broker in brokers:
        net.start(broker, brokers)
    net.world.run_for(ms)
    return net


def up(net: FakeNet, one: BrokerId, other: BrokerId) -> bool:
    return net.nodes[one].mesh.is_up(other) and net.nodes[other].mesh.is_up(one)


def test_who_has_the_secret_is_linked_and_messages_flow() -> None:
    net = linked(SECRET, SECRET, SECRET)
    for one, other in itertools.combinations((A, B, C), 2):
        assert up(net, one, other)
        assert net.nodes[one].mesh.send(other, CONTROL, b"hello")
    net.world.run_for(10)
    assert net.nodes[B].messages == [(A, CONTROL, b"hello")]
    assert net.nodes[C].hellos == {A: b"hello of 0", B: b"hello of 1"}


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (SECRET, SECRET._replace(secrets=(NEW,)), False),
        (SECRET, OPEN, False),
        (BOTH, OPEN, True),
        (OPEN, BOTH, True),
        (BOTH, SECRET, True),
        (SECRET, BOTH, True),
        (BOTH._replace(secrets=(NEW,)), SECRET, False),
        # A new secret comes in with one roll-out, and the old one goes with the next.
        (SECRET, SECRET._replace(secrets=(NEW, OLD)), True),
        (SECRET._replace(secrets=(NEW,)), SECRET._replace(secrets=(NEW, OLD)), True),
        (SECRET._replace(secrets=(OLD, NEW)), SECRET._replace(secrets=(NEW, OLD)), True),
        (PeerAuth(Method.NONE, frozenset({Method.NONE, Method.SECRET}), (OLD,)), SECRET, True),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_who_gets_along_with_whom(one: PeerAuth, other: PeerAuth, together: bool, turned: bool) -> None:
    net = linked(*((other, one) if turned else (one, other)), ms=3_000)
    assert up(net, A, B) is together
    if not together:
        assert not net.nodes[A].events
        assert not net.nodes[B].events
        assert net.nodes[A].notices
        assert net.nodes[B].notices or True
    # And it stays so.
    net.world.run_for(5_000)
    assert up(net, A, B) is together
    assert [event for event in net.nodes[A].events if event[0] == "up"] == [("up", B)] * together


def test_an_open_cluster_becomes_closed_by_two_roll_outs() -> None:
    net = linked(OPEN, OPEN, OPEN)
    brokers = [A, B, C]
    for wanted in (BOTH, SECRET):
        for broker in brokers:
            net.kill(broker)
            net.world.run_for(200)
            net.auths[broker] = wanted
            net.start(broker, brokers)
            net.world.run_for(2_000)
            for one, other in itertools.combinations(brokers, 2):
                assert up(net, one, other), (
                    wanted,
                    broker,
                    one,
                    other,
                    net.nodes[one].notices,
                    net.nodes[other].notices,
                )


class Attacker:
    """Speaks to one replica by hand."""

    def __init__(self, net: FakeNet, target: BrokerId) -> None:
        self.node = net.nodes[target]
        self.net = net
        self.heard: list[tuple[int, bytes]] = []
        self.closed = False
        self.splitter = FrameSplitter()
        link = self.node.mesh.accepted(self)
        assert link is not None
        self.link = link

    def write(self, parts: list[bytes]) -> None:
        self.heard += self.splitter.feed(b"".join(parts))

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True

    def say(self, body: bytes, channel: int = HANDSHAKE) -> None:
        self.node.mesh.received(self.link, frame_header(channel, body) + body)


def hello(sender: BrokerId = B, auth: Method = Method.SECRET, nonce: bytes = b"x" * NONCE_BYTES) -> bytes:
    return encode_handshake(Handshake(sender, A, 5, b"evil", auth=auth, nonce=nonce if auth is Method.SECRET else b""))


@pytest.fixture
def net() -> FakeNet:
    made = FakeNet()
    made.auths = {A: SECRET}
    made.start(A, [A, B])
    made.world.run_for(200)
    return made


def test_an_attacker_gets_nowhere_with_what_it_can_make(net: FakeNet) -> None:
    def alone() -> None:
        assert not net.nodes[A].mesh.is_up(B)
        assert net.nodes[A].events == []

    for sent in (b"", b"\0" * PROOF_BYTES, b"\0" * (2 * PROOF_BYTES), b"\0" * 33, b"\0" * 1_000):
        attacker = Attacker(net, A)
        attacker.say(hello())
        assert len(attacker.heard) == 1
        assert not attacker.closed
        attacker.say(sent)
        assert attacker.closed
        alone()
    # What the acceptor has proved is of no use to prove oneself: neither in this link nor in another.
    attacker = Attacker(net, A)
    attacker.say(hello())
    reflected = decode_handshake(attacker.heard[0][1]).proofs
    attacker.say(reflected)
    assert attacker.closed
    alone()
    # Without a method, by a message before the proof, as a replica that there is not, with a cut nonce.
    for body, channel in ((hello(auth=Method.NONE), HANDSHAKE), (hello(nonce=b"short"), HANDSHAKE), (b"x", CONTROL)):
        attacker = Attacker(net, A)
        attacker.say(body, channel)
        assert attacker.closed
        alone()
    attacker = Attacker(net, A)
    attacker.say(hello())
    attacker.say(b"message", CONTROL)
    assert attacker.closed
    alone()


def test_what_was_overheard_is_of_no_use_in_another_link(net: FakeNet) -> None:
    first = Attacker(net, A)
    first.say(hello())
    answer = decode_handshake(first.heard[0][1])
    said = hello(), encode_handshake(answer._replace(proofs=b""))
    proof = proofs((OLD,), Role.DIALLER, *said)
    again = Attacker(net, A)
    again.say(hello())
    again.say(proof)
    assert again.closed, "the acceptor's nonce is another"
    first.say(proof)
    assert not first.closed
    assert net.nodes[A].mesh.is_up(B), "who knows the secret is in"


def test_half_open_proofs_are_as_few_as_handshakes_and_end_with_their_time(net: FakeNet) -> None:
    from muster_coordinator.links import limits

    many = [Attacker(net, A) for _ in range(limits.LINK_HANDSHAKES_MAX)]
    for number, attacker in enumerate(many):
        attacker.say(hello(BrokerId(10 + number)))
    assert net.nodes[A].mesh.accepted(many[0]) is None
    assert set(net.nodes[A].mesh._peers) == {B}, "nobody is remembered who has proved nothing"
    net.world.run_for(limits.LINK_HANDSHAKE_TIMEOUT_MS + 1)
    assert all(attacker.closed for attacker in many)
    assert net.nodes[A].mesh.accepted(many[0]) is not None


def test_a_proof_is_bound_to_everything_that_was_said() -> None:
    one = Handshake(A, B, 1, b"cluster", auth=Method.SECRET, nonce=b"n" * NONCE_BYTES)
    other = Handshake(B, A, 2, b"cluster", auth=Method.SECRET, nonce=b"m" * NONCE_BYTES)
    said = encode_handshake(one), encode_handshake(other)
    right = proofs((OLD,), Role.DIALLER, *said)
    assert proves(right, (NEW, OLD), Role.DIALLER, *said)
    assert not proves(right, (OLD,), Role.ACCEPTOR, *said)
    for changed in (
        one._replace(sender=C), one._replace(target=C), one._replace(run=9), one._replace(hello=b"cluste2"),
        one._replace(nonce=b"k" * NONCE_BYTES), one._replace(version_max=2),
    ):  # fmt: skip
        assert not proves(right, (OLD,), Role.DIALLER, encode_handshake(changed), said[1])
    for changed in (other._replace(hello=b"other"), other._replace(nonce=b"k" * NONCE_BYTES)):
        assert not proves(right, (OLD,), Role.DIALLER, said[0], encode_handshake(changed))
    for bit in range(8 * PROOF_BYTES):
        flipped = bytearray(right)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not proves(bytes(flipped), (OLD,), Role.DIALLER, *said)
    assert decode_handshake(encode_handshake(one._replace(proofs=right))) == one._replace(proofs=right)
    with pytest.raises(WireError, match="cut short"):
        decode_handshake(encode_handshake(one)[:-1])


def test_secrets_have_a_least_and_a_greatest_length_and_number() -> None:
    assert parse_secrets(NEW + b"\n" + OLD + b"\n\n") == (NEW, OLD)
    assert parse_secrets(b"s" * SECRET_BYTES_MIN) == (b"s" * SECRET_BYTES_MIN,)
    assert parse_secrets(b"s" * SECRET_BYTES_MAX) == (b"s" * SECRET_BYTES_MAX,)
    for data in (b"", b"s" * (SECRET_BYTES_MIN - 1), b"s" * (SECRET_BYTES_MAX + 1), b"\n".join([OLD, NEW, b"3" * 32])):
        with pytest.raises(WireError) as error:
            parse_secrets(data)
        assert "ssss" not in str(error.value)
    assert parse_methods("none, tls") == (Method.NONE, Method.TLS)
    with pytest.raises(ValueError, match="not of"):
        parse_methods("mtls")
