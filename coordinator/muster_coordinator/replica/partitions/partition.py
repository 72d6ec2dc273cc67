"""The log side of a log-bearing group: offsets assigned at apply, segments, log start, and who watches them.

A NORMAL entry gets the next offset and its term as leader epoch (decision 1) and goes to the segments, unless a flush
before the last stop has put it there already: recovery replays the WAL from the checkpoint, the segments begin later,
at the recovery point. What it does not do: interpret batches; the state machine of the partition gets them after this.
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
    """`segments_from`: the Raft index up to which the segments hold everything already; the offsets are those of the
    checkpoint that replay begins at."""

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
        """Bytes and milliseconds of a segment while the log says nothing of it: as configured when it was opened."""
        self.replicated_roll: tuple[int, int] | None = None
        """What the applied log said last."""
        self.set_roll(replicated_roll)
        self.closed = False
        """While files are swapped, or after the group was deleted: nothing is appended or read."""
        self.flushed = segments_from
        """Entries up to here are in the segments and need not be appended again."""
        self.next_offset = next_offset
        """Offset of the next record: the high watermark, since only committed entries come here."""
        self.log_start = log_start
        self.written_out = True
        self._dirty = dirty
        self._watchers: dict[object, Callable[[], None]] = {}

    # -- applying --------------------------------------------------------------------------------------------------

    def append(self, entry: Entry) -> AppliedBatch:
        """Give one batch its place. DiskFull: nothing has changed."""
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
        """A COMMAND of an offsets partition: the log start moves, or segments end by another rule."""
        command = decode_log_command(entry.data)
        if isinstance(command, MoveLogStart):
            self.move_start(moved_log_start(self.log_start, self.next_offset, command))
        elif isinstance(command, SetRoll):
            self.set_roll(command)

    def set_roll(self, roll: tuple[int, int] | None) -> None:
        """Applied, or out of a checkpoint: segments end so from the next batch on. None: as configured."""
        self.replicated_roll = None if roll is None else (roll[0], roll[1])
        self.log.set_roll(*(self.replicated_roll or self.roll))

    def move_start(self, offset: int) -> None:
        """Applied: the log begins at `offset`."""
        self.log_start = max(self.log_start, offset)
        self.log.advance_start(self.log_start)

    def write_out(self) -> None:
        """What was appended becomes visible in the files. DiskFull: not yet; call again."""
        if not self.closed:
            self.log.write_out()
        self.written_out = True

    def close(self) -> None:
        self.closed = True
        self.log.close()

    def reopen(
        self, log: PartitionLog, segments_from: int, next_offset: int, log_start: int, roll: tuple[int, int] | None
    ) -> None:
        """Go on with transferred segments."""
        self.log = log
        self.set_roll(roll)
        self.closed = False
        self.flushed = segments_from
        self.next_offset, self.log_start = next_offset, log_start

    # -- watching --------------------------------------------------------------------------------------------------

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Call `notify` when the log's end, its start or leadership may have moved; returns the un-watch call."""
        key = object()
        self._watchers[key] = notify
        return lambda: self._watchers.pop(key, None) and None

    def moved(self) -> None:
        if self._watchers:
            for notify in list(self._watchers.values()):
                notify()
