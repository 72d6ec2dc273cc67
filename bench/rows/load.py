"""Rows with one kind of request at full speed or at a fixed rate: heartbeats, commits, OffsetFetch, Produce, Fetch."""

from collections.abc import Callable
from typing import Any

from bench.compare import ECHO, KAFKA, KAFKA_FSYNC, MUSTER, UVLOOP, Target
from bench.lab import Lab
from bench.row import Measured, Row
from bench.sides import Side

CONNECTIONS = 50
WARMUP, WINDOW = "1s", "2500ms"
ECHO_WARMUP, ECHO_WINDOW = "200ms", "1s"
GENERATOR_HEADROOM = 3
"""Against the compiled echo server the generator must reach this multiple of the rate that it reports for a server."""

LATENCY_UNITS = {"rate": "/s", "p50": "ms", "p99": "ms", "CPU": "µs a request", "other cluster": "% of a core"}
Measure = Callable[[Side, Lab], Measured]


def run_once(side: Side, lab: Lab, op: str, **options: Any) -> dict[str, Any]:
    windows = {"warmup": WARMUP, "window": WINDOW}
    if side.echoed:
        windows = {"warmup": ECHO_WARMUP, "window": ECHO_WINDOW}
    return lab.load(side, op, **{"connections": CONNECTIONS, **windows, **options})


def common(result: dict[str, Any], side: Side) -> dict[str, list[float]]:
    """The figures that every load has."""
    figures = {"rate": [result["rate"]]}
    if result["latency_us"] is not None:
        figures["p50"] = [result["latency_us"]["p50"] / 1_000]
        figures["p99"] = [result["latency_us"]["p99"] / 1_000]
    if result["good"]:
        figures["CPU"] = [result["cpu_us"][side.name] / result["good"]]
    others = [us for name, us in result["cpu_us"].items() if name != side.name and name in (MUSTER, KAFKA, KAFKA_FSYNC)]
    if others and not side.echoed:
        figures["other cluster"] = [sum(others) / result["seconds"] / 1e4]
    return figures


def closed_loop(op: str, **options: Any) -> Measure:
    def measure(side: Side, lab: Lab) -> Measured:
        result = run_once(side, lab, op, **options)
        if op == "commit" and options.get("depth") == 1 and side.name == KAFKA:
            lab.kafka_commit_rate = result["rate"]
        lab.keep_latencies(side, result)
        return common(result, side)

    return measure


def commit_at_half_rate(side: Side, lab: Lab) -> Measured:
    result = run_once(side, lab, "commit", rate=lab.kafka_rate() / 2)
    lab.keep_latencies(side, result)
    late = result["lag_us"]["p99"] / 1_000 if result["lag_us"] else 0.0
    return {**common(result, side), "sent late, p99": [late]}


def stream(op: str, **options: Any) -> Measure:
    """Produce and Fetch: the figures are records and bytes."""

    def measure(side: Side, lab: Lab) -> Measured:
        if op == "fetch":
            fill(side, lab)
        result = run_once(side, lab, op, topic="stream", partitions=6, connections=6, **options)
        figures = common(result, side)
        del figures["CPU"]
        figures["rate"] = [result["records_per_s"]]
        figures["volume"] = [result["bytes_per_s"] / 1e6]
        return figures

    return measure


def fill(side: Side, lab: Lab) -> None:
    """Make data to fetch: large batches for a second; partitions that have data get more."""
    lab.load(
        side,
        "produce",
        topic="stream",
        partitions=6,
        connections=6,
        depth=2,
        value_bytes=1_000,
        warmup="0s",
        window="1s",
    )


def generator_checks(*sides: str) -> tuple[Target, ...]:
    return tuple(Target(side=ECHO, figure="rate", at_least=GENERATOR_HEADROOM, of_side=side) for side in sides)


def _load_row(name: str, title: str, how: str, op: str, depth: int, targets: tuple[Target, ...], *more: str) -> Row:
    return Row(
        name=name,
        title=title,
        how=how,
        units=LATENCY_UNITS,
        sides=(MUSTER, KAFKA, *more, ECHO),
        measure=closed_loop(op, depth=depth),
        targets=(*targets, *generator_checks(MUSTER, KAFKA)),
    )


_HEARTBEATS = (
    "50 connections, each the one member of a stable group; heartbeats as fast as answers come, {} in flight each."
)
_COMMITS = (
    "50 members of 50 groups commit 10 partitions each time, {} in flight each; Muster syncs to disk on a majority."
)

ROWS = (
    _load_row(
        "heartbeat_1", "Heartbeat, one in flight", _HEARTBEATS.format("one"), "heartbeat", 1,
        (
            Target(figure="rate", at_least=1.2, of_side=KAFKA),
            Target(figure="rate", at_least=0.6, of_side=UVLOOP),
            Target(figure="CPU", at_most=0.5, of_side=KAFKA),
        ),
        UVLOOP,
    ),
    _load_row(
        "heartbeat_32", "Heartbeat, 32 in flight", _HEARTBEATS.format("32"), "heartbeat", 32,
        (Target(figure="rate", at_least=4, of_side=KAFKA),),
        UVLOOP,
    ),
    _load_row(
        "commit_1", "Commit of 10 partitions, one in flight", _COMMITS.format("one"), "commit", 1,
        (
            Target(figure="rate", at_least=3, of_side=KAFKA),
            Target(figure="p50", at_most=0.3, of_side=KAFKA),
            Target(figure="p99", at_most=1, of_side=KAFKA),
        ),
        KAFKA_FSYNC,
    ),
    _load_row(
        "commit_10", "Commit of 10 partitions, 10 in flight", _COMMITS.format("10"), "commit", 10,
        (Target(figure="rate", at_least=3, of_side=KAFKA),),
        KAFKA_FSYNC,
    ),
    Row(
        name="commit_half",
        title="Commit of 10 partitions at half of Kafka's rate",
        how="Open loop at half of Kafka's one-in-flight rate; latencies count from when a commit was due.",
        units={**LATENCY_UNITS, "sent late, p99": "ms"},
        sides=(MUSTER, KAFKA, KAFKA_FSYNC),
        measure=commit_at_half_rate,
        targets=(Target(figure="p50", at_most=0.3, of_side=KAFKA), Target(figure="p99", at_most=1, of_side=KAFKA)),
    ),
    _load_row(
        "offset_fetch", "OffsetFetch of 10 partitions",
        "50 connections, one group each, one in flight; Muster confirms its leadership with a majority first.",
        "offset-fetch", 1,
        (Target(figure="rate", at_least=2, of_side=KAFKA),),
    ),
    Row(
        name="produce_100",
        title="Produce, 100-byte records",
        how="6 partitions, a connection each, batches of 100, 4 in flight, acks=all. Muster syncs, Kafka does not.",
        units={"rate": "records/s", "volume": "MB/s", "p50": "ms", "p99": "ms", "other cluster": "% of a core"},
        measure=stream("produce", depth=4),
        targets=(Target(figure="rate", at_least=0.5, of_side=KAFKA),),
    ),
    Row(
        name="produce_1000",
        title="Produce, 1,000-byte records",
        how="As above, with 1,000-byte records in batches of 16.",
        units={"rate": "records/s", "volume": "MB/s", "p50": "ms", "p99": "ms", "other cluster": "% of a core"},
        measure=stream("produce", depth=4, value_bytes=1_000, batch_records=16),
        targets=(Target(figure="rate", at_least=0.5, of_side=KAFKA),),
    ),
    Row(
        name="fetch",
        title="Fetch",
        how="6 partitions, a connection each, one Fetch of up to 1 MiB in flight, from the start again and again.",
        units={"volume": "MB/s", "rate": "records/s", "p50": "ms", "p99": "ms", "other cluster": "% of a core"},
        measure=stream("fetch"),
        targets=(Target(figure="volume", at_least=0.5, of_side=KAFKA),),
    ),
)  # fmt: skip
