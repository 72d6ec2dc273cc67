"""DeleteGroups (protocol notes 3.13, 4.5): tombstones for all offsets, then for the group; in one batch if they fit."""

from functools import partial

from muster_coordinator.errors import Code
from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.inflights import InFlightAppend
from muster_coordinator.groups.offsets.tombstones import group_tombstones, offset_tombstone, stored_partitions
from muster_coordinator.groups.requests import DeleteGroup, DeleteGroupAnswer
from muster_coordinator.groups.state.classic_group import State


def delete_group(core: Core, now: Now, ticket: int, request: DeleteGroup) -> None:
    """69 unknown, 68 not Empty. Runs while no record of the group is in flight, so it knows every offset."""
    group = request.group
    live = core.lives.get(group)
    stored = core.state.groups.get(group)
    state = live.state if live is not None else State.EMPTY if stored is None else stored.state
    if live is None and not core.state.has_group(group):
        return core.answer(ticket, DeleteGroupAnswer(Code.GROUP_ID_NOT_FOUND))
    if state is not State.EMPTY:
        return core.answer(ticket, DeleteGroupAnswer(Code.NON_EMPTY_GROUP))
    partitions = stored_partitions(core, group)
    last = len(partitions) <= limits.GROUP_DELETE_BATCH
    records = [offset_tombstone(group, *key) for key in partitions[: limits.GROUP_DELETE_BATCH]]
    if last:
        records += group_tombstones(core, group)
    count = min(len(partitions), limits.GROUP_DELETE_BATCH)
    if not records:  # The group has only pending member ids, and nothing is stored of it.
        return _deleted(core, ticket, request, count, last, now)
    applied, dropped = partial(_deleted, core, ticket, request, count, last), partial(_dropped, core, ticket)
    return core.append(now, InFlightAppend(group, True, ((ticket, request),), applied, dropped), tuple(records))


def _deleted(core: Core, ticket: int, request: DeleteGroup, count: int, last: bool, then: Now) -> None:
    """The tombstones of one batch are applied."""
    core.stats.offsets_deleted += count
    if not last:
        return delete_group(core, then, ticket, request)
    ended = core.lives.get(request.group)
    if ended is not None:
        core.forget(ended)
    return core.answer(ticket, DeleteGroupAnswer(Code.NONE))


def _dropped(core: Core, ticket: int, _: Now, code: Code) -> None:
    core.answer(ticket, DeleteGroupAnswer(code))
