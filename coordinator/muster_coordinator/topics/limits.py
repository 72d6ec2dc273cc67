"""Limits of a topic partition."""

from muster_coordinator.limits import MIB

RECORD_ERRORS_MAX = 100
"""Bad records listed in one Produce answer: without it, a 1 MiB batch of 7-byte records would get 12 MiB of errors."""
KEYS_INFLATED_BYTES_MAX = 4 * MIB
KEYS_RECORDS_MAX = 20_000
"""Of a compressed batch to a compacted topic; the keys of a larger one are not looked at when it is produced. Inflating
and walking so much takes some 40 ms of the loop, as the worst uncompressed batch of 1 MiB does."""
TOPIC_PRODUCERS_MAX = 20_000
"""Idempotent producers kept by one topic partition, some 0.7 KiB each; the one silent longest is dropped first."""
PRODUCERS_EXPIRED_PER_COMMAND_MAX = 10_000
PRODUCER_UNSEEN_MS_MIN = 3_600_000
"""A producer that wrote to this leader within the last hour is not expired, however old its records' timestamps are."""
PRODUCER_ID_EXPIRATION_MS = 86_400_000
OPEN_TRANSACTIONS_MAX = 10_000
"""Producers with an open transaction in one topic partition: these cannot be dropped from its producers."""
TOPIC_VERIFICATIONS_MAX = 10_000
"""Producers of one topic partition whose coordinator is being asked, or was and nothing was stored since."""
VERIFICATION_MS_MAX = 600_000
"""Then a verification counts no longer, however its coordinator answers."""

assert OPEN_TRANSACTIONS_MAX < TOPIC_PRODUCERS_MAX
