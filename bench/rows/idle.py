"""CPU cost of an idle cluster, with few and with many Raft groups."""

import time

from bench.compare import MUSTER, Target
from bench.lab import Lab, Own
from bench.processes import cores_used
from bench.row import Measured, Row
from bench.sides import Side

QUIET_S = 75
"""The writes of creating the topics, a thousand files, are flushed 30 s later (`segment_flush_ms`); before that no
server is idle."""
SECONDS = 30
MANY = 950


def measure(side: Side, lab: Lab) -> Measured:
    time.sleep(QUIET_S)
    return {"CPU": [100 * share for share in cores_used(side.pids(), SECONDS)]}


def _row(groups: int, topics: dict[str, int], at_most: float, *more: str) -> Row:
    return Row(
        name=f"idle_{groups}",
        title=f"Idle with {groups:,} Raft groups",
        how=f"CPU of each server over {SECONDS} s without a client, after {QUIET_S} s of rest.",
        units={"CPU": "% of a core"},
        measure=measure,
        sides=(MUSTER, *more),
        targets=(Target(figure="CPU", at_most=at_most, worst=True),),
        runs=1,
        own=Own(topics=topics, warm=False),
    )


ROWS = (_row(50, {}, 3, "kafka"), _row(1_000, {"many": MANY}, 8))
