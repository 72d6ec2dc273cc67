"""Settings of a group shard under Kafka's names (decision 24, protocol notes 9.1); their defaults are the file's.

Frozen: settings cannot change under a request. Validation of user input is the settings file's task; only the relations
that the state machine relies on are asserted here.
"""

from dataclasses import dataclass

from muster_coordinator.groups import limits
from muster_coordinator.limits import GROUP_STORED_BYTES_MAX, OFFSETS_BATCH_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardConfig:
    """Settings that an operator may change; each docstring names Kafka's key."""

    session_timeout_min_ms: int
    """`group.min.session.timeout.ms`, inclusive."""
    session_timeout_max_ms: int
    """`group.max.session.timeout.ms`, inclusive."""
    initial_rebalance_delay_ms: int
    """`group.initial.rebalance.delay.ms`."""
    group_max_size: int
    """`group.max.size`."""
    group_stored_bytes_max: int = GROUP_STORED_BYTES_MAX
    """Metadata plus assignments of one generation; not a setting of Kafka's."""
    pending_members_max: int = limits.PENDING_MEMBERS_MAX
    """Member ids of one group that were handed out and have not joined (KIP-394); not a setting of Kafka's."""
    waiting_requests_max: int = limits.GROUP_WAITING_REQUESTS_MAX
    """Requests of one group that wait for its in-flight record; not a setting of Kafka's."""
    offset_metadata_chars_max: int
    """`offset.metadata.max.bytes`; Kafka counts UTF-16 units, whatever the name says."""
    offsets_retention_ms: int
    """`offsets.retention.minutes`, in milliseconds."""
    offsets_retention_check_ms: int
    """`offsets.retention.check.interval.ms`."""

    def __post_init__(self) -> None:
        assert 0 < self.session_timeout_min_ms <= self.session_timeout_max_ms
        assert self.initial_rebalance_delay_ms >= 0
        assert self.group_max_size >= 1
        assert 0 < self.group_stored_bytes_max < OFFSETS_BATCH_BYTES_MAX
        assert self.offsets_retention_ms > 0
        assert self.offsets_retention_check_ms > 0
