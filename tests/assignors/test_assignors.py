"""What plans promise, on random groups and on the examples that documents use."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.groups.assignors.consumer_protocol import encode_sticky_user_data
from muster_coordinator.groups.assignors.membership import Member, Subscription, TopicPartition, Topology
from muster_coordinator.groups.assignors.registry import ASSIGNORS, UnknownAssignor, assignor, kafka_name
from muster_coordinator.groups.assignors.sticky_general import balance_score

from tests.assignors.cases import Case, random_case

seeds = st.integers(0, 2**32)


def member(member_id: str, *topics: str, instance_id: str | None = None, **fields) -> Member:
    return Member(member_id, Subscription(topics=topics, **fields), instance_id)


def short(plan) -> dict[str, list[str]]:
    return {member_id: [f"{one.topic}{one.partition}" for one in assigned] for member_id, assigned in plan.items()}


def owning(generation: int, plan, members) -> list[Member]:
    """The members as they join next, having followed the cooperative plan."""
    return [
        one._replace(subscription=replace(one.subscription, owned=tuple(plan[one.member_id]), generation_id=generation))
        for one in members
    ]


@given(seeds, st.sampled_from(sorted(set(ASSIGNORS) - {"cooperative-sticky"})), st.booleans(), st.booleans())
def test_every_partition_goes_to_exactly_one_subscriber(seed, name, equal, racks):
    case = random_case(random.Random(seed), name, equal=equal, racks=racks)
    plan = case.plan()
    assigned = [one for partitions in plan.values() for one in partitions]
    topics = {topic for one in case.members for topic in one.subscription.topics} & case.topology.partitions.keys()
    assert len(assigned) == len(set(assigned))
    assert set(assigned) == {TopicPartition(t, p) for t in topics for p in range(case.topology.partitions[t])}
    wanted = {one.member_id: one.subscription.topics for one in case.members}
    assert all(one.topic in wanted[member_id] for member_id, partitions in plan.items() for one in partitions)


@given(seeds, st.sampled_from(sorted(ASSIGNORS)), st.booleans())
def test_the_plan_does_not_depend_on_the_order_of_dictionaries(seed, name, equal):
    case = random_case(random.Random(seed), name, equal=equal)
    again = Case(name, case.members, Topology(dict(reversed(case.topology.partitions.items()))))
    assert again.plan() == case.plan()


@given(seeds, st.sampled_from(["sticky", "cooperative-sticky"]))
def test_equal_subscriptions_give_loads_that_differ_by_one_at_most(seed, name):
    case = random_case(random.Random(seed), name, equal=True)
    settled = case.plan()
    if name == "cooperative-sticky":
        settled = assignor(name).assign(owning(99, settled, case.members), case.topology)
    loads = [len(assigned) for assigned in settled.values()]
    assert max(loads) - min(loads) <= 1


@given(seeds)
def test_sticky_leaves_no_partition_that_a_subscriber_with_two_less_could_take(seed):
    case = random_case(random.Random(seed), "sticky", equal=False)
    plan = case.plan()
    for owner, assigned in plan.items():
        for one in assigned:
            for other in case.members:
                if one.topic in other.subscription.topics:
                    assert len(assigned) <= len(plan[other.member_id]) + 1, (owner, one, other)


@given(seeds, st.booleans(), st.booleans())
def test_cooperative_never_hands_out_what_another_member_still_owns(seed, equal, racks):
    """The leader has settled claims by generation; a claim that lost is no ownership."""
    rng = random.Random(seed)
    case = random_case(rng, "cooperative-sticky", equal=equal, racks=racks)
    members = owning(50, case.plan(), case.members)
    joined = [*members, member("zz-new", *rng.choice(members).subscription.topics)]
    plan = assignor("cooperative-sticky").assign(joined, case.topology)
    owner = {one: m.member_id for m in members for one in m.subscription.owned}
    for member_id, assigned in plan.items():
        assert all(owner.get(one, member_id) == member_id for one in assigned)


@settings(max_examples=50)
@given(seeds, st.booleans())
def test_cooperative_settles_in_the_second_rebalance(seed, equal):
    case = random_case(random.Random(seed), "cooperative-sticky", equal=equal)
    assign = assignor("cooperative-sticky").assign
    members, topology = case.members, case.topology
    for generation in (50, 51, 52):
        members = owning(generation, assign(members, topology), members)
    final = assign(members, topology)
    assert {m.member_id: sorted(m.subscription.owned) for m in members} == {k: sorted(v) for k, v in final.items()}


def test_range_cuts_every_topic_into_blocks():
    plan = assignor("range").assign([member("c0", "a", "b"), member("c1", "a", "b")], Topology({"a": 3, "b": 3}))
    assert short(plan) == {"c0": ["a0", "a1", "b0", "b1"], "c1": ["a2", "b2"]}


def test_roundrobin_deals_in_a_circle():
    plan = assignor("round_robin").assign([member("c0", "a", "b"), member("c1", "a", "b")], Topology({"a": 3, "b": 3}))
    assert short(plan) == {"c0": ["a0", "a2", "b1"], "c1": ["a1", "b0", "b2"]}


def test_roundrobin_passes_over_members_without_the_topic():
    members = [member("c0", "a"), member("c1", "a", "b"), member("c2", "a", "b", "c")]
    plan = assignor("roundrobin").assign(members, Topology({"a": 1, "b": 2, "c": 3}))
    assert short(plan) == {"c0": ["a0"], "c1": ["b0"], "c2": ["b1", "c0", "c1", "c2"]}


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_come_first_by_instance_id_and_keep_their_place(name):
    topology = Topology({"a": 3})
    before = [member("m9", "a", instance_id="i0"), member("m1", "a"), member("m5", "a", instance_id="i1")]
    after = [member("m2", "a", instance_id="i0"), member("m1", "a"), member("m0", "a", instance_id="i1")]
    assert short(assignor(name).assign(before, topology)) == {"m9": ["a0"], "m5": ["a1"], "m1": ["a2"]}
    assert short(assignor(name).assign(after, topology)) == {"m2": ["a0"], "m0": ["a1"], "m1": ["a2"]}


def test_sticky_moves_only_what_a_new_member_needs():
    owned = {
        "m0": encode_sticky_user_data([TopicPartition("a", p) for p in (0, 1, 2)], 1),
        "m1": encode_sticky_user_data([TopicPartition("a", p) for p in (3, 4, 5)], 1),
    }
    members = [member(name, "a", user_data=data) for name, data in owned.items()]
    plan = assignor("sticky").assign([*members, member("m2", "a")], Topology({"a": 6}))
    assert short(plan) == {"m0": ["a0", "a1"], "m1": ["a3", "a4"], "m2": ["a2", "a5"]}


def test_a_claim_of_an_older_generation_loses():
    old = member("m0", "a", owned=(TopicPartition("a", 0),), generation_id=3)
    new = member("m1", "a", owned=(TopicPartition("a", 0),), generation_id=4)
    plan = assignor("cooperative-sticky").assign([old, new], Topology({"a": 1}))
    assert short(plan) == {"m0": [], "m1": ["a0"]}


def test_claims_of_one_generation_void_each_other():
    both = [member(name, "a", owned=(TopicPartition("a", 0),), generation_id=3) for name in ("m0", "m1")]
    plan = assignor("cooperative-sticky").assign(both, Topology({"a": 1}))
    assert short(plan) == {"m0": [], "m1": []}, "both must let it go before anybody may have it"


@pytest.mark.parametrize("others_topics", [("a",), ("a", "b")], ids=["equal", "mixed"])
def test_partitions_that_no_longer_exist_are_not_kept(others_topics):
    """A topic deleted and re-created with fewer partitions."""
    owner = member("m0", "a", user_data=encode_sticky_user_data([TopicPartition("a", p) for p in (1, 7)], 1))
    plan = assignor("sticky").assign([owner, member("m1", *others_topics)], Topology({"a": 2, "b": 1}))
    assert sorted(one for assigned in short(plan).values() for one in assigned if one[0] == "a") == ["a0", "a1"]


def test_a_member_without_topics_gets_nothing():
    plan = assignor("sticky").assign([member("m0"), member("m1", "a")], Topology({"a": 2}))
    assert short(plan) == {"m0": [], "m1": ["a0", "a1"]}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_no_members_and_no_known_topics_give_empty_plans(name):
    assert assignor(name).assign([], Topology({"a": 1})) == {}
    assert assignor(name).assign([member("m", "gone")], Topology({"a": 1})) == {"m": []}


def test_range_prefers_members_near_a_replica_within_the_quota():
    racks = {TopicPartition("a", p): frozenset({rack}) for p, rack in enumerate(("r1", "r0", "r1", "r0"))}
    members = [member("m0", "a", rack_id="r0"), member("m1", "a", rack_id="r1")]
    plan = assignor("range").assign(members, Topology({"a": 4}, racks))
    assert short(plan) == {"m0": ["a1", "a3"], "m1": ["a0", "a2"]}


def test_both_spellings_of_names_are_read_and_kafkas_is_written():
    assert kafka_name("round_robin") == kafka_name("RoundRobin") == "roundrobin"
    assert kafka_name("cooperative_sticky") == "cooperative-sticky"
    with pytest.raises(UnknownAssignor, match="range, roundrobin, sticky, cooperative-sticky"):
        kafka_name("lag")


@given(st.lists(st.integers(0, 50), max_size=12))
def test_balance_score_is_the_sum_over_all_pairs(loads):
    assert balance_score(loads) == sum(abs(a - b) for i, a in enumerate(loads) for b in loads[:i])
