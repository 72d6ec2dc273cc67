"""What strangers send to a listener that asks who they are: 100,000 handshakes with mistakes of all kinds.

Nobody gets in, nothing escapes, a connection holds no more than one frame of 64 KiB, and the process does not grow. A
peer's greeting likewise: what is no greeting is refused by name.
"""

from random import Random

import pytest
from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId
from muster_coordinator.links.channels import HANDSHAKE
from muster_coordinator.links.frames import FrameSplitter, frame_header
from muster_coordinator.links.handshake import Handshake, decode_handshake, encode_handshake
from muster_coordinator.links.peer_auth import NONCE_BYTES, PROOF_BYTES, Method
from muster_coordinator.replica.multiraft.payloads import Hello, decode_hello, encode_hello
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.versions import Api

from tests.fuzz.campaign import rss_bytes
from tests.fuzz.strangers import MUTATIONS, WEIGHTS, Strangers

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(300)]

FRAMES = 100_000
GROWTH_BYTES_MAX = 16 * 1024 * 1024


def test_no_stranger_gets_in_and_nothing_escapes() -> None:
    strangers = Strangers(20_261)
    strangers.run(FRAMES // 5)
    before = rss_bytes()
    strangers.run(FRAMES - FRAMES // 5)
    assert rss_bytes() - before < GROWTH_BYTES_MAX
    served = strangers.dispatcher.served
    assert strangers.states == {State.UNAUTHENTICATED, State.FAILED}
    assert {api for api, count in served.items() if count} == {
        Api.API_VERSIONS, Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE,
    }  # fmt: skip
    assert served[Api.SASL_AUTHENTICATE] > FRAMES / 100, "enough of them get past the handshake"


def greetings() -> list[bytes]:
    """Frames of a peer's first words, by each method, with and without what later releases append."""
    hello = encode_hello(Hello(BrokerId(1), b"u" * 16, 7, "a cluster", 3, b"e" * 16))
    nonce, proof = b"n" * NONCE_BYTES, b"p" * PROOF_BYTES
    records = [
        Handshake(BrokerId(1), BrokerId(0), 2**64 - 1, hello),
        Handshake(BrokerId(2**31 - 1), BrokerId(0), 0, b""),
        Handshake(BrokerId(1), BrokerId(0), 7, hello, auth=Method.SECRET, nonce=nonce),
        Handshake(BrokerId(1), BrokerId(0), 7, hello, auth=Method.SECRET, nonce=nonce, proofs=proof * 2),
    ]
    bodies = [encode_handshake(record) for record in records] + [encode_handshake(records[0]) + b"more"]
    return [frame_header(HANDSHAKE, body) + body for body in bodies]


def test_what_is_no_greeting_of_a_peer_is_refused_by_name() -> None:
    """Half with a checksum that fits, so that the decoders get it."""
    rand, sane, before = Random(20_262), greetings(), rss_bytes()
    understood = refused = 0
    for number in range(FRAMES):
        frame = rand.choices(MUTATIONS, WEIGHTS)[0](rand, rand.choice(sane))
        if number % 2:
            head = len(frame_header(HANDSHAKE, b""))
            frame = frame_header(HANDSHAKE, frame[head:][:60_000]) + frame[head:][:60_000]
        try:
            for _, body in FrameSplitter().feed(frame):
                handshake = decode_handshake(body)
                if handshake.hello:
                    decode_hello(handshake.hello)
                understood += 1
        except WireError:
            refused += 1
    assert understood > FRAMES / 20
    assert refused > FRAMES / 4
    assert rss_bytes() - before < GROWTH_BYTES_MAX
