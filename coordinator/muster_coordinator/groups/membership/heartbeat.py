"""Heartbeat (protocol notes 3.3): the commonest request, so one look-up, three comparisons and one field written.

It promises nothing, so it is answered from current state also while a record of its group is in flight. That is also
why it has a short way (`heartbeat_at_once`, docs/adr/0012): the same judgement as a return value, for the two commonest
outcomes; whatever else there is to say, or to do, goes the long way.
"""

from muster_coordinator.errors import Code
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.membership import sessions, waking
from muster_coordinator.groups.requests import Heartbeat, HeartbeatAnswer
from muster_coordinator.groups.state.classic_group import validate_member

_NONE = HeartbeatAnswer(Code.NONE)
_REBALANCE = HeartbeatAnswer(Code.REBALANCE_IN_PROGRESS)


def heartbeat(core: Core, now: Now, ticket: int, request: Heartbeat) -> None:
    """25, 82, 22, then 27 in a join phase, else 0; the last two restart the session."""
    if not request.group:
        return core.answer(ticket, HeartbeatAnswer(Code.INVALID_GROUP_ID))
    live = core.lives.get(request.group) or waking.find(core, now, request.group)
    if live is None:
        return core.answer(ticket, HeartbeatAnswer(Code.UNKNOWN_MEMBER_ID))
    roster = live.roster
    refused = validate_member(roster.members, roster.instances, request.member, request.instance)
    if refused is not Code.NONE:
        return core.answer(ticket, HeartbeatAnswer(refused))
    if request.generation != live.group.generation:
        return core.answer(ticket, HeartbeatAnswer(Code.ILLEGAL_GENERATION))
    sessions.restart(core, now, live, request.member)
    return core.answer(ticket, _NONE if live.phase is None else _REBALANCE)


def heartbeat_at_once(core: Core, now_ms: int, request: Heartbeat) -> Code | None:
    """What `heartbeat` would answer, 0 or 27, its session restarted. None: nothing was done, go the long way.

    Needs a group that is awake and a session that only moves later, so no effect and no earlier deadline comes of it.
    """
    live = core.lives.get(request.group)
    if live is None or request.generation != live.group.generation:
        return None
    roster, member = live.roster, request.member
    if validate_member(roster.members, roster.instances, member, request.instance) is not Code.NONE:
        return None
    timer = live.sessions.get(member)
    if timer is None or not core.deadlines.postpone(timer, now_ms + roster.members[member].session_timeout_ms):
        return None
    return Code.NONE if live.phase is None else Code.REBALANCE_IN_PROGRESS
