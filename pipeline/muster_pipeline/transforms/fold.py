"""All tables of one log partition in one pass: chunks of decoded records in, rows of every table out.

It holds the state of the partition's keys and groups, never the log: memory is bounded by the limits and the chunk
size. Its rows do not depend on how the log was cut into chunks (asserted by tests), so a log read from files, fetched
live, or read back from bronze gives the same silver and gold.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muster_pipeline.decode.generations import Decoded
from muster_pipeline.decode.origin import Damage, of_finding
from muster_pipeline.decode.unknown import Unknown
from muster_pipeline.schemas.consumer_records import KINDS
from muster_pipeline.schemas.records import GROUP_METADATA_TYPE, RECORDS
from muster_pipeline.transforms import limits, stalls
from muster_pipeline.transforms.arrays import NONE, Ints, ints
from muster_pipeline.transforms.classic_groups import ClassicFold
from muster_pipeline.transforms.clock import Clock, Read, Wrong, minutes, with_clock
from muster_pipeline.transforms.commit_window import CommitWindow
from muster_pipeline.transforms.commits import CommitFold, Effects
from muster_pipeline.transforms.consumer_groups import ConsumerFold
from muster_pipeline.transforms.expiry import UNKNOWN, GroupNow, classic_now, consumer_now, expiry_table
from muster_pipeline.transforms.group_records import NO_RECORDS, GroupRecords
from muster_pipeline.transforms.group_rows import GroupRows
from muster_pipeline.transforms.key_state import KeyState
from muster_pipeline.transforms.keys import KeyNumbers
from muster_pipeline.transforms.lag import LagFold
from muster_pipeline.transforms.log_end_offsets import LogEndSamples
from muster_pipeline.transforms.partition_status import Known, status_table
from muster_pipeline.transforms.rate import Groups, RateFold
from muster_pipeline.transforms.settings import FoldSettings
from muster_pipeline.transforms.topic_names import TopicNames
from muster_pipeline.transforms.wrong_times import WrongTimes

Decode = Callable[[pa.Table], Decoded]
"""From rows of `records` to decoded group records; pure."""
DecodeUnknown = Callable[[pa.Table], tuple[Unknown, ...]]
"""From rows of `records` to findings of types that are not known; pure."""


def _none_unknown(records: pa.Table) -> tuple[Unknown, ...]:
    del records
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecoders:
    """The decoders of group records, passed in so that the fold depends on schemas and not on byte formats."""

    generations: Decode
    consumer_groups: Decode
    unknown: DecodeUnknown = _none_unknown


class Fed(NamedTuple):
    """The result of one chunk: rows by table name, and group records whose value could not be read."""

    tables: dict[str, pa.Table]
    damages: tuple[Damage, ...]


class PartitionFold:
    """The fold over one log partition. `feed` every chunk in log order, then `finish` once."""

    def __init__(
        self, log_partition: int, settings: FoldSettings, log_ends: LogEndSamples, decoders: GroupDecoders
    ) -> None:
        self._log_partition = log_partition
        self._settings = settings
        self._log_ends = log_ends
        self._decoders = decoders
        self._clock = Clock()
        self._keys = KeyNumbers()
        self._state = KeyState()
        self._commits = CommitFold(self._keys)
        self._rate = RateFold()
        self._wrong = WrongTimes()
        self._lag = LagFold(log_ends, self._keys, self._wrong)
        self._stalls = stalls.StallFold(settings.stall_min_ms)
        self._window = CommitWindow()
        self._rows = GroupRows(settings.cluster, log_partition)
        self._names = TopicNames()
        self._classic = ClassicFold(self._rows)
        self._consumer = ConsumerFold(self._rows, self._names)
        self._held = RECORDS.empty_table()
        """Rows after a jump of the clock that nothing bears out yet; bounded by limits.CLOCK_WITNESSES."""
        self._held_groups = NO_RECORDS
        self._unread: dict[str, int] = {}
        """Group -> log offset of its last record that could not be read, since it was told whole or deleted."""
        self.findings: list[Damage] = []
        """What was wrong with clocks; whole after `finish`."""

    def feed(self, records: pa.Table) -> Fed:
        """Rows of `records` in log order, which directly follow those of the previous chunk. Raises LimitReached."""
        generations = self._decoders.generations(records)
        consumer_groups = self._decoders.consumer_groups(records)
        unknown = self._decoders.unknown(records)
        strange = [(one.damage.first_offset or 0, one.group_id) for one in unknown if one.group_id is not None]
        groups = GroupRecords(
            generations=generations.rows.to_pylist(),
            consumer_groups=consumer_groups.rows.to_pylist(),
            unread=[*generations.unread, *consumer_groups.unread, *strange],
        )
        found = (*generations.damages, *consumer_groups.damages, *(one.damage for one in unknown))
        damages = sorted(found, key=lambda one: one.first_offset or 0)
        return Fed(self._timed(records, groups, is_end=False), tuple(damages))

    def _timed(self, records: pa.Table, groups: GroupRecords, *, is_end: bool) -> dict[str, pa.Table]:
        """Fold the rows of which the clock is certain, and hold the others back."""
        if self._held.num_rows:
            records = pa.concat_tables([self._held, records.select(self._held.column_names)])
            groups = self._held_groups.joined(groups)
        read = self._clock.read(ints(records["append_timestamp_ms"]), is_end=is_end)
        ready = len(read.clock_ms)
        self._held, self._held_groups = records.slice(ready), NO_RECORDS
        if ready < records.num_rows:
            groups, self._held_groups = groups.until(records["log_offset"][ready].as_py())
            records = records.slice(0, ready)
        log_offsets = ints(records["log_offset"])
        if read.is_wrong.any():
            groups = self._note(read, log_offsets, groups)
        return self._fold(records, log_offsets, read.clock_ms, groups)

    def _note(self, read: Read, log_offsets: Ints, groups: GroupRecords) -> GroupRecords:
        """Keep what is wrong with clocks; the group records with the clock's time where their own is wrong."""
        for one in read.wrong:
            if len(self.findings) < limits.CLOCK_FINDINGS_MAX:
                self.findings.append(_finding(one, log_offsets))
            if one.apart_ms > 0:
                self._wrong.raised_ms.add(int(read.clock_ms[one.first]), int(read.clock_ms[one.last + 1]))
        rows = np.flatnonzero(read.is_wrong)
        clock = dict(zip(log_offsets[rows].tolist(), read.clock_ms[rows].tolist(), strict=True))
        for at in clock:
            self._wrong.offsets.add(at, at)
        behind = rows[read.is_behind[rows]]
        for at_ms in np.unique(read.clock_ms[behind]).tolist():
            self._wrong.behind_ms.add(at_ms, at_ms)

        def timed(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [with_clock(one, clock[one["log_offset"]]) if one["log_offset"] in clock else one for one in records]

        return GroupRecords(
            generations=timed(groups.generations),
            consumer_groups=timed(groups.consumer_groups),
            unread=groups.unread,
        )

    def _fold(self, records: pa.Table, log_offsets: Ints, clock_ms: Ints, groups: GroupRecords) -> dict[str, pa.Table]:
        silver, effects = self._commits.feed(records, clock_ms)
        made = {"commits": silver}
        made |= self._measured(effects, log_offsets, clock_ms)
        self._names.learn_commits(records)
        self._classic.feed(groups.generations)
        self._consumer.feed(groups.consumer_groups)
        self._unread |= {group_id: at for at, group_id in groups.unread}
        for record in (*groups.generations, *groups.consumer_groups) if self._unread else ():
            if self._unread.get(record["group_id"], record["log_offset"]) < record["log_offset"] and _is_whole(record):
                del self._unread[record["group_id"]]
        return made | self._rows.tables()

    def settle(self) -> dict[str, pa.Table]:
        """Rows that samples newer than the last chunk have decided."""
        return self._timed(self._held.slice(0, 0), NO_RECORDS, is_end=False)

    @property
    def frontier_ms(self) -> int:
        """Rows were told as if all samples of log ends up to this time were there."""
        return self._lag.frontier_ms

    @property
    def open_points(self) -> int:
        """Rows of lag that samples to come will decide."""
        return self._lag.open_points

    def finish(self) -> dict[str, pa.Table]:
        """The rows that only the end of the log decides: the open minute, open stalls, open transactions, expiry."""
        made = self._timed(self._held.slice(0, 0), NO_RECORDS, is_end=True)
        last = self._ended()
        return made | {
            name: pa.concat_tables([made[name], rows]) if name in made else rows for name, rows in last.items()
        }

    def _ended(self) -> dict[str, pa.Table]:
        size = len(self._keys)
        self._lag.take_rest(self._state.offset.ensure(size))
        found = self._stalls.finish(self._state, size, self._clock.now_ms)
        groups = {name: consumer_now(group) for name, group in self._consumer.groups.items()}
        groups |= {name: classic_now(group) for name, group in self._classic.groups.items()}
        groups |= dict.fromkeys(self._unread, UNKNOWN)
        return {
            "commits": self._commits.finish(),
            **self._closed(self._rate.finish(), None),
            "stalls": self._stall_rows(found),
            **self._at_the_end(groups),
        }

    def _at_the_end(self, groups: dict[str, GroupNow]) -> dict[str, pa.Table]:
        """Rows of each committed offset, some keys at a time."""
        size = len(self._keys)
        alive = np.flatnonzero(self._state.offset.ensure(size)[:size] != NONE)
        pending = self._commits.pending_keys()
        parts = []
        for begin in range(0, max(1, len(alive)), limits.KEYS_AT_ONCE):
            keys = alive[begin : begin + limits.KEYS_AT_ONCE]
            expiry = expiry_table(keys, self._keys, self._state, groups, pending, self._settings, self._log_partition)
            parts.append((expiry, self._status(keys, expiry)))
        expiries, statuses = zip(*parts, strict=True)
        return {"expiry": pa.concat_tables(expiries), "partition_status": pa.concat_tables(statuses)}

    def _measured(self, effects: Effects, log_offsets: Ints, clock_ms: Ints) -> dict[str, pa.Table]:
        size = len(self._keys)
        steps = self._state.steps(effects, size)
        groups = self._rate.feed(steps, log_offsets, clock_ms)
        found = self._stalls.feed(steps, size)
        self._window.feed(steps, size)
        if self._clock.now_ms != NONE:  # else there is nothing to tell
            self._lag.feed(steps, self._state.offset.ensure(size), self._clock.now_ms)
        self._state.absorb(effects, steps, size)
        now = np.array([self._clock.now_ms], dtype=np.int64)
        open_minute = int(minutes(now)[0]) if self._clock.now_ms != NONE else NONE
        decided = self._stalls.decided(found, self._lag.frontier_ms)
        return {**self._closed(groups, open_minute), "stalls": self._stall_rows(decided)}

    def _closed(self, groups: Groups, open_minute: int | None) -> dict[str, pa.Table]:
        cluster, log_partition = self._settings.cluster, self._log_partition
        return {
            "commit_rate": self._rate.render(groups, self._keys, cluster, log_partition),
            "lag": self._lag.render(self._lag.close(groups, open_minute), cluster, log_partition),
        }

    def _stall_rows(self, found: stalls.Found) -> pa.Table:
        numbers = np.array([self._lag.sample_number(key) for key in found["key"].tolist()], dtype=np.int64)
        made = stalls.render(found, self._keys, self._log_ends, numbers, self._settings.cluster, self._log_partition)
        is_wrong = self._wrong.offsets.hold(found["started_at"]) | self._wrong.offsets.hold(found["ended_at"])
        return stalls.without_evidence(made, is_wrong) if is_wrong.any() else made

    def _status(self, keys: Ints, expiry: pa.Table) -> pa.Table:
        """`expiry`: the rows of these keys."""
        known = Known(
            expiry,
            self._window.of(keys),
            self._lag.sample_numbers(keys),
            self._state.clock_ms.ensure(len(self._keys))[keys],
            self._stalls.moved_ms(keys),
        )
        return status_table(known, self._log_ends, self._wrong, self._clock.now_ms)


def _is_whole(record: dict[str, Any]) -> bool:
    """Does the record tell all of its group, so that what could not be read before it does not matter any more?"""
    if record["record_type"] == GROUP_METADATA_TYPE:
        return True
    return KINDS.get(record["record_type"]) == "group_epoch" and record["is_tombstone"]


def _finding(one: Wrong, log_offsets: Ints) -> Damage:
    first, last = int(log_offsets[one.first]), int(log_offsets[one.last])
    seconds = abs(one.apart_ms) / 1000
    if one.apart_ms > 0:
        text = f"{one.count} records from offset {first} to {last} are {seconds:,.0f} s ahead of those around them"
        return of_finding("clock", f"{text}: they have the time of the record before", (first, last))
    text = f"from offset {first} on, records are {seconds:,.0f} s behind the log partition's clock"
    return of_finding("clock", f"{text}, which does not go back: some coordinator's clock was wrong", (first, last))
