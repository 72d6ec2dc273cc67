"""The plan of a reset of committed offsets: computed completely before anything is changed."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.offsets import OffsetOrUnknown
from muster_coordinator.groups.assignors.membership import TopicPartition

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


class Move(NamedTuple):
    """One partition's change. `replayed` and `skipped` count offsets that the log still has."""

    partition: TopicPartition
    current: int | None
    new: int
    replayed: int
    skipped: int


def plan_moves(
    wanted: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, OffsetOrUnknown],
    ends: Mapping[TopicPartition, OffsetOrUnknown],
) -> list[Move]:
    """The moves to `wanted`, each limited to its log. Raises CliError when the start or end of a log is unknown."""
    moves = []
    for partition, offset in sorted(wanted.items()):
        start, end = starts[partition], ends[partition]
        if not isinstance(start, int) or not isinstance(end, int):
            raise CliError(
                Exit.UNREACHABLE,
                f"{partition.topic}-{partition.partition}: log start or end is unknown; no offset was reset",
            )
        new = min(max(offset, start), end)
        current = committed.get(partition)
        position = start if current is None else min(max(current, start), end)
        moves.append(Move(partition, current, new, max(0, position - new), max(0, new - position)))
    return moves


def parse_time(text: str) -> int:
    """ISO 8601 as ms since 1970; without a zone it is UTC. Raises CliError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise CliError(Exit.USAGE, f"{text!r} is not a time like 2026-01-31T12:00:00Z") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def parse_duration(text: str) -> int:
    """ISO 8601 duration of days to seconds (`P1DT2H30M`) as ms. Raises CliError."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise CliError(Exit.USAGE, f"{text!r} is not a duration like PT1H30M or P7D")
    days, hours, minutes, seconds = (float(one or 0) for one in match.groups())
    return int(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds) / timedelta(milliseconds=1))


def parse_partitions(text: str) -> tuple[str, tuple[int, ...] | None]:
    """`topic` or `topic:0,3`: the topic, and its partitions or None for all. Raises CliError."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        found = tuple(int(one) for one in numbers.split(","))
    except ValueError as error:
        raise CliError(Exit.USAGE, f"{text!r} is not topic or topic:0,1,2") from error
    return topic, found


def parse_offsets_file(text: str, name: str) -> dict[TopicPartition, int]:
    """Lines of `topic,partition,offset`, as `--export` writes them. Raises CliError."""
    found: dict[TopicPartition, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        parts = [part.strip() for part in line.split(",")]
        try:
            topic, partition, offset = parts[0], int(parts[1]), int(parts[2])
        except (IndexError, ValueError) as error:
            raise CliError(Exit.USAGE, f"line {number} of {name} is not topic,partition,offset") from error
        if len(parts) != 3 or not topic or partition < 0 or offset < 0:
            raise CliError(Exit.USAGE, f"line {number} of {name} is not topic,partition,offset")
        found[TopicPartition(topic, partition)] = offset
    return found
