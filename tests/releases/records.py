"""Records of topics: sent by numbered producers so that the tests know every byte, read back by librdkafka."""

import hashlib
import time
import zlib
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.integration.second_client import SecondClient
from tests.pipeline.logs import deflate
from tests.topics.batch_bytes import T0, Rec, batch
from tests.watermarks import watermarks

CODECS = (0, 1, 2, 3, 4)
NOT_YET = {5, 6, 7, 15, 78}
"""Codes after which a producer asks again: no leader yet, not here, in time unknown."""
PATIENCE_S = 30
AGAIN_S = 0.05

Last = dict[str, Any]


def value_of(topic: str, partition: int, number: int, size: int = 256) -> str:
    """The same in every process, and hardly to be compressed."""
    name = f"{topic}-{partition}-{number} "
    seed = hashlib.sha256(name.encode()).hexdigest()
    return (name + seed * (size // len(seed) + 1))[:size]


def short(value: str) -> str:
    """What the oracle keeps of a value."""
    return f"{zlib.crc32(value.encode()):08x}"


def new_producer_id(bootstrap: str) -> int:
    """InitProducerId without a transactional id."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        client = SecondClient(ports(bootstrap)[0])
        try:
            answer = client.ask(
                "InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1, producer_id=-1, producer_epoch=-1
            )
        finally:
            client.close()
        if answer.error_code == 0:
            return int(answer.producer_id)
        assert time.monotonic() < deadline, answer
        time.sleep(AGAIN_S)


def encoded(last: Last) -> bytes:
    """The batch, the same bytes each time."""
    records = [Rec(key=b"k%d" % n, value=value.encode(), delta_ms=n) for n, value in enumerate(last["values"])]
    plain = b"".join(record.encode(index) for index, record in enumerate(records))
    return batch(
        records, attributes=last["codec"], body=deflate(last["codec"], plain), base_timestamp=T0 + last["sequence"],
        producer_id=last["producer"], producer_epoch=0, sequence=last["sequence"],
    )  # fmt: skip


def send(bootstrap: str, topic: str, partition: int, last: Last) -> int:
    """Base offset that it got, now or when it was sent before."""
    data = [{"name": topic, "partition_data": [{"index": partition, "records": encoded(last)}]}]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        client = SecondClient(leader_port(bootstrap, topic, partition))
        try:
            answer = client.ask("Produce", 9, transactional_id=None, acks=-1, timeout_ms=5000, topic_data=data)
        except (OSError, AssertionError):  # gone while it was asked
            answer = None
        finally:
            client.close()
        got = answer.responses[0].partition_responses[0] if answer is not None else None
        if got is not None and got.error_code not in NOT_YET:
            assert got.error_code == 0, (topic, partition, got)
            return int(got.base_offset)
        assert time.monotonic() < deadline, (topic, partition, got)
        time.sleep(AGAIN_S)


def leader_port(bootstrap: str, topic: str, partition: int) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        for port in ports(bootstrap):
            try:
                client = SecondClient(port)
            except OSError:
                continue
            try:
                answer = client.ask("Metadata", 9, topics=[{"name": topic}])
            finally:
                client.close()
            found = [one for one in answer.topics[0].partitions if one.partition_index == partition]
            if found and found[0].leader_id >= 0:
                return next(int(b.port) for b in answer.brokers if b.node_id == found[0].leader_id)
        assert time.monotonic() < deadline, f"no leader of {topic}-{partition}"
        time.sleep(AGAIN_S)


def ports(bootstrap: str) -> list[int]:
    return [int(address.rsplit(":", 1)[1]) for address in bootstrap.split(",")]


def reader(bootstrap: str, isolation: str = "read_uncommitted") -> Consumer:
    """It stores nothing, and says where a partition ends."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 50,
        }
    )


def read(bootstrap: str, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, list[str]]]:
    """(topic, partition) → (log start offset, values from there on), without gap."""
    consumer = reader(bootstrap)
    try:
        deadline = time.monotonic() + PATIENCE_S
        starts = {one: watermarks(consumer, TopicPartition(*one))[0] for one in wanted}
        consumer.assign([TopicPartition(*one, start) for one, start in starts.items()])
        found: dict[tuple[str, int], tuple[int, list[str]]] = {one: (start, []) for one, start in starts.items()}
        ended: set[tuple[str, int]] = set()
        while len(ended) < len(starts):
            assert time.monotonic() < deadline, f"no end of {starts.keys() - ended}"
            for message in consumer.consume(1000, timeout=0.05):
                one = (message.topic(), message.partition())
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(one)
                    continue
                start, values = found[one]
                assert message.offset() == start + len(values), "a gap or a repeat"
                values.append((message.value() or b"").decode())
        return found
    finally:
        consumer.close()


def shorts(values: Sequence[str]) -> list[str]:
    return [short(value) for value in values]
