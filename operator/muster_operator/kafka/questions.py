"""Requests about many groups of one cluster at once, through one admin client. Blocking.

For a batch of groups: one FindCoordinator for the unknown ones, one DescribeGroups and one OffsetFetch per coordinator,
one Metadata, one ListOffsets per leader, one DescribeCluster for the brokers' addresses. kafka-python fails a whole
request when one part of it fails (an unknown topic, one group without the right to read it), so a failed request is
repeated part by part, and only the failing parts are unknown.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import kafka
import kafka.errors

from muster_operator.errors import Refused, Transient
from muster_operator.kafka.coordinators import find_coordinators
from muster_operator.kafka.decode import Partition, committed_offsets, describe_error, group_view
from muster_operator.limits import KAFKA_PARTITIONS_MAX
from muster_operator.world.group import Leaver, ObservedGroup
from muster_operator.world.views import Unknown

Untyped = Any
_LATEST = -1
_SILENCE = (
    kafka.errors.KafkaConnectionError, kafka.errors.NodeNotReadyError,
    kafka.errors.KafkaTimeoutError, kafka.errors.RequestTimedOutError,
)  # fmt: skip
"""Errors that all mean "no answer". The client's text differs each time; a status must not change with it."""
_LOG_END_TIMEOUT_MS = 2_000


def groups(admin: Untyped, wanted: Mapping[str, Collection[str]]) -> dict[str, ObservedGroup | Unknown]:
    """Views of the groups `wanted` (group id → topics of interest). Raises kafka.errors.KafkaError if no broker
    answers."""
    coordinators = _coordinators(admin, wanted)
    described = _describe(admin, coordinators)
    committed = _committed(admin, [group for group, one in described.items() if not isinstance(one, Unknown)])
    partitions = _partitions(admin, sorted({topic for topics in wanted.values() for topic in topics}))
    ends = _log_ends(
        admin,
        {one for offsets in committed.values() if not isinstance(offsets, Unknown) for one in offsets}
        | {(topic, number) for topic, count in partitions.items() for number in range(count)},
    )
    addresses = _addresses(admin)
    answers: dict[str, ObservedGroup | Unknown] = {}
    for group, topics in wanted.items():
        found = described.get(group) or Unknown(reason="NoAnswer", message="the coordinator left the group out")
        offsets = committed.get(group, {})
        if isinstance(found, Unknown):
            answers[group] = found
        elif isinstance(offsets, Unknown):
            answers[group] = offsets
        else:
            own = [(topic, number) for topic in topics for number in range(partitions.get(topic, 0))]
            answers[group] = group_view(
                found, coordinator=_address(addresses, coordinators[group]), committed=offsets, partitions=own,
                log_ends=ends
            )  # fmt: skip
    return answers


def remove_members(admin: Untyped, group: str, members: Sequence[Leaver]) -> None:
    """LeaveGroup v3+ by instance id and member id. A member that is not in the group counts as removed. If another
    process holds the instance id by now, that process stays in the group."""
    from kafka.admin import MemberToRemove

    named = [
        MemberToRemove(member_id=one.member_id, group_instance_id=one.instance_id, reason="scaled down by the operator")
        for one in members
    ]
    try:
        results = admin.remove_group_members(group, named)
    except kafka.errors.UnsupportedVersionError:
        raise Refused("BrokerTooOld", "the brokers cannot remove members by instance id (Kafka 2.3 can)") from None
    fine = (kafka.errors.NoError, kafka.errors.UnknownMemberIdError, kafka.errors.FencedInstanceIdError)
    failed = sorted({error.__name__ for error in results.values() if error not in fine})
    if failed:
        raise Transient("RemoveMembersFailed", f"members of group {group} were not removed: {', '.join(failed)}")


def _coordinators(admin: Untyped, wanted: Collection[str]) -> dict[str, int]:
    try:
        return find_coordinators(admin, wanted)
    except kafka.errors.BrokerResponseError:
        # Only an error answer is repeated part by part: without an answer each part would wait for its own time-out.
        if len(wanted) == 1:
            raise
    known: dict[str, int] = {}
    for group in wanted:
        try:
            known |= find_coordinators(admin, [group])
        except kafka.errors.BrokerResponseError:
            continue
    return known


def _describe(admin: Untyped, coordinators: Mapping[str, int]) -> dict[str, Mapping[str, Any] | Unknown]:
    answers: dict[str, Mapping[str, Any] | Unknown] = {}
    for broker in sorted(set(coordinators.values())):
        batch = [group for group, one in coordinators.items() if one == broker]
        try:
            found = admin.describe_groups(batch, group_coordinator_id=broker)
        except kafka.errors.KafkaError as error:
            said = " does not answer" if isinstance(error, _SILENCE) else f": {type(error).__name__}"
            unknown = Unknown(reason="CoordinatorUnreachable", message=f"broker {broker}{said}")
            answers |= dict.fromkeys(batch, unknown)
            continue
        answers |= {group: describe_error(one) or one for group, one in found.items()}
    return answers


def _committed(admin: Untyped, wanted: Sequence[str]) -> dict[str, dict[Partition, int] | Unknown]:
    if not wanted:
        return {}
    try:
        found = admin.list_group_offsets(dict.fromkeys(wanted))
        return {group: committed_offsets(answer) for group, answer in found.items()}
    except kafka.errors.KafkaError as error:
        if len(wanted) == 1:
            return {wanted[0]: Unknown(reason="OffsetsUnknown", message=f"OffsetFetch: {type(error).__name__}")}
    answers: dict[str, dict[Partition, int] | Unknown] = {}
    for group in wanted:
        answers |= _committed(admin, [group])
    return answers


def _partitions(admin: Untyped, topics: Sequence[str]) -> dict[str, int]:
    """Topic → number of partitions, for the topics that exist."""
    if not topics:
        return {}
    try:
        found = admin.describe_topics(list(topics))
    except kafka.errors.KafkaError:
        return {}
    return {
        str(topic["name"]): len(topic["partitions"])
        for topic in found
        if not topic.get("error_code") and topic.get("partitions")
    }


def _log_ends(admin: Untyped, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Log end offsets of the partitions that answered. One bad topic does not hide the others."""
    if not partitions or len(partitions) > KAFKA_PARTITIONS_MAX:
        return {}
    found = _list_offsets(admin, partitions)
    if found is not None:
        return found
    ends: dict[Partition, int] = {}
    for topic in sorted({topic for topic, _ in partitions}):
        ends |= _list_offsets(admin, [one for one in partitions if one[0] == topic]) or {}
    return ends


def _list_offsets(admin: Untyped, partitions: Collection[Partition]) -> dict[Partition, int] | None:
    specs = {kafka.TopicPartition(topic, number): _LATEST for topic, number in partitions}
    try:
        answer = admin.list_partition_offsets(specs, timeout_ms=_LOG_END_TIMEOUT_MS)
    except kafka.errors.KafkaError:
        return None
    return {(one.topic, one.partition): int(found.offset) for one, found in answer.items() if found.offset >= 0}


def _addresses(admin: Untyped) -> dict[int, str]:
    """Broker id → `host:port`. The names are for people: a view without them is still correct."""
    try:
        found = admin.describe_cluster()
    except kafka.errors.KafkaError:
        return {}
    return {int(one["broker_id"]): f"{one['host']}:{one['port']}" for one in found.get("brokers") or ()}


def _address(addresses: Mapping[int, str], broker: int) -> str:
    return f"{broker} ({addresses[broker]})" if broker in addresses else str(broker)
