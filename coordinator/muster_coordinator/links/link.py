"""One peer connection without its socket: bytes in become a handshake and messages, messages become bytes out.

A link is OPENING until both handshakes are exchanged, then UP, then CLOSED for ever; an acceptor's is PROVING in
between when the dialler has to prove who it is (`peer_auth`). Before UP only a handshake frame of at most
`limits.LINK_HELLO_BYTES_MAX` is accepted. What it does not do: decide which replicas may link and which of two links
stays (`links.mesh`), or use sockets (`runtime.peers`).
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import LINK_WRITE_BYTES
from muster_coordinator.links.channels import HANDSHAKE, ChannelQueues
from muster_coordinator.links.frames import FrameSplitter, frame_header
from muster_coordinator.links.handshake import Handshake, decode_handshake, encode_handshake


class LinkState(IntEnum):
    OPENING = 0
    PROVING = 3
    """The dialler is to prove who it is."""
    UP = 1
    CLOSED = 2


class Wire(Protocol):
    """The transport under a link. No call raises; all may be called after the connection is lost."""

    def write(self, parts: list[bytes]) -> None: ...
    def close(self) -> None:
        """Drop the connection and all bytes that it has not sent."""

    def writable(self) -> bool:
        """False while the transport's buffer is full; `Mesh.writable_again` is called when it has drained."""


class LinkOwner(Protocol):
    """Decides about a link and receives its messages (`links.mesh.Mesh`)."""

    def greeted(self, link: "Link", handshake: Handshake) -> None:
        """The other side's handshake was received: call `expect_proof`, `go_up` or `close`."""

    def proved(self, link: "Link", proof: bytes) -> None:
        """What should prove who dialled was received: call `go_up` or `close`."""

    def message(self, link: "Link", channel: int, body: bytes) -> None: ...


class Link:
    """One connection. `dialled`: this side opened it; `peer_run`: the peer's `run`, valid once the link is UP."""

    __slots__ = (
        "_owner",
        "_queues",
        "_splitter",
        "_wire",
        "dialled",
        "own",
        "peer",
        "peer_run",
        "speaks_for",
        "state",
        "up_since_ms",
    )

    def __init__(
        self, owner: LinkOwner, wire: Wire, *, dialled: bool, speaks_for: Callable[[BrokerId], bool] | None = None
    ) -> None:
        self._owner = owner
        self._wire = wire
        self._queues = ChannelQueues()
        self._splitter = FrameSplitter()
        self.dialled = dialled
        self.speaks_for = speaks_for
        """With TLS: may the peer's certificate speak for this broker? None: there is no TLS."""
        self.own: Handshake | None = None
        """The handshake that was sent."""
        self.peer: Handshake | None = None
        """The one that was received, while its proof is awaited."""
        self.state = LinkState.OPENING
        self.peer_run = 0
        self.up_since_ms = 0

    def greet(self, own: Handshake) -> None:
        """Send our handshake: the dialler at once, the acceptor when it accepts the link."""
        self.own = own
        body = encode_handshake(own)
        self._wire.write([frame_header(HANDSHAKE, body), body])

    def expect_proof(self) -> None:
        """Our handshake is sent, and the next frame is the dialler's proof."""
        assert self.state == LinkState.OPENING
        self.state = LinkState.PROVING

    def prove(self, proof: bytes) -> None:
        """Send the dialler's proof."""
        self._wire.write([frame_header(HANDSHAKE, proof), proof])

    def go_up(self, now_ms: int, peer: Handshake) -> None:
        """Both handshakes are exchanged: messages flow from now on."""
        assert self.state in (LinkState.OPENING, LinkState.PROVING)
        self.state = LinkState.UP
        self.peer_run = peer.run
        self.up_since_ms = now_ms
        self._splitter.open_up()

    def close(self) -> None:
        """Close the wire. The link delivers no message any more, even if bytes still arrive."""
        if self.state != LinkState.CLOSED:
            self.state = LinkState.CLOSED
            self._wire.close()

    def receive(self, data: bytes) -> None:
        """Take bytes from the wire. Raises `WireError` when the other side breaks the protocol: close the link then."""
        for channel, body in self._splitter.feed(data):
            if self.state == LinkState.UP:
                if channel == HANDSHAKE:
                    raise WireError("a second handshake on one peer link")
                self._owner.message(self, channel, body)
            elif self.state == LinkState.PROVING:
                if channel != HANDSHAKE:
                    raise WireError("a peer message before the proof")
                self._owner.proved(self, body)
            elif self.state == LinkState.OPENING:
                if channel != HANDSHAKE:
                    raise WireError("a peer message before the handshake")
                self._owner.greeted(self, decode_handshake(body))
            else:
                return

    def send(self, channel: int, body: bytes) -> bool:
        """Queue one message for the next `pump`. False: the link is not UP, or the channel is full."""
        if self.state != LinkState.UP or not self._queues.has_room(channel):
            return False
        return self._queues.offer(channel, frame_header(channel, body), body)

    def pump(self) -> None:
        """Write queued messages, most urgent first, until the wire takes no more."""
        while self.state == LinkState.UP and self._wire.writable():
            parts = self._queues.take(LINK_WRITE_BYTES)
            if not parts:
                return
            self._wire.write(parts)

    def unsent_bytes(self) -> int:
        """Bytes queued in this link; bytes in the transport's buffer are not counted."""
        return self._queues.unsent_bytes()
