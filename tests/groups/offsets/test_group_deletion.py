"""OffsetDelete, DeleteGroups and deleted topics: protocol notes 4.5, decision 27, invariant G19."""

from muster_coordinator.errors import Code
from muster_coordinator.groups import limits
from muster_coordinator.groups.requests import DeleteGroup, OffsetCommit, OffsetDelete, PartitionCommit, TopicCommit

from tests.groups.host import (
    Host,
    Member,
    code_of,
    commit,
    delete,
    fetch,
    join,
    leave,
    listed,
    settle,
    stable,
    state,
)
from tests.made_settings import shard_config

SUBSCRIPTION_T = bytes.fromhex("000000000001000174ffffffff")
"""Version 0, topics [t]."""


def forget(host: Host, topic: str = "t", *partitions: int, group: str = "g"):
    return host.ask(OffsetDelete(group, ((topic, partitions or (0,)),)))


class Subscriber(Member):
    """A consumer that subscribes to topic t."""

    def __init__(self, host: Host, metadata: bytes = SUBSCRIPTION_T) -> None:
        super().__init__(host, names=("",), data=metadata)


def subscribed(host: Host, metadata: bytes = SUBSCRIPTION_T) -> Subscriber:
    member = Subscriber(host, metadata).join()
    host.advance(0)
    settle(host, [member])
    return member


# OffsetDelete.


def test_offset_delete_of_no_or_an_unknown_group():
    host = Host()
    assert forget(host, group="").error == 24
    assert forget(host).error == 69


def test_offset_delete_in_an_empty_group():
    host = Host()
    host.ask(commit(offset=1))
    host.ask(commit(offset=2, partition=1))
    assert forget(host, "t", 0, 7).topics == (("t", ((0, 0), (7, 0))),)
    assert [fetch(host).offset, fetch(host, partition=1).offset] == [-1, 2]


def test_offset_delete_of_nothing_stored_writes_nothing():
    host = Host()
    host.ask(commit())
    records = len(host.log)
    assert forget(host, "x", 3).topics == (("x", ((3, 0),)),)
    assert len(host.log) == records


def test_offset_delete_refuses_subscribed_topics_only():
    host = Host()
    member = subscribed(host)
    host.ask(commit(member.id, 1))
    host.ask(commit(member.id, 1, topic="u"))
    assert forget(host, "t").topics == (("t", ((0, 86),)),)
    assert forget(host, "u").topics == (("u", ((0, 0),)),)
    assert [fetch(host).offset, fetch(host, topic="u").offset] == [5, -1]


def test_offset_delete_with_unreadable_subscriptions_counts_as_subscribed_to_everything():
    for metadata in (b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", SUBSCRIPTION_T[:-1], b"\0\0\x7f\xff\xff\xff"):
        host = Host()
        member = subscribed(host, metadata)
        host.ask(commit(member.id, 1))
        assert forget(host).topics == (("t", ((0, 86),)),)


def test_offset_delete_reads_later_subscription_versions_by_their_prefix():
    host = Host()
    member = subscribed(
        host, bytes.fromhex("000300000001000174ffffffff000000010001740000000200000000000000010000000700027231")
    )
    host.ask(commit(member.id, 1, topic="u"))
    assert forget(host, "t").topics[0][1][0][1] == 86
    assert forget(host, "u").topics[0][1][0][1] == 0


def test_offset_delete_of_another_protocol_type_with_members_is_68():
    host = Host()
    member = Member(host, protocol_type="connect").join()
    host.advance(0)
    member.took()
    assert forget(host).error == 68


def test_offset_delete_in_a_first_join_phase_deletes_nothing():
    host = Host(shard_config())
    host.ask(commit())
    Member(host).join()
    assert forget(host).topics[0][1][0][1] == 86


def test_offset_delete_waits_for_commits_in_flight():
    host = Host()
    host.ask(commit(offset=1))
    host.hold = True
    host.send(commit(offset=2))
    ticket = host.send(OffsetDelete("g", (("t", (0,)),)))
    later = host.send(commit(offset=3))
    assert len(host.in_flight) == 1
    host.commit_all()
    assert host.answers[ticket].error == 0
    assert code_of(host.answers[later]) == 0
    assert fetch(host).offset == 3


# DeleteGroups.


def test_delete_of_unknown_and_of_non_empty_groups():
    host = Host(shard_config())
    assert delete(host) == 69
    member = Member(host).join()
    assert delete(host) == 68
    host.advance(3_000)
    member.took()
    assert delete(host) == 68
    member.sync()
    assert delete(host) == 68


def test_deleted_group_is_gone_with_its_offsets_and_a_later_one_starts_clean():
    host = Host()
    (member,) = stable(host, 1)
    host.ask(commit(member.id, 1))
    host.ask(leave(member.id))
    assert delete(host) == 0
    assert (state(host), listed(host), delete(host)) == ("Dead", {}, 69)
    assert fetch(host).offset == -1
    (member,) = stable(host, 1)
    assert member.generation == 1
    assert fetch(host).offset == -1
    host.check_replicas()


def test_delete_of_a_simple_group():
    host = Host()
    host.ask(commit())
    assert delete(host) == 0
    assert state(host) == "Dead"


def test_delete_leaves_no_ghost_of_a_commit_in_flight():
    host = Host()
    host.ask(commit(offset=1))
    host.hold = True
    host.send(commit(offset=2, partition=1))
    ticket = host.send(DeleteGroup("g"))
    host.commit_all()
    assert host.answers[ticket].error == 0
    host.hold = False
    host.ask(commit(offset=9, partition=2))
    assert [fetch(host, partition=p).offset for p in range(3)] == [-1, -1, 9]


def test_delete_forgets_ids_that_were_handed_out():
    host = Host()
    given = host.ask(join(known=True)).member
    assert delete(host) == 0
    assert host.ask(join(member=given, known=True)).error == 25


def test_delete_that_is_dropped_deletes_nothing():
    host = Host()
    host.ask(commit())
    host.hold = True
    ticket = host.send(DeleteGroup("g"))
    host.drop(Code.NOT_ENOUGH_REPLICAS)
    assert host.answers[ticket].error == 15
    assert fetch(host).offset == 5


def test_delete_of_a_huge_group_takes_several_batches_and_one_answer():
    host = Host()
    partitions = limits.GROUP_DELETE_BATCH + 10
    many = tuple(PartitionCommit(n, 1, -1, "") for n in range(partitions))
    host.ask(
        OffsetCommit(group="g", generation=-1, member="", instance=None, topics=(TopicCommit("t", bytes(16), many),))
    )
    assert host.offset_count() == partitions
    before = len(host.log)
    assert delete(host) == 0
    assert len(host.log) == before + 2
    assert host.offset_count() == 0
    host.check_replicas()


# Deleted topics.

OLD, NEW = b"\1" * 16, b"\2" * 16


def run_jobs(host: Host) -> None:
    host.run(host.leader.topic_deleted(host.now, OLD))
    host.tick()


def test_offsets_of_a_deleted_topic_id_are_tombstoned_and_no_others():
    host = Host()
    host.ask(commit(topic_id=OLD))
    host.ask(commit(topic_id=OLD, group="h"))
    host.ask(commit(topic_id=NEW, partition=1))
    host.ask(commit(partition=2))
    run_jobs(host)
    assert [fetch(host, partition=p).offset for p in range(3)] == [-1, 5, 5]
    assert fetch(host, "h").offset == -1
    host.check_replicas()


def test_id_that_only_occurs_in_a_text_deletes_nothing():
    host = Host()
    host.ask(commit(metadata=OLD.decode()))
    run_jobs(host)
    assert fetch(host).offset == 5


def test_commit_to_the_recreated_topic_in_flight_survives():
    host = Host()
    host.ask(commit(topic_id=OLD, offset=1))
    host.hold = True
    ticket = host.send(commit(topic_id=NEW, offset=2))
    run_jobs(host)
    assert len(host.in_flight) == 1, "decided while a commit was in flight"
    host.commit_all()
    host.tick()
    host.commit_all()
    assert code_of(host.answers[ticket]) == 0
    host.hold = False
    assert fetch(host).offset == 2


def test_large_numbers_go_in_bounded_batches():
    host = Host()
    many = tuple(PartitionCommit(n, 1, -1, "") for n in range(2 * limits.GROUP_TOMBSTONES_PER_BATCH + 1))
    host.ask(OffsetCommit(group="g", generation=-1, member="", instance=None, topics=(TopicCommit("t", OLD, many),)))
    before = len(host.log)
    run_jobs(host)
    assert host.offset_count() == 0
    assert len(host.log) == before + 3


def test_new_leader_finishes_the_deletion():
    host = Host()
    host.ask(commit(topic_id=OLD))
    for follower in host.followers:
        assert follower.topic_deleted(host.now, OLD) == []
    host.crash()
    assert fetch(host).offset == -1


def test_tombstones_of_a_deleted_topic_that_were_refused_are_tried_again_by_the_same_leader():
    """Too much was in flight, again and again; nothing else would come to it before the next leader."""
    host = Host()
    for number in range(30):
        host.ask(commit(group=f"g{number}", topic_id=OLD))
    host.hold = True
    host.run(host.leader.topic_deleted(host.now, OLD))
    for _ in range(3):
        host.advance(1)
        refused = len(host.in_flight)
        assert 0 < refused <= limits.GROUP_SWEEP_IN_FLIGHT_MAX
        for _ in range(refused):
            host.drop(Code.COORDINATOR_NOT_AVAILABLE)
        host.advance(limits.APPEND_RETRY_MS - 1)
        assert not host.in_flight, "a pause between two tries"
    host.hold = False
    host.advance(60_000)
    assert [fetch(host, f"g{number}").offset for number in range(30)] == [-1] * 30
    host.check_replicas()


# Topics of an upstream Kafka.


def gone(host: Host, **last_seen_ms: int) -> None:
    host.run(host.leader.topics_gone(host.now, last_seen_ms))
    host.tick()


def test_offsets_of_a_topic_that_is_gone_are_tombstoned_if_they_were_committed_by_then():
    host = Host()
    host.ask(commit(offset=1))
    host.ask(commit(offset=1, group="h"))
    seen_ms = host.now.wall_ms
    host.advance(5_000)
    host.ask(commit(offset=2, partition=1))
    gone(host, t=seen_ms, other=seen_ms)
    assert [fetch(host, partition=p).offset for p in range(2)] == [-1, 2]
    assert fetch(host, "h").offset == -1
    host.check_replicas()
    host.ask(commit(offset=3))
    gone(host, t=seen_ms)
    assert fetch(host).offset == 3, "of its successor"


def test_a_name_in_a_text_or_in_part_is_another_topics():
    host = Host()
    host.ask(commit(metadata="the topic tt"))
    gone(host, the=host.now.wall_ms, tt=host.now.wall_ms, topic=host.now.wall_ms)
    assert fetch(host).offset == 5


def test_a_commit_in_flight_survives_a_topic_that_is_gone():
    host = Host()
    host.ask(commit(offset=1))
    seen_ms = host.now.wall_ms
    host.advance(5_000)
    host.hold = True
    ticket = host.send(commit(offset=2))
    gone(host, t=seen_ms)
    host.commit_all()
    host.tick()
    host.commit_all()
    assert code_of(host.answers[ticket]) == 0
    host.hold = False
    assert fetch(host).offset == 2


def test_a_follower_removes_offsets_of_topics_that_are_gone_when_it_leads():
    host = Host()
    host.ask(commit())
    for follower in host.followers:
        assert follower.topics_gone(host.now, {"t": host.now.wall_ms}) == []
    host.crash()
    assert fetch(host).offset == -1


# What of it is told to who shows offsets elsewhere.


def test_what_has_changed_is_told_as_applied_and_offsets_are_of_one_topic():
    host = Host()
    shard = host.leader
    host.ask(commit(offset=1))
    assert shard.take_changes() == [], "nobody has asked"
    shard.note_changes(True)
    host.ask(commit(offset=2))
    host.ask(commit(offset=3, partition=1))
    assert shard.take_changes() == [("g", "t", 0), ("g", "t", 1)]
    assert shard.take_changes() == []
    forget(host, "t", 0)
    assert shard.take_changes() == [("g", "t", 0)]
    any_id = b"\5" * 16
    assert shard.committed_offset("g", "t", 0, any_id) is None
    assert shard.committed_offset("g", "t", 1, any_id) == 3, "committed by a client that names no id"
    host.ask(commit(offset=4, partition=1, topic_id=b"\7" * 16))
    assert shard.committed_offset("g", "t", 1, b"\7" * 16) == 4
    assert shard.committed_offset("g", "t", 1, any_id) is None, "a topic of this name that was deleted"
    assert shard.committed_offset("h", "t", 1, any_id) is None
    assert shard.groups_with_offsets() == ["g"]
    shard.note_changes(False)
    assert delete(host) == 0
    assert (shard.take_changes(), shard.groups_with_offsets()) == ([], [])
