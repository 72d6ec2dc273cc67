"""What a replica knows of the upstream by now, as a value that handlers and connections read.

What it does not do: look (`runtime.upstream`).
"""

from collections.abc import Mapping
from typing import Protocol

from muster_coordinator.upstream.brokers import Broker
from muster_coordinator.upstream.remembered import Remembered


class UpstreamView(Protocol):
    """Of one process."""

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
