"""Which topics of the upstream were deleted: judged from one look to the next, and never by absence alone.

Problem: committed offsets of a deleted topic must go, or a topic of its name that comes after it is read from the
middle. But a topic may also be missing in a list because its broker hides it (a right was taken from the replicas'
user), is late, or is one of another Kafka by now. Mechanism: what was listed before and is not any more is asked for by
its id. It was deleted if looks at a majority of the brokers (at `BROKERS_ASKED_MAX` of them where there are more, twice
at the only one), one after the other, say that nobody knows that id, while the cluster is still the same one: a broker
that was cut off from its controller knows none of the topics that were made since, and says so again and again. Told is
when the topic was last listed, less a margin for clocks: offsets that were committed later may be those of its
successor. What this does not do: know of topics that nobody saw since this process began, or ask (`looks`).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from muster_coordinator.errors import Code
from muster_coordinator.upstream.limits import SUSPECTS_ASKED_MAX
from muster_coordinator.wire.schema import EMPTY_UUID

PROOFS = 2
BROKERS_ASKED_MAX = 5
CLOCK_MARGIN_MS = 1_000
"""Commits are stamped by their coordinator, and looks by this replica."""


Address = tuple[str, int]


class Listed(NamedTuple):
    """All topics of the upstream at one look."""

    cluster_id: str | None
    names: Mapping[bytes, str]
    """By id."""
    counts: Mapping[str, int] = MappingProxyType({})
    """How many partitions they have, by name."""


class _Topic:
    """A topic that was listed."""

    __slots__ = ("asked", "name", "proofs", "seen_ms")

    def __init__(self, name: str, seen_ms: int) -> None:
        self.name = name
        self.seen_ms = seen_ms
        self.proofs = 0
        """Looks, one after the other, at which nobody knew it."""
        self.asked: set[Address] = set()
        """The brokers of those."""

    def known(self) -> None:
        """Somebody knows it."""
        self.proofs = 0
        self.asked.clear()


class DeletedTopics:
    """What one process has seen."""

    def __init__(self) -> None:
        self._cluster_id: str | None = None
        self._topics: dict[bytes, _Topic] = {}
        self._missing: dict[bytes, None] = {}
        """Those that the last list did not have, the oldest first."""

    def listed(self, now_ms: int, listed: Listed) -> None:
        """A list of all topics; `now_ms` is wall time."""
        if listed.cluster_id != self._cluster_id:
            self._cluster_id = listed.cluster_id
            self._topics.clear()
            self._missing.clear()
        for topic_id, name in listed.names.items():
            if topic_id == EMPTY_UUID:
                continue
            known = self._topics.get(topic_id)
            if known is None:
                self._topics[topic_id] = _Topic(name, now_ms)
            else:
                known.name, known.seen_ms = name, now_ms
                known.known()
                self._missing.pop(topic_id, None)
        for topic_id in self._topics.keys() - listed.names.keys() - self._missing.keys():
            self._missing[topic_id] = None

    def to_ask(self) -> tuple[bytes, ...]:
        """Ids to ask for."""
        return tuple(self._missing)[:SUSPECTS_ASKED_MAX]

    def answered(self, errors: Iterable[tuple[bytes, int]], by: Address, brokers: int) -> dict[str, int]:
        """(id, error) of what was asked for, of one of so many brokers. Returns the deleted topics: name → wall time
        until which offsets that were committed are theirs."""
        deleted: dict[str, int] = {}
        for topic_id, error in errors:
            topic = self._topics.get(topic_id)
            if topic is None or topic_id not in self._missing:
                continue
            if error != Code.UNKNOWN_TOPIC_ID:
                topic.known()
                self._asked_later(topic_id)
                continue
            topic.proofs += 1
            topic.asked.add(by)
            if topic.proofs >= PROOFS and len(topic.asked) >= min(brokers // 2 + 1, BROKERS_ASKED_MAX):
                del self._topics[topic_id], self._missing[topic_id]
                until_ms = topic.seen_ms - CLOCK_MARGIN_MS
                deleted[topic.name] = max(until_ms, deleted.get(topic.name, until_ms))
        return deleted

    def _asked_later(self, topic_id: bytes) -> None:
        """Others have their turn before it."""
        self._missing[topic_id] = self._missing.pop(topic_id)
