"""`muster group reset-offsets`: show what moving a group's offsets would replay or skip; with `--execute`, do it.

Without `--execute` nothing changes. With it the group must have no members (the coordinator refuses otherwise, too),
and the offsets are read back afterwards: the command succeeds only if they are the requested ones.
"""

import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.commit_offsets import commit_offsets, refuse_members
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.group_view import committed_offsets, describe_group
from muster_coordinator.cli.kafka_client import DEFAULT_TIMEOUT_S, KafkaSide
from muster_coordinator.cli.offsets import OffsetOrUnknown, end_offsets, offsets_at, start_offsets
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Execute, Output, Timeout
from muster_coordinator.cli.output import Column, Format, emit, note
from muster_coordinator.cli.reset_plan import (
    Move,
    parse_duration,
    parse_offsets_file,
    parse_partitions,
    parse_time,
    plan_moves,
)
from muster_coordinator.cli.topics import known_topic
from muster_coordinator.groups.assignors.membership import TopicPartition

_COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", numeric=True),
    Column("current_offset", "CURRENT-OFFSET", numeric=True),
    Column("new_offset", "NEW-OFFSET", numeric=True),
    Column("replayed", "REPLAYED", numeric=True),
    Column("skipped", "SKIPPED", numeric=True),
)


class Target(StrEnum):
    """Where to move the offsets."""

    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    CURRENT = "to-current"
    OFFSET = "to-offset"
    TIME = "to-datetime"
    DURATION = "by-duration"
    SHIFT = "shift-by"
    FILE = "from-file"


class Aim(NamedTuple):
    """A target with its argument: an offset, a shift, ms since 1970, or the offsets of a file."""

    target: Target
    number: int = 0
    offsets: Mapping[TopicPartition, int] = {}


class _Logs(NamedTuple):
    committed: dict[TopicPartition, int]
    starts: dict[TopicPartition, OffsetOrUnknown]
    ends: dict[TopicPartition, OffsetOrUnknown]


def reset_offsets(
    group: Annotated[str, typer.Argument(help="The group's id.")],
    topics: Annotated[list[str] | None, typer.Option("--topic", help="topic or topic:0,1; may be repeated.")] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics in which the group has offsets.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of the log.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To the committed offset, moved into the log if outside.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="To this offset.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option("--to-datetime", help="To the first record since this time (ISO 8601).")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", help="To the first record since this long ago (ISO 8601, PT1H).")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", help="Forward by this many records; backward if negative.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option("--from-file", help="To the offsets in a file of topic,partition,offset lines.")
    ] = None,
    execute: Execute = False,
    export: Annotated[bool, typer.Option("--export", help="Print the new offsets as lines for --from-file.")] = False,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Move a group's committed offsets. A dry run unless --execute is given."""
    chosen = {
        Target.EARLIEST: to_earliest or None,
        Target.LATEST: to_latest or None,
        Target.CURRENT: to_current or None,
        Target.OFFSET: to_offset,
        Target.TIME: to_datetime,
        Target.DURATION: by_duration,
        Target.SHIFT: shift_by,
        Target.FILE: from_file,
    }
    aim = _aim({target: value for target, value in chosen.items() if value is not None})
    if aim.target is not Target.FILE and bool(topics) == all_topics:
        raise CliError(Exit.USAGE, "give the topics with --topic, or use --all-topics")
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        view = describe_group(side, group) if execute else None
        if view is not None:
            refuse_members(view)
        partitions = list(aim.offsets) if aim.target is Target.FILE else _partitions(side, group, topics or [])
        logs = _Logs(committed_offsets(side, group), start_offsets(side, partitions), end_offsets(side, partitions))
        moves = plan_moves(_wanted(side, aim, partitions, logs), logs.committed, logs.starts, logs.ends)
        if execute:
            commit_offsets(side, group, {move.partition: move.new for move in moves}, done="reset")
    _print(moves, output, export=export)
    if not execute:
        note("nothing was changed; add --execute to do it")


def _aim(chosen: Mapping[Target, Any]) -> Aim:
    if len(chosen) != 1:
        raise CliError(Exit.USAGE, f"choose one of {', '.join(f'--{target}' for target in Target)}")
    ((target, value),) = chosen.items()
    match target:
        case Target.OFFSET | Target.SHIFT:
            return Aim(target, value)
        case Target.TIME:
            return Aim(target, parse_time(value))
        case Target.DURATION:
            return Aim(target, int(time.time() * 1000) - parse_duration(value))
        case Target.FILE:
            try:
                return Aim(target, offsets=parse_offsets_file(value.read_text(), str(value)))
            except (OSError, UnicodeDecodeError) as error:
                raise CliError(Exit.USAGE, f"cannot read {value}: {error}") from error
        case _:
            return Aim(target)


def _partitions(side: KafkaSide, group: str, topics: Sequence[str]) -> list[TopicPartition]:
    if not topics:
        found = sorted(committed_offsets(side, group))
        if not found:
            raise CliError(Exit.NOT_FOUND, f"group {group} has no committed offsets")
        return found
    return known_partitions(side, topics)


def known_partitions(side: KafkaSide, texts: Sequence[str]) -> list[TopicPartition]:
    """The partitions that texts like `topic` and `topic:0,3` name. Raises CliError if one of them does not exist."""
    partitions = []
    for text in texts:
        topic, numbers = parse_partitions(text)
        known = {one["partition_index"] for one in known_topic(side, topic)["partitions"]}
        missing = set(numbers or ()) - known
        if missing:
            raise CliError(Exit.NOT_FOUND, f"topic {topic} has no partition {min(missing)}")
        partitions += [TopicPartition(topic, number) for number in sorted(numbers or known)]
    return partitions


def _wanted(side: KafkaSide, aim: Aim, partitions: Sequence[TopicPartition], logs: _Logs) -> dict[TopicPartition, int]:
    match aim.target:
        case Target.FILE:
            return dict(aim.offsets)
        case Target.OFFSET:
            return dict.fromkeys(partitions, aim.number)
        case Target.EARLIEST:
            return dict.fromkeys(partitions, 0)
        case Target.CURRENT | Target.SHIFT:
            without = [one for one in partitions if one not in logs.committed]
            if without:
                note(f"{len(without)} partitions have no committed offset and get none")
            return {one: logs.committed[one] + aim.number for one in partitions if one in logs.committed}
        case Target.TIME | Target.DURATION:
            found = offsets_at(side, dict.fromkeys(partitions, aim.number))
            unknown = [one for one, offset in found.items() if not isinstance(offset, int)]
            if unknown:
                raise CliError(Exit.UNREACHABLE, f"{unknown[0].topic}: no offset for the time; nothing was reset")
            return {one: _LATEST if offset == -1 else int(offset) for one, offset in found.items()}  # type: ignore[arg-type]
        case Target.LATEST:
            return dict.fromkeys(partitions, _LATEST)


_LATEST = 2**63 - 1
"""Beyond the end of any log; `plan_moves` limits it to the log end offset."""


def _print(moves: Sequence[Move], output: Format, *, export: bool) -> None:
    if export:
        for move in moves:
            print(f"{move.partition.topic},{move.partition.partition},{move.new}")
        return
    rows = [
        {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "current_offset": move.current,
            "new_offset": move.new,
            "replayed": move.replayed,
            "skipped": move.skipped,
        }
        for move in moves
    ]
    emit(rows, _COLUMNS, output)
