"""Limits of the controller's image."""

DELETED_TOPIC_IDS_MAX = 20_000
"""Deleted topic ids kept in the image (decision 27). Shards use one within minutes; the oldest are dropped."""
CONFIG_VALUE_CHARS_MAX = 4_096
"""Characters of one topic config value: every replica has all of them in memory."""
STREAM_NAME_BYTES_MAX = 512
"""Of a stream that `redis.stream` names. Every call of Redis names it twice; a topic's name alone may have 249."""
VALUE_FIELD_BYTES_MAX = 256
"""Of `redis.value.field`, the name of a field of entries."""
GONE_FOLDERS_MAX = 1_000
"""Folders of one broker that may be replaced (ADR 38). Their uuids are kept for good, so that none comes back: 16 KB of
the image for a volume lost each day of three years."""
RACK_CHARS_MAX = 249
"""As of a topic's name. Fifty racks are in every answer that lists brokers."""
THROTTLE_BYTES_PER_SECOND_MIN = 262_144
"""Slowest rate at which replicas may be copied. Four chunks a second: a copy without one for seconds is given up."""
BROKER_ID_MAX = 2**31 - 1
UUID_BYTES = 16
