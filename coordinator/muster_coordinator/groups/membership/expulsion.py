"""Expired sessions of members, and pending member ids that were not used in time (protocol notes 3.8).

A session timer that fires a second or more after it was due shows a paused process or a blocked loop, in which
heartbeats could not be received. So its member gets a new session instead of being expelled (invariant G14).
"""

from functools import partial

from muster_coordinator.errors import Code
from muster_coordinator.events import EXPELLED
from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.deadlines import Timer
from muster_coordinator.groups.live.live_group import LiveGroup
from muster_coordinator.groups.membership import removal, sessions


def expire(core: Core, now: Now, live: LiveGroup, timers: list[Timer]) -> None:
    """Session timers of one group fired: remove all members whose session is over, with one record."""
    gone: dict[str, Code] = {}
    for timer in timers:
        member = timer.member
        if live.sessions.get(member) is not timer or timer.at_ms is not None:
            continue  # The member is gone, or its timer was armed again.
        if now.monotonic_ms - timer.due_ms >= limits.PAUSE_SUSPECTED_MS:
            sessions.restart(core, now, live, member)
        elif _parked(live, member) and member in live.group.members:
            continue  # Its client waits for an answer of ours, which restarts the session.
        else:
            gone[member] = Code.UNKNOWN_MEMBER_ID
    if not gone:
        return
    core.stats.sessions_expired += len(gone)
    retry_at_ms = now.monotonic_ms + limits.APPEND_RETRY_MS
    removal.remove_members(
        core,
        now,
        live,
        gone,
        kind=EXPELLED,
        reason="session expired",
        completes_initial=True,
        done=_nothing,
        failed=partial(_not_expelled, core, live, gone, retry_at_ms),
    )


def _not_expelled(core: Core, live: LiveGroup, gone: dict[str, Code], retry_at_ms: int, _: Now, __: Code) -> None:
    for member in gone:
        timer = live.sessions.get(member)
        if timer is not None and timer.at_ms is None:  # Else a request of the member has restarted its session.
            core.deadlines.arm(timer, retry_at_ms)


def expire_pending_member(core: Core, now: Now, live: LiveGroup, timer: Timer) -> None:
    """The id was not used in time; a join phase that waited for it may now be complete."""
    if live.pending_members.get(timer.member) is not timer:
        return
    del live.pending_members[timer.member]
    removal.after_removal(core, now, live, completes_initial=True)


def _parked(live: LiveGroup, member: str) -> bool:
    return member in live.syncs or (live.phase is not None and member in live.phase.parked)


def _nothing(_: Now) -> None:
    """No request waits for the end of a session."""
