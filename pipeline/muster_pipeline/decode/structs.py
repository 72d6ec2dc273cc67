"""Parts that the values of KIP-848, share and Streams groups have in common."""

from typing import Any, Final

from muster_pipeline.decode.fields import FieldError, Fields

Row = dict[str, Any]
TOPIC_BYTES_MIN: Final = 18
"""A topic id, an empty array, an empty tag section."""


def group_of(key: bytes) -> str | None:
    """The group that a record is about, by its key; None if the key does not begin with a name."""
    try:
        return Fields(key, at=2).string()
    except FieldError:
        return None


def partition_metadata(fields: Fields) -> Row:
    """Types 4, 9, 18: the topics of a group. Partitions' racks are passed over."""
    topics = []
    for _ in range(fields.compact_count(TOPIC_BYTES_MIN)):
        topics.append(
            {"topic_id": fields.topic_id(), "topic": fields.compact_string(), "partition_count": fields.i32()}
        )
        for _ in range(fields.compact_count(6)):
            fields.i32()
            for _ in range(fields.compact_count(1)):
                fields.compact_string()
            fields.tags()
        fields.tags()
    fields.tags()
    return {"topics_metadata": topics}


def target_epoch(fields: Fields) -> Row:
    """Types 6, 12, 20."""
    row: Row = {"target_epoch": fields.i32()}
    tags = fields.tags()
    if 0 in tags:
        row["target_timestamp_ms"] = fields.within(tags[0]).i64()
    return row


def id_partitions(fields: Fields) -> list[Row]:
    """An array of (topic id, partitions); epochs of single partitions (tag 0, KIP-1251) are passed over."""
    found = []
    for _ in range(fields.compact_count(TOPIC_BYTES_MIN)):
        found.append({"topic_id": fields.topic_id(), "partitions": fields.i32_array(fields.compact_count(4))})
        fields.tags()
    return found


def current(fields: Fields) -> Row:
    """The head of types 8, 14, 22: how far a member is."""
    return {"member_epoch": fields.i32(), "previous_member_epoch": fields.i32(), "member_state": fields.i8()}
