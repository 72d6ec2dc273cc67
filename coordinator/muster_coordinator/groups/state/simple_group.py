"""The simple group: committed offsets under a group id that never had members (protocol notes 4.2).

It has no record of its own: it exists because its offsets do, and ends with the last of them. `Group` is the sum of
the group types (decision 9); a KIP-848 group becomes another member of it, chosen by record type.
"""

from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import OffsetCommit
from muster_coordinator.groups.state.classic_group import ClassicGroup, State


class SimpleGroup:
    """Stateless: all there is to know is in the offsets store."""

    __slots__ = ()

    def validate_commit(self, request: OffsetCommit, state: State) -> Code:
        """Always Empty, so a commit without generation passes and one with a generation has no member to be."""
        assert state is State.EMPTY
        return Code.NONE if request.generation < 0 else Code.UNKNOWN_MEMBER_ID


Group = SimpleGroup | ClassicGroup
SIMPLE_GROUP = SimpleGroup()
