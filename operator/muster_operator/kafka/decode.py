"""Answers of kafka-python's admin client as views. Pure.

kafka-python returns a group's error as text (`[Error 16] ...`). It decodes an assignment only in the consumer protocol;
members of any other protocol are shown without partitions.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from muster_operator.world.group import MemberView, ObservedGroup, PartitionView
from muster_operator.world.views import Unknown

Untyped = Any
"""An object of kafka-python, which has no type hints."""
Partition = tuple[str, int]

_ERROR_NUMBER = re.compile(r"\[Error (-?\d+)\]")
_GROUP_ID_NOT_FOUND = 69
_REASONS = {
    14: "CoordinatorLoading",
    15: "CoordinatorNotAvailable",
    16: "CoordinatorMoved",
    30: "GroupNotAuthorized",
}
MOVED = frozenset({"CoordinatorNotAvailable", "CoordinatorMoved"})
"""Reasons after which the client's cached coordinators are wrong."""


def error_code(text: str | None) -> int:
    """The number of a group's error; 0 without an error, -1 for text without a number."""
    match = _ERROR_NUMBER.match(text or "")
    return int(match.group(1)) if match else (-1 if text else 0)


def describe_error(found: Mapping[str, Any]) -> Unknown | None:
    """Why this description cannot be used; None if it can (also if it says that the group does not exist)."""
    text = found.get("error")
    code = error_code(text)
    if code in (0, _GROUP_ID_NOT_FOUND):
        if "not a classic group" in str(text):
            return Unknown(
                reason="NotClassicGroup",
                message="the group uses the protocol of KIP-848, which DescribeGroups cannot show",
            )
        return None
    reason = _REASONS.get(code, "CoordinatorError")
    return Unknown(reason=reason, message=f"the coordinator answers with Kafka error {code}")


def group_view(
    found: Mapping[str, Any],
    *,
    coordinator: str,
    committed: Mapping[Partition, int],
    partitions: Iterable[Partition],
    log_ends: Mapping[Partition, int],
) -> ObservedGroup:
    """One group from DescribeGroups, OffsetFetch and ListOffsets; `partitions` are those of the subscribed topics."""
    return ObservedGroup(
        state=str(found["group_state"]) or "Dead",
        coordinator=coordinator,
        protocol_type=str(found["protocol_type"] or ""),
        protocol=str(found["protocol_data"] or ""),
        members=tuple(sorted((_member(one) for one in found["members"]), key=_order)),
        partitions=tuple(
            PartitionView(topic=topic, partition=number, committed=committed.get((topic, number)),
                          log_end=log_ends.get((topic, number)))
            for topic, number in sorted({*partitions, *committed})
        ),
        generation=None,
        last_rebalance_ms=None,
        last_rebalance_reason=None,
    )  # fmt: skip


def committed_offsets(answer: Mapping[Untyped, Untyped]) -> dict[Partition, int]:
    """OffsetFetch of all partitions: those that have a committed offset."""
    return {(one.topic, one.partition): int(found.offset) for one, found in answer.items() if found.offset >= 0}


def _order(member: MemberView) -> tuple[str, str]:
    return member.instance_id or "", member.member_id


def _member(found: Mapping[str, Any]) -> MemberView:
    assignment = found["member_assignment"]
    assigned: dict[str, list[int]] = {}
    if isinstance(assignment, Mapping):
        for one in assignment.get("assigned_partitions") or ():
            assigned.setdefault(str(one["topic"]), []).extend(int(number) for number in one["partitions"])
    return MemberView(
        member_id=str(found["member_id"]),
        instance_id=found.get("group_instance_id"),
        client_id=str(found["client_id"]),
        host=str(found["client_host"]).lstrip("/"),
        assignment=tuple((topic, tuple(sorted(numbers))) for topic, numbers in sorted(assigned.items())),
    )
