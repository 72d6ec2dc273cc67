"""Appends of a partition as the hash beside its stream names them: "EPOCH NUMBER ENTRY".

Problem: whoever reads must know which of the entries are of an append that is not confirmed yet. Mechanism: an owner
gives each append the next number, and epochs of owners rise, so appends are in one order by both, and "confirmed up to
here" is one pair of numbers. What this does not do: know what is confirmed (`replica.partitions.redis_proofs`).
"""

import re
from typing import NamedTuple

from muster_coordinator.redis_streams.entry_ids import EntryId

_WRITTEN = re.compile(rb"(\d{1,20}) (\d{1,20}) (\d{1,20}-\d{1,20})")


class AppendId(NamedTuple):
    """The epoch of an owner, and the number of an append in it. The later one is the greater."""

    epoch: int
    number: int


NO_APPEND = AppendId(-1, -1)
"""Before all of them."""
ALL_APPENDS = AppendId(2**53 - 1, 2**53 - 1)
"""Behind all of them, and still a number of Lua."""


def parse_append(text: bytes) -> tuple[AppendId, EntryId]:
    """Which append, and an entry, as `append.lua` writes them. ValueError for anything else."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:100]!r} names no append")
    epoch, number, entry = found.groups()
    return AppendId(int(epoch), int(number)), EntryId.parse(entry)
