"""A topic from its beginning to its end, as a client of read committed sees it."""

import time

from confluent_kafka import Consumer, KafkaError, TopicPartition

READ_S_MAX = 120


def read_committed(
    bootstrap: str, topic: str, isolation: str = "read_committed"
) -> list[tuple[int, int, bytes, bytes]]:
    """(partition, offset, key, value) of each record, by partition and offset; none of a topic that is not there."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader-of-tests",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    found = []
    deadline = time.monotonic() + READ_S_MAX
    try:
        about = consumer.list_topics(topic, timeout=20).topics[topic]
        left = set(about.partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        while left:
            assert time.monotonic() < deadline, f"partitions {left} of {topic} were not read to their ends"
            for message in consumer.consume(1_000, 1):
                error = message.error()
                if error is None:
                    found.append(
                        (message.partition() or 0, message.offset() or 0, message.key() or b"", message.value() or b"")
                    )
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
    finally:
        consumer.close()
    return sorted(found, key=lambda record: record[:2])
