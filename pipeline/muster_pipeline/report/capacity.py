"""How many consumers a group needs: for the rate at which it is written to now, and to be done in an hour.

From the rates of table `partition_status`, summed over a group's partitions, and the members that have partitions. A
group that is behind reads as fast as it can, so what one of its consumers reads is what one can read; of a group that
is not behind it is a lower bound, and the number of consumers an upper one. More consumers than partitions read
nothing. Without the rates of all of its partitions a group has no such number: unknown is not a guess.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nlargest
from math import ceil
from typing import Final

from muster_pipeline.report import limits
from muster_pipeline.report.balance import GroupBalance
from muster_pipeline.report.source import Tables, rows

DRAIN_MS: Final = 3_600_000
_COLUMNS = ("group_id", "status", "lag", "read_per_s", "written_per_s")


@dataclass(slots=True)
class _Sums:
    partitions: int = 0
    known: int = 0
    lag: int = 0
    read_per_s: float = 0.0
    written_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """One group. None: the log does not tell."""

    group: str
    members: int
    idle: int
    """Members without a partition."""
    partitions: int
    lag: int
    read_per_s: float
    written_per_s: float
    needed: int | None
    """Consumers for the present rate of records."""
    needed_to_drain: int | None
    """Consumers to have read all of it in DRAIN_MS, new records included."""
    is_upper_bound: bool
    """The group is not behind: fewer may do."""

    @property
    def is_limited(self) -> bool:
        """More consumers are needed than there are partitions: add partitions, or make each consumer faster."""
        return max(self.needed or 0, self.needed_to_drain or 0) > self.partitions

    @property
    def missing(self) -> int:
        """Consumers to add, as far as there are partitions for them."""
        wanted = min(max(self.needed or 0, self.needed_to_drain or 0), self.partitions)
        return max(0, wanted - (self.members - self.idle))


def capacities(tables: Tables, balance: Mapping[str, GroupBalance]) -> dict[str, Capacity]:
    """Of the groups with members and known rates; one pass over `partition_status`."""
    sums: dict[str, _Sums] = {}
    for group, status, lag, read, written in rows(tables, "partition_status", _COLUMNS):
        if status == "ABANDONED":
            continue
        mine = sums.setdefault(group, _Sums())
        mine.partitions += 1
        if lag is None or read is None or written is None:
            continue
        mine.known += 1
        mine.lag += lag
        mine.read_per_s += read
        mine.written_per_s += written
    return {
        group: _capacity(group, one, balance[group].now.members, balance[group].now.members_idle)
        for group, one in sums.items()
        if group in balance and one.known == one.partitions and balance[group].now.members
    }


def _capacity(group: str, sums: _Sums, members: int, idle: int) -> Capacity:
    active = members - idle
    each = sums.read_per_s / active if active else 0.0
    return Capacity(
        group=group,
        members=members,
        idle=idle,
        partitions=sums.partitions,
        lag=sums.lag,
        read_per_s=sums.read_per_s,
        written_per_s=sums.written_per_s,
        needed=_consumers(sums.written_per_s, each),
        needed_to_drain=_consumers(sums.written_per_s + sums.lag * 1_000 / DRAIN_MS, each),
        is_upper_bound=sums.lag == 0,
    )


def _consumers(rate_per_s: float, each_per_s: float) -> int | None:
    if rate_per_s == 0:
        return 0
    return ceil(rate_per_s / each_per_s) if each_per_s > 0 else None


def shown(found: Mapping[str, Capacity]) -> tuple[list[Capacity], int]:
    """Those that lack the most consumers, then those with idle members; and how many are left out."""
    wanting = [one for one in found.values() if one.missing or one.is_limited or one.idle]
    most = nlargest(
        limits.CAPACITY_SHOWN_MAX, wanting, key=lambda one: (one.missing, one.is_limited, one.lag, one.idle, one.group)
    )
    return most, len(wanting) - len(most)
