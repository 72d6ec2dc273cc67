"""TCP connections on virtual time: what the product's peer links (`links.mesh`) run on, instead of sockets.

Bytes of one direction keep their order and are never lost while a connection lasts; a write may arrive in two pieces.
What the network loses is sent again after 200, 400, 800, ... ms, and nothing behind it arrives meanwhile; bytes that
were not acknowledged for `runtime.limits.LINK_UNACKNOWLEDGED_MS` end the connection at the sender's side, as the
product asks of a kernel. A silent cut of one direction loses the bytes of one end and the acknowledgements of the
other. The other end learns of an end by a FIN behind all bytes, by the RST that its own bytes meet, or by keep-alive.
A process that is killed leaves its kernel behind, which sends what it has; a machine without power leaves nothing.

Simplified: a new connection costs a round trip, windows are endless, a segment that is lost stops its direction.
"""

from collections.abc import Callable

from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import LINK_WRITE_BYTES
from muster_coordinator.links.link import Link
from muster_coordinator.links.mesh import Mesh
from muster_coordinator.runtime import limits

from tests.sim.gray_links import Directions
from tests.sim.loop import SimLoop, World

SPLIT_CHANCE = 0.04
RETRANSMIT_US = 200_000
SYN_AGAIN_US = 1_000_000
UNACKNOWLEDGED_US = limits.LINK_UNACKNOWLEDGED_MS * 1_000
KEEP_ALIVE_US = 7_000_000
"""5 s without a word, and a probe that nobody answers within 2 s more."""


class Paths:
    """What the network does to every segment. `cuts`: directions that lose everything; `dark`: machines
    that are off."""

    def __init__(self, world: World, delay_us: tuple[int, int]) -> None:
        self.world = world
        self.delay_us = delay_us
        self.loss = 0.0
        """Chance that a segment is lost."""
        self.gray: Directions = {}
        self.bytes_per_ms: int | None = None
        """What each direction of a connection carries; None: bytes cost nothing."""
        self.cuts: set[tuple[int, int]] = set()
        self.dark: set[int] = set()
        self.boundary: Callable[[int], None] | None = None
        """Called as boundary(sender) before and after a process writes; may raise PowerLoss."""

    def lead(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self.cuts and receiver not in self.dark

    def carry(self, sender: int, receiver: int) -> bool:
        """As `lead`, for one segment: it may get lost."""
        if not self.lead(sender, receiver) or (self.loss and self.world.rand.random() < self.loss):
            return False
        gray = self.gray.get((sender, receiver))
        return gray is None or not gray.loses(self.world.rand)

    def delay(self, sender: int, receiver: int) -> int:
        gray = self.gray.get((sender, receiver))
        return self.world.between(*(self.delay_us if gray is None else gray.delay_us or self.delay_us))


class _Stall:
    """The oldest bytes of a direction that are not acknowledged, and what waits behind them. None: a FIN."""

    __slots__ = ("bytes", "pending", "since_us", "wait_us")

    def __init__(self, now_us: int) -> None:
        self.since_us = now_us
        self.wait_us = RETRANSMIT_US
        self.pending: list[bytes | None] = []
        self.bytes = 0

    def add(self, data: bytes | None) -> None:
        self.pending.append(data)
        self.bytes += len(data or b"")

    def take(self) -> list[bytes | None]:
        pending, self.pending, self.bytes = self.pending, [], 0
        return pending


class Socket:
    """One end of a connection, and the `links.link.Wire` of its link."""

    __slots__ = (
        "_blocked", "_busy_us", "_paths", "_stall", "arrival_us", "held", "link", "loop", "mesh", "open", "other",
        "owner", "peer",
    )  # fmt: skip

    def __init__(self, paths: Paths, owner: BrokerId, peer: BrokerId, loop: SimLoop, mesh: Mesh) -> None:
        self._paths = paths
        self.owner = owner
        self.peer = peer
        self.loop = loop
        self.mesh = mesh
        self.link: Link | None = None
        self.other: Socket = self
        self.open = True
        """The kernel has it: what arrives is taken."""
        self.held = True
        """The process has it."""
        self.arrival_us = 0
        """Of the last bytes that left; what comes behind arrives later."""
        self._busy_us = 0
        self._blocked = False
        """The process was told to wait until the transport drained."""
        self._stall: _Stall | None = None

    # links.link.Wire

    def write(self, parts: list[bytes]) -> None:
        if not self.open:
            return
        boundary = self._paths.boundary
        if boundary is not None:
            boundary(self.owner)
        self._send(b"".join(parts))
        if boundary is not None:
            boundary(self.owner)

    def close(self) -> None:
        """By the process, or by the kernel of one that is gone."""
        if self.held:
            self.held = False
            was_open, self.open = self.open, False
            if was_open:
                self._send(None)

    def writable(self) -> bool:
        if self._unsent() <= LINK_WRITE_BYTES:
            return True
        if not self._blocked:
            self._blocked = True
            if self._stall is None:
                self._drain_later()
        return False

    # The way out.

    def _send(self, data: bytes | None) -> None:
        rand = self._paths.world.rand
        if data is not None and len(data) > 1 and rand.random() < SPLIT_CHANCE:
            cut = rand.randint(1, len(data) - 1)
            self._segment(data[:cut])
            data = data[cut:]
        self._segment(data)

    def _segment(self, data: bytes | None) -> None:
        now_us = self._paths.world.now_us
        stall = self._stall
        if stall is not None and (stall.pending or now_us - stall.since_us >= RETRANSMIT_US):
            stall.add(data)
        elif not self._paths.carry(self.owner, self.peer):
            (stall or self._wait_for_acknowledgement()).add(data)
        else:
            self._depart(data)
            if stall is None and not self._paths.lead(self.peer, self.owner):
                self._wait_for_acknowledgement()

    def _depart(self, data: bytes | None) -> None:
        paths = self._paths
        now_us = paths.world.now_us
        gone_us = now_us
        if paths.bytes_per_ms is not None and data:
            gone_us = max(now_us, self._busy_us) + len(data) * 1_000 // paths.bytes_per_ms
            self._busy_us = gone_us
        self.arrival_us = max(gone_us + paths.delay(self.owner, self.peer), self.arrival_us + 1)
        other = self.other
        paths.world.at(self.arrival_us, lambda: other._arrive(data))

    def _wait_for_acknowledgement(self) -> _Stall:
        stall = self._stall = _Stall(self._paths.world.now_us)
        self._again_later(stall)
        return stall

    def _again_later(self, stall: _Stall) -> None:
        world = self._paths.world
        left_us = stall.since_us + UNACKNOWLEDGED_US - world.now_us
        world.at(world.now_us + min(stall.wait_us, left_us), lambda: self._again(stall))
        stall.wait_us *= 2

    def _again(self, stall: _Stall) -> None:
        """The time to send the oldest bytes again has come."""
        if self._stall is not stall:
            return
        if self._paths.world.now_us - stall.since_us >= UNACKNOWLEDGED_US:
            self._end()
            self.other.miss_keep_alive()
            return
        if self._paths.carry(self.owner, self.peer):
            heard = self._paths.lead(self.peer, self.owner)
            if heard and not self.other.open:
                self._end()  # nobody has this connection there: RST
                return
            for data in stall.take():
                self._depart(data)
            if heard:
                self._stall = None
                if self._blocked:
                    self._drain_later()
                return
        self._again_later(stall)

    def _unsent(self) -> int:
        waiting = 0 if self._stall is None else self._stall.bytes
        if self._paths.bytes_per_ms is not None:
            busy_us = self._busy_us - self._paths.world.now_us
            waiting += max(0, busy_us) * self._paths.bytes_per_ms // 1_000
        return waiting

    def _drain_later(self) -> None:
        world = self._paths.world
        rate = self._paths.bytes_per_ms
        left = self._unsent() - LINK_WRITE_BYTES // 4
        world.at(world.now_us + (0 if rate is None or left <= 0 else left * 1_000 // rate), self._drained)

    def _drained(self) -> None:
        if self._stall is None and self.open:
            self._blocked = False
            self.loop.call_soon(self._writable_again)

    def _writable_again(self) -> None:
        if self.link is not None and self.held:
            self.mesh.writable_again(self.link)

    # The way in.

    def _arrive(self, data: bytes | None) -> None:
        if not self.open:
            if data is not None and self._paths.lead(self.owner, self.peer) and self.owner not in self._paths.dark:
                world = self._paths.world
                world.at(world.now_us + self._paths.delay(self.owner, self.peer), self.other._end)
        elif data is None:
            self.loop.call_soon(self._over)
        else:
            self.loop.call_soon(lambda: self._received(data))

    def _received(self, data: bytes) -> None:
        if self.held and self.link is not None:
            self.mesh.received(self.link, data)

    def _over(self) -> None:
        """The process learns that it is over."""
        if self.held and self.link is not None:
            self.mesh.closed(self.link)
        self.close()

    def _end(self) -> None:
        """The kernel gives the connection up, or was told to by an RST."""
        self._stall = None
        if self.open:
            self.open = False
            self.loop.call_soon(self._over)

    # Faults.

    def reset(self) -> None:
        """A middle box ends it: both ends learn it."""
        self._end()
        self.other._end()

    def vanish(self) -> None:
        """The machine goes dark: nobody is told."""
        self.held = self.open = False
        self._stall = None
        self.other.miss_keep_alive()

    def miss_keep_alive(self) -> None:
        """The other end is gone without a word."""
        if self.open:
            world = self._paths.world
            world.at(world.now_us + KEEP_ALIVE_US, self._end)

    @property
    def busy(self) -> bool:
        """It has not sent what it took."""
        return self._busy_us > self._paths.world.now_us

    @property
    def over(self) -> bool:
        return not self.open and self._stall is None
