"""The log of a partition's group: offsets assigned at apply, segments, log start, and the watchers of these.

Problem: all replicas must give a batch the same offset, and a replay after a restart must not append a batch twice.
Mechanism: a NORMAL entry gets the next offset, and its term as leader epoch (decision 1), and is appended to the
segments, unless they hold it already: replay starts at the checkpoint, and the segments may reach further, to the
recovery point. What it does not do: interpret batches; the partition's state machine gets them after this.
"""

import struct
from collections.abc import Callable

from muster_coordinator.errors import Corruption
from muster_coordinator.groups.effects import AppliedBatch
from muster_coordinator.raft.messages import Entry
from muster_coordinator.records.batch import stamp
from muster_coordinator.storage.partition_log import PartitionLog
from muster_coordinator.topics.log_commands import MoveLogStart, SetRoll, decode_log_command, moved_log_start

_DELTA = struct.Struct(">i")
_DELTA_AT = 23


class PartitionState:
    """The applied log of one partition. `segments_from`: the segments hold all entries up to this Raft index.
    `next_offset` and `log_start` are those of the checkpoint at which replay starts."""

    __slots__ = (
        "_dirty",
        "_watchers",
        "closed",
        "flushed",
        "folder",
        "log",
        "log_start",
        "next_offset",
        "replicated_roll",
        "roll",
        "written_out",
    )

    def __init__(
        self,
        log: PartitionLog,
        folder: str,
        roll: tuple[int, int],
        *,
        replicated_roll: tuple[int, int] | None = None,
        segments_from: int,
        next_offset: int,
        log_start: int,
        dirty: Callable[["PartitionState"], None],
    ) -> None:
        self.log = log
        self.folder = folder
        self.roll = roll
        """(segment.bytes, segment.ms) as configured when the log was opened; used while `replicated_roll` is None."""
        self.replicated_roll: tuple[int, int] | None = None
        """The last applied `SetRoll`; None: the log has none."""
        self.set_roll(replicated_roll)
        self.closed = False
        """Nothing is appended or read: files are being swapped, the group has no valid state, or it was deleted."""
        self.flushed = segments_from
        """Raft index: the segments hold the entries up to it, so they are not appended again."""
        self.next_offset = next_offset
        """Offset of the next record. It is the high watermark, since only committed entries are applied."""
        self.log_start = log_start
        self.written_out = True
        """False: appended batches are in memory only, and the state is in the list of those to be written out."""
        self._dirty = dirty
        self._watchers: dict[object, Callable[[], None]] = {}

    # -- applying --------------------------------------------------------------------------------------------------

    def append(self, entry: Entry) -> AppliedBatch:
        """Assign the offset of one batch and append it. Raises DiskFull, in which case nothing has changed."""
        base = self.next_offset
        batch = stamp(entry.data, base, entry.term)
        (delta,) = _DELTA.unpack_from(batch, _DELTA_AT)
        if entry.index > self.flushed:
            self.log.append(batch)
            if self.written_out:
                self.written_out = False
                self._dirty(self)
        self.next_offset = base + delta + 1
        if entry.index == self.flushed and self.log.next_offset != self.next_offset:
            raise Corruption(f"the segments end at {self.log.next_offset}, the log at {self.next_offset}")
        return AppliedBatch(entry.term, base, batch)

    def command(self, entry: Entry) -> None:
        """Apply a COMMAND of an offsets partition: move the log start, or set the rule for the end of segments."""
        command = decode_log_command(entry.data)
        if isinstance(command, MoveLogStart):
            self.move_start(moved_log_start(self.log_start, self.next_offset, command))
        elif isinstance(command, SetRoll):
            self.set_roll(command)

    def set_roll(self, roll: tuple[int, int] | None) -> None:
        """Set the rule for the end of segments, as applied or from a checkpoint; it holds from the next batch on. None:
        the configured rule."""
        self.replicated_roll = None if roll is None else (roll[0], roll[1])
        self.log.set_roll(*(self.replicated_roll or self.roll))

    def move_start(self, offset: int) -> None:
        """Move the log start to `offset`, if that is higher."""
        self.log_start = max(self.log_start, offset)
        self.log.advance_start(self.log_start)

    def write_out(self) -> None:
        """Write appended batches to the segment files, without syncing them. Raises DiskFull: call again later."""
        if not self.closed:
            self.log.write_out()
        self.written_out = True

    def close(self) -> None:
        self.closed = True
        self.log.close()

    def reopen(
        self, log: PartitionLog, segments_from: int, next_offset: int, log_start: int, roll: tuple[int, int] | None
    ) -> None:
        """Continue with the segments of a snapshot install."""
        self.log = log
        self.set_roll(roll)
        self.closed = False
        self.flushed = segments_from
        self.next_offset, self.log_start = next_offset, log_start

    # -- watching --------------------------------------------------------------------------------------------------

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Call `notify` whenever the log end, the log start or leadership may have changed; the returned function ends
        that."""
        key = object()
        self._watchers[key] = notify
        return lambda: self._watchers.pop(key, None) and None

    def moved(self) -> None:
        if self._watchers:
            for notify in list(self._watchers.values()):
                notify()
