"""`sticky` and `cooperative-sticky`: balanced plans that move as little as possible.

Both run one algorithm, in two forms: for equal subscriptions, and for different ones. They differ in where a member
states what it owned; and the cooperative one never assigns a partition in the same generation in which another member
has to revoke it: such a partition is left out of the plan and assigned in the next rebalance.
"""

from collections.abc import Sequence

from muster_coordinator.groups.assignors.consumer_protocol import decode_cooperative_user_data, decode_sticky_user_data
from muster_coordinator.groups.assignors.membership import Member, Plan, TopicPartition, Topology
from muster_coordinator.groups.assignors.sticky_equal import EqualAssignment
from muster_coordinator.groups.assignors.sticky_general import GeneralAssignment
from muster_coordinator.groups.assignors.sticky_input import Claims, StickyInput


def assign_sticky(members: Sequence[Member], topology: Topology) -> Plan:
    """Kafka's StickyAssignor. It is eager: members state in their user data what they owned."""
    return _assign(members, topology, cooperative=False)


def assign_cooperative(members: Sequence[Member], topology: Topology) -> Plan:
    """Kafka's CooperativeStickyAssignor: members state what they own in the subscription's `owned` field."""
    return _assign(members, topology, cooperative=True)


def _assign(members: Sequence[Member], topology: Topology, *, cooperative: bool) -> Plan:
    if not members:
        return {}
    problem = StickyInput(members, topology, _cooperative_claims if cooperative else _sticky_claims)
    if problem.subscriptions_equal:
        equal = EqualAssignment(problem)
        plan = problem.plan(equal.assigned)
        moving = {problem.member_ids[member]: set[TopicPartition]() for member in equal.moving.values()}
        for key, member in equal.moving.items():
            moving[problem.member_ids[member]].add(TopicPartition(problem.topics[key.topic], key.partition))
    else:
        plan = problem.plan([list(keys) for keys in GeneralAssignment(problem).assigned])
        moving = _changing_owner(members, plan) if cooperative else {}
    if cooperative:
        for member_id, partitions in moving.items():
            plan[member_id] = [one for one in plan[member_id] if one not in partitions]
    return plan


def _changing_owner(members: Sequence[Member], plan: Plan) -> dict[str, set[TopicPartition]]:
    """New owner → partitions assigned to it that another member has yet to revoke."""
    added: dict[str, set[TopicPartition]] = {}
    revoked: set[TopicPartition] = set()
    for member in members:
        owned, assigned = set(member.subscription.owned), set(plan[member.member_id])
        added[member.member_id] = assigned - owned
        revoked |= owned - assigned
    return {member_id: partitions & revoked for member_id, partitions in added.items()}


def _sticky_claims(member: Member) -> Claims:
    user_data = member.subscription.user_data
    if not user_data:
        return Claims((), None)
    claim = decode_sticky_user_data(user_data)
    return Claims(claim.partitions, claim.generation)


def _cooperative_claims(member: Member) -> Claims:
    subscription = member.subscription
    if subscription.generation_id >= 0:
        return Claims(subscription.owned, subscription.generation_id)
    if subscription.user_data is None:
        return Claims(subscription.owned, None)
    return Claims(subscription.owned, decode_cooperative_user_data(subscription.user_data))
