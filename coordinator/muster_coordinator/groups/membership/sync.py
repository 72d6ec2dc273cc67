"""SyncGroup (protocol notes 3.3, 3.10): followers are parked, the leader's plan is stored, then all are answered.

The group becomes Stable when Kafka's GroupMetadata record is applied, not when it is proposed. Assignments are opaque
bytes. Ids in the plan that are not members of the generation are ignored; members that the plan omits get empty bytes.
"""

from collections.abc import Sequence
from functools import partial

from muster_coordinator.errors import Code
from muster_coordinator.events import ASSIGNED, EXPELLED
from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.inflights import InFlightAppend
from muster_coordinator.groups.live.live_group import LiveGroup
from muster_coordinator.groups.membership import removal, sessions, waking
from muster_coordinator.groups.requests import SyncGroup, SyncGroupAnswer
from muster_coordinator.groups.state.classic_group import ClassicGroup, State, validate_member
from muster_coordinator.groups.state.group_records import metadata_record


def sync(core: Core, now: Now, ticket: int, request: SyncGroup) -> None:
    """Parks the request in CompletingRebalance; answers it at once in every other state."""
    refused, live = _judge(core, now, request)
    if refused is not Code.NONE or live is None:
        return core.answer(ticket, SyncGroupAnswer(error=refused))
    if live.state is State.STABLE:
        _sent(core, live, request.member)
        return core.answer(ticket, _assigned(live.group, request.member))
    older = live.syncs.get(request.member)
    if older is not None:
        core.answer(older[0], SyncGroupAnswer(error=Code.REBALANCE_IN_PROGRESS))
    live.syncs[request.member] = (ticket, request)
    _sent(core, live, request.member)
    if request.member == live.group.leader:
        _store_plan(core, now, live, request.assignments)
    return None


def _judge(core: Core, now: Now, request: SyncGroup) -> tuple[Code, LiveGroup | None]:
    if not request.group:
        return Code.INVALID_GROUP_ID, None
    live = waking.find(core, now, request.group)
    if live is None:
        return Code.UNKNOWN_MEMBER_ID, None
    group = live.group
    code = validate_member(live.roster.members, live.roster.instances, request.member, request.instance)
    if code is not Code.NONE:
        return code, live
    if request.generation != group.generation:
        return Code.ILLEGAL_GENERATION, live
    wrong_type = request.protocol_type is not None and request.protocol_type != group.protocol_type
    if wrong_type or (request.protocol is not None and request.protocol != group.protocol):
        return Code.INCONSISTENT_GROUP_PROTOCOL, live
    if live.state is State.PREPARING:
        return Code.REBALANCE_IN_PROGRESS, live
    return Code.NONE, live


def _sent(core: Core, live: LiveGroup, member: str) -> None:
    live.sync_waits.discard(member)
    if not live.sync_waits:
        core.deadlines.cancel(live.sync_timer)


def _assigned(group: ClassicGroup, member: str) -> SyncGroupAnswer:
    return SyncGroupAnswer(
        error=Code.NONE,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        assignment=group.members[member].assignment,
    )


def _store_plan(core: Core, now: Now, live: LiveGroup, assignments: Sequence[tuple[str, bytes]]) -> None:
    group = live.group
    plan = dict(assignments)
    stored = ClassicGroup(
        state=State.STABLE,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        state_timestamp_ms=now.wall_ms,
        members=[m._replace(assignment=plan.get(m.id, b"")) for m in group.members.values()],
    )
    key, value = metadata_record(live.id, stored)
    if len(key or b"") + len(value or b"") > core.config.group_stored_bytes_max:
        return _plan_lost(core, now, live, Code.UNKNOWN_SERVER_ERROR, now.monotonic_ms)
    applied, dropped = partial(_stabilise, core, live, stored), partial(_plan_dropped, core, live)
    return core.append(now, InFlightAppend(live.id, True, (), applied, dropped), ((key, value),))


def _plan_dropped(core: Core, live: LiveGroup, then: Now, code: Code) -> None:
    _plan_lost(core, then, live, code, then.monotonic_ms + limits.APPEND_RETRY_MS)


def _stabilise(core: Core, live: LiveGroup, stored: ClassicGroup, now: Now) -> None:
    """The plan is applied: answer all parked SyncGroups with it."""
    live.adopt(stored)
    live.pending_rebalance = None
    core.deadlines.cancel(live.pending_rebalance_timer)
    syncs, live.syncs = live.syncs, {}
    for member, (ticket, _) in syncs.items():
        core.answer(ticket, _assigned(stored, member))
        sessions.restart(core, now, live, member)
    core.stats.rebalances_completed += 1
    took_ms = None
    if live.rebalance_started_ms is not None:
        took_ms = now.monotonic_ms - live.rebalance_started_ms
        core.stats.rebalances_timed += 1
        core.stats.rebalances_ms += took_ms
        live.rebalance_started_ms = None
    count = len(stored.members)
    core.tell(ASSIGNED, live.id, stored.generation, members=count, leader=stored.leader, took_ms=took_ms)


def _plan_lost(core: Core, now: Now, live: LiveGroup, code: Code, retry_at_ms: int) -> None:
    """The plan was not appended, and no member has seen it: fail all parked SyncGroups, and rebalance again."""
    syncs, live.syncs = live.syncs, {}
    for member, (ticket, _) in syncs.items():
        core.answer(ticket, SyncGroupAnswer(error=code))
        sessions.restart(core, now, live, member)
        live.sync_waits.add(member)
    core.deadlines.arm(live.sync_timer, now.monotonic_ms + live.roster.max_rebalance_timeout_ms())
    waking.set_pending_rebalance(core, live, "the assignment could not be stored", retry_at_ms)


def on_sync_timer(core: Core, now: Now, live: LiveGroup) -> None:
    """Remove all members that have not sent SyncGroup in this generation (protocol notes 3.7)."""
    if live.state not in (State.COMPLETING, State.STABLE) or not live.sync_waits:
        return
    gone = {m: Code.UNKNOWN_MEMBER_ID for m in live.group.members if m in live.sync_waits}
    removal.remove_members(
        core,
        now,
        live,
        gone,
        kind=EXPELLED,
        reason="no SyncGroup in time",
        completes_initial=False,
        done=_nothing,
        failed=partial(_not_expelled, core, live),
    )


def _not_expelled(core: Core, live: LiveGroup, then: Now, _: Code) -> None:
    core.deadlines.arm(live.sync_timer, then.monotonic_ms + limits.APPEND_RETRY_MS)


def _nothing(_: Now) -> None:
    """No request waits for this."""
