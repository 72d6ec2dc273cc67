"""The settings of one replica, made by `node_settings` from the configuration file. Defaults of what a user may set are
in the package's `settings` only."""

from dataclasses import dataclass

from muster_coordinator.controller.image import Endpoint
from muster_coordinator.groups.config import ShardConfig
from muster_coordinator.ids import BrokerId
from muster_coordinator.raft.timing import Timing
from muster_coordinator.replica.limits import SEGMENT_SYNC_BYTES
from muster_coordinator.transactions.config import TransactionConfig

REPLICATED_ROLLS_LEVEL = 2
"""Feature level from which the rule for the end of segments is in the partition's log (`SetRoll`) and in
checkpoints."""
FEATURE_LEVEL = 4
"""The highest feature level of this binary (decision 16); a new cluster begins with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Times in milliseconds, sizes in bytes; the package's `settings` has the key and text of each."""

    broker: BrokerId
    initial_voters: tuple[BrokerId, ...]
    """1, 3 or 5. A replica that is none of them joins the cluster that they formed, which `cluster_id` names."""
    cluster_id: str | None
    """None: take part in whatever cluster the data folder or the peers belong to."""
    cluster_formed: bool
    """The cluster of `cluster_id` is formed: an empty folder was lost, and forms none."""
    endpoints: tuple[Endpoint, ...]
    """The addresses given to clients, one for each listener; of a replica that joins, also that for peers."""
    rack: str
    """"": it has none."""
    admin: str
    """host:port of the admin listener, for 421 answers."""
    offsets_partitions: int
    feature_max: int = FEATURE_LEVEL
    timing: Timing
    shard: ShardConfig
    redis_prefix: str
    """Of the keys of topics in Redis."""
    redis_groups_mirror: bool
    """Are committed offsets shown as consumer groups of Redis?"""
    topic_configs: tuple[tuple[str, str], ...]
    """Server-wide values under the topic configs' names; a topic's own overrides win."""
    data_dir: str
    """Path of the data folder, for log events."""
    disk_low_bytes: int
    """With fewer free bytes a replica refuses new data and hands its leaderships away, ..."""
    disk_good_bytes: int
    """... until this many bytes are free."""
    offsets_segment_bytes: int
    offsets_history_ms: int
    offsets_history_bytes: int
    internal_compacts: bool
    """Are the offsets log and the transaction log cleaned, not cut?"""
    wal_file_bytes: int
    wal_bytes_max: int
    checkpoint_bytes: int
    trailing_entries: int
    install_rate: int
    """Bytes a second sent to all followers that install a snapshot."""
    scrub_rate: int
    """Bytes a second of sealed segments that are checked in the background; 0: none."""
    cleaner_rate: int
    """Bytes a second that cleaning reads and writes."""
    cleaner_keys_bytes: int
    """Memory for the keys of one round of cleaning."""
    cleaner_backoff_ms: int
    """Time between two looks for logs that are due to be cleaned."""
    segment_flush_ms: int
    segment_flush_bytes: int
    segment_sync_bytes: int = SEGMENT_SYNC_BYTES
    """Nothing for a user to set: `SEGMENT_SYNC_BYTES` says what it is for."""
    takeback_ms: int
    moves_at_once: int
    """Partitions of the whole cluster that are moved at a time."""
    room_timeout_ms: int
    """For how long a move may wait for room on its target's disk; -1: as long as it takes."""
    balancer_quiet_ms: int
    """How long every broker must have been there before replicas are moved to level brokers; -1: they never are."""
    balancer_difference_percent: int
    """Of the mean by which brokers may differ in bytes and rates; -1: only counts are levelled."""
    balancer_difference_min_bytes: int
    """Bytes by which they may differ in any case."""
    decommission_redirect_ms: int
    """How long a broker that was emptied tells clients where the others are before it is unregistered."""
    feature_finalize_ms: int
    """How long all replicas must support a higher feature level before the cluster is raised to it; -1: never."""
    retention_check_ms: int
    proposal_timeout_ms: int
    transactions: TransactionConfig
    transactions_segment_bytes: int

    def __post_init__(self) -> None:
        assert len(self.initial_voters) in (1, 3, 5), "1, 3 or 5 replicas form a cluster"
        assert len(set(self.initial_voters)) == len(self.initial_voters)
        assert self.broker in self.initial_voters or self.cluster_id, "whoever joins names the cluster"
        assert self.offsets_partitions > 0
        assert self.disk_low_bytes <= self.disk_good_bytes
