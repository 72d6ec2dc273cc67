"""The people of a group as its leader sees them now, with the sums that admission needs.

In Stable and CompletingRebalance a roster equals the stored members. In a join phase it is the stored members with
those overlaid who joined since: nobody of them was promised anything yet, so it is volatile. Whether a joiner's
protocols fit must not cost a walk over 2,000 members, so the roster counts how many list each name.

Rules: protocol.md 3.5, 3.6.
"""

from collections.abc import Iterable

from muster_coordinator.groups.member import Member
from muster_coordinator.groups.requests import Protocol


class Roster:
    """Members in order of arrival."""

    __slots__ = ("_supported", "instances", "members", "protocol_type", "stored_bytes")

    def __init__(self, protocol_type: str | None, members: Iterable[Member]) -> None:
        self.protocol_type = protocol_type
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        """Instance id -> member id."""
        self.stored_bytes = 0
        """About the size of a record of these members, without assignments."""
        self._supported: dict[str, int] = {}
        for member in members:
            self.put(member)

    def put(self, member: Member) -> None:
        """Add at the end, or change in place."""
        old = self.members.get(member.id)
        if old is not None:
            self._count(old, -1)
        self.members[member.id] = member
        self._count(member, 1)

    def remove(self, member: str) -> None:
        """Harmless when absent."""
        old = self.members.pop(member, None)
        if old is not None:
            self._count(old, -1)

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """May somebody with these protocols be in this group? An empty group takes any type (protocol.md 3.6)."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        everybody = len(self.members)
        return any(self._supported.get(p.name) == everybody for p in protocols)

    def max_rebalance_timeout_ms(self) -> int:
        """0 without members."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def _count(self, member: Member, by: int) -> None:
        self.stored_bytes += by * member.stored_bytes()
        if member.instance is not None:
            if by > 0:
                self.instances[member.instance] = member.id
            elif self.instances.get(member.instance) == member.id:
                del self.instances[member.instance]
        supported = self._supported
        for name in {p.name for p in member.protocols}:
            count = supported.get(name, 0) + by
            if count:
                supported[name] = count
            else:
                supported.pop(name, None)


def choose_protocol(members: Iterable[Member], leader: Member) -> str:
    """The vote: each member votes for the first name of its list that all support; most votes win.

    A tie goes to the name that comes first in the leader's own list (decision 33). There always is a common name:
    nobody is admitted, or changes its list, without one (23).
    """
    everybody = list(members)
    common = set.intersection(*({p.name for p in m.protocols} for m in everybody))
    assert common, "members without a common protocol were admitted"
    votes = dict.fromkeys(common, 0)
    for member in everybody:
        votes[next(p.name for p in member.protocols if p.name in common)] += 1
    best = max(votes.values())
    return next(p.name for p in leader.protocols if votes.get(p.name) == best)
