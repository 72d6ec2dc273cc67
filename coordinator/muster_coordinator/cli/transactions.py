"""`muster transactions`: list, describe, describe-producers, find-hanging, abort; words and columns of Kafka's tool.

Problem: a transaction that is open in a partition, and of which no coordinator knows any more, holds back readers of
committed data for good. Mechanism: `find-hanging` is Kafka's rule (KIP-664): open for longer than any transaction may
be, and in no transaction that a coordinator would still end there. `abort` writes the abort marker with the right to
the cluster; unlike Kafka's tool it asks the coordinators first, and aborts what one of them will end only with
`--force`: a transaction that is committed elsewhere would lose its part in this partition. What it does not do: end a
transaction that its coordinator knows as a whole; its time-out does, or a producer of the same transactional id.
"""

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, NamedTuple

import typer

from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.coordinator_lists import of_all_brokers
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.extras import require
from muster_coordinator.cli.kafka_client import DEFAULT_TIMEOUT_S, KafkaSide, Untyped
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Output, Timeout
from muster_coordinator.cli.output import Column, Format, emit, note
from muster_coordinator.controller.image import TRANSACTIONS_TOPIC
from muster_coordinator.groups.assignors.membership import TopicPartition

app = typer.Typer(help="Show transactions, find those that hang, and abort them.", no_args_is_help=True)

PARTITIONS_PER_QUESTION = 500
"""Of one DescribeProducers, as in Kafka's tool."""
MAX_TRANSACTION_TIMEOUT_MINUTES = 15
"""`transaction.max.timeout.ms` of a cluster that does not say otherwise."""
NO_OFFSET = -1

_LISTED = (
    Column("transactional_id", "TransactionalId"),
    Column("coordinator", "Coordinator", numeric=True),
    Column("producer_id", "ProducerId", numeric=True),
    Column("transaction_state", "TransactionState"),
)
_DESCRIBED = (
    Column("coordinator_id", "CoordinatorId", numeric=True),
    Column("transactional_id", "TransactionalId"),
    Column("producer_id", "ProducerId", numeric=True),
    Column("producer_epoch", "ProducerEpoch", numeric=True),
    Column("transaction_state", "TransactionState"),
    Column("transaction_timeout_ms", "TransactionTimeoutMs", numeric=True),
    Column("current_transaction_start_time_ms", "CurrentTransactionStartTimeMs", numeric=True),
    Column("transaction_duration_ms", "TransactionDurationMs", numeric=True),
    Column("topic_partitions", "TopicPartitions"),
)
_PRODUCERS = (
    Column("producer_id", "ProducerId", numeric=True),
    Column("producer_epoch", "ProducerEpoch", numeric=True),
    Column("latest_coordinator_epoch", "LatestCoordinatorEpoch", numeric=True),
    Column("last_sequence", "LastSequence", numeric=True),
    Column("last_timestamp", "LastTimestamp", numeric=True),
    Column("current_transaction_start_offset", "CurrentTransactionStartOffset", numeric=True),
)
_HANGING = (
    Column("topic", "Topic"),
    Column("partition", "Partition", numeric=True),
    Column("producer_id", "ProducerId", numeric=True),
    Column("producer_epoch", "ProducerEpoch", numeric=True),
    Column("coordinator_epoch", "CoordinatorEpoch", numeric=True),
    Column("start_offset", "StartOffset", numeric=True),
    Column("last_timestamp", "LastTimestamp", numeric=True),
    Column("duration_minutes", "Duration(min)", numeric=True),
)

TopicOption = Annotated[str, typer.Option("--topic", help="The topic's name.")]
PartitionOption = Annotated[int, typer.Option("--partition", min=0, help="The partition's number.")]


class Open(NamedTuple):
    """A transaction that is open in a partition; `producer`: kafka-python's row of DescribeProducers."""

    partition: TopicPartition
    producer: Untyped


@app.command("list")
def list_transactions(
    duration_filter: Annotated[
        int | None,
        typer.Option("--duration-filter", min=0, help="Only those that have been open for more milliseconds."),
    ] = None,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """List the transactional ids of all brokers, with what their coordinators know of them."""

    def listed_by(admin: Untyped, broker: int) -> list[Untyped]:
        return list(admin.list_transactions(broker_ids=[broker], duration_filter_ms=duration_filter)[broker])

    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        listed = of_all_brokers(side, TRANSACTIONS_TOPIC, "ids", listed_by)
    rows = [
        {
            "transactional_id": one.transactional_id,
            "coordinator": broker,
            "producer_id": one.producer_id,
            "transaction_state": one.state.value,
        }
        for broker, found in listed.of_brokers.items()
        for one in found
    ]
    emit(sorted(rows, key=lambda row: (row["transactional_id"], row["coordinator"])), _LISTED, output)
    for sentence in listed.lacks:
        note(sentence)
    if listed.lacks:
        raise typer.Exit(int(Exit.INCOMPLETE))


@app.command("describe")
def describe(
    transactional_id: Annotated[str, typer.Option("--transactional-id", help="The transactional id.")],
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show what the coordinator of a transactional id knows of it."""
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        found = _described(side, transactional_id)
    started_ms = found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None
    row = {
        "coordinator_id": found.coordinator_id,
        "transactional_id": transactional_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "transaction_state": found.state.value,
        "transaction_timeout_ms": found.transaction_timeout_ms,
        "current_transaction_start_time_ms": started_ms,
        "transaction_duration_ms": None if started_ms is None else _wall_ms() - started_ms,
        "topic_partitions": [f"{topic}-{number}" for topic, number in sorted(found.topic_partitions)],
    }
    emit([row], _DESCRIBED, output)


@app.command("describe-producers")
def describe_producers(
    topic: TopicOption,
    partition: PartitionOption,
    broker_id: Annotated[
        int | None, typer.Option("--broker-id", min=0, help="What this replica knows. Default: the leader.")
    ] = None,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show the producers that a partition knows, and where their open transactions begin."""
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        found = _producers(side, [TopicPartition(topic, partition)], broker_id)
    rows = [
        {
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "latest_coordinator_epoch": one.coordinator_epoch,
            "last_sequence": one.last_sequence,
            "last_timestamp": one.last_timestamp,
            "current_transaction_start_offset": _begun(one),
        }
        for _, some in found
        for one in some
    ]
    emit(sorted(rows, key=lambda row: int(row["producer_id"])), _PRODUCERS, output)


@app.command("find-hanging")
def find_hanging(
    broker_id: Annotated[
        int | None, typer.Option("--broker-id", min=0, help="Search the partitions of which this broker has a replica.")
    ] = None,
    max_transaction_timeout: Annotated[
        int,
        typer.Option(
            "--max-transaction-timeout", min=0, help="Minutes for which a transaction may be open without being one."
        ),
    ] = MAX_TRANSACTION_TIMEOUT_MINUTES,
    topic: Annotated[str | None, typer.Option("--topic", help="Search this topic only.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Search this partition of --topic only.")
    ] = None,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Find transactions that are open in partitions, and that no coordinator will end there."""
    require("this command", "cli")
    if topic is None and broker_id is None:
        raise CliError(Exit.USAGE, "give --topic or --broker-id, to say where to search")
    if partition is not None and topic is None:
        raise CliError(Exit.USAGE, "--partition needs --topic")
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        partitions = _searched(side, topic, partition, broker_id)
        old = _older_than(_open_in(side, partitions, broker_id), max_transaction_timeout * 60_000, _wall_ms())
        awaited = _awaited(side, old)
        hanging = [one for one in old if one not in awaited]
    now_ms = _wall_ms()
    rows = [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "producer_id": one.producer.producer_id,
            "producer_epoch": one.producer.producer_epoch,
            "coordinator_epoch": one.producer.coordinator_epoch,
            "start_offset": one.producer.current_transaction_start_offset,
            "last_timestamp": one.producer.last_timestamp,
            "duration_minutes": (now_ms - one.producer.last_timestamp) // 60_000,
        }
        for one in sorted(hanging)
    ]
    emit(rows, _HANGING, output)


@app.command("abort")
def abort(
    topic: TopicOption,
    partition: PartitionOption,
    start_offset: Annotated[
        int, typer.Option("--start-offset", min=0, help="Where the transaction begins, as find-hanging says.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Also one that its coordinator will end, perhaps by committing the rest.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Abort a transaction that hangs in a partition. Asks for the right to alter the cluster."""
    place = TopicPartition(topic, partition)
    what = f"the transaction at offset {start_offset} of {topic}-{partition}"
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        found = _one_at(side, place, start_offset)
        if not force:
            for transactional_id in _awaited(side, [found]).values():
                raise CliError(
                    Exit.REFUSED,
                    f"{what} does not hang: it is one of {transactional_id!r}, whose coordinator will end it",
                )
            # It may have ended before its coordinator was asked; what is open still will not end by itself.
            found = _one_at(side, place, start_offset)
        side.change(partial(_abort, found), f"{what} was not aborted")
    note(f"{what} is aborted")


def _one_at(side: KafkaSide, place: TopicPartition, start_offset: int) -> Open:
    for one in _open_in(side, [place], None):
        if _begun(one.producer) == start_offset:
            return one
    where = f"offset {start_offset} of {place.topic}-{place.partition}"
    raise CliError(Exit.NOT_FOUND, f"no open transaction begins at {where}")


def _abort(one: Open, admin: Untyped) -> None:
    from kafka.admin import AbortTransactionSpec

    # A producer that never ended a transaction there has no coordinator's epoch: none is below 0.
    epoch = max(one.producer.coordinator_epoch, 0)
    admin.abort_transaction(
        AbortTransactionSpec(one.partition, one.producer.producer_id, one.producer.producer_epoch, epoch)
    )


def _described(side: KafkaSide, transactional_id: str) -> Untyped:
    def question(admin: Untyped) -> Untyped:
        return admin.describe_transactions([transactional_id])[transactional_id]

    return side.ask(question, f"cannot describe {transactional_id!r}")


def _producers(
    side: KafkaSide, partitions: Sequence[TopicPartition], broker_id: int | None
) -> list[tuple[TopicPartition, list[Untyped]]]:
    """What partitions know of producers. One without an answer fails it: unknown is not none."""
    found: list[tuple[TopicPartition, list[Untyped]]] = []
    for start in range(0, len(partitions), PARTITIONS_PER_QUESTION):
        some = [side.kafka.TopicPartition(*one) for one in partitions[start : start + PARTITIONS_PER_QUESTION]]
        answer = side.ask(partial(_asked, some, broker_id), f"cannot describe producers of {_named(some)}")
        found += [(TopicPartition(*one), list(state.active_producers)) for one, state in answer.items()]
    return found


def _asked(partitions: list[Untyped], broker_id: int | None, admin: Untyped) -> Untyped:
    return admin.describe_producers(partitions, broker_id=broker_id)


def _named(partitions: Sequence[TopicPartition]) -> str:
    return f"{partitions[0][0]}-{partitions[0][1]}" if len(partitions) == 1 else f"{len(partitions)} partitions"


def _open_in(side: KafkaSide, partitions: Sequence[TopicPartition], broker_id: int | None) -> list[Open]:
    found = _producers(side, partitions, broker_id)
    return [Open(place, one) for place, some in found for one in some if _begun(one) is not None]


def _begun(producer: Untyped) -> int | None:
    """Offset of the producer's open transaction."""
    offset = int(producer.current_transaction_start_offset)
    return None if offset == NO_OFFSET else offset


def _older_than(found: Iterable[Open], age_ms: int, now_ms: int) -> list[Open]:
    return [one for one in found if now_ms - one.producer.last_timestamp > age_ms]


def _searched(side: KafkaSide, topic: str | None, partition: int | None, broker_id: int | None) -> list[TopicPartition]:
    """The partitions in which to search; internal topics only by name."""
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    names = None if topic is None else [topic]
    topics = side.ask(lambda admin: admin.describe_topics(names), "cannot list topics")
    for one in topics:
        if topic is not None and one["error_code"]:
            raise side.sentence(side.kafka.errors.for_code(one["error_code"])(), f"topic {topic}")
    return [
        TopicPartition(one["name"], part["partition_index"])
        for one in topics
        if topic is not None or not one["is_internal"]
        for part in one["partitions"]
        if broker_id is None or broker_id in part["replica_nodes"]
    ]


def _awaited(side: KafkaSide, found: Sequence[Open]) -> dict[Open, str]:
    """Those that a coordinator will end -> the transactional id. A coordinator describes the partitions that lack
    their marker, so one that it does not name has no marker to expect."""
    if not found:
        return {}
    producers = sorted({one.producer.producer_id for one in found})
    listed = side.ask(
        lambda admin: admin.list_transactions(producer_id_filters=producers), "cannot list transactions of producers"
    )
    awaited: dict[Open, str] = {}
    for one in (one for some in listed.values() for one in some):
        try:
            known = _described(side, one.transactional_id)
        except CliError as error:
            if error.code is not Exit.NOT_FOUND:
                raise
            continue  # it has expired since it was listed
        places = {TopicPartition(*place) for place in known.topic_partitions}
        mine = [each for each in found if each.producer.producer_id == one.producer_id and each.partition in places]
        awaited.update(dict.fromkeys(mine, one.transactional_id))
    return awaited


def _wall_ms() -> int:
    return int(time.time() * 1000)
