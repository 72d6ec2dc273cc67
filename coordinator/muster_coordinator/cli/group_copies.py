"""Reading many groups of a cluster, and committing offsets for one of them, as `muster group migrate` needs it.

Problem: one question about many groups fails as a whole if one of them cannot be answered, and a commit without an
answer may have been done. Mechanism: a question that fails is halved until the group that fails is alone; that one is
asked again while its error is one that passes, within the side's time. A commit is repeated only where an answer says
that nothing was done, or nothing was sent; else its fate is unknown, and reading back decides. What this does not do:
choose offsets (`migrate_plan`), or commit for a group with members, which the coordinator refuses, too.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from muster_coordinator.cli.coordinator_lists import of_all_brokers
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.kafka_client import RETRY_PAUSE_S, KafkaSide, Untyped, error_text, was_refused
from muster_coordinator.cli.migrate_plan import Answered, Committed, GroupAt, Offsets, chunks
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.groups.assignors.membership import TopicPartition

_GROUP_ID_NOT_FOUND = 69
_PASSES = (14, 15, 16)
"""Errors of a commit that pass: the coordinator is loading, not available, another one. Once more does no harm."""
_STABLE_SINCE, _MANY_GROUPS_SINCE = 7, 8
"""Versions of OffsetFetch."""
_UNREAD = "it cannot be read"
_UNTOLD = CliError(Exit.UNREACHABLE, "the answer says nothing of it")

Answer = TypeVar("Answer")


class ListedGroup(NamedTuple):
    """A group as ListGroups shows it."""

    kind: str
    """Its type, in lower case; "": the broker does not tell."""
    state: str


def list_groups(side: KafkaSide) -> tuple[dict[str, ListedGroup], list[str]]:
    """All groups of a cluster, and a sentence for what may be missing. Raises CliError."""
    listed = of_all_brokers(side, OFFSETS_TOPIC, "groups", lambda admin, broker: list(admin.list_groups([broker])))
    found = {
        one["group_id"]: ListedGroup(str(one.get("group_type") or "").lower(), str(one.get("group_state") or ""))
        for groups in listed.of_brokers.values()
        for one in groups
    }
    return found, listed.lacks


def read_groups(
    side: KafkaSide, names: Sequence[str], listed: Mapping[str, ListedGroup]
) -> dict[str, GroupAt | CliError]:
    """States and committed offsets; for a group that cannot be read, why."""
    states = ask_each(side, names, partial(_states, side))
    read: dict[str, GroupAt | CliError] = {}
    read.update({name: state for name, state in states.items() if isinstance(state, CliError)})
    offsets = ask_each(side, [name for name in names if name not in read], partial(_offsets, side))
    for name, found in offsets.items():
        state = states[name]
        assert not isinstance(state, CliError)
        read[name] = found if isinstance(found, CliError) else _group_at(state, listed.get(name), found)
    return read


def _group_at(state: tuple[str, int], listed: ListedGroup | None, offsets: Offsets) -> GroupAt:
    """DescribeGroups shows no group that is not classic, but says that it is dead; ListGroups knows its state."""
    told, members = state
    if listed is not None and listed.kind not in ("", "classic"):
        return GroupAt(listed.state or told, members, listed.kind, offsets)
    kind = "" if listed is None or told == "Dead" else listed.kind
    return GroupAt(told, members, kind, offsets)


def ask_each(
    side: KafkaSide, names: Sequence[str], question: Callable[[Sequence[str], Untyped], Mapping[str, Answer]]
) -> dict[str, Answer | CliError]:
    """`question(names, admin)` for each name: its answer, or why there is none. It has no side effects: it is repeated.

    Each turn halves what failed, or leaves it to the next round, until the time is up.
    """
    found: dict[str, Answer | CliError] = {}
    ends_s = time.monotonic() + side.timeout_s
    left: list[Sequence[str]] = [names] if names else []
    again: list[str] = []
    while left:
        some = left.pop()
        try:
            told = side.attempt(partial(question, some), ends_s)
            found.update({name: told.get(name, _UNTOLD) for name in some})
        except side.kafka.errors.KafkaError as error:
            answered = side.was_answered(error)
            if time.monotonic() >= ends_s:
                late = [*some, *again, *(name for more in left for name in more)]
                return found | dict.fromkeys(late, side.sentence(error, _UNREAD))
            if answered and len(some) > 1:
                left += [some[len(some) // 2 :], some[: len(some) // 2]]
            elif error.retriable:
                again += some
            else:
                found.update(dict.fromkeys(some, side.sentence(error, _UNREAD)))
        if again and not left:
            time.sleep(RETRY_PAUSE_S)
            left, again = [again], []
    return found


def _states(side: KafkaSide, names: Sequence[str], admin: Untyped) -> dict[str, tuple[str, int]]:
    """State and number of members. The client's own method decodes what members say of themselves, which need not be
    the consumer protocol's."""
    from kafka.protocol.admin import DescribeGroupsRequest

    # kafka-python looks up coordinators only internally: there is no public method for it in any 3.x.
    coordinators = admin._manager.run(admin._find_coordinator_ids, list(names))
    states: dict[str, tuple[str, int]] = {}
    for broker in sorted(set(coordinators.values())):
        of_broker = [name for name in names if coordinators[name] == broker]
        # From 6 on an error says the group's name, and a Kafka cannot write that of a very long one (-1 for all).
        request = DescribeGroupsRequest(groups=of_broker, max_version=5)
        answer = admin._manager.run(partial(admin._manager.send, node_id=broker), request)
        for one in answer.groups:
            if one.error_code not in (0, _GROUP_ID_NOT_FOUND):
                raise side.kafka.errors.for_code(one.error_code)
            states[one.group_id] = (one.group_state or "Dead", len(one.members))
    return states


def _offsets(side: KafkaSide, names: Sequence[str], admin: Untyped) -> dict[str, Offsets]:
    """Those of which it is decided whether they are committed: while a transaction has one pending, the error passes,
    which the client's own method does not ask for."""
    from kafka.protocol.consumer import OffsetFetchRequest

    coordinators = admin._manager.run(admin._find_coordinator_ids, list(names))
    version = admin._manager.broker_version_data.api_version(OffsetFetchRequest)
    found: dict[str, Offsets] = {}
    for broker in sorted(set(coordinators.values())):
        ask = partial(admin._manager.send, node_id=broker)
        of_broker = [name for name in names if coordinators[name] == broker]
        if version >= _MANY_GROUPS_SINCE:
            asked = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=None) for name in of_broker]
            request = OffsetFetchRequest(groups=asked, require_stable=True, min_version=8, max_version=8)
            answer = admin._manager.run(ask, request)
            found.update({one.group_id: _committed(side, one) for one in answer.groups})
        else:
            for name in of_broker:
                stable = version >= _STABLE_SINCE
                request = OffsetFetchRequest(
                    group_id=name, topics=None, require_stable=stable, min_version=2, max_version=7
                )
                found[name] = _committed(side, admin._manager.run(ask, request))
    return found


def _committed(side: KafkaSide, of_group: Untyped) -> Offsets:
    parts = [(topic.name, one) for topic in of_group.topics for one in topic.partitions]
    for code in (of_group.error_code, *(one.error_code for _, one in parts)):
        if code:
            raise side.kafka.errors.for_code(code)
    return {
        TopicPartition(topic, one.partition_index): Committed(
            one.committed_offset, one.metadata or "", one.committed_leader_epoch
        )
        for topic, one in parts
        if one.committed_offset >= 0
    }


def _commit(group: str, copies: Offsets, admin: Untyped) -> Mapping[TopicPartition, Untyped]:
    """The class of each offset's error."""
    from kafka.structs import OffsetAndMetadata
    from kafka.structs import TopicPartition as KafkaPartition

    asked = {
        KafkaPartition(*partition): OffsetAndMetadata(
            offset=one.offset, metadata=one.metadata, leader_epoch=one.leader_epoch
        )
        for partition, one in copies.items()
    }
    return {TopicPartition(*one): error for one, error in admin.alter_group_offsets(group, asked).items()}


def commit_copies(side: KafkaSide, group: str, copies: Offsets) -> Answered:
    """Commit these offsets as a simple consumer. What was not answered is not told as failed."""
    refused: dict[TopicPartition, str] = {}
    ends_s = time.monotonic() + side.timeout_s
    for chunk in chunks(group, copies):
        left = chunk
        while left:
            try:
                errors = side.attempt(partial(_commit, group, left), ends_s)
            except side.kafka.errors.KafkaError as error:
                if not side.was_answered(error) and not was_refused(error):
                    return Answered(refused, error_text(error))
                if not error.retriable:
                    refused.update(dict.fromkeys(left, error_text(error)))
                    break
                passes, why = left, error_text(error)
            else:
                passes = {one: left[one] for one, error in errors.items() if error.retriable and error.errno in _PASSES}
                refused.update({o: error_text(e()) for o, e in errors.items() if e.errno and o not in passes})
                why = next((error_text(errors[one]()) for one in passes), "")
            left = passes
            if left and time.monotonic() >= ends_s:
                return Answered(refused, why)
            if left:
                side.renew()
                time.sleep(RETRY_PAUSE_S)
    return Answered(refused)
