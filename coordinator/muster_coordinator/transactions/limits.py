"""Limits of a transaction coordinator, and how much work one turn does."""

from muster_coordinator.limits import GROUP_UNCOMMITTED_BYTES_MAX, MIB

TRANSACTIONAL_IDS_MAX = 100_000
"""Transactional ids of one partition of `__transaction_state`; a new one beyond is refused until old ones expire."""
TRANSACTION_RECORD_BYTES_MAX = MIB
"""Record of one transaction: Kafka's bound of a batch. 1 MiB lists some 4,000 topics of the longest names, or 250,000
partitions of one topic."""
EXPIRY_LOOKED_AT_PER_TURN = 1_000
"""Ids that one step of the expiry sweep looks at."""
EXPIRY_TOMBSTONES_PER_BATCH = 100
TIMERS_PER_TURN = 100
"""Transactions whose time is over that one `on_timer` begins to abort."""
RETRY_MS = 100
"""Pause before a change that no request asked for is proposed again."""
EXPIRY_CLOCK_JUMP_MS = 60_000
"""Change of wall minus monotonic clock between two sweeps; beyond it the sweep is skipped, as that of offsets is."""

assert TRANSACTION_RECORD_BYTES_MAX < GROUP_UNCOMMITTED_BYTES_MAX
