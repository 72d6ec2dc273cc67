"""Heartbeat (protocol notes 3.3): the most frequent request, so one look-up, three comparisons and one field written.

A heartbeat's answer promises nothing, so it is given from current state even while a record of the group is in flight.
For the same reason there is a fast path (`heartbeat_at_once`, docs/adr/0012): it judges alike and returns the code, for
the two most frequent outcomes only; every other case takes the ordinary path.
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
    """Errors 25, 82, 22; else 27 in a join phase, else 0. The last two restart the session."""
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
    """The answer that `heartbeat` would give, if it is 0 or 27, with the session restarted. None: nothing was done, and
    the caller must take the ordinary path.

    Only for a group with volatile state, and a session that moves later: so no effect and no earlier deadline results.
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
