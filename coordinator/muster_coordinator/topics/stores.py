"""What a topic store can do: where the records of topics are, and what a client is told of what one lacks.

Problem: records may lie in our own segments, in somebody else's log, or nowhere (`topics.mode=none`), and a handler
must not know which. Mechanism: a store says its capabilities as a value, and each one that is missing has one of
Kafka's errors, which the handlers answer. The store of one partition is `replica.partitions.surface.LocalLog`. What
this does not do: hold records, or read the configuration.

| without | clients get |
|---|---|
| TOPICS | CreateTopics 44, Metadata makes none; commits may name any topic, since nobody here can know them |
| TRANSACTIONS | a transactional batch, and AddPartitionsToTxn, 43: Kafka's word for a log that cannot hold them |
| COMPACTION | `cleanup.policy` with compact, in CreateTopics and in changes of configs, 40 |
| READS_AT_ONCE | the same answers, later: Fetch asks for the records and goes on when they are here |
"""

from enum import Enum, auto
from typing import NamedTuple


class Capability(Enum):
    """See the module."""

    TOPICS = auto()
    TRANSACTIONS = auto()
    COMPACTION = auto()
    READS_AT_ONCE = auto()


class TopicStore(NamedTuple):
    """A kind of store, by the name that `topics.mode` has for it."""

    name: str
    capabilities: frozenset[Capability]

    def can(self, capability: Capability) -> bool:
        return capability in self.capabilities


EMBEDDED = TopicStore("embedded", frozenset(Capability))
"""Segments of a Raft group on each replica."""
NONE = TopicStore("none", frozenset())
"""Coordination only: the offsets topic is the only topic."""
KAFKA = TopicStore("kafka", frozenset())
"""An upstream Kafka, to which requests for records are passed on before a handler sees them (ADR 96)."""
REDIS = TopicStore("redis", frozenset({Capability.TOPICS}))
"""A Redis Stream for each partition (ADR 90)."""
STORE_CONFIG = "topic.store"
"""The topic config that names a topic's store. It is given when a topic is made, and never changed; a topic without it
is in segments."""
