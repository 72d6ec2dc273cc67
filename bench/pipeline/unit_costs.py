"""Processor time of one byte, one log partition and one publication: what `job.unit_costs` estimates with.

    python -m bench.pipeline.unit_costs

A log partition with one batch shows what a task costs however little it reads; the rest of a large one's time is its
bytes'. A publication is what the driver does for a cluster beside its tasks. Least of TURNS, in this process, without
Spark; processor time, so that neighbours matter little.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from muster_pipeline.job import stage
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.job.stage import Stage
from muster_pipeline.store.place import place
from muster_pipeline.transforms.settings import FoldSettings

from bench.pipeline.plain_log import Shape, make
from tests.pipeline.store import logfolder

RECORDS = 1_000_000
PARTITIONS = 50
TURNS = 3
SETTINGS = FoldSettings(cluster="bench")


def least_s(work: Callable[[int], None]) -> float:
    """Processor seconds of the cheapest of TURNS turns."""
    found = []
    for turn in range(TURNS):
        began = time.process_time()
        work(turn)
        found.append(time.process_time() - began)
    return min(found)


def task_of(log: Path, tables: Path) -> Stage:
    return Stage(input=SegmentInput.listed(str(log), "bench"), place=place(str(tables)), settings=SETTINGS, token="t")


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        large = task_of(make(root, Shape.of(RECORDS)), root / "large")
        size = large.input.sizes()[0]
        for number in range(PARTITIONS):
            logfolder.write(root / "small", number, [logfolder.commits(1, ["g"], 2)])
        small = task_of(root / "small", root / "out")
        task_s = least_s(lambda turn: [stage.run(small, n, f"s{turn}-{n}") for n in range(PARTITIONS)] and None)
        task_s /= PARTITIONS
        large_s = least_s(lambda turn: stage.run(large, 0, f"large-{turn}") and None)

        def publish(turn: int) -> None:
            build(None, small.input, place(str(root / "published" / str(turn))), SETTINGS)

        publish_s = least_s(publish) - PARTITIONS * task_s
        sys.stdout.write(
            f"a byte of log: {(large_s - task_s) * 1e9 / size:.1f} ns of processor time (a log "
            f"partition of {size:,} bytes)\n"
            f"a log partition, however small: {task_s * 1e3:.0f} ms\n"
            f"a publication of {PARTITIONS} log partitions: {publish_s * 1e3:.0f} ms\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
