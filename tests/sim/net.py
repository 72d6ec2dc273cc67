"""A network of peer links on virtual time: one `SimNet`, each replica's life gets a `SimPort` (ports.PeerNet).

A link is made when both ends have started and may talk. Messages of one direction and channel keep their order; delay
is drawn. Faults: `cut` loses everything in one direction in silence (the link stays "up", as TCP does for a while),
`refusal` refuses a share of the messages, `bytes_per_ms` makes bytes cost time,
`reset` closes a link at once (the ends are told after the re-dial grace, unless it is up again), `isolate`/`heal` do
both directions of a replica. A `WireError` from the sink closes the link, as `links.mesh` does.
"""

from collections.abc import Callable, Iterable

from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import LINK_REDIAL_GRACE_MS
from muster_coordinator.links.channels import CONTROL, RULES
from muster_coordinator.ports import PeerSink
from muster_coordinator.replica.multiraft.payloads import Kind, kind_of

from tests.sim.gray_links import Directions
from tests.sim.loop import SimLoop, World


class _Link:
    """Both directions between two replicas; `life` counts how often it was made."""

    __slots__ = ("arrival_us", "busy_us", "life", "up")

    def __init__(self) -> None:
        self.up = False
        self.life = 0
        self.arrival_us: dict[tuple[int, int], int] = {}
        self.busy_us: dict[tuple[int, bool], int] = {}
        """(sender, bulk) -> when the link has sent what it took, while bytes cost."""


class SimNet:
    """`delay_us`: bounds of the one-way delay."""

    def __init__(self, world: World, *, delay_us: tuple[int, int] = (50, 500)) -> None:
        self.world = world
        self.delay_us = delay_us
        self.dial_us = (500, 20_000)
        self.wire_errors: list[tuple[int, int, str]] = []
        self.sent_messages = 0
        self.sent_bytes = 0
        self.loss = 0.0
        self.refusal = 0.0
        """Chance that a link refuses a message (`PeerNet.send` is False)."""
        self.refused_messages = 0
        self.gray: Directions = {}
        self.bytes_per_ms: int | None = None
        """What each direction of a link carries; None: bytes cost nothing. A channel with too much unsent refuses."""
        self.replay = 0.0
        """Chance that a Raft payload arrives once more, much later and out of order: more than `ports.PeerNet` allows,
        and no more than a Raft core must bear."""
        self.watch: Callable[[int, int, int, bytes], None] | None = None
        """Called as watch(sender, receiver, channel, payload) for everything that leaves."""
        self.boundary: Callable[[int], None] | None = None
        """Called as boundary(sender) before and after a message leaves; may raise PowerLoss."""
        self._ports: dict[int, SimPort] = {}
        self._links: dict[tuple[int, int], _Link] = {}
        self._cut: set[tuple[int, int]] = set()

    def port(self, broker: BrokerId, loop: SimLoop) -> "SimPort":
        """The port of a new life of `broker`; an older life's port is dead."""
        port = SimPort(self, broker, loop)
        self._ports[broker] = port
        return port

    # -- faults ----------------------------------------------------------------------------------------------------

    def cut(self, sender: int, receiver: int) -> None:
        """Lose everything from `sender` to `receiver`, in silence."""
        self._cut.add((sender, receiver))

    def mend(self, sender: int, receiver: int) -> None:
        self._cut.discard((sender, receiver))
        self._dial(sender, receiver)

    def isolate(self, broker: int, others: Iterable[int] | None = None) -> None:
        """Cut `broker` from `others` (default: all), both ways, in silence."""
        for other in list(self._ports) if others is None else others:
            if other != broker:
                self.cut(broker, other)
                self.cut(other, broker)

    def restore(self, sender: int, receiver: int) -> None:
        """As `mend`; the link is made anew when it lost something."""
        if (sender, receiver) in self._cut:
            self.reset(sender, receiver)
        self.mend(sender, receiver)

    def heal(self) -> None:
        """No direction is cut any more. Links that were up may have lost messages, so they are made anew."""
        for sender, receiver in sorted(self._cut):
            self.reset(sender, receiver)
        self._cut.clear()
        ports = sorted(self._ports)
        for i, a in enumerate(ports):
            for b in ports[i + 1 :]:
                self._dial(a, b)

    def reset(self, a: int, b: int) -> None:
        """Close the link now; both ends re-dial and are told when that takes too long."""
        link = self._link(a, b)
        if link.up:
            link.up = False
            for end, other in ((a, b), (b, a)):
                self._tell_down_later(end, other, link.life)
        self._dial(a, b)

    def gone(self, broker: int) -> None:
        """The process of `broker` died: its sockets close."""
        self._ports.pop(broker, None)
        for other in list(self._ports):
            self.reset(broker, other)

    def vanished(self, broker: int) -> None:
        """The machine of `broker` went dark: nobody is told, and what is sent to it is lost."""
        self._ports.pop(broker, None)

    # -- links -----------------------------------------------------------------------------------------------------

    def _link(self, a: int, b: int) -> _Link:
        pair = (a, b) if a < b else (b, a)
        link = self._links.get(pair)
        if link is None:
            link = self._links[pair] = _Link()
        return link

    def link_up(self, a: int, b: int) -> bool:
        return self._link(a, b).up

    def started(self, broker: int) -> None:
        # Also the links to peers whose machines are dark: nothing of an earlier life's connections reaches this one.
        for pair, link in sorted(self._links.items()):
            if broker in pair and link.up:
                self.reset(*pair)
        for other in list(self._ports):
            if other != broker:
                self._dial(broker, other)

    def _dial(self, a: int, b: int) -> None:
        wait = self.world.between(*self.dial_us)
        self.world.at(self.world.now_us + wait, lambda: self._connect(a, b))

    def _connect(self, a: int, b: int) -> None:
        link = self._link(a, b)
        one, two = self._ports.get(a), self._ports.get(b)
        if link.up or one is None or two is None or one.sink is None or two.sink is None:
            return
        if (a, b) in self._cut or (b, a) in self._cut:
            self.world.at(self.world.now_us + 200_000, lambda: self._connect(a, b))
            return
        link.up = True
        link.life += 1
        link.arrival_us.clear()
        link.busy_us.clear()
        one.is_told_up(BrokerId(b), two.hello)
        two.is_told_up(BrokerId(a), one.hello)

    def _tell_down_later(self, end: int, other: int, life: int) -> None:
        port = self._ports.get(end)
        if port is None:
            return

        def tell() -> None:
            link = self._link(end, other)
            if not link.up and link.life == life and self._ports.get(end) is port and port.sink is not None:
                sink = port.sink
                port.loop.call_soon(lambda: sink.peer_down(BrokerId(other)))

        self.world.at(self.world.now_us + LINK_REDIAL_GRACE_MS * 1000, tell)

    def carry(self, sender: "SimPort", receiver: int, channel: int, payload: bytes) -> bool:
        """Queue one message; see `ports.PeerNet.send`."""
        link = self._link(sender.broker, receiver)
        if not link.up or self._ports.get(sender.broker) is not sender:
            return False
        if (self.refusal and self.world.rand.random() < self.refusal) or (
            self.bytes_per_ms is not None and self._is_full(sender, channel, link)
        ):
            self.refused_messages += 1
            return False
        if self.boundary is not None:
            self.boundary(sender.broker)
        self._leave(sender, receiver, channel, payload, link)
        if self.boundary is not None:
            self.boundary(sender.broker)
        return True

    def _leave(self, sender: "SimPort", receiver: int, channel: int, payload: bytes, link: _Link) -> None:
        world, broker = self.world, sender.broker
        self.sent_messages += 1
        self.sent_bytes += len(payload)
        if world.tracer is not None:
            world.tracer(f"peer {broker} {receiver} {channel}", payload)
        if self.watch is not None:
            self.watch(broker, receiver, channel, payload)
        if (self._cut and (broker, receiver) in self._cut) or (self.loss and world.rand.random() < self.loss):
            return
        gray = self.gray.get((broker, receiver)) if self.gray else None
        if gray is not None and gray.loses(world.rand):
            return
        delay_us = self.delay_us if gray is None else gray.delay_us or self.delay_us
        gone_us = world.now_us if self.bytes_per_ms is None else self._gone_us(broker, channel, len(payload), link)
        key = (broker, channel)
        arrival = max(gone_us + world.between(*delay_us), link.arrival_us.get(key, 0) + 1)
        link.arrival_us[key] = arrival
        life = link.life

        def arrive() -> None:
            port = self._ports.get(receiver)
            if link.up and link.life == life and port is not None:
                port.arrived(broker, channel, payload, link)

        world.at(arrival, arrive)
        if self.replay and kind_of(payload) is Kind.RAFT and world.rand.random() < self.replay:
            world.at(arrival + world.between(1_000, 400_000), arrive)

    def reset_busy(self) -> None:
        """Close the links that have not sent what they took."""
        for (a, b), link in sorted(self._links.items()):
            if any(until_us > self.world.now_us for until_us in link.busy_us.values()):
                self.reset(a, b)

    def _is_full(self, sender: "SimPort", channel: int, link: _Link) -> bool:
        assert self.bytes_per_ms is not None
        waits_us = link.busy_us.get((sender.broker, channel != CONTROL), 0) - self.world.now_us
        return waits_us * self.bytes_per_ms > RULES[channel].unsent_bytes_max * 1_000

    def _gone_us(self, sender: int, channel: int, size: int, link: _Link) -> int:
        """When the last byte of a message has left. The control channel waits for itself only: it goes before the
        others, whose share is what is left."""
        assert self.bytes_per_ms is not None
        cost_us = size * 1_000 // self.bytes_per_ms
        for urgent in (False, True) if channel == CONTROL else (False,):
            key = (sender, not urgent)
            link.busy_us[key] = max(self.world.now_us, link.busy_us.get(key, 0)) + cost_us
        return link.busy_us[sender, channel != CONTROL]

    def life(self, a: int, b: int) -> int:
        return self._link(a, b).life


class SimPort:
    """`ports.PeerNet` of one replica's life."""

    def __init__(self, net: SimNet, broker: BrokerId, loop: SimLoop) -> None:
        self.net = net
        self.broker = broker
        self.loop = loop
        self.hello = b""
        self.sink: PeerSink | None = None

    def start(self, sink: PeerSink) -> None:
        self.sink = sink
        self.net.started(self.broker)

    def send(self, peer: BrokerId, channel: int, payload: bytes) -> bool:
        return self.net.carry(self, peer, channel, payload)

    def is_up(self, peer: BrokerId) -> bool:
        return self.net.link_up(self.broker, peer)

    def meet(self, peer: BrokerId, host: str, port: int) -> None:
        """Everybody is linked with everybody here, whoever knows whom."""

    def set_hello(self, hello: bytes) -> None:
        self.hello = hello

    def is_told_up(self, peer: BrokerId, hello: bytes) -> None:
        sink = self.sink
        assert sink is not None
        self.loop.call_soon(lambda: sink.peer_up(peer, hello))

    def arrived(self, peer: BrokerId, channel: int, payload: bytes, link: _Link) -> None:
        """Over a link that is up."""
        sink = self.sink
        if sink is None:
            return
        life = link.life

        def deliver() -> None:
            if link.life != life or not link.up:
                return
            try:
                sink.peer_message(peer, channel, payload)
            except WireError as error:
                self.net.wire_errors.append((self.broker, peer, str(error)))
                self.net.reset(self.broker, peer)

        self.loop.call_soon(deliver)
