"""A topic that keeps the last value of each key: what it has is what was written last, cleaned or not."""

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, Producer, TopicPartition

from tests.cluster import wait_until
from tests.releases import records

if TYPE_CHECKING:
    from tests.releases.life import Life

TOPIC = "last-values"
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "3600000",
}
KEYS, ROUNDS = 20, 12
BATCH_BYTES = 8192
"""A segment of these clusters has 32 KiB."""
WAIT_S = 60


def live(life: "Life", stage: int) -> None:
    """Every key several times; one of them has a tombstone last. In stage 0 until the log was cleaned."""
    known = life.known.setdefault("last_values", {})
    if stage == 0:
        life.create(TOPIC, 1, CONFIGS)
    failed: list[str] = []
    producer = Producer(
        {"bootstrap.servers": life.bootstrap, "enable.idempotence": True, "batch.size": BATCH_BYTES, "log_level": 0}
    )
    for round_ in range(ROUNDS):
        for key in range(KEYS):
            value = None if _removed(key, round_, stage) else records.value_of(TOPIC, stage, round_ * KEYS + key)
            producer.produce(
                TOPIC, value, key=f"key-{key}", partition=0,
                on_delivery=lambda error, _: failed.append(str(error)) if error is not None else None,
            )  # fmt: skip
            known[f"key-{key}"] = None if value is None else records.short(value)
    assert producer.flush(WAIT_S) == 0
    assert not failed, failed[0]
    if stage == 0:
        wait_until("it was cleaned", lambda: read(life.bootstrap)[1] < ROUNDS * KEYS, WAIT_S, 1)


def check(bootstrap: str, known: dict[str, str | None]) -> None:
    values, _ = read(bootstrap)
    assert values == {key: value for key, value in known.items() if value is not None}


def read(bootstrap: str) -> tuple[dict[str, str], int]:
    """The value of each key that has one, and how many records were read for that."""
    consumer = records.reader(bootstrap)
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: dict[str, str] = {}
        count = 0
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"neither a record nor an end of {TOPIC}"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return values, count
            count += 1
            key, value = (message.key() or b"").decode(), message.value()
            if value is None:
                values.pop(key, None)
            else:
                values[key] = records.short(value.decode())
    finally:
        consumer.close()


def _removed(key: int, round_: int, stage: int) -> bool:
    """Another key at each stage ends with a tombstone."""
    return key == stage and round_ == ROUNDS - 1
