"""The state of each scope that the operator serves: a watched namespace, or all of them ("") in cluster-wide mode.

A scope is listed and watched on its own, so a namespace that was deleted, or in which the role is missing, affects only
itself. Passes over its objects start once the whole scope was listed, because a pass would take unlisted objects for
absent. If a scope refuses us later, its cache grows old: its objects get a condition that says so, and nothing else is
done to them.

A kind of ours that the API server does not know yet has no objects; the rest of its scope is served meanwhile.

Belongs to the event loop. Time is handed in.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from muster_operator.api.conditions import Reason
from muster_operator.errors import OperatorError, Refused, Transient
from muster_operator.kube.answers import clip
from muster_operator.kube.kinds import LATER, WATCHED, Kind
from muster_operator.limits import LIST_AGE_MAX_MS

ALL = ""
"""The scope of all namespaces."""


@dataclass(slots=True, eq=False)
class Scope:
    namespace: str
    listed_ms: int | None = None
    """When the whole scope was last listed."""
    answered_ms: int | None = None
    """When the API server last answered its list, with the objects or with a refusal."""
    trouble: OperatorError | None = None
    """Why the last list failed."""
    undefined: frozenset[Kind] = frozenset()
    """Kinds that the API server did not know in the last list."""
    watched: frozenset[Kind] = frozenset()
    """Kinds with a running watch."""
    suspect: bool = False
    """A watch ended by itself: a list has to succeed before the next one is started."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set after each list; the waiting task clears it."""

    @property
    def title(self) -> str:
        return f"namespace {self.namespace}" if self.namespace else "the API server"

    @property
    def decided(self) -> bool:
        """It was listed, or the API server refused."""
        return self.listed_ms is not None or self.refused

    @property
    def refused(self) -> bool:
        return isinstance(self.trouble, Refused)

    @property
    def served(self) -> bool:
        """The last list succeeded, and every defined kind has its watch."""
        return self.listed_ms is not None and self.trouble is None and self.watched >= self.wanted

    @property
    def wanted(self) -> frozenset[Kind]:
        """Kinds to watch now."""
        return frozenset(WATCHED) - self.undefined

    def listed(self, undefined: Iterable[Kind], now_ms: int) -> None:
        self.listed_ms = self.answered_ms = now_ms
        self.trouble, self.suspect, self.undefined = None, False, frozenset(undefined)
        self.news.set()

    def failed(self, error: OperatorError, now_ms: int) -> None:
        self.trouble = error
        if self.refused:
            self.answered_ms = now_ms
        self.news.set()


class Scopes:
    def __init__(self, namespaces: Sequence[str]) -> None:
        """`namespaces`: the namespaces to serve, () for all."""
        self._scopes = {namespace: Scope(namespace) for namespace in namespaces or (ALL,)}

    def __iter__(self) -> Iterator[Scope]:
        return iter(self._scopes.values())

    def of(self, namespace: str) -> Scope:
        """The scope of a namespace. Raises KeyError for one that is not served, which is a bug."""
        return self._scopes[ALL] if ALL in self._scopes else self._scopes[namespace]

    def obstacle(self, namespace: str, now_ms: int) -> OperatorError | None:
        """Why passes must not trust the cache of a namespace; None if they may."""
        scope = self.of(namespace)
        error = scope.trouble
        if error is None:
            if scope.listed_ms is not None:
                return None
            error = Transient(Reason.NAMESPACE_NOT_SERVED, "it was not listed yet")
        message = clip(f"{scope.title} is not served: {error.message}")
        if isinstance(error, Refused):
            return Refused(Reason.NAMESPACE_NOT_SERVED, message)
        if scope.listed_ms is None or now_ms - scope.listed_ms > LIST_AGE_MAX_MS:
            return Transient(Reason.NAMESPACE_NOT_SERVED, message)
        return None  # the cache is recent: a short outage of the API server alone stops no pass

    def age_ms(self, now_ms: int) -> int | None:
        """Since the API server last answered a list of any scope; None before the first answer. A restart of the
        operator helps neither a refused scope nor one that fails while another is listed."""
        answers = [one.answered_ms for one in self._scopes.values() if one.answered_ms is not None]
        return now_ms - max(answers) if answers else None

    def list_age_ms(self, now_ms: int) -> int | None:
        """Age of the oldest list, over the scopes that do not refuse us; None if there is none."""
        found = [one.listed_ms for one in self._scopes.values() if one.listed_ms is not None and not one.refused]
        return now_ms - min(found) if found else None

    def unready(self) -> list[str]:
        """Reasons against readiness; empty if every scope that does not refuse us is listed and completely watched."""
        scopes = list(self._scopes.values())
        if all(one.refused for one in scopes):
            return [_first_words(one) for one in scopes]
        found = []
        for one in scopes:
            if one.refused:
                continue
            if one.listed_ms is None:
                found.append(f"{one.title} was not listed yet")
            found += [f"{kind.kind} is not defined" for kind in _sorted(one.undefined - LATER)]
            if one.listed_ms is not None:
                found += [f"no watch of {kind.kind} in {one.title}" for kind in _sorted(one.wanted - one.watched)]
        return list(dict.fromkeys(found))


def _first_words(scope: Scope) -> str:
    return f"{scope.title} is not served: {scope.trouble.message if scope.trouble else ''}"


def _sorted(kinds: Iterable[Kind]) -> list[Kind]:
    return sorted(kinds, key=lambda kind: kind.kind)
