"""Commit by hand, after the work is done: what was not committed is read again (at least once).

    python docs/examples/manual_commit.py localhost:9092

Reads with kafka-python, commits after every full batch, then stops in the middle of one without a commit. The second
consumer starts exactly where the last commit was: the open orders come again, the done ones do not.
"""

import sys
import time

import orders
from kafka import KafkaConsumer

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
topic = sys.argv[2] if len(sys.argv) > 2 else "orders"
group = f"{topic}-manual-{time.time_ns()}"
orders.place(bootstrap, topic, count=100, partitions=6)


def consumer_of_group():
    """Auto-commit is off: only `commit()` moves the group's offsets."""
    return KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=20,
    )


def read(consumer, wanted: int):
    """Positions of at least `wanted` orders."""
    found = []
    deadline = time.monotonic() + 60
    while len(found) < wanted and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500).values():
            found += [(record.partition, record.offset) for record in records]
    if len(found) < wanted:
        sys.exit(f"only {len(found)} of {wanted} orders arrived")
    return found


first = consumer_of_group()
done = read(first, 40)
first.commit()  # all positions: every order that poll() has returned so far is done
still_open = read(first, 20)  # worked on, but never committed
first.close(autocommit=False)

second = consumer_of_group()
again = set(read(second, 100 - len(done)))
second.close(autocommit=False)

repeated = again & set(done)
print(f"{len(done)} orders done, {len(still_open)} left open, {len(again & set(still_open))} of them came again")
print(f"{len(repeated)} done orders came again" if repeated else "no done order came again")
sys.exit(0 if set(still_open) <= again and not repeated else 1)
