"""Records on their way to a topic, counted when the cluster has acknowledged them.

Whether a record without an acknowledgement is stored is unknown, and the error says so.
"""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.kafka_client import KafkaSide, Untyped, bootstrap_list, client_settings, error_text
from muster_coordinator.cli.output import note

LINGER_MS = 5
PROGRESS_S = 2.0


class Delivery:
    """A producer, and the counts of sent and acknowledged records."""

    def __init__(
        self,
        side: KafkaSide,
        properties: Mapping[str, str],
        topic: str,
        partition: int | None,
        headers: list[tuple[str, bytes]],
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """`more`: settings of kafka-python's producer."""
        self.sent = self.acknowledged = 0
        self.first_error: Untyped = None
        """Of a record that was not acknowledged."""
        self._side = side
        self._topic, self._partition, self._headers = topic, partition, headers
        self._next_progress = time.monotonic() + PROGRESS_S
        settings = client_settings(properties, side.kafka.KafkaProducer.DEFAULT_CONFIG, "client settings")
        settings.update(more or {})
        settings.setdefault("client_id", "muster-produce")
        settings.setdefault("acks", "all")
        settings.setdefault("linger_ms", LINGER_MS)
        try:
            self.producer = side.kafka.KafkaProducer(bootstrap_servers=bootstrap_list(side.bootstrap), **settings)
        except side.kafka.errors.KafkaError as error:
            raise side.sentence(error, "cannot produce") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Wait for all records in flight. Raises CliError unless every record was acknowledged."""
        try:
            self.producer.flush(timeout=self._side.timeout_s)
        except self._side.kafka.errors.KafkaError as failure:
            self.first_error = self.first_error or failure
        whole = self.acknowledged == self.sent
        self.close(at_once=not whole)
        if not whole and kind is None:
            raise CliError(Exit.UNREACHABLE if self.retriable() else Exit.REFUSED, self._verdict())
        if kind is not None and self.sent:
            note(f"stopped: {self.acknowledged} records acknowledged" if whole else self._verdict())

    @property
    def done(self) -> str:
        """What to say when all went well."""
        return f"{self.acknowledged} records acknowledged in {self._topic}"

    @property
    def broken(self) -> bool:
        """Whether a record has failed: further ones would fail, too."""
        return self.first_error is not None

    def send(self, key: bytes | None, value: bytes) -> None:
        """Pass one record to the client; blocks while its buffer is full. Raises CliError when it cannot be sent."""
        try:
            future = self.producer.send(
                self._topic, value=value, key=key, headers=self._headers, partition=self._partition
            )
        except (self._side.kafka.errors.KafkaError, AssertionError, ValueError) as error:
            raise CliError(Exit.REFUSED, f"record {self.sent + 1} was not sent: {reason_of(error)}") from error
        self.sent += 1
        future.add_callback(self._on_acknowledged)
        future.add_errback(self._on_failed)

    def progress(self) -> None:
        """Report the progress every PROGRESS_S."""
        now = time.monotonic()
        if now >= self._next_progress:
            self._next_progress = now + PROGRESS_S
            note(f"{self.acknowledged} of {self.sent} records acknowledged so far")

    def close(self, *, at_once: bool) -> None:
        """`at_once`: what is still on its way is given up."""
        self.producer.close(timeout=0 if at_once else None)

    def retriable(self) -> bool:
        """Whether the first record that failed might have been stored."""
        return self.first_error is None or bool(getattr(self.first_error, "retriable", False))

    def _verdict(self) -> str:
        reason = "no answer in time" if self.first_error is None else reason_of(self.first_error)
        missing = self.sent - self.acknowledged
        fate = "whether they are stored is unknown" if self.retriable() else "they are not stored"
        return f"{missing} of {self.sent} records were not acknowledged ({reason}); {fate}"

    def _on_acknowledged(self, _metadata: Untyped) -> None:
        self.acknowledged += 1

    def _on_failed(self, error: Untyped) -> None:
        self.first_error = self.first_error or error


def reason_of(error: Untyped) -> str:
    return error_text(error) if hasattr(error, "retriable") else str(error)
