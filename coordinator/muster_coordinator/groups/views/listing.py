"""ListGroups (protocol notes 3.13): O(groups), so answered in slices (decision 21)."""

from muster_coordinator.errors import Code
from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core, Step
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.requests import ListedGroup, ListGroups, ListGroupsAnswer
from muster_coordinator.groups.state.classic_group import State

_TYPE = "classic"
_EMPTY = State.EMPTY.value


def list_groups(core: Core, now: Now, ticket: int, request: ListGroups) -> None:
    """Runs the first slice at once; in a shard with few groups that is all."""
    listing = Listing(core, ticket, request)
    core.listings[ticket] = request
    if listing.step(core, now) is Step.MORE:
        core.jobs.append(listing)


class Listing:
    """One ListGroups request and its progress over the groups that existed when it arrived."""

    def __init__(self, core: Core, ticket: int, request: ListGroups) -> None:
        state = core.state
        if request.types and _TYPE not in {kind.lower() for kind in request.types}:
            names = {}
        else:
            names = dict.fromkeys(
                [*state.groups, *core.lives, *state.offsets.groups(), *state.pending_offsets.groups()]
            )
        self.ticket = ticket
        self.request = request
        self._states = {name.lower() for name in request.states}
        self._names = iter(names)
        self._found: list[ListedGroup] = []

    def step(self, core: Core, now: Now) -> Step:
        """Process one slice of groups."""
        del now
        budget = limits.GROUP_SLICE_WORK
        for group in self._names:
            listed = _listed(core, group)
            if listed is not None and (not self._states or listed.state.lower() in self._states):
                self._found.append(listed)
            budget -= 1
            if not budget:
                return Step.MORE
        del core.listings[self.ticket]
        core.answer(self.ticket, ListGroupsAnswer(Code.NONE, tuple(self._found)))
        return Step.DONE


def _listed(core: Core, group: str) -> ListedGroup | None:
    # `_value_`: an enumeration's `value` is a property that takes longer than the rest of this function.
    live = core.lives.get(group)
    if live is not None:
        return ListedGroup(group, live.roster.protocol_type or "", live.state._value_, _TYPE)
    stored = core.state.groups.get(group)
    if stored is not None:
        return ListedGroup(group, stored.protocol_type or "", stored.state._value_, _TYPE)
    if core.state.has_group(group):
        return ListedGroup(group, "", _EMPTY, _TYPE)
    return None
