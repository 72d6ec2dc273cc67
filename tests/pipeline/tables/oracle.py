"""What the tables must hold, told record by record: slow, plain Python that shares no module with the product.

Rows are dictionaries with the columns of `records`. LogEnds are tuples (topic, partition, time, end, start or None).
"""

from bisect import bisect_right
from collections.abc import Iterable
from math import floor
from typing import Any

Row = dict[str, Any]
Key = tuple[str, str, int]
MINUTE = 60_000


def minute(at_ms: int) -> int:
    return at_ms // MINUTE * MINUTE


JUMP_MS, WITNESSES = 600_000, 1_000


class Clock:
    """The time of every row; which of them have a wrong one of their own; and when that touches what."""

    def __init__(self, rows: list[Row]) -> None:
        self.at: list[int] = []
        self.wrong: dict[int, int] = {}
        """Log offset -> time."""
        self.raised: list[tuple[int, int]] = []
        self.behind: set[int] = set()
        stamps = [row["append_timestamp_ms"] for row in rows]
        now: int | None = None
        while len(self.at) < len(stamps):
            place = len(self.at)
            stamp = stamps[place]
            if now is not None and stamp - now <= JUMP_MS:
                now = max(now, stamp)
                self.at.append(now)
                if stamp < now - JUMP_MS:
                    self.wrong[rows[place]["log_offset"]] = now
                    self.behind.add(now)
                continue
            end = disproved(stamps, place, now)
            if end is None:
                now = stamp
                self.at.append(now)
                continue
            now = self._without(rows, stamps, place, end, now)

    def _without(self, rows: list[Row], stamps: list[int], place: int, end: int, now: int | None) -> int:
        """The records at [place, end), of which those that jumped do not count."""
        ahead = {n for n in range(place, end) if stamps[n] >= stamps[place] - JUMP_MS}
        if now is None:
            now = next(stamps[n] for n in range(place, end) if n not in ahead)
        held = now
        for n in range(place, end):
            if n in ahead:
                self.wrong[rows[n]["log_offset"]] = now
            else:
                now = max(now, stamps[n])
                if stamps[n] < now - JUMP_MS:
                    self.wrong[rows[n]["log_offset"]] = now
                    self.behind.add(now)
            self.at.append(now)
        self.raised.append((held, self.at[max(ahead) + 1]))
        return now

    def lowered(self, at_ms: int, measured: Row) -> Row:
        if at_ms in self.behind:
            unknown = dict.fromkeys(("log_end_offset", "lag", "time_lag_ms"))
            return measured | unknown | {"quality": "unknown", "time_lag_quality": "unknown", "detail": "clock"}
        if not any(low <= at_ms <= high for low, high in self.raised):
            return measured
        timed = measured["time_lag_quality"] if measured["time_lag_quality"] == "unknown" else "lower_bound"
        if measured["quality"] == "unknown":
            return measured | {"time_lag_quality": timed}
        return measured | {"quality": "lower_bound", "time_lag_quality": timed, "detail": "clock"}


def disproved(stamps: list[int], place: int, now: int | None) -> int | None:
    """Behind the record with which as many have gone back as have stayed; None if that does not come in time."""
    stay = gone = 0
    for n in range(place, min(len(stamps), place + 2 * WITNESSES)):
        if stamps[n] >= stamps[place] - JUMP_MS:
            stay += 1
        elif now is None or stamps[n] >= now - JUMP_MS:
            gone += 1
        if gone >= stay:
            return n + 1
        if stay > WITNESSES:
            break
    return None


def key_of(row: Row) -> Key:
    return row["group_id"], row["topic"], row["partition"]


class Commits:
    """Outcome of every commit, and effects (at, clock, key, offset or None, commit row) in log order."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows: list[Row] = []
        self.effects: list[tuple[int, int, Key, int | None, Row]] = []
        pending: dict[int, dict[Key, Row]] = {}
        stored: dict[Key, int] = {}
        self.clock = Clock(rows)
        for row, clock in zip(rows, self.clock.at, strict=True):
            at = row["log_offset"]
            if row["is_control"]:
                for key, held in sorted(
                    pending.pop(row["producer_id"], {}).items(), key=lambda item: item[1]["log_offset"]
                ):
                    if row["control_type"] == 0:
                        self._settle(held, "txn_aborted", at)
                    elif held["log_offset"] < stored.get(key, -1):
                        self._settle(held, "txn_superseded", at)
                    else:
                        stored[key] = held["log_offset"]
                        self._settle(held, "txn_committed", at)
                        self.effects.append((at, clock, key, held["committed_offset"], held))
                continue
            if row["topic"] is None:
                continue
            key = key_of(row)
            if row["is_tombstone"]:
                gone = [held.pop(key) for held in pending.values() if key in held]
                for held in sorted(gone, key=lambda one: one["log_offset"]):
                    self._settle(held, "txn_removed", at)
                stored.pop(key, None)
                self._settle(row, "tombstone", at)
                self.effects.append((at, clock, key, None, row))
            elif row["producer_id"] >= 0:
                mine = pending.setdefault(row["producer_id"], {})
                if key in mine:
                    self._settle(mine[key], "txn_replaced", at)
                mine[key] = row
            else:
                stored[key] = at
                self._settle(row, "committed", at)
                self.effects.append((at, clock, key, row["committed_offset"], row))
        still = [row for held in pending.values() for row in held.values()]
        for row in sorted(still, key=lambda one: one["log_offset"]):
            self._settle(row, "txn_open", None)
        self.open_keys = {key_of(row) for row in still}

    def _settle(self, row: Row, outcome: str, at: int | None) -> None:
        visible = at if outcome in ("committed", "txn_committed") else None
        self.rows.append(row | {"outcome": outcome, "resolved_at_offset": at, "visible_at_offset": visible})


def first_appearance(rows: list[Row]) -> list[Key]:
    return list(dict.fromkeys(key_of(row) for row in rows if row["topic"] is not None))


def rate(rows: list[Row], commits: Commits) -> list[Row]:
    order = {key: number for number, key in enumerate(first_appearance(rows))}
    found: dict[tuple[int, Key], Row] = {}
    last: dict[Key, tuple[int, int]] = {}
    for at, clock, key, offset, _ in commits.effects:
        row = found.setdefault(
            (minute(clock), key),
            dict.fromkeys(
                ("commits", "advancing_commits", "idle_commits", "rewinds", "removals", "messages", "messages_rewound"),
                0,
            )
            | {"interval_max_ms": None},
        )
        row |= {"last_committed_offset": offset, "last_log_offset": at}
        if offset is None:
            row["removals"] += 1
            last.pop(key, None)
            continue
        row["commits"] += 1
        if key in last:
            before, before_ms = last[key]
            row["advancing_commits"] += offset > before
            row["idle_commits"] += offset == before
            row["rewinds"] += offset < before
            row["messages"] += max(0, offset - before)
            row["messages_rewound"] += max(0, before - offset)
            row["interval_max_ms"] = max(clock - before_ms, row["interval_max_ms"] or 0)
        last[key] = (offset, clock)
    missing: dict[int, int] = {}
    expected = rows[0]["log_offset"] if rows else 0
    for row, clock in zip(rows, commits.clock.at, strict=True):
        missing[minute(clock)] = missing.get(minute(clock), 0) + row["log_offset"] - expected
        expected = row["log_offset"] + 1
    return [
        {"minute_ms": at, "group_id": key[0], "topic": key[1], "partition": key[2], **row}
        | {"log_offsets_missing": missing[at]}
        for (at, key), row in sorted(found.items(), key=lambda item: (item[0][0], order[item[0][1]]))
    ]


BEHIND_MS = 86_400_000
WITNESS_MS = 600_000


Point = tuple[int, int, int | None, bool]
"""Time, log end, log start, whether its offsets are said to have gaps."""


class LogEnds:
    def __init__(self, samples: Iterable[tuple[Any, ...]]) -> None:
        """`samples`: topic, partition, time, log end, log start, and whether there are gaps (may be left out)."""
        self.of: dict[tuple[str, int], list[Point]] = {}
        for topic, partition, at, end, start, *gaps in samples:
            self.of.setdefault((topic, partition), []).append((at, end, start, gaps == [True]))
        for place, points in self.of.items():
            last = {point[0]: point for point in points}
            self.of[place] = [last[at] for at in sorted(last)]

    def told(self) -> list[tuple[int, str, int]]:
        """Last sample of each minute of each topic partition: (time, topic, partition)."""
        found = {}
        for (topic, partition), points in self.of.items():
            for at, *_ in points:
                found[topic, partition, minute(at)] = at
        return sorted((at, topic, partition) for (topic, partition, _), at in found.items())

    def measure(self, topic: str, partition: int, at: int, committed: int) -> Row:
        points = self.of.get((topic, partition), [])
        times = [point[0] for point in points]
        place = bisect_right(times, at) - 1
        start = points[place][2] if place >= 0 else None
        end, quality, detail = self._end(points, place, at, committed)
        lag = None if end is None else end - committed
        time_lag, time_quality = _time_lag(points, at, committed, lag, quality)
        if lag and self._has_gaps(points, place, at):
            lag, quality, detail = None, "unknown", "gaps"
        return {
            "log_end_offset": end,
            "lag": lag,
            "quality": quality,
            "detail": detail,
            "time_lag_ms": time_lag,
            "time_lag_quality": time_quality,
            "log_start_offset": start,
            "is_below_start": None if start is None else committed < start,
        }

    def _has_gaps(self, points: list[Point], place: int, at: int) -> bool:
        """A sample at that very time says it alone, else those on both sides of it do."""
        beside = points[place : place + 1]
        if beside[0][0] != at:
            beside += [one for one in points[place + 1 : place + 2] if one[0] <= at + BEHIND_MS]
        return any(one[3] for one in beside)

    def _end(self, points: list[Point], place: int, at: int, committed: int) -> tuple[int | None, str, str]:
        if not points or points[0][0] > at + BEHIND_MS:
            return None, "unknown", "no_samples"
        if place < 0:
            return None, "unknown", "before_first_sample"
        reached_later = any(one[1] >= committed for one in points[place + 1 :] if one[0] <= at + WITNESS_MS)
        t0, e0, *_ = points[place]
        if t0 == at:
            if e0 >= committed:
                return e0, "exact", "sampled"
            if reached_later:
                return committed, "lower_bound", "answer_older_than_commit"
            return None, "unknown", "committed_past_end"
        if place + 1 == len(points) or points[place + 1][0] > at + BEHIND_MS:
            return max(e0, committed), "lower_bound", "after_last_sample"
        t1, e1, *_ = points[place + 1]
        if e1 < e0:
            return None, "unknown", "head_went_back"
        line = e0 + floor((e1 - e0) * ((at - t0) / (t1 - t0)))
        if line >= committed:
            return line, "interpolated", "between_samples"
        if e1 >= committed:
            return committed, "lower_bound", "between_samples"
        if reached_later:
            return committed, "lower_bound", "answer_older_than_commit"
        return None, "unknown", "committed_past_end"


def _time_lag(points: list[Point], at: int, committed: int, lag: int | None, quality: str) -> tuple[int | None, str]:
    if lag == 0:
        return 0, quality
    if lag is None:
        return None, "unknown"
    high = None
    for index, (time, end, *_) in enumerate(points):
        if end > committed:
            if index == 0:
                return (at - time, "lower_bound") if time <= at else (None, "unknown")
            low_end = max(point[1] for point in points[:index])
            low_time = points[index - 1][0]
            high = low_time + floor((time - low_time) * ((committed - low_end) / (end - low_end)))
            return max(0, at - high), "interpolated"
    raise AssertionError("lag above 0 without a sample above the offset")


def lag(rows: list[Row], commits: Commits, log_ends: LogEnds) -> list[Row]:
    order = {key: number for number, key in enumerate(first_appearance(rows))}
    points: dict[tuple[int, Key], tuple[int, int]] = {}
    last_of_minute: dict[tuple[int, Key], tuple[int, int | None]] = {}
    for _, clock, key, offset, _ in commits.effects:
        last_of_minute[minute(clock), key] = (clock, offset)
    for place, (clock, offset) in last_of_minute.items():
        if offset is not None:
            points[place] = (clock, offset)
    history: dict[Key, list[tuple[int, int | None]]] = {}
    for _, clock, key, offset, _ in commits.effects:
        history.setdefault(key, []).append((clock, offset))
    keys_of: dict[tuple[str, int], list[Key]] = {}
    for key in order:
        keys_of.setdefault(key[1:], []).append(key)
    for at, topic, partition in log_ends.told():
        for key in keys_of.get((topic, partition), []):
            known = history.get(key, [])
            place = bisect_right(known, at, key=lambda one: one[0])
            if place and (then := known[place - 1][1]) is not None:
                points[minute(at), key] = (at, then)
    return [
        {"minute_ms": start, "at_ms": at, "group_id": key[0], "topic": key[1], "partition": key[2]}
        | {"committed_offset": offset}
        | commits.clock.lowered(at, log_ends.measure(key[1], key[2], at, offset))
        for (start, key), (at, offset) in sorted(points.items(), key=lambda item: (item[0][0], order[item[0][1]]))
    ]


def stalls(rows: list[Row], commits: Commits, log_ends: LogEnds, least_ms: int) -> list[Row]:
    now: dict[Key, tuple[int, int, int, int]] = {}
    found: list[Row] = []

    def tell(key: Key, ended: tuple[int, int] | None, end_ms: int, by: str) -> None:
        offset, started, started_at, idle = now[key]
        if end_ms - started < least_ms:
            return
        samples = [point for point in log_ends.of.get(key[1:], []) if point[0] <= end_ms]
        evidence = "unknown"
        if samples and samples[-1][1] > offset:
            evidence = "behind"
        elif samples and samples[-1][0] >= started:
            evidence = "nothing_to_read"
        if started_at in commits.clock.wrong or (ended and ended[1] in commits.clock.wrong):
            evidence = "unknown"
        found.append(
            {"group_id": key[0], "topic": key[1], "partition": key[2], "started_at_ms": started, "ended_by": by}
            | {"ended_at_ms": ended and ended[0], "duration_ms": end_ms - started, "committed_offset": offset}
            | {"idle_commits": idle, "evidence": evidence, "started_log_offset": started_at}
            | {"ended_log_offset": ended and ended[1]}
        )

    for at, clock, key, offset, _ in commits.effects:
        if key in now:
            before, started, started_at, idle = now[key]
            if offset == before:
                now[key] = (before, started, started_at, idle + 1)
                continue
            by = "removal" if offset is None else "advance" if offset > before else "rewind"
            tell(key, (clock, at), clock, by)
        if offset is None:
            now.pop(key, None)
        else:
            now[key] = (offset, clock, at, 0)
    end_ms = commits.clock.at[-1] if rows else 0
    for key in first_appearance(rows):
        if key in now:
            tell(key, None, end_ms, "log_end")
    return found
