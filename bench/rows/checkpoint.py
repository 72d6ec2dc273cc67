"""Commit latency while a shard with a million offsets is checkpointed."""

from pathlib import Path

from bench.compare import MUSTER, Target
from bench.errors import RunFailed
from bench.lab import Lab, Own
from bench.muster_side import Muster
from bench.row import Measured, Row
from bench.rows.load import run_once
from bench.rows.million import fill
from bench.sides import Side

RATE = 500
WINDOW = "20s"
CHECKPOINT_BYTES = 4 * 1024 * 1024
BIG_BYTES = 10 * 1024 * 1024
"""A checkpoint of a million offsets is larger than this, every other one much smaller."""


def big_checkpoints(folder: Path) -> set[tuple[str, int]]:
    """The large checkpoints in the folders now; all but the newest two are deleted already."""
    found = set()
    for path in folder.glob("replica-*/data/**/*.ckpt"):
        try:
            if path.stat().st_size > BIG_BYTES:
                found.add((str(path), path.stat().st_mtime_ns))
        except FileNotFoundError:
            continue  # deleted in between
    return found


def measure(side: Side, lab: Lab) -> Measured:
    assert isinstance(side, Muster)
    quiet = run_once(side, lab, "commit", rate=RATE, window=WINDOW)
    fill(side)
    before = big_checkpoints(side.cluster.folder)
    loaded = run_once(side, lab, "commit", rate=RATE, window=WINDOW)
    written = len(big_checkpoints(side.cluster.folder) - before)
    if not written:
        raise RunFailed("no checkpoint of the full shard was written during the run")
    return {
        "p99 quiet": [quiet["latency_us"]["p99"] / 1_000],
        "p99 during": [loaded["latency_us"]["p99"] / 1_000],
        "max during": [loaded["latency_us"]["max"] / 1_000],
        "checkpoints": [written],
    }


ROWS = (
    Row(
        name="checkpoint",
        title="Commits while a million offsets are checkpointed",
        how=f"One offsets partition holds everything, a checkpoint every {CHECKPOINT_BYTES >> 20} MiB, {RATE} commits "
        "a second of 10 partitions, open loop; quiet: the same before the million is there.",
        units={"p99 quiet": "ms", "p99 during": "ms", "max during": "ms", "checkpoints": "written"},
        measure=measure,
        sides=(MUSTER,),
        targets=(Target(figure="p99 during", at_most=2, of_figure="p99 quiet"),),
        runs=1,
        own=Own(settings={"muster.checkpoint.bytes": str(CHECKPOINT_BYTES)}, partitions=1, warm=False),
    ),
)
