"""Why a group lagged at a time, in one paragraph, with the rows that prove it.

The ten minutes up to the time are compared with the ten before. What explains at least half of the lag is the cause: a
committed offset that stood still, records that a rewind made unread again, rebalances; else the rates say whether more
was written than read, and whether that was new. What the tables do not tell is said to be unknown, never guessed; and
nothing here knows what a consumer did with a record.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster_pipeline.report import charts
from muster_pipeline.report.gaps import gapped
from muster_pipeline.report.source import Tables, rows

WINDOW_MS: Final = 600_000
PROOF_ROWS_MAX: Final = 20
STANDSTILL_MS: Final = 300_000
"""A committed offset that long behind and unmoved stands still."""
REBALANCES_MIN: Final = 3
"""So many within the window explain lag by themselves."""
PAUSE_SHARE: Final = 0.2
"""Or a pause of this share of the window."""
BURST: Final = 2.0
"""Written so many times as much as in the window before."""

Row = dict[str, Any]
Place = tuple[str, int]

CAUSES: Final = {
    "unknown": "there are too few samples of log end offsets, or too short a history, to tell",
    "gaps": "offsets of its topics have gaps, and do not tell how many records are between them",
    "not behind": "there was nothing to read",
    "stalled": "committed offsets stood still",
    "rewound": "the group was set back, and reads records again",
    "rebalancing": "the group rebalanced",
    "burst": "more was written than before, and the group reads as before",
    "slow": "more is written than the group reads",
    "catching up": "the group reads more than is written, and is not done yet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One group at one time."""

    group: str
    at_ms: int
    cause: str
    """One of CAUSES."""
    lag: int | None
    sentences: tuple[str, ...]
    proof: tuple[tuple[str, Row], ...]
    """(table, row): at most PROOF_ROWS_MAX."""

    @property
    def paragraph(self) -> str:
        """All sentences."""
        return " ".join(self.sentences)


@dataclass(slots=True)
class _Seen:
    """One partition by table `lag`: its last row up to the time, and up to one and two windows before."""

    now: Row | None = None
    before: Row | None = None
    earlier: Row | None = None
    standing: Row | None = None
    """The first of the last rows with the same committed offset and something to read; None: there is nothing."""


def explain(tables: Tables, group: str, at_ms: int | None = None) -> Explanation | None:
    """At that time, or at the end of the log; None: the group has no row in table `lag` by then."""
    seen, at_ms = _lags(tables, group, at_ms)
    if not seen or at_ms is None:
        return None
    began_ms = at_ms - WINDOW_MS
    known = {place: one for place, one in seen.items() if one.now is not None and one.now["lag"] is not None}
    total = sum(_now(one)["lag"] for one in known.values()) if known else None
    worst = sorted(known.items(), key=lambda item: (-_now(item[1])["lag"], item[0]))
    sentences = [_lag_sentence(group, at_ms, seen, known, total)]
    proof: list[tuple[str, Row]] = [("lag", _now(one)) for _, one in worst[:3]]
    if not total:
        gaps = [one.now for one in seen.values() if one.now is not None and one.now["detail"] == "gaps"]
        cause = "gaps" if gaps else "unknown" if total is None else "not behind"
        sentences += [_gaps_sentence(gaps), _cause_sentence(cause)]
        proof = [("lag", one) for one in gaps[:3]] or proof
        return _told(group, at_ms, cause, None if gaps else total, sentences, proof)
    standing = {place: one for place, one in known.items() if _stands(one, at_ms)}
    stalled = [one for one in _stalls(tables, group, at_ms) if (one["topic"], one["partition"]) in standing]
    uncounted = gapped(tables)
    known = {place: one for place, one in known.items() if place not in uncounted}
    rewinds = [
        one
        for one in _rates(tables, group, began_ms, at_ms)
        if one["messages_rewound"] and (one["topic"], one["partition"]) not in uncounted
    ]
    moves = _rebalances(tables, group, began_ms, at_ms)
    held = sum(_now(one)["lag"] for one in standing.values())
    rewound = sum(one["messages_rewound"] for one in rewinds)
    if standing:
        sentences.append(_standing_sentence(standing, stalled))
    for told, found in ((_rewind_sentence, rewinds), (_move_sentence, moves)):
        if found:
            sentences.append(told(found))
    proof += [("lag", one.standing) for one in standing.values() if one.standing is not None]
    proof += [("stalls", one) for one in stalled] + [("commit_rate", one) for one in rewinds]
    proof += [("rebalances", one) for one in moves]
    cause = _cause(total, held, rewound, moves, known)
    sentences.append(_rate_sentence(known))
    return _told(group, at_ms, cause, total, [*sentences, _cause_sentence(cause)], proof)


def _told(
    group: str, at_ms: int, cause: str, lag: int | None, sentences: Sequence[str], proof: Sequence[tuple[str, Row]]
) -> Explanation:
    said = tuple(one for one in sentences if one)
    return Explanation(
        group=group, at_ms=at_ms, cause=cause, lag=lag, sentences=said, proof=tuple(proof[:PROOF_ROWS_MAX])
    )


def _now(one: _Seen) -> Row:
    if one.now is None:
        raise LookupError("a partition without a row")
    return one.now


def _cause(total: int, held: int, rewound: int, moves: Sequence[Row], known: dict[Place, _Seen]) -> str:
    if 2 * held >= total:
        return "stalled"
    if 2 * rewound >= total:
        return "rewound"
    if len(moves) >= REBALANCES_MIN or _pause_ms(moves) >= PAUSE_SHARE * WINDOW_MS:
        return "rebalancing"
    read, written = _grown(known, "before", "now")
    if read is None or written is None:
        return "unknown"
    if read >= written:
        return "catching up"
    _, wrote_before = _grown(known, "earlier", "before")
    return "burst" if wrote_before is not None and written > BURST * wrote_before else "slow"


def _grown(known: dict[Place, _Seen], first: str, last: str) -> tuple[int | None, int | None]:
    """Records read and written between the two rows of each partition; None if no partition has both."""
    read = written = None
    for one in known.values():
        low, high = getattr(one, first), getattr(one, last)
        if low is None or high is None or low["log_end_offset"] is None or high["log_end_offset"] is None:
            continue
        read = (read or 0) + max(0, high["committed_offset"] - low["committed_offset"])
        written = (written or 0) + max(0, high["log_end_offset"] - low["log_end_offset"])
    return read, written


def _lags(tables: Tables, group: str, at_ms: int | None) -> tuple[dict[Place, _Seen], int | None]:
    columns = (
        *("topic", "partition", "at_ms", "committed_offset", "log_end_offset", "lag", "quality", "detail"),
        "time_lag_ms",
    )
    found = [row for row in _of(tables, "lag", group, columns) if at_ms is None or row["at_ms"] <= at_ms]
    if at_ms is None:
        at_ms = max((row["at_ms"] for row in found), default=None)
    seen: dict[Place, _Seen] = {}
    for row in sorted(found, key=lambda one: one["at_ms"]):
        mine = seen.setdefault((row["topic"], row["partition"]), _Seen())
        moved = mine.now is None or mine.now["committed_offset"] != row["committed_offset"]
        if not row["lag"]:
            mine.standing = None
        elif moved or mine.standing is None:
            mine.standing = row
        mine.now = row
        if at_ms is not None and row["at_ms"] <= at_ms - WINDOW_MS:
            mine.before = row
        if at_ms is not None and row["at_ms"] <= at_ms - 2 * WINDOW_MS:
            mine.earlier = row
    return seen, at_ms


def _stands(one: _Seen, at_ms: int) -> bool:
    return one.standing is not None and at_ms - one.standing["at_ms"] >= STANDSTILL_MS


def _stalls(tables: Tables, group: str, at_ms: int) -> list[Row]:
    """That were going on then, with something to read."""
    columns = (
        *("topic", "partition", "started_at_ms", "ended_at_ms", "committed_offset", "idle_commits", "evidence"),
        "duration_ms",
    )
    return [
        one
        for one in _of(tables, "stalls", group, columns)
        if one["started_at_ms"] <= at_ms
        and (one["ended_at_ms"] is None or one["ended_at_ms"] >= at_ms)
        and one["evidence"] != "nothing_to_read"
    ]


def _rates(tables: Tables, group: str, began_ms: int, at_ms: int) -> list[Row]:
    columns = ("topic", "partition", "minute_ms", "commits", "messages", "rewinds", "messages_rewound")
    return [one for one in _of(tables, "commit_rate", group, columns) if began_ms <= one["minute_ms"] <= at_ms]


def _rebalances(tables: Tables, group: str, began_ms: int, at_ms: int) -> list[Row]:
    columns = (
        *("ended_at_ms", "generation_to", "trigger", "evidence", "is_avoided", "duration_ms", "duration_class"),
        *("duration_min_ms", "duration_max_ms"),
    )
    return [
        one
        for one in _of(tables, "rebalances", group, columns)
        if began_ms < one["ended_at_ms"] <= at_ms and not one["is_avoided"]
    ]


def _of(tables: Tables, name: str, group: str, columns: Sequence[str]) -> Iterator[Row]:
    for of, *values in rows(tables, name, ("group_id", *columns)):
        if of == group:
            yield dict(zip(columns, values, strict=True))


def _pause_ms(moves: Sequence[Row]) -> int:
    """How long they took, as far as that is known for sure."""
    return sum(one["duration_ms"] or one["duration_min_ms"] or 0 for one in moves)


def _lag_sentence(
    group: str, at_ms: int, seen: dict[Place, _Seen], known: dict[Place, _Seen], total: int | None
) -> str:
    when = f"At {charts.moment(at_ms)} UTC group {group}"
    if total is None:
        return f"{when} had committed offsets on {len(seen)} partitions, and its lag is unknown."
    if total == 0:
        return f"{when} was not behind on any of {len(known)} partitions whose lag is known."
    place, worst = max(known.items(), key=lambda item: (_now(item[1])["lag"], item[0]))
    earlier = [one.before["lag"] for one in known.values() if one.before and one.before["lag"] is not None]
    change = total - sum(earlier)
    trend = f", {abs(change):,} {'more' if change >= 0 else 'fewer'} than ten minutes before" if earlier else ""
    some = "" if len(known) == len(seen) else f" (of {len(seen) - len(known)} more the lag is unknown)"
    most = f" {place[0]}-{place[1]} had {_now(worst)['lag']:,} of them." if len(known) > 1 else ""
    return f"{when} was {total:,} records behind on {len(known)} partitions{some}{trend}.{most}"


def _gaps_sentence(gaps: Sequence[Row]) -> str:
    ages = [one["time_lag_ms"] for one in gaps if one["time_lag_ms"] is not None]
    if not gaps:
        return ""
    age = f"; the oldest record that was not read was {max(ages) / 1_000:,.0f} s old" if ages else ""
    return f"It was behind on {len(gaps)} partitions, by records that nobody has counted{age}."


def _standing_sentence(standing: dict[Place, _Seen], stalled: Sequence[Row]) -> str:
    place, first = min(standing.items(), key=lambda item: (item[1].standing or _now(item[1]))["at_ms"])
    row = first.standing or _now(first)
    more = "" if len(standing) == 1 else f", and so did those of {len(standing) - 1} more"
    commits = sum(one["idle_commits"] for one in stalled if (one["topic"], one["partition"]) == place)
    what = f"; {commits:,} commits repeated it" if commits else "; nothing shows that it was committed again"
    where = f"{row['committed_offset']:,} of {place[0]}-{place[1]}"
    since = charts.moment(row["at_ms"])
    return f"The committed offset {where} stood still, with more to read, since {since} at least{more}{what}."


def _rewind_sentence(found: Sequence[Row]) -> str:
    count, records = sum(one["rewinds"] for one in found), sum(one["messages_rewound"] for one in found)
    return f"In the ten minutes before, {count:,} commits went back by {records:,} records in all."


def _move_sentence(found: Sequence[Row]) -> str:
    triggers = sorted({one["trigger"].replace("_", " ") for one in found})
    pause = _pause_ms(found)
    took = f", {pause / 1_000:,.1f} s of pause at least" if pause else ""
    return f"In the ten minutes before there were {len(found)} rebalances ({', '.join(triggers)}){took}."


def _rate_sentence(known: dict[Place, _Seen]) -> str:
    read, written = _grown(known, "before", "now")
    if read is None or written is None:
        return ""
    text = f"In the ten minutes before, {read:,} records were read and {written:,} written"
    _, earlier = _grown(known, "earlier", "before")
    return f"{text}; in the ten before those, {earlier:,} were written." if earlier is not None else f"{text}."


def _cause_sentence(cause: str) -> str:
    return f"So: {cause}; {CAUSES[cause]}."
