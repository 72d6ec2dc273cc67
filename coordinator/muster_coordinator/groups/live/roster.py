"""The members of a group as its leader sees them now, with the sums that admission needs.

In Stable and CompletingRebalance the roster equals the stored members. In a join phase it also has the members that
joined since: none of them has an answer yet, so they are volatile. Admission must not walk over 2,000 members to check
a new member's protocols, so the roster counts how many members list each protocol name. It counts on first use: a
roster is built with every record of its group, and most are never asked.

Rules: protocol notes 3.5, 3.6.
"""

from collections.abc import Iterable

from muster_coordinator.groups.requests import Protocol
from muster_coordinator.groups.state.member import Member


class Roster:
    """Members in order of arrival."""

    __slots__ = ("_stored_bytes", "_supported", "instances", "members", "protocol_type")

    def __init__(self, protocol_type: str | None, members: Iterable[Member]) -> None:
        self.protocol_type = protocol_type
        self.members: dict[str, Member] = {member.id: member for member in members}
        self.instances: dict[str, str] = {m.instance: m.id for m in self.members.values() if m.instance is not None}
        """Instance id -> member id."""
        self._stored_bytes = 0
        self._supported: dict[str, int] | None = None
        """Protocol name → how many members list it. None until first used; `_stored_bytes` is 0 until then too."""

    @property
    def stored_bytes(self) -> int:
        """Approximate size of a record of these members, without assignments."""
        self._counts()
        return self._stored_bytes

    def put(self, member: Member) -> None:
        """Add a member at the end, or replace it in place."""
        old = self.members.get(member.id)
        self.members[member.id] = member
        if old is not None and _counts_alike(old, member):
            return
        if old is not None:
            self._forget(old)
        if member.instance is not None:
            self.instances[member.instance] = member.id
        if self._supported is not None:
            self._count(self._supported, member, 1)

    def remove(self, member: str) -> None:
        """Remove a member; no effect when it is absent."""
        old = self.members.pop(member, None)
        if old is not None:
            self._forget(old)

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether a member with these protocols may join. An empty group takes any type (protocol notes 3.6)."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        everybody, supported = len(self.members), self._counts()
        return any(supported.get(p.name) == everybody for p in protocols)

    def max_rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members; 0 without members."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def _counts(self) -> dict[str, int]:
        supported = self._supported
        if supported is None:
            supported = self._supported = {}
            for member in self.members.values():
                self._count(supported, member, 1)
        return supported

    def _forget(self, member: Member) -> None:
        if member.instance is not None and self.instances.get(member.instance) == member.id:
            del self.instances[member.instance]
        if self._supported is not None:
            self._count(self._supported, member, -1)

    def _count(self, supported: dict[str, int], member: Member, by: int) -> None:
        self._stored_bytes += by * member.stored_bytes()
        for name in {p.name for p in member.protocols}:
            count = supported.get(name, 0) + by
            if count:
                supported[name] = count
            else:
                supported.pop(name, None)


def _counts_alike(old: Member, new: Member) -> bool:
    """Whether only timeouts or nothing changed, as in most rejoins: then no sum changes."""
    return (
        old.instance == new.instance
        and old.client_id == new.client_id
        and old.client_host == new.client_host
        and old.protocols == new.protocols
    )


def choose_protocol(members: Iterable[Member], leader: Member) -> str:
    """The protocol vote: each member votes for the first name in its list that all members support; most votes win.

    A tie goes to the name that comes first in the leader's own list (decision 33). A common name always exists: a
    member without one is refused with 23, and so is a changed list without one.
    """
    everybody = list(members)
    common = set.intersection(*({p.name for p in m.protocols} for m in everybody))
    assert common, "members without a common protocol were admitted"
    votes = dict.fromkeys(common, 0)
    for member in everybody:
        votes[next(p.name for p in member.protocols if p.name in common)] += 1
    best = max(votes.values())
    return next(p.name for p in leader.protocols if votes.get(p.name) == best)
