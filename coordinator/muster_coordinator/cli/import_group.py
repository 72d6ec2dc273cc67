"""`muster group import`: take a group over that only Redis knows, as committed offsets.

Problem: who moves from Redis' consumer groups must begin where those were, not at an end of the log. Mechanism: each
partition's stream is asked where the group is (`redis_groups`), the plan says which offset that is (`import_plan`), and
`--execute` commits it through Kafka's protocol and reads both back: a group that has moved in Redis meanwhile is told.
What this does not do: change anything in Redis, or move consumers.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import typer

from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.commit_offsets import commit_offsets, refuse_members
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.extras import require
from muster_coordinator.cli.group_view import committed_offsets, describe_group
from muster_coordinator.cli.import_plan import RedisPosition, Taken, parse_stream, plan_import
from muster_coordinator.cli.kafka_client import DEFAULT_TIMEOUT_S, KafkaSide
from muster_coordinator.cli.offsets import end_offsets, start_offsets
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Execute, Output, Timeout
from muster_coordinator.cli.output import Column, Format, emit, note
from muster_coordinator.cli.redis_groups import RedisAt, positions, redis_at
from muster_coordinator.cli.reset_offsets import known_partitions
from muster_coordinator.groups.assignors.membership import TopicPartition
from muster_coordinator.redis_streams.entry_ids import Offsets
from muster_coordinator.replica.partitions.stream_place import StreamPlace
from muster_coordinator.topics.stores import REDIS, STORE_CONFIG

_COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", numeric=True),
    Column("pending_entries", "UNACKED", numeric=True),
    Column("lowest_pending_entry", "LOWEST-UNACKED"),
    Column("last_delivered", "LAST-DELIVERED"),
    Column("current_offset", "CURRENT-OFFSET", numeric=True),
    Column("new_offset", "NEW-OFFSET", numeric=True),
)


def import_group(
    group: Annotated[str, typer.Argument(help="The group's id in Kafka.")],
    from_redis: Annotated[
        str,
        typer.Option(
            help="The Redis: redis://HOST:PORT/DB, rediss:// with TLS, unix:///PATH; or a replica's properties file, "
            "whose keys redis.* say the rest, too."
        ),
    ],
    topics: Annotated[
        list[str] | None, typer.Option("--topic", help="topic or topic:0,1, by its own streams; may be repeated.")
    ] = None,
    streams: Annotated[
        list[str] | None,
        typer.Option(
            "--stream",
            help="KEY=TOPIC:PARTITION: the group is at this stream, from which that partition's entries were copied "
            "with their ids; may be repeated.",
        ),
    ] = None,
    redis_group: Annotated[
        str | None, typer.Option("--redis-group", help="The group's name in Redis. Default: the group's id.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also where the group has committed offsets already.")
    ] = False,
    execute: Execute = False,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Take over where a consumer group of Redis is, as committed offsets. A dry run unless --execute is given."""
    require("this command", "cli", "redis")
    at = redis_at(from_redis, timeout)
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        places, offsets = _places(side, topics or [], streams or [], at.keys.redis_prefix)
        if execute:
            _refuse_live(side, group)
        _import(side, _Asked(group, redis_group or group, at, places, offsets, overwrite, execute), output)


class _Asked(NamedTuple):
    group: str
    redis_group: str
    at: RedisAt
    places: Mapping[TopicPartition, str]
    """The stream at which the group is."""
    offsets: Mapping[str, Offsets]
    """Of each topic."""
    overwrite: bool
    execute: bool


def _import(side: KafkaSide, asked: _Asked, output: Format) -> None:
    """Plan, do it if that is asked for, and show it. Raises CliError."""
    group, name = asked.group, asked.redis_group
    found = _read(asked)
    partitions = [partition for partition, (_, position) in found.items() if position is not None]
    if not partitions:
        raise CliError(Exit.NOT_FOUND, f"no group {name} in Redis at {_listed([one for one, _ in found.values()])}")
    committed = committed_offsets(side, group)
    starts, ends = start_offsets(side, partitions), end_offsets(side, partitions)
    plan = plan_import(found, committed, starts, ends, asked.offsets)
    taken = {one.partition: one.new for one in plan if one.new is not None}
    there = len(taken.keys() & committed.keys())
    if asked.execute:
        if there and not asked.overwrite:
            raise CliError(
                Exit.REFUSED,
                f"group {group} has committed offsets in {there} of these partitions; --overwrite replaces them; "
                "nothing was imported",
            )
        commit_offsets(side, group, taken, done="imported")
    _print(plan, output)
    _say(plan, name)
    if not asked.execute:
        if there and not asked.overwrite:
            note(f"group {group} has committed offsets in {there} of these partitions: --overwrite replaces them")
        note("nothing was changed; add --execute to do it")
    elif _read(asked) != found:
        raise CliError(
            Exit.REFUSED,
            f"group {name} has moved in Redis meanwhile, so its consumers run there still: stop them, and import again "
            "with --overwrite",
        )


def _places(
    side: KafkaSide, topics: Sequence[str], streams: Sequence[str], prefix: str
) -> tuple[dict[TopicPartition, str], dict[str, Offsets]]:
    """Each partition's stream, and each topic's offsets. Raises CliError."""
    if not topics and not streams:
        raise CliError(Exit.USAGE, "give the topics with --topic, or streams with --stream")
    named: list[tuple[TopicPartition, str | None]] = [(one, None) for one in known_partitions(side, topics)]
    for stream, partition in map(parse_stream, streams):
        known_partitions(side, [f"{partition.topic}:{partition.partition}"])
        named.append((partition, stream))
    configs = {topic: _configs(side, topic) for topic in sorted({one.topic for one, _ in named})}
    places: dict[TopicPartition, str] = {}
    offsets: dict[str, Offsets] = {}
    for partition, stream_or_own in named:
        own = _place(prefix, partition, configs[partition.topic])
        stream = own.stream if stream_or_own is None else stream_or_own
        offsets[partition.topic] = own.offsets
        if places.setdefault(partition, stream) != stream:
            raise CliError(Exit.USAGE, f"{partition.topic}:{partition.partition} is named with two streams")
    return places, offsets


def _place(prefix: str, partition: TopicPartition, configs: Mapping[str, str]) -> StreamPlace:
    """Raises CliError."""
    try:
        return StreamPlace.of(prefix, partition.topic, configs, partition.partition)
    except ValueError as error:  # of a release that comes after this command's
        raise CliError(Exit.REFUSED, f"the configs of topic {partition.topic} are not understood: {error}") from error


def _configs(side: KafkaSide, topic: str) -> dict[str, str]:
    """The configs of a topic in Redis; offsets of one that is elsewhere have nothing to do with ids. Raises
    CliError."""
    kinds = side.kafka.admin
    resource = kinds.ConfigResource(kinds.ConfigResourceType.TOPIC, topic)
    answer = side.ask(lambda admin: admin.describe_configs([resource]), f"cannot read the configs of topic {topic}")
    told = answer["topic"][topic]
    values = {name: one.get("value") for name, one in told.items()} if isinstance(told, Mapping) else {}
    if values.get(STORE_CONFIG) != REDIS.name:
        raise CliError(
            Exit.REFUSED, f"topic {topic} is not in Redis ({STORE_CONFIG}), so its offsets say nothing of entries"
        )
    return {name: value for name, value in values.items() if value is not None}


def _refuse_live(side: KafkaSide, group: str) -> None:
    try:
        view = describe_group(side, group)
    except CliError as error:
        if error.code is not Exit.NOT_FOUND:
            raise
        return  # Kafka does not know it yet
    refuse_members(view)


def _read(asked: _Asked) -> dict[TopicPartition, tuple[str, RedisPosition | None]]:
    found = positions(asked.at, asked.redis_group, sorted(set(asked.places.values())))
    return {partition: (stream, found[stream]) for partition, stream in asked.places.items()}


def _print(plan: Sequence[Taken], output: Format) -> None:
    rows = [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "stream": one.stream,
            **_position_row(one.position),
            "current_offset": one.current,
            "new_offset": one.new,
        }
        for one in plan
    ]
    emit(rows, _COLUMNS, output)


def _position_row(position: RedisPosition | None) -> dict[str, int | str | None]:
    lowest = None if position is None else position.lowest_pending_entry
    return {
        "pending_entries": None if position is None else position.pending_entries,
        "lowest_pending_entry": None if lowest is None else lowest.text,
        "last_delivered": None if position is None else position.last_delivered.text,
    }


def _say(plan: Sequence[Taken], group: str) -> None:
    without = [one.stream for one in plan if one.position is None]
    if without:
        note(f"no group {group} in Redis at {_listed(without)}: these partitions get no offset")
    unacknowledged = sum(one.position.pending_entries for one in plan if one.position is not None)
    if unacknowledged:
        note(f"{unacknowledged} entries are pending: what was acknowledged behind the lowest one is read again, too")


def _listed(streams: Sequence[str]) -> str:
    shown = ", ".join(sorted(streams)[:_SHOWN_MAX])
    return shown if len(streams) <= _SHOWN_MAX else f"{shown} and {len(streams) - _SHOWN_MAX} more"


_SHOWN_MAX = 3
"""Streams that one sentence names."""
