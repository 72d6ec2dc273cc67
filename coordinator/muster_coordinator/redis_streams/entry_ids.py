"""Offsets and entry ids: `offset = milliseconds << bits | sequence`, without a table.

Problem: Kafka's clients name a record by one number of 63 bits, Redis by two of 64. Mechanism: the sequence takes the
low bits, a number that is fixed when a topic is made. Both orders agree, and the offset after the last sequence of a
millisecond is the first of the next one, so `offset + 1` is always the next id. What this does not do: skip what has no
offset. An id by somebody else beyond the bits is an error that names the entry and the cure.
"""

from typing import NamedTuple

from muster_coordinator.limits import SEQUENCE_BITS_MAX, SEQUENCE_BITS_MIN
from muster_coordinator.redis_streams.errors import EntryBeyondOffsets

OFFSET_MAX = 2**63 - 1


class EntryId(NamedTuple):
    """The two unsigned numbers of 64 bits of Redis."""

    milliseconds: int
    sequence: int

    @property
    def text(self) -> str:
        return f"{self.milliseconds}-{self.sequence}"

    @classmethod
    def parse(cls, text: bytes) -> "EntryId":
        """As Redis writes it. ValueError for anything else."""
        milliseconds, _, sequence = text.partition(b"-")
        if not (milliseconds.isdigit() and sequence.isdigit()):
            raise ValueError(f"{text!r} is no entry id")
        found = cls._make((int(milliseconds), int(sequence)))
        if found[0] >> 64 or found[1] >> 64:
            raise ValueError(f"{text!r} is no entry id")
        return found


class Offsets(NamedTuple):
    """The mapping of one topic."""

    bits: int

    @classmethod
    def of_bits(cls, bits: int) -> "Offsets":
        if not SEQUENCE_BITS_MIN <= bits <= SEQUENCE_BITS_MAX:
            raise ValueError(f"{bits} bits of a sequence: from {SEQUENCE_BITS_MIN} to {SEQUENCE_BITS_MAX}")
        return cls(bits)

    @property
    def sequence_max(self) -> int:
        return (1 << self.bits) - 1

    @property
    def milliseconds_max(self) -> int:
        return OFFSET_MAX >> self.bits

    def offset_of(self, entry: EntryId, stream: str) -> int:
        """The entry's offset; EntryBeyondOffsets if it has none. `stream` is for its text."""
        if entry.sequence > self.sequence_max:
            raise EntryBeyondOffsets(
                f"entry {entry.text} of {stream}: its sequence is above {self.sequence_max}, the most that "
                f"{self.bits} bits of an offset hold. Remove it (XDEL {stream} {entry.text}) and have its writer give "
                f"lower sequences, or make the topic again with more bits"
            )
        if entry.milliseconds > self.milliseconds_max:
            raise EntryBeyondOffsets(
                f"entry {entry.text} of {stream}: its milliseconds are above {self.milliseconds_max}, the most that "
                f"an offset holds. Remove it (XDEL {stream} {entry.text}) and have its writer give times"
            )
        return entry.milliseconds << self.bits | entry.sequence

    def has(self, entry: EntryId) -> bool:
        """Whether the entry has an offset."""
        return entry.sequence <= self.sequence_max and entry.milliseconds <= self.milliseconds_max

    def id_of(self, offset: int) -> EntryId:
        """The id that this offset has, whether or not there is such an entry."""
        assert 0 <= offset <= OFFSET_MAX, "offsets are checked before"
        return EntryId(offset >> self.bits, offset & self.sequence_max)

    def end_after(self, last: EntryId, stream: str) -> int:
        """The offset after the last entry that was ever in a stream, its `last-generated-id`: of 0-0 it is 0, since no
        entry has that id."""
        return 0 if last == (0, 0) else self.offset_of(last, stream) + 1

    def first_of_next(self, last: EntryId, now_ms: int) -> int:
        """The offset that the next entry gets. Entries of one append follow each other without a gap, so this says all
        of them. A clock that stands, steps back or is too slow for its writers goes on from the last id; of a last id
        without an offset, from the next millisecond, so that order holds and readers are told of it."""
        if last.sequence > self.sequence_max:
            after = (last.milliseconds + 1) << self.bits
        else:
            after = (last.milliseconds << self.bits | last.sequence) + 1
        return max(after, now_ms << self.bits)


def offset_at(entry: EntryId, offsets: Offsets) -> int:
    """The offset of an id, or for one without, the next."""
    if entry.sequence > offsets.sequence_max:
        return (entry.milliseconds + 1) << offsets.bits
    return entry.milliseconds << offsets.bits | entry.sequence


def last_delivered(committed: int, offsets: Offsets) -> bytes:
    """The id of the offset before the committed one, whether or not there is such an entry; 0-0 of offset 0."""
    assert 0 <= committed <= OFFSET_MAX, "offsets are checked before"
    return offsets.id_of(max(0, committed - 1)).text.encode()
