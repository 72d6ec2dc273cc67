"""The exporters whose metric names the report can tell beside its own. Light: the command line imports it."""

from enum import StrEnum
from typing import Final


class Peer(StrEnum):
    """`--names`: an exporter that people have dashboards and alerts for."""

    KAFKA_LAG_EXPORTER = "kafka-lag-exporter"
    KMINION = "kminion"
    BURROW = "burrow"
    """Burrow's own names, and those of the exporter that stood before it (`kafka_burrow_…`)."""


BY_DEFAULT: Final = (Peer.KAFKA_LAG_EXPORTER,)
OTHERS: Final = "(other)"
"""Label of the groups that have no samples of their own, summed."""
