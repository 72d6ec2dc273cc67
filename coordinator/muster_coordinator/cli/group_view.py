"""The groups of a cluster, queried over the Kafka protocol as by any admin client."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.kafka_client import KafkaSide, Untyped
from muster_coordinator.cli.offsets import OffsetOrUnknown, end_offsets, stable_offsets
from muster_coordinator.cli.output import UNKNOWN, note
from muster_coordinator.groups.assignors.membership import TopicPartition

_ERROR_NUMBER = re.compile(r"\[Error (-?\d+)\]")
_GROUP_ID_NOT_FOUND = 69


class Broker(NamedTuple):
    """Address of a broker, e.g. of a group's coordinator."""

    broker_id: int
    host: str | None
    port: int | None

    @property
    def address(self) -> str:
        """`host:port (id)`; only the id when the address is unknown."""
        return f"{self.host}:{self.port} ({self.broker_id})" if self.host else f"({self.broker_id})"


class MemberView(NamedTuple):
    """One member as DescribeGroups shows it. `assigned`: None when the assignment is not the consumer protocol's."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    assigned: tuple[TopicPartition, ...] | None


class DescribedGroup(NamedTuple):
    """One group as DescribeGroups shows it."""

    group: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Broker
    members: tuple[MemberView, ...]

    def owners(self) -> dict[TopicPartition, MemberView]:
        """Partition → the member that reads it now."""
        return {partition: member for member in self.members for partition in member.assigned or ()}


def describe_group(side: KafkaSide, group: str) -> DescribedGroup:
    """Raises CliError, with NOT_FOUND for a group that has neither members nor offsets."""

    def question(admin: Untyped) -> tuple[Mapping[str, Any], Broker]:
        # kafka-python looks up coordinators only internally: there is no public method for it in any 3.x.
        broker_id = admin._manager.run(admin._find_coordinator_ids, [group])[group]
        found = admin.describe_groups([group], group_coordinator_id=broker_id)[group]
        code = _error_code(found["error"])
        if code not in (0, _GROUP_ID_NOT_FOUND):
            raise side.kafka.errors.for_code(code)
        node = admin._manager.cluster.broker_metadata(broker_id)
        return found, Broker(broker_id, getattr(node, "host", None), getattr(node, "port", None))

    found, coordinator = side.ask(question, f"cannot describe group {group}")
    view = DescribedGroup(
        group,
        found["group_state"],
        found["protocol_type"],
        found["protocol_data"],
        coordinator,
        tuple(sorted((_member(one) for one in found["members"]), key=lambda member: member.member_id)),
    )
    if view.state == "Dead" and not view.members and not committed_offsets(side, group):
        raise CliError(Exit.NOT_FOUND, f"group {group} does not exist")
    return view


def committed_offsets(side: KafkaSide, group: str) -> dict[TopicPartition, int]:
    """All committed offsets of the group."""

    def question(admin: Untyped) -> Untyped:
        return admin.list_group_offsets({group: None})[group]

    found = side.ask(question, f"cannot read the offsets of group {group}")
    return {TopicPartition(*partition): one.offset for partition, one in found.items() if one.offset >= 0}


class PartitionLag(NamedTuple):
    """Progress of one partition of a group. `lag` is unknown when the offset that it counts to is, and None without a
    commit."""

    partition: TopicPartition
    committed: int | None
    end: OffsetOrUnknown
    owner: MemberView | None
    stable: OffsetOrUnknown = UNKNOWN
    """The last stable offset."""
    to_stable: bool = False
    """The lag is that of a reader of committed data."""

    @property
    def lag(self) -> OffsetOrUnknown | None:
        """Offsets from the committed one to the log end offset, or to the last stable one."""
        end = self.stable if self.to_stable else self.end
        if self.committed is None:
            return None
        if not isinstance(end, int) or self.committed > end:
            return UNKNOWN
        return end - self.committed

    @property
    def held_back(self) -> int:
        """Offsets that an open transaction keeps from readers of committed data, as far as is known."""
        if isinstance(self.end, int) and isinstance(self.stable, int):
            return max(0, self.end - self.stable)
        return 0


def group_lags(side: KafkaSide, view: DescribedGroup, *, to_stable: bool = False) -> list[PartitionLag]:
    """All partitions in which the group has an offset or a member. What open transactions hold back is noted."""
    committed = committed_offsets(side, view.group)
    owners = view.owners()
    partitions = sorted(committed.keys() | owners.keys())
    ends = end_offsets(side, partitions)
    stable = stable_offsets(side, [one for one in partitions if isinstance(ends[one], int)])
    lags = [
        PartitionLag(one, committed.get(one), ends[one], owners.get(one), stable.get(one, UNKNOWN), to_stable)
        for one in partitions
    ]
    for one in lags:
        if one.held_back:
            note(
                f"{one.partition.topic}-{one.partition.partition}: an open transaction keeps {one.held_back} offsets "
                f"from readers of committed data, from {one.stable} on"
            )
    ahead = [one for one in lags if isinstance(one.end, int) and (one.committed or 0) > one.end]
    if ahead:
        topics = ", ".join(sorted({one.partition.topic for one in ahead}))
        note(f"committed offsets lie beyond the log end in {topics}: was the topic created again since?")
    return lags


def _error_code(text: str | None) -> int:
    """kafka-python returns the error of a group only as text."""
    match = _ERROR_NUMBER.match(text or "")
    return int(match.group(1)) if match else (-1 if text else 0)


def _member(found: Mapping[str, Any]) -> MemberView:
    told, assignment = found["member_metadata"], found["member_assignment"]
    assigned: tuple[TopicPartition, ...] | None = ()
    if isinstance(assignment, Mapping):
        assigned = tuple(_partitions(assignment["assigned_partitions"]))
    elif assignment:
        assigned = None
    topics: Sequence[str] = told["topics"] if isinstance(told, Mapping) else ()
    return MemberView(
        found["member_id"],
        found.get("group_instance_id"),
        found["client_id"],
        found["client_host"],
        tuple(sorted(topics)),
        assigned,
    )


def _partitions(topics: Sequence[Mapping[str, Any]]) -> list[TopicPartition]:
    return sorted(TopicPartition(one["topic"], number) for one in topics for number in one["partitions"])
