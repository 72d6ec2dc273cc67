"""`muster produce`: send the lines of a file or of standard input as records.

Records are sent idempotently with acks=all, and counted when the cluster has acknowledged them, not when they are
passed to the client. For a record without acknowledgement the error says that it is unknown whether it is stored.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from muster_coordinator.cli.client_properties import of_connection, read_client_properties
from muster_coordinator.cli.delivery import Delivery
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.interruption import Interruption
from muster_coordinator.cli.kafka_client import DEFAULT_TIMEOUT_S, KafkaSide
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Timeout
from muster_coordinator.cli.output import note
from muster_coordinator.cli.topics import known_topic
from muster_coordinator.cli.transactional_delivery import TransactionalDelivery

LINE_BYTES_MAX = 4 * 1024 * 1024
"""Largest line. A record must fit into a batch, and none may be larger (limits.BATCH_BYTES_MAX)."""


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
    transactional_id: Annotated[
        str | None,
        typer.Option("--transactional-id", help="Send in transactions of this id; an interrupted one is aborted."),
    ] = None,
    transaction_records: Annotated[
        int | None,
        typer.Option(
            "--transaction-records", min=1, help="Commit after so many records. Default: all are one transaction."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Send one record per line: idempotently, acknowledged by a majority of replicas."""
    properties = read_client_properties(config)
    transactional_id = transactional_id or properties.pop("transactional.id", None)
    if transaction_records is not None and transactional_id is None:
        raise CliError(Exit.USAGE, "--transaction-records needs --transactional-id")
    interrupted: AbstractContextManager[Any] = Interruption() if transactional_id else nullcontext()
    with interrupted, KafkaSide(bootstrap, of_connection(properties), timeout) as side:
        known_topic(side, topic)
        whither = (side, properties, topic, partition, [_header(one) for one in headers or ()])
        delivery: Delivery | TransactionalDelivery = (
            TransactionalDelivery(*whither, transactional_id, transaction_records)
            if transactional_id
            else Delivery(*whither)
        )
        with delivery:
            for key, value in _records(file, key_separator):
                delivery.send(key, value)
                if not quiet:
                    delivery.progress()
                if delivery.broken:
                    break
    note(delivery.done)


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
