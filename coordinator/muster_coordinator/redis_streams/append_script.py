"""The append script: what it is called with, and what its answer means to a producer.

Problem: two owners of a partition may both believe that they are, and a producer sends a batch again when its answer is
lost; Redis itself must refuse the first and know the second. Mechanism: `append.lua` judges the owner's epoch and the
producer's sequence, chooses ids and adds the entries in one step that nobody comes between. What this does not do: send
it. An answer that did not come is unknown, and the same call once more tells: DUPLICATE, or it is appended now; that is
so for producers with an id, and for any append that its owner has numbered: an owner has one append of a partition
under way, and gives each the next number, so that one that comes late, from a connection given up, is refused.
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from muster_coordinator.errors import Code
from muster_coordinator.redis_streams.append_ids import NO_APPEND, AppendId
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets
from muster_coordinator.redis_streams.limits import MILLISECONDS_MAX
from muster_coordinator.redis_streams.produced import Produced

SCRIPT = files("muster_coordinator.redis_streams").joinpath("append.lua").read_text()


class Appended(NamedTuple):
    """The batch is in the stream; its records have the offsets from this one on, without a gap."""

    base_offset: int
    duplicate: bool


class AppendRefused(NamedTuple):
    """Nothing was written."""

    code: Code
    message: str


def arguments(
    epoch: int,
    offsets: Offsets,
    batch: Produced,
    *,
    incarnation: int = 0,
    number: int = -1,
    proved: AppendId = NO_APPEND,
) -> list[bytes]:
    """ARGV of the script; `epoch` is the term in which the caller owns the partition, `number` this append's in it (-1:
    it has none), `incarnation` the topic's, by which the stream was claimed, `proved` the last append that is known to
    be as durable as it should be."""
    numbers = (
        epoch,
        offsets.sequence_max,
        min(offsets.milliseconds_max, MILLISECONDS_MAX),
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(batch.records),
        incarnation,
        number,
        *proved,
    )
    found = [b"%d" % number for number in numbers]
    for timestamp_ms, fields in batch.records:
        found += (b"" if timestamp_ms is None else b"%d" % timestamp_ms, b"%d" % len(fields), *fields)
    return found


def outcome(reply: Sequence[bytes], offsets: Offsets, stream: str) -> Appended | AppendRefused:
    """The meaning of the script's answer."""
    word, detail = reply
    if word in (b"OK", b"DUPLICATE"):
        return Appended(offsets.offset_of(EntryId.parse(detail), stream), word == b"DUPLICATE")
    said = detail.decode(errors="replace")
    if word == b"FENCED":
        return AppendRefused(Code.NOT_LEADER_OR_FOLLOWER, f"{stream} has an owner of epoch {said}")
    if word == b"STALE":
        return AppendRefused(Code.NOT_LEADER_OR_FOLLOWER, f"{stream} has had append {said} of this owner")
    if word == b"EPOCH":
        return AppendRefused(Code.INVALID_PRODUCER_EPOCH, f"the producer has epoch {said} by now")
    if word == b"SEQUENCE":
        return AppendRefused(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, f"the next sequence is {said}")
    if word == b"TYPE":
        return AppendRefused(Code.KAFKA_STORAGE_ERROR, f"{stream} is a {said}, not a stream")
    assert word == b"BEYOND", reply
    return AppendRefused(Code.KAFKA_STORAGE_ERROR, f"{stream} has had entry {said}: no offset comes after it")
