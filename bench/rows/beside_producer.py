"""Commit latency beside one producer: what a partition writes to the disk, commits to the same disk wait for.

Everything is on one machine, so the three logs of the topic and the three WALs share one disk, and a flush of a large
segment can keep a commit from it. Commits come at a fixed rate (open loop); the producer has one partition. Its rate
leaves two processors some rest: where three brokers, the generator and the producer fill them, each message waits for
its turn, and that is all that the row would say. So the brokers' share of the processors is a figure.
"""

import time
from typing import NamedTuple

from bench.compare import KAFKA, MUSTER, Target
from bench.errors import RunFailed
from bench.far_behind import TOPIC, Writer
from bench.lab import Lab, Own
from bench.row import Measured, Row
from bench.rows.load import run_once
from bench.sides import Side

RATE = 500
BYTES_PER_S = 5_000_000
WARMUP, WINDOW = "1s", "5s"
"""Without the generator's first second, in which all its connections commit at once."""
WINDOWS = 8
MAKES_PACE = 0.9
"""A producer that writes less than this part of its rate is no such load: the run has failed."""
AT_REST_S = 20
"""After the warm-up: what it left to flush and to checkpoint is done. Else it is part of "alone"."""
FILLED_S = 10
"""How long it writes before its first window: there is something to flush by then."""
MB = 1e6


def measure(side: Side, lab: Lab) -> Measured:
    time.sleep(AT_REST_S)
    alone = [_window(side, lab) for _ in range(WINDOWS)]
    writer = Writer(side.bootstrap)
    writer.rate = BYTES_PER_S
    writer.start()
    try:
        time.sleep(FILLED_S)
        began_s, written = time.monotonic(), writer.good_bytes
        beside = [_window(side, lab) for _ in range(WINDOWS)]
        rate = (writer.good_bytes - written) / (time.monotonic() - began_s)
    finally:
        writer.stop()
    if writer.failed is not None or rate < MAKES_PACE * BYTES_PER_S:
        raise RunFailed(f"the producer wrote {rate / MB:.1f} MB/s: {writer.failed}")
    return {
        "written": [rate / MB],
        "p99 alone": [one.p99_ms for one in alone],
        "p99 beside it": [one.p99_ms for one in beside],
        "worst p99": [max(one.p99_ms for one in beside)],
        "processors alone": [one.cores for one in alone],
        "processors beside it": [one.cores for one in beside],
    }


class _Window(NamedTuple):
    """Some seconds of commits."""

    p99_ms: float
    cores: float
    """What the brokers used, all together."""


def _window(side: Side, lab: Lab) -> _Window:
    result = run_once(side, lab, "commit", rate=RATE, warmup=WARMUP, window=WINDOW)
    if result["latency_us"] is None:
        raise RunFailed("no commit was answered")
    return _Window(result["latency_us"]["p99"] / 1_000, result["cpu_us"][side.name] / result["seconds"] / 1e6)


ROWS = (
    Row(
        name="beside_producer",
        title="Commits beside a producer",
        how=f"{RATE} commits a second of 10 partitions, open loop, in windows of five seconds: {WINDOWS} alone, then "
        f"{WINDOWS} beside one producer of {BYTES_PER_S / MB:.0f} MB/s to one partition of three replicas, all on one "
        "disk. The median window's p99, and the worst one's; the processors are those that the three brokers used. "
        "Muster syncs to disk on a majority, Kafka does not.",
        units={
            "written": "MB/s",
            "p99 alone": "ms",
            "p99 beside it": "ms",
            "worst p99": "ms",
            "processors alone": "cores",
            "processors beside it": "cores",
        },
        sides=(MUSTER, KAFKA),
        measure=measure,
        targets=(Target(figure="p99 beside it", at_most=5, of_figure="p99 alone"),),
        runs=1,
        own=Own(topics={TOPIC: 1, "bench": 20, "stream": 6}),
    ),
)
