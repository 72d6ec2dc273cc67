"""`muster topic`: create, list, describe, alter, delete.

Where topics have configs, `--config` takes both: KEY=VALUE is one of the topic's, as in Kafka's tools, and a path is
the file of client settings, as everywhere else. No path in use looks like the name of a config and "=".
"""

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.extras import require
from muster_coordinator.cli.kafka_client import DEFAULT_TIMEOUT_S, KafkaSide, Untyped
from muster_coordinator.cli.offsets import end_offsets, start_offsets
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Output, Timeout
from muster_coordinator.cli.output import Column, Format, emit, note
from muster_coordinator.groups.assignors.membership import TopicPartition

app = typer.Typer(help="Create, show, change and delete topics.", no_args_is_help=True)

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


_CONFIG = re.compile(r"[a-z][a-z0-9.]*=")
_NUMBERED = re.compile(r"\[Error (-?\d+)\] \w+: ?(.*)", re.DOTALL)
"""How kafka-python writes a broker's error."""

TopicName = Annotated[str, typer.Argument(help="The topic's name.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="A topic config, KEY=VALUE; may be repeated.")]
Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config", help="As --set; may be repeated. Without KEY=: a properties file with client settings, once."
    ),
]


@app.command("create")
def create(
    name: TopicName,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Default: the cluster's num.partitions.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", min=1, help="1, 3 or 5. Default: the cluster's default.replication.factor."
        ),
    ] = None,
    settings: Settings = None,
    configs: Configs = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Create a topic and wait until every partition has a leader."""
    of_topic, client = _told_apart(settings, configs)
    wanted = {
        "num_partitions": partitions or -1,
        "replication_factor": replication_factor or -1,
        "configs": of_topic,
    }
    timeout_ms = int(timeout * 1000)
    with KafkaSide(bootstrap, read_client_properties(client), timeout) as side:
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
    name: TopicName,
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


@app.command("alter")
def alter(
    name: TopicName,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="How many there are to be; never fewer than there are.")
    ] = None,
    settings: Settings = None,
    configs: Configs = None,
    removed: Annotated[
        list[str] | None, typer.Option("--delete-config", help="A topic config that is the default's again.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Change configs of a topic, then add partitions to it. Configs that are not named stay as they are."""
    require("this command", "cli")
    of_topic, client = _told_apart(settings, configs)
    twice = of_topic.keys() & set(removed or ())
    if twice:
        raise CliError(Exit.USAGE, f"{', '.join(sorted(twice))}: set and removed at once")
    if not (partitions or of_topic or removed):
        raise CliError(Exit.USAGE, "nothing to change: give --partitions, --config or --delete-config")
    timeout_ms = int(timeout * 1000)
    with KafkaSide(bootstrap, read_client_properties(client), timeout) as side:
        known_topic(side, name)
        if of_topic or removed:
            _alter_configs(side, name, of_topic, removed or [])
            note(f"topic {name}: configs changed")
        if partitions:
            side.change(
                lambda admin: admin.create_partitions({name: partitions}, timeout_ms=timeout_ms),
                f"topic {name} has not {partitions} partitions",
            )
            side.change(
                lambda admin: admin.wait_for_topics([name], timeout_ms=timeout_ms),
                f"topic {name} has {partitions} partitions, but they are not ready yet",
            )
            note(f"topic {name} has {partitions} partitions")


def _alter_configs(side: KafkaSide, name: str, wanted: dict[str, str], removed: list[str]) -> None:
    """Raises CliError: kafka-python returns errors as text."""
    operations = {key: ("SET", value) for key, value in wanted.items()} | dict.fromkeys(removed, ("DELETE", None))
    what = f"topic {name}: configs were not changed"
    resource = side.kafka.admin.ConfigResource(side.kafka.admin.ConfigResourceType.TOPIC, name, configs=operations)
    answer = side.change(lambda admin: admin.alter_configs([resource], raise_on_unknown=False, incremental=True), what)
    result = answer["topic"][name]
    numbered = _NUMBERED.fullmatch(result)
    if numbered:
        told = side.sentence(side.kafka.errors.for_code(int(numbered[1]))(numbered[2]), what)
        # The broker's own words say which config, and why.
        raise CliError(told.code, f"{what}: {numbered[2]}") if told.code is Exit.REFUSED and numbered[2] else told
    if result != "OK":
        raise CliError(Exit.REFUSED, f"{what}: {result}")


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


def _told_apart(settings: list[str] | None, configs: list[str] | None) -> tuple[dict[str, str], Path | None]:
    """(the topic's configs, the client's file)."""
    files = [one for one in configs or () if not _CONFIG.match(one)]
    if len(files) > 1:
        raise CliError(Exit.USAGE, f"--config: {files[0]!r} and {files[1]!r} are both no KEY=VALUE")
    pairs = [_key_value(one) for one in (*(settings or ()), *(one for one in configs or () if _CONFIG.match(one)))]
    return dict(pairs), Path(files[0]) if files else None


def _key_value(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise CliError(Exit.USAGE, f"--set must be KEY=VALUE, not {text!r}")
    return key, value
