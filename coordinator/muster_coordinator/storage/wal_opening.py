"""The state of every group, repeated in every file of the WAL so that older files are not needed for it.

Problem: a file is deleted whole, and with it the only record of a vote, a checkpoint or a recovery point of a group
that has been silent since. Encoding the states of ten thousand groups takes 60 ms of one turn. Mechanism: a *pass*
writes the state of every group, as of the previous batch, at the head of batches: all of them in a file's first batch
if they are few, else a share per batch, larger in larger batches, so that the pass ends within half of the file. A file
whose first batch does not hold all states says so in its header, and the last record of the pass says that the pass is
complete. A file that ends before that (it had few large batches, or a start restarted the pass near its end) is
followed by one whose first batch holds all states. So the two newest files always hold them, and a start can tell a
whole WAL from one that lost its oldest files.
"""

from collections import deque
from collections.abc import Mapping
from itertools import islice

from muster_coordinator.ids import GroupNo
from muster_coordinator.storage.contract import NO_RECOVERY_POINT
from muster_coordinator.storage.wal_format import (
    ALIGN,
    CHECKPOINT,
    CHECKPOINT_BYTES,
    COMPLETES,
    COMPLETES_AT_ONCE,
    CONFIG,
    HARD_STATE_BYTES,
    KEEPS,
    RECORD_HEADER_BYTES,
    RECOVERY_POINT_BYTES,
    BatchWriter,
)
from muster_coordinator.storage.wal_index import NO_CHECKPOINT, NO_CONFIG, NO_HARD_STATE, GroupLog, GroupState

_STATE_BYTES_MAX = HARD_STATE_BYTES + CHECKPOINT_BYTES + RECOVERY_POINT_BYTES
_SPEED = 2
"""A pass is complete after 1/_SPEED of its file."""


class Opening:
    """The passes of one WAL. `groups_max`: states that a small batch writes at most."""

    def __init__(self, groups_max: int) -> None:
        self._groups_max = groups_max
        self._queue: deque[GroupLog] = deque()
        """Groups still to be written in the current pass."""
        self._groups = 0
        self._bytes = 0
        """Written in the current pass so far."""
        self._at_once = False
        self._behind_hole = False
        self.whole = True
        """The newest file has the state of every group, or did not need it."""

    def begin(self, logs: Mapping[GroupNo, GroupLog]) -> bool:
        """Begin a file and its pass. True: the file's first batch will hold all states."""
        self._at_once = not self.whole or len(logs) <= self._groups_max
        self._start(logs)
        return self._at_once

    def resume(self, logs: Mapping[GroupNo, GroupLog]) -> None:
        """Restart the pass: a start found that the newest file's pass is not complete."""
        self._at_once = False
        self._start(logs)

    def begin_behind_hole(self) -> None:
        """Make the next batch hold all states, in whichever file it lies."""
        self.whole, self._behind_hole = False, True

    def _start(self, logs: Mapping[GroupNo, GroupLog]) -> None:
        self.whole, self._bytes = False, 0
        self._queue = deque(logs.values())
        self._groups = len(self._queue)

    def batch_bytes_max(self) -> int:
        """Most bytes of states that a small batch writes."""
        if not self._queue:
            return 0
        configs_bytes = sum(_config_bytes(log.written) for log in islice(self._queue, self._groups_max))
        return min(len(self._queue), self._groups_max) * _STATE_BYTES_MAX + configs_bytes

    def write(self, writer: BatchWriter, logs: Mapping[GroupNo, GroupLog], *, batch_bytes: int, file_bytes: int) -> int:
        """Write this batch's share of states, before its `batch_bytes` of other records. Returns the bytes of all
        states when that completes a pass, else 0."""
        if self.whole:
            return 0
        start = writer.position
        if self._behind_hole:
            write_all(writer, logs)
            self._behind_hole, self.whole = False, True
            self._queue.clear()
            return writer.position - start
        due = self._groups * batch_bytes * _SPEED // file_bytes + 1
        count = self._groups if self._at_once else max(self._groups_max, due)
        for _ in range(min(len(self._queue), count)):
            log = self._queue.popleft()
            if logs.get(log.group) is log:
                write_state(writer, log.group, log.written)
        self._bytes += writer.position - start
        if self._queue:
            return 0
        if not self._at_once:
            last = next(iter(logs.values()), None)
            if last is None:
                return 0  # COMPLETES is the kind of a group's record, and there is no group.
            writer.add_hard_state(last.group, last.written.hard_state, kind=COMPLETES)
        self.whole = True
        return self._bytes


def write_all(writer: BatchWriter, logs: Mapping[GroupNo, GroupLog]) -> None:
    """Write the states of all groups, and that these are all, in one batch: after a hole, which may have held any."""
    last = None
    for last in logs.values():
        writer.add_hard_state(last.group, last.written.hard_state)
        write_state(writer, last.group, last.written)
    if last is not None:
        writer.add_hard_state(last.group, last.written.hard_state, kind=COMPLETES)
        writer.add_hard_state(last.group, last.written.hard_state, kind=COMPLETES_AT_ONCE)


def write_state(writer: BatchWriter, group: GroupNo, written: GroupState) -> None:
    """Repeat a group's state."""
    if written.hard_state != NO_HARD_STATE:
        writer.add_hard_state(group, written.hard_state)
    if written.checkpoint != NO_CHECKPOINT:
        writer.add(CHECKPOINT, group, *written.checkpoint, kind=KEEPS)
    if written.config != NO_CONFIG:
        index, data = written.config
        writer.add(CONFIG, group, index, 0, data)
    if written.recovery_point != NO_RECOVERY_POINT:
        writer.add_recovery_point(group, written.recovery_point)


def state_bytes(written: GroupState) -> int:
    """Bytes that `write_state` adds."""
    return (
        HARD_STATE_BYTES * (written.hard_state != NO_HARD_STATE)
        + CHECKPOINT_BYTES * (written.checkpoint != NO_CHECKPOINT)
        + RECOVERY_POINT_BYTES * (written.recovery_point != NO_RECOVERY_POINT)
        + _config_bytes(written)
    )


def _config_bytes(written: GroupState) -> int:
    size = len(written.config[1])
    return RECORD_HEADER_BYTES + size + -size % ALIGN if size else 0
