"""Limits of the controller's image."""

DELETED_TOPIC_IDS_MAX = 20_000
"""Deletions the controller remembers (decision 27): shards act on one within minutes; older ones go."""
CONFIG_VALUE_CHARS_MAX = 4_096
"""One topic config value; the image of every replica holds all of them."""
