"""What is known of each scope that the operator serves: a watched namespace, or all of them ("") in cluster-wide mode.

A scope is listed and watched on its own, so one that was deleted or lost its role costs only itself. Its objects are
worked on once all of it was listed, for a pass would take what was not listed for absent. A scope that refuses us later
has a cache that grows old: its objects get a condition that says so, and nothing else is done to them.

A kind of ours that the API server does not know yet has no objects; the rest of its scope is served meanwhile.

Belongs to the event loop. Time is handed in.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from muster_operator.api.conditions import Reason
from muster_operator.errors import OperatorError, Refused, Transient
from muster_operator.kube.answers import clip
from muster_operator.kube.kinds import WATCHED, Kind
from muster_operator.limits import LIST_AGE_MAX_MS

ALL = ""
"""The scope of all namespaces."""


@dataclass(slots=True, eq=False)
class Scope:
    namespace: str
    listed_ms: int | None = None
    """The last time that all of it was listed."""
    answered_ms: int | None = None
    """The last time that it was listed, or refused by an answer."""
    trouble: OperatorError | None = None
    """Why the last list failed."""
    undefined: frozenset[Kind] = frozenset()
    """Kinds that the API server did not know at the last list."""
    watched: frozenset[Kind] = frozenset()
    """Kinds of which a watch runs."""
    suspect: bool = False
    """A watch ended by itself: a list has to tell why before the next one is started."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set after each list. Who waits for it clears it."""

    @property
    def title(self) -> str:
        return f"namespace {self.namespace}" if self.namespace else "the API server"

    @property
    def decided(self) -> bool:
        """It was listed, or refuses us."""
        return self.listed_ms is not None or self.refused

    @property
    def refused(self) -> bool:
        return isinstance(self.trouble, Refused)

    @property
    def served(self) -> bool:
        """Listed the last time, and every kind that there is has its watch."""
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
        """`namespaces`: those that are served, () for all."""
        self._scopes = {namespace: Scope(namespace) for namespace in namespaces or (ALL,)}

    def __iter__(self) -> Iterator[Scope]:
        return iter(self._scopes.values())

    def of(self, namespace: str) -> Scope:
        """The scope that an object's namespace is in. KeyError for one that is not served: a bug."""
        return self._scopes[ALL] if ALL in self._scopes else self._scopes[namespace]

    def obstacle(self, namespace: str, now_ms: int) -> OperatorError | None:
        """Why no pass may trust what is cached of a namespace; None when it may."""
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
        return None  # the cache is young: an API server that is down for a moment stops nothing by itself

    def age_ms(self, now_ms: int) -> int | None:
        """Since the API server last answered a list of any scope; None before the first answer. A restart mends no
        scope that is refused, and none that fails while another is listed."""
        answers = [one.answered_ms for one in self._scopes.values() if one.answered_ms is not None]
        return now_ms - max(answers) if answers else None

    def list_age_ms(self, now_ms: int) -> int | None:
        """Of the scope that was listed longest ago, without those that refuse us; None when there is none."""
        found = [one.listed_ms for one in self._scopes.values() if one.listed_ms is not None and not one.refused]
        return now_ms - min(found) if found else None

    def unready(self) -> list[str]:
        """Reasons against readiness; empty when every scope that does not refuse us is listed and watched whole."""
        scopes = list(self._scopes.values())
        if all(one.refused for one in scopes):
            return [_first_words(one) for one in scopes]
        found = []
        for one in scopes:
            if one.refused:
                continue
            if one.listed_ms is None:
                found.append(f"{one.title} was not listed yet")
            found += [f"{kind.kind} is not defined" for kind in _sorted(one.undefined)]
            if one.listed_ms is not None:
                found += [f"no watch of {kind.kind} in {one.title}" for kind in _sorted(one.wanted - one.watched)]
        return list(dict.fromkeys(found))


def _first_words(scope: Scope) -> str:
    return f"{scope.title} is not served: {scope.trouble.message if scope.trouble else ''}"


def _sorted(kinds: Iterable[Kind]) -> list[Kind]:
    return sorted(kinds, key=lambda kind: kind.kind)
