"""`muster consume`: read topics, alone or as a member of a group, and show what happens to the membership.

Records go to standard output; assigned, revoked and lost partitions to standard error. With a group, offsets are
committed every 5 s and at the end, never beyond what was printed; without one all partitions are read and nothing is
committed. Timeouts are Kafka 4's: session 45 s, heartbeat 3 s, poll interval 5 min.
"""

import base64
import json
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from muster_coordinator.cli.client_properties import of_connection, read_client_properties
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.kafka_client import (
    DEFAULT_TIMEOUT_S,
    KafkaSide,
    Untyped,
    bootstrap_list,
    client_settings,
)
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Isolation, Output, Timeout
from muster_coordinator.cli.output import Format, note, to_yaml
from muster_coordinator.cli.topics import known_topic
from muster_coordinator.errors import CallerError

SESSION_TIMEOUT_MS = 45_000
HEARTBEAT_INTERVAL_MS = 3_000
MAX_POLL_INTERVAL_MS = 300_000
AUTO_COMMIT_INTERVAL_MS = 5_000
"""Kafka 4's defaults, set here because kafka-python's differ."""

POLL_MS = 250
POLL_RECORDS_MAX = 500
DEFAULT_ASSIGNORS = "cooperative-sticky"


def consume(
    topics: Annotated[list[str], typer.Argument(help="Topics to read.")],
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", envvar="MUSTER_GROUP_ID", help="Join this group and commit offsets."),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the oldest record where no offset is committed.")
    ] = False,
    instance_id: Annotated[
        str | None,
        typer.Option("--instance-id", envvar="MUSTER_GROUP_INSTANCE_ID", help="Join as a static member with this id."),
    ] = None,
    assignors: Annotated[
        str | None,
        typer.Option("--assignor", help="range, roundrobin, sticky, cooperative-sticky; comma-separated."),
    ] = None,
    isolation: Annotated[
        Isolation | None,
        typer.Option(
            "--isolation-level",
            help="read_committed: no record of an aborted transaction, and none beyond the first open one. "
            "Default: read_uncommitted.",
        ),
    ] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", min=1, help="Stop after this many records.")
    ] = None,
    idle: Annotated[
        float | None, typer.Option("--idle", min=0.1, help="Stop after this many seconds without a record.")
    ] = None,
    positions: Annotated[
        bool, typer.Option("--positions", help="Print topic, partition, offset and key before the value.")
    ] = False,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Print records until interrupted."""
    properties = read_client_properties(config)
    group = group or properties.pop("group.id", None)
    if group is None and (instance_id or assignors):
        raise CliError(Exit.USAGE, "--instance-id and --assignor need --group (or MUSTER_GROUP_ID)")
    with KafkaSide(bootstrap, of_connection(properties), timeout) as side:
        for topic in topics:
            known_topic(side, topic)
        settings = _settings(side, properties, group, from_beginning=from_beginning)
        if isolation is not None:
            settings["isolation_level"] = isolation.value
        if instance_id:
            settings["group_instance_id"] = instance_id
        names = assignors or properties.get("partition.assignment.strategy") or DEFAULT_ASSIGNORS
        reader = _Reader(side, topics, settings, names.split(",") if group else [])
        printer = _Printer(output, positions=positions)
        try:
            with _stopped_by_signals() as stopped:
                for records in reader.batches(max_messages, idle, stopped):
                    printer.print(records)
        except BaseException:
            reader.close(commit=False)
            raise
        reader.close(commit=True)
    note(f"{printer.count} records read")


def _settings(
    side: KafkaSide, properties: Mapping[str, str], group: str | None, *, from_beginning: bool
) -> dict[str, Any]:
    defaults = side.kafka.KafkaConsumer.DEFAULT_CONFIG
    own = {key: value for key, value in properties.items() if key != "partition.assignment.strategy"}
    settings = {
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
        "auto_commit_interval_ms": AUTO_COMMIT_INTERVAL_MS,
        "client_id": "muster-consume",
        **client_settings(own, defaults, "client settings"),
        "bootstrap_servers": bootstrap_list(side.bootstrap),
        "group_id": group,
    }
    if from_beginning:
        settings["auto_offset_reset"] = "earliest"
    if group is None:
        settings["enable_auto_commit"] = False
    return settings


class _Reader:
    """A kafka-python consumer with our assignors. It reports changes of its membership as notes."""

    def __init__(self, side: KafkaSide, topics: list[str], settings: dict[str, Any], assignors: list[str]) -> None:
        from muster_coordinator.cli.kafka_assignors import plugged

        self._side = side
        self._strategies: list[Untyped] = []
        try:
            strategies = plugged(assignors, settings.get("client_rack"))
        except CallerError as error:
            raise CliError(Exit.USAGE, str(error)) from error
        if strategies:
            settings = {**settings, "partition_assignment_strategy": strategies}
        try:
            self._consumer = side.kafka.KafkaConsumer(**settings)
        except side.kafka.errors.KafkaError as error:
            raise side.sentence(error, "cannot consume") from error
        self._strategies = strategies
        for strategy in strategies:
            strategy.owned = self._consumer.assignment
        if strategies:
            for topic in topics:
                # The group's first plan uses the metadata fetched by then. Without this it would have no partitions,
                # and a second rebalance of the whole group would follow.
                self._consumer.partitions_for_topic(topic)
            self._consumer.subscribe(topics, listener=_listener(side.kafka, strategies))
        else:
            self._consumer.assign(self._all_partitions(topics))

    def batches(self, count_max: int | None, idle_s: float | None, stopped: list[int]) -> Iterator[list[Any]]:
        """Records as they arrive. Ends after `count_max` records, after `idle_s` without any, or when `stopped` has a
        signal.

        A member does not count as idle before its first assignment: a new group waits some seconds for more members.
        """
        left = count_max
        last = time.monotonic()
        while not stopped and (left is None or left > 0):
            wanted = POLL_RECORDS_MAX if left is None else min(left, POLL_RECORDS_MAX)
            try:
                polled = self._consumer.poll(timeout_ms=POLL_MS, max_records=wanted)
            except self._side.kafka.errors.KafkaError as error:
                raise self._side.sentence(error, "cannot continue to consume") from error
            records = [record for some in polled.values() for record in some]
            self._go_on_joining()
            if records:
                yield records
                left = None if left is None else left - len(records)
                last = time.monotonic()
            elif not self._joined():
                last = time.monotonic()
            elif idle_s is not None and time.monotonic() - last >= idle_s:
                return

    def close(self, *, commit: bool) -> None:
        """Leave the group; with `commit`, commit the offsets of the yielded records first."""
        try:
            self._consumer.close(autocommit=commit, timeout_ms=int(self._side.timeout_s * 1000))
        except self._side.kafka.errors.KafkaError as error:
            raise self._side.sentence(error, "left the group without the last commit") from error

    def _go_on_joining(self) -> None:
        """A join that kafka-python 3.0 begins by itself, for partitions that it has just learnt of, it forgets with the
        poll in which it began: the assignment is dropped, and no heartbeat is sent any more. One that is asked for it
        goes on with. It has no public call for that."""
        coordinator = getattr(self._consumer, "_coordinator", None)
        if coordinator is not None and coordinator.rejoining:
            coordinator.request_rejoin()

    def _joined(self) -> bool:
        return not self._strategies or any(one.generation >= 0 for one in self._strategies)

    def _all_partitions(self, topics: list[str]) -> list[Any]:
        return [
            self._side.kafka.TopicPartition(topic, one["partition_index"])
            for topic in topics
            for one in known_topic(self._side, topic)["partitions"]
        ]


def _listener(kafka: Untyped, strategies: list[Untyped]) -> Untyped:
    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            generation = max(strategy.generation for strategy in strategies)
            note(f"assigned {_named(assigned)} (generation {generation})")

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            if revoked:
                note(f"revoked {_named(revoked)}")

        def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            note(f"lost {_named(lost)}: the group has removed this member")

    return Listener()


def _named(partitions: Iterable[Any]) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return " ".join(f"{topic}[{','.join(map(str, numbers))}]" for topic, numbers in by_topic.items()) or "nothing"


class _Printer:
    """Prints records as lines on standard output."""

    def __init__(self, output: Format, *, positions: bool) -> None:
        self.count = 0
        self._output = output
        self._positions = positions

    def print(self, records: list[Any]) -> None:
        lines = [self._line(record) for record in records]
        sys.stdout.write("".join(lines))
        sys.stdout.flush()
        self.count += len(records)

    def _line(self, record: Untyped) -> str:
        if self._output is Format.TABLE:
            value = _text(record.value) if record.value is not None else ""
            if not self._positions:
                return f"{value}\n"
            key = "-" if record.key is None else _text(record.key)
            return f"{record.topic}\t{record.partition}\t{record.offset}\t{key}\t{value}\n"
        row = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp,
            **_field("key", record.key),
            **_field("value", record.value),
            "headers": [{"name": name, **_field("value", value)} for name, value in record.headers],
        }
        return f"---\n{to_yaml(row)}" if self._output is Format.YAML else json.dumps(row, ensure_ascii=False) + "\n"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Text as it is, other bytes as `NAME_base64`: JSON must not lose any byte."""
    if data is None:
        return {name: None}
    try:
        return {name: bytes(data).decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


@contextmanager
def _stopped_by_signals() -> Iterator[list[int]]:
    """A list to which the first SIGINT or SIGTERM is appended; a second signal ends the process as usual."""
    stopped: list[int] = []
    before: dict[int, Any] = {}

    def stop(number: int, _frame: object) -> None:
        stopped.append(number)
        for one, handler in before.items():
            signal.signal(one, handler)

    for one in (signal.SIGINT, signal.SIGTERM):
        before[int(one)] = signal.signal(one, stop)
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
