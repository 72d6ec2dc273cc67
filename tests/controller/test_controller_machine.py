"""The controller's state machine: immutable images, equal replicas, checkpoints."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.controller import limits
from muster_coordinator.controller.checkpoint import CHECKPOINT_VERSION
from muster_coordinator.controller.commands import (
    AddPartitions,
    AllocateProducerIds,
    AlterTopicConfigs,
    Command,
    DeleteTopic,
    FinalizeFeatures,
    SetDraining,
)
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.ids import BrokerId

from tests.controller.cluster_commands import Log, create, form, formed, register, topic_id

ids = st.integers(1, 6).map(topic_id)
configs = st.sampled_from([(), (("retention.ms", "1"),), (("segment.ms", "1"), ("retention.ms", "2"))])
any_command = st.one_of(
    st.just(form()),
    st.builds(register, st.integers(0, 3), incarnation=st.integers(1, 3), feature_max=st.integers(1, 3)),
    st.builds(create, st.sampled_from("cba"), n=st.integers(1, 6), partitions=st.integers(1, 3), configs=configs),
    st.builds(
        create, st.sampled_from(["a", "a.b", "a_b", "bad name"]), n=st.integers(0, 6), partitions=st.integers(0, 1)
    ),
    st.builds(DeleteTopic, topic_id=ids),
    st.builds(AddPartitions, topic_id=ids, total=st.integers(0, 5)),
    st.builds(AlterTopicConfigs, topic_id=ids, expected=configs, configs=configs),
    st.builds(SetDraining, broker=st.integers(0, 3).map(BrokerId), draining=st.booleans()),
    st.builds(AllocateProducerIds, broker=st.integers(0, 3).map(BrokerId)),
    st.builds(FinalizeFeatures, feature_level=st.integers(1, 3)),
)


def restored(machine: ControllerMachine) -> ControllerMachine:
    twin = ControllerMachine()
    twin.restore(machine.image().encode())
    return twin


@settings(max_examples=150)
@given(st.lists(any_command, max_size=25), st.integers(0, 25))
def test_a_replica_restored_in_the_middle_ends_like_one_that_saw_everything(commands: list[Command], cut: int) -> None:
    log = Log(form())
    twin: ControllerMachine | None = None
    for number, command in enumerate(commands):
        if number == cut:
            twin = restored(log.machine)
        result = log.apply(command)
        if twin is not None:
            assert twin.apply_command(len(log.entries), log.entries[-1]) == result
    if twin is not None:
        assert twin.state_hash() == log.machine.state_hash()
        assert twin.cluster == log.machine.cluster


@settings(max_examples=150)
@given(st.lists(any_command, max_size=25))
def test_no_log_breaks_the_image(commands: list[Command]) -> None:
    log = Log(form(), register(0))
    used: set[int] = set()
    for command in commands:
        before = {p.group for t in log.cluster.topics.values() for p in t.partitions}
        log.apply(command)
        cluster = log.cluster
        groups = [p.group for t in cluster.topics.values() for p in t.partitions]
        assert len(set(groups)) == len(groups), "a Raft group serves one partition"
        used |= before
        assert not (set(groups) - before) & used, "a group number is never reused"
        assert max(groups) < cluster.next_group
        assert {t.topic_id: t.name for t in cluster.topics.values()} == cluster.names_by_id
        assert not cluster.deleted_topic_ids & cluster.names_by_id.keys()
        assert cluster.applied == len(log.entries)


def test_a_taken_image_never_changes() -> None:
    log = formed()
    taken = log.cluster
    copy = dataclasses.replace(taken, topics=dict(taken.topics), brokers=dict(taken.brokers))
    log.apply(create("a"))
    log.apply(SetDraining(broker=BrokerId(0), draining=True))
    assert (taken.topics, taken.brokers) == (copy.topics, copy.brokers)
    with pytest.raises(TypeError):
        taken.topics["b"] = taken.topics["__consumer_offsets"]  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        taken.applied = 1  # type: ignore[misc]


def test_a_command_that_touches_no_topic_shares_the_topics() -> None:
    log = formed()
    topics = log.cluster.topics
    log.apply(AllocateProducerIds(broker=BrokerId(0)))
    log.apply(SetDraining(broker=BrokerId(0), draining=True))
    assert log.cluster.topics is topics


def test_a_checkpoint_taken_before_a_change_does_not_show_it() -> None:
    log = formed()
    snapshot = log.machine.image()
    before = log.machine.state_hash()
    log.apply(create("a"))
    twin = ControllerMachine()
    twin.restore(snapshot.encode())
    assert twin.state_hash() == before != log.machine.state_hash()


def test_an_unformed_machine_has_a_checkpoint_too() -> None:
    twin = restored(ControllerMachine())
    assert twin.cluster is None
    assert twin.applied == 0


def test_an_entry_is_applied_once() -> None:
    log = Log(form())
    with pytest.raises(AssertionError):
        log.machine.apply_command(1, log.entries[0])


def test_an_entry_of_a_newer_binary_stops_the_replica_and_changes_nothing() -> None:
    log = formed()
    before = log.machine.state_hash()
    with pytest.raises(UnsupportedFormat):
        log.machine.apply_command(99, b"\x02\x01")
    assert log.machine.state_hash() == before


def test_a_checkpoint_of_another_version_is_refused() -> None:
    head = formed().machine.image().encode().head
    with pytest.raises(UnsupportedFormat):
        ControllerMachine().restore(CheckpointBody(bytes([CHECKPOINT_VERSION + 1]) + head[1:], ()))


@given(st.data())
def test_a_cut_checkpoint_is_corruption(data: st.DataObject) -> None:
    log = formed()
    log.apply(create("a"))
    head = log.machine.image().encode().head
    with pytest.raises(Corruption):
        ControllerMachine().restore(CheckpointBody(head[: data.draw(st.integers(0, len(head) - 1))], ()))


def test_only_the_newest_deletions_are_remembered_and_all_replicas_agree_which() -> None:
    log = formed()
    log.machine._deleted = tuple(n.to_bytes(16, "big") for n in range(999 + limits.DELETED_TOPIC_IDS_MAX, 999, -1))
    log.machine._cluster = dataclasses.replace(log.cluster, deleted_topic_ids=frozenset(log.machine._deleted))
    log.apply(create("a", n=1))
    twin = restored(log.machine)
    log.apply(DeleteTopic(topic_id=topic_id(1)))
    assert len(log.cluster.deleted_topic_ids) == limits.DELETED_TOPIC_IDS_MAX
    assert topic_id(1) in log.cluster.deleted_topic_ids
    oldest = topic_id(999 + limits.DELETED_TOPIC_IDS_MAX)
    assert oldest not in log.cluster.deleted_topic_ids
    twin.apply_command(len(log.entries), log.entries[-1])
    assert twin.state_hash() == log.machine.state_hash()
