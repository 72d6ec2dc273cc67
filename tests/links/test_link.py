"""One connection: handshake first, then messages, then nothing."""

import pytest
from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId
from muster_coordinator.links.channels import APPEND, BULK, CONTROL, HANDSHAKE
from muster_coordinator.links.frames import frame_header
from muster_coordinator.links.handshake import Handshake, encode_handshake
from muster_coordinator.links.link import Link, LinkState

PEER = Handshake(BrokerId(2), BrokerId(1), 7, b"hello")


class FakeWire:
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.closed = False
        self.room = True

    def write(self, parts: list[bytes]) -> None:
        self.parts += parts

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return self.room


class Owner:
    def __init__(self) -> None:
        self.greetings: list[Handshake] = []
        self.messages: list[tuple[int, bytes]] = []
        self.accept = True

    def greeted(self, link: Link, handshake: Handshake) -> None:
        self.greetings.append(handshake)
        if self.accept:
            link.go_up(1_000, handshake)
        else:
            link.close()

    def message(self, link: Link, channel: int, body: bytes) -> None:
        self.messages.append((channel, body))


def framed(channel: int, body: bytes) -> bytes:
    return frame_header(channel, body) + body


HELLO = framed(HANDSHAKE, encode_handshake(PEER))


def up() -> tuple[Link, Owner, FakeWire]:
    owner, wire = Owner(), FakeWire()
    link = Link(owner, wire, dialled=False)
    link.receive(HELLO)
    assert link.state == LinkState.UP
    return link, owner, wire


def test_the_handshake_and_messages_may_come_in_one_piece() -> None:
    owner = Owner()
    link = Link(owner, FakeWire(), dialled=True)
    link.receive(HELLO + framed(APPEND, b"entries") + framed(CONTROL, b"heartbeat"))
    assert owner.greetings == [PEER]
    assert owner.messages == [(APPEND, b"entries"), (CONTROL, b"heartbeat")]
    assert (link.peer_run, link.up_since_ms) == (7, 1_000)


def test_a_message_before_the_handshake_breaks_the_link() -> None:
    link = Link(Owner(), FakeWire(), dialled=False)
    with pytest.raises(WireError, match="before the handshake"):
        link.receive(framed(APPEND, b"x"))


def test_a_second_handshake_breaks_the_link() -> None:
    link, _, _ = up()
    with pytest.raises(WireError, match="second handshake"):
        link.receive(HELLO)


def test_after_a_refusal_nothing_is_heard() -> None:
    owner, wire = Owner(), FakeWire()
    owner.accept = False
    link = Link(owner, wire, dialled=False)
    link.receive(HELLO + framed(APPEND, b"x"))
    assert wire.closed
    assert owner.messages == []


def test_nothing_is_sent_before_the_link_is_up() -> None:
    link = Link(Owner(), FakeWire(), dialled=True)
    assert not link.send(CONTROL, b"early")


def test_a_wire_that_is_full_holds_the_rest_and_control_still_goes_first() -> None:
    link, _, wire = up()
    wire.room = False
    assert link.send(BULK, b"chunk")
    assert link.send(APPEND, b"entries")
    link.pump()
    assert wire.parts == []
    assert link.send(CONTROL, b"heartbeat")
    wire.room = True
    link.pump()
    assert wire.parts[1::2] == [b"heartbeat", b"entries", b"chunk"]
    assert link.unsent_bytes() == 0


def test_a_closed_link_takes_and_gives_nothing() -> None:
    link, owner, wire = up()
    link.close()
    assert wire.closed
    assert not link.send(CONTROL, b"late")
    link.receive(framed(APPEND, b"late"))
    link.pump()
    assert owner.messages == []
    assert wire.parts == []
