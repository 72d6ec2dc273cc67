"""What TLS costs: the same loads in the clear and encrypted, whole handshakes, and the memory of idle connections.

Each server has both listeners in the same process, so that plaintext and TLS are measured in one run. The generator
verifies chain and host name, resumes no session, and encrypts in its one thread (`bench/loadgen/tls.go`): over TLS its
own share of the machine is larger, for both sides alike.
"""

import contextlib
import time
from collections.abc import Iterator

from typing_extensions import override

from bench import generator
from bench.compare import Target
from bench.errors import RunFailed
from bench.lab import Lab, Own
from bench.row import Measured, Row
from bench.rows.load import fill, run_once
from bench.sides import Cluster, Side

WARMUP_S = 4
WINDOW = "4s"
CONNECTIONS_AT_ONCE = 16
IDLE_CONNECTIONS = 10_000
SETTLE_S = 5
"""After the last handshake, before memory is read."""
KIB_MAX = 64
"""Of memory for an idle connection; asyncio's own TLS holds 280."""

LOADS: tuple[tuple[str, dict[str, object]], ...] = (
    ("heartbeat", {"depth": 1}),
    ("commit", {"depth": 1}),
    ("fetch", {"topic": "stream", "partitions": 6, "connections": 6}),
)
WAYS = ("plain", "TLS")


class Encrypted(Side):
    """The listener with TLS of a running cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.name = cluster.name
        self._cluster = cluster

    @property
    @override
    def bootstrap(self) -> str:
        return self._cluster.tls_bootstrap

    @override
    def pids(self) -> list[int]:
        return self._cluster.pids()

    @override
    def start(self) -> None:
        """Runs already."""

    @override
    def stop(self) -> None:
        """Nothing: its cluster is ended by who started it."""


def ways(side: Side) -> Iterator[tuple[str, Side, dict[str, str]]]:
    """In the clear and by TLS: the name, whom to load, and the generator's options for it."""
    assert isinstance(side, Cluster)
    if side.tls is None:
        raise RunFailed(f"{side.name} has no listener with TLS")
    yield WAYS[0], side, {}
    yield WAYS[1], Encrypted(side), {"ca": str(side.tls.ca)}


def loads(side: Side, lab: Lab) -> Measured:
    fill(side, lab)
    figures: dict[str, list[float]] = {}
    for op, options in LOADS:
        for way, one, trust in ways(side):
            result = run_once(one, lab, op, **{**options, **trust, "warmup": f"{WARMUP_S}s", "window": WINDOW})
            amount = result["bytes_per_s"] / 1e6 if op == "fetch" else result["rate"]
            figures[f"{op}, {way}"] = [amount]
            if op != "fetch":
                figures[f"{op} p99, {way}"] = [result["latency_us"]["p99"] / 1_000]
                figures[f"{op} CPU, {way}"] = [result["cpu_us"][one.name] / result["good"]]
    return figures


def connections(side: Side, lab: Lab) -> Measured:
    figures: dict[str, list[float]] = {}
    for way, one, trust in ways(side):
        result = generator.run(
            "connect", bootstrap=one.bootstrap, at_once=CONNECTIONS_AT_ONCE, warmup=f"{WARMUP_S}s", window=WINDOW,
            cpu=f"{one.name}={','.join(map(str, one.pids()))}", **trust,
        )  # fmt: skip
        if not result["good"]:
            raise RunFailed(f"{one.name} took no connection, {way}")
        figures[f"connections, {way}"] = [result["rate"]]
        figures[f"CPU, {way}"] = [result["cpu_us"][one.name] / result["good"]]
    return figures


def memory(side: Side, lab: Lab) -> Measured:
    """Plaintext connections stay open while TLS ones come, so that none of these gets memory that was given back."""
    assert isinstance(side, Cluster)
    figures: dict[str, list[float]] = {}
    with contextlib.ExitStack() as held:
        for way, one, trust in ways(side):
            before = sum(side.held_bytes())
            holder = generator.start("hold", bootstrap=one.bootstrap, count=IDLE_CONNECTIONS, prefix=way, **trust)
            held.callback(generator.stop, holder)
            time.sleep(SETTLE_S)
            figures[way] = [(sum(side.held_bytes()) - before) / IDLE_CONNECTIONS / 1024]
    return figures


_OWN = Own(tls=True)
_UNTOUCHED = Own(tls=True, warm=False, topics={})
"""What earlier loads have left in an allocator would hide connections."""
ROWS = (
    Row(
        name="tls_load",
        title="Heartbeats, commits and fetches in the clear and over TLS",
        how="50 connections with one request in flight (6 for Fetch, MB/s), TLS 1.3, first in the clear, then "
        "encrypted; the generator's own encryption is part of what the machine does.",
        units={
            **{
                f"{op}{figure}, {way}": unit
                for op in ("heartbeat", "commit")
                for figure, unit in (("", "/s"), (" p99", "ms"), (" CPU", "µs a request"))
                for way in WAYS
            },
            **{f"fetch, {way}": "MB/s" for way in WAYS},
        },
        measure=loads,
        runs=1,
        own=_OWN,
    ),
    Row(
        name="tls_handshakes",
        title="Connections and handshakes a second",
        how=f"{CONNECTIONS_AT_ONCE} at once: connect, one FindCoordinator, close; over TLS with a whole handshake "
        "(P-256), never a resumed one.",
        units={**{f"connections, {way}": "/s" for way in WAYS}, **{f"CPU, {way}": "µs a connection" for way in WAYS}},
        measure=connections,
        runs=1,
        own=_OWN,
    ),
    Row(
        name="tls_memory",
        title=f"Memory of {IDLE_CONNECTIONS:,} idle connections",
        how="What three servers hold more than before, for each connection that made one request: RSS of replicas, "
        f"live heap of JVMs. First {IDLE_CONNECTIONS:,} in the clear, which stay, then as many over TLS.",
        units=dict.fromkeys(WAYS, "KiB a connection"),
        measure=memory,
        targets=(Target(figure="TLS", at_most=KIB_MAX),),
        runs=1,
        own=_UNTOUCHED,
    ),
)
