"""OffsetDelete (KIP-496; protocol notes 4.5): single offsets of a group, unless a member subscribes to the topic."""

from functools import partial

from muster_coordinator.errors import Code
from muster_coordinator.groups.core import Core, Record
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.inflights import InFlightAppend
from muster_coordinator.groups.live.live_group import LiveGroup
from muster_coordinator.groups.membership import waking
from muster_coordinator.groups.membership.subscription import CONSUMER, subscribed_topics
from muster_coordinator.groups.offsets.tombstones import offset_tombstone
from muster_coordinator.groups.requests import OffsetDelete, OffsetDeleteAnswer
from muster_coordinator.groups.state.classic_group import State


def delete_offsets(core: Core, now: Now, ticket: int, request: OffsetDelete) -> None:
    """Runs while no record of the group is in flight, so no commit can be overtaken by a tombstone."""
    live = waking.find(core, now, request.group)
    refused = _judge(core, live, request)
    if refused is not Code.NONE:
        return core.answer(ticket, OffsetDeleteAnswer(refused, ()))
    everything, subscribed = _subscribed(live)
    records: list[Record] = []
    answers = []
    for topic, partitions in request.topics:
        code = Code.GROUP_SUBSCRIBED_TO_TOPIC if everything or topic in subscribed else Code.NONE
        answers.append((topic, tuple((partition, int(code)) for partition in partitions)))
        if code is Code.NONE:
            records += (
                offset_tombstone(request.group, topic, partition)
                for partition in dict.fromkeys(partitions)
                if core.state.offsets.get(request.group, topic, partition) is not None
                or core.state.pending_offsets.holds(request.group, topic, partition)
            )
    answer = OffsetDeleteAnswer(Code.NONE, tuple(answers))
    if not records:
        return core.answer(ticket, answer)
    applied, dropped = partial(_deleted, core, ticket, len(records), answer), partial(_dropped, core, ticket)
    return core.append(now, InFlightAppend(request.group, True, ((ticket, request),), applied, dropped), tuple(records))


def _deleted(core: Core, ticket: int, count: int, answer: OffsetDeleteAnswer, _: Now) -> None:
    core.stats.offsets_deleted += count
    core.answer(ticket, answer)


def _dropped(core: Core, ticket: int, _: Now, code: Code) -> None:
    core.answer(ticket, OffsetDeleteAnswer(code, ()))


def _judge(core: Core, live: LiveGroup | None, request: OffsetDelete) -> Code:
    if not request.group:
        return Code.INVALID_GROUP_ID
    if live is None:
        return Code.NONE if core.state.has_group(request.group) else Code.GROUP_ID_NOT_FOUND
    if live.state is not State.EMPTY and live.roster.protocol_type != CONSUMER:
        return Code.NON_EMPTY_GROUP
    return Code.NONE


def _subscribed(live: LiveGroup | None) -> tuple[bool, frozenset[str]]:
    """(whether any topic may be subscribed, topics that are)."""
    if live is None or live.state is State.EMPTY:
        return False, frozenset()
    if not live.group.members:
        return True, frozenset()  # A first join phase: no stored member, so the subscriptions are not known yet.
    topics = subscribed_topics(live.group)
    return topics is None, topics or frozenset()
