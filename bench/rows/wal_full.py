"""A small WAL with more partitions than checkpoints can free in one round of it: does any writer have to stop?

Problem: a WAL deletes its oldest file only once no partition needs it; with many partitions and a small WAL, space is
needed faster than checkpoints free it. Mechanism: librdkafka produces to all partitions at a fixed rate; the figure is
the longest time without any acknowledgement. What it does not measure is throughput: beyond what the WAL allows,
writers are slowed down, and their client retries.
"""

import threading
import time
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from typing_extensions import override

from bench.compare import MUSTER, Target
from bench.errors import RunFailed
from bench.lab import Lab, Own
from bench.row import Measured, Row
from bench.sides import Side

TOPIC = "full"
VALUE_BYTES = 4_000
TICK_S = 0.01
DRAIN_S = 30
MIB = 1024 * 1024


class Load(NamedTuple):
    """What is written, and into which WAL."""

    partitions: int
    bytes_per_s: int
    window_s: int
    wal_bytes: int
    wal_file_bytes: int


SMALL = Load(300, 5_000_000, 60, 64 * MIB, 4 * MIB)
"""Writes five rounds of the WAL."""
LARGE = Load(1_900, 10_000_000, 240, 1024 * MIB, 64 * MIB)
"""Writes two rounds of a WAL of default size, with as many partitions as a replica supports."""


class Writer(threading.Thread):
    """Sends at a fixed rate to the partitions in turn; records when the last acknowledgement of each tick came."""

    def __init__(self, bootstrap: str, load: Load) -> None:
        super().__init__(name="writer", daemon=True)
        self.load = load
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 5,
                "partitioner": "consistent",
                "queue.buffering.max.kbytes": 512 * 1024,
                "log_level": 0,
            }
        )
        self.good = 0
        self.longest_s = 0.0
        self.last_s = 0.0
        self.taken = 0.0
        """Acknowledged bytes per second within the window."""

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            now_s = time.monotonic()
            self.longest_s = max(self.longest_s, now_s - self.last_s)
            self.last_s = now_s
            self.good += 1

    @override
    def run(self) -> None:
        value = bytes(VALUE_BYTES)
        sent = 0
        began_s = self.last_s = time.monotonic()
        while (elapsed_s := time.monotonic() - began_s) < self.load.window_s:
            while sent * VALUE_BYTES < elapsed_s * self.load.bytes_per_s:
                try:
                    self.producer.produce(
                        TOPIC, value, partition=sent % self.load.partitions, on_delivery=self.delivered
                    )
                except BufferError:
                    break  # half a gigabyte is queued: the servers are far behind, and the gap shows without more
                sent += 1
            self.producer.poll(TICK_S)
        self.longest_s = max(self.longest_s, time.monotonic() - self.last_s)
        self.taken = self.good * VALUE_BYTES / (time.monotonic() - began_s)
        self.producer.flush(DRAIN_S)


def row(name: str, title: str, load: Load) -> Row:
    def measure(side: Side, lab: Lab) -> Measured:
        writer = Writer(side.bootstrap, load)
        writer.start()
        writer.join(load.window_s + DRAIN_S + 30)
        if writer.is_alive() or not writer.good:
            raise RunFailed("the producer did not come to its end")
        return {"longest silence": [writer.longest_s], "taken": [writer.taken / 1e6]}

    return Row(
        name=name,
        title=title,
        how=f"One replica, {load.partitions:,} partitions, a WAL of {load.wal_bytes // MIB} MiB in files of "
        f"{load.wal_file_bytes // MIB} MiB; librdkafka sends {load.bytes_per_s / 1e6:.0f} MB/s to all of them for "
        f"{load.window_s} s. The longest time without any acknowledgement, and what was acknowledged.",
        units={"longest silence": "s", "taken": "MB/s"},
        measure=measure,
        sides=(MUSTER,),
        targets=(Target(figure="longest silence", at_most=0.5, worst=True),),
        runs=1,
        own=Own(
            settings={
                "muster.wal.max.bytes": str(load.wal_bytes),
                "muster.wal.file.bytes": str(load.wal_file_bytes),
            },
            replicas=1,
            topics={TOPIC: load.partitions},
            warm=False,
        ),
    )


ROWS = (
    row("wal_full", "A full WAL", SMALL),
    row("wal_large", "A full WAL of 1,900 partitions", LARGE),
)
