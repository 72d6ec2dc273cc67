"""Lag as a number of records: what `behind.lua` is called with, and what its answer says.

Problem: offsets in Redis have gaps, so the end minus a committed offset is no number of records, and counting all
that lies between would hold the server. Mechanism: the script counts up to a budget; of what is further it tells how
many entries the stream has, and where it begins, ends and was left, and the rest is shared out by time: the entries
that were not counted lie before the commit or behind the last one counted, in the ratio of those two spans. Each number
says by a word how good it is. What this does not do: decide when (`replica.partitions.redis_lags`), or call an unknown
number 0.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets, last_delivered, offset_at
from muster_coordinator.redis_streams.server import Answer, Failure


class Quality(StrEnum):
    """How good a number of records is; the same words in metrics and commands."""

    EXACT = "exact"
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"
    """There is no number: Redis does not answer, the stream is not this topic's, nothing is committed, or it is beyond
    the end."""


class Records(NamedTuple):
    """Records behind a committed offset; no number if it is unknown."""

    number: int | None
    quality: Quality
    looked_at: int = 0
    """Entries that Redis went through for it."""


UNKNOWN = Records(None, Quality.UNKNOWN)


def behind_arguments(cluster: str, incarnation: int | None, committed: int, offsets: Offsets) -> list[bytes]:
    """ARGV of `behind.lua`. `incarnation`: the number of the partition's Raft group; None: the caller does not know
    it."""
    return [
        cluster.encode(),
        b"" if incarnation is None else b"%d" % incarnation,
        last_delivered(committed, offsets),
        b"%d" % limits.LAG_ENTRIES_COUNTED_MAX,
        b"%d" % limits.LAG_BYTES_COUNTED_MAX,
    ]


def records_behind(answer: Answer, committed: int, offsets: Offsets) -> Records:
    """What an answer of `behind.lua`, or a failure, says of the records behind this offset."""
    if isinstance(answer, Failure) or answer[0] != b"OK":
        return UNKNOWN
    counted, reached, length = answer[1:4]
    if not reached:
        return Records(counted, Quality.EXACT, 0 if counted == length else counted)
    rest = _rest(answer, committed, offsets)
    return Records(counted + rest, Quality.ESTIMATED, counted)


def _rest(answer: Sequence[Any], committed: int, offsets: Offsets) -> int:
    """An estimate of the entries behind the last one counted. There is one at least, and one that is not: the first
    entry of the stream, else all would have been counted."""
    _, counted, reached, length, first, last = answer
    passed, left = (offset_at(EntryId.parse(one), offsets) for one in (first, reached))
    before = max(0, committed - passed)
    behind = max(0, offset_at(EntryId.parse(last), offsets) - left)
    uncounted: int = length - counted
    share = uncounted * behind // (before + behind) if before + behind else uncounted // 2
    return max(1, min(share, uncounted - 1))
