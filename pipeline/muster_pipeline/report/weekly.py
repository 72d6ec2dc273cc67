"""A week of a fleet: what was worst, and what changed against the week before, each with a row that proves it.

Sums by group over two weeks: the highest lag of a partition, standstills that are proven (evidence `behind`), records
lost to retention, rebalances, records read and read again. A change is told if it is at least two-fold and not a trifle
(`_TRIFLES`). If the log does not reach back over the whole week before, that week is unknown and nothing is compared:
fewer than could be seen is not fewer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster_pipeline.report import charts
from muster_pipeline.report.gaps import gapped
from muster_pipeline.report.source import Tables, rows

WEEK_MS: Final = 7 * 86_400_000
WORST_MAX: Final = 10
CHANGES_MAX: Final = 20
_MINUTE_MS: Final = 60_000
_FOLD: Final = 2
_TRIFLES: Final[Mapping[str, int]] = {
    "peak": 100, "stalled_ms": 5 * _MINUTE_MS, "lost": 1, "rebalances": 3, "read": 1_000, "rewound": 100,
}  # fmt: skip
"""A difference below this is not told."""

Row = dict[str, Any]
_PLACE: Final = ("group_id", "topic", "partition")
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "lag": (*_PLACE, "at_ms", "committed_offset", "lag", "quality", "is_below_start"),
    "stalls": (*_PLACE, "started_at_ms", "ended_at_ms", "duration_ms", "ended_by", "committed_offset", "evidence"),
    "rebalances": ("group_id", "ended_at_ms", "generation_to", "trigger", "evidence", "is_avoided", "duration_ms"),
    "commit_rate": (*_PLACE, "minute_ms", "commits", "messages", "rewinds", "messages_rewound"),
}
_AT: Final = {"lag": "at_ms", "rebalances": "ended_at_ms", "commit_rate": "minute_ms"}


@dataclass(slots=True)
class Week:
    """One group in one week."""

    peak: int | None = None
    """Highest lag of one partition; None: unknown."""
    stalled_ms: int = 0
    """Of its partitions together, as far as it lies in the week."""
    lost: set[tuple[str, int]] = field(default_factory=set)
    """Partitions whose committed offset was below the log start."""
    rebalances: int = 0
    read: int = 0
    rewound: int = 0
    is_seen: bool = False
    """It committed."""
    proof: dict[str, tuple[str, Row]] = field(default_factory=dict)
    """Measure -> (table, the row that tells most of it)."""

    def measures(self) -> dict[str, int | None]:
        """By the names of `_TRIFLES`."""
        return {
            "peak": self.peak, "stalled_ms": self.stalled_ms, "lost": len(self.lost), "rebalances": self.rebalances,
            "read": self.read, "rewound": self.rewound,
        }  # fmt: skip

    @property
    def is_bad(self) -> bool:
        """It lost records, stood still, or was behind."""
        return bool(self.lost or self.stalled_ms or self.peak)

    @property
    def badness(self) -> tuple[int, int, int]:
        """Lost records, then standstills, then lag."""
        return (len(self.lost), self.stalled_ms, self.peak or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One measure of one group."""

    group: str
    what: str
    """One of `_TRIFLES`, `new` or `gone`."""
    now: int | None
    before: int | None

    @property
    def sentence(self) -> str:
        """In words."""
        if self.what == "new":
            return f"{self.group} is new: the week before it committed nothing"
        if self.what == "gone":
            return f"{self.group} has gone: the week before it committed, this week not once"
        return f"{self.group}: {_said(self.what, self.now)}, {_said(self.what, self.before)} the week before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A week and the one before."""

    until_ms: int
    groups: int
    """That committed in the week."""
    bad: int
    """Of them: that lost records, stood still, or were behind."""
    worst: Sequence[tuple[str, Week]]
    changes: Sequence[Change]
    changes_hidden: int
    begins_ms: int
    """Of what was read."""
    proof: Sequence[tuple[str, Row]]

    @property
    def is_before_known(self) -> bool:
        """The log reaches back over the whole week before."""
        return self.begins_ms <= self.until_ms - 2 * WEEK_MS

    @property
    def sentences(self) -> list[str]:
        """For people, a line each."""
        first, last = charts.moment(self.until_ms - WEEK_MS), charts.moment(self.until_ms)
        told = [f"Week from {first} to {last} UTC: {self.groups:,} groups committed, {self.bad:,} were in trouble."]
        if self.worst:
            told.append("Worst:")
            told += [f"  {place}. {_worst(name, week)}" for place, (name, week) in enumerate(self.worst, 1)]
        if not self.is_before_known:
            told.append(
                f"What changed is unknown: what was read begins at {charts.moment(self.begins_ms)}, "
                "later than the week before."
            )
            return told
        told.append("Changed against the week before:" if self.changes else "Nothing changed against the week before.")
        told += [f"  {one.sentence}" for one in self.changes]
        if self.changes_hidden:
            told.append(f"  {self.changes_hidden:,} smaller changes are not shown.")
        return told


def weekly(tables: Tables, until_ms: int | None = None) -> Summary | None:
    """Up to that time, or to the end of what was read; None: nothing was committed by then."""
    seen = [minute for (minute,) in rows(tables, "commit_rate", ("minute_ms",))]
    seen += [at for (at,) in rows(tables, "lag", ("at_ms",))]
    if not seen or (until_ms is not None and min(seen) >= until_ms):
        return None
    until = max(seen) + 1 if until_ms is None else until_ms
    now, before = _week(tables, until), _week(tables, until - WEEK_MS)
    begins = min(seen)
    bad = sorted((name for name, one in now.items() if one.is_bad), key=lambda name: (_reversed(now[name]), name))
    changes = _changes(now, before) if begins <= until - 2 * WEEK_MS else []
    worst = [(name, now[name]) for name in bad[:WORST_MAX]]
    return Summary(
        until_ms=until,
        groups=sum(one.is_seen for one in now.values()),
        bad=len(bad),
        worst=worst,
        changes=changes[:CHANGES_MAX],
        changes_hidden=max(0, len(changes) - CHANGES_MAX),
        begins_ms=begins,
        proof=list(_proofs(worst, changes[:CHANGES_MAX], now, before)),
    )


def _week(tables: Tables, until_ms: int) -> dict[str, Week]:
    found: dict[str, Week] = {}
    uncounted = gapped(tables)
    for name, row in _rows(tables, until_ms):
        mine = found.setdefault(row["group_id"], Week())
        if name == "lag":
            _add_lag(mine, row)
        elif name == "stalls":
            _add_stall(mine, row, until_ms)
        elif name == "rebalances":
            mine.rebalances += 1
            mine.proof["rebalances"] = name, row
        else:
            mine.is_seen = True
            if (row["topic"], row["partition"]) not in uncounted:
                _add_rate(mine, row)
    return found


def _rows(tables: Tables, until_ms: int) -> Iterator[tuple[str, Row]]:
    """(table, row) of a week; a standstill is in each week that it touches."""
    from_ms = until_ms - WEEK_MS
    for name, columns in _COLUMNS.items():
        for values in rows(tables, name, columns):
            row = dict(zip(columns, values, strict=True))
            if name == "stalls":
                ended = row["ended_at_ms"]
                touches = row["started_at_ms"] < until_ms and (ended is None or ended > from_ms)
                is_in = touches and row["evidence"] == "behind"
            else:
                is_in = from_ms <= row[_AT[name]] < until_ms and not row.get("is_avoided")
            if is_in:
                yield name, row


def _add_lag(mine: Week, row: Row) -> None:
    if row["lag"] is not None and (mine.peak is None or row["lag"] > mine.peak):
        mine.peak = row["lag"]
        mine.proof["peak"] = "lag", row
    if row["is_below_start"]:
        mine.lost.add((row["topic"], row["partition"]))
        mine.proof.setdefault("lost", ("lag", row))


def _add_stall(mine: Week, row: Row, until_ms: int) -> None:
    ended = row["started_at_ms"] + row["duration_ms"] if row["ended_at_ms"] is None else row["ended_at_ms"]
    mine.stalled_ms += max(0, min(ended, until_ms) - max(row["started_at_ms"], until_ms - WEEK_MS))
    known = mine.proof.get("stalled_ms")
    if known is None or row["duration_ms"] > known[1]["duration_ms"]:
        mine.proof["stalled_ms"] = "stalls", row


def _add_rate(mine: Week, row: Row) -> None:
    for measure, column in (("read", "messages"), ("rewound", "messages_rewound")):
        known = mine.proof.get(measure)
        if row[column] and (known is None or row[column] > known[1][column]):
            mine.proof[measure] = "commit_rate", row
    mine.read += row["messages"]
    mine.rewound += row["messages_rewound"]


def _changes(now: Mapping[str, Week], before: Mapping[str, Week]) -> list[Change]:
    """Worse before better, then by fold and name."""
    found: list[tuple[bool, float, Change]] = []
    for name in sorted({*now, *before}):
        mine, old = now.get(name, Week()), before.get(name, Week())
        if mine.is_seen != old.is_seen:
            what = "new" if mine.is_seen else "gone"
            found.append((what == "new", 0.0, Change(group=name, what=what, now=None, before=None)))
            continue
        for what, value in mine.measures().items():
            other = old.measures()[what]
            if value is None or other is None or abs(value - other) < _TRIFLES[what]:
                continue
            fold = max(value, other) / max(min(value, other), 1)
            if fold >= _FOLD or 0 in (value, other):
                is_better = (value < other) != (what == "read")
                found.append((is_better, -fold, Change(group=name, what=what, now=value, before=other)))
    found.sort(key=lambda one: (one[0], one[1], one[2].group, one[2].what))
    return [one for _, _, one in found]


def _proofs(
    worst: Sequence[tuple[str, Week]], changes: Sequence[Change], now: Mapping[str, Week], before: Mapping[str, Week]
) -> Iterator[tuple[str, Row]]:
    """By table; each row once."""
    found: list[tuple[str, Row]] = []
    for _, week in worst:
        found += [week.proof[what] for what in ("lost", "stalled_ms", "peak", "rebalances") if what in week.proof]
    for change in changes:
        for weeks in (now, before):
            week_of = weeks.get(change.group, Week())
            wanted = ("read",) if change.what in ("new", "gone") else (change.what,)
            found += [week_of.proof[what] for what in wanted if what in week_of.proof]
    for table in _COLUMNS:
        told: list[Row] = []
        for name, row in found:
            if name == table and row not in told:
                told.append(row)
                yield name, row


def _worst(name: str, week: Week) -> str:
    told = [_said(what, value) for what, value in week.measures().items() if what != "read" and value]
    return f"{name}: {', '.join(told)}"


def _said(what: str, value: int | None) -> str:
    """One measure in words."""
    if value is None:
        return "unknown"
    if what == "stalled_ms":
        return f"stood still for {value / 3_600_000:,.1f} hours" if value else "never stood still"
    words = {
        "peak": "records behind on a partition at most",
        "lost": "partitions lost records to retention",
        "rebalances": "rebalances",
        "read": "records read",
        "rewound": "records to be read again after a rewind",
    }
    return f"{value:,} {words[what]}"


def _reversed(week: Week) -> tuple[int, ...]:
    return tuple(-one for one in week.badness)
