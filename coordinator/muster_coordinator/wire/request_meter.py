"""Requests as they are counted for `/metrics`: how long each API takes, what it answers, what waits.

Problem: request rate, error rate and latency by API are what an operator looks at first, and a heartbeat costs a few
microseconds in all. Mechanism: one object for all connections of a process, with a histogram an API; the time of a
request is from its decoding to its answer in the buffer. What the short way answers (docs/adr/0012) is not timed: it
takes less than the first bucket's bound by its making, and whoever shows these numbers counts it there.

What it does not do: tell clients, groups or versions apart, or time what the kernel takes to send.
"""

from collections import Counter
from collections.abc import Callable

from muster_coordinator.histogram import Histogram
from muster_coordinator.wire.versions import VERSIONS

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds. Beyond the commit time-out of five: a JoinGroup may wait for others for minutes."""


class RequestMeter:
    """All attributes may be read at any time. `now_ns`: any clock that only goes forward."""

    __slots__ = ("errors", "in_flight", "now_ns", "queue_seconds", "request_bytes", "seconds")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.now_ns = now_ns
        self.seconds = {int(api): Histogram(BOUNDS) for api in VERSIONS}
        """API -> from decoded to answered; of those that were not answered at once."""
        self.queue_seconds = Histogram(BOUNDS)
        """Of requests that a turn had no time for, or that stood behind too many others: until they were decoded."""
        self.request_bytes = dict.fromkeys(map(int, VERSIONS), 0)
        self.errors: Counter[tuple[int, int]] = Counter()
        """(API, error code) -> answers with it; none with 0."""
        self.in_flight = 0
        """Requests in the lines of all connections."""

    def note_error(self, api: int, code: int, times: int = 1) -> None:
        self.errors[api, int(code)] += times
