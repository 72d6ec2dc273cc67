"""Building the volatile state of a stored group: on its first request after a leadership began, or in the warm-up.

Every member gets a full new session (invariant G14: a new leader has not received any heartbeat yet). A group stored in
PreparingRebalance continues its join phase, one in CompletingRebalance its sync phase, so members that the previous
leader answered continue where they were (decision 6). A group larger than `group.max.size` rebalances, and the members
that rejoin last get 81 (protocol notes 3.12).
"""

from functools import partial

from muster_coordinator.errors import Code
from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.live_group import JoinPhase, LiveGroup
from muster_coordinator.groups.membership import rebalance, sessions
from muster_coordinator.groups.state.classic_group import ClassicGroup, State


def find(core: Core, now: Now, group_id: str) -> LiveGroup | None:
    """The live group of a group with members, pending ids or a join phase; None for any other, also an unknown one."""
    live = core.lives.get(group_id)
    if live is not None:
        return live
    stored = core.state.groups.get(group_id)
    if stored is None or stored.state is State.EMPTY:
        return None
    return wake(core, now, group_id)


def wake(core: Core, now: Now, group_id: str) -> LiveGroup:
    """The live group of any group, built if there is none. One of an Empty group lives until `Core.retire`."""
    live = core.lives.get(group_id)
    if live is not None:
        return live
    stored = core.state.groups.get(group_id)
    group = ClassicGroup(state=State.EMPTY, generation=0) if stored is None else stored.decode()
    live = core.lives[group_id] = LiveGroup(group_id, group)
    if group.state is State.EMPTY:
        return live
    sessions.restart_all(core, now, live)
    if group.state is State.PREPARING:
        live.phase = JoinPhase(started_ms=now.monotonic_ms, leader=group.leader)
        live.rebalance_started_ms = now.monotonic_ms
        core.deadlines.arm(live.join_timer, now.monotonic_ms + live.roster.max_rebalance_timeout_ms())
    elif group.state is State.COMPLETING:
        live.rebalance_started_ms = now.monotonic_ms
        rebalance.start_sync_phase(core, now, live)
    if group.state is not State.PREPARING and len(group.members) > core.config.group_max_size:
        set_pending_rebalance(core, live, "group.max.size is exceeded", now.monotonic_ms)
    return live


def set_pending_rebalance(core: Core, live: LiveGroup, reason: str, at_ms: int) -> None:
    """Start a rebalance that no request asked for, as soon as possible from `at_ms` on."""
    live.pending_rebalance = reason
    core.deadlines.arm(live.pending_rebalance_timer, at_ms)


def start_pending_rebalance(core: Core, now: Now, live: LiveGroup) -> None:
    """The timer of a pending rebalance fired: store the rebalance."""
    reason = live.pending_rebalance
    if reason is None or live.phase is not None or not live.group.members:
        live.pending_rebalance = None
        return

    rebalance.store_rebalance(
        core,
        now,
        live,
        remaining=live.group.members.values(),
        gone={},
        reason=reason,
        done=_nothing,
        failed=partial(_start_later, core, live, reason),
    )


def _start_later(core: Core, live: LiveGroup, reason: str, then: Now, _: Code) -> None:
    set_pending_rebalance(core, live, reason, then.monotonic_ms + limits.APPEND_RETRY_MS)


def _nothing(_: Now, __: JoinPhase) -> None:
    """No request waits for this."""
