"""Our assignors behind kafka-python's interface, so that `muster consume` leads a group exactly as a Java client does.

kafka-python's own assignors are close to Kafka's but differ in details (order of static members, generations, racks): a
group whose leader changes between the two would move partitions needlessly. The subscription is encoded as Java does:
version 3, sorted, with owned partitions, generation and rack.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster_coordinator.cli.kafka_client import Untyped
from muster_coordinator.groups.assignors.consumer_protocol import (
    Assignment,
    encode_assignment,
    encode_cooperative_user_data,
    encode_sticky_user_data,
    encode_subscription,
)
from muster_coordinator.groups.assignors.membership import Member, Subscription, TopicPartition, Topology
from muster_coordinator.groups.assignors.registry import Assignor, assignor

if TYPE_CHECKING:
    AbstractPartitionAssignor = object
else:
    from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

JAVA_NAMES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_JAVA_PACKAGE = "org.apache.kafka.clients.consumer."


def plugged(names: Sequence[str], rack: str | None = None) -> list["PluggedAssignor"]:
    """Assignors for `partition_assignment_strategy`, by Kafka's names, our spellings, or Java's class names.

    Raises UnknownAssignor. Set each one's `owned` to the consumer's `assignment` once that exists.
    """
    found = [assignor(JAVA_NAMES.get(name.strip().removeprefix(_JAVA_PACKAGE), name)) for name in names]
    eager = not all(one.cooperative for one in found)
    return [PluggedAssignor(one, rack, eager=eager) for one in found]


class PluggedAssignor(AbstractPartitionAssignor):
    """One of our assignors with kafka-python's interface. Called on the consumer's I/O thread."""

    name = ""

    def __init__(self, algorithm: Assignor, rack: str | None, *, eager: bool) -> None:
        self.name = algorithm.name
        self._eager = eager
        """Whether the consumer revokes everything before it joins, because one of its assignors is eager."""
        self.owned: Callable[[], Iterable[tuple[str, int]]] = tuple
        """Returns what the consumer owns now; called whenever it joins."""
        self.generation = -1
        self._algorithm = algorithm
        self._rack = rack
        self._previous: tuple[TopicPartition, ...] | None = None

    def supported_protocols(self) -> list[Any]:
        """As in Java, cooperative-sticky can also run eagerly, so that it can be listed with eager ones."""
        from kafka.coordinator.assignors.abstract import RebalanceProtocol

        if self._algorithm.cooperative:
            return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
        return [RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> bytes:
        """This member's subscription."""
        wanted = set(topics)
        owned = () if self._eager else tuple(TopicPartition(*one) for one in self.owned() if one[0] in wanted)
        user_data = None
        if self._algorithm.cooperative:
            user_data = encode_cooperative_user_data(self.generation)
        elif self.name == "sticky" and self._previous is not None:
            user_data = encode_sticky_user_data(self._previous, self.generation)
        return encode_subscription(
            Subscription(
                topics=tuple(sorted(wanted)),
                user_data=user_data,
                owned=owned,
                generation_id=self.generation,
                rack_id=self._rack,
            )
        )

    def assign(self, cluster: Untyped, members: Sequence[Any]) -> dict[str, bytes]:
        """Compute the plan as the group's leader; one encoded assignment per member."""
        joined = [_member(one) for one in members]
        topics = {topic for one in joined for topic in one.subscription.topics}
        plan = self._algorithm.assign(joined, _topology(cluster, topics))
        return {member_id: encode_assignment(Assignment(tuple(assigned))) for member_id, assigned in plan.items()}

    def on_assignment(self, assignment: Untyped, generation: int) -> None:
        """Keep the assignment for the next JoinGroup."""
        self._previous = tuple(TopicPartition(*one) for one in assignment.partitions())
        self.generation = generation


def _member(joined: Untyped) -> Member:
    told = joined.metadata
    user_data = getattr(told, "user_data", None)
    owned = getattr(told, "owned_partitions", None) or ()
    generation = getattr(told, "generation_id", -1)
    subscription = Subscription(
        topics=tuple(told.topics),
        user_data=None if user_data is None else bytes(user_data),
        owned=tuple(TopicPartition(one.topic, number) for one in owned for number in one.partitions),
        generation_id=-1 if generation is None else generation,
        rack_id=getattr(told, "rack_id", None) or None,
    )
    return Member(joined.member_id, subscription, getattr(joined, "group_instance_id", None) or None)


def _topology(cluster: Untyped, topics: Iterable[str]) -> Topology:
    from kafka.structs import TopicPartition as Plain

    racks = {broker.node_id: broker.rack for broker in cluster.brokers() if broker.rack}
    counts: dict[str, int] = {}
    near: dict[TopicPartition, frozenset[str]] = {}
    for topic in topics:
        numbers = cluster.partitions_for_topic(topic) or set()
        counts[topic] = len(numbers)
        for number in numbers if racks else ():
            near[TopicPartition(topic, number)] = _racks_of(cluster, Plain(topic, number), racks)
    return Topology(counts, near)


def _racks_of(cluster: Untyped, partition: Untyped, racks: Mapping[int, str]) -> frozenset[str]:
    return frozenset(rack for node, rack in racks.items() if cluster.is_replica_node(partition, node))
