"""Something to read: the other examples call `orders.place(...)` first. Only Kafka clients, nothing of Muster's."""

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic


def place(bootstrap: str, topic: str, count: int = 100, partitions: int = 6) -> None:
    """Create the topic unless it exists, and append `count` orders, acknowledged by a majority of replicas."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.create_topics([NewTopic(topic, partitions, -1)])[topic].result(30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all"})
    for number in range(count):
        producer.produce(topic, key=f"customer-{number % 10}", value=f"order {number}")
    left = producer.flush(30)
    if left:
        raise SystemExit(f"{left} orders were not acknowledged")
