"""Each rule of the controller's commands, by name."""

import dataclasses

import pytest
from muster_coordinator.controller.commands import (
    AddPartitions,
    AllocateProducerIds,
    AlterTopicConfigs,
    Command,
    DeleteTopic,
    FinalizeFeatures,
    FormCluster,
    SetDraining,
)
from muster_coordinator.controller.image import EMPTY_ID, OFFSETS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import PRODUCER_ID_BLOCK, RAFT_GROUPS_MAX

from tests.controller.cluster_commands import (
    CLUSTER_ID,
    OFFSETS_TOPIC_ID,
    VOTERS,
    Log,
    create,
    form,
    formed,
    register,
    topic_id,
)


def refused(log: Log, command: Command, code: Code) -> str:
    """Apply a command that must not fit: everything but the applied index stays."""
    before = log.machine.cluster
    result = log.apply(command)
    assert result.error == code, result
    assert result.message
    after = log.machine.cluster
    if before is None or after is None:
        assert before is after
    else:
        assert dataclasses.replace(after, applied=before.applied) == before
    return result.message


# Forming.


def test_forming_gives_the_offsets_topic_groups_1_to_n() -> None:
    cluster = Log(form(partitions=4)).cluster
    topic = cluster.topics[OFFSETS_TOPIC]
    assert [p.group for p in topic.partitions] == [1, 2, 3, 4]
    assert topic.internal
    assert topic.topic_id == OFFSETS_TOPIC_ID
    assert cluster.names_by_id == {OFFSETS_TOPIC_ID: OFFSETS_TOPIC}
    assert cluster.next_group == 5
    assert cluster.routing.offsets_partitions == 4
    assert (cluster.cluster_id, cluster.voters, cluster.feature_level) == (CLUSTER_ID, VOTERS, 1)


def test_a_cluster_forms_once() -> None:
    log = Log(form())
    assert log.apply(form()).error == 0, "a second leader may repeat the very same command"
    for other in (
        dataclasses.replace(form(), cluster_id="x" * 22),
        form(partitions=5),
        form(voters=VOTERS[:1]),
        dataclasses.replace(form(), offsets_topic_id=topic_id(9)),
    ):
        refused(log, other, Code.INVALID_REQUEST)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (dataclasses.replace(form(), cluster_id="short"), Code.INVALID_REQUEST),
        (form(voters=()), Code.INVALID_REQUEST),
        (form(voters=(BrokerId(1), BrokerId(1))), Code.INVALID_REQUEST),
        (form(voters=(BrokerId(-1),)), Code.INVALID_REQUEST),
        (form(partitions=0), Code.INVALID_PARTITIONS),
        (form(partitions=RAFT_GROUPS_MAX), Code.INVALID_PARTITIONS),
        (dataclasses.replace(form(), offsets_topic_id=EMPTY_ID), Code.INVALID_REQUEST),
        (form(feature_level=0), Code.INVALID_REQUEST),
    ],
)
def test_impossible_terms_form_no_cluster(command: FormCluster, code: Code) -> None:
    refused(Log(), command, code)


def test_nothing_works_before_the_cluster_is_formed() -> None:
    log = Log()
    for command in (
        register(0),
        create("a"),
        AllocateProducerIds(broker=BrokerId(0)),
        FinalizeFeatures(feature_level=2),
    ):
        refused(log, command, Code.NOT_CONTROLLER)


def test_voters_are_rotated_by_partition_and_the_preferred_leaders_are_spread() -> None:
    partitions = Log(form(partitions=6)).cluster.topics[OFFSETS_TOPIC].partitions
    assert [p.voters for p in partitions[:4]] == [(0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 1, 2)]
    assert [p.preferred for p in partitions] == [p.voters[p.group % 3] for p in partitions]
    assert sorted(p.preferred for p in partitions) == [0, 0, 1, 1, 2, 2]


# Brokers.


def test_registering_again_needs_a_higher_incarnation() -> None:
    log = Log(form(), register(0, incarnation=3))
    refused(log, register(0, incarnation=3, host="elsewhere"), Code.STALE_BROKER_EPOCH)
    refused(log, register(0, incarnation=2), Code.STALE_BROKER_EPOCH)
    assert log.apply(register(0, incarnation=4, host="elsewhere")).error == 0
    assert log.cluster.brokers[BrokerId(0)].endpoints[0].host == "elsewhere"


def test_another_data_folder_cannot_take_a_broker_id() -> None:
    log = Log(form(), register(0))
    refused(log, register(0, uuid=b"z" * 16, incarnation=99), Code.DUPLICATE_BROKER_REGISTRATION)


def test_who_is_no_voter_does_not_register() -> None:
    refused(Log(form()), register(7), Code.INVALID_REQUEST)


def test_a_uuid_of_another_length_does_not_register() -> None:
    refused(Log(form()), register(0, uuid=b"short"), Code.INVALID_REQUEST)


def test_registering_clears_the_drain_mark() -> None:
    log = Log(form(), register(0), SetDraining(broker=BrokerId(0), draining=True))
    assert log.cluster.brokers[BrokerId(0)].draining
    log.apply(register(0, incarnation=2))
    assert not log.cluster.brokers[BrokerId(0)].draining


def test_a_late_repeat_of_a_registration_keeps_a_newer_drain_mark() -> None:
    log = Log(form(), register(0), SetDraining(broker=BrokerId(0), draining=True))
    assert log.apply(register(0)).error == 0
    assert log.cluster.brokers[BrokerId(0)].draining


def test_a_binary_below_the_finalised_level_does_not_register() -> None:
    refused(Log(form(feature_level=2)), register(0, feature_max=1), Code.UNSUPPORTED_VERSION)


def test_draining_is_set_and_cleared_and_needs_a_registered_broker() -> None:
    log = Log(form(), register(0))
    for draining in (True, True, False):
        assert log.apply(SetDraining(broker=BrokerId(0), draining=draining)).error == 0
        assert log.cluster.brokers[BrokerId(0)].draining is draining
    refused(log, SetDraining(broker=BrokerId(1), draining=True), Code.BROKER_ID_NOT_REGISTERED)


# Producer ids.


def test_producer_ids_are_given_in_blocks_that_never_overlap() -> None:
    log = formed()
    firsts = [log.apply(AllocateProducerIds(broker=BrokerId(b))).value for b in (0, 1, 0)]
    assert firsts == [0, PRODUCER_ID_BLOCK, 2 * PRODUCER_ID_BLOCK]


def test_producer_ids_need_a_registered_broker() -> None:
    refused(Log(form()), AllocateProducerIds(broker=BrokerId(0)), Code.BROKER_ID_NOT_REGISTERED)


# Features.


def test_the_feature_level_only_rises() -> None:
    log = Log(form(), *(register(b, feature_max=3) for b in VOTERS))
    assert log.apply(FinalizeFeatures(feature_level=3)).error == 0
    assert log.apply(FinalizeFeatures(feature_level=3)).error == 0
    assert log.cluster.feature_level == 3
    refused(log, FinalizeFeatures(feature_level=2), Code.INVALID_REQUEST)


def test_a_level_that_a_voter_cannot_do_is_not_finalised() -> None:
    log = Log(form(), register(0, feature_max=2), register(1, feature_max=2))
    assert "2" in refused(log, FinalizeFeatures(feature_level=2), Code.INVALID_REQUEST)
    log.apply(register(2, feature_max=1))
    refused(log, FinalizeFeatures(feature_level=2), Code.UNSUPPORTED_VERSION)


# Topics.


def test_a_topic_takes_the_next_groups_and_says_how_many_partitions() -> None:
    log = formed()
    result = log.apply(create("a", partitions=3, configs=(("retention.ms", "1"), ("cleanup.policy", "delete"))))
    assert (result.error, result.value) == (0, 3)
    topic = log.cluster.topics["a"]
    assert [p.group for p in topic.partitions] == [5, 6, 7]
    assert topic.configs == (("cleanup.policy", "delete"), ("retention.ms", "1"))
    assert not topic.internal
    assert log.cluster.names_by_id[topic_id(1)] == "a"


def test_groups_and_ids_of_a_deleted_topic_are_never_used_again() -> None:
    log = formed()
    log.apply(create("a", n=1, partitions=2))
    assert log.apply(DeleteTopic(topic_id=topic_id(1))).error == 0
    assert "a" not in log.cluster.topics
    assert topic_id(1) not in log.cluster.names_by_id
    assert log.cluster.deleted_topic_ids == {topic_id(1)}
    refused(log, create("a", n=1), Code.INVALID_REQUEST)
    log.apply(create("a", n=2, partitions=2))
    assert [p.group for p in log.cluster.topics["a"].partitions] == [7, 8]


def test_a_name_exists_once() -> None:
    log = formed()
    log.apply(create("a", n=1))
    refused(log, create("a", n=2), Code.TOPIC_ALREADY_EXISTS)


def test_names_that_differ_in_dot_and_underscore_collide() -> None:
    log = formed()
    log.apply(create("a.b_c", n=1))
    assert "a.b_c" in refused(log, create("a_b.c", n=2), Code.INVALID_TOPIC_EXCEPTION)
    refused(log, create("a_b_c", n=2), Code.INVALID_TOPIC_EXCEPTION)
    assert log.apply(create("a-b-c", n=2)).error == 0


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "a\n", "x" * 250])
def test_illegal_names_are_17(name: str) -> None:
    refused(formed(), create(name), Code.INVALID_TOPIC_EXCEPTION)


@pytest.mark.parametrize("name", ["a", "_a", "...", "A-z.0_9", "x" * 249])
def test_legal_names_pass(name: str) -> None:
    assert formed().apply(create(name)).error == 0


@pytest.mark.parametrize("partitions", [0, -1])
def test_a_topic_has_at_least_one_partition(partitions: int) -> None:
    refused(formed(), create("a", partitions=partitions), Code.INVALID_PARTITIONS)


@pytest.mark.parametrize("bad", [EMPTY_ID, b"short", OFFSETS_TOPIC_ID])
def test_a_topic_id_is_fresh_16_bytes_and_not_zero(bad: bytes) -> None:
    refused(formed(), dataclasses.replace(create("a"), topic_id=bad), Code.INVALID_REQUEST)


def test_a_config_given_twice_is_40() -> None:
    refused(formed(), create("a", configs=(("x", "1"), ("x", "2"))), Code.INVALID_CONFIG)


def test_raft_groups_are_bounded_and_deleting_makes_room() -> None:
    log = formed()  # 1 controller group and 4 offsets partitions
    room = RAFT_GROUPS_MAX - 5
    refused(log, create("a", n=1, partitions=room + 1), Code.POLICY_VIOLATION)
    assert log.apply(create("a", n=1, partitions=room)).error == 0
    refused(log, create("b", n=2), Code.POLICY_VIOLATION)
    refused(log, AddPartitions(topic_id=topic_id(1), total=room + 1), Code.POLICY_VIOLATION)
    log.apply(DeleteTopic(topic_id=topic_id(1)))
    assert log.apply(create("b", n=2)).error == 0


def test_partitions_are_added_behind_the_old_ones() -> None:
    log = formed()
    log.apply(create("a", n=1, partitions=2))
    log.apply(create("b", n=2))
    before = log.cluster.topics["a"].partitions
    result = log.apply(AddPartitions(topic_id=topic_id(1), total=4))
    assert (result.error, result.value) == (0, 4)
    after = log.cluster.topics["a"].partitions
    assert after[:2] == before
    assert [(p.group, p.voters) for p in after[2:]] == [(8, (2, 0, 1)), (9, (0, 1, 2))]
    log.apply(create("c", n=3))
    assert [p.group for p in log.cluster.topics["c"].partitions] == [10]


@pytest.mark.parametrize("total", [2, 1, 0, -5])
def test_partitions_cannot_become_fewer(total: int) -> None:
    log = formed()
    log.apply(create("a", n=1, partitions=2))
    refused(log, AddPartitions(topic_id=topic_id(1), total=total), Code.INVALID_PARTITIONS)


def test_configs_are_replaced_whole() -> None:
    log = formed()
    log.apply(create("a", n=1, configs=(("retention.ms", "1"),)))
    change = AlterTopicConfigs(topic_id=topic_id(1), expected=(("retention.ms", "1"),), configs=(("segment.ms", "2"),))
    assert log.apply(change).error == 0
    assert log.cluster.topics["a"].configs == (("segment.ms", "2"),)


def test_configs_computed_from_an_old_image_are_refused() -> None:
    log = formed()
    log.apply(create("a", n=1, configs=(("retention.ms", "1"),)))
    refused(log, AlterTopicConfigs(topic_id=topic_id(1), expected=(), configs=(("x", "2"),)), Code.INVALID_REQUEST)


def test_unknown_topic_ids_are_100() -> None:
    log = formed()
    for command in (
        DeleteTopic(topic_id=topic_id(5)),
        AddPartitions(topic_id=topic_id(5), total=9),
        AlterTopicConfigs(topic_id=topic_id(5), expected=(), configs=()),
    ):
        refused(log, command, Code.UNKNOWN_TOPIC_ID)


def test_the_offsets_topic_is_not_an_admins_to_change() -> None:
    log = formed()
    for command in (
        DeleteTopic(topic_id=OFFSETS_TOPIC_ID),
        AddPartitions(topic_id=OFFSETS_TOPIC_ID, total=9),
        AlterTopicConfigs(topic_id=OFFSETS_TOPIC_ID, expected=(), configs=()),
    ):
        refused(log, command, Code.POLICY_VIOLATION)
