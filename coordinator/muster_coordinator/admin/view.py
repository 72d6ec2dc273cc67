"""What the admin room asks of a replica beyond `replica.partitions.surface.Surface`: its Raft groups, readiness,
transfers.

Implemented by `replica.node.Node`; tests give a fake.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from muster_coordinator.groups.stats import GroupMetrics, ShardStats
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.replica.maintenance.disk_space import DiskStatus
from muster_coordinator.replica.multiraft.status import GroupStatus, InstallStatus, ScrubStatus, WorkDone
from muster_coordinator.replica.multiraft.stopped_entry import StoppedEntry
from muster_coordinator.replica.multiraft.wal_writer import WalStatus
from muster_coordinator.replica.partitions.surface import Surface


class AdminReplica(Surface, Protocol):
    """A replica as operators see it."""

    def not_ready(self) -> tuple[str, ...]:
        """Reasons against readiness (decision 30); empty when ready."""
        ...

    def local_groups(self) -> Iterator[GroupStatus]:
        """Raft groups with a voter here, by number; each as it is when it is asked for. There may be thousands: who
        answers with all of them lets the loop go on meanwhile."""
        ...

    def group_views(self, partition: int) -> Iterator[GroupMetrics]:
        """Consumer groups coordinated here in an offsets partition; ends early when it is led elsewhere."""
        ...

    def committed(self, partition: int, group: str) -> Iterator[tuple[str, int, int]]:
        """(topic, partition, offset) of a group that is coordinated here."""
        ...

    def log_bounds(self, group: GroupNo) -> tuple[int, int] | None:
        """(first offset, offset after the last one applied) of a log that has a replica here."""
        ...

    def leaderships(self) -> int:
        """Raft groups led here."""
        ...

    def wals(self) -> Sequence[WalStatus]:
        """How full each WAL is; empty until there are any."""
        ...

    def disk_status(self) -> DiskStatus:
        """How much room there is where the data lies, and what that means."""
        ...

    def low_disks(self) -> frozenset[BrokerId]:
        """Replicas that say that their disks are low, this one included."""
        ...

    def scrub_status(self) -> ScrubStatus:
        """How far stored segments were checked, and what came of it."""
        ...

    def install_status(self) -> InstallStatus:
        """Snapshot installs of this life."""
        ...

    def work_done(self) -> WorkDone:
        """What this replica did in this life."""
        ...

    def group_stats(self) -> ShardStats:
        """What it did for consumer groups while it coordinated them."""
        ...

    def transfer(self, group: GroupNo, target: BrokerId) -> bool:
        """Start handing leadership of `group` to `target`. False: not leader here, or the target cannot have it."""
        ...

    def stopped_entries(self) -> Sequence[StoppedEntry]:
        """Of every Raft group here that stopped at an entry it could not apply."""
        ...

    def skip_entry(self, group: GroupNo, done: Callable[[bool], None]) -> bool:
        """`RaftGroup.pass_over`, for a group of `stopped_entries`."""
        ...

    def stop_skipping(self, group: GroupNo) -> None:
        """Nobody waits for the outcome any more."""
        ...
