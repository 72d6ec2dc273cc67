"""A lost replica's id is bound to a new folder (ADR 38): the rules of `ReplaceReplica` and of the registrations that
follow, and that no order of commands binds a member number to two folders."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.controller import limits
from muster_coordinator.controller.commands import (
    AddPartitions,
    AllocateProducerIds,
    Command,
    FinalizeFeatures,
    RegisterBroker,
    ReplaceReplica,
    SetDraining,
)
from muster_coordinator.controller.image import (
    EMPTY_ID,
    MEMBERS_LEVEL,
    OFFSETS_TOPIC,
    Broker,
    ClusterImage,
    members_of,
    wanted_members,
)
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, MemberNo, binding_of, broker_of, member_no

from tests.controller.cluster_commands import VOTERS, Log, create, form, register, topic_id
from tests.controller.test_transitions import refused

FOLDERS = {broker: bytes([broker + 1]) * 16 for broker in range(4)}
NEW, LATER = b"n" * 16, b"l" * 16


def lost(broker: int, uuid: bytes | None = None) -> ReplaceReplica:
    return ReplaceReplica(broker=BrokerId(broker), gone_uuid=uuid or FOLDERS[broker])


def new(broker: int, uuid: bytes = NEW, incarnation: int = 1) -> RegisterBroker:
    return register(broker, uuid=uuid, incarnation=incarnation, feature_max=3)


def at_level_3(*commands: Command, voters: tuple[BrokerId, ...] = VOTERS) -> Log:
    """A cluster of `MEMBERS_LEVEL`, its brokers registered in their fifth life."""
    lives = (register(voter, incarnation=5, feature_max=3) for voter in voters)
    return Log(form(voters=voters, feature_level=MEMBERS_LEVEL), *lives, *commands)


def broker(log: Log, number: int) -> Broker:
    return log.cluster.brokers[BrokerId(number)]


# Replacing.


def test_below_its_level_a_replacement_is_refused_in_words() -> None:
    for level in (1, 2):
        log = Log(form(feature_level=level), *(register(voter, feature_max=3) for voter in VOTERS))
        said = refused(log, lost(1), Code.UNSUPPORTED_VERSION)
        assert said == f"replacing a replica needs feature level 3; the cluster has {level}"
        log.apply(FinalizeFeatures(feature_level=3))
        assert log.apply(lost(1)).error == 0


def test_a_replaced_broker_is_unbound_and_keeps_its_id_and_addresses() -> None:
    log = at_level_3(SetDraining(broker=BrokerId(1), draining=True))
    before = broker(log, 1)
    result = log.apply(lost(1))
    assert (result.error, result.value) == (0, 1)
    after = broker(log, 1)
    assert not after.bound
    assert after.replica_uuid == EMPTY_ID
    assert (after.binding, after.gone) == (1, (FOLDERS[1],))
    assert (after.incarnation, after.draining) == (0, False), "of the folder that is gone"
    assert (after.endpoints, after.admin, after.feature_max) == (before.endpoints, before.admin, before.feature_max)
    assert log.cluster.voters == VOTERS


def test_the_first_new_folder_is_bound_and_its_lives_are_counted_anew() -> None:
    log = at_level_3(lost(1))
    assert log.apply(new(1)).error == 0
    bound = broker(log, 1)
    assert (bound.replica_uuid, bound.incarnation, bound.binding, bound.gone) == (NEW, 1, 1, (FOLDERS[1],))
    assert log.apply(new(1)).error == 0, "its answer was lost"
    assert log.apply(new(1, incarnation=2)).error == 0
    assert broker(log, 1).binding == 1
    refused(log, new(1, LATER, incarnation=9), Code.DUPLICATE_BROKER_REGISTRATION)
    refused(log, new(1, incarnation=1), Code.STALE_BROKER_EPOCH)


def test_a_folder_that_is_gone_is_told_to_go() -> None:
    log = at_level_3(lost(1))
    for _ in range(2):
        said = refused(log, new(1, FOLDERS[1], incarnation=6), Code.DUPLICATE_BROKER_REGISTRATION)
        assert FOLDERS[1].hex() in said
        assert "remove it" in said
        refused(log, new(2, FOLDERS[1]), Code.DUPLICATE_BROKER_REGISTRATION)
        log.apply(new(1))


def test_a_replacement_that_is_repeated_changes_nothing_however_late() -> None:
    log = at_level_3(lost(1))
    for command in (new(1), lost(1, NEW), new(1, LATER)):
        before = dataclasses.replace(log.cluster, applied=0)
        assert (log.apply(lost(1)).error, log.apply(lost(1)).value) == (0, 1)
        assert dataclasses.replace(log.cluster, applied=0) == before
        assert log.apply(command).error == 0
    assert log.apply(lost(1, NEW)).value == 2
    assert broker(log, 1).gone == (FOLDERS[1], NEW)
    assert broker(log, 1).replica_uuid == LATER


def test_only_the_folder_that_is_bound_is_replaced() -> None:
    log = at_level_3()
    assert FOLDERS[1].hex() in refused(log, lost(1, NEW), Code.INVALID_REQUEST)
    for uuid in (FOLDERS[0], EMPTY_ID, b"", b"short"):
        refused(log, lost(1, uuid or b"\0"), Code.INVALID_REQUEST)
    log.apply(lost(1))
    for uuid in (NEW, EMPTY_ID):
        assert "waits" in refused(log, lost(1, uuid), Code.INVALID_REQUEST)


def test_who_never_registered_has_no_folder_to_replace() -> None:
    log = Log(form(feature_level=3), register(0, feature_max=3))
    refused(log, lost(1), Code.BROKER_ID_NOT_REGISTERED)
    refused(log, lost(3), Code.BROKER_ID_NOT_REGISTERED)


def test_one_replica_is_replaced_at_a_time() -> None:
    log = at_level_3(lost(1))
    assert "broker 1 waits" in refused(log, lost(2), Code.POLICY_VIOLATION)
    log.apply(new(1))
    assert log.apply(lost(2)).error == 0


def test_the_only_replica_is_not_replaced() -> None:
    assert "only replica" in refused(at_level_3(voters=VOTERS[:1]), lost(0), Code.INVALID_REQUEST)


def test_a_folder_of_another_broker_or_of_zeros_is_not_bound() -> None:
    log = at_level_3(lost(1))
    assert "broker 0" in refused(log, new(1, FOLDERS[0]), Code.DUPLICATE_BROKER_REGISTRATION)
    refused(log, new(1, EMPTY_ID), Code.INVALID_REQUEST)
    refused(log, new(1, b"short"), Code.INVALID_REQUEST)
    assert not broker(log, 1).bound


def test_a_binary_below_the_level_is_not_bound() -> None:
    refused(at_level_3(lost(1)), register(1, uuid=NEW, feature_max=2), Code.UNSUPPORTED_VERSION)


def test_folders_that_are_gone_are_kept_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.GONE_FOLDERS_MAX == 1_000
    monkeypatch.setattr("muster_coordinator.controller.brokers.GONE_FOLDERS_MAX", 3)
    log, uuid = at_level_3(), FOLDERS[1]
    for number in range(3):
        log.apply(lost(1, uuid))
        uuid = bytes([100 + number]) * 16
        assert log.apply(new(1, uuid)).error == 0
    assert "3 data folders" in refused(log, lost(1, uuid), Code.POLICY_VIOLATION)
    assert log.apply(lost(1)).value == 1, "a repeated one is no other one"
    assert log.apply(lost(2)).error == 0, "of each broker"


def test_the_level_that_an_unbound_broker_last_had_counts_until_another_is_known() -> None:
    log = at_level_3(lost(1))
    refused(log, FinalizeFeatures(feature_level=4), Code.UNSUPPORTED_VERSION)
    for voter in (0, 2):
        log.apply(register(voter, incarnation=6, feature_max=4))
    assert "broker 1" in refused(log, FinalizeFeatures(feature_level=4), Code.UNSUPPORTED_VERSION)
    log.apply(register(1, uuid=NEW, feature_max=4))
    assert log.apply(FinalizeFeatures(feature_level=4)).error == 0


def test_marks_and_producer_ids_of_an_unbound_broker_leave_it_unbound() -> None:
    log = at_level_3(lost(1))
    log.apply(SetDraining(broker=BrokerId(1), draining=True))
    log.apply(AllocateProducerIds(broker=BrokerId(1)))
    assert not broker(log, 1).bound
    log.apply(new(1))
    assert not broker(log, 1).draining


def test_folders_of_two_brokers_under_one_uuid_from_before_the_level_go_on() -> None:
    """No release makes them; yet a rule of the new level takes no id from who has it."""
    log = Log(form(feature_level=2), *(register(voter, uuid=NEW, feature_max=3) for voter in VOTERS))
    assert log.apply(FinalizeFeatures(feature_level=3)).error == 0
    assert log.apply(new(0, incarnation=2)).error == 0


# Members.


def test_members_of_groups_that_were_there_before_stay_and_others_are_wanted() -> None:
    log = at_level_3(create("a", partitions=2))
    before = {name: topic.partitions for name, topic in log.cluster.topics.items()}
    assert all(wanted_members(log.cluster, p) == p.members for ps in before.values() for p in ps)
    log.apply(lost(1))
    second = member_no(BrokerId(1), 1)
    for _ in range(2):
        assert {name: topic.partitions for name, topic in log.cluster.topics.items()} == before
        partitions = log.cluster.topics[OFFSETS_TOPIC].partitions
        assert [wanted_members(log.cluster, p) for p in partitions[:2]] == [(0, second, 2), (second, 2, 0)]
        assert members_of(log.cluster, log.cluster.voters) == (0, second, 2)
        log.apply(new(1))


def test_groups_made_after_it_begin_with_the_present_bindings() -> None:
    log = at_level_3(lost(1))
    second = member_no(BrokerId(1), 1)
    log.apply(create("a", partitions=1))
    log.apply(new(1))
    log.apply(AddPartitions(topic_id=topic_id(1), total=3))
    partitions = log.cluster.topics["a"].partitions
    assert [p.members for p in partitions] == [(0, second, 2), (second, 2, 0), (2, 0, second)]
    assert [p.voters for p in partitions] == [(0, 1, 2), (1, 2, 0), (2, 0, 1)], "clients see brokers"
    assert all(p.preferred in VOTERS for p in partitions)
    log.apply(lost(1, NEW))
    assert [wanted_members(log.cluster, p)[0] for p in partitions] == [0, member_no(BrokerId(1), 2), 2]


def test_who_has_not_registered_yet_is_wanted_with_its_first_binding() -> None:
    log = Log(form(feature_level=3))
    assert members_of(log.cluster, VOTERS) == (0, 1, 2)


# Any order.

uuids = st.integers(1, 9).map(lambda n: bytes([n]) * 16)
brokers = st.integers(0, 3).map(BrokerId)
any_command = st.one_of(
    st.builds(register, brokers, uuid=uuids, incarnation=st.integers(1, 3), feature_max=st.integers(2, 4)),
    st.builds(ReplaceReplica, broker=brokers, gone_uuid=uuids),
    st.builds(SetDraining, broker=brokers, draining=st.booleans()),
    st.builds(create, st.sampled_from("abc"), n=st.integers(1, 6), partitions=st.integers(1, 3)),
    st.builds(AddPartitions, topic_id=st.integers(1, 6).map(topic_id), total=st.integers(0, 5)),
    st.builds(FinalizeFeatures, feature_level=st.integers(1, 4)),
)


class Seen:
    """What was ever bound, over the life of a cluster."""

    def __init__(self) -> None:
        self.folder_of: dict[MemberNo, bytes] = {}
        self.gone: set[bytes] = set()
        self.began: dict[int, tuple[MemberNo, ...]] = {}
        self.replacements = self.bindings = 0

    def look(self, before: ClusterImage, after: ClusterImage, command: Command) -> None:
        for number, one in after.brokers.items():
            self._look_at(before.brokers.get(number), one, command)
        assert sum(not one.bound for one in after.brokers.values()) <= 1
        bound = [one.replica_uuid for one in after.brokers.values() if one.bound]
        assert len(bound) == len(set(bound)), "a folder has one broker"
        assert self.bindings <= self.replacements <= self.bindings + 1
        for topic in after.topics.values():
            for partition in topic.partitions:
                assert self.began.setdefault(partition.group, partition.members) == partition.members
                assert partition.voters == tuple(map(broker_of, partition.members))
                assert sorted(map(broker_of, wanted_members(after, partition))) == sorted(after.voters)
                for member in partition.members:
                    assert (
                        binding_of(member) <= after.brokers[broker_of(member)].binding if binding_of(member) else True
                    )

    def _look_at(self, old: Broker | None, one: Broker, command: Command) -> None:
        assert len(one.gone) == one.binding
        assert len(set(one.gone)) == one.binding
        if one.bound:
            assert self.folder_of.setdefault(one.member, one.replica_uuid) == one.replica_uuid, "one folder a member"
            assert one.replica_uuid not in self.gone, "what is gone never registers again"
        if old is None:
            assert one.binding == 0
            return
        if one.binding != old.binding:
            assert isinstance(command, ReplaceReplica)
            assert (one.binding, one.bound, old.bound) == (old.binding + 1, False, True)
            self.gone.add(old.replica_uuid)
            self.replacements += 1
        elif one.replica_uuid != old.replica_uuid:
            assert isinstance(command, RegisterBroker)
            assert (old.bound, one.bound) == (False, True), "one binding step a replacement"
            self.bindings += 1


@settings(max_examples=150)
@given(st.lists(any_command, max_size=40))
def test_no_order_of_commands_gives_a_member_two_folders(commands: list[Command]) -> None:
    log, seen = Log(form(feature_level=MEMBERS_LEVEL)), Seen()
    for command in commands:
        before = log.cluster
        result = log.apply(command)
        once = log.cluster
        seen.look(before, once, command)
        if isinstance(command, ReplaceReplica | RegisterBroker) and result.error == 0:
            assert log.apply(command).error == 0, "a lost answer is asked for again"
            assert dataclasses.replace(log.cluster, applied=once.applied) == once
