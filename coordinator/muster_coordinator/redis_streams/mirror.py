"""Committed offsets as consumer groups of Redis: what `mirror.lua` and `mirrored.lua` are called with, and answer.

Problem: who looks at a stream by XINFO GROUPS sees nothing of Kafka's groups; and what is shown there may be set late,
by a coordinator that was deposed, or be somebody else's. Mechanism: the last delivered id is the one before the
committed offset; the script notes what it made and by which call, refuses an earlier call, and touches nothing else.
What this does not do: decide when (`replica.partitions.redis_mirror`), or give anything to readers: no entry is ever
pending in such a group.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from muster_coordinator.ids import GroupNo
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.entry_ids import Offsets, last_delivered
from muster_coordinator.redis_streams.owned import kept

_NOTE = b"g:"
_SHARD_DIGITS_MAX = 10
"""Of the number of a Raft group. The hash is another server's, where anybody with its password may write."""


class Caller(NamedTuple):
    """By what right a group is shown."""

    cluster: str
    incarnation: int
    """Of the topic, as in `owned.Claim`."""
    shard: GroupNo
    """The Raft group of the coordinator: a consumer group has the same one for good."""
    term: int
    number: int
    """Of this call in that term."""


def mirror_arguments(
    caller: Caller, group: str, committed: int | None, offsets: Offsets, *, keep: bool = False
) -> list[bytes]:
    """ARGV of `mirror.lua`; None: the group has no offset, and is shown no more. `keep`: as in `owned.Claim`."""
    return [
        caller.cluster.encode(),
        *(b"%d" % number for number in caller[1:]),
        group.encode(),
        b"" if committed is None else last_delivered(committed, offsets),
        b"%d" % limits.MIRROR_ENTRIES_COUNTED_MAX,
        b"%d" % limits.MIRROR_BYTES_COUNTED_MAX,
        *kept(keep=keep),
    ]


def mirrored_arguments(cluster: str, incarnation: int, cursor: bytes) -> list[bytes]:
    """ARGV of `mirrored.lua`."""
    return [cluster.encode(), b"%d" % incarnation, cursor, b"%d" % limits.MIRROR_LISTED_MAX]


def mirrored(fields: Sequence[Any]) -> Iterator[tuple[str, GroupNo]]:
    """(group, its coordinator's Raft group) of each note; what is no note of ours is passed over."""
    for name, note in zip(fields[::2], fields[1::2], strict=True):
        shard, _, rest = note.partition(b" ")
        try:
            group = name.removeprefix(_NOTE).decode()
        except UnicodeDecodeError:
            continue
        if name.startswith(_NOTE) and shard.isdigit() and len(shard) <= _SHARD_DIGITS_MAX and rest:
            yield group, GroupNo(int(shard))
