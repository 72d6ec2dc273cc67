"""Settings of a transaction coordinator under Kafka's names; their defaults are the settings file's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Frozen: settings cannot change under a request."""

    timeout_max_ms: int
    """`transaction.max.timeout.ms`."""
    id_expiration_ms: int
    """`transactional.id.expiration.ms`."""
    expiry_check_ms: int
    """`transaction.remove.expired.transaction.cleanup.interval.ms`."""

    def __post_init__(self) -> None:
        assert self.timeout_max_ms > 0
        assert self.id_expiration_ms > 0
        assert self.expiry_check_ms > 0
