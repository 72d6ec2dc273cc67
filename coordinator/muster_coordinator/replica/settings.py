"""What one replica is told at its start: by `node_settings` of the package from the configuration file, whose defaults
these are; nothing that a user may set has a second one here."""

from dataclasses import dataclass

from muster_coordinator.controller.image import Endpoint
from muster_coordinator.groups.config import ShardConfig
from muster_coordinator.ids import BrokerId
from muster_coordinator.raft.timing import Timing

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
    cluster_id: str | None
    """None: take part in whatever cluster the data folder or the peers belong to."""
    endpoints: tuple[Endpoint, ...]
    """What clients are told, one per listener."""
    admin: str
    """host:port of the admin listener, for 421 answers."""
    offsets_partitions: int
    feature_max: int = FEATURE_LEVEL
    timing: Timing
    shard: ShardConfig
    topic_configs: tuple[tuple[str, str], ...]
    """Server-wide values under the topic configs' names; a topic's own overrides win."""
    data_dir: str
    """Where the disk lies, for people."""
    disk_low_bytes: int
    """With less free a replica takes no new data and hands its leaderships away ..."""
    disk_good_bytes: int
    """... until so much is free."""
    offsets_segment_bytes: int
    offsets_history_ms: int
    offsets_history_bytes: int
    wal_file_bytes: int
    wal_bytes_max: int
    checkpoint_bytes: int
    trailing_entries: int
    install_rate: int
    """Bytes a second that leave for followers in transfer, all together."""
    scrub_rate: int
    """Bytes a second of sealed segments checked in the background; 0: none."""
    segment_flush_ms: int
    segment_flush_bytes: int
    takeback_ms: int
    feature_finalize_ms: int
    """All replicas can do a higher feature level for so long before the cluster is raised to it; -1: never."""
    retention_check_ms: int
    proposal_timeout_ms: int

    def __post_init__(self) -> None:
        assert len(self.initial_voters) in (1, 3, 5), "1, 3 or 5 replicas, until membership change exists"
        assert len(set(self.initial_voters)) == len(self.initial_voters)
        assert self.broker in self.initial_voters
        assert self.offsets_partitions > 0
        assert self.disk_low_bytes <= self.disk_good_bytes
