"""The contract of the three stores (decision 2) with the replica that uses them. File formats: docs/format.md.

* WAL (`wal.Wal`): shared by all groups of one instance, recovery only, bounded. One `WalBatch` a turn, one fdatasync.
* Segments (`partition_log.PartitionLog`): one folder per partition in Kafka's `.log` format, written at apply,
  flushed lazily.
* Checkpoint (`checkpoint`): one group's state machine at an applied index; derived, so it may be lost.

Who calls what: `append`/`read` style calls run on the loop against the page cache; everything that syncs is an I/O job
(a zero-argument callable handed to `Loop.submit`), which touches only what it was given and the `Disk`.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from muster_coordinator.errors import Corruption
from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.messages import Entry, HardState


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
    """Where SKIP entries may stand (`replica.multiraft.skips`)."""


class GroupWrites(NamedTuple):
    """One group's share of a WAL batch. All of it becomes durable together, or nothing."""

    group: GroupNo
    hard_state: HardState | None
    entries: tuple[Entry, ...]
    recovery_point: RecoveryPoint | None = None
    checkpoint: tuple[int, int] | None = None
    """A checkpoint at (index, term) is published: entries at and below may be dropped from the WAL."""


class WalStore(Protocol):
    """Implemented by `storage.wal.Wal`. `open` recovers or raises `Corruption`."""

    def groups(self) -> dict[GroupNo, RecoveredGroup]: ...
    def is_suspended(self, group: GroupNo) -> bool:
        """Has the group lost something it had promised, or may it have?"""
        ...

    def suspend(self, group: GroupNo, suspended: bool) -> Callable[[], None]:
        """Remember that the group has lost something, or that it is whole again; durable when the job returns."""
        ...

    def sync_proof(self) -> None:
        """A job: what was said of the last sync becomes durable. No commit waits for it."""

    @property
    def may_lack_groups(self) -> bool:
        """May groups have been lost of which it knows nothing?"""
        ...

    def all_known(self) -> Callable[[], None]:
        """Whatever group may have been lost with a part of this WAL is made by now; durable when the job returns."""
        ...

    def stage(self, writes: GroupWrites) -> None:
        """Add to the batch of this turn; visible to `read` and `term_at` at once."""

    def hold(self, held: Mapping[GroupNo, int]) -> None:
        """Keep what comes after these entries of these groups, while there is room."""

    def take_job(self, *, carry: bool = True) -> Callable[[], None] | None:
        """The write-and-sync of all that is staged and, if `carry`, of tails to carry, for the WAL's queue; None when
        there is nothing. One job in flight."""

    def prepare(self) -> Callable[[], bool]:
        """A job of the same queue that makes some more of the file to come; it returns whether that is whole."""
        ...

    def job_done(self) -> None: ...
    def read(self, group: GroupNo, low: int, high: int, max_bytes: int) -> list[Entry]:
        """Entries [low, high) from memory or disk; at least one when there is one."""

    def term_at(self, group: GroupNo, index: int) -> int | None:
        """None: compacted or not there."""

    def first_index(self, group: GroupNo) -> int:
        """First entry that can be read; last + 1 when there is none."""
        ...

    @property
    def deleted_files(self) -> int:
        """Files let go of since the start."""
        ...

    def take_shortened(self) -> list[GroupNo]:
        """Groups whose `first_index` has moved, because the oldest file is to go; each is told once a move."""
        ...

    def checkpoint_lost(self, group: GroupNo, index: int, term: int) -> None:
        """The checkpoint that the WAL names is damaged, an older one at (index, term) counts: entries after that stay
        until a newer one is named."""

    def drop_group(self, group: GroupNo) -> bool:
        """Stage that the group is deleted. False: it is not known here."""
        ...

    def used_bytes(self) -> int: ...
    def room_bytes(self) -> int:
        """Left below the bound."""
        ...

    @property
    def written_bytes(self) -> int:
        """Over all time; only differences mean anything."""
        ...

    @property
    def carried_bytes(self) -> int:
        """Written again since the start, so that old files could go."""
        ...

    def pinning(self, lead_bytes: int = 0) -> tuple[GroupNo, ...]:
        """Groups whose oldest needed entry lies in the oldest quarter of the WAL, or that much later: flush and
        checkpoint them."""
        ...

    def files_before(self, group: GroupNo) -> int:
        """How many files could go without the group's checkpoint: 0 says that it keeps the oldest one."""
        ...

    def take_damage(self) -> list[tuple[GroupNo, Corruption]]:
        """Tails that cannot be written again because an entry does not read back; each is told once."""
        ...

    def carry(self, group: GroupNo) -> None:
        """No checkpoint can free more of the group: write its live entries again."""

    def crowded(self) -> bool:
        """Half full or more: how much may be written depends on when files can go."""
        ...

    @property
    def reserve_bytes(self) -> int:
        """Of the room: set aside for carrying what keeps the oldest file."""
        ...

    def pressed(self) -> bool:
        """Nearly at the bound: tails are carried without waiting for other writes."""
        ...

    def full(self) -> bool:
        """At the bound."""
        ...
