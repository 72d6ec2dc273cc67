"""Transactions of ten records and one offset commit each, by 1, 10 and 100 producers of librdkafka."""

import json
import subprocess
import sys
from typing import Any

from bench import processes
from bench.compare import KAFKA, KAFKA_FSYNC, MUSTER, Target
from bench.errors import RunFailed
from bench.lab import Lab
from bench.row import Measured, Row
from bench.sides import Side

PRODUCERS = (1, 10, 100)
RECORDS = 10
WARMUP_S, WINDOW_S = 2, 4
RUN_S_MAX = 300
RUNS = 3
"""Of three loads on three sides, some minutes together."""


def measure(side: Side, lab: Lab) -> Measured:
    figures: dict[str, list[float]] = {}
    for producers in PRODUCERS:
        before_s = {pid: processes.cpu_s(pid) for pid in side.pids()}
        result = load(side, producers)
        used_s = sum(processes.cpu_s(pid) - used for pid, used in before_s.items())
        if not result["ended"]:
            raise RunFailed(f"{side.name} ended no transaction of {producers} producers in {WINDOW_S} s")
        latencies_ms = result["latencies_ms"]
        figures[named("rate", producers)] = [result["rate"]]
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            figures[named(name, producers)] = [latencies_ms[min(int(len(latencies_ms) * share), len(latencies_ms) - 1)]]
        # Of warm-up and window: at an even rate, what is used in the window is this share of it.
        in_window_s = used_s * WINDOW_S / (WARMUP_S + WINDOW_S)
        figures[named("CPU", producers)] = [in_window_s / result["ended"] * 1_000]
        figures[named("the load's own CPU", producers)] = [result["cpu_s"] / result["ended"] * 1_000]
    return figures


def load(side: Side, producers: int) -> dict[str, Any]:
    """One run of `bench.transactional_load`. Raises RunFailed where a producer was refused anything."""
    words = {
        "bootstrap": side.bootstrap,
        "producers": producers,
        "records": RECORDS,
        "warmup-s": WARMUP_S,
        "window-s": WINDOW_S,
        "prefix": f"transactional-{producers}",
    }
    command = [sys.executable, "-m", "bench.transactional_load", *(f"--{name}={word}" for name, word in words.items())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"{producers} producers have not ended after {RUN_S_MAX} s") from None
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise RunFailed(f"no result of {producers} producers: {done.stderr.strip()[-500:]}") from None
    if result["errors"]:
        raise RunFailed(f"{producers} producers: {result['errors'][0]}")
    return result


def named(figure: str, producers: int) -> str:
    return f"{figure}, {producers} producer{'s' if producers > 1 else ''}"


ROWS = (
    Row(
        name="transactions",
        title="Transactions",
        how=f"librdkafka, each producer with a `transactional.id` of its own: {RECORDS} records of 100 bytes, one "
        f"offset commit, and the end, one transaction after the other, for {WINDOW_S} s. `kafka+fsync` syncs the "
        "topic, the offsets and the transactions' log. The library's own processor time is part of what the machine "
        "does.",
        units={
            named(figure, producers): unit
            for producers in PRODUCERS
            for figure, unit in (
                ("rate", "/s"),
                ("p50", "ms"),
                ("p99", "ms"),
                ("CPU", "ms a transaction"),
                ("the load's own CPU", "ms a transaction"),
            )
        },
        sides=(MUSTER, KAFKA, KAFKA_FSYNC),
        measure=measure,
        targets=tuple(
            Target(figure=named("rate", producers), at_least=1, of_side=KAFKA_FSYNC) for producers in PRODUCERS
        ),
        runs=RUNS,
    ),
)
