"""The simple group: committed offsets under a group id that has never had members (protocol notes 4.2).

It has no record of its own: it exists while it has offsets. `Group` is the union of the group types (decision 9); a
KIP-848 group would be a further one, chosen by record type.
"""

from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import OffsetCommit, TxnOffsetCommit
from muster_coordinator.groups.state.classic_group import ClassicGroup, State


class SimpleGroup:
    """Has no state: everything is in the offsets store."""

    __slots__ = ()

    def validate_commit(self, request: OffsetCommit | TxnOffsetCommit, state: State) -> Code:
        """Accepts a commit without generation: the group is Empty. One with a generation is from no member of it."""
        assert state is State.EMPTY
        return Code.NONE if request.generation < 0 else Code.UNKNOWN_MEMBER_ID


Group = SimpleGroup | ClassicGroup
SIMPLE_GROUP = SimpleGroup()
