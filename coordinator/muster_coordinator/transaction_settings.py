"""The keys of transactions and of their log, which `settings.Settings` inherits."""

# a key is a dataclass field with metadata

from dataclasses import dataclass

from muster_coordinator.limits import SEGMENT_BYTES
from muster_coordinator.setting_field import setting
from muster_coordinator.setting_values import integer


@dataclass(frozen=True, kw_only=True)
class TransactionKeys:
    """The part of `Settings` that is about transactions."""

    transaction_partitions: int = setting(
        "transaction.state.log.num.partitions",
        integer(1, 1_000),
        "50",
        "Partitions of the transaction log, which is made when a client uses transactions for the first time.",
    )
    transactions_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes",
        integer(4_096, 2**31 - 1),
        str(SEGMENT_BYTES),
        "Size of a segment file of a partition of the transaction log.",
    )
    transaction_timeout_max_ms: int = setting(
        "transaction.max.timeout.ms", integer(1), "900000", "Longest time that a producer may ask for its transactions."
    )
    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms",
        integer(1),
        str(7 * 24 * 3_600_000),
        "A transactional id that nobody has used for so long is forgotten.",
    )
    transactional_id_check_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        integer(1),
        "3600000",
        "How often transactional ids are looked through for those to forget.",
    )
