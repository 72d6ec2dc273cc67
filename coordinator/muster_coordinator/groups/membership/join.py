"""JoinGroup (protocol notes 3.3, 3.5, 3.6): admission, the id hand-out of KIP-394, parking, and answers without a
rebalance.

A JoinGroup that ends a generation first stores a rebalance and is then parked, so there is one place that parks. A
JoinGroup that creates a group first stores the group (Kafka's empty GroupMetadata) and is then handled again.
"""

from functools import partial

from muster_coordinator.errors import Code
from muster_coordinator.events import EXPELLED
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.inflights import InFlightAppend
from muster_coordinator.groups.live.live_group import JoinPhase, LiveGroup
from muster_coordinator.groups.membership import rebalance, removal, sessions, static_members, waking
from muster_coordinator.groups.names import new_member_id, storable, storable_prefix
from muster_coordinator.groups.requests import JoinGroup, JoinGroupAnswer
from muster_coordinator.groups.state.classic_group import ClassicGroup, State, validate_member
from muster_coordinator.groups.state.group_records import metadata_record
from muster_coordinator.groups.state.member import Member, member_of, rebalance_timeout_of


def join(core: Core, now: Now, ticket: int, request: JoinGroup) -> None:
    """Answers at once only what changes nothing: errors, and the generation that is already applied."""
    config = core.config
    if not request.group or not storable(request.group):
        return _refuse(core, ticket, Code.INVALID_GROUP_ID, request.member)
    if not config.session_timeout_min_ms <= request.session_timeout_ms <= config.session_timeout_max_ms:
        return _refuse(core, ticket, Code.INVALID_SESSION_TIMEOUT, request.member)
    if not _fits_the_log(request):
        return _refuse(core, ticket, Code.INVALID_REQUEST, request.member)
    if not core.state.has_group(request.group) and request.group not in core.lives:
        return _join_unknown_group(core, now, ticket, request)
    live = waking.wake(core, now, request.group)
    if not _accepts(core, live, request):
        return _kick(core, now, live, ticket, request)
    if not live.roster.supports(request.protocol_type, request.protocols):
        _refuse(core, ticket, Code.INCONSISTENT_GROUP_PROTOCOL, request.member)
    elif request.member == "":
        _join_without_id(core, now, live, ticket, request)
    elif request.member in live.pending_members:
        _join_pending_member(core, now, live, ticket, request)
    else:
        _rejoin(core, now, live, ticket, request)
    return core.retire(live)


def _fits_the_log(request: JoinGroup) -> bool:
    """Whether all stored strings, and the member id built from them, fit the log and every version of every answer."""
    names = (request.member, request.protocol_type, *(listed.name for listed in request.protocols))
    return all(map(storable, names)) and all(map(storable_prefix, (request.instance, request.client_id)))


def _refuse(core: Core, ticket: int, code: Code, member: str) -> None:
    core.answer(ticket, JoinGroupAnswer(error=code, member=member))


def _dropped(core: Core, ticket: int, member: str, _: Now, code: Code) -> None:
    _refuse(core, ticket, code, member)


def _join_unknown_group(core: Core, now: Now, ticket: int, request: JoinGroup) -> None:
    if request.member:
        return _refuse(core, ticket, Code.UNKNOWN_MEMBER_ID, request.member)
    if not request.protocol_type or not request.protocols:
        return _refuse(core, ticket, Code.INCONSISTENT_GROUP_PROTOCOL, "")
    created = ClassicGroup(state=State.EMPTY, generation=0, state_timestamp_ms=now.wall_ms)
    applied, dropped = partial(_created, core, ticket, request), partial(_dropped, core, ticket, "")
    inflight = InFlightAppend(request.group, True, ((ticket, request),), applied, dropped)
    return core.append(now, inflight, (metadata_record(request.group, created),))


def _created(core: Core, ticket: int, request: JoinGroup, then: Now) -> None:
    join(core, then, ticket, request)


def _accepts(core: Core, live: LiveGroup, request: JoinGroup) -> bool:
    """Whether `group.max.size` allows this join (protocol notes 3.5). A known instance id counts as the member that it
    replaces (quirk Q1, fixed)."""
    if live.state is State.EMPTY:
        return True
    member = request.member
    if not member and request.instance is not None:
        member = live.roster.instances.get(request.instance, "")
    if live.phase is not None:
        return member in live.phase.parked or len(live.phase.parked) < core.config.group_max_size
    return member in live.roster.members or len(live.roster.members) < core.config.group_max_size


def _kick(core: Core, now: Now, live: LiveGroup, ticket: int, request: JoinGroup) -> None:
    """The group is full: answer 81, and remove the client from the group if it is a member."""
    sessions.drop_pending_member(core, live, request.member)
    if request.member not in live.roster.members:
        _kicked(core, ticket, now)
        return removal.after_removal(core, now, live, completes_initial=False)
    return removal.remove_members(
        core,
        now,
        live,
        {request.member: Code.UNKNOWN_MEMBER_ID},
        kind=EXPELLED,
        reason="group.max.size is exceeded",
        completes_initial=False,
        asked=((ticket, request),),
        done=partial(_kicked, core, ticket),
        failed=partial(_dropped, core, ticket, request.member),
    )


def _kicked(core: Core, ticket: int, _: Now) -> None:
    _refuse(core, ticket, Code.GROUP_MAX_SIZE_REACHED, "")


def _join_without_id(core: Core, now: Now, live: LiveGroup, ticket: int, request: JoinGroup) -> None:
    if request.instance is not None:
        if request.instance in live.roster.instances:
            return static_members.replace(core, now, live, ticket, request, request.instance)
        return _add(core, now, live, ticket, request, new_member_id(core.rand, request.instance))
    member = new_member_id(core.rand, request.client_id)
    if not request.requires_known_member:
        return _add(core, now, live, ticket, request, member)
    if len(live.pending_members) >= core.config.pending_members_max:
        return _refuse(core, ticket, Code.COORDINATOR_NOT_AVAILABLE, "")
    sessions.hand_out(core, now, live, member, request.session_timeout_ms)
    return _refuse(core, ticket, Code.MEMBER_ID_REQUIRED, member)


def _join_pending_member(core: Core, now: Now, live: LiveGroup, ticket: int, request: JoinGroup) -> None:
    if request.instance is not None:
        return _refuse(core, ticket, Code.UNKNOWN_SERVER_ERROR, request.member)
    return _add(core, now, live, ticket, request, request.member)


def _add(core: Core, now: Now, live: LiveGroup, ticket: int, request: JoinGroup, member: str) -> None:
    """Add a new member: parked in the running join phase, or in one that starts now."""
    newcomer = member_of(request, member)
    if live.roster.stored_bytes + newcomer.stored_bytes() > core.config.group_stored_bytes_max:
        return _refuse(core, ticket, Code.GROUP_MAX_SIZE_REACHED, "")
    if live.phase is not None or live.group.state is State.EMPTY:
        return _added(core, live, ticket, request, newcomer, now, live.phase)
    added = partial(_added, core, live, ticket, request, newcomer)
    return _interrupt(core, now, live, ticket, request, f"{member} joins", added)


def _added(
    core: Core, live: LiveGroup, ticket: int, request: JoinGroup, newcomer: Member, then: Now, phase: JoinPhase | None
) -> None:
    sessions.drop_pending_member(core, live, newcomer.id)
    starts = phase is None
    if phase is None:
        phase = live.phase = JoinPhase(started_ms=then.monotonic_ms, leader=None, initial=True)
    phase.member_added = not starts
    rebalance.park(core, then, live, phase, ticket, request, newcomer)
    sessions.await_answer(core, then, live, newcomer.id)
    if starts:
        rebalance.start_initial(core, then, live, phase)
    else:
        rebalance.maybe_complete(core, then, live)


def _rejoin(core: Core, now: Now, live: LiveGroup, ticket: int, request: JoinGroup) -> None:
    """A JoinGroup with a member id that is not pending: the client says that it is a member."""
    roster = live.roster
    refused = validate_member(roster.members, roster.instances, request.member, request.instance)
    if refused is not Code.NONE:
        return _refuse(core, ticket, refused, request.member)
    member = roster.members[request.member]
    same = member.protocols == request.protocols
    if live.phase is None:
        leader = live.group.leader == request.member
        if same and (live.group.state is State.COMPLETING or not leader):
            return core.answer(ticket, rebalance.current_generation(live.group, request.member))
    update = member._replace(
        rebalance_timeout_ms=rebalance_timeout_of(request.rebalance_timeout_ms, request.session_timeout_ms),
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
    )
    grows_by = 0 if same else update.stored_bytes() - member.stored_bytes()
    if grows_by > 0 and roster.stored_bytes + grows_by > core.config.group_stored_bytes_max:
        return _refuse(core, ticket, Code.GROUP_MAX_SIZE_REACHED, request.member)
    if live.phase is not None:
        return _rejoined(core, live, ticket, request, update, now, live.phase)
    rejoined = partial(_rejoined, core, live, ticket, request, update)
    return _interrupt(core, now, live, ticket, request, f"{request.member} rejoins", rejoined)


def _rejoined(
    core: Core, live: LiveGroup, ticket: int, request: JoinGroup, update: Member, then: Now, phase: JoinPhase
) -> None:
    rebalance.park(core, then, live, phase, ticket, request, update)
    rebalance.maybe_complete(core, then, live)


def _interrupt(
    core: Core, now: Now, live: LiveGroup, ticket: int, request: JoinGroup, reason: str, then_park: rebalance.Began
) -> None:
    """End the generation: the rebalance must be applied before `then_park` runs."""
    members: list[Member] = list(live.group.members.values())
    rebalance.store_rebalance(
        core,
        now,
        live,
        remaining=members,
        gone={},
        reason=reason,
        asked=((ticket, request),),
        done=then_park,
        failed=partial(_dropped, core, ticket, request.member),
    )
