"""Topics in Redis beside one client of redis-py on the same server, and beside embedded topics of the same cluster.

Records of 100 bytes go through Muster by Kafka's protocol, and as the same entries (the fields of the first one that
Muster wrote: a time and a value) by `XADD`, in pipelines as long as a batch; they are read back by Fetch and by
`XREAD`. The server keeps nothing, so no disk is in it.
"""

import time
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import redis
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from bench.compare import MUSTER, Target
from bench.errors import RunFailed
from bench.lab import Lab, Own
from bench.muster_side import Muster
from bench.row import Measured, Row
from bench.sides import ADMIN_TIMEOUT_S, Side, admin_client

PARTITIONS = 6
BATCH, VALUE_BYTES = 100, 100
READ = 1_000
"""Entries of one XREAD, as many as a Fetch reads of a stream at a time."""
WARMUP, WINDOW = "1s", "3s"
WINDOW_S = 3.0
IN_REDIS, EMBEDDED = "in-redis", "stream"
PRODUCE, FETCH = "produce", "fetch"


def measure(side: Side, lab: Lab) -> Measured:
    assert isinstance(side, Muster)
    assert side.redis is not None
    admin = admin_client(side.bootstrap)
    new = NewTopic(IN_REDIS, PARTITIONS, side.nodes, config={"topic.store": "redis"})
    admin.create_topics([new])[IN_REDIS].result(ADMIN_TIMEOUT_S)
    side.settle()
    figures = {}
    for topic, named in ((IN_REDIS, "in Redis"), (EMBEDDED, "embedded")):
        produced = through_us(side, lab, PRODUCE, topic)
        fetched = through_us(side, lab, FETCH, topic)
        figures[f"{PRODUCE}, {named}"] = [produced["records_per_s"]]
        figures[f"{PRODUCE} p99, {named}"] = [produced["latency_us"]["p99"] / 1_000]
        figures[f"{FETCH}, {named}"] = [fetched["records_per_s"]]
    with redis.Redis(port=side.redis.port, protocol=2) as client:
        figures["XADD"] = [rate(added(client, fields_of_ours(client)))]
        figures["XREAD"] = [rate(read(client))]
    return figures


def through_us(side: Side, lab: Lab, op: str, topic: str) -> dict[str, Any]:
    """A connection for each partition; Produce with four batches in flight."""
    options: dict[str, Any] = {"topic": topic, "partitions": PARTITIONS, "connections": PARTITIONS}
    if op == PRODUCE:
        options |= {"depth": 4, "batch_records": BATCH, "value_bytes": VALUE_BYTES}
    return lab.load(side, op, warmup=WARMUP, window=WINDOW, **options)


def streams() -> list[str]:
    return [f"plain:{partition}" for partition in range(PARTITIONS)]


def fields_of_ours(client: "redis.Redis") -> dict[Any, Any]:
    """Names and values of the first entry in one of Muster's streams."""
    for name in client.scan_iter(match=f"*{IN_REDIS}*", _type="stream"):
        for _, fields in client.xrange(name, count=1):
            return dict(fields)
    raise RunFailed("Muster has no entry in any stream")


def added(client: "redis.Redis", fields: dict[Any, Any]) -> Iterator[int]:
    """How many entries each pipeline added."""
    for name in cycle(streams()):
        pipeline = client.pipeline(transaction=False)
        for _ in range(BATCH):
            pipeline.xadd(name, fields)
        yield len(pipeline.execute())


def read(client: "redis.Redis") -> Iterator[int]:
    """How many entries each XREAD brought; each stream from its start again and again."""
    ids: dict[str, Any] = dict.fromkeys(streams(), "0")
    for name in cycle(streams()):
        answer = client.xread({name: ids[name]}, count=READ)
        entries = answer[0][1] if answer else []
        ids[name] = entries[-1][0] if len(entries) == READ else "0"
        yield len(entries)


def rate(done: Iterator[int], clock: Callable[[], float] = time.monotonic) -> float:
    """Entries a second."""
    began_s, count = clock(), 0
    for some in done:
        count += some
        took_s = clock() - began_s
        if took_s >= WINDOW_S:
            if not count:
                raise RunFailed("no entry was added or read")
            return count / took_s
    raise AssertionError("it does not end")


ROWS = (
    Row(
        name="redis",
        title="Topics in Redis",
        how=f"{PARTITIONS} partitions, records of {VALUE_BYTES} bytes in batches of {BATCH}, a connection each with "
        "four in flight; then Fetch from the start again and again. XADD and XREAD: one client of redis-py with "
        f"hiredis on the same server, the same entries, {BATCH} in a pipeline, {READ} in an answer. The server has "
        "neither append-only file nor replica (`redis.durability=memory`).",
        units={
            "produce, in Redis": "records/s",
            "produce p99, in Redis": "ms",
            "XADD": "records/s",
            "produce, embedded": "records/s",
            "produce p99, embedded": "ms",
            "fetch, in Redis": "records/s",
            "XREAD": "records/s",
            "fetch, embedded": "records/s",
        },
        measure=measure,
        targets=(
            Target(figure="produce, in Redis", at_least=0.3, of_figure="XADD"),
            Target(figure="fetch, in Redis", at_least=0.5, of_figure="XREAD"),
        ),
        sides=(MUSTER,),
        runs=3,
        own=Own(redis=True),
    ),
)
