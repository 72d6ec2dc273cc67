"""Values of share groups' records (KIP-932), types 9 to 15. What members acknowledged is in another topic."""

from collections.abc import Callable
from typing import Final

from muster_pipeline.decode.fields import Fields
from muster_pipeline.decode.structs import (
    TOPIC_BYTES_MIN,
    Row,
    current,
    id_partitions,
    partition_metadata,
    target_epoch,
)
from muster_pipeline.schemas.records import SHARE_TYPES

_COUNT_UNKNOWN: Final = -1


def _member(fields: Fields) -> Row:
    row: Row = {
        "rack_id": fields.compact_nullable_string(),
        "client_id": fields.compact_string(),
        "client_host": fields.compact_string(),
        "subscribed_topics": [fields.compact_string() for _ in range(fields.compact_count(1))],
    }
    fields.tags()
    return row


def _group_epoch(fields: Fields) -> Row:
    row = {"group_epoch": fields.i32(), "metadata_hash": fields.i64()}
    fields.tags()
    return row


def _target(fields: Fields) -> Row:
    row = {"target": id_partitions(fields)}
    fields.tags()
    return row


def _current(fields: Fields) -> Row:
    row = current(fields) | {"assigned": id_partitions(fields)}
    fields.tags()
    return row


def _state_topics(fields: Fields) -> Row:
    """Type 15: topics whose share state is being made, is there, or is being deleted. They name topic ids."""
    named = []
    for _ in range(2):
        for _ in range(fields.compact_count(TOPIC_BYTES_MIN)):
            named.append(
                {
                    "topic_id": fields.topic_id(),
                    "topic": fields.compact_string(),
                    "partition_count": _COUNT_UNKNOWN,
                }
            )
            fields.i32_array(fields.compact_count(4))
            fields.tags()
    deleting = []
    for _ in range(fields.compact_count(TOPIC_BYTES_MIN)):
        deleting.append(fields.topic_id())
        fields.compact_string()
        fields.tags()
    fields.tags()
    return {"topics_metadata": named, "share_deleting": deleting}


SHARE_VALUES: Final[dict[int, Callable[[Fields], Row]]] = {
    9: partition_metadata,
    10: _member,
    11: _group_epoch,
    12: target_epoch,
    13: _target,
    14: _current,
    15: _state_topics,
}
assert tuple(SHARE_VALUES) == SHARE_TYPES
