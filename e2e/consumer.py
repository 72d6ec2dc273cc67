"""The consumer that the e2e groups run: librdkafka, told everything by the environment that the operator sets.

It produces what it saw to topic `seen` (one record per record consumed, keyed by group; value: pod, topic, partition,
offset, the record's own value) before it commits, so that "every record was consumed" can be checked after its pod is
gone. This file is put into a ConfigMap and run by the image's Python; a group.instance.id of its own (INSTANCE_ID) wins
over the operator's.
"""

import json
import os
import signal
import socket
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

GROUP, POD = os.environ["KAFKA_GROUP_ID"], socket.gethostname()
stopping = False


def stop(*_: object) -> None:
    global stopping
    stopping = True


def tell(event: str, **more: object) -> None:
    print(json.dumps({"event": event, "at": round(time.time(), 3), **more}), flush=True)


SECURITY = {
    "security.protocol": "KAFKA_SECURITY_PROTOCOL",
    "sasl.mechanism": "KAFKA_SASL_MECHANISM",
    "sasl.username": "KAFKA_SASL_USERNAME",
    "sasl.password": "KAFKA_SASL_PASSWORD",
    "ssl.ca.location": "KAFKA_SSL_CA_LOCATION",
}
"""Set where the ConsumerGroup has `tls` or `authentication`."""


def main() -> int:
    signal.signal(signal.SIGTERM, stop)
    security = {key: os.environ[name] for key, name in SECURITY.items() if name in os.environ}
    settings = security | {
        "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
        "group.id": GROUP,
        "client.id": POD,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": int(os.environ["KAFKA_SESSION_TIMEOUT_MS"]),
        "heartbeat.interval.ms": int(os.environ["KAFKA_HEARTBEAT_INTERVAL_MS"]),
        "partition.assignment.strategy": os.environ.get("KAFKA_PARTITION_ASSIGNMENT_STRATEGY", "range"),
    }
    instance = os.environ.get("INSTANCE_ID") or os.environ.get("KAFKA_GROUP_INSTANCE_ID")
    if instance:
        settings["group.instance.id"] = instance
    consumer = Consumer(settings)
    where = security | {"bootstrap.servers": settings["bootstrap.servers"]}
    seen = Producer({**where, "enable.idempotence": True, "linger.ms": 5})
    consumer.subscribe(
        os.environ["KAFKA_TOPICS"].split(","),
        on_assign=lambda _, given: tell("assigned", partitions=[p.partition for p in given]),
        on_revoke=lambda _, taken: tell("revoked", partitions=[p.partition for p in taken]),
        on_lost=lambda _, lost: tell("lost", partitions=[p.partition for p in lost]),
    )
    tell("started", instance=instance)
    while not stopping:
        batch = consumer.consume(500, 0.2)
        errors = [m.error() for m in batch if m.error()]
        if any(e.code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID) or e.fatal() for e in errors):
            tell("fatal", errors=[f"{e.name()}: {e.str()}" for e in errors])
            return 1
        good = [m for m in batch if not m.error()]
        for m in good:
            value = json.dumps([POD, m.topic(), m.partition(), m.offset(), m.value().decode()])
            seen.produce("seen", key=GROUP, value=value)
        if good:
            assert seen.flush(30) == 0, "what was seen could not be told"
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as refusal:
                # Somebody else has the partitions by now, or no coordinator is known: what was read is read again.
                tell("commit_refused", error=refusal.args[0].name())
    tell("stopping")
    consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
