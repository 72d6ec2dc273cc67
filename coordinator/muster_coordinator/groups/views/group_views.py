"""Read-only snapshots of groups for `/v1` and the per-group metrics, on leaders and followers."""

from collections.abc import Iterator

from muster_coordinator.groups.core import Core
from muster_coordinator.groups.state.classic_group import State
from muster_coordinator.groups.state.offset_row import fetched_fields
from muster_coordinator.groups.stats import GroupMetrics


def group_views(core: Core) -> Iterator[GroupMetrics]:
    """One group per step; groups that are removed meanwhile are left out."""
    state = core.state
    for group in dict.fromkeys([*state.groups, *core.lives, *state.offsets.groups(), *state.pending_offsets.groups()]):
        view = group_view(core, group)
        if view is not None:
            yield view


def committed_offsets(core: Core, group: str) -> Iterator[tuple[str, int, int]]:
    """(topic, partition, offset) of all offsets that the group had at the first step, lazily."""
    table = core.state.offsets.peek(group)
    if table is not None:
        for topic, partition, row in list(table.rows()):
            yield topic, partition, fetched_fields(row)[0]


def group_view(core: Core, group: str) -> GroupMetrics | None:
    """The metrics of one group; None when it does not exist."""
    offsets = core.state.offsets.size(group)
    live = core.lives.get(group)
    if live is not None:
        return GroupMetrics(
            group,
            "classic",
            live.state.value,
            live.group.generation,
            len(live.roster.members),
            live.roster.protocol_type or "",
            live.group.protocol or "",
            offsets,
        )
    stored = core.state.groups.get(group)
    if stored is not None:
        return GroupMetrics(
            group,
            "classic",
            stored.state.value,
            stored.generation,
            stored.member_count,
            stored.protocol_type or "",
            stored.protocol or "",
            offsets,
        )
    if core.state.has_group(group):
        return GroupMetrics(group, "simple", State.EMPTY.value, 0, 0, "", "", offsets)
    return None
