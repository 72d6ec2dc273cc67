"""Restart without a rebalance: a member with a `group.instance.id` keeps its partitions while it is away.

    python docs/examples/static_member.py localhost:9092

The process reads with an instance id, closes (a static member does not leave the group), comes back under the same id
and has the same partitions again; the group has seen no rebalance. The coordinator waits for it as long as the session
timeout. In Kubernetes the pod's name is a good instance id.
"""

import sys
import time

import orders
from confluent_kafka import Consumer

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
topic = sys.argv[2] if len(sys.argv) > 2 else "orders"
orders.place(bootstrap, topic, count=100)


def life(number: int, wanted: int) -> set[int]:
    """One life of the member: read `wanted` orders, then stop. The partitions that it had."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-static",
            "group.instance.id": "worker-0",
            "session.timeout.ms": 45000,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    seen, mine = 0, set[int]()
    deadline = time.monotonic() + 60
    while (seen < wanted or not mine) and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            seen += 1
        mine = {one.partition for one in consumer.assignment()} or mine
    print(f"life {number}: partitions {sorted(mine)}, {seen} orders")
    consumer.close()
    if seen < wanted:
        sys.exit(f"only {seen} of {wanted} orders arrived")
    return mine


before = life(1, wanted=50)
after = life(2, wanted=1)
print("same partitions after the restart" if before == after else f"moved: {before} became {after}")
sys.exit(0 if before == after else 1)
