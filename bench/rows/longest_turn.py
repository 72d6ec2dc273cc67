"""The longest turn of Muster's event loop under commits and a large rebalance: it bounds every latency.

It has a cluster of its own: while another cluster's brokers use the CPUs, every turn is long. Forming a cluster and
starting a process take long turns without any client waiting, so these must have left the metric's window first.
"""

import time

from bench import processes
from bench.compare import MUSTER, Target
from bench.lab import Lab, Own
from bench.muster_side import Muster
from bench.row import Measured, Row
from bench.rows.rebalance import storm_of
from bench.sides import Side

LOOK_BACK_S = 120
"""The metric covers the last one to two minutes."""


def measure(side: Side, lab: Lab) -> Measured:
    assert isinstance(side, Muster)
    time.sleep(max(0.0, LOOK_BACK_S - min(processes.age_s(pid) for pid in side.pids())))
    lab.load(side, "commit", depth=4, window="3s")
    storm_of(1_000)(side, lab)
    turns = [side.metric(node, "muster_loop_longest_turn_seconds") for node in range(side.nodes)]
    collections = [side.metric(node, "muster_gc_longest_pause_seconds") for node in range(side.nodes)]
    return {"longest turn": [max(turns) * 1_000], "longest full collection": [max(collections) * 1_000]}


ROWS = (
    Row(
        name="longest_turn",
        title="Longest turn of the event loop",
        how="Of three replicas, in the last minute or two, after commits at depth 4 and rebalances of 1,000; and the "
        "longest of the collector's walks over all objects since the start.",
        units={"longest turn": "ms", "longest full collection": "ms"},
        measure=measure,
        sides=(MUSTER,),
        targets=(Target(figure="longest turn", at_most=20, worst=True),),
        runs=1,
        own=Own(),
    ),
)
