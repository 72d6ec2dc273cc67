"""The channels of a peer link: which messages are sent first, and how many bytes may wait.

Problem: one TCP link carries votes and heartbeats, appends, snapshot installs and forwarded requests; a 9 MiB entry
or an install must not delay the heartbeat that keeps a leader. Mechanism: every message names a channel; the writer
takes the control channel first, then append and forwarded messages in turn, and bulk only when nothing else waits or
when the others have sent `BULK_SHARE_BYTES` since the last bulk frame (so an install ends even under steady load). Each
channel has its own high-water mark: a full channel refuses messages (`PeerNet.send` returns False) and never blocks the
others.

What it does not do: keep order between channels. A message of one channel may overtake an older one of another.
"""

from collections import deque
from typing import NamedTuple

from muster_coordinator.limits import PEER_FRAME_BYTES_MAX
from muster_coordinator.links import limits

CONTROL = 0
"""Votes, coalesced heartbeats, leadership transfer, gossip of leaders."""
APPEND = 1
"""Append messages and their replies."""
BULK = 2
"""Checkpoints and segments of snapshot installs, in chunks of `replica.limits.INSTALL_CHUNK_BYTES`."""
FORWARD = 3
"""Controller commands and other requests forwarded to a leader, and their answers."""
HANDSHAKE = 255
"""The first frame of each side, and no other; never passed to `PeerSink.peer_message`."""


class ChannelRule(NamedTuple):
    """Limits of one channel, in bytes."""

    frame_bytes_max: int
    """Longest message that a receiver accepts; the sender asserts it."""
    unsent_bytes_max: int
    """At or above this many unsent bytes the channel refuses messages. The last one accepted may exceed it."""


RULES: tuple[ChannelRule, ...] = (
    ChannelRule(PEER_FRAME_BYTES_MAX, limits.LINK_CONTROL_UNSENT_BYTES_MAX),
    ChannelRule(limits.PEER_FRAME_BYTES_HARD_MAX, limits.PEER_UNSENT_BYTES_MAX),
    ChannelRule(PEER_FRAME_BYTES_MAX, limits.LINK_BULK_UNSENT_BYTES_MAX),
    ChannelRule(limits.PEER_FRAME_BYTES_HARD_MAX, limits.PEER_UNSENT_BYTES_MAX),
)
"""By channel number."""

BULK_SHARE_BYTES = limits.LINK_BULK_SHARE_BYTES


class ChannelQueues:
    """Framed messages to be sent, taken by priority. A message that was accepted is dropped only with the
    link."""

    __slots__ = ("_queues", "_since_bulk", "_turn", "_unsent")

    def __init__(self) -> None:
        self._queues: tuple[deque[tuple[bytes, bytes]], ...] = tuple(deque() for _ in RULES)
        self._unsent = [0] * len(RULES)
        self._since_bulk = 0
        self._turn = APPEND

    def offer(self, channel: int, header: bytes, body: bytes) -> bool:
        """Queue one frame. False: the channel is at its high-water mark."""
        if self._unsent[channel] >= RULES[channel].unsent_bytes_max:
            return False
        self._queues[channel].append((header, body))
        self._unsent[channel] += len(header) + len(body)
        return True

    def has_room(self, channel: int) -> bool:
        """True when `offer` would accept a message now."""
        return self._unsent[channel] < RULES[channel].unsent_bytes_max

    def unsent_bytes(self) -> int:
        """Bytes of all channels that `take` has not returned yet."""
        return sum(self._unsent)

    def take(self, budget_bytes: int) -> list[bytes]:
        """Whole frames, most urgent first, until `budget_bytes` is reached; at least one when any waits."""
        taken: list[bytes] = []
        while budget_bytes > 0:
            channel = self._next_channel()
            if channel is None:
                break
            header, body = self._queues[channel].popleft()
            size = len(header) + len(body)
            self._unsent[channel] -= size
            if channel == BULK:
                self._since_bulk = 0
            elif self._queues[BULK]:
                self._since_bulk += size
            budget_bytes -= size
            taken.append(header)
            taken.append(body)
        return taken

    def _next_channel(self) -> int | None:
        queues = self._queues
        if queues[CONTROL]:
            return CONTROL
        if queues[BULK] and self._since_bulk >= BULK_SHARE_BYTES:
            return BULK
        if queues[APPEND] and queues[FORWARD]:
            self._turn = FORWARD if self._turn == APPEND else APPEND
            return self._turn
        for channel in (APPEND, FORWARD, BULK):
            if queues[channel]:
                return channel
        return None
