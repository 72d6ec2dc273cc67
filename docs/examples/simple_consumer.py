"""Commit and fetch offsets without joining a group: for programs that choose their partitions themselves.

    python docs/examples/simple_consumer.py localhost:9092

`assign` instead of `subscribe`: no member, no heartbeat, no rebalance. The group id is only the name under which the
offsets are kept; the coordinator accepts such commits as long as the group has no members.
"""

import sys
import time

import orders
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
topic = sys.argv[2] if len(sys.argv) > 2 else "orders"
group = f"{topic}-simple-{time.time_ns()}"
orders.place(bootstrap, topic, count=100, partitions=6)


def reader():
    """A consumer whose group id only names its offsets."""
    return KafkaConsumer(bootstrap_servers=bootstrap.split(","), group_id=group, enable_auto_commit=False)


consumer = reader()
partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
consumer.assign(partitions)
ends = consumer.end_offsets(partitions)
consumer.seek_to_beginning(*partitions)
seen = 0
deadline = time.monotonic() + 60
while any(consumer.position(one) < ends[one] for one in partitions) and time.monotonic() < deadline:
    seen += sum(len(records) for records in consumer.poll(timeout_ms=500).values())
consumer.commit({one: OffsetAndMetadata(consumer.position(one), "read by an example", -1) for one in partitions})
consumer.close(autocommit=False)
print(f"{seen} orders read from {len(partitions)} partitions")

later = reader()
committed = {one: later.committed(one, metadata=True) for one in partitions}
later.close(autocommit=False)
for one, kept in committed.items():
    print(f"partition {one.partition}: next offset {kept.offset} ({kept.metadata})")
sys.exit(0 if seen >= 100 and all(committed[one].offset == ends[one] for one in partitions) else 1)
