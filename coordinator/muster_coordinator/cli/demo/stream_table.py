"""What Redis says of a topic's streams, beside what `muster group lag` says of the group that reads them.

Offsets of such a topic are sparse (`milliseconds << 10 | sequence`), so their difference is no number of records: the
sum of a lag is shown with the records that are really there after the committed offsets, and the lag of a member as the
time between the last entry and the commit. Pure; what this does not do: ask anybody (`redis_store`).
"""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from muster_coordinator.cli.demo.stores import Progress
from muster_coordinator.cli.group_view import PartitionLag
from muster_coordinator.cli.output import Column, table
from muster_coordinator.limits import SEQUENCE_BITS_DEFAULT
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets

OFFSETS = Offsets.of_bits(SEQUENCE_BITS_DEFAULT)

_COLUMNS = (
    Column("partition", "P", numeric=True),
    Column("length", "LENGTH", numeric=True),
    Column("last", "LAST-GENERATED-ID", numeric=True),
    Column("committed", "CURRENT-OFFSET", numeric=True),
    Column("end", "LOG-END-OFFSET", numeric=True),
    Column("lag", "LAG", numeric=True),
)


class StreamSight(NamedTuple):
    """XINFO STREAM of one partition, and how many entries there are from the committed offset on."""

    length: int
    last: EntryId
    groups: int
    """Consumer groups of Redis."""
    behind: int
    """Entries that have the offsets of the group's lag."""


class StreamRow(NamedTuple):
    """One partition, as both see it."""

    stream: StreamSight
    group: PartitionLag

    def ends_agree(self) -> bool:
        """Whether the log end offset comes right after the last id of the stream."""
        return self.group.end == OFFSETS.end_after(self.stream.last, "the stream")


def stream_table(rows: Sequence[StreamRow], group: str) -> list[str]:
    """Both, side by side, in 80 columns; what the figures mean is below."""
    cells = [
        {
            "partition": row.group.partition.partition,
            "length": row.stream.length,
            "last": row.stream.last.text,
            "committed": row.group.committed,
            "end": row.group.end,
            "lag": row.group.lag,
        }
        for row in rows
    ]
    lines = table(cells, _COLUMNS).splitlines()
    left, right = lines[0].index("LENGTH"), lines[0].index("CURRENT-OFFSET")
    told = "redis-cli XINFO STREAM".ljust(right - left)
    return [f"{' ' * left}{told}muster group lag {group}", *lines, *_remarks(rows)]


def _remarks(rows: Sequence[StreamRow]) -> list[str]:
    known = [row for row in rows if isinstance(row.group.lag, int)]
    lag = sum(row.group.lag for row in known if isinstance(row.group.lag, int))
    records = sum(row.stream.behind for row in known)
    of_all = "" if len(known) == len(rows) else f" in {len(known)} of {len(rows)} partitions"
    groups = sum(row.stream.groups for row in rows)
    return [
        f"lag in all: {lag:,} offsets{of_all}, {records:,} records",
        f"(an offset is MILLISECONDS << {OFFSETS.bits} | SEQUENCE of an entry's id: they are sparse)",
        f"XINFO GROUPS: {groups} groups in {len(rows)} streams; committed offsets are in Muster's own log",
    ]


def committed_until(offsets: Sequence[int]) -> str:
    """What Redis took before this time of day is committed, in all partitions of these offsets."""
    ms = OFFSETS.id_of(min(offsets)).milliseconds
    return time.strftime("to %H:%M:%S", time.localtime(ms / 1_000))


def lag_in_time(partitions: Iterable[Progress]) -> str | None:
    """The sum in offsets, as tools show it, and the time between last entry and commit where that is longest. None
    while a partition has no commit: nothing says then how far its first record is from offset 0."""
    lags = []
    for end, committed in partitions:
        if committed is None:
            return None
        lags.append(max(end - committed, 0))
    return f"{sum(lags):,} ({(max(lags) >> OFFSETS.bits) / 1_000:.1f} s)"
