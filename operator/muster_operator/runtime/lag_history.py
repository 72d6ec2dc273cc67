"""Lag in seconds: the age of the oldest record that a group has not committed. Pure.

Problem: Kafka gives offsets, not times. Mechanism: each pass remembers the log end offset of each partition. The first
record behind a committed offset was appended after the last pass in which the log end offset was no higher than it;
seconds count from that pass, so the result is too high by one interval between passes at most. If the group was already
behind in the first pass, seconds count from there and are a lower bound. The group's value is that of its slowest
partition.

Each partition keeps a few log end offsets; when there are too many, every second one is dropped, so that old ones are
coarser.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster_operator.limits import LAG_ENDS_MAX
from muster_operator.world.group import PartitionView

Partition = tuple[str, int]


@dataclass(slots=True)
class _End:
    end: int
    first_ms: int
    last_ms: int
    """The times of the first and the last pass with this log end offset."""


@dataclass(slots=True)
class LagHistory:
    """The history of one group; call `observe` in each pass."""

    _ends: dict[Partition, list[_End]] = field(default_factory=dict)

    def observe(self, partitions: Iterable[PartitionView], now_ms: int, *, partitions_max: int) -> int | None:
        """Milliseconds behind; None: unknown, nothing committed, or more than `partitions_max` partitions."""
        looked = {(one.topic, one.partition): one for one in partitions}
        known = {key: (one.committed, one.log_end) for key, one in looked.items() if one.log_end is not None}
        if len(looked) > partitions_max or len(known) < len(looked):
            self._ends.clear()
            return None
        for gone in self._ends.keys() - known.keys():
            del self._ends[gone]
        ages = [self._age_ms(key, committed, log_end, now_ms) for key, (committed, log_end) in known.items()]
        return max((age for age in ages if age is not None), default=None)

    def __len__(self) -> int:
        """Number of remembered partitions."""
        return len(self._ends)

    def _age_ms(self, key: Partition, committed: int | None, log_end: int, now_ms: int) -> int | None:
        ends = self._ends.setdefault(key, [])
        _note(ends, log_end, now_ms)
        if committed is None:
            return None
        if committed >= log_end:
            return 0
        reached = [known.last_ms for known in ends if known.end <= committed]
        return now_ms - (reached[-1] if reached else ends[0].first_ms)


def _note(ends: list[_End], end: int, now_ms: int) -> None:
    if ends and ends[-1].end > end:
        ends.clear()  # the topic was created again
    if ends and ends[-1].end == end:
        ends[-1].last_ms = now_ms
        return
    ends.append(_End(end=end, first_ms=now_ms, last_ms=now_ms))
    if len(ends) > LAG_ENDS_MAX:
        del ends[1::2]  # the first and the newest stay
