"""Our assignors against the Java client's own classes, on groups as `cases.random_case` draws them."""

import random
from collections.abc import Mapping

import pytest
from muster_coordinator.groups.assignors.consumer_protocol import (
    Assignment,
    decode_sticky_user_data,
    encode_assignment,
    encode_subscription,
)
from muster_coordinator.groups.assignors.membership import Plan, TopicPartition
from muster_coordinator.groups.assignors.sticky_general import balance_score

from tests.assignors.cases import Case, ask_java, facts, java_plans, random_case

pytestmark = [pytest.mark.java, pytest.mark.computes, pytest.mark.slow, pytest.mark.timeout(120)]


def drawn(seed: int, count: int, name: str, *, equal: bool, racks: bool = False) -> list[Case]:
    rng = random.Random(seed)
    return [random_case(rng, name, equal=equal, racks=racks) for _ in range(count)]


def in_order(plan: Mapping[str, list[TopicPartition]]) -> Plan:
    return {member_id: sorted(assigned) for member_id, assigned in plan.items()}


@pytest.mark.parametrize("racks", [False, True], ids=["no-racks", "racks"])
@pytest.mark.parametrize("equal", [True, False], ids=["equal", "mixed"])
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_range_and_roundrobin_give_javas_plan(name, equal, racks):
    cases = drawn(1, 2_000, name, equal=equal, racks=racks)
    for case, java in zip(cases, java_plans(cases), strict=True):
        assert in_order(case.plan()) == java, case


@pytest.mark.parametrize("racks", [False, True], ids=["no-racks", "racks"])
@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_sticky_gives_javas_plan_when_all_subscribe_alike(name, racks):
    cases = drawn(2, 4_000, name, equal=True, racks=racks)
    for case, java in zip(cases, java_plans(cases), strict=True):
        assert in_order(case.plan()) == java, case


@pytest.mark.parametrize("racks", [False, True], ids=["no-racks", "racks"])
def test_sticky_with_mixed_subscriptions_is_as_even_as_javas_and_moves_no_more(racks):
    count = 2_000 if racks else 10_000
    compared = 0
    for case, java in zip(cases := drawn(3, count, "sticky", equal=False, racks=racks), java_plans(cases), strict=True):
        ours = in_order(case.plan())
        assert is_valid(case, ours), case
        if isinstance(java, str) or not is_valid(case, java):
            continue
        compared += 1
        assert score(ours) <= score(java), case
        assert moves(case, ours) <= moves(case, java), case
    assert compared > count * 0.99, "Kafka's own plan is rarely invalid"


def test_cooperative_with_mixed_subscriptions_gives_javas_plan_where_that_is_valid():
    compared = 0
    for case, java in zip(cases := drawn(4, 3_000, "cooperative-sticky", equal=False), java_plans(cases), strict=True):
        if not isinstance(java, str) and only_to_subscribers(case, java):
            compared += 1
            assert in_order(case.plan()) == java, case
    assert compared > 2_900


def test_subscriptions_and_assignments_have_javas_bytes():
    cases = drawn(5, 200, "cooperative-sticky", equal=False, racks=True)
    for version in range(4):
        subscriptions = ask_java([f"{facts(case.members, case.topology)}\nsubscriptions {version}" for case in cases])
        assignments = ask_java([f"{facts(case.members, case.topology)}\nassignments {version}" for case in cases])
        for case, subscribed, assigned in zip(cases, subscriptions, assignments, strict=True):
            for member, subscription, assignment in zip(
                case.members, subscribed.split(), assigned.split(), strict=True
            ):
                one = member.subscription
                ours = encode_subscription(one, version).hex()
                assert f"{member.member_id}={ours}" == subscription
                plain = encode_assignment(Assignment(tuple(one.owned), one.user_data), version).hex()
                assert len(f"{member.member_id}={plain}") == len(assignment), "Java leaves assignments unsorted"


def is_valid(case: Case, plan: Mapping[str, list[TopicPartition]]) -> bool:
    """Every partition of a subscribed topic exactly once, and only to subscribers."""
    assigned = sorted(one for partitions in plan.values() for one in partitions)
    topics = {topic for member in case.members for topic in member.subscription.topics}
    counts = case.topology.partitions
    every = sorted(TopicPartition(topic, p) for topic in topics & counts.keys() for p in range(counts[topic]))
    return assigned == every and only_to_subscribers(case, plan)


def only_to_subscribers(case: Case, plan: Mapping[str, list[TopicPartition]]) -> bool:
    topics = {member.member_id: member.subscription.topics for member in case.members}
    return all(one.topic in topics[member_id] for member_id, partitions in plan.items() for one in partitions)


def score(plan: Mapping[str, list[TopicPartition]]) -> int:
    return balance_score(len(partitions) for partitions in plan.values())


def moves(case: Case, plan: Mapping[str, list[TopicPartition]]) -> int:
    """Partitions that leave a member which owned them in the newest generation told and may keep them."""
    moved = 0
    claims = {m.member_id: decode_sticky_user_data(m.subscription.user_data or b"") for m in case.members}
    newest = max((claim.generation or -1 for claim in claims.values()), default=-1)
    for member in case.members:
        claim = claims[member.member_id]
        if claim.generation == newest:
            keepable = {one for one in claim.partitions if one.topic in member.subscription.topics}
            moved += len(keepable - set(plan[member.member_id]))
    return moved
