"""Join a group and read; offsets are committed in the background.

    python docs/examples/subscribe.py localhost:9092

Start it several times at once with the same topic and group: the members share the partitions. Session timeout 45 s,
heartbeats every 3 s and commits every 5 s are librdkafka's defaults.
"""

import sys
import time

import orders
from confluent_kafka import Consumer

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
topic = sys.argv[2] if len(sys.argv) > 2 else "orders"
orders.place(bootstrap, topic, count=100)

consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": f"{topic}-subscribe",
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "cooperative-sticky",
    }
)
consumer.subscribe([topic])
seen = 0
deadline = time.monotonic() + 60
try:
    while seen < 100 and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error() is not None:
            print(f"the cluster says: {message.error()}")
            continue
        seen += 1
        print(f"partition {message.partition()} offset {message.offset()}: {message.value().decode()}")
finally:
    consumer.close()  # commits, and leaves the group at once instead of after the session timeout
print(f"{seen} orders read")
sys.exit(0 if seen >= 100 else 1)
