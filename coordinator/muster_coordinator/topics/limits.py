"""Limits of a topic partition."""

RECORD_ERRORS_MAX = 100
"""Bad records named in one Produce answer: a 1 MiB batch of 7 byte records would otherwise be answered with 12 MiB."""
TOPIC_PRODUCERS_MAX = 20_000
"""Idempotent producers that one topic partition remembers, some 0.7 KiB each; the longest silent goes first."""
PRODUCERS_EXPIRED_PER_COMMAND_MAX = 10_000
PRODUCER_UNSEEN_MS_MIN = 3_600_000
"""A producer that this leader heard of within the last hour is not expired, however old its records' timestamps are."""
PRODUCER_ID_EXPIRATION_MS = 86_400_000
