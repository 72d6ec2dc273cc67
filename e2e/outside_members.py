"""Static members on a machine outside of the cluster, until standard input ends: their ids are all that they share with
pods.

    python -m e2e.outside_members BOOTSTRAP TOPIC GROUP INSTANCE...

Prints a line when all have partitions. They end as a static member does: without a LeaveGroup.
"""

import os
import select
import sys
import time

from confluent_kafka import Consumer, KafkaError

SESSION_TIMEOUT_MS = 45_000
JOIN_S = 90.0
POLL_S = 0.05
END_S = 0.0


def main(bootstrap: str, topic: str, group: str, instances: list[str]) -> int:
    consumers = [member(bootstrap, topic, group, one) for one in instances]
    deadline, told = time.monotonic() + JOIN_S, False
    while not ended():
        for one in consumers:
            message = one.poll(POLL_S)
            error = message.error() if message is not None else None
            if error is not None and (error.fatal() or error.code() == KafkaError.FENCED_INSTANCE_ID):
                print(f"fenced: {error}", file=sys.stderr)
                return 1
        if not told and all(one.assignment() for one in consumers):
            print("joined", flush=True)
            told = True
        if not told and time.monotonic() > deadline:
            print("not every member has got partitions", file=sys.stderr)
            return 1
    for one in consumers:
        one.close()
    return 0


def member(bootstrap: str, topic: str, group: str, instance: str) -> Consumer:
    found = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.instance.id": instance,
            "client.id": "outside",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 1_000,
            "enable.auto.commit": False,
        }
    )
    found.subscribe([topic])
    return found


def ended() -> bool:
    """Whether standard input has: whoever started this is done, or is gone."""
    readable, _, _ = select.select([sys.stdin], [], [], END_S)
    return bool(readable) and os.read(sys.stdin.fileno(), 1) == b""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4], sys.argv[4:]))
