"""The contract of the three stores (decision 2) with the replica that uses them. File formats: docs/format.md.

* WAL (`wal.Wal`): shared by all groups of one instance, recovery only, bounded. One `WalBatch` a turn, one fdatasync.
* Segments (`partition_log.PartitionLog`): one folder per partition in Kafka's `.log` format, written at apply,
  flushed lazily.
* Checkpoint (`checkpoint`): one group's state machine at an applied index; derived, so it may be lost.

Threads: calls that append or read run on the loop, against the page cache. Everything that syncs is an I/O job (a
zero-argument callable handed to `Loop.submit`), which touches only its arguments and the `Disk`.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from muster_coordinator.errors import Corruption
from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.members import Placed
from muster_coordinator.raft.messages import Entry, HardState
from muster_coordinator.raft.quorum import Config


class RecoveryPoint(NamedTuple):
    """Durable position of a partition's segments: recovery cuts there and replays the WAL from `applied` + 1."""

    applied: int
    next_offset: int
    segment: int
    """Base offset of the segment file that `position` lies in."""
    position: int


NO_RECOVERY_POINT = RecoveryPoint(0, 0, 0, 0)


class RecoveredGroup(NamedTuple):
    """What the WAL knew of one group after a start."""

    hard_state: HardState
    first_index: int
    """First entry still in the WAL; `compacted` = (first_index - 1, its term)."""
    compacted_term: int
    last_index: int
    recovery_point: RecoveryPoint
    checkpoint: tuple[int, int]
    """(index, term) of the newest published checkpoint, (0, 0) for none."""
    skips: tuple[int, ...] = ()
    """Indexes at which SKIP entries may stand (`replica.multiraft.skips`)."""
    configs: tuple[Placed, ...] = ()
    """The configurations in log order: that of the checkpoint, and that of each CONF entry that is still in the WAL, at
    or below the checkpoint too. (): the log never held a CONF entry."""


class GroupWrites(NamedTuple):
    """One group's share of a WAL batch. Either all of it becomes durable, or none."""

    group: GroupNo
    hard_state: HardState | None
    entries: tuple[Entry, ...]
    recovery_point: RecoveryPoint | None = None
    checkpoint: tuple[int, int] | None = None
    """A checkpoint at (index, term) is published: entries at and below may be dropped from the WAL."""
    config: Placed | None = None
    """The configuration at `checkpoint`, once the log has held a CONF entry at or below it. None: the members there are
    the group's first ones."""


class WalStore(Protocol):
    """Implemented by `storage.wal.Wal`. `open` recovers or raises `Corruption`."""

    def groups(self) -> dict[GroupNo, RecoveredGroup]: ...
    def is_suspended(self, group: GroupNo) -> bool:
        """Has the group lost a vote or an entry that it had acknowledged, or may it have?"""
        ...

    def suspend(self, group: GroupNo, suspended: bool) -> Callable[[], None]:
        """Record that the group is suspended (it may have lost a promise), or not; durable when the job returns."""
        ...

    def sync_proof(self) -> None:
        """A job: the number of the last synced batch becomes durable. No commit waits for it."""

    @property
    def may_lack_groups(self) -> bool:
        """May the WAL have lost all records of some groups, so that it does not know them?"""
        ...

    def all_known(self) -> Callable[[], None]:
        """Record that every group that may have been lost with a part of this WAL exists again. Durable when the job
        returns."""
        ...

    def stage(self, writes: GroupWrites) -> None:
        """Add to the batch of this turn; visible to `read` and `term_at` at once."""

    def hold(self, held: Mapping[GroupNo, int]) -> None:
        """Keep the entries after these indexes of these groups, while there is room: followers need them."""

    def take_job(self, *, carry: bool = True) -> Callable[[], None] | None:
        """A job for the WAL's queue: write and sync all that is staged and, if `carry`, tails to carry. None when there
        is nothing to write. At most one job is in flight."""

    def prepare(self) -> Callable[[], bool]:
        """A job of the same queue that zeroes more of the next file; it returns whether that file is complete."""
        ...

    def job_done(self) -> None: ...
    def read(self, group: GroupNo, low: int, high: int, max_bytes: int) -> list[Entry]:
        """Entries [low, high) from memory or disk; at least one when there is one."""

    def term_at(self, group: GroupNo, index: int) -> int | None:
        """None: compacted or above the last index."""

    def first_index(self, group: GroupNo) -> int:
        """First entry that can be read; last + 1 when there is none."""
        ...

    @property
    def deleted_files(self) -> int:
        """Files deleted since the start."""
        ...

    def take_shortened(self) -> list[GroupNo]:
        """Groups whose `first_index` has moved because the oldest file is about to be deleted; each move is reported
        once."""
        ...

    def checkpoint_lost(self, group: GroupNo, index: int, term: int, config: Config | None) -> None:
        """The checkpoint that the WAL names is damaged; the older one at (index, term), which carries `config`, is used
        instead. Entries after that one stay until a newer checkpoint is named."""

    def drop_group(self, group: GroupNo) -> bool:
        """Stage that the group is deleted. False: the WAL does not know the group."""
        ...

    def used_bytes(self) -> int: ...
    def room_bytes(self) -> int:
        """Bytes left below the bound."""
        ...

    @property
    def written_bytes(self) -> int:
        """A counter of bytes written; only differences mean anything."""
        ...

    @property
    def carried_bytes(self) -> int:
        """Bytes carried since the start: written again so that old files could be deleted."""
        ...

    def pinning(self, lead_bytes: int = 0) -> tuple[GroupNo, ...]:
        """Groups to flush and checkpoint: their oldest needed entry lies in the oldest quarter of the WAL, or up to
        `lead_bytes` after it."""
        ...

    def files_before(self, group: GroupNo) -> int:
        """Number of files that can be deleted without a new checkpoint of the group; 0: the group keeps the oldest."""
        ...

    def take_damage(self) -> list[tuple[GroupNo, Corruption]]:
        """Tails that cannot be carried because an entry cannot be read back; each is reported once."""
        ...

    def carry(self, group: GroupNo) -> None:
        """Carry the group's live entries: no checkpoint can free them."""

    def crowded(self) -> bool:
        """Half full or more: from here on writes are limited by how fast files are deleted."""
        ...

    @property
    def reserve_bytes(self) -> int:
        """The part of `room_bytes` that is reserved for carrying."""
        ...

    def pressed(self) -> bool:
        """Nearly at the bound: tails are carried without waiting for other writes."""
        ...

    def full(self) -> bool:
        """At the bound."""
        ...
