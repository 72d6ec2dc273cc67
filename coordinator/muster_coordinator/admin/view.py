"""The interface that the admin room needs of a replica, beyond `replica.partitions.surface.Surface`: Raft groups,
readiness, leadership transfers.

Implemented by `replica.node.Node`; tests use a fake.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from muster_coordinator.controller.balancing import Planner
from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.groups.stats import GroupMetrics, ShardStats
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.redis_streams.lag import Records
from muster_coordinator.replica.maintenance.balancer import BalancerStatus, Weighed
from muster_coordinator.replica.maintenance.disk_space import DiskStatus
from muster_coordinator.replica.multiraft.status import (
    CleanerStatus,
    CopyWithoutRoom,
    GroupStatus,
    InstallStatus,
    LateMarker,
    OpenTransactions,
    ScrubStatus,
    TransactionStatus,
    WorkDone,
)
from muster_coordinator.replica.multiraft.stopped_entry import StoppedEntry
from muster_coordinator.replica.multiraft.wal_writer import WalStatus
from muster_coordinator.replica.partitions.surface import Surface


class CertificateStatus(Protocol):
    """`runtime.tls_store.TlsStatus`."""

    @property
    def name(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def not_after_s(self) -> int: ...
    @property
    def left_s(self) -> int: ...
    @property
    def loaded(self) -> int: ...
    @property
    def refused(self) -> int: ...
    @property
    def problem(self) -> str | None: ...


class AdminReplica(Surface, Protocol):
    """A replica as the admin room sees it."""

    def not_ready(self) -> tuple[str, ...]:
        """Reasons why the replica is not ready (decision 30); empty when ready."""
        ...

    def linked(self, broker: BrokerId) -> bool:
        """Self, or a peer that is connected with the data folder that the cluster knows. `alive` is also true of one
        that is connected with another folder, and takes no part."""
        ...

    def own_folder(self) -> bytes | None:
        """uuid of the data folder that this replica runs on, also while it takes no part; None while it starts."""
        ...

    def recorded_folder(self, broker: BrokerId) -> bytes | None:
        """uuid of the data folder that the cluster record names for a broker, also before it has registered."""
        ...

    def local_groups(self) -> Iterator[GroupStatus]:
        """Raft groups with a voter here, by number; each is read when it is yielded. There may be thousands, so a
        caller that walks all of them lets the loop run in between."""
        ...

    def group_views(self, partition: int) -> Iterator[GroupMetrics]:
        """Consumer groups of an offsets partition; ends early when this replica no longer leads it."""
        ...

    def committed(self, partition: int, group: str) -> Iterator[tuple[str, int, int]]:
        """(topic, partition, offset) of a group that is coordinated here."""
        ...

    def log_bounds(self, group: GroupNo) -> tuple[int, int] | None:
        """(first offset, offset after the last one applied) of a log that has a replica here."""
        ...

    def records_behind(self, group: str, topic: Topic, partition: int, committed: int) -> Records:
        """What is known of a group's lag in a partition of a topic in Redis, from a while ago; it is counted again
        soon."""
        ...

    def open_transactions(self) -> Iterator[OpenTransactions]:
        """The topic partitions led here with an open transaction."""
        ...

    def transaction_status(self) -> TransactionStatus:
        """Numbers of the coordinators of transactions here."""
        ...

    def late_markers(self) -> Iterator[LateMarker]:
        """Partitions that have lacked a marker of a coordinator here for long."""
        ...

    def log_bytes(self, group: GroupNo) -> int | None:
        """Size of a partition's log that has a replica here; None for groups without one."""
        ...

    def groups_to_change(self) -> int:
        """Raft groups led here that do not have the members yet that the controller wants them to have."""
        ...

    def balancer_status(self) -> BalancerStatus:
        """What the balancer does, if this replica leads the controller's group."""
        ...

    def balancer_plan(self, image: ClusterImage, *, level: bool = True) -> Planner:
        """What would be moved by this image if nothing had to be waited for, as this replica sees who is connected.
        Without `level` only what somebody has asked for."""
        ...

    def balancer_weighed(self) -> Weighed:
        """What this replica knew of weights when it last looked, if it leads the controller's group."""
        ...

    def copies_without_room(self) -> tuple[CopyWithoutRoom, ...]:
        """Raft groups whose copies to this replica wait for room on its disk."""
        ...

    def leaderships(self) -> int:
        """Raft groups led here."""
        ...

    def wals(self) -> Sequence[WalStatus]:
        """How full each WAL is; empty before the WALs are open."""
        ...

    def disk_status(self) -> DiskStatus:
        """Free space on the data folder's disk, and whether the disk is low or full."""
        ...

    def low_disks(self) -> frozenset[BrokerId]:
        """Replicas that report a low disk; may include this one."""
        ...

    def cleaner_status(self) -> CleanerStatus: ...
    def scrub_status(self) -> ScrubStatus:
        """Progress and findings of the scrub."""
        ...

    def install_status(self) -> InstallStatus:
        """Counters of snapshot installs since the start."""
        ...

    def work_done(self) -> WorkDone:
        """Counters of this replica's work since the start."""
        ...

    def group_stats(self) -> ShardStats:
        """Counters of the consumer groups, while this replica coordinated them."""
        ...

    def transfer(self, group: GroupNo, target: BrokerId) -> bool:
        """Start a leadership transfer of `group` to `target`. False: this replica does not lead it, or the target
        cannot take it."""
        ...

    def stopped_entries(self) -> Sequence[StoppedEntry]:
        """The entries that Raft groups here could not apply and stopped at."""
        ...

    def skip_entry(self, group: GroupNo, done: Callable[[bool], None]) -> bool:
        """`RaftGroup.pass_over`, for a group of `stopped_entries`."""
        ...

    def stop_skipping(self, group: GroupNo) -> None:
        """The caller of `skip_entry` no longer waits for the outcome."""
        ...
