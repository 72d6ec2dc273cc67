"""The consumer protocol inside a member's bytes: subscriptions (versions 0 to 3 and later) and assignments.

These bytes are the clients': a coordinator does not decode them, and a client may write anything. A field that cannot
be read is therefore null ("unknown"), never an error. A version above 3 is read as 3 and its tail is ignored, as
clients do. Layouts: Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment.
"""

from functools import lru_cache
from typing import Any

from muster_pipeline.decode.fields import FieldError, Fields
from muster_pipeline.decode.limits import REMEMBERED_BYTES_MAX, REMEMBERED_MAX

_TOPIC_BYTES_MIN = 6
_NOTHING: dict[str, Any] = {
    "subscribed_topics": None,
    "owned": None,
    "subscription_generation": None,
    "rack_id": None,
}


def subscription(data: bytes) -> dict[str, Any]:
    """Columns subscribed_topics, owned, subscription_generation, rack_id; a column that the bytes lack is null. The
    same value may be returned again: it is not changed."""
    return _known_subscription(data) if len(data) <= REMEMBERED_BYTES_MAX else _subscription(data)


def assignment(data: bytes) -> list[dict[str, Any]] | None:
    """[{topic, partitions}]; [] for empty bytes (nothing assigned); None if the bytes are no assignment. The same value
    may be returned again: it is not changed."""
    return _known_assignment(data) if len(data) <= REMEMBERED_BYTES_MAX else _assignment(data)


def _subscription(data: bytes) -> dict[str, Any]:
    fields = Fields(data)
    found = dict(_NOTHING)
    try:
        version = fields.i16()
        if version < 0:
            return found
        topics = [fields.string() for _ in range(fields.count(2))]
        fields.nullable_bytes()
        found["subscribed_topics"] = topics
        if version >= 1:
            found["owned"] = _partitions(fields)
        if version >= 2:
            generation = fields.i32()
            found["subscription_generation"] = None if generation < 0 else generation
        if version >= 3:
            found["rack_id"] = fields.nullable_string()
    except FieldError:
        return found
    return found


def _assignment(data: bytes) -> list[dict[str, Any]] | None:
    if not data:
        return []
    fields = Fields(data)
    try:
        if fields.i16() < 0:
            return None
        return _partitions(fields)
    except FieldError:
        return None


def _partitions(fields: Fields) -> list[dict[str, Any]]:
    return [
        {"topic": fields.string(), "partitions": fields.i32_array(fields.count(4))}
        for _ in range(fields.count(_TOPIC_BYTES_MIN))
    ]


# A group's members write nearly the same bytes generation after generation.
_known_subscription = lru_cache(REMEMBERED_MAX)(_subscription)
_known_assignment = lru_cache(REMEMBERED_MAX)(_assignment)
