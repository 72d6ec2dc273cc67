"""LeaveGroup (protocol notes 3.3, 3.9): one record for all members that leave, then the answer.

An entry without a member id but with an instance id removes the member that holds the instance id: administrators use
that. A pending member id is dropped at once: its client was promised nothing, and it is in no generation.
"""

from functools import partial

from muster_coordinator.errors import Code
from muster_coordinator.events import LEFT
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.live_group import LiveGroup
from muster_coordinator.groups.membership import removal, sessions, waking
from muster_coordinator.groups.requests import LeaveGroup, LeaveGroupAnswer, Leaver
from muster_coordinator.groups.state.classic_group import validate_member


def leave(core: Core, now: Now, ticket: int, request: LeaveGroup) -> None:
    """Answers each entry, with the ids of the request."""
    if not request.group:
        return core.answer(ticket, LeaveGroupAnswer(Code.INVALID_GROUP_ID, ()))
    live = waking.find(core, now, request.group)
    if live is None:
        return core.answer(ticket, _answer(request, [Code.UNKNOWN_MEMBER_ID] * len(request.leavers)))
    gone: dict[str, Code] = {}
    codes = [_leave_one(core, live, leaver, gone) for leaver in request.leavers]
    if not gone:
        _left(core, ticket, request, codes, now)
        return removal.after_removal(core, now, live, completes_initial=False)
    return removal.remove_members(
        core,
        now,
        live,
        gone,
        kind=LEFT,
        reason=next((leaver.reason for leaver in request.leavers if leaver.reason), "left"),
        completes_initial=False,
        asked=((ticket, request),),
        done=partial(_left, core, ticket, request, codes),
        failed=partial(_not_left, core, ticket),
    )


def _left(core: Core, ticket: int, request: LeaveGroup, codes: list[Code], _: Now) -> None:
    core.answer(ticket, _answer(request, codes))


def _not_left(core: Core, ticket: int, _: Now, code: Code) -> None:
    core.answer(ticket, LeaveGroupAnswer(code, ()))


def _leave_one(core: Core, live: LiveGroup, leaver: Leaver, gone: dict[str, Code]) -> Code:
    """The code of one entry; a member to be removed is added to `gone`."""
    roster = live.roster
    member = leaver.member
    if not member:
        member = roster.instances.get(leaver.instance or "", "")
        if not member:
            return Code.UNKNOWN_MEMBER_ID
    elif member in live.pending_members:
        sessions.drop_pending_member(core, live, member)
        return Code.NONE
    else:
        refused = validate_member(roster.members, roster.instances, member, leaver.instance)
        if refused is not Code.NONE:
            return refused
    if member in gone:
        return Code.UNKNOWN_MEMBER_ID
    gone[member] = Code.UNKNOWN_MEMBER_ID
    return Code.NONE


def _answer(request: LeaveGroup, codes: list[Code]) -> LeaveGroupAnswer:
    leavers = tuple((who.member, who.instance, int(code)) for who, code in zip(request.leavers, codes, strict=True))
    return LeaveGroupAnswer(Code.NONE, leavers)
