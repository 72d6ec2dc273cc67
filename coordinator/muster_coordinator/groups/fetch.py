"""OffsetFetch (protocol.md 4.3): what is committed, from applied state.

The host has made sure that this replica still leads (decision 36). It waits for no record (`flights.Gate.NONE`), so it
has an answer at once, without ticket or effect.
"""

from collections.abc import Callable, Mapping

from muster_coordinator.errors import Code
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.offset_row import fetched_fields
from muster_coordinator.groups.requests import FetchedOffset, OffsetFetch, OffsetFetchAnswer

_NONE = int(Code.NONE)
_NEW: Callable[..., FetchedOffset] = tuple.__new__


def fetch(core: Core, now: Now, ticket: int, request: OffsetFetch) -> None:
    """As every request is answered: with a ticket."""
    del now
    core.answer(ticket, fetched(core, request))


def fetched(core: Core, request: OffsetFetch) -> OffsetFetchAnswer:
    """-1 without error where nothing is committed; 88 where a transaction is open and a stable value was asked."""
    table = core.state.offsets.table(request.group)
    asked = request.topics
    if asked is None:
        asked = () if table is None else tuple((topic, tuple(rows)) for topic, rows in table.topics.items())
    pending = core.state.pending
    unstable = request.require_stable and request.group in pending
    topics = []
    for topic, partitions in asked:
        rows: Mapping[int, bytes] = {} if table is None else table.topics.get(topic, {})
        found = [_fetched(partition, rows.get(partition)) for partition in partitions]
        if unstable:
            for at, partition in enumerate(partitions):
                if pending.waits(request.group, topic, partition):
                    found[at] = FetchedOffset(partition, -1, -1, "", Code.UNSTABLE_OFFSET_COMMIT)
        topics.append((topic, tuple(found)))
    return OffsetFetchAnswer(Code.NONE, tuple(topics))


def _fetched(partition: int, row: bytes | None) -> FetchedOffset:
    """Ten of these are most of what a fetch costs: the tuple is made without the constructor of its class."""
    if row is None:
        return FetchedOffset(partition, -1, -1, "", _NONE)
    offset, leader_epoch, metadata = fetched_fields(row)
    return _NEW(FetchedOffset, (partition, offset, leader_epoch, metadata, _NONE))
