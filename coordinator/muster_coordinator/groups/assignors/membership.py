"""The values that assignors take and return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A member's subscription in its JoinGroup: ConsumerProtocolSubscription, any version (protocol notes 6)."""

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    """Empty under eager rebalancing, and before v1."""
    generation_id: int = -1
    """-1: none (before v2, or never assigned)."""
    rack_id: str | None = None


class Member(NamedTuple):
    """One group member as the leader sees it."""

    member_id: str
    subscription: Subscription
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """Partition counts, and the racks of each partition's replicas where known.

    Topics without an entry in `partitions`, or with no partitions, are skipped, as a client skips topics without
    metadata.
    """

    partitions: Mapping[str, int]
    racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)


Plan = dict[str, list[TopicPartition]]
"""Partitions of each member id; every member has an entry."""


def subscribers(members: Sequence[Member], topology: Topology) -> dict[str, list[Member]]:
    """Members subscribed to each known topic, in the order of `members`."""
    found: dict[str, list[Member]] = {}
    for member in members:
        for topic in dict.fromkeys(member.subscription.topics):
            if topology.partitions.get(topic, 0) > 0:
                found.setdefault(topic, []).append(member)
    return found
