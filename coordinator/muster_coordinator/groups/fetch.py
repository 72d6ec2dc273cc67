"""OffsetFetch (protocol.md 4.3): what is committed, from applied state.

The host has made sure that this replica still leads (decision 36).
"""

from muster_coordinator.errors import Code
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.offset_row import fetched_fields
from muster_coordinator.groups.requests import FetchedOffset, OffsetFetch, OffsetFetchAnswer


def fetch(core: Core, now: Now, ticket: int, request: OffsetFetch) -> None:
    """-1 without error where nothing is committed; 88 where a transaction is open and a stable value was asked."""
    del now
    table = core.state.offsets.table(request.group)
    asked = request.topics
    if asked is None:
        asked = () if table is None else tuple((topic, tuple(rows)) for topic, rows in table.topics.items())
    pending = core.state.pending
    unstable = request.require_stable and request.group in pending
    topics = []
    for topic, partitions in asked:
        rows = {} if table is None else table.topics.get(topic, {})
        found = []
        for partition in partitions:
            row = rows.get(partition)
            if unstable and pending.waits(request.group, topic, partition):
                found.append(FetchedOffset(partition, -1, -1, "", Code.UNSTABLE_OFFSET_COMMIT))
            elif row is None:
                found.append(FetchedOffset(partition, -1, -1, "", Code.NONE))
            else:
                found.append(FetchedOffset(partition, *fetched_fields(row), Code.NONE))
        topics.append((topic, tuple(found)))
    core.answer(ticket, OffsetFetchAnswer(Code.NONE, tuple(topics)))
