"""Kafka Streams counts words with `exactly_once_v2`: an instance and a coordinator are killed, and nothing is lost or
counted twice. The oracle is a `Counter` here; the topology has a repartition topic, a compacted changelog, standbys.

Every count that is read committed must be the one before plus one: a record that was processed twice, or a state that
was restored wrongly, shows as a step of its own.
"""

import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests import java_tools
from tests.cluster import MusterCluster, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.timeout(400)]

STREAMS = f"org.apache.kafka:kafka-streams:{java_tools.KAFKA_VERSION}"
SOURCE = Path(__file__).parents[1] / "clients" / "members" / "java" / "WordCount.java"
PARTITIONS = 3
LINES, COUNTS, APPLICATION = "lines", "counts", "word-count"
CHANGELOG = f"{APPLICATION}-counts-changelog"
SERVED_S_MAX = 150
WORDS = [f"w{n}" for n in range(30)]


class Instance:
    """One process of the application."""

    def __init__(self, bootstrap: str, folder: Path, number: int) -> None:
        class_path = java_tools.compile_java([SOURCE], java_tools.classpath(STREAMS, java_tools.SLF4J_SILENT))
        command = [java_tools.java_command(), *java_tools.JVM_SMALL, "-Xmx192m", "-cp", class_path, "WordCount"]
        self.said = folder / f"instance-{number}.txt"
        with self.said.open("wb") as out:
            self._process = subprocess.Popen(
                [*command, bootstrap, APPLICATION, LINES, COUNTS, str(folder / f"state-{number}"), "exactly_once_v2"],
                stdin=subprocess.PIPE, stdout=out, stderr=out,
            )  # fmt: skip

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        if self._process.returncode is not None:
            return
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()


class Feed:
    """Lines of four words, and how often each word was sent."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self._rand = Random(19)
        self.sent: Counter[str] = Counter()

    def send(self, lines: int) -> None:
        for number in range(lines):
            line = self._rand.choices(WORDS, k=4)
            self.sent.update(line)
            self._producer.produce(LINES, " ".join(line), str(number))
            self._producer.poll(0)
        assert self._producer.flush(60) == 0


def counted(bootstrap: str) -> tuple[dict[str, int], list[str]]:
    """(the last count of each word, every step that is not the one before plus one), read committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    counts: dict[str, int] = {}
    wrong: list[str] = []
    left = set(range(PARTITIONS))
    deadline = time.monotonic() + SERVED_S_MAX
    try:
        consumer.assign([TopicPartition(COUNTS, p, 0) for p in left])
        while left:
            assert time.monotonic() < deadline, f"partitions {left} were not read to their ends"
            message = consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                word, count = (message.key() or b"").decode(), struct.unpack(">q", message.value() or b"")[0]
                if count != counts.get(word, 0) + 1:
                    wrong.append(f"{word}: {count} after {counts.get(word, 0)}")
                counts[word] = count
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
    finally:
        consumer.close()
    return counts, wrong


@contextmanager
def instances() -> Iterator[Callable[..., Instance]]:
    running: list[Instance] = []

    def start(*arguments: Any) -> Instance:
        running.append(Instance(*arguments))
        return running[-1]

    try:
        yield start
    finally:
        for one in running:
            one.close()


def test_words_are_counted_once_though_an_instance_and_a_coordinator_die(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "data") as cluster, instances() as start:
        bootstrap = cluster.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        wanted = [NewTopic(LINES, PARTITIONS, 3), NewTopic(COUNTS, PARTITIONS, 3)]
        for future in admin.create_topics(wanted, operation_timeout=20).values():
            future.result(20)
        feed = Feed(bootstrap)
        feed.send(300)
        first, second = start(bootstrap, tmp_path, 0), start(bootstrap, tmp_path, 1)
        wait_until("words are counted", lambda: sum(counted(bootstrap)[0].values()) > 100, SERVED_S_MAX, 1)
        first.kill()
        feed.send(300)
        third = start(bootstrap, tmp_path, 2)
        cluster.kill(1)
        feed.send(200)
        cluster.start_replica(1)
        wait_until("all is counted", lambda: counted(bootstrap)[0] == dict(feed.sent), SERVED_S_MAX, 1)
        assert counted(bootstrap)[1] == []
        for one in (first, second, third):
            assert "failed" not in one.said.read_text(), one.said.read_text()[-2_000:]
        resource = ConfigResource(ResourceType.TOPIC, CHANGELOG)
        configs = admin.describe_configs([resource])[resource].result(20)
        assert configs["cleanup.policy"].value == "compact"
