"""`muster produce`: send the lines of a file or of standard input as records.

Records are sent idempotently with acks=all, and counted when the cluster has acknowledged them, not when they are
passed to the client. For a record without acknowledgement the error says that it is unknown whether it is stored.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Annotated, BinaryIO, Self

import typer

from muster_coordinator.cli.client_properties import of_connection, read_client_properties
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.kafka_client import (
    DEFAULT_TIMEOUT_S,
    KafkaSide,
    Untyped,
    bootstrap_list,
    client_settings,
    error_text,
)
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Timeout
from muster_coordinator.cli.output import note
from muster_coordinator.cli.topics import known_topic

LINE_BYTES_MAX = 4 * 1024 * 1024
"""Largest line. A record must fit into a batch, and none may be larger (limits.BATCH_BYTES_MAX)."""
LINGER_MS = 5
PROGRESS_S = 2.0


def produce(
    topic: Annotated[str, typer.Argument(help="Topic to send to.")],
    file: Annotated[Path | None, typer.Argument(help="File with one record per line; default: standard input.")] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", help="Text between key and value of a line.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Send all records to this partition.")
    ] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", help="A header of every record, NAME=VALUE; may be repeated.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Send one record per line: idempotently, acknowledged by a majority of replicas."""
    properties = read_client_properties(config)
    with KafkaSide(bootstrap, of_connection(properties), timeout) as side:
        known_topic(side, topic)
        with _Delivery(side, properties, topic, partition, [_header(one) for one in headers or ()]) as delivery:
            for key, value in _records(file, key_separator):
                delivery.send(key, value)
                if not quiet:
                    delivery.progress()
                if delivery.broken:
                    break
    note(f"{delivery.acknowledged} records acknowledged in {topic}")


class _Delivery:
    """A producer, and the counts of sent and acknowledged records."""

    def __init__(
        self,
        side: KafkaSide,
        properties: Mapping[str, str],
        topic: str,
        partition: int | None,
        headers: list[tuple[str, bytes]],
    ) -> None:
        self.sent = self.acknowledged = 0
        self._first_error: Untyped = None
        self._side = side
        self._topic, self._partition, self._headers = topic, partition, headers
        self._next_progress = time.monotonic() + PROGRESS_S
        settings = client_settings(properties, side.kafka.KafkaProducer.DEFAULT_CONFIG, "client settings")
        settings.setdefault("client_id", "muster-produce")
        settings.setdefault("acks", "all")
        settings.setdefault("linger_ms", LINGER_MS)
        try:
            self._producer = side.kafka.KafkaProducer(bootstrap_servers=bootstrap_list(side.bootstrap), **settings)
        except side.kafka.errors.KafkaError as error:
            raise side.sentence(error, "cannot produce") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Wait for all records in flight. Raises CliError unless every record was acknowledged."""
        try:
            self._producer.flush(timeout=self._side.timeout_s)
        except self._side.kafka.errors.KafkaError as failure:
            self._first_error = self._first_error or failure
        whole = self.acknowledged == self.sent
        self._producer.close(timeout=None if whole else 0)
        if not whole and kind is None:
            raise CliError(Exit.UNREACHABLE if self._retriable() else Exit.REFUSED, self._verdict())
        if kind is not None and self.sent:
            note(f"stopped: {self.acknowledged} records acknowledged" if whole else self._verdict())

    @property
    def broken(self) -> bool:
        """Whether a record has failed: further ones would fail, too."""
        return self._first_error is not None

    def send(self, key: bytes | None, value: bytes) -> None:
        """Pass one record to the client; blocks while its buffer is full. Raises CliError when it cannot be sent."""
        try:
            future = self._producer.send(
                self._topic, value=value, key=key, headers=self._headers, partition=self._partition
            )
        except (self._side.kafka.errors.KafkaError, AssertionError, ValueError) as error:
            raise CliError(Exit.REFUSED, f"record {self.sent + 1} was not sent: {_reason(error)}") from error
        self.sent += 1
        future.add_callback(self._on_acknowledged)
        future.add_errback(self._on_failed)

    def progress(self) -> None:
        """Report the progress every PROGRESS_S."""
        now = time.monotonic()
        if now >= self._next_progress:
            self._next_progress = now + PROGRESS_S
            note(f"{self.acknowledged} of {self.sent} records acknowledged so far")

    def _retriable(self) -> bool:
        return self._first_error is None or bool(getattr(self._first_error, "retriable", False))

    def _verdict(self) -> str:
        reason = "no answer in time" if self._first_error is None else _reason(self._first_error)
        missing = self.sent - self.acknowledged
        fate = "whether they are stored is unknown" if self._retriable() else "they are not stored"
        return f"{missing} of {self.sent} records were not acknowledged ({reason}); {fate}"

    def _on_acknowledged(self, _metadata: Untyped) -> None:
        self.acknowledged += 1

    def _on_failed(self, error: Untyped) -> None:
        self._first_error = self._first_error or error


def _reason(error: Untyped) -> str:
    return error_text(error) if hasattr(error, "retriable") else str(error)


def _records(file: Path | None, key_separator: str | None) -> Iterator[tuple[bytes | None, bytes]]:
    separator = key_separator.encode() if key_separator else None
    if key_separator == "":
        raise CliError(Exit.USAGE, "--key-separator must not be empty")
    for number, line in enumerate(_lines(file), start=1):
        if separator is None:
            yield None, line
            continue
        key, found, value = line.partition(separator)
        if not found:
            raise CliError(Exit.USAGE, f"line {number} has no key separator {key_separator!r}")
        yield key, value


def _lines(file: Path | None) -> Iterator[bytes]:
    if file is None or str(file) == "-":
        yield from _lines_of(sys.stdin.buffer, "standard input")
        return
    try:
        with file.open("rb") as opened:
            yield from _lines_of(opened, str(file))
    except OSError as error:
        raise CliError(Exit.USAGE, f"cannot read {file}: {os.strerror(error.errno or 0)}") from error


def _lines_of(stream: BinaryIO, name: str) -> Iterator[bytes]:
    number = 0
    while line := stream.readline(LINE_BYTES_MAX + 2):
        number += 1
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(text) > LINE_BYTES_MAX:
            raise CliError(Exit.USAGE, f"line {number} of {name} is longer than {LINE_BYTES_MAX} bytes")
        yield text


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise CliError(Exit.USAGE, f"--header must be NAME=VALUE, not {text!r}")
    return name, value.encode()
