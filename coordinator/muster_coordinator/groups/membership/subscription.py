"""The topics to which members of a consumer group subscribe: the only part of their metadata that Muster reads.

Every version of the embedded subscription begins like version 0, so reading the v0 prefix is enough (protocol notes
4.5, 6). When a subscription cannot be read, it must be assumed to include every topic: nothing is deleted or expired.
"""

from muster_coordinator.groups.state.classic_group import ClassicGroup
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.fields import Reader

CONSUMER = "consumer"
_TOPIC_BYTES_MIN = 2


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """Topics of all members; None when unknown (another protocol type, or unreadable metadata)."""
    if not group.members:
        return frozenset()
    if group.protocol_type != CONSUMER or group.protocol is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        found = topics_of(member.metadata(group.protocol))
        if found is None:
            return None
        topics |= found
    return frozenset(topics)


def topics_of(metadata: bytes) -> set[str] | None:
    """Topics of one consumer's subscription; None when it cannot be read."""
    reader = Reader(metadata)
    try:
        if reader.i16() < 0:
            return None
        topics = {reader.string() for _ in range(reader.count(compact=False, least_bytes=_TOPIC_BYTES_MIN))}
        length = reader.i32()
        if length != -1:
            reader.take(length)
    except MalformedError:
        return None
    return topics
