"""Durations and flow limits of one core, as values that tests and the simulator may squeeze.

Problem: the same core must run with production's seconds and with windows of one message, so that rare paths are
common.
Mechanism: two immutable tuples; the bounds' defaults are `limits`. It holds no clock and arms nothing (`roles` does).
"""

from typing import NamedTuple

from muster_coordinator.limits import APPLY_BYTES_PER_TURN_MAX, GROUP_UNCOMMITTED_BYTES_MAX
from muster_coordinator.ports import Rand
from muster_coordinator.raft import limits


class Timing(NamedTuple):
    """All in milliseconds of the host's monotonic clock."""

    heartbeat_ms: int
    election_min_ms: int
    """Also the period of check-quorum, the time a voter stays loyal to a leader, and the time a transfer may take."""
    election_max_ms: int
    link_stagger_ms: int = limits.LINK_LOSS_STAGGER_MS
    """A follower that lost its leader's link campaigns after 0 up to this long (decision 17)."""

    def election_timeout_ms(self, rand: Rand) -> int:
        """A fresh random time-out (raft rule 28)."""
        return rand.randrange(self.election_min_ms, self.election_max_ms + 1)

    @property
    def hesitation_ms(self) -> int:
        """By how much longer a voter waits that others should come before: each has had two time-outs by then."""
        return 2 * self.election_max_ms

    @property
    def slow_disk_ms(self) -> int:
        """A leader whose disk takes so long hands over: by then a stall is rare, and what waits for it may yet be
        served within the shortest election timeout."""
        return self.election_min_ms * 3 // 4

    def hurried_timeout_ms(self, rand: Rand) -> int:
        """Between rounds while a leader is known to be gone: long enough for a vote and its sync, no election
        timeout.
        """
        return rand.randrange(2 * self.heartbeat_ms, 4 * self.heartbeat_ms + 1)


class Flow(NamedTuple):
    """Bounds of one core (raft rule 33): each by bytes and by count; one oversize entry always passes an empty
    window.
    """

    uncommitted_bytes_max: int = GROUP_UNCOMMITTED_BYTES_MAX
    uncommitted_entries_max: int = limits.GROUP_UNCOMMITTED_ENTRIES_MAX
    append_bytes_max: int = limits.APPEND_BYTES_MAX
    inflight_appends_max: int = limits.INFLIGHT_APPENDS_MAX
    inflight_bytes_max: int = limits.INFLIGHT_APPEND_BYTES_MAX
    apply_bytes_max: int = APPLY_BYTES_PER_TURN_MAX
    unapplied_bytes_max: int = limits.UNAPPLIED_BYTES_MAX
    reads_max: int = limits.READS_UNGRANTED_MAX


FLOW = Flow()
