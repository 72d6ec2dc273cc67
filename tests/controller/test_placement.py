"""Where new partitions are placed (ADR 44): the planner against an oracle of its own, and what apply judges anew."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.controller.commands import (
    AddPartitions,
    CompleteMove,
    CreateTopic,
    FinalizeFeatures,
    MovePartition,
    ReplaceReplica,
    SetDraining,
    UnregisterBroker,
)
from muster_coordinator.controller.image import EMPTY_ID, Broker, ClusterImage, Partition, wanted_members
from muster_coordinator.controller.limits import RACK_CHARS_MAX
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.controller.placement import (
    Loads,
    Placed,
    Reason,
    Unplaceable,
    default_factor,
    loads_of,
    place,
    with_placed,
)
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, member_no

from tests.controller.cluster_commands import VOTERS, Log, create, form, register, topic_id
from tests.controller.test_joining_brokers import joins
from tests.controller.test_replacement import FOLDERS, NEW, at_level_3, new
from tests.controller.test_transitions import refused

NONE = Loads({}, {})
ID = topic_id(1)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def cluster(racks: Sequence[str], *, draining: Sequence[int] = (), unbound: Sequence[int] = ()) -> ClusterImage:
    """An image without topics: broker i is in `racks[i]`; the first three formed it."""
    image = at_level_3().cluster
    brokers = {
        BrokerId(number): Broker(
            broker=BrokerId(number),
            replica_uuid=EMPTY_ID if number in unbound else bytes([number + 1]) * 16,
            incarnation=1,
            endpoints=(),
            admin="",
            draining=number in draining,
            feature_max=3,
            rack=rack,
        )
        for number, rack in enumerate(racks)
    }
    voters = tuple(sorted(brokers))[:3]
    return replace(image, voters=voters, brokers=MappingProxyType(brokers), topics=MappingProxyType({}))


def placed(image: ClusterImage, count: int, factor: int, loads: Loads = NONE, avoided: Sequence[int] = ()) -> Placed:
    result = place(image, loads, count, factor, ids(*avoided))
    assert isinstance(result, Placed), result
    return result


def spread(counts: Counter[BrokerId], brokers: int) -> int:
    held = [counts[BrokerId(broker)] for broker in range(brokers)]
    return max(held) - min(held)


# The oracle: what the choice has to keep, counted from its result alone.


@st.composite
def equal_racks(draw: st.DrawFn) -> list[str]:
    """Racks of the same size, in any order; one rack is a cluster without racks."""
    racks, size = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    return draw(st.permutations([f"rack-{number % racks}" if racks > 1 else "" for number in range(racks * size)]))


@given(equal_racks(), st.integers(1, 40), st.sampled_from((1, 3, 5)))
def test_brokers_racks_and_leaders_are_level_within_one(racks: list[str], count: int, factor: int) -> None:
    image = cluster(racks)
    if factor > len(racks):
        assert isinstance(place(image, NONE, count, factor), Unplaceable)
        return
    partitions = placed(image, count, factor).partitions
    assert len(partitions) == count
    names = set(racks)
    for brokers in partitions:
        assert len(set(brokers)) == len(brokers) == factor
        by_rack = Counter(racks[broker] for broker in brokers)
        assert max(by_rack.values()) - min(by_rack[name] for name in names) <= 1, "racks are level in each partition"
    assert spread(Counter(broker for brokers in partitions for broker in brokers), len(racks)) <= 1
    assert spread(Counter(brokers[0] for brokers in partitions), len(racks)) <= 1


def test_racks_take_turns_so_that_no_two_of_their_brokers_are_left_behind() -> None:
    """Of four racks three take a replica each. Chosen by the lightest broker alone, the last ones would be in one
    rack, and a third replica would go to a broker that has one already."""
    for count in range(1, 20):
        partitions = placed(cluster(["a", "a", "b", "b", "c", "c", "d", "d"]), count, 3).partitions
        assert spread(Counter(broker for brokers in partitions for broker in brokers), 8) <= 1


def test_the_rack_comes_first_however_much_its_brokers_hold() -> None:
    loads = Loads({BrokerId(2): 30, BrokerId(3): 30}, {})
    for brokers in placed(cluster(["a", "a", "b", "c"]), 9, 3, loads).partitions:
        assert sorted(brokers)[1:] == [2, 3], "one of the two that hold nothing, since both are in one rack"


def test_every_broker_leads_as_many_as_another_within_one() -> None:
    for count in range(1, 20):
        partitions = placed(cluster([""] * 5), count, 3).partitions
        assert spread(Counter(brokers[0] for brokers in partitions), 5) <= 1


@given(st.lists(st.sampled_from(("", "a", "b", "c", "d")), min_size=1, max_size=12), st.data())
def test_racks_are_distinct_wherever_there_are_enough_of_them(racks: list[str], data: st.DataObject) -> None:
    """Racks of any size, brokers without one, and any loads from before: the rack always comes first."""
    factor = data.draw(st.sampled_from([count for count in (1, 3, 5) if count <= len(racks)]))
    before = data.draw(st.lists(st.integers(0, 30), min_size=len(racks), max_size=len(racks)))
    loads = Loads({BrokerId(at): held for at, held in enumerate(before)}, {})
    for brokers in placed(cluster(racks), data.draw(st.integers(1, 9)), factor, loads).partitions:
        assert len(set(brokers)) == factor
        by_rack = Counter(racks[broker] for broker in brokers)
        free = {name: racks.count(name) - by_rack[name] for name in set(racks)}
        for name in by_rack:
            others = [by_rack[other] for other in free if free[other] > 0]
            assert all(by_rack[name] - 1 <= other for other in others), "none has two more than one with a broker left"


@given(equal_racks(), st.lists(st.tuples(st.integers(1, 5), st.sampled_from((1, 3, 5))), max_size=8))
def test_brokers_stay_level_over_any_number_of_topics(racks: list[str], topics: list[tuple[int, int]]) -> None:
    loads, held = NONE, Counter[BrokerId]()
    for count, factor in topics:
        if factor <= len(racks):
            result = placed(cluster(racks), count, factor, loads)
            held.update(broker for brokers in result.partitions for broker in brokers)
            assert with_placed(loads, result.partitions) == result.loads
            loads = result.loads
    assert spread(held, len(racks)) <= 1


def test_new_brokers_get_the_replicas_until_they_hold_as_many() -> None:
    image = cluster(["", "", "", "", ""])
    loads = Loads({BrokerId(0): 4, BrokerId(1): 4, BrokerId(2): 4}, {BrokerId(0): 4})
    result = placed(image, 8, 1, loads)
    assert Counter(result.partitions) == {ids(3): 4, ids(4): 4}
    assert placed(image, 1, 3, loads).partitions == (ids(3, 4, 1),), "of those with as many, one that leads less"


def test_a_leader_that_two_partitions_away_is_too_many_is_shifted_by_way_of_others() -> None:
    """Broker 0 leads far more from before: it leads none of the new ones, and the others are level."""
    loads = Loads({}, {BrokerId(0): 50})
    leaders = Counter(brokers[0] for brokers in placed(cluster([""] * 4), 12, 3, loads).partitions)
    assert sorted(leaders.values()) == [4, 4, 4]
    assert BrokerId(0) not in leaders


@given(equal_racks(), st.data())
def test_the_same_arguments_give_the_same_choice(racks: list[str], data: st.DataObject) -> None:
    factor = data.draw(st.sampled_from([count for count in (1, 3, 5) if count <= len(racks)]))
    image = cluster(racks)
    order = data.draw(st.permutations(list(image.brokers)))
    shuffled = replace(image, brokers={broker: image.brokers[broker] for broker in order})
    assert placed(image, 7, factor) == placed(shuffled, 7, factor)


# Who may be chosen.


def test_draining_brokers_and_those_to_avoid_are_chosen_when_no_other_is_left() -> None:
    five = cluster(["a", "b", "c", "d", "e"], draining=[0])
    assert all(set(brokers) == {2, 3, 4} for brokers in placed(five, 4, 3, avoided=[1]).partitions)
    assert all({0, 2, 3} == set(brokers) for brokers in placed(five, 4, 3, avoided=[1, 4]).partitions)
    for brokers in placed(five, 9, 5, avoided=[1]).partitions:
        assert set(brokers) == {0, 1, 2, 3, 4}
        assert brokers[0] in (2, 3, 4), "nor do they lead while there is another"
    three = cluster(["", "", ""], draining=[0, 1, 2])
    leaders = Counter(brokers[0] for brokers in placed(three, 6, 3).partitions)
    assert leaders == {0: 2, 1: 2, 2: 2}
    assert placed(five, 1, 5, avoided=[1]).why == "5 replicas, and 3 brokers that neither drain nor are away"


def test_a_rack_that_is_away_is_no_reason_to_wait_for_it() -> None:
    racks = ["a", "a", "b", "b", "c"]
    assert all(4 not in brokers for brokers in placed(cluster(racks), 5, 3, avoided=[4]).partitions)
    assert placed(cluster(racks), 1, 3).why == "3 replicas, each in a rack of its own, level by broker"
    assert placed(cluster(racks), 1, 5).why == "5 replicas in 3 racks: level by rack, then by broker"


def test_a_broker_without_a_folder_or_a_registration_takes_none() -> None:
    image = cluster(["", "", "", ""], unbound=[1])
    assert all(1 not in brokers for brokers in placed(image, 8, 3).partitions)
    short = replace(cluster(["", ""], unbound=[1]), voters=ids(0, 1, 2))
    said = "3 replicas need as many brokers; 1 can take one: broker 1 waits for a new data folder, broker 2 has not"
    said += " registered"
    assert place(short, NONE, 1, 3) == Unplaceable(Reason.BROKERS, said)
    assert place(cluster(["", "", ""]), NONE, 1, 5) == Unplaceable(
        Reason.BROKERS, "5 replicas need as many brokers; 3 can take one"
    )


def test_a_broker_that_is_to_leave_takes_none() -> None:
    image = cluster(["", "", "", ""])
    leaving = replace(image.brokers[BrokerId(1)], departing=True)
    image = replace(image, brokers={**image.brokers, BrokerId(1): leaving})
    assert all(1 not in brokers for brokers in placed(image, 8, 3).partitions)
    assert place(image, NONE, 1, 5) == Unplaceable(
        Reason.BROKERS, "5 replicas need as many brokers; 3 can take one: broker 1 is to leave"
    )


@pytest.mark.parametrize("factor", [-2, 0, 2, 4, 6, 7])
def test_a_partition_has_one_three_or_five_replicas(factor: int) -> None:
    said = f"a partition has 1, 3 or 5 replicas, not {factor}"
    assert place(cluster([""] * 9), NONE, 1, factor) == Unplaceable(Reason.FACTOR, said)


@pytest.mark.parametrize(
    ("brokers", "wanted", "factor"), [(1, 3, 1), (2, 3, 1), (3, 3, 3), (4, 5, 3), (5, 5, 5), (9, 3, 3), (9, 1, 1)]
)
def test_the_default_is_what_is_wanted_or_what_the_brokers_allow(brokers: int, wanted: int, factor: int) -> None:
    assert default_factor(cluster([""] * brokers), wanted) == factor


def test_brokers_that_are_to_come_back_count_for_the_default() -> None:
    assert default_factor(cluster(["", "", ""], unbound=[0], draining=[1]), 3) == 3
    assert default_factor(replace(cluster([""]), voters=ids(0, 1, 2)), 5) == 3, "two have not registered yet"


def test_loads_count_what_is_wanted_of_each_broker() -> None:
    log = at_level_3(joins(3), joins(4), made(ids(4, 0, 3), ids(3)))
    before = loads_of(at_level_3().cluster)
    assert (before.replicas, sum(before.leaders.values())) == ({0: 4, 1: 4, 2: 4}, 4), "the offsets partitions"
    loads = loads_of(log.cluster)
    assert {broker: loads.replicas[broker] - before.replicas.get(broker, 0) for broker in ids(0, 1, 2, 3, 4)} == {
        0: 1, 1: 0, 2: 0, 3: 2, 4: 1,
    }  # fmt: skip
    assert (loads.leaders[BrokerId(3)], loads.leaders[BrokerId(4)]) == (1, 1)
    log.apply(MovePartition(topic_id=ID, partition=0, voters=ids(0, 1, 2)))
    assert loads_of(log.cluster).replicas[BrokerId(4)] == 0, (
        "it holds one until the move is complete, and is to hold none"
    )


# What apply makes of it.


def made(*brokers: tuple[BrokerId, ...]) -> CreateTopic:
    return replace(create("t", partitions=len(brokers)), placed=brokers)


def partitions_of(log: Log) -> tuple[Partition, ...]:
    return log.cluster.topics["t"].partitions


def grown() -> Log:
    """Three brokers that formed the cluster, the second with its second folder, and three that joined."""
    gone = ReplaceReplica(broker=BrokerId(1), gone_uuid=FOLDERS[1])
    return at_level_3(gone, new(1, NEW), joins(3), joins(4), joins(5))


def test_a_placed_partition_is_where_it_was_placed_and_its_first_broker_is_preferred() -> None:
    log = grown()
    assert log.apply(made(ids(5, 1, 3), ids(4), ids(0, 1, 2, 3, 4))).value == 3
    first, second, third = partitions_of(log)
    assert (first.voters, first.members) == (ids(5, 1, 3), (5, member_no(BrokerId(1), 1), 3))
    assert wanted_members(log.cluster, first) == first.members
    assert (second.voters, third.voters) == (ids(4), ids(0, 1, 2, 3, 4))
    assert [partition.preferred for partition in partitions_of(log)] == [5, 4, 0]
    assert all(partition.placed and not partition.moves for partition in partitions_of(log))
    assert log.apply(AddPartitions(topic_id=ID, total=5, placed=(ids(3), ids(2)))).value == 5
    assert [partition.preferred for partition in partitions_of(log)] == [5, 4, 0, 3, 2]
    assert len({partition.group for partition in partitions_of(log)}) == 5


def test_what_was_not_placed_keeps_the_leader_that_it_had() -> None:
    """A partition of an earlier release: its preferred leader follows from its number, until it is moved."""
    log = grown()
    log.apply(create("t", partitions=3))
    for partition in partitions_of(log):
        assert not partition.placed
        assert partition.preferred == partition.voters[partition.group % 3]
    log.apply(MovePartition(topic_id=ID, partition=1, voters=ids(4, 3, 5)))
    assert partitions_of(log)[1].preferred == 4
    log.apply(CompleteMove(topic_id=ID, partition=1, voters=ids(4, 3, 5)))
    assert partitions_of(log)[1].preferred == 4


def test_a_broker_that_left_or_lost_its_folder_since_is_judged_when_the_command_is_applied() -> None:
    log = grown()
    uuid = log.cluster.brokers[BrokerId(5)].replica_uuid
    assert log.apply(UnregisterBroker(broker=BrokerId(5), replica_uuid=uuid)).error == Code.NONE
    late = made(ids(5, 1, 3))
    assert "broker 5 is not registered" in refused(log, late, Code.INVALID_REPLICA_ASSIGNMENT)
    log.apply(ReplaceReplica(broker=BrokerId(2), gone_uuid=FOLDERS[2]))
    assert "waits for a new data folder" in refused(log, made(ids(0, 2, 3)), Code.INVALID_REPLICA_ASSIGNMENT)
    assert log.apply(made(ids(0, 1, 3))).error == Code.NONE
    more = AddPartitions(topic_id=ID, total=2, placed=(ids(2),))
    assert "waits for a new data folder" in refused(log, more, Code.INVALID_REPLICA_ASSIGNMENT)


@pytest.mark.parametrize(
    ("brokers", "words"),
    [
        (ids(0, 0, 1), "named twice"),
        (ids(0, 1), "1, 3 or 5"),
        (ids(), "1, 3 or 5"),
        (ids(0, 1, 2, 3), "1, 3 or 5"),
        (ids(0, 1, 9), "broker 9 is not registered"),
        (ids(-1), "broker -1 is not registered"),
    ],
)
def test_what_no_partition_can_have_is_refused(brokers: tuple[BrokerId, ...], words: str) -> None:
    log = grown()
    assert words in refused(log, made(ids(0), brokers), Code.INVALID_REPLICA_ASSIGNMENT)
    assert "t" not in log.cluster.topics


def test_as_many_partitions_are_placed_as_are_made() -> None:
    log = grown()
    few = replace(create("t", partitions=3), placed=(ids(0), ids(1)))
    assert "3 partitions are to be made, and 2 are placed" in refused(log, few, Code.INVALID_REPLICA_ASSIGNMENT)
    log.apply(made(ids(0), ids(1)))
    late = AddPartitions(topic_id=ID, total=3, placed=(ids(0), ids(1)))
    assert "1 partitions are to be made" in refused(log, late, Code.INVALID_REPLICA_ASSIGNMENT), "one was added since"


def test_below_its_level_nothing_is_placed_and_no_rack_is_told() -> None:
    """Releases below could not read it: it is neither proposed nor applied, and what is written stays as theirs."""
    racked = replace(register(1, incarnation=2, feature_max=3), rack="a")
    for level in (1, 2):
        log = Log(form(feature_level=level), *(register(voter, feature_max=3) for voter in VOTERS))
        before = log.machine.image().encode()
        for command, what in (
            (made(ids(0)), "placing partitions"),
            (AddPartitions(topic_id=ID, total=1, placed=(ids(0),)), "placing partitions"),
            (racked, "a rack"),
        ):
            said = f"{what} needs feature level 3; the cluster has {level}"
            assert refused(log, command, Code.UNSUPPORTED_VERSION) == said
            early = level_refusal(log.cluster, command)
            assert early is not None
            assert early.message == said
        after = log.machine.image().encode()
        assert after.head[9:] == before.head[9:], "but for the applied index"
        log.apply(FinalizeFeatures(feature_level=3))
        assert log.apply(made(ids(0))).error == Code.NONE


# Racks.


def test_a_broker_says_its_rack_with_its_registration_and_may_say_it_later() -> None:
    log = at_level_3(replace(joins(3), rack="b"))
    assert [broker.rack for broker in log.cluster.brokers.values()] == ["", "", "", "b"]
    log.apply(SetDraining(broker=BrokerId(1), draining=True))
    late = replace(register(1, incarnation=5, feature_max=3), rack="a")
    assert log.apply(late).error == Code.NONE
    told = log.cluster.brokers[BrokerId(1)]
    assert (told.rack, told.draining, told.incarnation) == ("a", True, 5), "the same start, which drains"
    image = log.cluster
    assert log.apply(late).error == Code.NONE
    assert log.cluster.brokers is image.brokers
    assert log.apply(replace(late, rack="c", incarnation=6)).error == Code.NONE
    told = log.cluster.brokers[BrokerId(1)]
    assert (told.rack, told.draining) == ("c", False), "a new start"


def test_a_name_of_a_rack_has_a_limit() -> None:
    log = at_level_3()
    assert log.apply(replace(joins(3), rack="r" * RACK_CHARS_MAX)).error == Code.NONE
    long = replace(joins(4), rack="r" * (RACK_CHARS_MAX + 1))
    assert "at most 249" in refused(log, long, Code.INVALID_REQUEST)


def test_a_replaced_broker_keeps_its_rack_until_the_next_folder_says_one() -> None:
    log = at_level_3(replace(joins(3), rack="b"))
    uuid = log.cluster.brokers[BrokerId(3)].replica_uuid
    log.apply(ReplaceReplica(broker=BrokerId(3), gone_uuid=uuid))
    assert log.cluster.brokers[BrokerId(3)].rack == "b"
    log.apply(replace(register(3, uuid=NEW, feature_max=3), rack="d"))
    assert log.cluster.brokers[BrokerId(3)].rack == "d"


def test_a_checkpoint_holds_racks_and_what_was_placed() -> None:
    log = at_level_3(replace(joins(3), rack="zone-1 ä"), made(ids(3), ids(0, 1, 3)))
    log.apply(MovePartition(topic_id=ID, partition=0, voters=ids(2)))
    twin = ControllerMachine()
    twin.restore(log.machine.image().encode())
    assert twin.cluster == log.cluster
    assert twin.state_hash() == log.machine.state_hash()
