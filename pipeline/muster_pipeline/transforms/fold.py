"""All tables of one log partition in one pass: chunks of decoded records in, rows of every table out.

It holds the state of the partition's keys and groups, never the log: memory is bounded by the limits and the chunk
size. Its rows do not depend on how the log was cut into chunks (asserted by tests), so a log read from files, fetched
live, or read back from bronze gives the same silver and gold.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muster_pipeline.decode.generations import Decoded
from muster_pipeline.decode.origin import Damage
from muster_pipeline.transforms import stalls
from muster_pipeline.transforms.arrays import NONE, Ints, ints
from muster_pipeline.transforms.classic_groups import ClassicFold
from muster_pipeline.transforms.clock import Clock, minutes
from muster_pipeline.transforms.commits import CommitFold, Effects
from muster_pipeline.transforms.consumer_groups import ConsumerFold
from muster_pipeline.transforms.expiry import GroupNow, classic_now, consumer_now, expiry_table
from muster_pipeline.transforms.group_rows import GroupRows
from muster_pipeline.transforms.key_state import KeyState
from muster_pipeline.transforms.keys import KeyNumbers
from muster_pipeline.transforms.lag import LagFold
from muster_pipeline.transforms.log_end_offsets import LogEndSamples
from muster_pipeline.transforms.rate import Groups, RateFold
from muster_pipeline.transforms.settings import FoldSettings
from muster_pipeline.transforms.topic_names import TopicNames

Decode = Callable[[pa.Table], Decoded]
"""From rows of `records` to decoded group records; pure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecoders:
    """The decoders of group records, passed in so that the fold depends on schemas and not on byte formats."""

    generations: Decode
    consumer_groups: Decode


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
        self._lag = LagFold(log_ends, self._keys)
        self._stalls = stalls.StallFold(settings.stall_min_ms)
        self._rows = GroupRows(settings.cluster, log_partition)
        self._names = TopicNames()
        self._classic = ClassicFold(self._rows)
        self._consumer = ConsumerFold(self._rows, self._names)

    def feed(self, records: pa.Table) -> Fed:
        """Rows of `records` in log order, which directly follow those of the previous chunk. Raises LimitReached."""
        clock_ms = self._clock.advance(ints(records["append_timestamp_ms"]))
        silver, effects = self._commits.feed(records, clock_ms)
        made = {"commits": silver}
        made |= self._measured(effects, ints(records["log_offset"]), clock_ms)
        self._names.learn_commits(records)
        generations = self._decoders.generations(records)
        consumer_groups = self._decoders.consumer_groups(records)
        self._classic.feed(generations.rows.to_pylist())
        self._consumer.feed(consumer_groups.rows.to_pylist())
        damages = sorted((*generations.damages, *consumer_groups.damages), key=lambda one: one.first_offset or 0)
        return Fed(made | self._rows.tables(), tuple(damages))

    def finish(self) -> dict[str, pa.Table]:
        """The rows that only the end of the log decides: the open minute, open stalls, open transactions, expiry."""
        size = len(self._keys)
        self._lag.take_rest(self._state.offset.ensure(size))
        found = self._stalls.finish(self._state, size, self._clock.now_ms)
        groups = {name: consumer_now(group) for name, group in self._consumer.groups.items()}
        groups |= {name: classic_now(group) for name, group in self._classic.groups.items()}
        return {
            "commits": self._commits.finish(),
            **self._closed(self._rate.finish(), None),
            "stalls": self._stall_rows(found),
            "expiry": self._expiry(groups),
        }

    def _measured(self, effects: Effects, log_offsets: Ints, clock_ms: Ints) -> dict[str, pa.Table]:
        size = len(self._keys)
        steps = self._state.steps(effects, size)
        groups = self._rate.feed(steps, log_offsets, clock_ms)
        found = self._stalls.feed(steps, size)
        if self._clock.now_ms != NONE:
            self._lag.feed(steps, self._state.offset.ensure(size), self._clock.now_ms)
        self._state.absorb(effects, steps, size)
        now = np.array([self._clock.now_ms], dtype=np.int64)
        open_minute = int(minutes(now)[0]) if self._clock.now_ms != NONE else NONE
        return {**self._closed(groups, open_minute), "stalls": self._stall_rows(found)}

    def _closed(self, groups: Groups, open_minute: int | None) -> dict[str, pa.Table]:
        cluster, log_partition = self._settings.cluster, self._log_partition
        return {
            "commit_rate": self._rate.render(groups, self._keys, cluster, log_partition),
            "lag": self._lag.render(self._lag.close(groups, open_minute), cluster, log_partition),
        }

    def _stall_rows(self, found: stalls.Found) -> pa.Table:
        numbers = np.array([self._lag.sample_number(key) for key in found["key"].tolist()], dtype=np.int64)
        return stalls.render(found, self._keys, self._log_ends, numbers, self._settings.cluster, self._log_partition)

    def _expiry(self, groups: dict[str, GroupNow]) -> pa.Table:
        return expiry_table(
            self._keys, self._state, groups, self._commits.pending_keys(), self._settings, self._log_partition
        )
