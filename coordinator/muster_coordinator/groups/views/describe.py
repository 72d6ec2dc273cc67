"""DescribeGroups (protocol notes 3.13). The host has confirmed by ReadIndex that this replica still leads."""

from muster_coordinator.errors import Code
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.membership import waking
from muster_coordinator.groups.requests import DescribedMember, DescribeGroup, DescribeGroupAnswer
from muster_coordinator.groups.state.classic_group import ClassicGroup, State


def describe(core: Core, now: Now, ticket: int, request: DescribeGroup) -> None:
    """Members' metadata is shown only while Stable, the last assignments also during a rebalance, as in Kafka. A group
    that does not exist is Dead."""
    live = waking.find(core, now, request.group)
    if live is None:
        return core.answer(ticket, _without_members(core, request.group))
    stable = live.state is State.STABLE
    protocol = live.group.protocol if stable else None
    members = tuple(
        DescribedMember(
            m.id,
            m.instance,
            m.client_id,
            m.client_host,
            m.metadata(protocol) if stable else b"",
            m.assignment,
        )
        for m in live.roster.members.values()
    )
    return core.answer(
        ticket,
        DescribeGroupAnswer(
            error=Code.NONE,
            group=request.group,
            state=live.state.value,
            generation=live.group.generation,
            rebalanced_at_ms=_rebalanced_at_ms(live.group) if live.phase is None else None,
            rebalance_reason=live.rebalance_reason,
            protocol_type=live.roster.protocol_type or "",
            protocol=protocol or "",
            members=members,
        ),
    )


def _without_members(core: Core, group_id: str) -> DescribeGroupAnswer:
    group = core.state.group(group_id)
    if group is None:
        return DescribeGroupAnswer(error=Code.NONE, group=group_id, state=State.DEAD.value, known=False)
    if not isinstance(group, ClassicGroup):
        return DescribeGroupAnswer(error=Code.NONE, group=group_id, state=State.EMPTY.value)
    return DescribeGroupAnswer(
        error=Code.NONE,
        group=group_id,
        state=State.EMPTY.value,
        generation=group.generation,
        rebalanced_at_ms=_rebalanced_at_ms(group),
        protocol_type=group.protocol_type or "",
    )


def _rebalanced_at_ms(group: ClassicGroup) -> int | None:
    """A Stable or Empty group entered its state when its last rebalance ended; generation 0 had no rebalance."""
    over = group.state in (State.STABLE, State.EMPTY) and group.generation > 0
    return group.state_timestamp_ms if over and group.state_timestamp_ms >= 0 else None
