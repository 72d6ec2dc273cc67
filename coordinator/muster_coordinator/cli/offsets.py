"""Offsets of partitions: log end, log start, by time. One partition without an answer does not hide the others."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from muster_coordinator.cli.exits import CliError
from muster_coordinator.cli.kafka_client import KafkaSide
from muster_coordinator.cli.output import UNKNOWN, Unknown, note
from muster_coordinator.groups.assignors.membership import TopicPartition

OffsetOrUnknown = int | Unknown
_EARLIEST, _LATEST = -2, -1
_PARTITION_TIMEOUT_MS = 2_000


def end_offsets(side: KafkaSide, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetOrUnknown]:
    """Offset after the last record of each partition."""
    return offsets_at(side, dict.fromkeys(partitions, _LATEST))


def stable_offsets(side: KafkaSide, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetOrUnknown]:
    """The last stable offset of each partition: where readers of committed data end."""
    return offsets_at(side, dict.fromkeys(partitions, _LATEST), committed=True)


def start_offsets(side: KafkaSide, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetOrUnknown]:
    """Offset of the oldest retained record of each partition."""
    return offsets_at(side, dict.fromkeys(partitions, _EARLIEST))


def offsets_at(
    side: KafkaSide, wanted: Mapping[TopicPartition, int], *, committed: bool = False
) -> dict[TopicPartition, OffsetOrUnknown]:
    """First offset of each partition at or after a time (ms since 1970; -1: log end, -2: log start).

    `committed`: for readers of committed data, whose log ends at the last stable offset.

    -1 when no record is that new. UNKNOWN when no broker answered; a note says why.
    """
    if not wanted:
        return {}
    try:
        return _answers(side.ask(_question(side, wanted, committed), "cannot look up offsets"))
    except CliError:
        # One deleted topic or leaderless partition fails the whole query: query each partition by itself, once.
        found: dict[TopicPartition, OffsetOrUnknown] = dict.fromkeys(wanted, UNKNOWN)
        reasons: dict[str, int] = {}
        deadline = time.monotonic() + side.timeout_s
        for partition, at in wanted.items():
            if time.monotonic() > deadline:
                reasons[f"no time left after {side.timeout_s:g} s"] = sum(one is UNKNOWN for one in found.values())
                break
            try:
                found.update(_answers(side.change(_question(side, {partition: at}, committed), partition.topic)))
            except CliError as error:
                reasons[str(error)] = reasons.get(str(error), 0) + 1
        for reason, count in reasons.items():
            note(f"offsets of {count} partitions are unknown: {reason}")
        return found


def _question(side: KafkaSide, wanted: Mapping[TopicPartition, int], committed: bool) -> Callable[[Any], Any]:
    specs = {side.kafka.TopicPartition(*partition): at for partition, at in wanted.items()}
    level = "read_committed" if committed else "read_uncommitted"
    return lambda admin: admin.list_partition_offsets(specs, isolation_level=level, timeout_ms=_PARTITION_TIMEOUT_MS)


def _answers(answers: Mapping[Any, Any]) -> dict[TopicPartition, OffsetOrUnknown]:
    return {TopicPartition(*partition): int(answer.offset) for partition, answer in answers.items()}
