"""Keeping to bytes a second: what copies of replicas may use of a broker's links and disks (ADR 46).

Problem: a replica that is copied takes what links and disks give, and commits beside it wait. Mechanism: a `Pace` says
how long each piece has to wait so that all pieces together keep to a rate. A leader paces what it sends: chunks of
snapshot installs, and entries to members that do not vote yet. A follower paces the chunks that it asks for. The rates
are those of the controller's image, so a change holds at once, for what is under way too. Voters that replicate as ever
are never slowed: what is acknowledged waits for them. What this does not do: share a follower's rate out among several
leaders that send it entries at the same time; each keeps to it by itself.
"""

from muster_coordinator.controller.broker_configs import FOLLOWER_RATE, LEADER_RATE, rate_of
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.ids import BrokerId

BURST_US = 100_000
"""What was not used for longer than this is lost."""


class Pace:
    """One rate, in bytes a second; None: no limit."""

    __slots__ = ("_free_us", "rate")

    def __init__(self, rate: int | None = None) -> None:
        self.rate = rate
        self._free_us = 0
        """When all pieces so far have been paid for, in microseconds of the loop's time."""

    def wait_ms(self, now_ms: int, size: int) -> int:
        """How long a piece of `size` bytes has to wait from now on; it counts from then on."""
        if self.rate is None:
            return 0
        now_us = now_ms * 1_000
        self._free_us = max(self._free_us, now_us - BURST_US) + size * 1_000_000 // self.rate
        return max(0, self._free_us - now_us) // 1_000

    def change(self, rate: int | None) -> None:
        """From now on; what is owed at the rate before is forgotten."""
        if rate != self.rate:
            self.rate = rate
            self._free_us = 0


class Throttle:
    """The paces of one broker; `follow` each image."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._image: ClusterImage | None = None
        self.sends = Pace()
        """All that it sends to replicas that are copied from it."""
        self.takes = Pace()
        """All chunks that it asks for."""
        self._entries_to: dict[BrokerId, Pace] = {}
        self.slows_entries = False
        """Is there a rate that entries have to keep to?"""
        self.is_set = False
        """Is there any rate, of whichever broker?"""

    def follow(self, image: ClusterImage | None) -> None:
        if self._image is not None and image is not None and image.broker_configs is self._image.broker_configs:
            return
        self._image = image
        rates = {} if image is None else image.broker_configs
        self.is_set = bool(rates)
        self.sends.change(rate_of(image, self._broker, LEADER_RATE))
        takers = any(name == FOLLOWER_RATE for configs in rates.values() for name, _ in configs)
        self.slows_entries = takers or self.sends.rate is not None
        self.takes.change(rate_of(image, self._broker, FOLLOWER_RATE))
        for peer, pace in self._entries_to.items():
            pace.change(rate_of(image, peer, FOLLOWER_RATE))

    def entries_wait_ms(self, peer: BrokerId, now_ms: int, size: int) -> int:
        """How long the next entries to `peer` have to wait after these, which leave now."""
        pace = self._entries_to.get(peer)
        if pace is None:
            pace = self._entries_to[peer] = Pace(rate_of(self._image, peer, FOLLOWER_RATE))
        return max(self.sends.wait_ms(now_ms, size), pace.wait_ms(now_ms, size))
