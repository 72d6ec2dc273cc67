"""Removing members from a group, for any reason (decision 7).

Members of a stored generation are removed by a record, before any client is told, so a crash cannot bring a removed
member back. Members that are only parked in a join phase were never stored and are just dropped.
"""

from collections.abc import Callable
from functools import partial

from muster_coordinator.errors import Code
from muster_coordinator.events import EventKind
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.live_group import JoinPhase, LiveGroup
from muster_coordinator.groups.membership import rebalance
from muster_coordinator.groups.state.member import Member


def remove_members(
    core: Core,
    now: Now,
    live: LiveGroup,
    gone: dict[str, Code],
    *,
    kind: EventKind,
    reason: str,
    completes_initial: bool,
    asked: rebalance.Asked = (),
    done: rebalance.Then,
    failed: Callable[[Now, Code], None],
) -> None:
    """Remove `gone` (member → code for its parked requests). Calls `done` once that is applied, or `failed`.

    `kind`: the log event of each removed member. `completes_initial`: if all other members have joined, the phase ends
    now, even an initial one (quirk Q2).
    """
    assert gone
    members = live.roster.members
    told = [members[m] for m in gone if m in members and m in live.group.members]
    stored = {m: code for m, code in gone.items() if m in live.group.members}
    unstored = {m: code for m, code in gone.items() if m not in live.group.members}
    rebalance.tell_members(core, live, kind, [members[m] for m in unstored if m in members], reason)
    rebalance.turn_away(core, live, unstored)
    for member in unstored:
        live.roster.remove(member)
    if live.phase is not None and live.phase.leader in unstored:
        live.phase.leader = next(iter(live.roster.members), None)
    if not stored:
        done(now)
        after_removal(core, now, live, completes_initial=completes_initial)
    elif len(stored) == len(live.roster.members):
        removed = partial(_removed, core, live, kind, told, reason, done)
        rebalance.store_empty(core, now, live, gone=stored, reason=reason, asked=asked, done=removed, failed=failed)
    else:
        remaining = [m for m in live.group.members.values() if m.id not in stored]
        began = partial(_began, core, live, kind, told, reason, done)
        rebalance.store_rebalance(
            core, now, live, remaining=remaining, gone=stored, reason=reason, asked=asked, done=began, failed=failed
        )


def _removed(
    core: Core, live: LiveGroup, kind: EventKind, told: list[Member], reason: str, done: rebalance.Then, then: Now
) -> None:
    rebalance.tell_members(core, live, kind, told, reason)
    done(then)


def _began(
    core: Core,
    live: LiveGroup,
    kind: EventKind,
    told: list[Member],
    reason: str,
    done: rebalance.Then,
    then: Now,
    _: JoinPhase,
) -> None:
    _removed(core, live, kind, told, reason, done, then)


def after_removal(core: Core, now: Now, live: LiveGroup, *, completes_initial: bool) -> None:
    """A member that the phase may have waited for is gone: end the phase if it is complete now."""
    phase = live.phase
    queue = core.queues.get(live.id)
    if phase is not None and live.all_joined() and (completes_initial or not phase.initial):
        if queue is None or not queue.exclusive:
            rebalance.complete(core, now, live, phase)
    else:
        core.retire(live)
