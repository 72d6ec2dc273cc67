"""Real clients that commit all the while something is done to their coordinators.

Each client is the only member of its group, commits rising offsets synchronously, remembers what was acknowledged, and
counts a commit as failed only when the client itself gave up, after its own retries and with its own time-outs. What is
stored at the end must be the last acknowledged offset, or a later one that was tried.
"""

import gc
import logging
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import KafkaConsumer
from kafka.errors import KafkaError as PythonError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonPartition

from e2e.fleet import Cluster, until

SESSION_TIMEOUT_MS = 20_000
TOPIC = "commit-load"
PARTITIONS = 2
PAUSE_S = 0.05
POLL_S = 0.01
JOIN_S = 90.0
FAILURES_KEPT = 20


class Load(threading.Thread, ABC):
    """One client; `finish` ends it and raises what it died of."""

    def __init__(
        self, cluster: Cluster, group: str, instance: str | None, settings: Mapping[str, str | int] | None = None
    ) -> None:
        """`settings` of the client's own beside those that every client has."""
        super().__init__(name=group, daemon=True)
        self.settings = dict(settings or {})
        self.bootstrap, self.group, self.instance = cluster.bootstrap, group, instance
        self.tried = dict.fromkeys(range(PARTITIONS), 0)
        self.acknowledged = dict.fromkeys(range(PARTITIONS), 0)
        self.failures: list[str] = []
        self.longest_s = 0.0
        """The longest commit, its retries included."""
        self.ended = threading.Event()
        self.crash: BaseException | None = None

    def run(self) -> None:
        try:
            self._join_group()
            turn = 0
            while not self.ended.wait(PAUSE_S):
                self._one_commit(turn % PARTITIONS)
                turn += 1
        except BaseException as error:  # noqa: BLE001 - raised again in finish, on the test's thread
            self.crash = error
        finally:
            self.close()

    def _join_group(self) -> None:
        self.open()
        deadline = time.monotonic() + JOIN_S
        while self.serve() != PARTITIONS:
            assert time.monotonic() < deadline, f"{self.group} has not got its partitions"

    def _one_commit(self, partition: int) -> None:
        if self.serve() != PARTITIONS:
            self._failed("it lost its partitions")
            return
        self.tried[partition] += 1
        began_s = time.monotonic()
        failure = self.commit(partition, self.tried[partition])
        took_s = time.monotonic() - began_s
        self.longest_s = max(self.longest_s, took_s)
        if failure is None:
            self.acknowledged[partition] = self.tried[partition]
        else:
            self._failed(f"partition {partition}, offset {self.tried[partition]}, after {took_s:.1f} s: {failure}")

    def _failed(self, why: str) -> None:
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(f"{self.group}: {why}")

    def finish(self) -> None:
        self.ended.set()
        self.join(JOIN_S)
        assert not self.is_alive(), f"{self.group} does not end"
        if self.crash is not None:
            raise self.crash

    @abstractmethod
    def open(self) -> None:
        """Make the client and subscribe."""

    @abstractmethod
    def serve(self) -> int:
        """One poll, which drives the client; how many partitions it holds now."""

    @abstractmethod
    def commit(self, partition: int, offset: int) -> str | None:
        """Why it failed for good; None when it was acknowledged."""

    @abstractmethod
    def close(self) -> None:
        """Also when `open` did not succeed."""


class Librdkafka(Load):
    client: Consumer | None = None

    def open(self) -> None:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            **self.settings,
        }
        if self.instance is not None:
            settings["group.instance.id"] = self.instance
        self.client = Consumer(settings)
        self.client.subscribe([TOPIC])

    def serve(self) -> int:
        assert self.client is not None
        message = self.client.poll(POLL_S)
        error = message.error() if message is not None else None
        assert error is None or not error.fatal(), error
        return len(self.client.assignment())

    def commit(self, partition: int, offset: int) -> str | None:
        assert self.client is not None
        try:
            self.client.commit(offsets=[TopicPartition(TOPIC, partition, offset)], asynchronous=False)
        except KafkaException as error:
            return str(error)
        return None

    def close(self) -> None:
        if self.client is not None:
            self.client.close()
            self.client = None


class KafkaPython(Load):
    client: KafkaConsumer | None = None

    def open(self) -> None:
        self.client = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            group_instance_id=self.instance,
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            **self.settings,
        )
        # Asked for before it joins: kafka-python 3.0 forgets an assignment that comes between two polls if it joined
        # for partitions that it did not know before (docs/clients.md).
        self.client.partitions_for_topic(TOPIC)
        self.client.subscribe([TOPIC])

    def serve(self) -> int:
        assert self.client is not None
        self.client.poll(timeout_ms=round(POLL_S * 1_000))
        return len(self.client.assignment())

    def commit(self, partition: int, offset: int) -> str | None:
        assert self.client is not None
        try:
            self.client.commit({PythonPartition(TOPIC, partition): OffsetAndMetadata(offset, "", -1)})
        except PythonError as error:
            return f"{type(error).__name__}: {error}"
        return None

    def close(self) -> None:
        if self.client is not None:
            self.client.close()
            self.client = None


KINDS: tuple[type[Load], ...] = (Librdkafka, Librdkafka, Librdkafka, Librdkafka, KafkaPython, KafkaPython)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLoad:
    """All the clients, each Stable; `verdict` after the block."""

    cluster: Cluster
    loads: tuple[Load, ...]
    generations: dict[str, int]
    """Group → generation when every client had joined."""

    def check(self) -> None:
        """While all still run: nothing was rebalanced. Then they end, and nothing failed and nothing is lost."""
        after = {load.group: self.cluster.group(load.group) for load in self.loads}
        print(f"generations before {self.generations}, after { {g: one['generation'] for g, one in after.items()} }")
        assert {group: one["generation"] for group, one in after.items()} == self.generations
        assert {one["state"] for one in after.values()} == {"Stable"}
        for load in self.loads:
            load.finish()
        done = sum(sum(load.acknowledged.values()) for load in self.loads)
        print(f"{done} commits acknowledged, the longest took {max(load.longest_s for load in self.loads):.1f} s")
        assert [failure for load in self.loads for failure in load.failures] == []
        self.nothing_lost()

    def nothing_lost(self) -> None:
        """Once they have ended: what is stored is what was acknowledged last, or something later that was tried."""
        for load in self.loads:
            load.finish()
            stored = {one["partition"]: one["offset"] for one in self.cluster.group(load.group)["offsets"]}
            for partition, acknowledged in load.acknowledged.items():
                assert 0 < acknowledged <= stored[partition] <= load.tried[partition], (load.group, partition, stored)


@contextmanager
def committing(
    cluster: Cluster,
    prefix: str,
    kinds: Sequence[type[Load]] = KINDS,
    settings: Mapping[str, str | int] | None = None,
) -> Iterator[CommitLoad]:
    """A client of each of `kinds`, every second one with an instance id, that commit until the block ends."""
    cluster.create_topic(TOPIC, PARTITIONS)
    loads = tuple(
        kind(cluster, f"{prefix}-{number}", f"{prefix}-{number}" if number % 2 else None, settings)
        for number, kind in enumerate(kinds)
    )
    with _kafka_python_at_rest():
        for load in loads:
            load.start()
        try:
            until("commits of every client", lambda: _all_commit(loads), JOIN_S)
            generations = {load.group: int(cluster.group(load.group)["generation"]) for load in loads}
            yield CommitLoad(cluster=cluster, loads=loads, generations=generations)
        finally:
            for load in loads:
                load.ended.set()
            for load in loads:
                load.join(JOIN_S)


def _all_commit(loads: tuple[Load, ...]) -> bool:
    crashed = [load.crash for load in loads if load.crash is not None]
    assert not crashed, crashed
    return all(min(load.acknowledged.values()) > 0 for load in loads)


@contextmanager
def _kafka_python_at_rest() -> Iterator[None]:
    """It drops sockets that the other side closed without closing them, and logs them: a log record that a test runner
    keeps would keep them too, until they are a warning in somebody else's test."""
    logger = logging.getLogger("kafka")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        try:
            yield
        finally:
            gc.collect()
            logger.setLevel(level)
