"""One member of a group, a process of its own so that it can be killed: reads, and commits what it has read.

`python -m tests.pipeline.demo.member BOOTSTRAP GROUP NAME STRATEGY INSTANCE TOPIC...` (INSTANCE `-`: dynamic). SIGTERM:
commit and leave. SIGUSR1: stay in the group and commit no more; `quiet` on standard output says from when on. Without
it a member that is behind (it lost its coordinator, say) commits at any later time, however quiet it was before.
"""

import signal
import sys
import time
from types import FrameType

from confluent_kafka import Consumer, KafkaException

COMMIT_EVERY_S = 1.0
QUIET = "quiet"
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

    quiet: list[int] = []

    def become_quiet(number: int, frame: FrameType | None) -> None:
        quiet.append(number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, become_quiet)
    consumer.subscribe(list(topics))
    waiting, due = False, time.monotonic() + COMMIT_EVERY_S
    while not (stopping or quiet):
        waiting = any(one.error() is None for one in consumer.consume(500, 0.2)) or waiting
        if waiting and time.monotonic() >= due:
            try:
                consumer.commit(asynchronous=False)
                waiting = False
            except KafkaException:
                pass  # a rebalance, or a coordinator that moves: what is not committed is read again
            due = time.monotonic() + COMMIT_EVERY_S
    if quiet:
        sys.stdout.write(f"{QUIET}\n")
        sys.stdout.flush()
    while not stopping:
        consumer.consume(500, 0.2)
    try:
        if waiting and not quiet:
            consumer.commit(asynchronous=False)
    except KafkaException:
        pass
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
