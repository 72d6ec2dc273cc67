"""One link to every peer: which side dials when, which of two links stays, when a peer is down. A `ports.PeerNet`.

* Both sides dial. The lower broker id starts at once, the higher `LINK_SECOND_DIAL_MS` later; then jittered back-off.
* The acceptor decides. The higher id always accepts the lower id's dial and drops its own. The lower id refuses a dial
  while its own is under way or has just succeeded (the two crossed); so the link dialled by the lower id is the one
  that stays. A dial without an answer for `LINK_DIAL_TIMEOUT_MS` is taken for lost, as one sent into a network
  partition is: the lower id then accepts the peer's dial.
* A handshake with another `run` comes from a restarted process: its old link is dead whatever the socket says.
* A closed link is re-dialled at once, or after a back-off if it was younger than `LINK_SETTLED_MS`; if no link is up
  `LINK_REDIAL_GRACE_MS` after the close, the sink is told `peer_down` (decision 17). A replaced link gives a second
  `peer_up` without `peer_down`: messages may have been lost in between.
* A broker that is not configured may join (ADR 41): its dial is accepted, and `meet` says where to dial it. As long as
  nobody has, it is forgotten when its link is gone. There are never more than `LINK_PEERS_MAX` peers.
* All messages of one turn to one peer leave in one write, at the end of the turn.

What it does not do: check the replica's hello, retry messages, or use sockets (`runtime.peers` is the `Dialler`).
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import LINK_HELLO_BYTES_MAX, LINK_REDIAL_GRACE_MS
from muster_coordinator.links import limits
from muster_coordinator.links.handshake import Handshake, encode_handshake
from muster_coordinator.links.link import Link, LinkState, Wire
from muster_coordinator.links.peer_auth import Method, PeerAuth, Role, proofs, proves
from muster_coordinator.ports import Loop, PeerSink, Rand, Timer


class Attempt(Protocol):
    """A dial under way."""

    def cancel(self) -> None:
        """Abandon the dial: neither `dial_connected` nor `dial_failed` follows."""


class Dialler(Protocol):
    """Opens connections. Each dial is followed by one call of `Mesh.dial_connected` or `Mesh.dial_failed`, never before
    `dial` has returned."""

    def dial(self, peer: BrokerId) -> Attempt: ...
    def locate(self, peer: BrokerId, host: str, port: int) -> None:
        """Dial this peer there from now on."""


class _Peer:
    """What the mesh knows of one peer."""

    __slots__ = (
        "attempt",
        "broker",
        "dialled_ms",
        "dialling",
        "down_timer",
        "failures",
        "link",
        "located",
        "reported_up",
        "short_lived",
        "timer",
    )

    def __init__(self, broker: BrokerId, *, located: bool) -> None:
        self.broker = broker
        self.located = located
        """The dialler knows where it is."""
        self.link: Link | None = None
        """The link that is UP, or None."""
        self.dialling: Link | None = None
        """A connection that we dialled and that waits for the peer's handshake."""
        self.attempt: Attempt | None = None
        """A dial that is not connected yet. Invariant: at most one of `attempt` and `dialling` is set."""
        self.timer: Timer | None = None
        """The next dial, or the time-out of the one under way."""
        self.down_timer: Timer | None = None
        self.dialled_ms = 0
        """When `attempt` began."""
        self.failures = 0
        """Dials since the last link."""
        self.short_lived = 0
        """The last links, in a row, that broke before they were `LINK_SETTLED_MS` old."""
        self.reported_up = False


def _no_notice(event: str, peer: BrokerId | None, detail: str) -> None:
    """For callers that do not log."""


class Mesh:
    """All peer links of one replica. `run`: u64 drawn at process start; `notice(event, peer, detail)`: for logs."""

    def __init__(
        self,
        broker: BrokerId,
        peers: Iterable[BrokerId],
        *,
        run: int,
        loop: Loop,
        rand: Rand,
        dialler: Dialler,
        notice: Callable[[str, BrokerId | None, str], None] = _no_notice,
        auth: Callable[[], PeerAuth] = PeerAuth,
        nonce: Callable[[], bytes] = bytes,
    ) -> None:
        """`auth`: asked for each connection, since secrets change; `nonce`: 32 bytes that nobody can foresee."""
        self._broker = broker
        self._run = run
        self._loop = loop
        self._rand = rand
        self._dialler = dialler
        self._notice = notice
        self._auth = auth
        self._nonce = nonce
        self._peers = {peer: _Peer(peer, located=True) for peer in peers if peer != broker}
        self._by_link: dict[Link, _Peer] = {}
        self._handshaking: dict[Link, Timer] = {}
        self._dirty: list[Link] = []
        self._flush_queued = False
        self._hello = b""
        self._sink: PeerSink | None = None

    # -- ports.PeerNet ---------------------------------------------------------------------------------------------

    def set_hello(self, hello: bytes) -> None:
        assert len(hello) < LINK_HELLO_BYTES_MAX - 1_024
        self._hello = hello

    def start(self, sink: PeerSink) -> None:
        self._sink = sink
        for peer in self._peers.values():
            self._dial_in(peer, 0)

    def is_up(self, peer: BrokerId) -> bool:
        record = self._peers.get(peer)
        return record is not None and record.link is not None

    def meet(self, peer: BrokerId, host: str, port: int) -> None:
        if peer == self._broker:
            return
        record = self._peers.get(peer) or self._add(peer)
        if record is None:
            self._notice("peer_link_refused", peer, f"there are {limits.LINK_PEERS_MAX} peers, the most there may be")
            return
        self._dialler.locate(peer, host, port)
        record.located = True
        if record.timer is None:
            self._dial_in(record, 0)

    def _add(self, peer: BrokerId) -> _Peer | None:
        if len(self._peers) >= limits.LINK_PEERS_MAX:
            return None
        record = self._peers[peer] = _Peer(peer, located=False)
        return record

    def send(self, peer: BrokerId, channel: int, payload: bytes) -> bool:
        record = self._peers.get(peer)
        link = record.link if record is not None else None
        if link is None or not link.send(channel, payload):
            return False
        self._dirty.append(link)
        if not self._flush_queued:
            self._flush_queued = True
            self._loop.call_soon(self._flush)
        return True

    # -- the driver's side -----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Close all links and dials; the sink is not called any more."""
        self._sink = None
        for record in self._peers.values():
            self._stop_dialling(record)
            _cancel(record.down_timer)
            if record.link is not None:
                record.link.close()
                record.link = None
        for link, timer in list(self._handshaking.items()):
            timer.cancel()
            link.close()
        self._handshaking.clear()
        self._by_link.clear()

    def accepted(self, wire: Wire, speaks_for: Callable[[BrokerId], bool] | None = None) -> Link | None:
        """A connection was accepted; its sender is unknown until its handshake. None: LINK_HANDSHAKES_MAX connections
        wait for a handshake already, or the mesh is stopped; close this one."""
        if self._sink is None or len(self._handshaking) >= limits.LINK_HANDSHAKES_MAX:
            return None
        link = Link(self, wire, dialled=False, speaks_for=speaks_for)
        deadline = self._loop.monotonic_ms() + limits.LINK_HANDSHAKE_TIMEOUT_MS
        self._handshaking[link] = self._loop.call_at(deadline, lambda: self._refuse(link, None, "sent no handshake"))
        return link

    def dial_connected(self, peer: BrokerId, wire: Wire, speaks_for: Callable[[BrokerId], bool] | None = None) -> Link:
        """The dial of `peer` connected."""
        record = self._peers[peer]
        assert record.attempt is not None, "only a dial that is under way connects"
        record.attempt = None
        link = Link(self, wire, dialled=True, speaks_for=speaks_for)
        record.dialling = link
        self._by_link[link] = record
        method = Method.SECRET if self._auth().speaks is Method.SECRET else Method.NONE
        link.greet(self._own_handshake(peer, method))
        return link

    def dial_failed(self, peer: BrokerId) -> None:
        """The dial of `peer` was refused or did not connect."""
        record = self._peers[peer]
        record.attempt = None
        self._retry(record)

    def received(self, link: Link, data: bytes) -> None:
        """Bytes arrived on `link`. A link that breaks the protocol is closed."""
        try:
            link.receive(data)
        except WireError as error:
            self._notice("peer_link_broken", self._peer_of(link), str(error))
            link.close()
            self.closed(link)

    def writable_again(self, link: Link) -> None:
        """The transport drained."""
        link.pump()

    def closed(self, link: Link) -> None:
        """The connection was closed by either side. May be called again for a link that the mesh has closed."""
        link.close()
        timer = self._handshaking.pop(link, None)
        if timer is not None:
            timer.cancel()
        record = self._by_link.pop(link, None)
        if record is None:
            return
        if record.dialling is link:
            record.dialling = None
            self._retry(record)
        elif record.link is link:
            record.link = None
            self._lost(record, link)

    # -- links.link.LinkOwner --------------------------------------------------------------------------------------

    def message(self, link: Link, channel: int, body: bytes) -> None:
        if self._sink is not None:
            self._sink.peer_message(self._by_link[link].broker, channel, body)

    def greeted(self, link: Link, handshake: Handshake) -> None:
        refusal = self._refusal(link, handshake)
        if refusal is not None:
            self._refuse(link, None, refusal)
        elif handshake.auth is Method.SECRET and not link.dialled:
            self._ask_for_proof(link, handshake)
        elif not link.dialled:
            self._admit(link, handshake)
        else:
            self._greeted_by_acceptor(link, self._peers[handshake.sender], handshake)

    def _refusal(self, link: Link, handshake: Handshake) -> str | None:
        """Why this handshake is not listened to."""
        auth, sender = self._auth(), handshake.sender
        known = sender in self._peers or (not link.dialled and self._may_be(sender))
        if handshake.target != self._broker or not known:
            return f"broker {sender} wants broker {handshake.target}, this is broker {self._broker}"
        method = Method.TLS if link.speaks_for is not None else handshake.auth
        if link.dialled:
            asked = Method.TLS if link.speaks_for is not None else link.own.auth if link.own is not None else None
            if method is not asked:
                return f"broker {sender} answers with authentication method {method.name}"
        elif method not in auth.accepts:
            return f"broker {sender} comes with authentication method {method.name}, which is not accepted here"
        if link.speaks_for is not None and not link.speaks_for(sender):
            return f"the certificate is not of broker {sender}"
        return None

    def _ask_for_proof(self, link: Link, handshake: Handshake) -> None:
        record = self._peers.get(handshake.sender)
        if record is not None and not self._accepts(record, handshake):
            self._refuse(link, record.broker, "crossed with this side's dial")
            return
        own = self._own_handshake(handshake.sender, Method.SECRET)
        said = encode_handshake(handshake._replace(proofs=b"")), encode_handshake(own)
        link.peer = handshake
        link.greet(own._replace(proofs=proofs(self._auth().secrets, Role.ACCEPTOR, *said)))
        link.expect_proof()

    def proved(self, link: Link, proof: bytes) -> None:
        own, peer = link.own, link.peer
        if own is None or peer is None:
            self._refuse(link, None, "a proof that nobody asked for")
            return
        said = encode_handshake(peer._replace(proofs=b"")), encode_handshake(own._replace(proofs=b""))
        if proves(proof, self._auth().secrets, Role.DIALLER, *said):
            link.peer = None
            self._admit(link, peer)
        else:
            self._refuse(link, None, f"who calls itself broker {peer.sender} does not know the secret")

    def _admit(self, link: Link, handshake: Handshake) -> None:
        """Of what is known of it now, take the dialler's link or not."""
        record = self._peers.get(handshake.sender) or self._add(handshake.sender)
        if record is None:
            self._refuse(link, None, f"there are {limits.LINK_PEERS_MAX} peers, the most there may be")
        elif self._accepts(record, handshake):
            self._handshaking.pop(link).cancel()
            self._by_link[link] = record
            if link.own is None:
                link.greet(self._own_handshake(handshake.sender, Method.NONE))
            self._establish(link, record, handshake)
        else:
            self._refuse(link, record.broker, "crossed with this side's dial")

    def _may_be(self, sender: BrokerId) -> bool:
        return 0 <= sender != self._broker

    def _greeted_by_acceptor(self, link: Link, record: _Peer, handshake: Handshake) -> None:
        if record.dialling is link and self._by_link[link] is record:
            if handshake.auth is Method.SECRET and not self._prove(link, handshake):
                self._refuse(link, record.broker, f"broker {record.broker} does not know the secret")
                return
            record.dialling = None
            self._establish(link, record, handshake)
        else:
            self._refuse(link, record.broker, "another broker answered")

    def _prove(self, link: Link, handshake: Handshake) -> bool:
        """Check the acceptor's proofs and send ours. False: it has proved nothing."""
        own, secrets = link.own, self._auth().secrets
        if own is None:
            return False
        said = encode_handshake(own), encode_handshake(handshake._replace(proofs=b""))
        if not proves(handshake.proofs, secrets, Role.ACCEPTOR, *said):
            return False
        link.prove(proofs(secrets, Role.DIALLER, *said))
        return True

    def _accepts(self, record: _Peer, handshake: Handshake) -> bool:
        """Whether to accept a dial of this peer (rules: module docstring)."""
        if self._broker > record.broker:
            return True
        current = record.link
        if current is None:
            return record.dialling is None and (record.attempt is None or self._unanswered(record))
        if current.peer_run != handshake.run:
            return True
        return self._loop.monotonic_ms() - current.up_since_ms >= limits.LINK_CROSSING_MS

    def _unanswered(self, record: _Peer) -> bool:
        """Our dial has had no answer for LINK_DIAL_TIMEOUT_MS: it is lost, or no better than the peer's, which has
        arrived."""
        return self._loop.monotonic_ms() - record.dialled_ms >= limits.LINK_DIAL_TIMEOUT_MS

    def _establish(self, link: Link, record: _Peer, handshake: Handshake) -> None:
        self._stop_dialling(record)
        _cancel(record.down_timer)
        record.down_timer = None
        replaced, record.link = record.link, link
        if replaced is not None:
            self._by_link.pop(replaced, None)
            replaced.close()
        record.failures = 0
        record.reported_up = True
        link.go_up(self._loop.monotonic_ms(), handshake)
        if self._sink is not None:
            self._sink.peer_up(record.broker, handshake.hello)

    # -- dialling --------------------------------------------------------------------------------------------------

    def _lost(self, record: _Peer, link: Link) -> None:
        if self._sink is None:
            return
        now_ms = self._loop.monotonic_ms()
        _cancel(record.down_timer)
        record.down_timer = self._loop.call_at(now_ms + LINK_REDIAL_GRACE_MS, lambda: self._gone(record))
        settled = now_ms - link.up_since_ms >= limits.LINK_SETTLED_MS
        record.short_lived = 0 if settled else record.short_lived + 1
        self._dial_in(record, self._back_off_ms(record.short_lived))

    def _gone(self, record: _Peer) -> None:
        record.down_timer = None
        if record.link is not None or self._sink is None:
            return
        if not record.located:
            del self._peers[record.broker]
        if record.reported_up:
            record.reported_up = False
            self._sink.peer_down(record.broker)

    def _dial_in(self, record: _Peer, wait_ms: int) -> None:
        if self._sink is None or not record.located:
            return
        if self._broker > record.broker and record.failures == 0:
            wait_ms += limits.LINK_SECOND_DIAL_MS
        _cancel(record.timer)
        record.timer = self._loop.call_at(self._loop.monotonic_ms() + wait_ms, lambda: self._dial(record))

    def _dial(self, record: _Peer) -> None:
        record.timer = None
        if record.link is not None or record.attempt is not None or record.dialling is not None or self._sink is None:
            return
        fast = record.down_timer is not None
        timeout_ms = limits.LINK_DIAL_TIMEOUT_MS if fast else limits.LINK_DIAL_TIMEOUT_SLOW_MS
        record.timer = self._loop.call_at(self._loop.monotonic_ms() + timeout_ms, lambda: self._dial_expired(record))
        record.dialled_ms = self._loop.monotonic_ms()
        record.attempt = self._dialler.dial(record.broker)

    def _dial_expired(self, record: _Peer) -> None:
        self._stop_dialling(record)
        self._retry(record)

    def _retry(self, record: _Peer) -> None:
        if record.link is not None:
            return
        record.failures += 1
        self._dial_in(record, self._back_off_ms(record.failures))

    def _back_off_ms(self, failures: int) -> int:
        """Random, so that two sides do not go on crossing; 0 after no failure."""
        if failures == 0:
            return 0
        ceiling = min(limits.LINK_BACKOFF_MIN_MS << min(failures - 1, 10), limits.LINK_BACKOFF_MAX_MS)
        return ceiling // 2 + self._rand.randrange(0, ceiling // 2 + 1)

    def _stop_dialling(self, record: _Peer) -> None:
        _cancel(record.timer)
        record.timer = None
        attempt, record.attempt = record.attempt, None
        if attempt is not None:
            attempt.cancel()
        link, record.dialling = record.dialling, None
        if link is not None:
            self._by_link.pop(link, None)
            link.close()

    # -- small parts -----------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._flush_queued = False
        dirty, self._dirty = self._dirty, []
        for link in dict.fromkeys(dirty):
            link.pump()

    def _refuse(self, link: Link, peer: BrokerId | None, detail: str) -> None:
        self._notice("peer_link_refused", peer, detail)
        self.closed(link)

    def _own_handshake(self, target: BrokerId, method: Method) -> Handshake:
        nonce = self._nonce() if method is Method.SECRET else b""
        return Handshake(self._broker, target, self._run, self._hello, auth=method, nonce=nonce)

    def _peer_of(self, link: Link) -> BrokerId | None:
        record = self._by_link.get(link)
        return record.broker if record is not None and link.state != LinkState.CLOSED else None


def _cancel(timer: Timer | None) -> None:
    if timer is not None:
        timer.cancel()
