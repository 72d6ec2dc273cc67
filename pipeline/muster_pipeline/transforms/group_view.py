"""A group at one moment, by its records: its members and which partitions each owns, for both kinds of groups."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Owned = tuple[str, int]
"""A partition: topic (classic) or topic id (consumer), and number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One member."""

    member_id: str
    instance_id: str | None
    topics: frozenset[str] | None
    """Subscribed topics; None if not readable."""
    assigned: frozenset[Owned] | None
    """None if not readable."""
    rebalance_timeout_ms: int | None

    @property
    def identity(self) -> str:
        """Instance id of a static member, which survives its restart; else the member id."""
        return self.member_id if self.instance_id is None else self.instance_id


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoricGroup:
    """One generation or epoch."""

    generation: int
    protocol: str | None
    members: Mapping[str, MemberView]
    """By member id."""

    def identities(self) -> frozenset[str]:
        """Of all members."""
        return frozenset(member.identity for member in self.members.values())

    def owners(self) -> dict[Owned, str] | None:
        """Owner of every assigned partition; None if some member's assignment is not readable.

        Of two owners the later one in the record counts; `verify` reports that there are two.
        """
        found: dict[Owned, str] = {}
        for member in self.members.values():
            if member.assigned is None:
                return None
            found.update(dict.fromkeys(member.assigned, member.identity))
        return found

    def subscriptions(self) -> dict[str, frozenset[str] | None]:
        """Topics of every identity."""
        return {member.identity: member.topics for member in self.members.values()}


NO_GROUP = HistoricGroup(generation=0, protocol=None, members={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """How many partitions changed owners between two views."""

    kept: int
    moved: int
    gained: frozenset[Owned]
    lost: frozenset[Owned]


def moves(before: HistoricGroup, after: HistoricGroup) -> Moves | None:
    """None if an assignment of either is not readable."""
    old, new = before.owners(), after.owners()
    if old is None or new is None:
        return None
    both = old.keys() & new.keys()
    kept = sum(old[one] == new[one] for one in both)
    return Moves(
        kept=kept, moved=len(both) - kept, gained=frozenset(new.keys() - both), lost=frozenset(old.keys() - both)
    )


def owned(entries: Iterable[Mapping[str, object]] | None, name: str) -> frozenset[Owned] | None:
    """Partitions of decoded (topic, partitions) structs; `name` is the topic's field."""
    if entries is None:
        return None
    found: list[Owned] = []
    for entry in entries:
        partitions = entry["partitions"]
        assert isinstance(partitions, list)
        found += [(str(entry[name]), int(partition)) for partition in partitions]
    return frozenset(found)
