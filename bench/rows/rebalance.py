"""Join to stable and forced rebalance of one group, and the effect on other groups of the same coordinator."""

from collections.abc import Callable

from bench import generator
from bench.compare import KAFKA, Target
from bench.lab import Lab
from bench.row import Measured, Row
from bench.sides import Side

FORCED = 3


def storm_of(members: int, trigger: str = "metadata") -> Callable[[Side, Lab], Measured]:
    def measure(side: Side, lab: Lab) -> Measured:
        result = generator.run(
            "storm", bootstrap=side.bootstrap, members=members, times=FORCED, trigger=trigger,
            cpu=f"{side.name}={','.join(map(str, side.pids()))}",
        )  # fmt: skip
        figures = {
            "join to stable": [result["join_to_stable_ms"]],
            "forced rebalance": result["forced_rebalance_ms"],
            "CPU": [result["cpu_us"][side.name] / 1_000 / FORCED],
        }
        latency = result["bystanders"]["latency_us"]
        if latency is not None:
            figures["neighbours' heartbeat p99"] = [latency["p99"] / 1_000]
            figures["neighbours' heartbeat max"] = [latency["max"] / 1_000]
        return figures

    return measure


def _row(members: int, targets: tuple[Target, ...] = ()) -> Row:
    return Row(
        name=f"rebalance_{members}",
        title=f"A group of {members:,} members",
        how=f"{members:,} connections join at once (the initial delay of 3 s, extended once, is in the figure); then "
        f"one member changes its metadata, {FORCED} times, and the clock runs until the last has its new assignment. "
        "Twenty groups with the same coordinator send 500 heartbeats a second meanwhile.",
        units={
            "join to stable": "ms",
            "forced rebalance": "ms",
            "neighbours' heartbeat p99": "ms",
            "neighbours' heartbeat max": "ms",
            "CPU": "ms a rebalance",
        },
        measure=storm_of(members),
        targets=targets,
    )


ROWS = (
    _row(10),
    _row(100),
    _row(
        1_000,
        (
            Target(figure="forced rebalance", at_most=1, of_side=KAFKA),
            Target(figure="neighbours' heartbeat p99", at_most=10),
        ),
    ),
)
