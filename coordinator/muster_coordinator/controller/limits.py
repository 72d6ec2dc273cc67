"""Limits of the controller's image."""

DELETED_TOPIC_IDS_MAX = 20_000
"""Deleted topic ids kept in the image (decision 27). Shards use one within minutes; the oldest are dropped."""
CONFIG_VALUE_CHARS_MAX = 4_096
"""Characters of one topic config value: every replica has all of them in memory."""
