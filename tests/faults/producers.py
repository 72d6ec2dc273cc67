"""Idempotent producers of three libraries, each with two partitions under one producer id, and the log that they leave.

Each sends 0, 1, 2, ... to both of its partitions without waiting for answers, so that several batches are on their way
when a server dies. Their patience is shorter than a freeze and an election: what has no answer is sent again elsewhere.
"""

import json
import subprocess
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests import java_tools
from tests.faults.checks import Produced
from tests.integration.failover_load import JAVA, Load
from tests.watermarks import watermarks

TOPIC = "produced"
PARTITIONS = 6
PACE_S = 0.008
PATIENCE_MS = 2_500
WAITING_MAX = 1_000
"""Records of a producer without an outcome: through a long fault it waits, and does not catch up for an hour."""
END_TIMEOUT_S = 90
READ_TIMEOUT_S = 90


class Librdkafka(Load):
    name = "librdkafka"

    def __init__(self, bootstrap: str, partitions: Sequence[int], *, pace_s: float = PACE_S) -> None:
        """`pace_s`: after each number."""
        super().__init__("librdkafka-producer")
        self._pace_s = pace_s
        self._partitions = partitions
        self._sent = 0
        self._failed: dict[int, set[int]] = defaultdict(set)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.num.messages": 16,
                "queue.buffering.max.messages": WAITING_MAX,
                "request.timeout.ms": PATIENCE_MS,
                "socket.timeout.ms": PATIENCE_MS + 500,
                "log_level": 0,
            }
        )

    def work(self) -> None:
        producer = self._producer
        while not self.ended.wait(self._pace_s):
            for partition in self._partitions:
                self._send(partition, self._sent)
            self._sent += 1
            producer.poll(0)
        waiting = len(producer)
        left = producer.flush(END_TIMEOUT_S)
        assert left == 0, f"{left} of {waiting} waiting records were not delivered in {END_TIMEOUT_S} s"

    def _send(self, partition: int, number: int) -> None:
        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                self._failed[partition].add(number)

        while True:
            try:
                self._producer.produce(TOPIC, f"{self.name}/{number}", partition=partition, on_delivery=delivered)
                return
            except BufferError:
                self._producer.poll(0.1)

    def produced(self) -> list[Produced]:
        """Stops it; every record has its outcome then."""
        self.ended.set()
        self.join(END_TIMEOUT_S)
        self.finish()
        return [Produced(self.name, one, self._sent, frozenset(self._failed[one])) for one in self._partitions]

    def dispose(self) -> None:
        self.ended.set()


class Program:
    """A producer in a process of its own, which sends until its input ends and then tells in a line of JSON."""

    def __init__(self, name: str, command: Sequence[str], partitions: Sequence[int]) -> None:
        self.name, self._partitions = name, partitions
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def start(self) -> None:
        """It runs already."""

    def produced(self) -> list[Produced]:
        output, _ = self._process.communicate(timeout=END_TIMEOUT_S)
        assert self._process.returncode == 0, f"{self.name} ended with {self._process.returncode}: {output[-500:]!r}"
        told = json.loads(output)
        return [
            Produced(self.name, one, told["sent"], frozenset(told["failed"].get(str(one), ())))
            for one in self._partitions
        ]

    def dispose(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def java(bootstrap: str, partitions: Sequence[int], *, pace_s: float = PACE_S) -> Program:
    class_path = java_tools.compile_java([JAVA / "BurstProducer.java"], java_tools.classpath(*java_tools.KAFKA_ALL))
    command = [*java_tools.jvm(class_path, 96), "BurstProducer"]
    numbers = ",".join(map(str, partitions))
    paces = (str(PATIENCE_MS), str(round(pace_s * 1_000)))
    return Program("java", [*command, bootstrap, TOPIC, numbers, "java", *paces], partitions)


def franz_go(go_tools: Path, bootstrap: str, partitions: Sequence[int]) -> Program:
    numbers = ",".join(map(str, partitions))
    command = [str(go_tools), "produce", bootstrap, TOPIC, numbers, "franz-go", str(PATIENCE_MS)]
    return Program("franz-go", command, partitions)


def logs(bootstrap: str) -> dict[int, list[str]]:
    """Every value of every partition, in order; no offset may be missing or come twice."""
    options = {"bootstrap.servers": bootstrap, "group.id": "logs", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(options)
    found: dict[int, list[str]] = {}
    try:
        for partition in range(PARTITIONS):
            at = TopicPartition(TOPIC, partition, 0)
            low, end = watermarks(consumer, at)
            assert low == 0, f"partition {partition} begins at {low}"
            values: list[str] = []
            consumer.assign([at])
            deadline = time.monotonic() + READ_TIMEOUT_S
            while len(values) < end:
                assert time.monotonic() < deadline, f"partition {partition}: {len(values)} of {end} records"
                for message in consumer.consume(2_000, timeout=1):
                    assert message.error() is None, message.error()
                    assert message.offset() == len(values), f"partition {partition}: a gap or a repeat of offsets"
                    values.append((message.value() or b"").decode(errors="replace"))
            found[partition] = values
    finally:
        consumer.close()
    return found
