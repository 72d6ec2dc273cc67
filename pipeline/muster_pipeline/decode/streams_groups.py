"""Values of Streams groups' records (KIP-1071), types 17 to 23.

Members own tasks: a subtopology and a partition number. Which topics a subtopology reads is in the topology (type 23).
Of a topology, changelogs and co-partitioning are passed over.
"""

from collections.abc import Callable
from typing import Final

from muster_pipeline.decode.fields import FieldError, Fields
from muster_pipeline.decode.structs import Row, current, partition_metadata, target_epoch
from muster_pipeline.schemas.records import STREAMS_TYPES

_NULL: Final = -1
_ONE_BYTE, _TASK_BYTES_MIN, _SUBTOPOLOGY_BYTES_MIN, _TOPIC_BYTES_MIN = 1, 3, 8, 9


def _group_epoch(fields: Fields) -> Row:
    row: Row = {"group_epoch": fields.i32(), "metadata_hash": fields.i64()}
    tags = fields.tags()
    if 0 in tags:
        row["validated_topology_epoch"] = fields.within(tags[0]).i32()
    return row


def _member(fields: Fields) -> Row:
    row: Row = {
        "instance_id": fields.compact_nullable_string(),
        "rack_id": fields.compact_nullable_string(),
        "client_id": fields.compact_string(),
        "client_host": fields.compact_string(),
        "rebalance_timeout_ms": fields.i32(),
        "topology_epoch": fields.i32(),
        "process_id": fields.compact_string(),
    }
    _endpoint(fields)
    _pairs(fields)
    fields.tags()
    return row


def _endpoint(fields: Fields) -> None:
    """A nullable struct: its first byte is -1 for null, 1 otherwise."""
    present = fields.i8()
    if present == _NULL:
        return
    if present != 1:
        raise FieldError(f"a struct that begins with {present}")
    fields.compact_string()
    fields.u16()
    fields.tags()


def _pairs(fields: Fields) -> None:
    """Keys and values."""
    for _ in range(fields.compact_count(_TASK_BYTES_MIN)):
        fields.compact_string()
        fields.compact_string()
        fields.tags()


def _tasks(fields: Fields) -> list[Row]:
    found = []
    for _ in range(fields.compact_count(_TASK_BYTES_MIN)):
        found.append({"subtopology": fields.compact_string(), "partitions": fields.i32_array(fields.compact_count(4))})
        fields.tags()
    return found


def _target(fields: Fields) -> Row:
    row = {name: _tasks(fields) for name in ("active", "standby", "warmup")}
    fields.tags()
    return row


def _current(fields: Fields) -> Row:
    row = current(fields) | {name: _tasks(fields) for name in ("active", "standby", "warmup")}
    row["active_pending_revocation"] = _tasks(fields)
    _tasks(fields)
    _tasks(fields)
    fields.tags()
    return row


def _strings(fields: Fields) -> list[str]:
    return [fields.compact_string() for _ in range(fields.compact_count(_ONE_BYTE))]


def _topics(fields: Fields) -> list[str]:
    """Names of internal topics; how they are made is passed over."""
    names = []
    for _ in range(fields.compact_count(_TOPIC_BYTES_MIN)):
        names.append(fields.compact_string())
        fields.i32()
        fields.i16()
        _pairs(fields)
        fields.tags()
    return names


def _topology(fields: Fields) -> Row:
    epoch = fields.i32()
    found = []
    for _ in range(fields.compact_count(_SUBTOPOLOGY_BYTES_MIN)):
        name, sources, expressions = fields.compact_string(), _strings(fields), _strings(fields)
        _topics(fields)
        _strings(fields)
        found.append({"subtopology": name, "topics": [*sources, *_topics(fields)], "expressions": expressions})
        for _ in range(fields.compact_count(4)):
            for _ in range(3):
                for _ in range(fields.compact_count(2)):
                    fields.i16()
            fields.tags()
        fields.tags()
    fields.tags()
    return {"topology_epoch": epoch, "subtopologies": found}


STREAMS_VALUES: Final[dict[int, Callable[[Fields], Row]]] = {
    17: _group_epoch,
    18: partition_metadata,
    19: _member,
    20: target_epoch,
    21: _target,
    22: _current,
    23: _topology,
}
assert tuple(STREAMS_VALUES) == STREAMS_TYPES
