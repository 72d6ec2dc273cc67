"""Groups beside an existing Kafka: what records cost on their way through Muster, and how long a kill is felt.

Three brokers of Kafka, and three replicas of Muster through which the same load goes as goes to the brokers directly.
Latency is that of an open loop at a rate far below what either bears. The coordinator of a librdkafka consumer that
commits is killed: Muster's, and then, of a consumer that asks the brokers themselves, Kafka's.
"""

import time
from collections import defaultdict
from typing import Any

from bench.compare import MUSTER, Target
from bench.failover import GROUP, SETTLE_S, TOPIC
from bench.lab import Lab, Own
from bench.muster_side import Muster
from bench.row import Measured, Row
from bench.rows.outage import committing, first_good
from bench.sides import Cluster, Side

STREAM, PARTITIONS = "stream", 6
BATCH, VALUE_BYTES = 100, 100
PACED = 300
"""Batches a second of the open loop."""
WARMUP, WINDOW = "2s", "4s"
ROUNDS = 3
"""Of all loads, both ways in turn, after one that is not counted."""
KILLS = 3
DIRECT, THROUGH = "direct", "through"


def measure(side: Side, lab: Lab) -> Measured:
    assert isinstance(side, Muster)
    assert side.beside is not None
    ways: dict[str, Cluster] = {DIRECT: side.beside, THROUGH: side}
    figures: dict[str, list[float]] = defaultdict(list)
    for cluster in ways.values():
        loads(cluster, lab)  # Java compiles what runs often, so the first seconds of a broker are its slowest.
    for _ in range(ROUNDS):
        for named, cluster in ways.items():
            for figure, value in loads(cluster, lab).items():
                figures[f"{figure}, {named}"].append(value)
    pairs = zip(figures[f"p99, {THROUGH}"], figures[f"p99, {DIRECT}"], strict=True)
    figures["p99 added"] = [through - direct for through, direct in pairs]
    for named in (THROUGH, DIRECT):
        figures[f"first good commit, {named}"] = kills(ways[named])
    return figures


def loads(cluster: Cluster, lab: Lab) -> dict[str, float]:
    produced = load(cluster, lab, "produce", depth=4, **batches())
    paced = load(cluster, lab, "produce", rate=PACED, **batches())
    fetched = load(cluster, lab, "fetch")
    return {
        "produce": produced["records_per_s"],
        "fetch": fetched["records_per_s"],
        "p99": paced["latency_us"]["p99"] / 1_000,
    }


def batches() -> dict[str, Any]:
    return {"batch_records": BATCH, "value_bytes": VALUE_BYTES}


def load(cluster: Cluster, lab: Lab, op: str, **options: Any) -> dict[str, Any]:
    """A connection for each partition."""
    of = {"topic": STREAM, "partitions": PARTITIONS, "connections": PARTITIONS}
    return lab.load(cluster, op, warmup=WARMUP, window=WINDOW, **of, **options)


def kills(cluster: Cluster) -> list[float]:
    samples = []
    with committing(cluster) as committer:
        for _ in range(KILLS):
            time.sleep(SETTLE_S)
            node = cluster.coordinator(GROUP)
            moment_s = time.monotonic()
            cluster.kill(node)
            samples.append(first_good(committer, moment_s))
            cluster.revive(node)
    return samples


ROWS = (
    Row(
        name="beside_kafka",
        title="Groups beside an existing Kafka",
        how=f"{PARTITIONS} partitions, records of {VALUE_BYTES} bytes in batches of {BATCH}, a connection each with "
        "four in flight, to three brokers of Kafka and through three replicas of Muster; p99 of "
        f"{PACED} batches a second, open loop; {ROUNDS} rounds, both ways in turn, after one to warm up. "
        f"{KILLS} kills of the coordinator, Muster's and then Kafka's, to librdkafka's first good commit.",
        units={
            "produce, direct": "records/s",
            "produce, through": "records/s",
            "fetch, direct": "records/s",
            "fetch, through": "records/s",
            "p99, direct": "ms",
            "p99, through": "ms",
            "p99 added": "ms",
            "first good commit, through": "s",
            "first good commit, direct": "s",
        },
        measure=measure,
        targets=(
            Target(figure="produce, through", at_least=0.3, of_figure="produce, direct"),
            Target(figure="fetch, through", at_least=0.3, of_figure="fetch, direct"),
            Target(figure="p99 added", at_most=2),
            Target(figure="first good commit, through", at_most=1, worst=True),
        ),
        sides=(MUSTER,),
        runs=1,
        own=Own(topics={STREAM: PARTITIONS, TOPIC: 1}, warm=False, beside_kafka=True),
    ),
)
