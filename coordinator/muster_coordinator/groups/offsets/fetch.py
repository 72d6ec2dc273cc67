"""OffsetFetch (protocol notes 4.3): the committed offsets in applied state.

The host has confirmed by ReadIndex that this replica still leads (decision 36). A fetch does not wait for in-flight
records (`inflights.Gate.NONE`), so the answer is available at once, without ticket or effect.
"""

from collections.abc import Callable, Mapping, Sequence

from muster_coordinator.errors import Code
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.requests import FetchedOffset, OffsetFetch, OffsetFetchAnswer, TopicIds
from muster_coordinator.groups.state.offset_row import FETCHED, HAS_TOPIC_ID, METADATA_AT

_NONE = int(Code.NONE)
_NEW: Callable[..., FetchedOffset] = tuple.__new__


def fetch(core: Core, now: Now, ticket: int, request: OffsetFetch) -> None:
    """The ordinary path, with a ticket."""
    del now
    core.answer(ticket, fetched(core, request))


def fetched(core: Core, request: OffsetFetch) -> OffsetFetchAnswer:
    """Offset -1 without error where nothing is committed; error 88 where a transaction is open and the client asked for
    stable offsets."""
    table = core.state.offsets.table(request.group)
    asked = request.topics
    if asked is None:
        asked = () if table is None else tuple((topic, tuple(rows)) for topic, rows in table.topics.items())
    pending_offsets = core.state.pending_offsets
    unstable = request.require_stable and request.group in pending_offsets
    topics = []
    unknown_id = False
    for topic, partitions in asked:
        rows = {} if table is None else table.topics.get(topic, {})
        found, unknown = _found(rows, partitions, topic, request.ids)
        unknown_id |= unknown
        if unstable:
            for at, partition in enumerate(partitions):
                if pending_offsets.holds(request.group, topic, partition):
                    found[at] = FetchedOffset(partition, -1, -1, "", Code.UNSTABLE_OFFSET_COMMIT)
        if request.topics is None:
            found = [offset for offset in found if offset.offset >= 0 or offset.error]
            if not found:
                continue
        topics.append((topic, tuple(found)))
    return OffsetFetchAnswer(Code.NONE, tuple(topics), unknown_id)


def _found(
    rows: Mapping[int, bytes], partitions: Sequence[int], topic: str, ids: TopicIds | None
) -> tuple[list[FetchedOffset], bool]:
    """The offsets, and whether one was left out because its topic id is neither known nor deleted here.

    The offset is -1 where it was committed for another topic of this name. Rows without an id match any topic: they are
    from commits with an expiry of their own, or for topics that are not ours. This loop is most of a fetch's cost, so
    it calls none of our functions and makes tuples without their class's constructor.
    """
    found = []
    own, unknown = b"", False
    for partition in partitions:
        row = rows.get(partition)
        if row is None:
            found.append(FetchedOffset(partition, -1, -1, "", _NONE))
            continue
        flags, offset, leader_epoch = FETCHED(row)
        at = METADATA_AT[flags]
        if ids is not None and flags & HAS_TOPIC_ID and row[at - 16 : at] != own:
            topic_id = row[at - 16 : at]
            if ids.names.get(topic_id) != topic:
                unknown |= topic_id not in ids.deleted
                found.append(FetchedOffset(partition, -1, -1, "", _NONE))
                continue
            own = topic_id
        metadata = row[at:].decode() if len(row) > at else ""
        found.append(_NEW(FetchedOffset, (partition, offset, leader_epoch, metadata, _NONE)))
    return found, unknown
