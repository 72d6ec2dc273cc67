"""What an owner asks of its partition's stream, as arguments of scripts, and what the answers mean.

Problem: a partition's owner must know from one answer what is there: where the log begins and ends, which entries there
are from an offset on, and whether the stream is the one that it has claimed. Mechanism: `read.lua` tells all of that of
one moment; a stream that this incarnation of the topic has claimed is the topic's, so what it does not have does not
exist. Entries are read from behind the offset before the wanted one, so that an entry without an offset is met and not
skipped. What this does not do: send anything (`server`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from muster_coordinator.redis_streams.append_ids import NO_APPEND, AppendId, parse_append
from muster_coordinator.redis_streams.entries import Told, ids_of
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets, offset_at
from muster_coordinator.redis_streams.errors import EntryBeyondOffsets

ZERO = EntryId(0, 0)
NEWEST = b"+"
"""Where a read ends that has no other end."""


class Claim(NamedTuple):
    """By what right a stream is written."""

    cluster: str
    incarnation: int
    """The number of the partition's Raft group: none is ever given twice, and a topic that is made anew has a greater
    one."""
    epoch: int
    keep: bool = False
    """The stream is somebody else's: what an earlier topic has left there is not removed."""

    def arguments(self) -> list[bytes]:
        """ARGV of `claim.lua`."""
        return [self.cluster.encode(), b"%d" % self.incarnation, b"%d" % self.epoch, *kept(keep=self.keep)]


def kept(*, keep: bool) -> list[bytes]:
    """Of ARGV of `claim.lua`, `forget.lua` and `mirror.lua`."""
    return [b"keep"] if keep else []


class Seen(NamedTuple):
    """A stream at one moment."""

    log_start: int
    end: int
    """The high watermark: what readers are told of lies before it."""
    log_end: int
    """The offset after the last entry that ever was."""
    last: EntryId
    appended: AppendId
    """The last append by an owner. Behind its entries there may be some of others."""
    proved_end: int
    """The offset after the last entry before the first one that is not proved, if that append is not: it is there too
    when what is not proved is gone, and so in range."""
    entries: Told

    @property
    def whole(self) -> bool:
        """Is nothing hidden from readers?"""
        return self.end == self.log_end


def read_arguments(
    incarnation: int, begin: bytes, entries_max: int, bytes_max: int, proved: AppendId, end: bytes = NEWEST
) -> list[bytes]:
    """ARGV of `read.lua`."""
    numbers = (b"%d" % number for number in proved)
    return [b"%d" % incarnation, begin, b"%d" % entries_max, b"%d" % bytes_max, end, *numbers]


def from_offset(offset: int, offsets: Offsets) -> bytes:
    """Where a read of this offset begins."""
    return b"-" if offset == 0 else b"(" + offsets.id_of(offset - 1).text.encode()


def from_time(timestamp_ms: int) -> bytes:
    """Where a look-up of this time begins."""
    return b"%d" % timestamp_ms


def before(offset: int, offsets: Offsets) -> bytes:
    """Where a read ends that is not to reach this offset."""
    return b"(" + offsets.id_of(offset).text.encode() if offset else b"0-0"


LAST = b"last"


def last_before(offset: int, offsets: Offsets) -> bytes:
    """Where a look-up of the last entry before this offset begins."""
    return LAST + b" " + before(offset, offsets)


def seen(answer: Sequence[Any], offsets: Offsets, stream: str) -> Seen:
    """An answer OK of `read.lua`."""
    _, last_text, kept, first_text, last_append, proved_text, entries = answer
    last = EntryId.parse(last_text)
    if last.milliseconds > offsets.milliseconds_max:
        raise EntryBeyondOffsets(f"{stream} has had entry {last.text}: no offset comes after it")
    end = _end_after(last, offsets)
    start = offset_at(EntryId.parse(kept), offsets) if kept else 0
    if first_text:
        first = EntryId.parse(first_text)
        start = max(start, end if first == ZERO else offset_at(first, offsets))
    end = max(end, start)
    appended = parse_append(last_append)[0] if last_append else NO_APPEND
    proved_end = _end_after(EntryId.parse(proved_text), offsets) if proved_text else end
    return Seen(start, end, end, last, appended, proved_end, entries)


def _end_after(last: EntryId, offsets: Offsets) -> int:
    return 0 if last == ZERO else offsets.first_of_next(last, 0)


def hidden_from(found: Seen, end: int) -> Seen:
    """With this high watermark, which is not before the log's start, and not behind its end."""
    return found._replace(end=min(max(end, found.log_start), found.log_end))


def shown(found: Seen, offsets: Offsets) -> Told:
    """The entries before the high watermark. Raises one of `NO_ENTRIES` at what is none."""
    if found.whole:
        return found.entries
    first = offsets.id_of(found.end)
    end = next((at for at, entry in ids_of(found.entries) if entry >= first), len(found.entries))
    return found.entries[:end]
