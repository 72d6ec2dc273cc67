"""Makes `kip848_offsets_log.bin`: the batches that a real Kafka writes for groups of the KIP-848 protocol.

    python -m tests.golden.make_kip848

Needs a JVM with Maven (see `tests.java_tools`) and confluent-kafka. Three consumers with group.protocol=consumer join,
some with a regular expression that the broker resolves, commit, and leave; the file holds all batches of all partitions
of the offsets topic, as they lie in the broker's segments, partition after partition. Kafka 4.0 wrote record type 4,
later ones do not, so both versions contribute.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.records.batch import iter_records, parse_header

from tests import java_tools
from tests.kafka_broker import KafkaBroker
from tests.records.made import split_batches

GOLDEN = Path(__file__).with_name("kip848_offsets_log.bin")
OLDER = "4.0.0"
PARTITIONS = 2


class OlderBroker(KafkaBroker):
    """The same with the jars of another release."""

    def start(self) -> "OlderBroker":
        present = java_tools.KAFKA_ALL
        java_tools.KAFKA_ALL = (  # the broker asks for these
            f"org.apache.kafka:kafka_2.13:{OLDER}",
            f"org.apache.kafka:kafka-tools:{OLDER}",
            java_tools.LOG4J_BINDING,
        )
        try:
            return super().start()
        finally:
            java_tools.KAFKA_ALL = present


def offsets_log(broker: KafkaBroker) -> bytes:
    """Every batch of the offsets topic."""
    found = b""
    for partition in range(PARTITIONS):
        for path in sorted(broker.partition_folder("__consumer_offsets", partition).glob("*.log")):
            data = path.read_bytes()
            end = 0
            while length := int.from_bytes(data[end + 8 : end + 12], "big"):
                end += 12 + length
            found += data[:end]
    return found


def consumer(broker: KafkaBroker, group: str, **more: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **more,
        }
    )


def live(broker: KafkaBroker) -> None:
    """Groups come, commit, change and go."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic("flights", 3), NewTopic("weather", 2)]).values():
        future.result()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(30):
        producer.produce("flights" if number % 2 else "weather", str(number), partition=number % 2)
    producer.flush()
    one = consumer(broker, "group-one")
    two = consumer(broker, "group-one", **{"group.instance.id": "static-two"})
    three = consumer(broker, "group-two")
    one.subscribe(["flights"])
    two.subscribe(["^fli.*", "weather"])
    three.subscribe(["^fli.*", "^wea.*"])
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for member in (one, two, three):
            message: Message | None = member.poll(0.2)
            if message is not None and message.error() is None:
                member.commit(message, asynchronous=False)
    one.close()
    two.close()  # static: its place is kept
    three.close()
    time.sleep(2)


def main() -> int:
    data = b""
    for kind in (OlderBroker, KafkaBroker):
        with tempfile.TemporaryDirectory() as folder:
            properties = {"offsets.topic.num.partitions": str(PARTITIONS)}
            with kind(Path(folder), properties) as broker:
                live(broker)
                broker.stop()
                data += offsets_log(broker)
    types: Counter[int] = Counter()
    for batch in split_batches(data):
        parse_header(batch)
        for record in iter_records(batch):
            if record.key is not None and record.value is not None:
                types[int.from_bytes(record.key[:2], "big")] += 1
    sys.stdout.write(f"{len(data)} bytes, records by type: {dict(sorted(types.items()))}\n")
    GOLDEN.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
