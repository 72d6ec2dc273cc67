"""OffsetCommit and OffsetFetch: protocol notes 3.3 (commit rows), 4.1-4.3; invariants G7-G9, O9, O12."""

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import OffsetCommit, OffsetFetch, PartitionCommit, TopicCommit
from muster_coordinator.limits import OFFSETS_BATCH_BYTES_MAX

from tests.groups.host import Host, Member, code_of, commit, fetch, join, leave, listed, stable, state
from tests.made_settings import shard_config


def code(host: Host, *args, **how) -> int:
    return code_of(host.ask(commit(*args, **how)))


# Groups without members.


def test_commit_without_generation_creates_a_simple_group():
    host = Host()
    assert code(host, offset=7) == 0
    assert fetch(host).offset == 7
    assert listed(host)["g"].protocol_type == ""
    assert state(host) == "Empty"
    assert len(host.log) == 1, "a simple group has no record of its own"


def test_ids_are_not_looked_at_without_generation_in_an_empty_group():
    host = Host()
    assert code(host, "whoever", -1, instance="x") == 0
    assert code(host, "somebody", -1) == 0


@pytest.mark.parametrize(("v9", "expected"), [(True, 69), (False, 22)])
def test_commit_with_generation_to_an_unknown_group(v9, expected):
    host = Host()
    assert code(host, "m", 1, v9=v9) == expected
    assert not host.log


def test_commit_with_generation_to_an_empty_group_is_25():
    host = Host()
    assert code(host) == 0
    assert code(host, "m", 0) == 25
    (member,) = stable(host, 1)
    host.ask(leave(member.id))
    assert code(host, member.id, 2) == 25
    assert code(host, member.id, 1, instance="i") == 25


def test_empty_group_id_may_commit():
    host = Host()
    assert code(host, group="") == 0
    assert fetch(host, "").offset == 5


# Groups with members.


def test_stable_accepts_its_members_at_their_generation_only():
    host = Host()
    (member,) = stable(host, 1)
    assert code(host, member.id, 1) == 0
    assert code(host, member.id, 0) == 22
    assert code(host, member.id, 2) == 22
    assert code(host, member.id, -1) == 22
    assert code(host, "other", 1) == 25
    assert code(host) == 25, "an administrator's commit to a live group"
    assert code(host, instance="i") == 25


def test_preparing_accepts_commits_of_the_ending_generation():
    """Java commits in onPartitionsRevoked."""
    host = Host()
    first, second = stable(host)
    Member(host).join()
    assert code(host, first.id, 1) == 0
    assert code(host, second.id, 1) == 0
    assert code(host, second.id, 2) == 22
    assert code(host) == 25


def test_completing_answers_27_to_its_members():
    host = Host()
    member = Member(host).join()
    host.advance(0)
    member.took()
    assert code(host, member.id, 1) == 27
    assert code(host, member.id, 0) == 22
    assert code(host, "other", 1) == 25
    assert code(host) == 25


def test_first_join_phase_refuses_commits_without_generation():
    host = Host(shard_config())
    host.ask(commit())
    host.send(join())
    assert code(host) == 25


def test_parked_newcomer_cannot_commit_with_the_old_generation():
    host = Host()
    stable(host)
    given = host.ask(join(known=True)).member
    host.send(join(member=given, known=True))
    assert code(host, given, 1) == 25


def test_fenced_static_member_cannot_commit():
    host = Host()
    (static,) = stable(host, 1, instance="i")
    new = host.ask(join(instance="i")).member
    assert code(host, static.id, 1, instance="i") == 82
    assert code(host, new, 1, instance="i") == 0


def test_removed_member_cannot_commit():
    host = Host()
    first, second = stable(host)
    host.ask(leave(second.id))
    assert code(host, second.id, 1) == 25
    assert code(host, first.id, 1) == 0


# Ordering against records in flight (decision 8).


def test_commit_waits_for_the_membership_record_in_flight_and_is_judged_by_it():
    host = Host()
    first, second = stable(host)
    host.hold = True
    host.send(leave(second.id))
    mine, theirs = host.send(commit(first.id, 1)), host.send(commit(second.id, 1))
    assert not {mine, theirs} & host.answers.keys()
    assert len(host.in_flight) == 1
    host.commit_all()
    assert code_of(host.answers[mine]) == 0
    assert code_of(host.answers[theirs]) == 25
    assert host.offset_count() == 1


def test_commits_of_one_group_and_of_others_do_not_wait_for_each_other():
    host = Host()
    (member,) = stable(host, 1)
    host.hold = True
    for offset in range(5):
        host.send(commit(member.id, 1, offset))
        host.send(commit(group="other", offset=offset))
    assert len(host.in_flight) == 10
    host.commit_all()
    assert fetch(host).offset == 4
    assert fetch(host, "other").offset == 4


def test_commit_before_a_membership_record_precedes_it_in_the_log():
    host = Host()
    first, second = stable(host)
    host.hold = True
    ticket = host.send(commit(second.id, 1, 42))
    host.send(leave(second.id))
    assert len(host.in_flight) == 2
    host.commit_all()
    assert code_of(host.answers[ticket]) == 0
    assert fetch(host).offset == 42
    assert first.beat() == 27


def test_commit_is_not_visible_before_it_is_applied():
    host = Host()
    host.ask(commit(offset=1))
    host.hold = True
    host.send(commit(offset=2))
    assert fetch(host).offset == 1
    host.commit_all()
    assert fetch(host).offset == 2


@pytest.mark.parametrize(("cause", "expected"), [(19, 15), (7, 15), (6, 16), (56, 16), (10, -1), (18, -1), (15, 15)])
def test_dropped_commit_answers_every_partition_and_changes_nothing(cause, expected):
    host = Host()
    host.ask(commit(offset=1))
    host.hold = True
    ticket = host.send(commit(offset=2))
    host.drop(Code(cause))
    assert code_of(host.answers[ticket]) == expected
    assert fetch(host).offset == 1


# Values.


def test_all_fields_come_back_as_they_were_committed():
    host = Host()
    host.ask(commit(offset=2**62, epoch=7, metadata="wörld \U0001f30d", topic_id=b"\1" * 16))
    found = fetch(host)
    assert (found.offset, found.leader_epoch, found.metadata, found.error) == (2**62, 7, "wörld \U0001f30d", 0)
    host.check_replicas()


@pytest.mark.parametrize("offset", [0, -1, -(2**63), 2**63 - 1])
def test_offsets_are_not_checked_for_range(offset):
    host = Host()
    assert code(host, offset=offset) == 0
    assert fetch(host).offset == offset


def test_retention_writes_an_expiry_and_loses_the_epoch():
    host = Host()
    host.ask(commit(epoch=3, retention=1_000, topic_id=b"\1" * 16))
    assert fetch(host).leader_epoch == -1


def test_metadata_above_the_limit_is_12_on_its_partition_only():
    host = Host()
    request = OffsetCommit(
        group="g",
        generation=-1,
        member="",
        instance=None,
        topics=(
            TopicCommit(
                "t",
                bytes(16),
                (
                    PartitionCommit(0, 1, -1, "x" * 4_097),
                    PartitionCommit(1, 1, -1, "x" * 4_096),
                    PartitionCommit(2, 1, -1, "\U0001f30d" * 2_049),
                    PartitionCommit(3, 1, -1, "\U0001f30d" * 2_048),
                    PartitionCommit(4, 1, -1, "é" * 4_096),
                ),
            ),
        ),
    )
    assert host.ask(request).topics == (("t", ((0, 12), (1, 0), (2, 12), (3, 0), (4, 0))),)
    assert host.offset_count() == 3
    assert len(host.log) == 1, "one batch for the request"


def test_nothing_left_to_commit_is_answered_without_a_record():
    host = Host()
    assert code(host, metadata="x" * 5_000) == 12
    assert not host.log
    assert state(host) == "Dead"


def test_request_that_would_not_fit_the_log_is_refused_whole():
    host = Host()
    many = tuple(PartitionCommit(n, 1, -1, "m" * 4_000) for n in range(2_500))
    request = OffsetCommit(
        group="g", generation=-1, member="", instance=None, topics=(TopicCommit("t", bytes(16), many),)
    )
    answer = host.ask(request)
    assert {found for _, found in answer.topics[0][1]} == {Code.INVALID_COMMIT_OFFSET_SIZE}
    assert not host.log
    assert OFFSETS_BATCH_BYTES_MAX < 2_500 * 4_000


# Fetch.


def test_fetch_of_what_nobody_committed_is_minus_one_without_error():
    host = Host()
    found = fetch(host)
    assert (found.offset, found.leader_epoch, found.metadata, found.error) == (-1, -1, "", 0)
    assert host.ask(OffsetFetch("g", None, False)).topics == ()
    host.ask(commit())
    assert fetch(host, partition=9).offset == -1
    assert fetch(host, topic="x").offset == -1


def test_fetch_all_lists_what_is_committed():
    host = Host()
    for topic in ("a", "b"):
        for partition in (0, 1):
            host.ask(commit(topic=topic, partition=partition, offset=partition))
    answer = host.ask(OffsetFetch("g", None, False))
    assert {(t, p.partition, p.offset) for t, found in answer.topics for p in found} == {
        ("a", 0, 0), ("a", 1, 1), ("b", 0, 0), ("b", 1, 1),
    }  # fmt: skip


def test_groups_and_partitions_are_isolated():
    """invariant O10."""
    host = Host()
    host.ask(commit(offset=1))
    host.ask(commit(group="h", offset=2))
    host.ask(commit(topic="u", offset=3))
    host.ask(commit(partition=1, offset=4))
    assert [fetch(host).offset, fetch(host, "h").offset, fetch(host, topic="u").offset] == [1, 2, 3]
    assert fetch(host, partition=1).offset == 4


def test_offsets_survive_the_members_and_failovers():
    host = Host()
    (member,) = stable(host, 1)
    host.ask(commit(member.id, 1, 11))
    host.ask(leave(member.id))
    host.crash()
    assert fetch(host).offset == 11
    host.hand_over()
    assert fetch(host).offset == 11
