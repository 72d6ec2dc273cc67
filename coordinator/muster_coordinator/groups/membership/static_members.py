"""A static member that rejoins under its instance id (KIP-345, KIP-814; protocol notes 3.9).

It gets a new member id; the old one is fenced from then on (82). No rebalance is needed in a Stable group if the
protocol vote does not change and the member wants the same topics: then GroupMetadata with the new id is stored before
the answer, so the new id survives a crash (invariants G10, G11). GroupMetadata holds the metadata of the chosen
protocol only; if the member lists more protocols, the same batch first repeats the generation's candidate record with
the full lists.
"""

from collections.abc import Iterable
from functools import partial

from muster_coordinator.errors import Code
from muster_coordinator.events import REPLACED
from muster_coordinator.groups.core import Core, Record
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.inflights import InFlightAppend
from muster_coordinator.groups.live.live_group import JoinPhase, LiveGroup
from muster_coordinator.groups.live.roster import choose_protocol
from muster_coordinator.groups.membership import rebalance, sessions
from muster_coordinator.groups.membership.subscription import CONSUMER, topics_of
from muster_coordinator.groups.names import new_member_id
from muster_coordinator.groups.requests import JoinedMember, JoinGroup, JoinGroupAnswer
from muster_coordinator.groups.state.classic_group import ClassicGroup, State
from muster_coordinator.groups.state.group_records import candidate_record, metadata_record
from muster_coordinator.groups.state.member import Member, member_of


def replace(core: Core, now: Now, live: LiveGroup, ticket: int, request: JoinGroup, instance: str) -> None:
    """Handle a JoinGroup without a member id, but with an instance id that a member holds."""
    old = live.roster.members[live.roster.instances[instance]]
    new = member_of(request, new_member_id(core.rand, instance))._replace(assignment=old.assignment)
    if live.roster.stored_bytes - old.stored_bytes() + new.stored_bytes() > core.config.group_stored_bytes_max:
        core.answer(ticket, JoinGroupAnswer(error=Code.GROUP_MAX_SIZE_REACHED, member=""))
    elif live.group.state is State.STABLE and live.phase is None and _nothing_to_plan(live, old, new):
        _replace_in_stable(core, now, live, ticket, request, old, new)
    elif old.id in live.group.members:
        _replace_stored(core, now, live, ticket, request, old, new)
    else:
        _replace_parked(core, now, live, ticket, request, old, new)


def _swapped(members: Iterable[Member], old: Member, new: Member) -> list[Member]:
    """The members, with the new one at the end instead of the replaced one, as if it had just joined."""
    return [*(m for m in members if m.id != old.id), new]


def _nothing_to_plan(live: LiveGroup, old: Member, new: Member) -> bool:
    """Whether a rebalance would choose the same protocol, and this member wants the same topics (KAFKA-12759,
    docs/adr/0019). Unreadable subscriptions count as the same."""
    if not _vote_unchanged(live, old, new):
        return False
    if live.group.protocol_type != CONSUMER:
        return True
    before, after = (topics_of(member.metadata(live.group.protocol)) for member in (old, new))
    return before is None or after is None or before == after


def _vote_unchanged(live: LiveGroup, old: Member, new: Member) -> bool:
    members = _swapped(live.roster.members.values(), old, new)
    if not set.intersection(*({p.name for p in m.protocols} for m in members)):
        return False
    leader = next((m for m in members if m.id == live.group.leader), new)
    return choose_protocol(members, leader) == live.group.protocol


def _replace_in_stable(
    core: Core, now: Now, live: LiveGroup, ticket: int, request: JoinGroup, old: Member, new: Member
) -> None:
    """Replace the member id without a rebalance: same generation, same assignment."""
    group = live.group
    leader = new.id if group.leader == old.id else group.leader
    members = _swapped(group.members.values(), old, new)
    stored = ClassicGroup(
        state=State.STABLE,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=leader,
        state_timestamp_ms=group.state_timestamp_ms,  # The group stays in its state.
        members=members,
    )
    records: tuple[Record, ...] = (metadata_record(live.id, stored),)
    if _bytes(records) > core.config.group_stored_bytes_max:
        return _replace_stored(core, now, live, ticket, request, old, new)
    if len(new.protocols) > 1:
        both = (candidate_record(live.id, stored), *records)
        if _bytes(both) <= core.config.group_stored_bytes_max:
            records = both
        else:
            stored = _as_replayed(stored, new)
    applied = partial(_replaced, core, live, ticket, request, old, new, stored, group.leader)
    dropped = partial(_dropped, core, ticket)
    return core.append(now, InFlightAppend(live.id, True, ((ticket, request),), applied, dropped), records)


def _replaced(
    core: Core,
    live: LiveGroup,
    ticket: int,
    request: JoinGroup,
    old: Member,
    new: Member,
    stored: ClassicGroup,
    leader_before: str | None,
    then: Now,
) -> None:
    """The group with the new member id is applied."""
    rebalance.turn_away(core, live, {old.id: Code.FENCED_INSTANCE_ID})
    live.adopt(stored)
    sessions.restart(core, then, live, new.id)
    _tell(core, live, old, new)
    core.answer(ticket, _stable_answer(stored, request, new, leader_before))


def _dropped(core: Core, ticket: int, _: Now, code: Code) -> None:
    core.answer(ticket, JoinGroupAnswer(error=code, member=""))


def _bytes(records: tuple[Record, ...]) -> int:
    return sum(len(key or b"") + len(value or b"") for key, value in records)


def _as_replayed(stored: ClassicGroup, new: Member) -> ClassicGroup:
    """The group as replay will restore it when the record has no room for full protocol lists: of the new member, only
    the metadata for the chosen protocol."""
    chosen = tuple(p for p in new.protocols if p.name == stored.protocol)[:1]
    return ClassicGroup(
        state=stored.state,
        generation=stored.generation,
        protocol_type=stored.protocol_type,
        protocol=stored.protocol,
        leader=stored.leader,
        state_timestamp_ms=stored.state_timestamp_ms,
        members=[m if m.id != new.id else new._replace(protocols=chosen) for m in stored.members.values()],
    )


def _stable_answer(stored: ClassicGroup, request: JoinGroup, new: Member, leader_before: str | None) -> JoinGroupAnswer:
    """KIP-814: a returning leader must not compute a new plan. Clients before v9 get the old leader's id instead of
    their own, so they act as a follower and only send SyncGroup."""
    leads = stored.leader == new.id
    members: tuple[JoinedMember, ...] = ()
    leader = leader_before
    if request.supports_skip_assignment:
        leader = stored.leader
        if leads:
            members = tuple(
                JoinedMember(m.id, m.instance, m.metadata(stored.protocol)) for m in stored.members.values()
            )
    return JoinGroupAnswer(
        error=Code.NONE,
        member=new.id,
        generation=stored.generation,
        protocol_type=stored.protocol_type,
        protocol=stored.protocol,
        leader=leader or "",
        skip_assignment=leads and request.supports_skip_assignment,
        members=members,
    )


def _replace_stored(
    core: Core, now: Now, live: LiveGroup, ticket: int, request: JoinGroup, old: Member, new: Member
) -> None:
    """The old id is stored: store a rebalance in which the new id replaces it, then park the new member's join."""
    rebalance.store_rebalance(
        core,
        now,
        live,
        remaining=_swapped(live.group.members.values(), old, new),
        gone={old.id: Code.FENCED_INSTANCE_ID},
        heir=new.id,
        reason=f"{new.id} replaces {old.id}",
        asked=((ticket, request),),
        done=partial(_park, core, live, ticket, request, old, new),
        failed=partial(_dropped, core, ticket),
    )


def _park(
    core: Core,
    live: LiveGroup,
    ticket: int,
    request: JoinGroup,
    old: Member,
    new: Member,
    then: Now,
    phase: JoinPhase,
) -> None:
    _tell(core, live, old, new)
    rebalance.park(core, then, live, phase, ticket, request, new)
    sessions.restart(core, then, live, new.id)
    rebalance.maybe_complete(core, then, live)


def _replace_parked(
    core: Core, now: Now, live: LiveGroup, ticket: int, request: JoinGroup, old: Member, new: Member
) -> None:
    """Neither id is stored, because the old one joined in this join phase: replace it in memory."""
    phase = live.phase
    assert phase is not None, "a member that is not stored joined in the phase that runs"
    assert old.id in phase.parked
    _tell(core, live, old, new)
    rebalance.turn_away(core, live, {old.id: Code.FENCED_INSTANCE_ID})
    protocol_type = live.roster.protocol_type
    live.roster.remove(old.id)
    live.roster.protocol_type = protocol_type
    if phase.leader == old.id:
        phase.leader = new.id
    rebalance.park(core, now, live, phase, ticket, request, new)
    sessions.await_answer(core, now, live, new.id)
    rebalance.maybe_complete(core, now, live)


def _tell(core: Core, live: LiveGroup, old: Member, new: Member) -> None:
    core.tell(
        REPLACED,
        live.id,
        live.group.generation,
        member=new.id,
        instance=new.instance,
        client_id=new.client_id,
        client_host=new.client_host,
        replaced=old.id,
    )
