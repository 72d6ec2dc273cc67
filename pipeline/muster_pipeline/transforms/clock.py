"""The log partition's clock: the running maximum of record timestamps, in log order.

Coordinators change, and their clocks differ; the order of the log does not. With a clock that never goes back, every
event has one minute, minutes close in order, and a fold needs to keep one minute open only.

A coordinator's clock may be wrong, and one record a day ahead would put the next day into one minute. So a jump of more
than CLOCK_JUMP_MAX_MS counts only if the records after it bear it out: as long as fewer of them have gone back to near
the old time than have stayed. As soon as as many have gone back, those ahead get the clock of before, and are told as
`Wrong`. A log that was idle jumps too; it is borne out by whatever follows. Records without a verdict are at most
CLOCK_WITNESSES or those up to the end of the log, where a jump is believed.

What it cannot do: put right a coordinator that was ahead for longer than the witnesses. Records that are then far
behind the clock are told as `Wrong` too; their clock stays where it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from muster_pipeline.transforms.arrays import NONE, Bools, Ints
from muster_pipeline.transforms.limits import CLOCK_JUMP_MAX_MS, CLOCK_WITNESSES, MINUTE_MS

_CLOCK: Final = "clock_ms"
"""Key of a decoded group record whose own time is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """Rows [first, last] of the given ones that are so far from the clock; those between may be sound."""

    first: int
    last: int
    count: int
    apart_ms: int
    """How far their timestamps are ahead of the clock, or (negative) the first one's behind it."""


class Read(NamedTuple):
    """The verdict on the first `len(clock_ms)` of the given timestamps; the others are to be given again."""

    clock_ms: Ints
    is_wrong: Bools
    is_behind: Bools
    wrong: tuple[Wrong, ...]


class Clock:
    """Before the first record `now_ms` is NONE."""

    __slots__ = ("_is_behind", "now_ms")

    def __init__(self) -> None:
        self.now_ms = NONE
        self._is_behind = False

    def read(self, timestamps_ms: Ints, *, is_end: bool) -> Read:
        """The clock at each of the next records, as far as it is certain. `is_end`: the log has no more."""
        size = len(timestamps_ms)
        if size == 0:
            return Read(timestamps_ms, np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_), ())
        before = timestamps_ms[0] if self.now_ms == NONE else self.now_ms
        clock = np.maximum(np.maximum.accumulate(timestamps_ms), before)
        is_behind = timestamps_ms < clock - CLOCK_JUMP_MAX_MS
        if is_behind.any():
            return self._contested(timestamps_ms, is_end=is_end)
        if not is_end:
            size = self._certain(clock, size)
        if size:
            self.now_ms, self._is_behind = int(clock[size - 1]), False
        return Read(clock[:size], is_behind[:size], is_behind[:size], ())

    def _certain(self, clock: Ints, size: int) -> int:
        """Up to the first jump that has not got all its witnesses."""
        start = max(0, size - CLOCK_WITNESSES)
        steps = np.diff(clock[start:], prepend=clock[start - 1] if start else self.now_ms)
        jumps = steps > CLOCK_JUMP_MAX_MS
        if start == 0 and self.now_ms == NONE:
            jumps[0] = True
        return start + int(np.argmax(jumps)) if jumps.any() else size

    def _contested(self, timestamps_ms: Ints, *, is_end: bool) -> Read:
        """Some record is far behind another: go from jump to jump."""
        size, at = len(timestamps_ms), 0
        clock = np.empty(size, dtype=np.int64)
        ahead = np.zeros(size, dtype=np.bool_)
        found: list[Wrong] = []
        now = self.now_ms
        while at < size:
            jump, rising = _next_jump(timestamps_ms, at, now)
            clock[at:jump] = rising
            now = int(rising[-1]) if len(rising) else now
            if jump == size:
                at = size
                break
            end = _verdict(timestamps_ms, jump, now)
            if end == _UNDECIDED and not is_end:
                at = jump
                break
            if end in (_BORNE_OUT, _UNDECIDED):
                now = int(timestamps_ms[jump])
                clock[jump], at = now, jump + 1
                continue
            span = slice(jump, end)
            mine = timestamps_ms[span] >= timestamps_ms[jump] - CLOCK_JUMP_MAX_MS
            if now == NONE:
                now = int(timestamps_ms[span][~mine][0])
            sound = np.where(mine, now, timestamps_ms[span])
            clock[span] = np.maximum(np.maximum.accumulate(sound), now)
            ahead[span] = mine
            rows = np.flatnonzero(mine) + jump
            apart = int(timestamps_ms[jump]) - int(clock[jump])
            found.append(Wrong(first=int(rows[0]), last=int(rows[-1]), count=len(rows), apart_ms=apart))
            now, at = int(clock[end - 1]), end
        clock, ahead, stamps = clock[:at], ahead[:at], timestamps_ms[:at]
        behind = ~ahead & (stamps < clock - CLOCK_JUMP_MAX_MS)
        found += self._behind(stamps, clock, behind)
        self.now_ms = now
        return Read(clock, ahead | behind, behind, tuple(sorted(found, key=lambda one: one.first)))

    def _behind(self, stamps: Ints, clock: Ints, behind: Bools) -> list[Wrong]:
        """One for the beginning of each run of records that are behind."""
        if len(behind) == 0:
            return []
        before = np.concatenate([[self._is_behind], behind[:-1]])
        self._is_behind = bool(behind[-1])
        starts = np.flatnonzero(behind & ~before).tolist()
        return [Wrong(first=at, last=at, count=1, apart_ms=int(stamps[at] - clock[at])) for at in starts]


_BORNE_OUT: Final = -1
_UNDECIDED: Final = -2


def _next_jump(timestamps_ms: Ints, start: int, now: int) -> tuple[int, Ints]:
    """(place of the first jump from `start` on, or the end; the clock up to there)."""
    if now == NONE:
        return start, timestamps_ms[:0]
    size = len(timestamps_ms)
    width = CLOCK_WITNESSES
    while True:
        end = min(size, start + width)
        rising = np.maximum(np.maximum.accumulate(timestamps_ms[start:end]), now)
        jumps = np.diff(rising, prepend=now) > CLOCK_JUMP_MAX_MS
        if jumps.any():
            place = int(np.argmax(jumps))
            return start + place, rising[:place]
        if end == size:
            return size, rising
        width *= 4


def _verdict(timestamps_ms: Ints, jump: int, now: int) -> int:
    """The place behind the records that disprove the jump; or that it is borne out, or not decided yet."""
    window = timestamps_ms[jump : jump + 2 * CLOCK_WITNESSES]
    stays = window >= timestamps_ms[jump] - CLOCK_JUMP_MAX_MS
    back = ~stays if now == NONE else ~stays & (window >= now - CLOCK_JUMP_MAX_MS)
    staying, gone = np.cumsum(stays), np.cumsum(back)
    lost = gone >= staying
    won = staying > CLOCK_WITNESSES
    first_lost = int(np.argmax(lost)) if lost.any() else len(window)
    first_won = int(np.argmax(won)) if won.any() else len(window)
    if first_lost < first_won:
        return jump + first_lost + 1
    if first_won < len(window) or len(window) == 2 * CLOCK_WITNESSES:
        return _BORNE_OUT
    return _UNDECIDED


def minutes(times_ms: Ints) -> Ints:
    """Start of the minute of each time."""
    return times_ms - times_ms % MINUTE_MS


def with_clock(record: Mapping[str, Any], clock_ms: int) -> dict[str, Any]:
    """A decoded group record whose own time is wrong, with the clock's."""
    return {**record, _CLOCK: clock_ms}


def is_wrong(record: Mapping[str, Any]) -> bool:
    """Is the record's own time wrong?"""
    return _CLOCK in record


def time_of(record: Mapping[str, Any]) -> int:
    """The time of a decoded group record: its own, or the clock's if that is wrong."""
    found: int = record.get(_CLOCK, record["append_timestamp_ms"])
    return found
