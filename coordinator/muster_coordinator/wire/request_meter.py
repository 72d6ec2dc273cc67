"""Request metrics for `/metrics`: how long each API takes, which errors it answers, how many requests are in flight.

Problem: an operator looks first at request rate, error rate and latency by API, and a heartbeat costs only a few
microseconds, so measuring must cost less. Mechanism: one object for all connections of a process, with a histogram per
API; a request is timed from its decoding to its answer in the buffer. Repeated heartbeats (docs/adr/0012) are not
timed: they always take less than the first bucket's bound, and `admin.request_metrics` counts them there.

What it does not do: tell clients, groups or versions apart, or time what the kernel takes to send.
"""

from collections import Counter
from collections.abc import Callable

from muster_coordinator.histogram import Histogram
from muster_coordinator.wire.versions import VERSIONS

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds. They go beyond the commit timeout of 5 s, because a JoinGroup may wait minutes for other members."""


class RequestMeter:
    """All attributes may be read at any time. `now_ns`: a monotonic clock."""

    __slots__ = ("errors", "held_bytes", "in_flight", "now_ns", "queue_seconds", "request_bytes", "seconds")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.now_ns = now_ns
        self.seconds = {int(api): Histogram(BOUNDS) for api in VERSIONS}
        """API -> from decoded to answered, without repeated heartbeats."""
        self.queue_seconds = Histogram(BOUNDS)
        """From arrival to decoding, of requests that were held back: the turn had no time left, or the connection had
        too many unanswered requests."""
        self.request_bytes = dict.fromkeys(map(int, VERSIONS), 0)
        self.errors: Counter[tuple[int, int]] = Counter()
        """(API, error code) -> answers with it; code 0 is not counted."""
        self.in_flight = 0
        """Requests in the lines of all connections."""
        self.held_bytes = 0
        """Estimated memory of requests that are not answered, also those of connections that have ended since. Without
        the small ones."""

    def note_error(self, api: int, code: int, times: int = 1) -> None:
        self.errors[api, int(code)] += times
