"""The keys of what is levelled by weight (ADR 81), which `settings.Settings` inherits."""

# a key is a dataclass field with metadata

from dataclasses import dataclass

from muster_coordinator.limits import GIB
from muster_coordinator.setting_field import setting
from muster_coordinator.setting_values import integer


@dataclass(frozen=True, kw_only=True)
class BalancerKeys:
    """The part of `Settings` that is about weights."""

    balancer_difference_percent: int = setting(
        "muster.balancer.difference.percent",
        integer(-1, 100),
        "20",
        "By how much of their mean two brokers may differ in the bytes that they hold, and in what is written to and "
        "read from the partitions that they lead, before they exchange some; -1: only their counts are levelled.",
    )
    balancer_difference_min_bytes: int = setting(
        "muster.balancer.difference.min.bytes",
        integer(1),
        str(GIB),
        "By so many bytes brokers may differ in any case.",
    )
