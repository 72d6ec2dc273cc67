"""What goes on all the while coordinators are killed: commits, idempotent producers, readers of the offsets topic.

Each load runs in a thread or process of its own, retries as a client would, and can say at the end whether what it was
promised holds.
"""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests import java_tools, kafka_tools
from tests.raw_client import Disconnected, RawClient
from tests.raw_group import NONE, RETRIABLE, Refused, commit, fetch, find_coordinator
from tests.watermarks import watermarks

JAVA = Path(__file__).parents[1] / "clients" / "members" / "java"
RETRY_S = 0.05
PAUSE_S = 0.04
"""After a commit and its read: two dozen a second and group. What a load is there for is that something is always on
its way when a server dies; ten times as many were most of the processor time of the tests with kills."""
ASK_SECONDS_MAX = 20


class Load(threading.Thread):
    """A thread that works until `finish`; an exception in it fails the test there."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.ended = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - re-raised in finish, on the test's thread
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        self.ended.set()
        self.join(60)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.failure is not None:
            raise self.failure


class CommitLoad(Load):
    """Commits rising offsets for one simple group; remembers the last acknowledged one and all that were tried."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        super().__init__(f"commits-{group}")
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        self.tried = 0
        self.acknowledged = 0
        self.longest_pause_s = 0.0

    def work(self) -> None:
        client: RawClient | None = None
        since = time.monotonic()
        while not self.ended.is_set():
            try:
                if client is None:
                    _, host, port = find_coordinator(self.bootstrap, self.group, ASK_SECONDS_MAX)
                    client = RawClient(host, port, timeout_s=5)
                self.tried += 1
                codes = commit(client, self.group, self.topic, {0: self.tried}, metadata=f"uid-{self.tried}")
            except Disconnected:
                client = None
                self.ended.wait(RETRY_S)
                continue
            code = codes[0]
            if code == NONE:
                now = time.monotonic()
                self.longest_pause_s = max(self.longest_pause_s, now - since)
                since = now
                self.acknowledged = self.tried
                self.check_read(client)
                self.ended.wait(PAUSE_S)
            elif code in RETRIABLE:
                client.close()
                client = None
                self.ended.wait(RETRY_S)
            else:
                raise AssertionError(f"{self.group}: commit answered {code}")
        if client is not None:
            client.close()

    def check_read(self, client: RawClient) -> None:
        """Read your own write: never older than what was acknowledged, never "no offset"."""
        try:
            offset, metadata, code = fetch(client, self.group, self.topic, [0])[0]
        except Disconnected:
            return
        except Refused as refused:
            assert refused.code in RETRIABLE, refused
            return
        assert code == NONE
        assert offset == self.acknowledged, f"{self.group}: read {offset} after {self.acknowledged} was acknowledged"
        assert metadata == f"uid-{offset}"

    def verify(self) -> None:
        """After everything: the stored offset is the last acknowledged, or a later one whose answer was lost."""
        offset, metadata, _ = settle(lambda c: fetch(c, self.group, self.topic, [0])[0], self.bootstrap, self.group)
        assert self.acknowledged <= offset <= self.tried, (
            f"{self.group}: {offset} not in [{self.acknowledged}, {self.tried}]"
        )
        assert metadata == f"uid-{offset}"
        assert self.acknowledged > 0


def settle(ask: Callable[[RawClient], Any], bootstrap: str, group: str, seconds: float = ASK_SECONDS_MAX) -> Any:
    """`ask` at the group's coordinator, again until it is neither disconnected nor refused with a retriable code."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            _, host, port = find_coordinator(bootstrap, group, seconds)
            with RawClient(host, port, timeout_s=5) as client:
                return ask(client)
        except (Disconnected, Refused) as error:
            if isinstance(error, Refused) and error.code not in RETRIABLE:
                raise
            if time.monotonic() > deadline:
                raise AssertionError(f"{group}: not settled in {seconds} s: {error}") from error
            time.sleep(RETRY_S)


class LibrdkafkaProducerLoad(Load):
    """0, 1, 2, ... to one partition with idempotence on."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__("librdkafka-producer")
        self.bootstrap, self.topic, self.partition = bootstrap, topic, partition
        self.sent = 0
        self.failed: list[str] = []

    def work(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5})

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                self.failed.append(str(error))

        while not self.ended.wait(0.01):
            producer.produce(self.topic, str(self.sent), partition=self.partition, on_delivery=delivered)
            self.sent += 1
            producer.poll(0)
        assert producer.flush(60) == 0, "records not delivered"
        assert not self.failed, self.failed[:3]


class JavaProducerLoad:
    """The same by the Java client's default settings, and those of a file."""

    def __init__(
        self, bootstrap: str, topic: str, partition: int, *, properties: Path | None = None, jvm: Sequence[str] = ()
    ) -> None:
        class_path = java_tools.compile_java(
            [JAVA / "SteadyProducer.java"], java_tools.classpath(*java_tools.KAFKA_ALL)
        )
        more = [] if properties is None else [str(properties)]
        self._process = subprocess.Popen(
            [*java_tools.jvm(class_path, 96, *jvm), "SteadyProducer", bootstrap, topic, str(partition), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.sent = 0
        self.throttle_ms_max = 0.0

    def finish(self) -> None:
        output, _ = self._process.communicate(timeout=90)
        found = re.search(rb"sent (\d+) failed (\d+) (.*)", output)
        assert found is not None, output[-500:]
        assert int(found[2]) == 0, found[3]
        throttled = re.search(rb"throttled ([0-9.]+)", output)
        self.throttle_ms_max = 0.0 if throttled is None else float(throttled[1])
        self.sent = int(found[1])

    def dispose(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def records_of(bootstrap: str, topic: str, partition: int, seconds: float = 60) -> list[str]:
    """Every value of a partition in order, and an assertion that offsets have no gap."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "verify", "enable.auto.commit": False})
    try:
        at = TopicPartition(topic, partition, 0)
        _, end = watermarks(consumer, at)
        consumer.assign([at])
        values: list[str] = []
        deadline = time.monotonic() + seconds
        while len(values) < end:
            assert time.monotonic() < deadline, f"{len(values)} of {end} records"
            for message in consumer.consume(1000, timeout=1):
                assert message.error() is None, message.error()
                assert message.offset() == len(values), "a gap or a repeat"
                values.append((message.value() or b"").decode(errors="replace"))
        return values
    finally:
        consumer.close()


class OffsetsTopicReader(Load):
    """librdkafka on all of `__consumer_offsets`: every offset once, rising, without gap; never out of range."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        super().__init__("offsets-reader")
        self.bootstrap, self.partitions = bootstrap, partitions
        self.next = dict.fromkeys(range(partitions), 0)

    def work(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "offsets-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        consumer.assign([TopicPartition("__consumer_offsets", p, 0) for p in range(self.partitions)])
        try:
            while not self.ended.is_set():
                for message in consumer.consume(1000, timeout=0.2):
                    error = message.error()
                    if error is not None:
                        assert error.code() not in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET), (
                            error
                        )
                        continue
                    partition = message.partition()
                    assert message.offset() == self.next[partition], (
                        f"partition {partition}: offset {message.offset()} after {self.next[partition] - 1}"
                    )
                    self.next[partition] += 1
        finally:
            consumer.close()


class ConsoleReader:
    """Kafka's console consumer on `__consumer_offsets`, through everything."""

    def __init__(self, bootstrap: str, output: Path) -> None:
        arguments = ["--bootstrap-server", bootstrap, "--topic", "__consumer_offsets", "--from-beginning"]
        for name in ("print.offset", "print.partition"):
            arguments += ["--formatter-property", f"{name}=true"]
        arguments += ["--formatter-property", "print.value=false"]
        arguments += ["--command-property", "exclude.internal.topics=false"]
        self.output = output
        with output.open("wb") as out:
            self._process = subprocess.Popen(
                kafka_tools.command(kafka_tools.CONSUMER, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=sys.stderr,
            )

    def dispose(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def seen(self) -> dict[int, list[int]]:
        """Partition → offsets in the order printed."""
        found: dict[int, list[int]] = {}
        for line in self.output.read_text(errors="replace").splitlines():
            match = re.match(r"Partition:(\d+)\tOffset:(\d+)", line)
            if match:
                found.setdefault(int(match[1]), []).append(int(match[2]))
        return found

    def verify(self) -> int:
        """Number of records printed, each once, rising, without gap."""
        seen = self.seen()
        for partition, offsets in seen.items():
            assert offsets == list(range(len(offsets))), f"partition {partition}: {offsets[:20]}..."
        return sum(map(len, seen.values()))
