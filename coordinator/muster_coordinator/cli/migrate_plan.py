"""What migrating groups between two clusters would commit, and what has come of it: all of it values.

Problem: a copy of committed offsets must not pass over, or set back, where somebody is. Mechanism: a group that is live
at either side is refused, and one whose offsets at the target differ unless that is asked for; what is equal there is
not written again; afterwards both sides are judged by what they say then, not by what was sent. What this does not do:
ask or commit (`group_copies`), delete anything, or know whether both sides mean the same records.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.groups.assignors.membership import TopicPartition

GROUPS_PER_QUESTION_MAX = 50
"""One DescribeGroups or OffsetFetch asks for so many groups,"""
NAME_BYTES_PER_QUESTION_MAX = 64 * 1024
"""or for fewer if their names are long; a name has up to 32,767 bytes."""
PARTITIONS_PER_COMMIT_MAX = 1_000
COMMIT_BYTES_MAX = 512 * 1024
"""Estimated records of one OffsetCommit: a Kafka takes them as one batch, of at most 1 MiB by default."""
_RECORD_BYTES = 64
"""Of a committed offset's record, without the names and the metadata."""
_EMPTY, _DEAD = "Empty", "Dead"
_CLASSIC = "classic"
_TAKES_COMMITS = ("", _CLASSIC, "consumer")
"""Types of groups that take a commit from outside while they are empty. "": not told."""

assert NAME_BYTES_PER_QUESTION_MAX > 2**15
assert COMMIT_BYTES_MAX > 2**15


class Committed(NamedTuple):
    """A committed offset, with all that OffsetCommit can say of it. The time of the commit is not among that."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    """-1: none."""


Offsets = Mapping[TopicPartition, Committed]


class GroupAt(NamedTuple):
    """A group as one cluster shows it."""

    state: str
    """As in DescribeGroups; "Dead": there is none, or it is of a type that DescribeGroups does not show."""
    members: int
    kind: str
    """The type as in ListGroups, in lower case; "": not told."""
    offsets: Offsets

    @property
    def live(self) -> bool:
        """Somebody consumes in it, or is about to."""
        return self.members > 0 or self.state not in (_EMPTY, _DEAD)


class Outcome(StrEnum):
    """What is said of a group in the report."""

    PLANNED = "planned"
    """Would be done; of a dry run."""
    DONE = "done"
    SAME = "same"
    """The target had the source's offsets already; nothing was written."""
    NOTHING = "nothing"
    """No committed offsets at the source."""
    REFUSED = "refused"
    DIFFERS = "differs"
    """Something was written, or tried, and the two sides are not equal."""
    UNKNOWN = "unknown"
    """Somebody did not answer."""


class Plan(NamedTuple):
    """What is to be committed at the target. `outcome`: PLANNED, or why there is nothing to commit."""

    outcome: Outcome
    why: str = ""
    copies: Offsets = MappingProxyType({})


class Answered(NamedTuple):
    """What the target answered to a group's commits."""

    refused: Mapping[TopicPartition, str] = MappingProxyType({})
    """The error of each offset that it did not take."""
    unsure: str = ""
    """Why it is not known whether it took the others; "": it did."""


class Sides(NamedTuple):
    """How the two clusters are called in sentences."""

    source: str
    target: str


def plan_group(source: GroupAt, target: GroupAt, sides: Sides, *, overwrite: bool) -> Plan:
    """Judged before anything is committed."""
    why = (
        _live(source, sides.source)
        or _live(target, sides.target)
        or _of_other_type(source, sides.source, (_CLASSIC,))
        or _of_other_type(target, sides.target, _TAKES_COMMITS)
    )
    if why:
        return Plan(Outcome.REFUSED, why)
    if not source.offsets:
        return Plan(Outcome.NOTHING, f"no committed offsets at {sides.source}")
    copies = {one: wanted for one, wanted in sorted(source.offsets.items()) if target.offsets.get(one) != wanted}
    if not copies:
        return Plan(Outcome.SAME)
    differ = [one for one in copies if one in target.offsets]
    if differ and not overwrite:
        return Plan(
            Outcome.REFUSED,
            f"{len(differ)} of {len(source.offsets)} offsets differ at {sides.target} "
            f"({_difference(differ[0], source, target)}); --overwrite replaces them",
        )
    return Plan(Outcome.PLANNED, "", copies)


def judge(
    plan: Plan, before: GroupAt, answered: Answered, after: tuple[GroupAt | CliError, GroupAt | CliError], sides: Sides
) -> tuple[Outcome, str]:
    """What has come of a plan, and why. `before`: the source when it was planned; `after`: source and target now."""
    source, target = after
    if isinstance(target, CliError):
        return Outcome.UNKNOWN, f"unknown whether it was migrated: {target}"
    missing = [one for one, wanted in plan.copies.items() if target.offsets.get(one) != wanted]
    if missing:
        return _not_there(plan, answered, missing, sides)
    if isinstance(source, CliError):
        return Outcome.UNKNOWN, f"migrated, and unknown whether it has moved at {sides.source} since: {source}"
    again = f"stop its consumers there, and migrate again with --overwrite ({sides.source})"
    if source.offsets != before.offsets:
        return Outcome.DIFFERS, f"it has moved at the source meanwhile: {again}"
    if source.live:
        return Outcome.DIFFERS, f"its consumers run at the source again: {again}"
    return Outcome.DONE, ""


def _not_there(plan: Plan, answered: Answered, missing: Sequence[TopicPartition], sides: Sides) -> tuple[Outcome, str]:
    count = f"{len(missing)} of {len(plan.copies)} offsets"
    refused = [one for one in missing if one in answered.refused]
    if refused:
        outcome = Outcome.REFUSED if len(refused) == len(plan.copies) else Outcome.DIFFERS
        first = f"{_name(refused[0])}: {answered.refused[refused[0]]}"
        return outcome, f"{count} were not taken by {sides.target} ({first})"
    if answered.unsure:
        return Outcome.UNKNOWN, f"unknown whether {count} will be at {sides.target}: {answered.unsure}"
    return Outcome.DIFFERS, f"{count} at {sides.target} are not those just written: another client commits there"


def _live(group: GroupAt, side: str) -> str:
    if not group.live:
        return ""
    members = f" with {group.members} members" if group.members else ""
    return f"it is live at {side}, {group.state}{members}: stop its consumers first"


def _of_other_type(group: GroupAt, side: str, kinds: Collection[str]) -> str:
    if group.kind and group.kind not in kinds:
        return f"it is of the type {group.kind} at {side}, which is not migrated"
    if not group.kind and group.offsets and group.state == _DEAD:
        return f"it has offsets at {side} and is no classic group there: its type is not migrated"
    return ""


def _difference(one: TopicPartition, source: GroupAt, target: GroupAt) -> str:
    """The first thing in which they differ."""
    wanted, there = source.offsets[one], target.offsets[one]
    if wanted.offset != there.offset:
        return f"{_name(one)}: {there.offset} there, {wanted.offset} at the source"
    if wanted.leader_epoch != there.leader_epoch:
        return f"{_name(one)}: leader epoch {there.leader_epoch} there, {wanted.leader_epoch} at the source"
    return f"{_name(one)}: other metadata"


def _name(one: TopicPartition) -> str:
    return f"{one.topic}-{one.partition}"


def parse_pattern(text: str) -> re.Pattern[str]:
    """A regular expression, of Python's, that the whole name has to match. Raises CliError."""
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise CliError(Exit.USAGE, f"{text!r} is not a regular expression: {error}") from error


def batches(names: Iterable[str]) -> Iterator[list[str]]:
    """The groups of one question each, in their order."""
    batch: list[str] = []
    size = 0
    for name in names:
        length = len(name.encode())
        if batch and (len(batch) == GROUPS_PER_QUESTION_MAX or size + length > NAME_BYTES_PER_QUESTION_MAX):
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += length
    if batch:
        yield batch


def chunks(group: str, copies: Offsets) -> Iterator[dict[TopicPartition, Committed]]:
    """The offsets of one OffsetCommit each, in their order. Each record has the group's name in its key."""
    chunk: dict[TopicPartition, Committed] = {}
    size, of_group = 0, len(group.encode()) + _RECORD_BYTES
    for partition, wanted in copies.items():
        length = of_group + len(partition.topic.encode()) + len(wanted.metadata.encode())
        if chunk and (len(chunk) == PARTITIONS_PER_COMMIT_MAX or size + length > COMMIT_BYTES_MAX):
            yield chunk
            chunk, size = {}, 0
        chunk[partition] = wanted
        size += length
    if chunk:
        yield chunk


def totals(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many groups have each outcome, in the order of `Outcome`; those that none has are left out."""
    told = list(outcomes)
    return {str(one): told.count(one) for one in Outcome if one in told}


def exit_code(outcomes: Collection[Outcome], *, named: bool, complete: bool) -> Exit:
    """`named`: the groups were named one by one, so that each of them has to be there. `complete`: no group that was
    asked for is missing in the list."""
    if Outcome.UNKNOWN in outcomes:
        return Exit.UNREACHABLE
    if Outcome.REFUSED in outcomes or Outcome.DIFFERS in outcomes:
        return Exit.REFUSED
    if named and Outcome.NOTHING in outcomes:
        return Exit.NOT_FOUND
    return Exit.OK if complete else Exit.INCOMPLETE
