"""One member of a group, a process of its own so that it can be killed: reads, and commits what it has read.

`python -m tests.pipeline.demo.member BOOTSTRAP GROUP NAME STRATEGY INSTANCE TOPIC...` (INSTANCE `-`: dynamic). SIGTERM:
commit and leave. Commits are synchronous and only made when something was read, so a group without records is quiet.
"""

import signal
import sys
import time
from types import FrameType

from confluent_kafka import Consumer, KafkaException

COMMIT_EVERY_S = 1.0
SESSION_TIMEOUT_MS = 10_000


def main(bootstrap: str, group: str, name: str, strategy: str, instance: str, *topics: str) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": name,
        "partition.assignment.strategy": strategy,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": 1_000,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    if instance != "-":
        settings["group.instance.id"] = instance
    consumer = Consumer(settings)
    stopping: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.append(number)

    signal.signal(signal.SIGTERM, stop)
    consumer.subscribe(list(topics))
    waiting, due = False, time.monotonic() + COMMIT_EVERY_S
    while not stopping:
        waiting = any(one.error() is None for one in consumer.consume(500, 0.2)) or waiting
        if waiting and time.monotonic() >= due:
            try:
                consumer.commit(asynchronous=False)
                waiting = False
            except KafkaException:
                pass  # a rebalance, or a coordinator that moves: what is not committed is read again
            due = time.monotonic() + COMMIT_EVERY_S
    try:
        if waiting:
            consumer.commit(asynchronous=False)
    except KafkaException:
        pass
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
