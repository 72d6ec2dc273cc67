"""The plan of taking a group over from Redis: computed completely before anything is changed.

Problem: Redis has a set of entries that were delivered and not acknowledged, and the id up to which it has delivered;
Kafka has one offset, that of the next record to read. Mechanism: the lowest pending entry, or else what comes after the
last delivered one, so nothing that the group has not acknowledged is passed over, and what it has acknowledged behind
that entry is read again. What this does not do: read either of them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.offsets import OffsetOrUnknown
from muster_coordinator.groups.assignors.membership import TopicPartition
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets
from muster_coordinator.redis_streams.errors import EntryBeyondOffsets

ZERO = EntryId(0, 0)


class RedisPosition(NamedTuple):
    """Where a consumer group of Redis is in one stream."""

    last_delivered: EntryId
    pending_entries: int
    """Entries that were delivered and not acknowledged."""
    lowest_pending_entry: EntryId | None
    """None: there is none."""


class Taken(NamedTuple):
    """One partition's offset, from the group in its stream."""

    partition: TopicPartition
    stream: str
    position: RedisPosition | None
    """None: the stream has no such group."""
    current: int | None
    """The offset that is committed in Kafka."""
    new: int | None


def next_offset(position: RedisPosition, offsets: Offsets, stream: str) -> int:
    """The offset of the first entry that the group has not done with. Raises EntryBeyondOffsets.

    A last delivered id without an offset has that of the next millisecond: a reader from there meets what comes behind
    the id, also entries without an offset, of which it is told (`redis_streams.owned`).
    """
    last, lowest = position.last_delivered, position.lowest_pending_entry
    if last.milliseconds >= offsets.milliseconds_max:
        offsets.offset_of(EntryId(last.milliseconds + 1, 0), stream)  # raises: nothing comes after it
    after = 0 if last == ZERO else offsets.first_of_next(last, 0)
    # Both were read one after the other: an entry may have been delivered between.
    return after if lowest is None else min(after, offsets.offset_of(lowest, stream))


def plan_import(
    found: Mapping[TopicPartition, tuple[str, RedisPosition | None]],
    committed: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, OffsetOrUnknown],
    ends: Mapping[TopicPartition, OffsetOrUnknown],
    offsets: Mapping[str, Offsets],
) -> list[Taken]:
    """What each partition gets, by its topic's `offsets`, limited to its log: below its start there is nothing left,
    and beyond its end a reader would be sent elsewhere. Raises CliError."""
    plan = []
    for partition, (stream, position) in sorted(found.items()):
        current = committed.get(partition)
        if position is None:
            plan.append(Taken(partition, stream, None, current, None))
            continue
        start, end = starts[partition], ends[partition]
        if not isinstance(start, int) or not isinstance(end, int):
            where = f"{partition.topic}-{partition.partition}"
            raise CliError(Exit.UNREACHABLE, f"{where}: log start or end is unknown; no offset was imported")
        try:
            wanted = next_offset(position, offsets[partition.topic], stream)
        except EntryBeyondOffsets as error:
            raise CliError(Exit.REFUSED, f"no offset was imported: {error}") from error
        plan.append(Taken(partition, stream, position, current, min(max(wanted, start), end)))
    return plan


def parse_stream(text: str) -> tuple[str, TopicPartition]:
    """`KEY=TOPIC:PARTITION`: a stream of any name, and the partition whose entries have its ids. Raises CliError."""
    stream, equals, place = text.rpartition("=")
    topic, _, number = place.rpartition(":")
    if not (stream and equals and topic and number.isascii() and number.isdigit()):
        raise CliError(Exit.USAGE, f"{text!r} is not KEY=TOPIC:PARTITION")
    return stream, TopicPartition(topic, int(number))
