"""An error of ours inside a handler costs its request and its group's volatile state, and nobody else anything.

The errors here are real ones: a stored group whose members no decoder reads (only its head is read at apply), and a
group that is allowed to grow beyond what one batch holds.
"""

from dataclasses import replace

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.groups import limits
from muster_coordinator.groups.effects import Append
from muster_coordinator.groups.faults import Unprovable
from muster_coordinator.groups.log.proof import proven_batch
from muster_coordinator.groups.requests import DeleteGroup, DescribeGroup, ListGroups, Protocol
from muster_coordinator.limits import OFFSETS_BATCH_BYTES_MAX
from muster_coordinator.records.keys import encode_group_key, encode_offset_key
from muster_coordinator.records.offsets_log import (
    GroupMetadataValue,
    MetadataMember,
    encode_group_value,
    encode_offset_value,
)

from tests.groups.host import Host, Member, beat, code_of, commit, fetch, join, listed, settle, stable, sync
from tests.made_settings import shard_config

ONE = MetadataMember("m", None, "c", "/h", 60_000, 10_000, b"meta", b"plan")
LARGE = shard_config(initial_rebalance_delay_ms=0, group_stored_bytes_max=OFFSETS_BATCH_BYTES_MAX - 1)
"""With the largest that a configuration may say, members fit and their record, with the group's names, does not."""
G = "g" * 30_000
HALF = b"x" * (OFFSETS_BATCH_BYTES_MAX // 2 - 200)


def unreadable() -> bytes:
    """GroupMetadata with a head that says one member, and members that end early."""
    whole = encode_group_value(GroupMetadataValue("consumer", 3, "range", "m", 1, (ONE,)))
    return whole[:-3]


def seeded(**how: object) -> Host:
    host = Host(**how, faults_expected=True)
    host.apply_records((encode_group_key("bad"), unreadable()))
    return host


def test_a_stored_group_that_cannot_be_read_answers_minus_one_and_the_others_are_served() -> None:
    host = seeded()
    good = stable(host, 2, "good")
    for _ in range(2):
        for request in (join("bad"), sync("m", 3, group="bad"), beat("m", 3, group="bad"), commit("m", 3, group="bad")):
            ticket = host.send(request)
            assert code_of(host.answers[ticket]) == Code.UNKNOWN_SERVER_ERROR
    assert host.leader.stats.faults == 8
    assert [fault.group for fault in host.leader.take_faults()] == ["bad"] * 8
    assert host.leader.take_faults() == []
    assert [member.beat() for member in good] == [0, 0]
    assert listed(host)["good"].state == "Stable"
    assert not host.leader._core.queues
    assert "bad" not in host.leader._core.lives


def test_more_faults_than_anybody_reads_cost_no_memory() -> None:
    host = seeded()
    for _ in range(limits.FAULTS_KEPT + 5):
        host.send(join("bad"))
    assert host.leader.stats.faults == limits.FAULTS_KEPT + 5
    assert len(host.leader.take_faults()) == limits.FAULTS_KEPT


def test_a_new_leader_wakes_the_groups_behind_one_that_cannot_be_read() -> None:
    host = Host(faults_expected=True)
    stable(host, 2, "before")
    host.apply_records((encode_group_key("bad"), unreadable()))
    stable(host, 2, "behind")
    host.hand_over()
    host.advance(1)
    assert {"before", "behind"} <= host.leader._core.lives.keys()
    assert host.leader.stats.faults == 1


def test_whoever_is_parked_in_a_phase_that_cannot_be_stored_is_sent_to_look_for_the_coordinator() -> None:
    host = Host(LARGE, faults_expected=True)
    members = [Member(host, G, data=HALF).join() for _ in range(2)]
    host.advance(0)
    assert [code_of(host.answers[member.ticket]) for member in members] == [Code.NOT_COORDINATOR] * 2
    assert host.leader.stats.faults == 1
    (fault,) = host.leader.take_faults()
    assert isinstance(fault.error, Unprovable)
    assert fault.group == G
    assert not host.leader._core.queues
    for member in members:
        member.join(data=b"less-")
    host.advance(0)
    settle(host, members)
    host.check_replicas()


def test_a_join_too_large_for_a_batch_leaves_the_group_as_it_is_stored() -> None:
    host = Host(LARGE, faults_expected=True)
    (first,) = stable(host, 1, G, data=HALF)
    newcomer = Member(host, G, data=HALF).join()
    assert newcomer.ticket not in host.answers, "parked: the first member has not come yet"
    host.hold = True
    committing = host.send(commit(first.id, 1, group=G))
    first.join()
    codes = [code_of(host.answers[ticket]) for ticket in (committing, first.ticket, newcomer.ticket)]
    assert codes == [Code.NOT_COORDINATOR] * 3
    assert host.leader.stats.faults == 1
    host.hold = False
    host.commit_all()
    assert not host.leader._core.queues
    assert host.ask(DescribeGroup(G)).state == "PreparingRebalance"
    assert fetch(host, G).offset == 5, "the commit was in the log: it takes effect"
    settle(host, [first.join()])
    host.check_replicas()


def test_who_waits_behind_a_record_of_a_group_that_a_timer_isolates_is_answered() -> None:
    host = Host(LARGE, faults_expected=True)
    (first,) = stable(host, 1, G, data=HALF, instance="i", session=600_000)
    Member(host, G, data=HALF).join()
    host.hold = True
    host.send(commit(first.id, 1, group=G, instance="i"))
    deleting = host.send(DeleteGroup(G))
    assert deleting not in host.answers, "it waits for the commit"
    host.advance(60_000)
    assert host.leader.stats.faults == 1
    assert code_of(host.answers[deleting]) == Code.NOT_COORDINATOR
    host.hold = False
    host.commit_all()
    assert not host.leader._core.queues


def test_a_listing_goes_on_without_a_group_that_cannot_be_read() -> None:
    host = seeded()
    assert host.ask(ListGroups((), ())).error == 0


def test_everything_this_product_writes_is_proven() -> None:
    """Every record kind at once, through the groups' whole life (`Host` proves each batch)."""
    host = Host()
    members = stable(host, 3, names=("range", "roundrobin"))
    host.ask(commit(members[0].id, 1, topic_id=b"i" * 16))
    members[0].join(data=b"other-")
    host.advance(60_000)
    host.ask(commit(group="simple", retention=7))
    assert host.ask(DeleteGroup("simple")).error == 0
    assert host.proven > 8


@pytest.mark.parametrize(
    "record",
    [
        (None, b"v"),
        (b"", b"v"),
        (b"\0", None),
        (encode_group_key("g")[:-1], None),
        (encode_group_key("g"), unreadable()),
        (encode_group_key("g"), b""),
        (encode_offset_key("g", "t", 0), encode_offset_value(1, 2, "", 3)[:-1]),
        (encode_offset_key("g", "t", 0), encode_offset_value(1, 2, "", 3) + b"\0"),
        (b"\0\x03" + encode_group_key("g")[2:], b"somebody else's"),
        (b"\x03\xf0" + encode_group_key("g")[2:], b"of a later release"),
        (encode_group_key("g"), b"\0\x05" + unreadable()[2:]),
    ],
)
def test_what_a_replica_could_not_read_is_not_proposed(record: tuple[bytes | None, bytes | None]) -> None:
    with pytest.raises(Unprovable):
        proven_batch(Append(1, (record,), 5))


@pytest.mark.parametrize("timestamp_ms", [2**63, -(2**63) - 1])
def test_a_time_that_fits_no_batch_is_not_proposed(timestamp_ms: int) -> None:
    with pytest.raises(Unprovable):
        proven_batch(Append(1, ((encode_group_key("g"), None),), timestamp_ms))


def test_a_batch_above_the_largest_is_not_proposed() -> None:
    plan = b"a" * OFFSETS_BATCH_BYTES_MAX
    value = encode_group_value(GroupMetadataValue("t", 1, "p", "m", 1, (ONE._replace(assignment=plan),)))
    with pytest.raises(Unprovable, match="a batch of"):
        proven_batch(Append(1, ((encode_group_key("g"), value),), 5))


def test_protocols_are_measured_before_they_are_stored() -> None:
    """Not by the proof: a name that is too long is refused to its sender, and no fault of ours."""
    host = Host()
    asked = join()
    long = Protocol("p" * 40_000, b"")
    assert host.ask(replace(asked, protocols=(long,))).error == Code.INVALID_REQUEST
    assert host.leader.stats.faults == 0
