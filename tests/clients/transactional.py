"""A transactional producer of each client library behind the same few words, and readers of both isolation levels.

Each call returns when the library says that it is done, and raises `Failed` with the library's own error otherwise.
"""

import asyncio
import subprocess
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import IllegalOperation
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer
from kafka import TopicPartition as KpPartition
from kafka.errors import KafkaError as KafkaPythonError
from kafka.structs import OffsetAndMetadata
from typing_extensions import override

from tests import java_tools

HERE = Path(__file__).parent
ANSWER_S_MAX = 45
READ_S_MAX = 60


class Failed(Exception):
    """What the library raised: its class and its words."""


class Transactional(ABC):
    """`with open_producer(...) as producer`; `init` has been called already."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, partition: int, value: str) -> None:
        """Acknowledged when it returns."""

    @abstractmethod
    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit an offset of a group without members as part of the transaction."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def dispose(self) -> None:
        """As if the process had died: nothing is ended."""


class Librdkafka(Transactional):
    def __init__(self, bootstrap: str, name: str, timeout_ms: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 0,
                "metadata.recovery.strategy": "none",  # docs/clients.md, "When every broker a client knows is gone"
                "log_level": 0,
            }
        )
        self._do(lambda: self._producer.init_transactions(ANSWER_S_MAX))

    @staticmethod
    def _do(call: Any) -> None:
        try:
            call()
        except KafkaException as error:
            raise Failed(str(error)) from None

    @override
    def begin(self) -> None:
        self._do(self._producer.begin_transaction)

    @override
    def send(self, topic: str, partition: int, value: str) -> None:
        failed: list[str] = []

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(str(error))

        self._do(lambda: self._producer.produce(topic, value, partition=partition, on_delivery=delivered))
        if self._producer.flush(ANSWER_S_MAX) or failed:
            raise Failed(str(failed))

    @override
    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        reader = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group, "log_level": 0})
        metadata = reader.consumer_group_metadata()
        reader.close()
        offsets = [TopicPartition(topic, partition, offset)]
        self._do(lambda: self._producer.send_offsets_to_transaction(offsets, metadata, ANSWER_S_MAX))

    @override
    def commit(self) -> None:
        self._do(lambda: self._producer.commit_transaction(ANSWER_S_MAX))

    @override
    def abort(self) -> None:
        self._do(lambda: self._producer.abort_transaction(ANSWER_S_MAX))

    @override
    def dispose(self) -> None:
        self._producer.purge()


class KafkaPython(Transactional):
    def __init__(self, bootstrap: str, name: str, timeout_ms: int) -> None:
        self._producer: Any = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=timeout_ms
        )
        self._do(self._producer.init_transactions)

    @staticmethod
    def _do(call: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return call(*arguments, **named)
        except KafkaPythonError as error:
            raise Failed(repr(error)) from None

    @override
    def begin(self) -> None:
        self._do(self._producer.begin_transaction)

    @override
    def send(self, topic: str, partition: int, value: str) -> None:
        future = self._do(self._producer.send, topic, value.encode(), partition=partition)
        self._do(future.get, ANSWER_S_MAX)

    @override
    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        offsets = {KpPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self._do(self._producer.send_offsets_to_transaction, offsets, group)

    @override
    def commit(self) -> None:
        self._do(self._producer.commit_transaction)

    @override
    def abort(self) -> None:
        self._do(self._producer.abort_transaction)

    @override
    def dispose(self) -> None:
        self._producer.close(timeout=0)


class Aiokafka(Transactional):
    """On an event loop of its own, in a thread."""

    def __init__(self, bootstrap: str, name: str, timeout_ms: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"aiokafka-{name}", daemon=True)
        self._thread.start()
        self._producer: Any = None
        try:
            self._do(self._start(bootstrap, name, timeout_ms))
        except Failed:
            self.dispose()
            raise

    async def _start(self, bootstrap: str, name: str, timeout_ms: int) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=timeout_ms
        )
        await self._producer.start()

    def _do(self, what: Any) -> Any:
        future = asyncio.run_coroutine_threadsafe(what, self._loop)
        try:
            return future.result(ANSWER_S_MAX)
        except (AioError, IllegalOperation, TimeoutError) as error:
            raise Failed(repr(error)) from None

    @override
    def begin(self) -> None:
        self._do(self._producer.begin_transaction())

    @override
    def send(self, topic: str, partition: int, value: str) -> None:
        self._do(self._producer.send_and_wait(topic, value.encode(), partition=partition))

    @override
    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._do(self._producer.send_offsets_to_transaction({AioPartition(topic, partition): offset}, group))

    @override
    def commit(self) -> None:
        self._do(self._producer.commit_transaction())

    @override
    def abort(self) -> None:
        self._do(self._producer.abort_transaction())

    @override
    def dispose(self) -> None:
        if self._producer is not None:
            self._do(self._producer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_S_MAX)
        self._loop.close()


class Java(Transactional):
    def __init__(self, bootstrap: str, name: str, timeout_ms: int) -> None:
        sources = [HERE / "members" / "java" / "TransactionalProducer.java"]
        class_path = java_tools.compile_java(sources, java_tools.classpath(*java_tools.KAFKA_ALL))
        quiet = HERE / "members" / "java" / "log4j2-quiet.yaml"
        head = java_tools.jvm(class_path, 96, f"-Dlog4j2.configurationFile={quiet}")
        self._process = subprocess.Popen(
            [*head, "TransactionalProducer", bootstrap, name, str(timeout_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            self._tell("init")
        except Failed:
            self.dispose()
            raise

    def _tell(self, *words: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if answer != "ok":
            raise Failed(answer)

    @override
    def begin(self) -> None:
        self._tell("begin")

    @override
    def send(self, topic: str, partition: int, value: str) -> None:
        self._tell("send", topic, partition, value)

    @override
    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._tell("offset", group, topic, partition, offset)

    @override
    def commit(self) -> None:
        self._tell("commit")

    @override
    def abort(self) -> None:
        self._tell("abort")

    @override
    def dispose(self) -> None:
        self._process.kill()
        self._process.communicate()


LIBRARIES: dict[str, type[Any]] = {
    "librdkafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "java": Java,
}


def open_producer(client: str, bootstrap: str, name: str, *, timeout_ms: int = 60_000) -> Transactional:
    producer: Transactional = LIBRARIES[client](bootstrap, name, timeout_ms)
    return producer
