"""What a replica knows of the upstream by now, as a value that handlers and connections read.

What it does not do: look (`runtime.upstream`).
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from muster_coordinator.upstream.brokers import Broker
from muster_coordinator.upstream.remembered import Remembered
from muster_coordinator.upstream.topic_counts import Counts


class TopicCounts(Protocol):
    """Which partitions it has (`upstream.topic_counts`)."""

    def doubtful(self, wanted: Mapping[str, int]) -> Mapping[str, int]:
        """Of `wanted` (topic -> its highest partition) what is not known to be there, or is being asked for."""

    def ask(self, wanted: Mapping[str, int], told: Callable[[Counts], None]) -> None:
        """`told` is called once, soon, in the order of these calls."""


class UpstreamView(Protocol):
    """Of one process."""

    topics: TopicCounts

    def advertised(self) -> tuple[Mapping[str, int], ...] | None:
        """Rows of our ApiVersions answer; None while no broker of the upstream has ever been reached."""

    def remembered(self) -> Remembered | None:
        """What it said last; None: nothing yet."""


class Addresses(Protocol):
    """What clients of one listener are told instead."""

    def address(self, node: int) -> tuple[str, int] | None:
        """Where to go for this broker of the upstream; None: nowhere."""

    def replicas(self) -> list[Broker]:
        """Our replicas, as brokers beside those of the upstream."""
