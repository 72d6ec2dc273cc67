"""How many replicas every Raft group is to have (ADR 48): the rules of the wish, and the plans that it ends in, against
an oracle that looks at the image alone."""

from collections.abc import Collection
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.controller.balancing import plan, voters_resized
from muster_coordinator.controller.commands import (
    AddPartitions,
    CancelMove,
    Command,
    CompleteMove,
    DecommissionBroker,
    MovePartition,
    SetControllerVoters,
    SetReplicationFactor,
)
from muster_coordinator.controller.image import OFFSETS_TOPIC, ClusterImage, Topic
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.controller.moves import complete_move, move_partition
from muster_coordinator.controller.placement import default_factor
from muster_coordinator.controller.replication import kept, remaining
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.errors import Code, Corruption
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.ids import BrokerId

from tests.controller.cluster_commands import Log, create, form, register, topic_id
from tests.controller.test_balancing import EVERYTHING, clusters, image_of, partitions_of
from tests.controller.test_joining_brokers import joins
from tests.controller.test_placement import ids
from tests.controller.test_replacement import at_level_3
from tests.controller.test_transitions import refused


def factor(number: int, *topics: bytes, every: bool = False) -> SetReplicationFactor:
    return SetReplicationFactor(factor=number, topics=topics, every_topic=every)


def of_one(*more: Command) -> Log:
    """One broker formed the cluster, four have joined; a topic of two partitions is on the first."""
    founder = form(voters=ids(0), partitions=2, feature_level=3)
    others = (register(0, feature_max=3), create("t", n=1, partitions=2), joins(1), joins(2), joins(3), joins(4))
    return Log(founder, *others, *more)


def wishes(log: Log) -> dict[str, int]:
    return {name: topic.replication_wanted for name, topic in log.cluster.topics.items()}


def carry_out(log: Log, *, most: int = EVERYTHING, complete: bool = True) -> None:
    """The next moves of the plan, as commands, and the controller's voters."""
    image = log.cluster
    for move in plan(image, image.brokers, most, level=False).moves:
        command = MovePartition(topic_id=move.topic_id, partition=move.partition, voters=move.voters)
        assert log.apply(command).error == Code.NONE
        if complete:
            done = CompleteMove(topic_id=move.topic_id, partition=move.partition, voters=move.voters)
            assert log.apply(done).error == Code.NONE
    if log.cluster.controller_voters_wanted:
        voters = voters_resized(log.cluster, log.cluster.brokers, log.cluster.brokers, BrokerId(0))
        assert not isinstance(voters, str), voters
        assert log.apply(SetControllerVoters(voters=voters)).error == Code.NONE


def sizes(log: Log) -> dict[str, list[int]]:
    return {name: [len(place.voters) for place in topic.partitions] for name, topic in log.cluster.topics.items()}


def test_a_move_that_is_cancelled_for_want_of_room_ends_no_wish() -> None:
    """Unlike one that a person takes back: it is asked for again, and may go elsewhere."""
    log = of_one(factor(3))
    carry_out(log, complete=False)
    topic = log.cluster.topics["t"]
    was = topic.partitions[0].voters
    assert wishes(log)["t"] == 0, "all are on their way"
    log.apply(CancelMove(topic_id=topic.topic_id, partition=0, voters=was))
    assert wishes(log)["t"] == 3
    log.apply(CancelMove(topic_id=topic.topic_id, partition=1, voters=topic.partitions[1].voters))
    assert wishes(log)["t"] == 3
    assert sizes(log)["t"] == [1, 1]
    carry_out(log, complete=False)
    assert log.cluster.topics["t"] == topic
    log.apply(CancelMove(topic_id=topic.topic_id, partition=0, voters=was))
    lacked = (topic.partitions[0].group, was[1])
    image = log.cluster
    [again] = [
        one.voters
        for one in plan(image, image.brokers, EVERYTHING, level=False, avoided=[lacked]).moves
        if (one.topic, one.partition) == ("t", 0)
    ]
    assert len(again) == 3
    assert was[1] not in again
    log.apply(MovePartition(topic_id=topic.topic_id, partition=0, voters=again))
    log.apply(MovePartition(topic_id=topic.topic_id, partition=0, voters=()))
    assert wishes(log)["t"] == 0, "a person took it back"


def test_of_partitions_that_differ_a_cancelled_move_makes_no_wish() -> None:
    log = of_one()
    topic = log.cluster.topics["t"]
    log.apply(MovePartition(topic_id=topic.topic_id, partition=0, voters=ids(0, 1, 2)))
    log.apply(CancelMove(topic_id=topic.topic_id, partition=0, voters=ids(0, 1, 2)))
    assert (wishes(log)["t"], sizes(log)["t"]) == (0, [1, 1]), "the other one has another number"
    log.apply(MovePartition(topic_id=topic.topic_id, partition=0, voters=ids(1)))
    log.apply(CancelMove(topic_id=topic.topic_id, partition=0, voters=ids(1)))
    assert (wishes(log)["t"], sizes(log)["t"]) == (0, [1, 1]), "it has the number that it was to have"


def test_one_replica_of_everything_becomes_three_and_five_by_one_command_each() -> None:
    log = of_one()
    for number in (3, 5, 3, 1):
        assert log.apply(factor(number, every=number < 5)).error == Code.NONE
        assert wishes(log) == {OFFSETS_TOPIC: number, "t": number}
        assert remaining(log.cluster) == (4, 0, number)
        carry_out(log)
        assert sizes(log) == {OFFSETS_TOPIC: [number] * 2, "t": [number] * 2}
        assert len(log.cluster.voters) == number
        assert 0 in log.cluster.voters, "its leader goes on"
        assert remaining(log.cluster).none
        assert wishes(log) == {OFFSETS_TOPIC: 0, "t": 0}, "what is fulfilled is no wish any more"
        assert default_factor(log.cluster, 3) == number, "and topics that come later have as many"


def test_who_has_a_partition_keeps_it_and_leads_it() -> None:
    log = of_one(factor(5))
    carry_out(log)
    assert {place.voters[0] for topic in log.cluster.topics.values() for place in topic.partitions} == {0}
    log.apply(factor(1, every=True))
    carry_out(log)
    assert {place.voters for topic in log.cluster.topics.values() for place in topic.partitions} == {(0,)}


def test_topics_give_replicas_away_only_when_they_are_named_or_all_are() -> None:
    log = of_one(factor(3))
    carry_out(log)
    log.apply(factor(1))
    assert wishes(log) == {OFFSETS_TOPIC: 1, "t": 0}
    assert list(kept(log.cluster, 1)) == ["t"]
    assert (log.cluster.replication_factor, log.cluster.controller_voters_wanted) == (1, 1)
    carry_out(log)
    log.apply(factor(1, topic_id(1)))
    assert wishes(log) == {OFFSETS_TOPIC: 0, "t": 1}


def test_named_topics_concern_nothing_else() -> None:
    log = of_one(create("u", n=2), factor(3, topic_id(2)))
    assert wishes(log) == {OFFSETS_TOPIC: 0, "t": 0, "u": 3}
    assert (log.cluster.replication_factor, log.cluster.controller_voters_wanted) == (0, 0)
    carry_out(log)
    assert sizes(log)["u"] == [3]
    assert len(log.cluster.voters) == 1


def test_a_wish_is_replaced_and_repeated_without_harm() -> None:
    log = of_one(factor(3))
    before = log.cluster
    log.apply(factor(3))
    assert (log.cluster.topics, log.cluster.controller_voters_wanted) == (before.topics, 3)
    carry_out(log, most=1, complete=False)
    log.apply(factor(5))
    carry_out(log)
    assert remaining(log.cluster) == (0, 0, 0)
    assert sizes(log) == {OFFSETS_TOPIC: [5, 5], "t": [5, 5]}


def test_a_wish_that_is_taken_back_ends_moves_under_way_where_the_data_is() -> None:
    log = of_one(factor(3))
    carry_out(log, complete=False)
    assert remaining(log.cluster) == (0, 4, 0)
    log.apply(factor(1, every=True))
    carry_out(log)
    assert {place.voters for topic in log.cluster.topics.values() for place in topic.partitions} == {(0,)}


def test_what_a_person_says_last_holds() -> None:
    log = of_one(factor(3))
    move = MovePartition(topic_id=topic_id(1), partition=0, voters=ids(1, 2, 3, 4, 0))
    assert log.apply(move).error == Code.NONE
    assert wishes(log) == {OFFSETS_TOPIC: 3, "t": 0}
    log.apply(SetControllerVoters(voters=ids(*range(5))))
    assert log.cluster.controller_voters_wanted == 0
    kept_count = of_one(factor(3))
    kept_count.apply(MovePartition(topic_id=topic_id(1), partition=0, voters=ids(4)))
    kept_count.apply(SetControllerVoters(voters=ids(4)))
    assert (wishes(kept_count)["t"], kept_count.cluster.controller_voters_wanted) == (3, 3), "another broker, no more"


def test_a_partition_that_is_added_meanwhile_gets_as_many() -> None:
    log = of_one(factor(3))
    assert log.apply(AddPartitions(topic_id=topic_id(1), total=3, placed=(ids(4),))).error == Code.NONE
    carry_out(log)
    assert sizes(log)["t"] == [3, 3, 3]
    assert remaining(log.cluster).none


@pytest.mark.parametrize("number", [-1, 0, 2, 4, 6, 7, 2**31 - 1, -(2**31)])
def test_a_number_that_no_group_has_is_refused(number: int) -> None:
    assert "1, 3 or 5" in refused(of_one(), factor(number), Code.INVALID_REPLICATION_FACTOR)


def test_too_few_brokers_and_unknown_topics_are_refused() -> None:
    small = Log(form(voters=ids(0), feature_level=3), register(0, feature_max=3), joins(1))
    said = refused(small, factor(3), Code.INVALID_REPLICATION_FACTOR)
    assert said == "3 replicas need as many brokers; 2 can take one"
    assert "no topic" in refused(of_one(), factor(3, topic_id(9)), Code.UNKNOWN_TOPIC_ID)


def test_below_its_level_it_is_refused() -> None:
    log = Log(form(feature_level=2), register(0, feature_max=3))
    assert "changing the replication factor needs" in refused(log, factor(3), Code.UNSUPPORTED_VERSION)
    assert level_refusal(None, factor(3)) is not None
    assert level_refusal(at_level_3().cluster, factor(3)) is None


def test_a_broker_that_is_needed_for_the_wish_may_not_leave() -> None:
    three = Log(form(voters=ids(0), feature_level=3), register(0, feature_max=3), joins(1), joins(2), factor(3))
    for broker, uuid in ((0, bytes([1]) * 16), (1, bytes([101]) * 16)):  # also one that has nothing yet
        leaves = DecommissionBroker(broker=BrokerId(broker), replica_uuid=uuid, departing=True)
        assert "has 3 voters, and 2 brokers would be left" in refused(three, leaves, Code.POLICY_VIOLATION)


def test_the_wish_is_in_the_checkpoint_and_a_flipped_one_is_damage() -> None:
    log = of_one(create("u", n=2), factor(3), factor(5, topic_id(2)))
    body = log.machine.image().encode()
    machine = ControllerMachine()
    machine.restore(body)
    assert machine.cluster == log.cluster
    assert machine.image().encode() == body
    wish = b"\x00\x00\x00\x01u\x05"
    assert body.head.count(wish) == 1
    for damaged in (b"\x00\x00\x00\x01u\x04", b"\x00\x00\x00\x01w\x05", b"\x00\x00\x00\x01u\x00"):
        with pytest.raises(Corruption):
            ControllerMachine().restore(CheckpointBody(body.head.replace(wish, damaged), ()))


# Plans.


def wanting(image: ClusterImage, number: int) -> ClusterImage:
    topic = image.topics["t"]
    return replace(image, topics=MappingProxyType({"t": replace(topic, replication_wanted=number)}))


def after(image: ClusterImage, most: int, reachable: list[BrokerId]) -> ClusterImage:
    """The image after the next moves, by the rules of the controller's log."""
    for move in plan(image, reachable, most, connected=reachable, level=False).moves:
        topic: Topic = image.topics["t"]
        before = topic.partitions[move.partition]
        moved = complete_move(move_partition(image, before, move.voters), move.voters)
        places = (*topic.partitions[: move.partition], moved, *topic.partitions[move.partition + 1 :])
        image = replace(image, topics=MappingProxyType({"t": replace(topic, partitions=places)}))
    return image


def racks(image: ClusterImage, brokers: Collection[BrokerId]) -> int:
    return len({image.brokers[broker].rack for broker in brokers})


@given(clusters(), st.sampled_from((1, 3, 5)), st.data())
def test_every_partition_that_can_gets_as_many_replicas_as_it_is_to_have(
    image: ClusterImage, number: int, data: st.DataObject
) -> None:
    away = data.draw(st.sets(st.sampled_from(sorted(image.brokers)), max_size=1))
    image = wanting(replace(image, brokers={n: replace(b, departing=False) for n, b in image.brokers.items()}), number)
    reachable = sorted(image.brokers.keys() - away)
    whole = after(image, EVERYTHING, reachable)
    stepwise = image
    for _ in partitions_of(image):
        stepwise = after(stepwise, 1, reachable)
    assert whole.topics == stepwise.topics, "planned anew after each move it ends at the same"
    stuck = 0
    for before, now in zip(partitions_of(image), partitions_of(whole), strict=True):
        have = {*before.voters}
        could = {*reachable, *have} if number > len(have) else {*reachable} & have
        if len(have) == number or 2 * len(have & {*reachable}) <= len(have) or len(could) < number:
            stuck += len(have) != number
            assert now.voters == before.voters
            continue
        assert len(now.voters) == number
        if number > len(have):
            assert have < {*now.voters}, "who has it keeps it"
            assert {*now.voters} - have <= {*reachable}
            others = {image.brokers[broker].rack for broker in reachable} - {image.brokers[b].rack for b in have}
            assert racks(image, now.voters) == racks(image, have) + min(number - len(have), len(others))
        else:
            assert {*now.voters} <= have & {*reachable}
            assert racks(image, now.voters) == min(number, racks(image, have & {*reachable}))
            assert before.preferred in now.voters or before.preferred in away
        assert now.preferred == before.preferred or before.preferred in away
    assert bool(plan(image, reachable, EVERYTHING, connected=reachable, level=False).stuck) == bool(stuck)


def test_it_says_why_there_are_not_more() -> None:
    image = wanting(image_of(["", "", "", "", "", ""], [(0,)], departing=[1]), 5)
    planned = plan(image, ids(0, 2), 1, connected=ids(0, 2, 3))
    assert not planned.moves
    told = (
        "broker 1 is to leave, broker 3 has no room on its disk, broker 4 is not connected, broker 5 is not connected"
    )
    assert planned.stuck == (f"t-0 has 1 replicas of 5: no other broker can take a replica: {told}",)
    lost = wanting(image_of([""] * 3, [(0, 1, 2)]), 1)
    stuck = plan(lost, ids(0), 1, connected=ids(0)).stuck
    assert stuck == ("t-0 has 3 replicas of 1: no majority of them is connected",)
    named = "broker 1 is to leave, broker 2 is to leave, broker 3 is not connected"
    left = wanting(image_of([""] * 5, [(0, 1, 2, 3, 4)], departing=[1, 2]), 3)
    assert plan(left, ids(0, 1, 2, 4), 1).stuck[-1] == (
        f"t-0 has 5 replicas of 3: too few of its replicas can be relied on: {named}"
    )


def test_a_draining_broker_and_one_of_a_full_rack_are_taken_last() -> None:
    image = wanting(image_of(["a", "a", "b", "b", "c"], [(0,), (2,)]), 3)
    drains = {**image.brokers, BrokerId(4): replace(image.brokers[BrokerId(4)], draining=True)}
    first = plan(replace(image, brokers=drains), image.brokers, 1).moves[0]
    assert first.voters == (0, 3, 1), "the other rack first, there who has fewer; and no one that is about to stop"
    assert plan(image, image.brokers, 1).moves[0].voters == (0, 4, 3)


def controllers(voters: int, wanted: int, *, racks: str = "aabbc", departing: tuple[int, ...] = ()) -> ClusterImage:
    image = image_of(list(racks), [], departing=departing)
    return replace(image, voters=ids(*range(voters)), controller_voters_wanted=wanted)


def test_the_controllers_group_spreads_over_racks_and_keeps_its_leader() -> None:
    everybody = ids(*range(5))
    assert voters_resized(controllers(1, 3), everybody, everybody, BrokerId(0)) == (0, 2, 4)
    assert voters_resized(controllers(5, 3), everybody, everybody, BrokerId(1)) == (1, 2, 4)
    assert voters_resized(controllers(5, 1), everybody, everybody, BrokerId(3)) == (3,)
    assert voters_resized(controllers(5, 3, departing=(0, 4)), everybody, everybody, BrokerId(0)) == (1, 2, 3)
    said = voters_resized(controllers(1, 5), ids(0, 1, 2), ids(0, 1, 2, 3), BrokerId(0))
    assert said == (
        "the controller's group has 1 voters of 5: no other broker can take a replica: "
        "broker 3 has no room on its disk, broker 4 is not connected"
    )
