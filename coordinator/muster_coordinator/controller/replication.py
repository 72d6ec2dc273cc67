"""How many replicas each Raft group is to have: the rules of SetReplicationFactor (ADR 48). Pure.

Problem: a cluster that was formed with one replica has one copy of everything. To make three of each takes as long as
copying the data, and brokers come, go and die meanwhile. Mechanism: the controller's log says of each topic how many
replicas its partitions are to have, as long as some have another number, and the same of the voters of the controller's
group. Whoever leads that group plans from it which brokers they are (`resizing`, `balancing`), a few at a time.
The request is forgotten when every partition is assigned to that many brokers, though some may still be moving there
(ADR 42). Topics that are created later without a number get this one.

To raise concerns every topic. To lower takes copies away, so it concerns the cluster's own groups, and a topic only
when it is named, or all are. The latest request holds: reassigning a partition to another number of replicas meanwhile
ends this one for its topic, and choosing the controller's voters ends it for the controller's group.

What this does not do: choose brokers, look at who is alive, or move anything.
"""

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from muster_coordinator.controller.commands import SetReplicationFactor
from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.controller.misfit import MisfitError, require
from muster_coordinator.controller.moves import VOTER_COUNTS
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId


class Remaining(NamedTuple):
    """What of the wishes for numbers of replicas is not there yet."""

    partitions: int
    """Partitions that are still wanted on another number of brokers."""
    moving: int
    """Partitions that are on their way, whatever the reason."""
    controller: int
    """How many voters the controller's group is to have; 0: as many as it has."""

    @property
    def none(self) -> bool:
        return not any(self)


def set_replication_factor(cluster: ClusterImage, command: SetReplicationFactor) -> ClusterImage:
    """The image in which that many replicas are wanted; the same object if they are already. Raises `MisfitError`."""
    factor = command.factor
    require_factor(cluster, factor)
    if command.topics:
        named = {_named(cluster, topic_id) for topic_id in command.topics}
        return _with_topics(cluster, {name: _wanting(cluster.topics[name], factor) for name in named})
    concerned = {
        name: _wanting(topic, factor)
        for name, topic in cluster.topics.items()
        if topic.internal or command.every_topic or replicas_of(topic) < factor
    }
    changed = _with_topics(cluster, concerned)
    voters = 0 if len(cluster.voters) == factor else factor
    if (changed.replication_factor, changed.controller_voters_wanted) == (factor, voters):
        return changed
    return replace(changed, replication_factor=factor, controller_voters_wanted=voters)


def require_factor(cluster: ClusterImage, factor: int) -> None:
    """Raises `MisfitError` if the cluster cannot have this many replicas of anything."""
    code = Code.INVALID_REPLICATION_FACTOR
    require(factor in VOTER_COUNTS, code, f"a Raft group has 1, 3 or 5 replicas, not {factor}")
    usable = sum(broker.bound and not broker.departing for broker in cluster.brokers.values())
    require(factor <= usable, code, f"{factor} replicas need as many brokers; {usable} can take one")


def replicas_of(topic: Topic) -> int:
    """How many replicas each partition of the topic has, or is to have: the fewest, while they differ."""
    return topic.replication_wanted or min(len(partition.voters) for partition in topic.partitions)


def kept(cluster: ClusterImage, factor: int) -> Iterator[str]:
    """Topics that keep more replicas than the factor, as nobody has named them."""
    return (
        name for name in sorted(cluster.topics) if not cluster.topics[name].internal
        and replicas_of(cluster.topics[name]) > factor
    )  # fmt: skip


def remaining(cluster: ClusterImage) -> Remaining:
    """O(partitions)."""
    partitions = moving = 0
    for topic in cluster.topics.values():
        wanted = topic.replication_wanted
        partitions += sum(len(place.voters) != wanted for place in topic.partitions) if wanted else 0
        moving += sum(place.moves for place in topic.partitions)
    return Remaining(partitions, moving, cluster.controller_voters_wanted)


def after_move(topic: Topic, index: int, before: int) -> Topic:
    """The topic after the partition was moved that was wanted on `before` brokers: its wish is over when it is
    fulfilled, and when somebody has given the partition another number of replicas than that."""
    wanted, now = topic.replication_wanted, len(topic.partitions[index].voters)
    other = now not in (wanted, before)
    fulfilled = all(len(partition.voters) == wanted for partition in topic.partitions)
    return replace(topic, replication_wanted=0) if wanted and (other or fulfilled) else topic


def after_cancelled_move(topic: Topic, index: int, before: int) -> Topic:
    """The topic after a move of the partition to `before` brokers was cancelled for want of room. If that was to change
    how many replicas it has, to what all others of the topic have or are to have, it is still to have as many."""
    others = topic.partitions[:index] + topic.partitions[index + 1 :]
    same = len(topic.partitions[index].voters) == before
    if topic.replication_wanted or same or any(len(partition.voters) != before for partition in others):
        return topic
    return replace(topic, replication_wanted=before)


def voters_wanted_after(cluster: ClusterImage, voters: tuple[BrokerId, ...]) -> int:
    """How many voters the controller's group is to have when these are its voters: as of a topic's wish."""
    wanted = cluster.controller_voters_wanted
    return wanted if len(voters) == len(cluster.voters) != wanted else 0


def _named(cluster: ClusterImage, topic_id: bytes) -> str:
    name = cluster.names_by_id.get(topic_id)
    if name is None:
        raise MisfitError(Code.UNKNOWN_TOPIC_ID, "no topic has this id")
    return name


def _wanting(topic: Topic, factor: int) -> Topic:
    there = all(len(partition.voters) == factor for partition in topic.partitions)
    wanted = 0 if there else factor
    return topic if topic.replication_wanted == wanted else replace(topic, replication_wanted=wanted)


def _with_topics(cluster: ClusterImage, topics: dict[str, Topic]) -> ClusterImage:
    changed = {name: topic for name, topic in topics.items() if topic is not cluster.topics[name]}
    if not changed:
        return cluster
    return replace(cluster, topics=MappingProxyType({**cluster.topics, **changed}))
