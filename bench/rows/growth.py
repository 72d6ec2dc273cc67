"""Cost of a request while the number of groups grows: it should not know how many there are."""

from bench import generator
from bench.compare import Target
from bench.lab import Lab
from bench.row import Measured, Own, Row
from bench.rows.load import common, run_once
from bench.sides import Side

STEPS = (10, 1_000, 100_000)
FLAT_WITHIN = 1.3
OPS = ("heartbeat", "commit")


def measure(side: Side, lab: Lab) -> Measured:
    figures: dict[str, list[float]] = {}
    for groups in STEPS:
        generator.run("fill", bootstrap=side.bootstrap, prefix="growth", groups=groups, partitions=1)
        for op in OPS:
            figures[f"{op}, {groups:,} groups"] = common(run_once(side, lab, op, window="5s"), side)["CPU"]
    return figures


ROWS = (
    Row(
        name="growth",
        title="From 10 to 100,000 groups",
        how="50 members send heartbeats, then commits, one in flight, beside so many other groups.",
        units={f"{op}, {groups:,} groups": "µs a request" for op in OPS for groups in STEPS},
        measure=measure,
        targets=tuple(
            Target(figure=f"{op}, {STEPS[-1]:,} groups", at_most=FLAT_WITHIN, of_figure=f"{op}, {STEPS[0]:,} groups")
            for op in OPS
        ),
        runs=1,
        own=Own(),
    ),
)
