"""All ACLs of a cluster, found by resource: what decides a request must not walk them all.

Problem: every request asks, some about each of its topics, and a cluster has thousands of ACLs. Mechanism: by type of
resource, LITERAL patterns are in a table by name. PREFIXED ones are in lexical order, and each has a link to the
longest other one that is a prefix of it. Bisection finds the last pattern that is not after the resource's name. All
strings between a prefix of the name and the name begin with that prefix; so the longest pattern that matches is the one
found, or the first that matches of those that its links lead to, and further links from there lead to all the others
that do. Under a pattern, entries are by principal. So a decision costs one bisection and the patterns that match,
whatever the number of ACLs.

What it does not do: say who asks (`decision`), check an ACL (`acl`), or keep it (the controller's image).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

from muster_coordinator.security.acl import WILDCARD, Acl
from muster_coordinator.security.resources import PatternType

Entries = Mapping[str, tuple[Acl, ...]]
"""Principal -> the ACLs of one pattern."""


class _OfType:
    """The patterns of one type of resource."""

    __slots__ = ("_order", "_parents", "_stale", "literal", "prefixed", "principals")

    def __init__(self) -> None:
        self.literal: dict[str, dict[str, tuple[Acl, ...]]] = {}
        self.prefixed: dict[str, dict[str, tuple[Acl, ...]]] = {}
        self.principals: dict[str, dict[Acl, None]] = {}
        """Principal -> its ACLs."""
        self._order: list[str] = []
        """Names of `prefixed`, ascending."""
        self._parents: dict[str, str | None] = {}
        self._stale = False

    def table(self, pattern: int) -> dict[str, dict[str, tuple[Acl, ...]]]:
        if pattern == PatternType.LITERAL:
            return self.literal
        self._stale = True
        return self.prefixed

    def prefixes(self, name: str) -> Iterator[Entries]:
        """The entries of every PREFIXED pattern that holds for the name, longest first."""
        if self._stale:
            self._arrange()
        at = bisect_right(self._order, name)
        found = self._order[at - 1] if at else None
        while found is not None:
            if name.startswith(found):
                yield self.prefixed[found]
            found = self._parents[found]

    def _arrange(self) -> None:
        self._order = sorted(self.prefixed)
        self._parents = {}
        begun: list[str] = []
        for name in self._order:
            while begun and not name.startswith(begun[-1]):
                begun.pop()
            self._parents[name] = begun[-1] if begun else None
            begun.append(name)
        self._stale = False


class AclIndex:
    """See the module."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._types: dict[int, _OfType] = {}
        self.change(acls, ())

    def change(self, added: Iterable[Acl], removed: Iterable[Acl]) -> None:
        """Entries that are new, and entries that are there and go."""
        for acl in removed:
            self._remove(self._types[acl.resource_type], acl)
        for acl in added:
            kind = self._types.setdefault(acl.resource_type, _OfType())
            entries = kind.table(acl.pattern).setdefault(acl.name, {})
            entries[acl.principal] = (*entries.get(acl.principal, ()), acl)
            kind.principals.setdefault(acl.principal, {})[acl] = None

    def _remove(self, kind: _OfType, acl: Acl) -> None:
        mine = kind.principals[acl.principal]
        del mine[acl]
        if not mine:
            del kind.principals[acl.principal]
        patterns = kind.table(acl.pattern)
        entries = patterns[acl.name]
        left = tuple(one for one in entries[acl.principal] if one != acl)
        if left:
            entries[acl.principal] = left
            return
        del entries[acl.principal]
        if not entries:
            del patterns[acl.name]

    def of(self, resource_type: int, name: str) -> Iterator[Entries]:
        """The entries of every pattern that holds for the resource."""
        found = self._types.get(resource_type)
        if found is None:
            return
        if name in found.literal:
            yield found.literal[name]
        if name != WILDCARD and WILDCARD in found.literal:
            yield found.literal[WILDCARD]
        yield from found.prefixes(name)

    def of_principal(self, resource_type: int, principal: str) -> Iterable[Acl]:
        """All ACLs of the principal for resources of the type."""
        found = self._types.get(resource_type)
        return () if found is None else found.principals.get(principal, ())
