"""A librdkafka client on a machine outside of the cluster: reads a topic as a group's member and commits.

    python -m e2e.outsider BOOTSTRAP TOPIC GROUP COUNT

Prints one JSON object: the brokers that it was told, what it read, what the group has committed then.
"""

import json
import sys
import time

from confluent_kafka import Consumer, TopicPartition

PATIENCE_S = 60.0


def main(bootstrap: str, topic: str, group: str, count: int) -> int:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
        }
    )
    brokers = consumer.list_topics(timeout=20).brokers
    consumer.subscribe([topic])
    values, deadline = [], time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value().decode() for message in consumer.consume(500, 0.5) if not message.error()]
    consumer.commit(asynchronous=False)
    owned = [TopicPartition(topic, one.partition) for one in consumer.assignment()]
    committed = consumer.committed(owned, timeout=20)
    said = {
        "brokers": {str(one.id): f"{one.host}:{one.port}" for one in brokers.values()},
        "values": sorted(values),
        "committed": sum(max(0, one.offset) for one in committed),
    }
    print(json.dumps(said))
    consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4], int(sys.argv[4])))
