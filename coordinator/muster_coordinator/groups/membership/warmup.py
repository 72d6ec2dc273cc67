"""A new leader arms the sessions of all members, in slices: ten thousand take longer than one turn may."""

from collections import deque

from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core, Step
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.membership import waking
from muster_coordinator.groups.state.classic_group import State


class WarmUp:
    """Builds the volatile state of every group with members. A request that comes first builds its own group's."""

    def __init__(self, core: Core) -> None:
        self._groups = deque(core.state.groups)

    def step(self, core: Core, now: Now) -> Step:
        """One slice."""
        budget = limits.GROUP_SLICE_WORK
        while self._groups:
            if budget <= 0:
                return Step.MORE
            group = self._groups.popleft()
            stored = core.state.groups.get(group)
            if stored is not None and stored.state is not State.EMPTY and group not in core.lives:
                try:
                    waking.wake(core, now, group)
                except Exception as error:  # noqa: BLE001  # Contained, so that the other groups are still woken.
                    core.contain(now, "waking a stored group", group, error)
                budget -= _WORK_PER_MEMBER * (2 + stored.member_count)
            budget -= 1
        return Step.DONE


_WORK_PER_MEMBER = 4
"""Work of decoding a member and arming its session, in units of visiting one group."""
