"""The longest turn of Muster's event loop under commits and a large rebalance: it bounds every latency."""

from bench.compare import MUSTER, Target
from bench.lab import Lab
from bench.muster_side import Muster
from bench.row import Measured, Row
from bench.rows.rebalance import storm_of
from bench.sides import Side


def measure(side: Side, lab: Lab) -> Measured:
    assert isinstance(side, Muster)
    lab.load(side, "commit", depth=4, window="3s")
    storm_of(1_000)(side, lab)
    turns = [side.metric(node, "muster_loop_longest_turn_seconds") for node in range(side.nodes)]
    return {"longest turn": [max(turns) * 1_000]}


ROWS = (
    Row(
        name="longest_turn",
        title="Longest turn of the event loop",
        how="Of three replicas, in the last minute or two, after commits at depth 4 and rebalances of 1,000.",
        units={"longest turn": "ms"},
        measure=measure,
        sides=(MUSTER,),
        targets=(Target(figure="longest turn", at_most=20, worst=True),),
        runs=3,
    ),
)
