"""The join phase: how it starts, how long it lasts, how it ends (protocol notes 3.7).

Everything that a client may rely on is stored first. A group with a generation enters PreparingRebalance by a
`GroupRebalance` record (own type 1001) with the remaining members. A phase ends by a record of the whole candidate
generation (own type 1000), and only then are the parked JoinGroups answered (decisions 6 and 7). A phase that starts
from Empty is volatile: no client has been promised anything yet. Each completed phase increments the generation, in
the log before in any answer, so no generation number ever stands for two member sets (invariant G2).
"""

from collections.abc import Callable, Iterable
from functools import partial

from muster_coordinator.errors import Code
from muster_coordinator.events import EMPTIED, EXPELLED, PREPARING, STABILIZED, EventKind
from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.inflights import InFlightAppend
from muster_coordinator.groups.live.live_group import JoinPhase, LiveGroup, ParkedJoin
from muster_coordinator.groups.live.roster import choose_protocol
from muster_coordinator.groups.membership import sessions
from muster_coordinator.groups.requests import (
    GroupRequest,
    JoinedMember,
    JoinGroup,
    JoinGroupAnswer,
    SyncGroupAnswer,
)
from muster_coordinator.groups.state.classic_group import ClassicGroup, State
from muster_coordinator.groups.state.group_records import (
    REASON_CHARS_MAX,
    candidate_record,
    metadata_record,
    rebalance_record,
)
from muster_coordinator.groups.state.member import Member

_ASSIGNMENT_FIXED_BYTES = 8
_GENERATION_MAX = 2**31 - 1
_NOT_JOINED = "join phase timed out"

Asked = tuple[tuple[int, GroupRequest], ...]
Then = Callable[[Now], None]
Began = Callable[[Now, JoinPhase], None]


def store_rebalance(
    core: Core,
    now: Now,
    live: LiveGroup,
    *,
    remaining: Iterable[Member],
    gone: dict[str, Code],
    reason: str,
    heir: str | None = None,
    asked: Asked = (),
    done: Began,
    failed: Callable[[Now, Code], None],
) -> None:
    """Store that the group rebalances with the members `remaining`; once applied, the join phase runs and `done` is
    called with it.

    `gone`: the removed members, each with the code that answers its parked requests. If the leader is among them,
    `heir` becomes leader, or without one the first remaining member (quirk Q12).
    """
    group = live.group
    leader = group.leader if live.phase is None else live.phase.leader
    members = _with_last_assignments(core, live, list(remaining))
    if leader in gone:
        leader = heir or (members[0].id if members else None)
    stored = ClassicGroup(
        state=State.PREPARING,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=leader,
        state_timestamp_ms=now.wall_ms,
        members=members,
    )
    record = rebalance_record(live.id, stored, reason)
    applied = partial(_rebalances, core, live, stored, gone, reason, done)
    core.append(now, InFlightAppend(live.id, True, asked, applied, failed), (record,))


def _rebalances(
    core: Core, live: LiveGroup, stored: ClassicGroup, gone: dict[str, Code], reason: str, done: Began, then: Now
) -> None:
    """The rebalance is applied."""
    if live.phase is None:
        live.rebalance_reason = reason[:REASON_CHARS_MAX]
        core.tell(PREPARING, live.id, stored.generation, members=len(stored.members), reason=reason)
    turn_away(core, live, gone)
    done(then, interrupt(core, then, live, stored))
    maybe_complete(core, then, live)
    core.retire(live)


def interrupt(core: Core, now: Now, live: LiveGroup, stored: ClassicGroup) -> JoinPhase:
    """The group acts as PreparingRebalance from now on: parked SyncGroups are answered 27, the join timer runs."""
    live.pending_rebalance = None
    core.deadlines.cancel(live.pending_rebalance_timer)
    core.deadlines.cancel(live.sync_timer)
    live.sync_waits.clear()
    phase, new_phase = live.phase, live.phase is None
    if phase is None:
        phase = live.phase = JoinPhase(started_ms=now.monotonic_ms, leader=stored.leader)
        live.rebalance_started_ms = now.monotonic_ms
        core.stats.rebalances_started += 1
    phase.leader = stored.leader
    live.adopt(stored)
    for member in live.roster.members:
        if member not in live.sessions:
            sessions.restart(core, now, live, member)
    syncs, live.syncs = live.syncs, {}
    for member, (ticket, _) in syncs.items():
        core.answer(ticket, SyncGroupAnswer(error=Code.REBALANCE_IN_PROGRESS))
        sessions.restart(core, now, live, member)
    if new_phase:
        core.deadlines.arm(live.join_timer, now.monotonic_ms + live.roster.max_rebalance_timeout_ms())
    return phase


def turn_away(core: Core, live: LiveGroup, gone: dict[str, Code]) -> None:
    """Drop removed members and answer their parked requests, the SyncGroups too (protocol notes 3.9, quirk Q5)."""
    for member, code in gone.items():
        sessions.forget(core, live, member)
        sessions.drop_pending_member(core, live, member)
        live.sync_waits.discard(member)
        parked = None if live.phase is None else live.phase.parked.pop(member, None)
        if parked is not None:
            named = member if code is Code.FENCED_INSTANCE_ID else ""
            core.answer(parked.ticket, JoinGroupAnswer(error=code, member=named))
        sync = live.syncs.pop(member, None)
        if sync is not None:
            core.answer(sync[0], SyncGroupAnswer(error=code))


def start_initial(core: Core, now: Now, live: LiveGroup, phase: JoinPhase) -> None:
    """The first member of an Empty group is parked: wait `group.initial.rebalance.delay.ms` for others."""
    phase.delay_ms = core.config.initial_rebalance_delay_ms
    phase.remaining_ms = max(live.roster.max_rebalance_timeout_ms() - phase.delay_ms, 0)
    live.rebalance_started_ms = now.monotonic_ms
    live.rebalance_reason = "a member joined the empty group"
    core.stats.rebalances_started += 1
    generation, members = live.group.generation, len(live.roster.members)
    core.tell(PREPARING, live.id, generation, members=members, reason=live.rebalance_reason)
    core.deadlines.arm(live.join_timer, now.monotonic_ms + phase.delay_ms)


def on_join_timer(core: Core, now: Now, live: LiveGroup) -> None:
    """The phase, or one window of an initial one, has ended."""
    phase = live.phase
    if phase is None:
        return
    if phase.initial and phase.member_added and phase.remaining_ms:
        phase.member_added = False
        delay_ms = min(core.config.initial_rebalance_delay_ms, phase.remaining_ms)
        phase.remaining_ms = max(phase.remaining_ms - phase.delay_ms, 0)
        phase.delay_ms = delay_ms
        core.deadlines.arm(live.join_timer, now.monotonic_ms + delay_ms)
        return
    complete(core, now, live, phase)


def maybe_complete(core: Core, now: Now, live: LiveGroup) -> None:
    """End the phase if all members joined and no record is in flight; an initial phase ends by time only."""
    phase, queue = live.phase, core.queues.get(live.id)
    if phase is not None and not phase.initial and live.all_joined() and not (queue and queue.exclusive):
        complete(core, now, live, phase)


def complete(core: Core, now: Now, live: LiveGroup, phase: JoinPhase) -> None:
    """End the join phase: propose the next generation, of all parked members and absent static members."""
    core.deadlines.cancel(live.join_timer)
    staying = [m for m in live.roster.members.values() if m.id in phase.parked or m.instance is not None]
    if not staying:
        _store_empty(core, now, live)
    elif phase.parked:
        _store_candidate(core, now, live, phase, staying)
    else:
        _wait_for_static(core, now, live, staying)


def _wait_for_static(core: Core, now: Now, live: LiveGroup, staying: list[Member]) -> None:
    """Only absent static members remain: extend the phase until they join or their sessions end."""
    kept = {m.id for m in staying}
    absent = [m for m in live.group.members.values() if m.id not in kept]
    gone = {m.id: Code.UNKNOWN_MEMBER_ID for m in absent}
    if gone:
        began, failed = partial(_began_to_wait, core, live, absent), partial(_end_later, core, live)
        store_rebalance(core, now, live, remaining=staying, gone=gone, reason=_NOT_JOINED, done=began, failed=failed)
    else:
        _rearm(core, live, absent, now)


def _began_to_wait(core: Core, live: LiveGroup, absent: list[Member], then: Now, _: JoinPhase) -> None:
    _rearm(core, live, absent, then)


def _rearm(core: Core, live: LiveGroup, absent: list[Member], then: Now) -> None:
    tell_members(core, live, EXPELLED, absent, _NOT_JOINED)
    wait_ms = max(live.roster.max_rebalance_timeout_ms(), limits.STATIC_MEMBERS_LOOK_MS)
    core.deadlines.arm(live.join_timer, then.monotonic_ms + wait_ms)


def _end_later(core: Core, live: LiveGroup, then: Now, _: Code) -> None:
    """The record that ends the phase, or lets it go on, was not appended."""
    core.deadlines.arm(live.join_timer, then.monotonic_ms + limits.APPEND_RETRY_MS)


def _with_last_assignments(core: Core, live: LiveGroup, members: list[Member]) -> list[Member]:
    """The members with their last assignments, which DescribeGroups shows until there is a new plan; without, if the
    record has no room for them."""
    size = live.roster.stored_bytes + sum(len(m.assignment) + _ASSIGNMENT_FIXED_BYTES for m in members)
    if size <= core.config.group_stored_bytes_max:
        return members
    return [m._replace(assignment=b"") if m.assignment else m for m in members]


def _next_generation(group: ClassicGroup) -> int:
    """One more; after the int32 maximum again 1. No client can still hold a generation of 2^31 rebalances ago."""
    return group.generation + 1 if 0 <= group.generation < _GENERATION_MAX else 1


def _store_empty(core: Core, now: Now, live: LiveGroup) -> None:
    done = partial(_tell_not_joined, core, live, list(live.roster.members.values()))
    gone = dict.fromkeys(live.roster.members, Code.UNKNOWN_MEMBER_ID)
    store_empty(core, now, live, gone=gone, reason=_NOT_JOINED, done=done, failed=partial(_end_later, core, live))


def _tell_not_joined(core: Core, live: LiveGroup, absent: list[Member], _: Now) -> None:
    tell_members(core, live, EXPELLED, absent, _NOT_JOINED)


def store_empty(
    core: Core,
    now: Now,
    live: LiveGroup,
    *,
    gone: dict[str, Code],
    reason: str,
    asked: Asked = (),
    done: Then,
    failed: Callable[[Now, Code], None],
) -> None:
    """End a phase without members: Kafka's Empty GroupMetadata with the next generation; the protocol type stays."""
    stored = ClassicGroup(
        state=State.EMPTY,
        generation=_next_generation(live.group),
        protocol_type=live.group.protocol_type or live.roster.protocol_type,
        state_timestamp_ms=now.wall_ms,
    )
    applied = partial(_emptied, core, live, stored, gone, reason, done)
    core.append(now, InFlightAppend(live.id, True, asked, applied, failed), (metadata_record(live.id, stored),))


def _emptied(
    core: Core, live: LiveGroup, stored: ClassicGroup, gone: dict[str, Code], reason: str, done: Then, then: Now
) -> None:
    turn_away(core, live, gone)
    for ticket, _ in live.syncs.values():
        core.answer(ticket, SyncGroupAnswer(error=Code.REBALANCE_IN_PROGRESS))
    live.syncs.clear()
    live.phase = None
    live.pending_rebalance = None
    live.sync_waits.clear()
    for timer in (live.join_timer, live.sync_timer, live.pending_rebalance_timer):
        core.deadlines.cancel(timer)
    live.adopt(stored)
    sessions.restart_all(core, then, live)
    done(then)
    core.tell(EMPTIED, live.id, stored.generation, reason=reason)
    core.retire(live)


def _store_candidate(core: Core, now: Now, live: LiveGroup, phase: JoinPhase, staying: list[Member]) -> None:
    leader = phase.leader if phase.leader in phase.parked else next(m.id for m in staying if m.id in phase.parked)
    kept = {m.id for m in staying}
    absent = [m for m in live.roster.members.values() if m.id not in kept]
    stored = ClassicGroup(
        state=State.COMPLETING,
        generation=_next_generation(live.group),
        protocol_type=live.roster.protocol_type,
        protocol=choose_protocol(staying, live.roster.members[leader]),
        leader=leader,
        state_timestamp_ms=now.wall_ms,
        members=_with_last_assignments(core, live, staying),
    )
    applied = partial(_answer_joins, core, live, phase, absent, stored)
    lost = partial(_candidate_lost, core, live, phase)
    core.append(now, InFlightAppend(live.id, True, (), applied, lost), (candidate_record(live.id, stored),))


def _answer_joins(
    core: Core, live: LiveGroup, phase: JoinPhase, absent: list[Member], stored: ClassicGroup, now: Now
) -> None:
    """The candidate generation is applied, so the JoinGroups of its members may be answered."""
    tell_members(core, live, EXPELLED, absent, _NOT_JOINED)
    live.phase = None
    live.adopt(stored)
    count, leader, protocol = len(stored.members), stored.leader, stored.protocol
    core.tell(STABILIZED, live.id, stored.generation, members=count, leader=leader, protocol=protocol)
    for member, parked in phase.parked.items():
        core.answer(parked.ticket, current_generation(stored, member))
    start_sync_phase(core, now, live)


def start_sync_phase(core: Core, now: Now, live: LiveGroup) -> None:
    """Enter CompletingRebalance, after a join phase or when leadership begins for a group stored in that state."""
    sessions.restart_all(core, now, live)
    live.sync_waits = set(live.group.members)
    core.deadlines.arm(live.sync_timer, now.monotonic_ms + live.roster.max_rebalance_timeout_ms())


def current_generation(group: ClassicGroup, member: str) -> JoinGroupAnswer:
    """The answer to a JoinGroup of a member of the stored generation. Only the group's leader gets the member list."""
    members: tuple[JoinedMember, ...] = ()
    if member == group.leader:
        members = tuple(JoinedMember(m.id, m.instance, m.metadata(group.protocol)) for m in group.members.values())
    return JoinGroupAnswer(
        error=Code.NONE,
        member=member,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=members,
    )


def _candidate_lost(core: Core, live: LiveGroup, phase: JoinPhase, now: Now, code: Code) -> None:
    """The candidate was not appended, so its generation was never given out. All parked members are told to retry."""
    for parked in phase.parked.values():
        core.answer(parked.ticket, JoinGroupAnswer(error=code, member=parked.request.member))
        _hand_back(core, now, live, parked)
    phase.parked.clear()
    if live.group.state is State.EMPTY:
        live.phase = None
        core.deadlines.cancel(live.join_timer)
    live.adopt(live.group)
    for member in [m for m in live.sessions if m not in live.roster.members]:
        sessions.forget(core, live, member)
    if live.phase is not None:
        core.deadlines.arm(live.join_timer, now.monotonic_ms + live.roster.max_rebalance_timeout_ms())
    core.retire(live)


def _hand_back(core: Core, now: Now, live: LiveGroup, parked: ParkedJoin) -> None:
    """A stored member keeps its session; a member id that is in no generation yet becomes pending again."""
    member = parked.member.id
    if member in live.group.members:
        sessions.restart(core, now, live, member)
    elif parked.request.member and parked.member.instance is None:
        sessions.forget(core, live, member)
        sessions.hand_out(core, now, live, member, parked.request.session_timeout_ms)


def park(
    core: Core, now: Now, live: LiveGroup, phase: JoinPhase, ticket: int, request: JoinGroup, member: Member
) -> None:
    """Park this JoinGroup until the phase ends. An older one of the same member is answered 27 (quirk Q4)."""
    older = phase.parked.get(member.id)
    if older is not None:
        core.answer(older.ticket, JoinGroupAnswer(error=Code.REBALANCE_IN_PROGRESS, member=member.id))
    phase.parked[member.id] = ParkedJoin(ticket, request, member)
    if not live.roster.members:
        live.roster.protocol_type = request.protocol_type
    live.roster.put(member)
    if phase.leader is None:
        phase.leader = member.id
    _extend(core, now, live, phase, member.rebalance_timeout_ms)


def tell_members(core: Core, live: LiveGroup, kind: EventKind, members: Iterable[Member], reason: str) -> None:
    """One log event for each of these members, which are out of the group."""
    for member in members:
        core.tell(
            kind,
            live.id,
            live.group.generation,
            member=member.id,
            instance=member.instance,
            client_id=member.client_id,
            client_host=member.client_host,
            reason=reason,
        )


def _extend(core: Core, now: Now, live: LiveGroup, phase: JoinPhase, timeout_ms: int) -> None:
    """Move the end of the phase to the longest rebalance timeout of all members in it, late ones included. An initial
    phase keeps the end that was computed at its start, as in Kafka."""
    until_ms = phase.started_ms + timeout_ms
    due_ms = live.join_timer.at_ms
    if not phase.initial and due_ms is not None and due_ms < until_ms and now.monotonic_ms < until_ms:
        core.deadlines.arm(live.join_timer, until_ms)
