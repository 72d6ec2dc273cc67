"""Cost of a request while the number of groups grows: it should not depend on that number.

Work that filling leaves behind (checkpoints, cleaning, garbage collection) does not belong to a request: each step
begins once the servers are idle, or after `REST_S_MAX`.
"""

import time

from bench import generator
from bench.compare import Target
from bench.lab import Lab, Own
from bench.processes import cores_used
from bench.row import Measured, Row
from bench.rows.load import common, run_once
from bench.sides import Side

STEPS = (10, 1_000, 100_000)
FLAT_WITHIN = 1.3
OPS = ("heartbeat", "commit")
REST_SHARE = 0.15
"""Share of a core below which each server counts as idle; an idle one takes less than a tenth."""
REST_LOOK_S = 3
REST_S_MAX = 90


def come_to_rest(pids: list[int]) -> None:
    ends_s = time.monotonic() + REST_S_MAX
    while max(cores_used(pids, REST_LOOK_S)) > REST_SHARE and time.monotonic() < ends_s:
        pass


def measure(side: Side, lab: Lab) -> Measured:
    figures: dict[str, list[float]] = {}
    for groups in STEPS:
        generator.run("fill", bootstrap=side.bootstrap, prefix="growth", groups=groups, partitions=1)
        come_to_rest(side.pids())
        for op in OPS:
            figures[f"{op}, {groups:,} groups"] = common(run_once(side, lab, op, window="5s"), side)["CPU"]
    return figures


ROWS = (
    Row(
        name="growth",
        title="From 10 to 100,000 groups",
        how="50 members send heartbeats, then commits, one in flight, beside so many other groups; each step begins "
        "when the servers have come to rest.",
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
