"""Cleaning ten million records over a hundred thousand keys: memory, time, and how long the loop waits beside it.

No cluster: a partition's log on the real disk, in a process of its own whose memory is looked at. The round runs in a
thread, step by step with the pauses of the product's paced jobs, without the bound of bytes a second; the main thread
stands for the loop: it wants to run every millisecond, and how late it gets to is what requests would wait. Every
fourth batch is a transaction, and every third of these is aborted. `python -m bench.rows.compaction FOLDER RECORDS`
does it with fewer records and smaller segments, to see that it runs.
"""

import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from muster_coordinator.limits import MIB
from muster_coordinator.records.batch import encode_batch, stamp
from muster_coordinator.records.control import EndMarker, TransactionMarker, marker_batch
from muster_coordinator.runtime.disk import OsDisk
from muster_coordinator.runtime.limits import PACED_PAUSE_MS
from muster_coordinator.runtime.loop import SWITCH_INTERVAL_SECONDS
from muster_coordinator.storage import cleaning
from muster_coordinator.storage.contract import NO_RECOVERY_POINT
from muster_coordinator.storage.partition_log import PartitionLog
from muster_coordinator.topics.cleaning.plan import groups
from muster_coordinator.topics.cleaning.rounds import Round

from bench.compare import DISK, Target
from bench.lab import Lab
from bench.row import Measured, Row
from bench.sides import Side

RECORDS = 10_000_000
KEYS = 100_000
RECORDS_PER_BATCH = 1_000
SEGMENT_BYTES = 64 * MIB
MEMORY_BYTES = 128 * MIB
SECONDS_MAX = 900
PAGE_BYTES = 4_096
AT_MS = 1_700_000_000_000
PRODUCER = 7
TRANSACTIONS_EVERY, ABORTED_EVERY = 4, 3


def fill(disk: OsDisk, records: int) -> PartitionLog:
    segment_bytes = max(MIB, SEGMENT_BYTES * records // RECORDS)
    log = PartitionLog.open(disk, "compaction", NO_RECOVERY_POINT, 0, segment_bytes=segment_bytes)

    def batches(**options: Any) -> list[bytes]:
        return [
            encode_batch(
                ((b"key-%06d" % key, b"value of some length") for key in range(first, first + RECORDS_PER_BATCH)),
                timestamp_ms=AT_MS,
                **options,
            )
            for first in range(0, KEYS, RECORDS_PER_BATCH)
        ]

    plain = batches()
    transactional = batches(producer_id=PRODUCER, producer_epoch=0, base_sequence=0, transactional=True)
    markers = [marker_batch(TransactionMarker(PRODUCER, 0, EndMarker(commit, 1), 1), AT_MS) for commit in (False, True)]
    for number in range(records // RECORDS_PER_BATCH):
        ends, rest = divmod(number, TRANSACTIONS_EVERY)
        kind = plain if rest else transactional
        log.append(stamp(kind[number % len(kind)], log.next_offset, 1))
        if not rest:
            log.append(stamp(markers[ends % ABORTED_EVERY != 0], log.next_offset, 1))
    job = log.flush_job(1)
    job()
    log.flush_done()
    return log


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def clean(disk: OsDisk, log: PartitionLog) -> int:
    """A whole round; returns the bytes that are left of what was cleaned."""
    sealed, views = log.sealed(), log.views()
    summaries = {summary.base: summary for summary in sealed}
    round_ = Round(
        now_ms=AT_MS,
        delete_retention_ms=0,
        memory_bytes=MEMORY_BYTES,
        first_dirty=0,
        producers={},
    )
    for summary in sealed:
        for _ in cleaning.look(disk, "compaction", [summary], 0, round_, log.aborted_lists(summary)):
            time.sleep(PACED_PAUSE_MS / 1_000)
    assert round_.keys == KEYS
    left = 0
    for group in groups(views, SEGMENT_BYTES):
        some = [summaries[view.base_offset] for view in group]
        aborted = [log.aborted_lists(summary) for summary in some]
        steps = cleaning.clean(disk, "compaction", some, round_, aborted)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                left += stop.value.new.size
                break
            time.sleep(PACED_PAUSE_MS / 1_000)
    return left


def run(folder: str, records: int) -> dict[str, float]:
    """In the process of its own."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    disk = OsDisk(folder)
    log = fill(disk, records)
    before_bytes = most_bytes = resident_bytes()
    left: list[int] = []
    thread = threading.Thread(target=lambda: left.append(clean(disk, log)), daemon=True)
    late_ms: list[float] = []
    began = time.monotonic()
    thread.start()
    while thread.is_alive():
        wanted = time.monotonic() + 0.001
        time.sleep(0.001)
        late_ms.append((time.monotonic() - wanted) * 1_000)
        if len(late_ms) % 100 == 0:
            most_bytes = max(most_bytes, resident_bytes())
    took = time.monotonic() - began
    assert left, "the round failed"
    late_ms.sort()
    return {
        "memory": (most_bytes - before_bytes) / MIB,
        "time": took,
        "left": left[0] / MIB,
        "late, 99 %": late_ms[len(late_ms) * 99 // 100],
        "late, 99.9 %": late_ms[len(late_ms) * 999 // 1_000],
    }


def measure(side: Side, lab: Lab) -> Measured:
    command = [sys.executable, "-m", "bench.rows.compaction", str(lab.folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    finally:
        shutil.rmtree(lab.folder / "compaction", ignore_errors=True)
    return {figure: [value] for figure, value in json.loads(done.stdout).items()}


ROWS = (
    Row(
        name="compaction",
        title="Cleaning ten million records over a hundred thousand keys",
        how="What memory grows by while a round of cleaning runs in a thread, its time without the bound of bytes a "
        "second, what is left of 340 MiB, and how much later than wanted a loop gets to run that wants to every "
        "millisecond.",
        units={"memory": "MiB", "time": "s", "left": "MiB", "late, 99 %": "ms", "late, 99.9 %": "ms"},
        measure=measure,
        sides=(DISK,),
        runs=1,
        targets=(
            Target(figure="memory", at_most=128, worst=True, side=DISK),
            Target(figure="late, 99 %", at_most=10, worst=True, side=DISK),
        ),
    ),
)

if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else RECORDS)))
