"""Durable appends of the disk: no answer that promises durability can be faster."""

import statistics

from bench.compare import DISK
from bench.fdatasync import durable_appends_s
from bench.lab import Lab
from bench.row import Measured, Row
from bench.sides import Side

SECONDS = 1.0


def measure(side: Side, lab: Lab) -> Measured:
    took = sorted(durable_appends_s(lab.folder, SECONDS))
    return {
        "rate": [len(took) / SECONDS],
        "p50": [statistics.median(took) * 1_000],
        "p99": [took[int(len(took) * 0.99)] * 1_000],
    }


ROWS = (
    Row(
        name="fdatasync",
        title="The disk alone",
        how="One thread appends 4 KiB and syncs, one after the other, on the disk that holds both sides' data.",
        units={"rate": "/s", "p50": "ms", "p99": "ms"},
        measure=measure,
        sides=(DISK,),
    ),
)
