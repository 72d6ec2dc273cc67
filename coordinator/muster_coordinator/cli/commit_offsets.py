"""Committing offsets for a group from outside, as `muster group reset-offsets` and `import` do.

Problem: a commit under a running group is overtaken by its members, and one whose answer says nothing of some partition
must not be told as done. Mechanism: a group with members is refused, the offsets are committed as by a simple consumer,
and read back. What this does not do: choose offsets.
"""

from collections.abc import Mapping

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.group_view import DescribedGroup, committed_offsets
from muster_coordinator.cli.kafka_client import KafkaSide, error_text
from muster_coordinator.cli.output import note
from muster_coordinator.groups.assignors.membership import TopicPartition


def refuse_members(view: DescribedGroup) -> None:
    """Raises CliError for a group with members. The coordinator refuses their group's commit, too."""
    if view.members:
        raise CliError(
            Exit.REFUSED,
            f"group {view.group} is {view.state} with {len(view.members)} members; stop its consumers first",
        )


def commit_offsets(side: KafkaSide, group: str, offsets: Mapping[TopicPartition, int], *, done: str) -> None:
    """Commit and read back; `done` is what has happened to them then, such as `reset`. Raises CliError."""
    from kafka.structs import OffsetAndMetadata

    asked = {
        side.kafka.TopicPartition(*partition): OffsetAndMetadata(offset=offset, metadata="", leader_epoch=None)
        for partition, offset in offsets.items()
    }
    what = f"the offsets of group {group} were not {done}"
    results = side.change(lambda admin: admin.alter_group_offsets(group, asked), what)
    failed = {TopicPartition(*one): error for one, error in results.items() if error is not side.kafka.errors.NoError}
    if failed:
        partition, error = next(iter(failed.items()))
        raise CliError(
            Exit.REFUSED,
            f"{len(failed)} of {len(offsets)} offsets of group {group} were not {done} "
            f"({partition.topic}-{partition.partition}: {error_text(error())})",
        )
    after = committed_offsets(side, group)
    other = [partition for partition, offset in offsets.items() if after.get(partition) != offset]
    if other:
        raise CliError(
            Exit.REFUSED,
            f"{len(other)} offsets of group {group} differ from those just written: another client commits",
        )
    note(f"{len(offsets)} offsets of group {group} {done}")
