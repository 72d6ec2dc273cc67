"""Members whose session ended, and member ids that never came back (protocol notes 3.8).

Expiry is judged with care: a timer that comes up a second or more after it was due tells of a paused process or a
blocked loop, in which heartbeats could not be heard; its member gets a new session instead (invariant G14).
"""

from muster_coordinator.errors import Code
from muster_coordinator.events import EXPELLED
from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.deadlines import Timer
from muster_coordinator.groups.live.live_group import LiveGroup
from muster_coordinator.groups.membership import removal, sessions


def expire(core: Core, now: Now, live: LiveGroup, timers: list[Timer]) -> None:
    """These session timers fired, all of one group: one record removes everybody whose session is over."""
    gone: dict[str, Code] = {}
    for timer in timers:
        member = timer.member
        if live.sessions.get(member) is not timer or timer.at_ms is not None:
            continue  # gone, or armed anew meanwhile
        if now.monotonic_ms - timer.due_ms >= limits.PAUSE_SUSPECTED_MS:
            sessions.restart(core, now, live, member)
        elif _parked(live, member) and member in live.group.members:
            continue  # it waits for us; the answer restarts its session
        else:
            gone[member] = Code.UNKNOWN_MEMBER_ID
    if not gone:
        return
    core.stats.sessions_expired += len(gone)
    retry_at_ms = now.monotonic_ms + limits.APPEND_RETRY_MS

    def failed(_: Now, __: Code) -> None:
        for member in gone:
            timer = live.sessions.get(member)
            if timer is not None and timer.at_ms is None:  # else it was heard meanwhile
                core.deadlines.arm(timer, retry_at_ms)

    removal.remove_members(
        core,
        now,
        live,
        gone,
        kind=EXPELLED,
        reason="session expired",
        completes_initial=True,
        done=_nothing,
        failed=failed,
    )


def expire_pending(core: Core, now: Now, live: LiveGroup, timer: Timer) -> None:
    """The id was never used; whoever waited for it waits no longer."""
    if live.pending.get(timer.member) is not timer:
        return
    del live.pending[timer.member]
    removal.after_removal(core, now, live, completes_initial=True)


def _parked(live: LiveGroup, member: str) -> bool:
    return member in live.syncs or (live.phase is not None and member in live.phase.parked)


def _nothing(_: Now) -> None:
    """A session that ended by itself has nobody to answer."""
