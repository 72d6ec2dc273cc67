"""The report as one value, and as one HTML page without network or font of its own; its scripts search, and tell its
age."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape

from muster_pipeline.report import balance as balance_section
from muster_pipeline.report import charts, limits
from muster_pipeline.report.age import old_after_ms
from muster_pipeline.report.balance import GroupBalance
from muster_pipeline.report.capacity import Capacity, capacities
from muster_pipeline.report.capacity import shown as capacity_shown
from muster_pipeline.report.expiry import Calendar, calendar
from muster_pipeline.report.find import WORST_FIRST, groups_json, status_of
from muster_pipeline.report.fleet import FleetRow, fleet, rates, total_lag
from muster_pipeline.report.heat import Heat, heat
from muster_pipeline.report.lag import GroupLag, Left, Series, chosen, last_lag, series
from muster_pipeline.report.quality import Quality, quality
from muster_pipeline.report.rebalances import Rebalances, rebalances
from muster_pipeline.report.source import Tables
from muster_pipeline.report.stalls import Stalls, stalls
from muster_pipeline.report.troubles import Troubles, troubles
from muster_pipeline.report.whatif import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The origin of the tables, printed at the top of the page."""

    cluster: str
    source: str
    run: str
    """Id of the run that published the tables."""
    version: str
    as_of_ms: int | None = None
    """When the tables were made of a live log; None: the newest time in what was read stands for it."""
    every_ms: int | None = None
    """How often they are made; None: nobody knows."""

    @property
    def old_after_ms(self) -> int:
        """After `as_of_ms`."""
        return old_after_ms(self.every_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All values from which the page, the Prometheus text and the JSON documents are made."""

    about: About
    troubles: Troubles
    quality: Quality
    lag: dict[str, GroupLag]
    """Of the groups that count at the end of the log."""
    left: dict[str, Left]
    """The others: deleted, empty, abandoned."""
    series: Sequence[Series]
    heat: Heat | None
    rebalances: Rebalances
    balance: dict[str, GroupBalance]
    capacity: dict[str, Capacity]
    calendar: Calendar
    stalls: Stalls
    groups: Sequence[FleetRow]
    """All of them; the page's search knows each."""
    fleet: Sequence[FleetRow]
    fleet_hidden: int
    whatif: Sequence[Comparison]
    whatif_hidden: int


def build(about: About, tables: Tables, whatif: Sequence[Comparison] = (), whatif_hidden: int = 0) -> Report:
    """Read each table once (lag twice). `whatif_hidden`: groups that were not replayed."""
    last = last_lag(tables)
    lag = last.present
    moved, shares, offsets, standing = (
        rebalances(tables),
        balance_section.balances(tables),
        calendar(tables),
        stalls(tables),
    )
    groups = fleet(
        lag=lag, left=last.left, rate=rates(tables), rebalances=moved, balance=shares, calendar=offsets, stalls=standing
    )
    wrong = troubles(tables)
    charted, mapped = drawn_groups(lag, wrong)
    drawn = {one.group: one for one in series(tables, list(dict.fromkeys([*charted, *mapped])))}
    return Report(
        about=replace(about, as_of_ms=wrong.now_ms if about.as_of_ms is None else about.as_of_ms),
        troubles=wrong,
        quality=quality(tables),
        lag=lag,
        left=last.left,
        series=[drawn[name] for name in charted],
        heat=heat([drawn[name] for name in mapped], {one.group: status_of(one, wrong) for one in groups}),
        rebalances=moved,
        balance=shares,
        capacity=capacities(tables, shares),
        calendar=offsets,
        stalls=standing,
        groups=groups,
        fleet=groups[: limits.GROUPS_SHOWN_MAX],
        fleet_hidden=max(0, len(groups) - limits.GROUPS_SHOWN_MAX),
        whatif=whatif[: limits.WHATIF_SHOWN_MAX],
        whatif_hidden=whatif_hidden + max(0, len(whatif) - limits.WHATIF_SHOWN_MAX),
    )


def drawn_groups(lag: Mapping[str, GroupLag], wrong: Troubles) -> tuple[list[str], list[str]]:
    """(groups with a chart, groups of the heat-map): those with the highest peaks, and on the map before them those in
    the newest troubles, however small they are."""
    by_peak = chosen(lag)
    troubled = [name for name in dict.fromkeys(one.group for one in wrong.newest) if name in lag and lag[name].peak]
    return by_peak[: limits.LAG_SERIES_MAX], list(dict.fromkeys([*troubled, *by_peak]))[: limits.HEAT_GROUPS_MAX]


def template(name: str) -> Template:
    """Of any page: text is escaped, and a name that is not there is an error."""
    made = Environment(
        loader=PackageLoader("muster_pipeline.report"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(number=number, bytes=size, moment=charts.moment, day=charts.day, seconds=seconds, short=short)
    return made.get_template(name)


def render(report: Report, links: Mapping[str, str] | None = None) -> str:
    """The page. Clients choose group names and metadata, so all text is escaped. `links`: where groups have pages."""
    timeline, ticks = charts.lanes(_events(report.rebalances))
    least_even, balance_hidden = balance_section.shown(report.balance)
    wanting, capacity_hidden = capacity_shown(report.capacity)
    return template("report.html.j2").render(
        report=report,
        links=links or {},
        statuses=WORST_FIRST,
        groups_json=groups_json(list(report.groups), report.troubles, links or {}),
        total_lag=total_lag(report.lag.values()),
        lag_charts=[c for c in (charts.line(one.group, one.points) for one in report.series) if c is not None],
        clock=charts.clock,
        timeline=timeline,
        timeline_ticks=ticks,
        churn=charts.bars([(charts.day(at), came, went) for at, came, went in report.rebalances.churn[-42:]]),
        days=charts.bars([(charts.day(at), count, 0) for at, count in report.calendar.days]),
        balances=least_even,
        balance_hidden=balance_hidden,
        capacity=wanting,
        capacity_hidden=capacity_hidden,
        width=charts.WIDTH,
    )


def _events(found: Rebalances) -> list[tuple[str, int, str, str]]:
    events: list[tuple[str, int, str, str]] = []
    lanes: set[str] = set()
    for one in found.newest:
        if one.group not in lanes and len(lanes) >= limits.TIMELINE_GROUPS_MAX:
            continue
        lanes.add(one.group)
        kind = "avoided" if one.is_avoided else one.trigger
        events.append((one.group, one.ended_at_ms, kind, f"{charts.moment(one.ended_at_ms)} {kind}: {one.evidence}"))
    return events


def number(value: float | None) -> str:
    """A number with thousands separators; None is "unknown"."""
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def size(value: int) -> str:
    """A size in bytes for people."""
    scaled = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if scaled < 1024:
            return f"{scaled:,.0f} {unit}" if unit == "B" else f"{scaled:,.1f} {unit}"
        scaled /= 1024
    return f"{scaled:,.1f} TiB"


def seconds(value_ms: int | None) -> str:
    """Milliseconds as a duration for people; None is "unknown"."""
    if value_ms is None:
        return "unknown"
    if value_ms < 1_000:
        return f"{value_ms} ms"
    if value_ms < 120_000:
        return f"{value_ms / 1000:.1f} s"
    if value_ms < 7_200_000:
        return f"{value_ms / 60_000:.0f} min"
    return f"{value_ms / 3_600_000:.1f} h"


def short(name: str) -> str:
    """A name at a bounded width; the whole one is in the element's title."""
    most = limits.NAME_CHARS_SHOWN_MAX
    return name if len(name) <= most else f"{name[: most - 1]}…"
