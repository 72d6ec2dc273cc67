"""`roundrobin`: deal all partitions, in order of topic and number, to the members in a circle.

A member that is not subscribed to a partition's topic is skipped and loses its turn, so unequal subscriptions give
uneven plans; `sticky` balances those better.
"""

from collections.abc import Sequence

from muster_coordinator.groups.assignors.java_order import static_first, utf16_key
from muster_coordinator.groups.assignors.membership import Member, Plan, TopicPartition, Topology, subscribers


def assign(members: Sequence[Member], topology: Topology) -> Plan:
    """Kafka's RoundRobinAssignor."""
    plan: Plan = {member.member_id: [] for member in members}
    circle = static_first(members)
    wanted = [frozenset(member.subscription.topics) for member in circle]
    turn = 0
    for topic in sorted(subscribers(members, topology), key=utf16_key):
        for partition in range(topology.partitions[topic]):
            while topic not in wanted[turn]:
                turn = (turn + 1) % len(circle)
            plan[circle[turn].member_id].append(TopicPartition(topic, partition))
            turn = (turn + 1) % len(circle)
    return plan
