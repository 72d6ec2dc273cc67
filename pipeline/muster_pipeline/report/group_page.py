"""One group's page: what is wrong, its partitions, lag over time with its rebalances, owners, commits, stalls.

Without network or font of its own, and one script, which tells its age, as on the page of the fleet. What it shows is
bounded and says how much is not shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.report import charts, limits
from muster_pipeline.report.balance import balances
from muster_pipeline.report.capacity import Capacity, capacities
from muster_pipeline.report.explain import Explanation, explain
from muster_pipeline.report.gaps import gapped
from muster_pipeline.report.lag import Series, series
from muster_pipeline.report.owners import Owner, owners
from muster_pipeline.report.ownership import Span, spans
from muster_pipeline.report.page import About, template
from muster_pipeline.report.rebalances import Rebalance, rebalances
from muster_pipeline.report.source import InMemory, Tables, rows
from muster_pipeline.report.stalls import Stall, stalls
from muster_pipeline.report.troubles import LEVELS, WHAT_TO_DO, WHY
from muster_pipeline.report.whatif import Comparison
from muster_pipeline.tables.catalog import table

_COLUMNS = (
    "topic", "partition", "status", "since_ms", "committed_offset", "committed_ms", "lag", "read_per_s",
    "written_per_s", "drained_in_ms", "lost_in_ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One committed offset of the group."""

    topic: str
    partition: int
    status: str
    since_ms: int | None
    committed_offset: int
    committed_ms: int
    lag: int | None
    read_per_s: float | None
    written_per_s: float | None
    drained_in_ms: int | None
    lost_in_ms: int | None
    owner: Owner | None

    @property
    def level(self) -> str:
        """Of its status."""
        return LEVELS[self.status]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """All values of one group's page."""

    about: About
    group: str
    partitions: Sequence[Partition]
    partitions_hidden: int
    statuses: Sequence[tuple[str, int]]
    explanation: Explanation | None
    lag: Series
    commits: Sequence[tuple[int, int, int]]
    """(minute, commits, records read), oldest first."""
    owned: Sequence[Span]
    owned_hidden: int
    rebalances: Sequence[Rebalance]
    rebalances_hidden: int
    stalls: Sequence[Stall]
    capacity: Capacity | None
    whatif: Comparison | None

    @property
    def todo(self) -> Sequence[str]:
        """Statuses that ask for somebody."""
        return [word for word, _ in self.statuses if word in WHAT_TO_DO]


class OneGroup:
    """Tables with the rows of one group alone, so that sections of the fleet's page serve one group's."""

    def __init__(self, tables: Tables, group: str) -> None:
        self._tables = tables
        self._group = group

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Batches of the columns asked for."""
        wanted = columns if "group_id" in columns else ("group_id", *columns)
        for batch in self._tables.batches(name, wanted):
            mine = batch.filter(pc.equal(batch.column("group_id"), self._group))
            if mine.num_rows:
                yield mine.select(list(columns))


READ = (
    "partition_status", "lag", "commit_rate", "rebalances", "stalls", "balance", "generations", "memberships",
    "assignments",
)  # fmt: skip
"""Tables of which a group's page is made."""


def by_group(tables: Tables, groups: Sequence[str]) -> dict[str, InMemory]:
    """The rows of these groups, each by itself; one pass over each table."""
    found: dict[str, dict[str, pa.Table]] = {name: {} for name in groups}
    for table_name in READ:
        schema = table(table_name).schema
        wanted = pa.array(groups, pa.string())
        parts = [
            batch.filter(pc.is_in(batch.column("group_id"), value_set=wanted))
            for batch in tables.batches(table_name, schema.names)
        ]
        together = pa.Table.from_batches(parts) if parts else schema.empty_table()
        for name in groups:
            found[name][table_name] = together.filter(pc.equal(together["group_id"], name))
    return {name: InMemory(of) for name, of in found.items()}


def build_group(about: About, tables: Tables, group: str, whatif: Comparison | None = None) -> GroupPage | None:
    """None: no table knows the group."""
    mine = OneGroup(tables, group)
    moved, stood = rebalances(mine), stalls(mine)
    lag = series(mine, [group])[0]
    found = _partitions(mine, group)
    owned = spans(mine, group)
    commits = _commits(mine)
    if not (found or moved.groups or owned or commits or lag.points):
        return None
    shown = found[: limits.PARTITIONS_SHOWN_MAX]
    places = list(dict.fromkeys((one.topic, one.partition) for one in owned))
    kept = frozenset(places[: limits.OWNED_SHOWN_MAX])
    counts: dict[str, int] = {}
    for one in found:
        counts[one.status] = counts.get(one.status, 0) + 1
    newest = max((one.committed_ms for one in found), default=None)
    return GroupPage(
        about=replace(about, as_of_ms=newest if about.as_of_ms is None else about.as_of_ms),
        group=group,
        partitions=shown,
        partitions_hidden=len(found) - len(shown),
        statuses=sorted(counts.items()),
        explanation=explain(mine, group),
        lag=lag,
        commits=commits[-limits.SERIES_POINTS_MAX :],
        owned=[one for one in owned if (one.topic, one.partition) in kept],
        owned_hidden=len(places) - len(kept),
        rebalances=moved.newest,
        rebalances_hidden=moved.hidden,
        stalls=stood.worst,
        capacity=capacities(mine, balances(mine)).get(group),
        whatif=whatif,
    )


def _partitions(tables: Tables, group: str) -> list[Partition]:
    """Those in trouble first, then those furthest behind."""
    known = owners(tables, {group})
    found = []
    for values in rows(tables, "partition_status", _COLUMNS):
        row = dict(zip(_COLUMNS, values, strict=True))
        found.append(Partition(**row, owner=known.get((group, row["topic"], row["partition"]))))
    order = ("ERR", "WARN", "UNKNOWN", "ABANDONED", "OK")
    return sorted(found, key=lambda one: (order.index(one.level), -(one.lag or 0), one.topic, one.partition))


def _commits(tables: Tables) -> list[tuple[int, int, int]]:
    """(minute, commits, records read); of partitions whose offsets have gaps no records are counted."""
    minutes: dict[int, tuple[int, int]] = {}
    uncounted = gapped(tables)
    columns = ("topic", "partition", "minute_ms", "commits", "messages")
    for topic, partition, minute, commits, messages in rows(tables, "commit_rate", columns):
        before = minutes.get(minute, (0, 0))
        read = 0 if (topic, partition) in uncounted else messages
        minutes[minute] = before[0] + commits, before[1] + read
    return [(minute, *minutes[minute]) for minute in sorted(minutes)]


def render_group(page: GroupPage, home: str | None = None) -> str:
    """The page. Clients choose group names and metadata, so all text is escaped. `home`: address of the fleet's."""
    times = [at for at, _ in page.lag.points]
    marks = [(one.ended_at_ms, one.trigger) for one in page.rebalances if not one.is_avoided]
    return template("group.html.j2").render(
        page=page,
        home=home,
        links={},
        lag_chart=charts.line(page.group, page.lag.points, 140),
        lag_marks=charts.marks(marks, times[0], times[-1]) if times else (),
        read_chart=charts.line("records read a minute", [(at, messages) for at, _, messages in page.commits]),
        commit_chart=charts.line("commits a minute", [(at, commits) for at, commits, _ in page.commits]),
        owned=charts.segments(page.owned),
        why=WHY,
        what_to_do=WHAT_TO_DO,
        levels=LEVELS,
        width=charts.WIDTH,
    )
