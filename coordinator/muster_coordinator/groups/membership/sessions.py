"""Session timers of members, and timers of pending member ids (protocol notes 3.8).

A heartbeat only writes a field of its member's timer (`deadlines`). Fired timers are handled by `expulsion`.
"""

from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.deadlines import Timer, TimerKind
from muster_coordinator.groups.live.live_group import LiveGroup


def restart(core: Core, now: Now, live: LiveGroup, member: str) -> None:
    """Start a full session for the member now."""
    timer = live.sessions.get(member)
    if timer is None:
        timer = live.sessions[member] = Timer(TimerKind.SESSION, live.id, member)
    core.deadlines.arm(timer, now.monotonic_ms + live.roster.members[member].session_timeout_ms)


def restart_all(core: Core, now: Now, live: LiveGroup) -> None:
    """Restart the sessions of all members of the roster; cancel all others."""
    for member in [m for m in live.sessions if m not in live.roster.members]:
        core.deadlines.cancel(live.sessions.pop(member))
    for member in live.roster.members:
        restart(core, now, live, member)


def await_answer(core: Core, now: Now, live: LiveGroup, member: str) -> None:
    """A new member is parked: its client may wait for the answer for at most five minutes (KAFKA-4669)."""
    timer = live.sessions.get(member)
    if timer is None:
        timer = live.sessions[member] = Timer(TimerKind.SESSION, live.id, member)
    core.deadlines.arm(timer, now.monotonic_ms + limits.NEW_MEMBER_JOIN_TIMEOUT_MS)


def forget(core: Core, live: LiveGroup, member: str) -> None:
    """Cancel the session of a member that is gone."""
    timer = live.sessions.pop(member, None)
    if timer is not None:
        core.deadlines.cancel(timer)


def hand_out(core: Core, now: Now, live: LiveGroup, member: str, session_timeout_ms: int) -> None:
    """A member id given with error 79 must be used within the session timeout."""
    timer = live.pending_members[member] = Timer(TimerKind.PENDING_MEMBER, live.id, member)
    core.deadlines.arm(timer, now.monotonic_ms + session_timeout_ms)


def drop_pending_member(core: Core, live: LiveGroup, member: str) -> None:
    """Drop a pending id: it joined, left, or is refused."""
    timer = live.pending_members.pop(member, None)
    if timer is not None:
        core.deadlines.cancel(timer)
