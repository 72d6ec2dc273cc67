"""The controller's state machine: immutable images, equal replicas, checkpoints."""

import dataclasses
import hashlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.controller import limits
from muster_coordinator.controller.checkpoint import CHECKPOINT_VERSION, MEMBERS_VERSION, STREAMS_VERSION
from muster_coordinator.controller.commands import (
    AddPartitions,
    AllocateProducerIds,
    AlterTopicConfigs,
    Command,
    DeleteTopic,
    FinalizeFeatures,
    ReplaceReplica,
    SetDraining,
)
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.ids import BrokerId, member_no

from tests.controller.cluster_commands import VOTERS, Log, create, form, formed, register, topic_id

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
    st.builds(
        ReplaceReplica,
        broker=st.integers(0, 3).map(BrokerId),
        gone_uuid=st.integers(1, 4).map(lambda n: bytes([n]) * 16),
    ),
)


def restored(machine: ControllerMachine) -> ControllerMachine:
    twin = ControllerMachine()
    twin.restore(machine.image().encode())
    return twin


@settings(max_examples=150)
@given(st.lists(any_command, max_size=25), st.integers(0, 25), st.sampled_from([1, 3]))
def test_a_replica_restored_in_the_middle_ends_like_one_that_saw_everything(
    commands: list[Command], cut: int, level: int
) -> None:
    log = Log(form(feature_level=level))
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


def replaced() -> Log:
    """A cluster of level 3, in which broker 1 was replaced once and waits for its third folder."""
    brokers = (register(voter, feature_max=3) for voter in VOTERS)
    second = register(1, uuid=b"n" * 16, feature_max=3)
    gone = [ReplaceReplica(broker=BrokerId(1), gone_uuid=uuid) for uuid in (b"\x02" * 16, b"n" * 16)]
    return Log(form(feature_level=3), *brokers, gone[0], second, create("a", partitions=3), gone[1])


def restore(head: bytes) -> ControllerMachine:
    machine = ControllerMachine()
    machine.restore(CheckpointBody(head, ()))
    return machine


def test_a_checkpoint_of_a_later_version_is_refused() -> None:
    head = formed().machine.image().encode().head
    with pytest.raises(UnsupportedFormat):
        restore(bytes([STREAMS_VERSION + 1]) + head[1:])


@pytest.mark.parametrize("make", [formed, replaced])
@given(data=st.data())
def test_a_cut_or_longer_checkpoint_is_corruption(make: Callable[[], Log], data: st.DataObject) -> None:
    log = make()
    log.apply(create("b", n=2))
    head = log.machine.image().encode().head
    with pytest.raises(Corruption):
        restore(head[: data.draw(st.integers(0, len(head) - 1))])
    with pytest.raises(Corruption):
        restore(head + data.draw(st.binary(min_size=1, max_size=40)))


def test_bindings_and_members_survive_a_checkpoint() -> None:
    log = replaced()
    twin = restored(log.machine)
    assert twin.cluster == log.cluster
    assert twin.state_hash() == log.machine.state_hash()
    broker = twin.cluster.brokers[BrokerId(1)] if twin.cluster is not None else None
    assert broker is not None
    assert (broker.binding, broker.bound, broker.gone) == (2, False, (b"\x02" * 16, b"n" * 16))
    log.apply(ReplaceReplica(broker=BrokerId(1), gone_uuid=b"n" * 16))
    twin.apply_command(len(log.entries), log.entries[-1])
    assert twin.state_hash() == log.machine.state_hash()


def test_bindings_are_written_from_their_level_on_only() -> None:
    """A release below the level must be able to read what is written until then (decision 16)."""
    log = Log(form(feature_level=2), *(register(voter, feature_max=3) for voter in VOTERS))
    head = log.machine.image().encode().head
    assert head[0] == CHECKPOINT_VERSION == 1
    assert hashlib.sha256(head).hexdigest()[:32] == "6a536ed3b9542888ac5270247c6c3b35"
    log.apply(FinalizeFeatures(feature_level=3))
    later = log.machine.image().encode().head
    assert later[0] == MEMBERS_VERSION == 2
    more = 3 * (4 + 4 + 4 + 1) + 4 * (3 * 4 + 1 + 1) + 4 + 1 + 4 + 4 + 1 + 1 + 4 + 4 * 4
    assert len(later) == len(head) + more, (
        "a binding, no folder gone, no rack of each broker, not to leave; 4 bytes a member, not placed, no move; 0 left"
        ", no pause, 0 former, 0 with settings, no factor, no number of voters, 0 topics that are to have another"
        ", no secret, 0 users, no ACLs, no quotas"
    )


def test_from_the_level_of_streams_on_no_earlier_release_reads_a_checkpoint() -> None:
    """It would serve a topic with `redis.stream` from another stream; the fields are those of before."""
    log = Log(form(feature_level=3), *(register(voter, feature_max=4) for voter in VOTERS))
    before = log.machine.image().encode().head
    log.apply(FinalizeFeatures(feature_level=4))
    later = log.machine.image().encode().head
    assert (before[0], later[0], len(later)) == (MEMBERS_VERSION, STREAMS_VERSION, len(before))
    assert restored(log.machine).cluster == log.cluster
    with pytest.raises(Corruption, match="version 2 holds a cluster of feature level 4"):
        restore(bytes([MEMBERS_VERSION]) + later[1:])


@pytest.mark.parametrize(("make", "other"), [(formed, 2), (replaced, 1), (replaced, 3), (Log, 2), (Log, 3)])
def test_an_image_has_one_spelling(make: Callable[[], Log], other: int) -> None:
    head = make().machine.image().encode().head
    with pytest.raises(Corruption):
        restore(bytes([other]) + head[1:])


def test_the_version_that_fits_its_bytes_and_not_its_level_is_corruption() -> None:
    """Equal states must have equal bytes, or their hashes part."""
    unformed = ControllerMachine().image().encode().head
    with pytest.raises(Corruption, match="version 2 holds a cluster of feature level none"):
        restore(bytes([MEMBERS_VERSION]) + unformed[1:])


def test_impossible_bindings_and_members_are_corruption() -> None:
    head = replaced().machine.image().encode().head
    gone = b"\x00\x00\x00\x02" * 2 + b"\x00\x00\x00\x10" + b"\x02" * 16
    for bad in (
        gone.replace(b"\x00\x00\x00\x02", b"\x00\x00\x00\x01", 1),
        gone.replace(b"\x00\x00\x00\x02", b"\xff\xff\xff\xff", 1),
    ):
        assert head.count(gone) == 1
        with pytest.raises(Corruption, match="broker 1"):
            restore(head.replace(gone, bad))
    first = b"\x00\x00\x00\x05\x00\x00\x00\x03" + bytes(8)  # group 5, three members, of which the first is 0
    member = first + member_no(BrokerId(1), 1).to_bytes(8, "big")
    assert head.count(member) == 1
    for bad in ((-1).to_bytes(8, "big", signed=True), b"\x00\x00\x00\x01\x80\x00\x00\x01"):
        with pytest.raises(Corruption, match="no member"):
            restore(head.replace(member, first + bad))


@given(st.data())
def test_a_flipped_bit_is_another_image_or_a_typed_error(data: st.DataObject) -> None:
    head = bytearray(replaced().machine.image().encode().head)
    head[data.draw(st.integers(0, len(head) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        machine = restore(bytes(head))
    except (Corruption, UnsupportedFormat):
        return
    restored(machine)


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
