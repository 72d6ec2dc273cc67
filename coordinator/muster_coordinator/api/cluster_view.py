"""The cluster as the clients of one listener may see it: live brokers, leaders, addresses (protocol notes 11.1, 11.2).

Problem: clients fail in four different ways when a leader, a coordinator or the controller is not in the broker list
of the same answer. Mechanism: only registered brokers that are alive, or were so a moment ago, and have an endpoint on
the client's listener are listed, and a leader that is not alive or not listed counts as none (decisions 12, 18). As in
Kafka a broker that died is listed until its session is over: clients drop all that they know of one that is not. A
broker that is to leave and is empty is not listed any more, while it goes on to answer whoever knows it (ADR 49).
"""

from functools import lru_cache
from typing import NamedTuple

from muster_coordinator.controller.departures import is_emptied
from muster_coordinator.controller.image import ClusterImage, Partition, Topic
from muster_coordinator.errors import Code
from muster_coordinator.ids import CONTROLLER_GROUP, FIRST_OFFSETS_GROUP, BrokerId, GroupNo
from muster_coordinator.replica.partitions.surface import LocalLog, Surface, partition_of

NO_LEADER = -1
_CACHED_CHARS_MAX = 128
"""Longer group ids are not cached, so that the cache stays small whatever clients send."""


class Node(NamedTuple):
    """A broker's address on the client's listener."""

    node_id: int
    host: str
    port: int
    rack: str | None
    """None: it has none."""


class Leader(NamedTuple):
    """The leader of a Raft group, as far as this client can reach it."""

    code: Code
    """NONE; LEADER_NOT_AVAILABLE; LISTENER_NOT_FOUND when the leader is alive but not on this listener."""
    leader_id: int
    epoch: int
    """Raft term of the leadership; -1 before the first."""
    node: Node | None


class ClusterView:
    """The view of one request: it uses one image from beginning to end, and asks once whether a broker is alive. So
    brokers, controller and leaders of an answer agree, although it is made in several turns."""

    __slots__ = ("_alive", "_leaving", "_listener", "_surface", "image")

    def __init__(self, surface: Surface, image: ClusterImage, listener: str) -> None:
        self._surface = surface
        self._listener = listener
        self._alive: dict[BrokerId, bool] = {}
        self._leaving: dict[BrokerId, bool] = {}
        self.image = image

    def node(self, broker: BrokerId) -> Node | None:
        """Address of a broker; None when it is long dead, unknown, about to leave, or has no such listener."""
        registered = self.image.brokers.get(broker)
        if registered is None or not self._lately(broker) or self._leaves(broker):
            return None
        for endpoint in registered.endpoints:
            if endpoint.listener == self._listener:
                return Node(broker, endpoint.host, endpoint.port, registered.rack or None)
        return None

    def nodes(self) -> list[Node]:
        """All brokers that clients of this listener can reach, by id."""
        found = (self.node(broker) for broker in sorted(self.image.brokers))
        return [node for node in found if node is not None]

    def alive(self, broker: BrokerId) -> bool:
        """Whether the broker's replicas count as online."""
        if broker not in self._alive:
            self._alive[broker] = broker in self.image.brokers and self._surface.alive(broker)
        return self._alive[broker]

    def _lately(self, broker: BrokerId) -> bool:
        return self.alive(broker) or self._surface.alive_lately(broker)

    def _leaves(self, broker: BrokerId) -> bool:
        """Is it to leave, empty, and are there others to name? Looks at all partitions only if it is to leave. An
        answer without any broker would leave a client with nobody to ask."""
        if broker not in self._leaving:
            image = self.image
            self._leaving[broker] = is_emptied(image, broker) and any(
                self.alive(other) and not is_emptied(image, other) for other in image.brokers
            )
        return self._leaving[broker]

    def controller_id(self) -> int:
        """The controller's leader if it lives and is listed, else this broker, else any listed one that lives: every
        broker forwards to the controller."""
        leader = self._surface.leadership(CONTROLLER_GROUP).leader
        for broker in (leader, self._surface.broker):
            if broker is not None and self.alive(broker) and self.node(broker) is not None:
                return broker
        nodes = [node.node_id for node in self.nodes() if self.alive(BrokerId(node.node_id))]
        return nodes[0] if nodes else NO_LEADER

    def leader(self, group: GroupNo) -> Leader:
        """The leader of a partition's Raft group."""
        leader, term = self._surface.leadership(group)
        epoch = term if term > 0 else -1
        if leader is None or not self.alive(leader) or self._leaves(leader):
            return Leader(Code.LEADER_NOT_AVAILABLE, NO_LEADER, epoch, None)
        node = self.node(leader)
        if node is None:
            return Leader(Code.LISTENER_NOT_FOUND, NO_LEADER, epoch, None)
        return Leader(Code.NONE, leader, epoch, node)

    def in_sync(self, partition: Partition, leader: Leader) -> list[BrokerId]:
        """What clients are told as the ISR: the replicas that are alive. While the partition is being moved only those
        of before the move, and its leader: nobody but the leader knows which of the new ones have caught up."""
        move = partition.move
        if move is None or not partition.moves:
            return [voter for voter in partition.voters if self.alive(voter)]
        counted = {*move.origin, leader.leader_id}
        return [broker for broker in partition.holders if broker in counted and self.alive(broker)]

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic with this id; None when it is unknown or deleted."""
        name = self.image.names_by_id.get(topic_id)
        return None if name is None else self.image.topics.get(name)

    def partition(self, topic: Topic, index: int) -> Partition | None:
        """One partition of a topic; None when it has no partition of this number."""
        return topic.partitions[index] if 0 <= index < len(topic.partitions) else None

    def local_log(self, partition: Partition) -> LocalLog | None:
        """This broker's replica of a partition; None when it has none."""
        return self._surface.local_log(partition.group)


@lru_cache(maxsize=16_384)
def _hashed(group_id: str, offsets_partitions: int) -> int:
    """Java's hash visits every character, and each group asks several times a second."""
    return partition_of(group_id, offsets_partitions)


def offsets_partition(image: ClusterImage, group_id: str) -> int:
    """The offsets partition of a consumer group, with the moved groups taken into account (decision 13)."""
    for moved, partition in image.routing.overrides:
        if moved == group_id:
            return partition
    if len(group_id) > _CACHED_CHARS_MAX:
        return partition_of(group_id, image.routing.offsets_partitions)
    return _hashed(group_id, image.routing.offsets_partitions)


def offsets_group(partition: int) -> GroupNo:
    """The Raft group of an offsets partition."""
    return GroupNo(FIRST_OFFSETS_GROUP + partition)
