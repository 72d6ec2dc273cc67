"""What the balancer plans (ADR 47), against an oracle that counts by itself, and who may be decommissioned."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.controller import balancing
from muster_coordinator.controller.balancing import AVOIDED, STUCK_MAX, Plan, plan, preferring, voters_without
from muster_coordinator.controller.commands import (
    CompleteMove,
    DecommissionBroker,
    FinalizeFeatures,
    MovePartition,
    PauseBalancer,
    ReplaceReplica,
)
from muster_coordinator.controller.image import EMPTY_ID, Broker, ClusterImage, Move, Partition, Topic
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.controller.moves import complete_move, move_partition
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo, MemberNo

from tests.controller.cluster_commands import VOTERS, Log, form, register, topic_id
from tests.controller.test_joining_brokers import joins
from tests.controller.test_placement import ID, ids, made
from tests.controller.test_replacement import at_level_3
from tests.controller.test_transitions import refused

EVERYTHING = 10_000
Places = Sequence[Sequence[int]]


def broker(number: int, rack: str, *, departing: bool = False, bound: bool = True) -> Broker:
    return Broker(
        broker=BrokerId(number),
        replica_uuid=bytes([number + 1]) * 16 if bound else EMPTY_ID,
        incarnation=1,
        endpoints=(),
        admin="",
        draining=False,
        feature_max=3,
        rack=rack,
        departing=departing,
    )


def image_of(racks: Sequence[str], places: Places, *, departing: Collection[int] = ()) -> ClusterImage:
    """Broker i in `racks[i]`, and one topic whose partitions are placed so."""
    brokers = {BrokerId(at): broker(at, rack, departing=at in departing) for at, rack in enumerate(racks)}
    partitions = tuple(
        Partition(group=GroupNo(100 + at), members=tuple(map(MemberNo, place)), placed=True)
        for at, place in enumerate(places)
    )
    topic = Topic(name="t", topic_id=ID, partitions=partitions, configs=(), internal=False)
    image = at_level_3().cluster
    return replace(
        image,
        voters=ids(0),
        brokers=MappingProxyType(brokers),
        topics=MappingProxyType({"t": topic}),
        names_by_id=MappingProxyType({ID: "t"}),
    )


def carried_out(image: ClusterImage, planned: Plan) -> ClusterImage:
    """The image after these moves, each by the rules of the controller's log."""
    for move in planned.moves:
        topic = image.topics[move.topic]
        before = topic.partitions[move.partition]
        moved = complete_move(move_partition(image, before, move.voters), move.voters)
        assert moved.voters == move.voters
        assert len(moved.voters) == len(before.voters)
        assert move.copies == (set(before.voters) != set(move.voters))
        assert not before.moves or before.voters != move.voters
        partitions = (*topic.partitions[: move.partition], moved, *topic.partitions[move.partition + 1 :])
        image = replace(image, topics={move.topic: replace(topic, partitions=partitions)})
    return image


def partitions_of(image: ClusterImage) -> tuple[Partition, ...]:
    return image.topics["t"].partitions


# The oracle: what is left to do, counted from the image alone.


def replicas(image: ClusterImage) -> Counter[int]:
    return Counter(voter for partition in partitions_of(image) for voter in partition.voters)


def leaders(image: ClusterImage) -> Counter[int]:
    return Counter(partition.preferred for partition in partitions_of(image))


def racks_of(image: ClusterImage, voters: Collection[int]) -> int:
    return len({image.brokers[BrokerId(voter)].rack for voter in voters})


def could_be_levelled(image: ClusterImage, takers: Collection[int], reachable: Collection[int] = ()) -> list[str]:
    """Single moves that would bring two brokers closer, and cost no partition a rack. `reachable`: the others cannot
    be part of the majority that a move needs."""
    held = replicas(image)
    return [
        f"{number}: {giver} to {taker}"
        for number, partition in enumerate(partitions_of(image))
        if 2 * len(set(partition.voters) & set(reachable or takers)) > len(partition.voters)
        for giver in set(partition.voters) & set(takers)
        for taker in set(takers) - set(partition.voters)
        if held[giver] - held[taker] > 1
        and racks_of(image, {*partition.voters, BrokerId(taker)} - {giver}) >= racks_of(image, partition.voters)
    ]


def could_be_led_more_evenly(image: ClusterImage, takers: Collection[int], reachable: Collection[int] = ()) -> bool:
    """A chain of hand-overs from a broker to one that leads at least two fewer (Floyd and Warshall's closure)."""
    reach = {(a, b): False for a in takers for b in takers}
    for partition in partitions_of(image):
        for voter in partition.voters:
            if 2 * len(set(partition.voters) & set(reachable or takers)) <= len(partition.voters):
                continue
            if (partition.preferred, voter) in reach:
                reach[partition.preferred, voter] = True
    for via in takers:
        for a in takers:
            for b in takers:
                reach[a, b] |= reach[a, via] and reach[via, b]
    led = leaders(image)
    return any(reach[a, b] and led[a] - led[b] > 1 for a, b in reach)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterImage:
    """Up to nine brokers in up to four racks, some of which are to leave, with partitions wherever."""
    count = draw(st.integers(1, 9))
    names = st.sampled_from(draw(st.sampled_from(("a", "ab", "abc", "abcd"))))
    racks = draw(st.lists(names, min_size=count, max_size=count))
    factors = [factor for factor in (1, 3, 5) if factor <= count]
    place = st.sampled_from(factors).flatmap(
        lambda factor: st.permutations(range(count)).map(lambda order: tuple(order[:factor]))
    )
    places = draw(st.lists(place, max_size=24))
    departing = draw(st.sets(st.integers(0, count - 1), max_size=2))
    return image_of(racks, places, departing=departing)


def test_who_is_away_gets_nothing_of_who_is_to_leave() -> None:
    """Broker 0 is to leave; of the two that could take what it holds, only one is there."""
    image = image_of(["", "", "", "", ""], [(0, 1, 2)], departing=[0])
    for away, taker in ((3, 4), (4, 3)):
        (move,) = plan(image, image.brokers.keys() - {away}, EVERYTHING).moves
        assert set(move.voters) == set(ids(1, 2, taker))


@given(clusters(), st.data())
def test_a_plan_empties_who_is_to_leave_spreads_over_racks_and_levels(image: ClusterImage, data: st.DataObject) -> None:
    away = data.draw(st.sets(st.sampled_from(sorted(image.brokers)), max_size=1))
    reachable = image.brokers.keys() - away
    planned = plan(image, reachable, EVERYTHING)
    after = carried_out(image, planned)
    takers = [number for number in reachable if not image.brokers[number].departing]
    stay = {number for number in image.brokers if not image.brokers[number].departing}
    for before, partition in zip(partitions_of(image), partitions_of(after), strict=True):
        assert set(partition.voters) <= set(before.voters) | set(takers), "nobody else gets a replica"
        left = set(partition.voters) - stay
        without_leader = 2 * len(set(before.voters) & reachable) <= len(before.voters)
        nobody_else = not set(takers) - set(partition.voters)
        assert not left or nobody_else or without_leader, "it stays only where nobody could take or move it"
        assert not without_leader or partition.voters == before.voters
        assert left <= set(before.voters)
        remain = set(before.voters) & stay
        assert racks_of(image, partition.voters) >= racks_of(image, remain), "no move costs a rack of those that stay"
        if (
            not left
            and not without_leader
            and len(partition.voters) <= racks_of(image, takers)
            and set(partition.voters) <= set(takers)
        ):
            assert racks_of(image, partition.voters) == len(partition.voters), "each in a rack of its own"
    assert bool(planned.stuck) == any(set(partition.voters) - stay for partition in partitions_of(after))
    assert not could_be_levelled(after, takers, reachable)
    assert not could_be_led_more_evenly(after, takers, reachable)
    assert not plan(after, reachable, EVERYTHING).moves, "and there it ends"


@given(clusters(), st.integers(1, 5))
def test_a_few_at_a_time_and_planned_anew_it_ends_level_too(image: ClusterImage, at_once: int) -> None:
    whole = plan(image, image.brokers, EVERYTHING)
    first = plan(image, image.brokers, at_once)
    assert first.moves == whole.moves[:at_once]
    assert first.more == (len(whole.moves) > at_once)
    for _ in range(len(whole.moves) + 1):
        planned = plan(image, image.brokers, at_once)
        image = carried_out(image, planned)
    assert not plan(image, image.brokers, at_once).moves


@given(clusters())
def test_the_same_image_gives_the_same_plan_in_whatever_order_it_is_held(image: ClusterImage) -> None:
    turned = replace(image, brokers=dict(reversed(image.brokers.items())))
    assert plan(turned, list(reversed(turned.brokers)), EVERYTHING) == plan(image, image.brokers, EVERYTHING)


@given(clusters())
def test_without_levelling_only_those_that_are_to_leave_lose_replicas(image: ClusterImage) -> None:
    planned = plan(image, image.brokers, EVERYTHING, level=False)
    whole = plan(image, image.brokers, EVERYTHING)
    assert planned.moves == whole.moves[: len(planned.moves)], "they are the first of the whole plan"
    for move in planned.moves:
        assert "is to leave" in move.reason
    stay = {number for number in image.brokers if not image.brokers[number].departing}
    for before, after in zip(partitions_of(image), partitions_of(carried_out(image, planned)), strict=True):
        assert set(before.voters) & stay <= set(after.voters)


@given(st.integers(3, 7), st.integers(0, 60))
def test_no_more_is_copied_than_levelling_takes(count: int, partitions: int) -> None:
    """Three brokers have everything, the others joined: each of these gets its share, and nothing is moved twice."""
    image = image_of([""] * count, [(0, 1, 2)] * partitions)
    moves = [move for move in plan(image, image.brokers, EVERYTHING).moves if move.copies]
    share = 3 * partitions // count
    assert len(moves) <= sum(max(0, partitions - share) for _ in range(3))
    assert len({(move.partition, move.voters) for move in moves}) == len(moves)
    held = replicas(carried_out(image, plan(image, image.brokers, EVERYTHING)))
    assert max(held.values(), default=0) - min(held[number] for number in range(count)) <= 1


def test_seven_brokers_in_three_racks_are_level_in_each_rack() -> None:
    """150 partitions of three replicas: each has one in each rack, and brokers of a rack have equally many."""
    racks = ["a", "a", "a", "b", "b", "c", "c"]
    image = image_of(racks, [(at % 3, 3, 5) for at in range(150)])
    after = carried_out(image, plan(image, image.brokers, EVERYTHING))
    assert all(racks_of(after, partition.voters) == 3 for partition in partitions_of(after))
    held, led = replicas(after), leaders(after)
    assert [held[number] for number in range(7)] == [50, 50, 50, 75, 75, 75, 75]
    assert max(led.values()) - min(led.values()) <= 1


def test_preference_goes_through_others_where_two_brokers_share_no_partition() -> None:
    """Broker 0 is preferred by two partitions and broker 3 by none; no partition is on both, and no two brokers that
    share one differ by more than one."""
    image = image_of([""] * 5, [(0, 1, 2)] * 2 + [(1, 3, 4), (2, 3, 4), (4, 1, 2)])
    moves = tuple(balancing.Planner(image, image.brokers)._level_leaders())
    after = carried_out(image, Plan(moves))
    assert sorted(leaders(after).values()) == [1, 1, 1, 1, 1]
    assert [set(move.voters) for move in moves] == [set(partitions_of(image)[move.partition].voters) for move in moves]
    assert not could_be_led_more_evenly(after, range(5))


def test_a_partition_on_its_way_is_left_alone_unless_it_is_on_its_way_to_one_that_is_to_leave() -> None:
    image = image_of(["", "", "", "", ""], [(0, 1, 2)] * 4)
    moving = move_partition(image, partitions_of(image)[0], ids(0, 1, 3))
    topic = replace(image.topics["t"], partitions=(moving, *partitions_of(image)[1:]))
    image = replace(image, topics={"t": topic})
    assert all(move.partition != 0 for move in plan(image, image.brokers, EVERYTHING).moves)
    leaves = {**image.brokers, BrokerId(3): broker(3, "", departing=True)}
    first = plan(replace(image, brokers=leaves), leaves, EVERYTHING).moves[0]
    assert (first.partition, first.voters, first.reason) == (0, ids(0, 1, 4), "broker 3 is to leave")


def test_offsets_partitions_are_moved_as_all_others() -> None:
    """Four of them, on three brokers; the fourth gets its share of three."""
    log = at_level_3(joins(3))
    moves = [move for move in plan(log.cluster, log.cluster.brokers, EVERYTHING).moves if move.copies]
    assert [move.topic for move in moves] == ["__consumer_offsets"] * 3
    assert [move.partition for move in moves] == sorted({move.partition for move in moves})
    for move in moves:
        assert 3 in move.voters
        command = MovePartition(topic_id=move.topic_id, partition=move.partition, voters=move.voters)
        assert log.apply(command).error == Code.NONE


def test_what_cannot_leave_is_told_a_few_times() -> None:
    image = image_of(["", "", ""], [(0, 1, 2)] * (STUCK_MAX + 3), departing=[2])
    planned = plan(image, image.brokers, EVERYTHING)
    assert all(2 in partition.voters for partition in partitions_of(carried_out(image, planned)))
    assert len(planned.stuck) == STUCK_MAX
    assert planned.stuck[0] == "t-0 stays on broker 2: every broker that can be reached has it"


@given(clusters(), st.data())
def test_what_is_avoided_is_copied_nowhere_by_any_kind_of_move(image: ClusterImage, data: st.DataObject) -> None:
    every = [(partition.group, broker) for partition in partitions_of(image) for broker in image.brokers]
    avoided = data.draw(st.sets(st.sampled_from(every))) if every else set()
    planned = plan(image, image.brokers, EVERYTHING, avoided=avoided)
    after = carried_out(image, planned)
    for before, partition in zip(partitions_of(image), partitions_of(after), strict=True):
        came = set(partition.voters) - set(before.voters)
        assert not {(partition.group, broker) for broker in came} & avoided
    alone = plan(image, image.brokers, EVERYTHING, avoided=every)
    assert not any(move.copies for move in alone.moves)


def test_who_has_no_room_for_what_is_to_leave_is_passed_over_and_told() -> None:
    image = image_of(["a", "b", "c"], [(0,), (0,)], departing=[0])
    first, second = (partition.group for partition in partitions_of(image))
    planned = plan(image, image.brokers, EVERYTHING, avoided=[(first, BrokerId(1))])
    assert {move.partition: move.voters for move in planned.moves} == {0: ids(2), 1: ids(1)}
    every = [(group, BrokerId(broker)) for group in (first, second) for broker in (1, 2)]
    [told, _] = plan(image, image.brokers, EVERYTHING, avoided=every).stuck
    assert told == f"t-0 stays on broker 0: {AVOIDED}"


def test_what_has_no_majority_stays_and_says_so_and_holds_up_nothing() -> None:
    """Broker 3 died with the only replica of one partition; of another it was one of three."""
    image = image_of([""] * 5, [(3,), (0, 1, 3)], departing=[3])
    planned = plan(image, ids(0, 1, 2, 4), 1)
    assert [(move.partition, move.voters) for move in planned.moves] == [(1, ids(0, 1, 2))]
    whole = plan(image, ids(0, 1, 2, 4), EVERYTHING)
    assert whole.stuck == ("t-0 stays on broker 3: no majority of its replicas is connected",)
    back = plan(image, ids(0, 1, 2, 4), EVERYTHING, connected=image.brokers)
    assert (back.stuck, back.moves[0].partition) == ((), 0), "it may be brought along when it is back"


def test_one_without_a_folder_gets_nothing() -> None:
    image = image_of(["", "", "", ""], [(0, 1, 2)] * 4)
    image = replace(image, brokers={**image.brokers, BrokerId(3): broker(3, "", bound=False)})
    assert not any(move.copies for move in plan(image, image.brokers, EVERYTHING).moves)


@pytest.mark.parametrize("placed", [True, False])
def test_a_leader_is_preferred_by_the_order_of_the_replicas(placed: bool) -> None:
    partition = Partition(group=GroupNo(8), members=tuple(map(MemberNo, (4, 5, 6))), placed=placed)
    for leader in ids(4, 5, 6):
        order = preferring(partition, leader)
        assert sorted(order) == [4, 5, 6]
        assert replace(partition, move=Move(order)).preferred == leader


def test_a_move_is_planned_in_one_pass_over_the_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller's leader does it on its loop: of 2,000 partitions none is judged twice for one move, whichever
    brokers differ, and counting reads each once."""
    judged = Counter[str]()
    may_go, add = balancing.Planner._may_go, balancing.Planner._add

    def may_go_counted(self: balancing.Planner, *args: Any) -> bool:
        judged["may go"] += 1
        return may_go(self, *args)

    def add_counted(self: balancing.Planner, *args: Any) -> None:
        judged["add"] += 1
        add(self, *args)

    monkeypatch.setattr(balancing.Planner, "_may_go", may_go_counted)
    monkeypatch.setattr(balancing.Planner, "_add", add_counted)
    image = image_of([""] * 6, [(0, 1, 2)] * 2_000)
    planner = balancing.Planner(image, image.brokers)
    assert judged["add"] == 2_000
    for _ in range(20):
        judged.clear()
        assert next(planner).copies
        assert judged["may go"] <= 2_000
        assert judged["add"] == 2


# The controller's group.


def test_another_broker_votes_in_the_place_of_one_that_is_to_leave() -> None:
    image = replace(image_of(["a", "b", "c", "a", "b"], [], departing=[1]), voters=ids(0, 1, 2))
    assert voters_without(image, image.brokers) == (0, 4, 2), "in the rack that nobody else votes in"
    assert voters_without(image, ids(0, 2, 3)) == (0, 3, 2), "or in any, if that is away"
    assert voters_without(image, ids(0, 2)) is None
    two = replace(image_of(["a", "b", "c", "a", "b"], [], departing=[0, 1]), voters=ids(0, 1, 2))
    assert voters_without(two, two.brokers) == (3, 4, 2)
    assert voters_without(two, ids(2, 4)) is None, "for one of them"
    nobody = replace(image_of([""] * 4, [], departing=[3]), voters=ids(0, 1, 2))
    assert voters_without(nobody, ()) == (0, 1, 2), "who leaves has no vote"
    unknown = replace(nobody, voters=ids(0, 1, 9))
    assert voters_without(unknown, nobody.brokers) == (0, 1, 9), "one that has never registered is not to leave"


# Decommission and pause.


def leaves(number: int, *, departing: bool = True, uuid: bytes | None = None) -> DecommissionBroker:
    return DecommissionBroker(
        broker=BrokerId(number), replica_uuid=uuid or bytes([number + 1]) * 16, departing=departing
    )


FOLDER_OF_3 = joins(3).replica_uuid


def test_a_broker_is_marked_and_may_stay_after_all() -> None:
    log = at_level_3(joins(3), made(ids(0, 1, 3)))
    asked = leaves(3, uuid=FOLDER_OF_3)
    assert log.apply(asked).error == Code.NONE
    assert log.cluster.brokers[BrokerId(3)].departing
    brokers = log.cluster.brokers
    assert log.apply(asked).error == Code.NONE
    assert log.cluster.brokers is brokers, "a repetition changes nothing"
    assert log.apply(replace(asked, departing=False)).error == Code.NONE
    assert not log.cluster.brokers[BrokerId(3)].departing


def test_the_mark_outlives_a_restart_and_a_lost_folder_but_not_the_broker() -> None:
    log = at_level_3(joins(3), leaves(3, uuid=FOLDER_OF_3))
    log.apply(replace(joins(3), incarnation=7))
    assert log.cluster.brokers[BrokerId(3)].departing, "a start changes no wish"
    log.apply(ReplaceReplica(broker=BrokerId(3), gone_uuid=FOLDER_OF_3))
    assert log.cluster.brokers[BrokerId(3)].departing
    twin = ControllerMachine()
    twin.restore(log.machine.image().encode())
    assert twin.cluster == log.cluster
    assert twin.state_hash() == log.machine.state_hash()


def test_whose_vote_nobody_could_have_or_who_is_another_one_is_refused() -> None:
    alone = at_level_3()
    words = refused(alone, leaves(1), Code.POLICY_VIOLATION)
    assert words == "the controller's group has 3 voters, and 2 brokers would be left for them"
    log = at_level_3(joins(3))
    assert log.apply(leaves(1)).error == Code.NONE
    assert "is not registered" in refused(log, leaves(9), Code.BROKER_ID_NOT_REGISTERED)
    assert "is bound to data folder" in refused(log, leaves(3, uuid=b"x" * 16), Code.INVALID_REQUEST)


def test_so_many_brokers_stay_that_every_replica_has_a_place() -> None:
    log = at_level_3(joins(3), joins(4), made(ids(0, 1, 2, 3, 4)))
    words = refused(log, leaves(4, uuid=joins(4).replica_uuid), Code.POLICY_VIOLATION)
    assert words == "t-0 has 5 replicas, and 4 brokers would be left for them"
    log.apply(MovePartition(topic_id=topic_id(1), partition=0, voters=ids(0, 1, 4)))
    log.apply(CompleteMove(topic_id=topic_id(1), partition=0, voters=ids(0, 1, 4)))
    assert log.apply(leaves(4, uuid=joins(4).replica_uuid)).error == Code.NONE
    assert log.apply(leaves(3, uuid=FOLDER_OF_3)).error == Code.NONE, "it has nothing"


def test_the_balancer_is_paused_for_the_whole_cluster_and_in_its_checkpoint() -> None:
    log = at_level_3()
    for paused in (True, False):
        assert log.apply(PauseBalancer(paused=paused)).error == Code.NONE
        assert log.cluster.balancer_paused is paused
        twin = ControllerMachine()
        twin.restore(log.machine.image().encode())
        assert twin.cluster == log.cluster


def test_below_its_level_nothing_of_it_is_written() -> None:
    for level in (1, 2):
        log = Log(form(feature_level=level), *(register(voter, feature_max=3) for voter in VOTERS))
        for command, what in ((leaves(1), "decommissioning a broker"), (PauseBalancer(paused=True), "balancing")):
            words = f"{what} needs feature level 3; the cluster has {level}"
            assert refused(log, command, Code.UNSUPPORTED_VERSION) == words
            early = level_refusal(log.cluster, command)
            assert early is not None
            assert early.message == words
        log.apply(FinalizeFeatures(feature_level=3))
        assert log.apply(PauseBalancer(paused=True)).error == Code.NONE
