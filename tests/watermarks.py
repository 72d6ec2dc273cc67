"""First and end offset of a partition, of a client that asks once.

Problem: librdkafka's `get_watermark_offsets` gives up at the first answer that its own consumer would ask again after:
a leader that has just moved, or that has not yet proven that it leads. Mechanism: it is asked again for these, and only
for these.
"""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

ASK_AGAIN = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
)
PATIENCE_S = 90.0


def watermarks(consumer: Consumer, at: TopicPartition, seconds: float = PATIENCE_S) -> tuple[int, int]:
    """(first offset, end) of a partition. Raises `KafkaException`, at the latest after about so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            low, end = consumer.get_watermark_offsets(at, timeout=20)
        except KafkaException as refusal:
            if refusal.args[0].code() not in ASK_AGAIN or time.monotonic() > deadline:
                raise
            consumer.poll(0.1)
        else:
            return low, end
