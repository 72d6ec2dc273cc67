"""What one replica is told at its start; `app` fills it from the configuration file, the simulator from its seed."""

from dataclasses import dataclass, field

from muster_coordinator.controller.image import Endpoint
from muster_coordinator.groups.config import ShardConfig
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import PROPOSAL_TIMEOUT_MS, SEGMENT_BYTES, WAL_BYTES_MAX, WAL_FILE_BYTES
from muster_coordinator.raft.timing import TIMING, Timing
from muster_coordinator.replica import limits

REPLICATED_ROLLS_LEVEL = 2
"""From here on a partition's log says by what its segments end (`SetRoll`), and checkpoints may say it."""
FEATURE_LEVEL = 2
"""The highest feature level of this binary (decision 16), and what a new cluster is finalised at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Milliseconds and bytes; Kafka's or `muster.` keys in `settings.py` of the package name each."""

    broker: BrokerId
    initial_voters: tuple[BrokerId, ...]
    """1, 3 or 5, this one included."""
    cluster_id: str | None = None
    """None: take part in whatever cluster the data folder or the peers belong to."""
    endpoints: tuple[Endpoint, ...] = ()
    """What clients are told, one per listener."""
    admin: str = ""
    """host:port of the admin listener, for 421 answers."""
    offsets_partitions: int = limits.OFFSETS_PARTITIONS
    feature_max: int = FEATURE_LEVEL
    timing: Timing = TIMING
    shard: ShardConfig = field(default_factory=ShardConfig)
    topic_configs: tuple[tuple[str, str], ...] = ()
    """Server-wide values under the topic configs' names; a topic's own overrides win."""
    data_dir: str = ""
    """Where the disk lies, for people."""
    disk_low_bytes: int = limits.DISK_LOW_BYTES
    """With less free a replica takes no new data and hands its leaderships away ..."""
    disk_good_bytes: int = limits.DISK_LOW_BYTES * 3 // 2
    """... until so much is free."""
    offsets_segment_bytes: int = SEGMENT_BYTES
    offsets_history_ms: int = limits.OFFSETS_HISTORY_MS
    offsets_history_bytes: int = limits.OFFSETS_HISTORY_BYTES
    wal_file_bytes: int = WAL_FILE_BYTES
    wal_bytes_max: int = WAL_BYTES_MAX
    checkpoint_bytes: int = limits.CHECKPOINT_BYTES
    trailing_entries: int = limits.TRAILING_ENTRIES
    install_rate: int = limits.INSTALL_BYTES_PER_SECOND
    """Bytes a second that leave for followers in transfer, all together."""
    scrub_rate: int = limits.SCRUB_BYTES_PER_SECOND
    """Bytes a second of sealed segments checked in the background; 0: none."""
    segment_flush_ms: int = limits.SEGMENT_FLUSH_MS
    segment_flush_bytes: int = limits.SEGMENT_FLUSH_BYTES
    takeback_ms: int = limits.LEADERSHIP_TAKEBACK_MS
    feature_finalize_ms: int = limits.FEATURE_FINALIZE_MS
    """All replicas can do a higher feature level for so long before the cluster is raised to it; -1: never."""
    retention_check_ms: int = limits.TOPIC_RETENTION_CHECK_MS
    proposal_timeout_ms: int = PROPOSAL_TIMEOUT_MS

    def __post_init__(self) -> None:
        assert len(self.initial_voters) in (1, 3, 5), "1, 3 or 5 replicas, until membership change exists"
        assert len(set(self.initial_voters)) == len(self.initial_voters)
        assert self.broker in self.initial_voters
        assert self.offsets_partitions > 0
        assert self.disk_low_bytes <= self.disk_good_bytes
