"""`muster topic`: create, list, describe, delete."""

from functools import partial
from typing import Annotated, Any

import typer

from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.kafka_client import DEFAULT_TIMEOUT_S, KafkaSide, Untyped
from muster_coordinator.cli.offsets import end_offsets, start_offsets
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Output, Timeout
from muster_coordinator.cli.output import Column, Format, emit, note
from muster_coordinator.groups.assignors.membership import TopicPartition

app = typer.Typer(help="Create, show and delete topics.", no_args_is_help=True)

_LISTED = (
    Column("topic", "TOPIC"),
    Column("partitions", "PARTITIONS", numeric=True),
    Column("replication_factor", "REPLICATION", numeric=True),
    Column("internal", "INTERNAL"),
)
_DESCRIBED = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", numeric=True),
    Column("leader", "LEADER", numeric=True),
    Column("leader_epoch", "EPOCH", numeric=True),
    Column("replicas", "REPLICAS"),
    Column("in_sync", "IN-SYNC"),
    Column("start_offset", "START-OFFSET", numeric=True),
    Column("end_offset", "END-OFFSET", numeric=True),
)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="The topic's name.")],
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Default: the cluster's num.partitions.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", min=1, help="1, 3 or 5. Default: the cluster's default.replication.factor."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A topic config, KEY=VALUE; may be repeated.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Create a topic and wait until every partition has a leader."""
    wanted = {
        "num_partitions": partitions or -1,
        "replication_factor": replication_factor or -1,
        "configs": dict(_key_value(one) for one in settings or ()),
    }
    timeout_ms = int(timeout * 1000)
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        side.change(
            lambda admin: admin.create_topics({name: wanted}, timeout_ms=timeout_ms), f"topic {name} was not created"
        )
        side.change(
            lambda admin: admin.wait_for_topics([name], timeout_ms=timeout_ms),
            f"topic {name} is created, but not ready yet",
        )
    note(f"topic {name} created")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Show internal topics too.")] = False,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """List topics."""
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        topics = side.ask(lambda admin: admin.describe_topics(), "cannot list topics")
    rows = [
        {
            "topic": topic["name"],
            "topic_id": topic.get("topic_id"),
            "partitions": len(topic["partitions"]),
            "replication_factor": max((len(one["replica_nodes"]) for one in topic["partitions"]), default=None),
            "internal": topic["is_internal"],
        }
        for topic in sorted(topics, key=lambda topic: str(topic["name"]))
        if internal or not topic["is_internal"]
    ]
    emit(rows, _LISTED, output)


@app.command("describe")
def describe(
    name: Annotated[str, typer.Argument(help="The topic's name.")],
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show leader, replicas and offsets of each partition."""
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        topic = known_topic(side, name)
        partitions = [TopicPartition(name, one["partition_index"]) for one in topic["partitions"]]
        starts, ends = start_offsets(side, partitions), end_offsets(side, partitions)
    rows = [
        {
            "topic": name,
            "partition": one["partition_index"],
            "leader": one["leader_id"] if one["leader_id"] >= 0 else None,
            "leader_epoch": one.get("leader_epoch"),
            "replicas": one["replica_nodes"],
            "in_sync": one["isr_nodes"],
            "start_offset": starts[TopicPartition(name, one["partition_index"])],
            "end_offset": ends[TopicPartition(name, one["partition_index"])],
        }
        for one in sorted(topic["partitions"], key=lambda one: int(one["partition_index"]))
    ]
    emit(rows, _DESCRIBED, output)


@app.command("delete")
def delete(
    names: Annotated[list[str], typer.Argument(help="Names of the topics.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Delete topics with all their records."""
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        for name in names:
            side.change(
                partial(_delete, name, int(timeout * 1000)),
                f"topic {name} was not deleted",
            )
            note(f"topic {name} deleted")


def _delete(name: str, timeout_ms: int, admin: Untyped) -> None:
    admin.delete_topics([name], timeout_ms=timeout_ms)


def known_topic(side: KafkaSide, name: str) -> dict[str, Any]:
    """kafka-python's description of a topic. Raises CliError when it does not exist."""
    found: list[dict[str, Any]] = side.ask(lambda admin: admin.describe_topics([name]), f"cannot describe topic {name}")
    code = found[0]["error_code"] if found else 3
    if code:
        error = side.kafka.errors.for_code(code)
        raise side.sentence(error(), f"topic {name}")
    return found[0]


def _key_value(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise CliError(Exit.USAGE, f"--set must be KEY=VALUE, not {text!r}")
    return key, value
