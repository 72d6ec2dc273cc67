"""The demo's clients: an idempotent loader, and readers of one group, on librdkafka with its default timeouts.

A reader stores an offset only after it has counted the flight, so a commit is never ahead of what was seen. Flights
that are read twice after a rebalance or a failure are counted and shown.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from muster_coordinator.cli.demo.flights import FLIGHTS, Flight, flight_id
from muster_coordinator.cli.exits import CliError, Exit

LOADER_CHUNK = 500
HOLD_POLL_S = 0.1
READ_BATCH = 1_000
READ_TIMEOUT_S = 0.2
SIGHT_INTERVAL_S = 0.3
COMMIT_INTERVAL_MS = 1_000
LAST_COMMIT_TIMEOUT_S = 10.0
CLOSE_FLUSH_S = 30.0

Note = Callable[[str], None]
"""Takes a remark for the user. Called from any thread."""


def load_confluent() -> Any:  # noqa: ANN401 - confluent-kafka's module
    """The package confluent_kafka, with its admin part. Raises CliError when it is missing."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise CliError(Exit.USAGE, "the demo needs confluent-kafka: pip install 'muster[demo]'") from error
    return confluent_kafka


class Client:
    """A thread that works until it is done or asked to stop. `failure`: why it gave up; None: it did not."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.name = name
        self.failure: str | None = None
        self._stop_asked = threading.Event()
        self._thread = threading.Thread(name=name, target=work, daemon=True)

    def start(self) -> None:
        """Start the thread; call once."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; `join` waits for it."""
        self._stop_asked.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end."""
        self._thread.join(timeout_s)

    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()


class Loader(Client):
    """Produces flights at a constant rate, none beyond `loaded_max`; `acknowledged` counts them. When stopped early it
    does not wait for the last acknowledgements."""

    def __init__(self, bootstrap: str, topic: str, flights: Iterable[Flight], rate_per_s: int) -> None:
        super().__init__("loader", self._run)
        self.acknowledged = 0
        self.loaded_max = FLIGHTS
        self._topic, self._flights, self._rate_per_s = topic, flights, rate_per_s
        self._producer = load_confluent().Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "loader",
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 20,
                "compression.type": "lz4",
                "partitioner": "murmur2_random",
                "log_level": 0,
            }
        )

    def _run(self) -> None:
        began = time.monotonic()
        for count, flight in enumerate(self._flights):
            if count % LOADER_CHUNK == 0:
                if self._stop_asked.is_set() or self.failure is not None:
                    return
                self._producer.poll(0)
                while count >= self.loaded_max and not self._stop_asked.wait(HOLD_POLL_S):
                    self._producer.poll(0)
                    began += HOLD_POLL_S
                self._stop_asked.wait(max(0.0, began + count / self._rate_per_s - time.monotonic()))
            while True:
                try:
                    self._producer.produce(self._topic, flight.value, flight.key, on_delivery=self._on_delivery)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        left = self._producer.flush(CLOSE_FLUSH_S)
        if left:
            self.failure = self.failure or f"{left} flights were not acknowledged within {CLOSE_FLUSH_S:.0f} s"

    def _on_delivery(self, error: object, _message: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failure = self.failure or f"a flight was not stored: {error}"


class ReaderSight(NamedTuple):
    """The log end offset of each partition that a reader is assigned, as of its last fetch."""

    log_ends: dict[int, int]


class Reader(Client):
    """One member of the group. When stopped, it commits and leaves. `ticks`: how often this reader read each flight."""

    def __init__(self, bootstrap: str, topic: str, group: str, name: str, flights: int, note: Note) -> None:
        super().__init__(name, self._run)
        self.records = 0
        self.ticks = bytearray(flights)
        self.sight = ReaderSight({})
        self._note = note
        self._confluent = load_confluent()
        self._consumer = self._confluent.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": name,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.offset.store": False,
                "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
                "log_level": 0,
            }
        )
        self._consumer.subscribe(
            [topic],
            on_assign=lambda _consumer, partitions: self._tell("got", partitions),
            on_revoke=lambda _consumer, partitions: self._tell("gave back", partitions),
            on_lost=lambda _consumer, partitions: self._tell("lost", partitions),
        )

    def _run(self) -> None:
        next_sight = 0.0
        try:
            while not self._stop_asked.is_set():
                self._take(self._consumer.consume(READ_BATCH, READ_TIMEOUT_S))
                now = time.monotonic()
                if now >= next_sight:
                    next_sight = now + SIGHT_INTERVAL_S
                    self._look()
            self._commit_all()
        except (self._confluent.KafkaException, ValueError) as error:
            self.failure = str(error)
        finally:
            self._consumer.close()

    def _take(self, messages: Sequence[Any]) -> None:
        after: dict[tuple[str, int], int] = {}
        for message in messages:
            if message.error() is not None:
                if message.error().fatal():
                    raise self._confluent.KafkaException(message.error())
                continue
            number = flight_id(message.value())
            self.ticks[number] = min(255, self.ticks[number] + 1)
            after[message.topic(), message.partition()] = message.offset() + 1
            self.records += 1
        for (topic, partition), offset in after.items():
            # A partition may have been revoked since the fetch; its next owner continues at the last commit.
            with contextlib.suppress(self._confluent.KafkaException):
                self._consumer.store_offsets(offsets=[self._confluent.TopicPartition(topic, partition, offset)])

    def _look(self) -> None:
        ends: dict[int, int] = {}
        with contextlib.suppress(self._confluent.KafkaException):
            for one in self._consumer.assignment():
                _low, high = self._consumer.get_watermark_offsets(one, cached=True)
                if high >= 0:
                    ends[one.partition] = high
        self.sight = ReaderSight(ends)

    def _commit_all(self) -> None:
        """The last commit, repeated while a coordinator is being elected."""
        deadline = time.monotonic() + LAST_COMMIT_TIMEOUT_S
        while True:
            try:
                self._consumer.commit(asynchronous=False)
                return
            except self._confluent.KafkaException as error:
                cause = error.args[0]
                if cause.code() == self._confluent.KafkaError._NO_OFFSET:
                    return
                if time.monotonic() > deadline:
                    raise
                time.sleep(READ_TIMEOUT_S)

    def _tell(self, what: str, partitions: Sequence[Any]) -> None:
        if partitions and not self._stop_asked.is_set():
            self._note(f"{self.name} {what} partitions {_numbers(one.partition for one in partitions)}")


def _numbers(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


def create_topic(bootstrap: str, topic: str, partitions: int, replication_factor: int, timeout_s: float) -> None:
    """Create a topic. Raises CliError."""
    confluent = load_confluent()
    admin = confluent.admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = confluent.admin.NewTopic(topic, num_partitions=partitions, replication_factor=replication_factor)
    try:
        admin.create_topics([wanted], operation_timeout=timeout_s, request_timeout=timeout_s)[topic].result()
    except confluent.KafkaException as error:
        raise CliError(Exit.REFUSED, f"topic {topic} was not created: {error.args[0].str()}") from error


class FinalOffsets(NamedTuple):
    """Committed offset (None: no commit) and log end offset of each partition."""

    committed: dict[int, int | None]
    ends: dict[int, int]


def final_offsets(bootstrap: str, topic: str, group: str, partitions: int, timeout_s: float) -> FinalOffsets:
    """Queried by a client that is not a member. Raises CliError."""
    confluent = load_confluent()
    consumer = confluent.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    wanted = [confluent.TopicPartition(topic, partition) for partition in range(partitions)]
    try:
        committed = consumer.committed(wanted, timeout=timeout_s)
        ends = {one.partition: consumer.get_watermark_offsets(one, timeout=timeout_s)[1] for one in wanted}
    except confluent.KafkaException as error:
        raise CliError(Exit.UNREACHABLE, f"the final offsets are unknown: {error.args[0].str()}") from error
    finally:
        consumer.close()
    return FinalOffsets({one.partition: one.offset if one.offset >= 0 else None for one in committed}, ends)
