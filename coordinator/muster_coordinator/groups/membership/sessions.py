"""Session and pending-id timers: who is alive (protocol notes 3.8).

A heartbeat only writes a field of its member's timer (`deadlines`). What happens when one fires is in `expulsion`.
"""

from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.deadlines import Timer, TimerKind
from muster_coordinator.groups.live.live_group import LiveGroup


def restart(core: Core, now: Now, live: LiveGroup, member: str) -> None:
    """A full session from now."""
    timer = live.sessions.get(member)
    if timer is None:
        timer = live.sessions[member] = Timer(TimerKind.SESSION, live.id, member)
    core.deadlines.arm(timer, now.monotonic_ms + live.roster.members[member].session_timeout_ms)


def restart_all(core: Core, now: Now, live: LiveGroup) -> None:
    """Every member of the roster; timers of others are forgotten."""
    for member in [m for m in live.sessions if m not in live.roster.members]:
        core.deadlines.cancel(live.sessions.pop(member))
    for member in live.roster.members:
        restart(core, now, live, member)


def await_answer(core: Core, now: Now, live: LiveGroup, member: str) -> None:
    """A new member is parked: its client may wait long, but not for ever (KAFKA-4669's five minutes)."""
    timer = live.sessions.get(member)
    if timer is None:
        timer = live.sessions[member] = Timer(TimerKind.SESSION, live.id, member)
    core.deadlines.arm(timer, now.monotonic_ms + limits.NEW_MEMBER_JOIN_TIMEOUT_MS)


def forget(core: Core, live: LiveGroup, member: str) -> None:
    """The member is gone."""
    timer = live.sessions.pop(member, None)
    if timer is not None:
        core.deadlines.cancel(timer)


def hand_out(core: Core, now: Now, live: LiveGroup, member: str, session_timeout_ms: int) -> None:
    """A member id that was given with 79 must come back within its session timeout."""
    timer = live.pending[member] = Timer(TimerKind.PENDING, live.id, member)
    core.deadlines.arm(timer, now.monotonic_ms + session_timeout_ms)


def drop_pending(core: Core, live: LiveGroup, member: str) -> None:
    """The id joined, left or is not wanted any more."""
    timer = live.pending.pop(member, None)
    if timer is not None:
        core.deadlines.cancel(timer)
