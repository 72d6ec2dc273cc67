"""A plain reader of statuses: Burrow's evaluator as its source says it, one partition at a time, and our own rules.

Source: linkedin/Burrow, `core/internal/evaluator/caching.go` (calculatePartitionStatus and its rules) and
`core/internal/storage/inmemory.go` (what it keeps). Of Burrow's storage one thing differs: commits of the same second
of the log's clock are one, while Burrow counts a second from the first of them.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import Any

from tests.pipeline.tables.oracle import Commits, LogEnds, Point

Row = dict[str, Any]
INTERVALS = 10
DAY_MS = 86_400_000


class Ring:
    """The last commits of a partition: [time of the first of a second, time of the last, offset]."""

    def __init__(self) -> None:
        self.slots: list[list[int]] = []
        self.reached_ms = 0

    def add(self, at_ms: int, offset: int) -> None:
        if not self.slots or self.slots[-1][2] != offset:
            self.reached_ms = at_ms
        if self.slots and self.slots[-1][0] // 1000 == at_ms // 1000:
            self.slots[-1][1:] = [at_ms, offset]
        else:
            self.slots.append([at_ms, at_ms, offset])
        del self.slots[:-INTERVALS]


def calculate(
    offsets: list[tuple[int, int, int | None]], broker_offsets: list[int], current_lag: int, now_ms: int
) -> str:
    """`offsets`: (time, offset, lag or None), oldest first; calculatePartitionStatus with allowedLag 0."""
    if current_lag > 0:
        times = [at for at, _, _ in offsets]
        values = [offset for _, offset, _ in offsets]
        recently_zero = any(end <= values[-1] for end in broker_offsets)
        if now_ms - times[-1] > times[-1] - times[0] and not recently_zero:
            return "STOP"
        rewind = next((n for n in range(1, len(values)) if values[n] < values[n - 1]), -1)
        if rewind > 0 and not any(one >= values[rewind - 1] for one in values[rewind:]):
            return "REWIND"
        lags = [lag for _, _, lag in offsets if lag is not None]
        if 0 not in lags:
            if all(one == values[0] for one in values):
                return "STALL"
            if not any(later < earlier for earlier, later in pairwise(lags)):
                return "WARN"
    return "OK"


def statuses(expiry: list[Row], commits: Commits, log_ends: LogEnds) -> list[Row]:
    """(group, topic, partition, status, since) of every committed offset, in the order of `expiry`."""
    rings: dict[tuple[str, str, int], Ring] = {}
    last_ms: dict[tuple[str, str, int], int] = {}
    for _, clock, key, offset, _ in commits.effects:
        if offset is None:
            rings.pop(key, None)
        else:
            rings.setdefault(key, Ring()).add(clock, offset)
            last_ms[key] = clock
    newest = max((points[-1][0] for points in log_ends.of.values()), default=None)
    now_ms = max(commits.clock.at[-1], newest if newest is not None else commits.clock.at[-1])
    found = []
    for row in expiry:
        key = row["group_id"], row["topic"], row["partition"]
        status, since = _one(row, rings[key], last_ms[key], log_ends.of.get(key[1:], []), commits, now_ms)
        found.append({"group_id": key[0], "topic": key[1], "partition": key[2], "status": status, "since_ms": since})
    return found


def _one(
    row: Row, ring: Ring, committed_ms: int, points: list[Point], commits: Commits, now_ms: int
) -> tuple[str, int | None]:
    committed = row["committed_offset"]
    latest = points[-INTERVALS:]
    below = 0
    for _, end, start, _ in reversed(latest):
        if start is None or start <= committed or end <= committed:
            break
        below += 1
    if below:
        return "TRUNCATED", latest[-below][0]
    if row["expires_at_ms"] is not None and row["expires_at_ms"] - now_ms <= DAY_MS:
        return "EXPIRING", row["expires_at_ms"] - DAY_MS
    state = row["group_state"]
    if state == "empty" or (state == "simple" and now_ms - committed_ms > DAY_MS):
        return "ABANDONED", committed_ms
    if not latest:
        return "UNKNOWN", None
    lag = max(0, latest[-1][1] - committed)
    if lag == 0:
        return "OK", None
    alone = len(ring.slots) == 1 and now_ms - committed_ms <= 60_000
    if alone or any(_is_wrong(commits, first) for first, _, _ in ring.slots):
        return "UNKNOWN", None
    offsets = []
    for first, last, offset in ring.slots:
        place = bisect_right([point[0] for point in points], last) - 1
        offsets.append((first, offset, None if place < 0 else max(0, points[place][1] - offset)))
    status = calculate(offsets, [one[1] for one in latest], lag, now_ms)
    if sum(one is not None for _, _, one in offsets) < {"STALL": 1, "WARN": 2}.get(status, 0):
        return "UNKNOWN", None
    values = [offset for _, offset, _ in offsets]
    back = next((n for n in range(1, len(values)) if values[n] < values[n - 1]), 0)
    since = {
        "STOP": committed_ms, "STALL": ring.reached_ms, "REWIND": offsets[back][0], "WARN": offsets[0][0], "OK": None
    }  # fmt: skip
    return status, since[status]


def _is_wrong(commits: Commits, at_ms: int) -> bool:
    clock = commits.clock
    return at_ms in clock.behind or any(low <= at_ms <= high for low, high in clock.raised)
