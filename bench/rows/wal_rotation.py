"""Work of the event loop for the WAL in one turn, while WAL files are created and deleted, with many groups.

No cluster: a WAL on the real disk, and only the calls that a replica's loop makes to it. CPU time is measured, since
other work on the machine distorts wall time.
"""

import shutil
import time

from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import MIB
from muster_coordinator.raft.messages import Entry, EntryKind, HardState
from muster_coordinator.runtime.disk import OsDisk
from muster_coordinator.storage.contract import GroupWrites, RecoveryPoint
from muster_coordinator.storage.wal import Wal

from bench.compare import DISK, Target
from bench.lab import Lab
from bench.row import Measured, Row
from bench.sides import Side

GROUPS = (2_000, 10_000)
"""As many as a replica supports, and five times that."""
FILES = 4
"""WAL files that are deleted in one run."""
FILE_BYTES = 16 * MIB
AT_ONCE = 8
"""Groups per written batch, and as many with a new checkpoint."""
DATA = bytes(1_500)


class Life:
    """A WAL whose groups write in turn; each group is checkpointed half a round later."""

    def __init__(self, disk: OsDisk, folder: str, groups: int) -> None:
        self.wal = Wal.open(
            disk, folder, node_uuid=bytes(16), cluster_uuid=bytes(16), file_bytes=FILE_BYTES, bytes_max=16 * FILE_BYTES
        )
        self.last = [0] * groups
        self.turn_no = 0
        for low in range(0, groups, 200):
            some = range(low, min(low + 200, groups))
            self.turn([self._spoken(number) for number in some])
            self.turn([self._covered(number) for number in some])

    def _spoken(self, number: int) -> GroupWrites:
        self.last[number] += 1
        last = self.last[number]
        return GroupWrites(GroupNo(number), HardState(1, 1, last - 1), (Entry(1, last, EntryKind.NORMAL, DATA),))

    def _covered(self, number: int) -> GroupWrites:
        last = self.last[number]
        return GroupWrites(GroupNo(number), None, (), RecoveryPoint(last, last, 0, last), (last, 1))

    def turn(self, writes: list[GroupWrites]) -> float:
        """Make the writes durable; returns the CPU milliseconds that the loop spent besides staging."""
        for one in writes:
            self.wal.stage(one)
        began = time.thread_time()
        job = self.wal.take_job()
        self.wal.take_shortened()
        spent = time.thread_time() - began
        assert job is not None
        job()
        began = time.thread_time()
        self.wal.job_done()
        return (spent + time.thread_time() - began) * 1_000

    def next_turn(self) -> float:
        first, groups = self.turn_no * AT_ONCE, len(self.last)
        self.turn_no += 1
        some = [(first + n) % groups for n in range(AT_ONCE)]
        return self.turn(
            [
                *(self._spoken(number) for number in some),
                *(self._covered((number + groups // 2) % groups) for number in some),
            ]
        )


def longest_turn_ms(lab: Lab, groups: int) -> float:
    folder = f"wal-{groups}"
    shutil.rmtree(lab.folder / folder, ignore_errors=True)
    life = Life(OsDisk(str(lab.folder)), folder, groups)
    gone = life.wal.deleted_files
    longest_ms = 0.0
    while life.wal.deleted_files < gone + FILES:
        longest_ms = max(longest_ms, life.next_turn())
    life.wal.close()
    shutil.rmtree(lab.folder / folder)
    return longest_ms


def measure(side: Side, lab: Lab) -> Measured:
    return {f"{groups:,} groups": [longest_turn_ms(lab, groups)] for groups in GROUPS}


ROWS = (
    Row(
        name="wal_rotation",
        title="Files of the WAL begin and go, with many groups",
        how="The longest turn of a replica's loop for its WAL, in milliseconds of processor time, while four files of "
        "16 MiB begin and four go; each turn writes for 8 groups and tells of 8 checkpoints.",
        units={f"{groups:,} groups": "ms" for groups in GROUPS},
        measure=measure,
        sides=(DISK,),
        targets=(Target(figure=f"{GROUPS[-1]:,} groups", at_most=5, worst=True, side=DISK),),
    ),
)
