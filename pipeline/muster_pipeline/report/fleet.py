"""The fleet table: one row per group, those in most trouble first."""

from collections.abc import Iterable
from dataclasses import dataclass

from muster_pipeline.report.balance import GroupBalance
from muster_pipeline.report.expiry import Calendar
from muster_pipeline.report.gaps import gapped
from muster_pipeline.report.lag import GroupLag, Left
from muster_pipeline.report.rebalances import GroupRebalances, Rebalances
from muster_pipeline.report.source import Tables, rows
from muster_pipeline.report.stalls import Stalls
from muster_pipeline.report.standing import DELETED, EMPTY


@dataclass(slots=True)
class Rate:
    """Sums over the whole log of one group."""

    commits: int = 0
    messages: int | None = 0
    """None: offsets of a partition have gaps, so that nobody has counted."""
    rewinds: int = 0

    def add(self, commits: int, messages: int | None, rewinds: int) -> None:
        """One row of commit_rate."""
        self.commits += commits
        self.messages = None if self.messages is None or messages is None else self.messages + messages
        self.rewinds += rewinds


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """One group. None: unknown or never seen; 0: counted, and zero."""

    group: str
    state: str | None
    members: int | None
    partitions: int
    lag: int | None
    lag_quality: str
    commits: int
    messages: int | None
    rewinds: int
    rebalances: int
    avoided: int
    open_stalls: int
    below_start: int
    is_balanced: bool | None
    left: str | None
    """Why it does not count any more: deleted, empty or abandoned; None if it does."""
    left_lag: int | None
    """How far behind it was left; null if unknown, or if it counts."""


def rates(tables: Tables) -> dict[str, Rate]:
    """Sums of commit_rate by group; one pass."""
    found: dict[str, Rate] = {}
    uncounted = gapped(tables)
    columns = ("group_id", "topic", "partition", "commits", "messages", "rewinds")
    for group, topic, partition, commits, messages, rewinds in rows(tables, "commit_rate", columns):
        counted = None if (topic, partition) in uncounted else messages
        found.setdefault(group, Rate()).add(commits, counted, rewinds)
    return found


def fleet(
    *,
    lag: dict[str, GroupLag],
    left: dict[str, Left],
    rate: dict[str, Rate],
    rebalances: Rebalances,
    balance: dict[str, GroupBalance],
    calendar: Calendar,
    stalls: Stalls,
) -> list[FleetRow]:
    """Ordered by lost records, open stalls, lag and name."""
    names: set[str] = set().union(lag, left, rate, rebalances.groups, balance, calendar.states)
    return sorted((_row(n, lag, left, rate, rebalances, balance, calendar, stalls) for n in names), key=_trouble)


def _row(
    name: str,
    lag: dict[str, GroupLag],
    left: dict[str, Left],
    rate: dict[str, Rate],
    rebalances: Rebalances,
    balance: dict[str, GroupBalance],
    calendar: Calendar,
    stalls: Stalls,
) -> FleetRow:
    mine, moved, speed, share = (
        lag.get(name, GroupLag()),
        rebalances.groups.get(name, GroupRebalances()),
        rate.get(name, Rate()),
        balance.get(name),
    )
    gone = left.get(name)
    why = None if gone is None else gone.why
    return FleetRow(
        group=name,
        state=DELETED if why == DELETED else calendar.states.get(name),
        members=0 if why in (DELETED, EMPTY) else moved.members,
        partitions=len(mine.partitions),
        lag=mine.total,
        lag_quality=mine.quality,
        commits=speed.commits,
        messages=speed.messages,
        rewinds=speed.rewinds,
        rebalances=moved.count,
        avoided=moved.avoided,
        open_stalls=0 if gone is not None else stalls.open_by_group.get(name, 0),
        below_start=mine.below_start,
        is_balanced=share.now.is_balanced if share and gone is None else None,
        left=why,
        left_lag=None if gone is None else gone.lag.total,
    )


def _trouble(row: FleetRow) -> tuple[int, int, int, str]:
    return (-row.below_start, -row.open_stalls, -(row.lag or 0), row.group)


def total_lag(found: Iterable[GroupLag]) -> int | None:
    """Sum of the known lags of all groups; None when none is known."""
    known = [one.total for one in found if one.total is not None]
    return sum(known) if known else None
