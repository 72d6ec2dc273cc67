"""What a leader knows of one follower: how far it matches, what is on its way to it, and how to go on.

Problem: a follower that keeps up should get entries without waiting for acknowledgements, one that diverged or is away
must not be flooded, and one that is behind the log's beginning needs a checkpoint first.
Mechanism: etcd's three states. PROBE sends one append and waits; REPLICATE streams within a window bounded in
messages and bytes; SNAPSHOT sends nothing until the checkpoint has arrived. Messages may be lost at any time: nothing
here assumes delivery, and a proof of life (`heard`) makes the leader look again (raft rules 25, 26).
"""

from collections import deque
from enum import IntEnum
from typing import NamedTuple

from muster_coordinator.raft.timing import Flow


class ProgressState(IntEnum):
    """How appends are sent to a follower."""

    PROBE = 0
    REPLICATE = 1
    SNAPSHOT = 2


class ProgressView(NamedTuple):
    """A copy for status pages and for choosing whom to transfer to."""

    match: int
    next: int
    state: ProgressState
    inflight: int
    contact_ms: int


PROBE = ProgressState.PROBE
REPLICATE = ProgressState.REPLICATE
SNAPSHOT = ProgressState.SNAPSHOT


class Progress:
    """`match` is durable there and equal to our log; `next` is the first entry not sent yet; always match < next."""

    __slots__ = (
        "_inflight",
        "_inflight_bytes",
        "barrier",
        "contact_ms",
        "forgot",
        "look",
        "match",
        "next",
        "offered_ms",
        "paused",
        "released",
        "state",
        "suspended",
        "throttled",
    )

    def __init__(self, next_index: int) -> None:
        self.match = 0
        self.next = next_index
        self.state = PROBE
        self.paused = False
        """In PROBE: one append is out, and nothing more until it is answered or the follower shows life."""
        self.look = False
        """An append is due even when it carries no entries."""
        self.contact_ms = 0
        self.offered_ms = 0
        self.suspended = 0
        """Token of a follower that lost what it had acknowledged; what it says counts for nothing. See `suspension`."""
        self.barrier = 0
        """The entry that it has to hold, and a quorum without it, before it is released."""
        self.released = False
        """It is told so until it answers without the token."""
        self.forgot = False
        """It answered without the token before it was released: it is to suspend itself again."""
        self.throttled = False
        """It gets no entries for now. The host sees to it that it does not vote; when it is to vote this ends."""
        self._inflight: deque[tuple[int, int]] = deque()
        self._inflight_bytes = 0

    def probe(self) -> None:
        """Forget what is on its way; the next append finds out where the follower stands."""
        self.next = self.match + 1
        self._enter(PROBE)

    def probe_from_next(self) -> None:
        """What it had acknowledged is void: look for its place from `next` downwards."""
        self._enter(PROBE)

    def replicate(self) -> None:
        """The follower's position is known: stream."""
        self.next = self.match + 1
        self._enter(REPLICATE)

    def snapshot(self, now_ms: int) -> None:
        """A checkpoint was offered. The leader need not be told if the install fails: while the follower shows life and
        has taken no checkpoint, the newest one is offered again after each election timeout (raft rule 25)."""
        self._enter(SNAPSHOT)
        self.offered_ms = now_ms

    def _enter(self, state: ProgressState) -> None:
        self.state = state
        self.paused = False
        self._inflight.clear()
        self._inflight_bytes = 0

    def acknowledged(self, index: int) -> bool:
        """The follower holds everything up to `index`. False when that is not news (raft rule 11)."""
        if index <= self.match:
            return False
        self.match = index
        # Invariant: match < next, and match never falls while its voter is not suspended.
        if self.next <= index:
            self.next = index + 1
        inflight = self._inflight
        while inflight and inflight[0][0] <= index:
            self._inflight_bytes -= inflight.popleft()[1]
        return True

    def refused(self, index: int, hint: int) -> bool:
        """The follower does not have our entry at `index`, and proposes `hint`. False when that is old news, or when
        it denies what it has acknowledged: that is no place to go on from, so it is asked again only when it shows
        life, not at the speed of the link."""
        # It was sent before the follower acknowledged `match`.
        if index <= self.match:
            return False
        if self.state is REPLICATE:
            self.probe()
            return True
        # In PROBE one append is out at a time: a refusal of another place is an answer to an append before.
        if self.state is SNAPSHOT or index != self.next - 1:
            return False
        # `index` itself is refused, so the next place is at least one below it, and never at or below `match`: the
        # search ends.
        self.next = max(min(index, hint + 1), self.match + 1)
        self.paused = False
        return True

    def sent(self, last_index: int, size: int) -> None:
        """An append with entries up to `last_index` left; without entries, when `size` is 0."""
        if self.state is not REPLICATE:
            self.paused = True
        elif size:
            self._inflight.append((last_index, size))
            self._inflight_bytes += size
            self.next = last_index + 1

    def full(self, flow: Flow) -> bool:
        """Is the window closed for data?"""
        if self.throttled:
            return True
        return len(self._inflight) >= flow.inflight_appends_max or self._inflight_bytes >= flow.inflight_bytes_max

    def view(self) -> ProgressView:
        """A copy."""
        return ProgressView(self.match, self.next, self.state, len(self._inflight), self.contact_ms)
