"""How old the oldest record is that a group has not committed yet, in seconds. Pure.

Kafka tells offsets, not times. So each look remembers where a partition ended; the first record behind a committed
offset came after the last look at which the partition ended no further than that offset. Seconds are counted from that
look, hence too many by one look at most. Behind since before the first look: from the first look, hence at least so
many. The group's figure is that of its slowest partition.

Each partition keeps a few ends; when they are too many, every second one goes, so that old ones are coarser.
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
    """The first and the last look at which the partition ended here."""


@dataclass(slots=True)
class LagHistory:
    """Of one group. `observe` at each look at it."""

    _ends: dict[Partition, list[_End]] = field(default_factory=dict)

    def observe(self, partitions: Iterable[PartitionView], now_ms: int, *, partitions_max: int) -> int | None:
        """Milliseconds behind; None: unknown, nothing is committed, or more than `partitions_max`."""
        looked = {(one.topic, one.partition): one for one in partitions}
        if len(looked) > partitions_max or any(one.log_end is None for one in looked.values()):
            self._ends.clear()
            return None
        for gone in self._ends.keys() - looked.keys():
            del self._ends[gone]
        ages = [age for key, one in looked.items() if (age := self._age_ms(key, one, now_ms)) is not None]
        return max(ages, default=None)

    def __len__(self) -> int:
        """Partitions that are remembered."""
        return len(self._ends)

    def _age_ms(self, key: Partition, one: PartitionView, now_ms: int) -> int | None:
        assert one.log_end is not None
        ends = self._ends.setdefault(key, [])
        _note(ends, one.log_end, now_ms)
        if one.committed is None:
            return None
        if one.committed >= one.log_end:
            return 0
        reached = [known.last_ms for known in ends if known.end <= one.committed]
        return now_ms - (reached[-1] if reached else ends[0].first_ms)


def _note(ends: list[_End], end: int, now_ms: int) -> None:
    if ends and ends[-1].end > end:
        ends.clear()  # the topic was made anew
    if ends and ends[-1].end == end:
        ends[-1].last_ms = now_ms
        return
    ends.append(_End(end=end, first_ms=now_ms, last_ms=now_ms))
    if len(ends) > LAG_ENDS_MAX:
        del ends[1::2]  # the first and the newest stay
