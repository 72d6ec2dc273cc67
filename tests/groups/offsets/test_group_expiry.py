"""Expiry of offsets and groups: protocol notes 4.6, invariants O11, B1, B2, B5."""

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.groups import limits
from muster_coordinator.groups.requests import OffsetCommit, PartitionCommit, TopicCommit
from muster_coordinator.records.keys import encode_group_key, encode_offset_key
from muster_coordinator.records.offsets_log import (
    GroupMetadataValue,
    encode_group_value,
    encode_offset_value,
)

from tests.groups.host import WALL, Host, Member, commit, fetch, join, leave, listed, settle, stable, state, sync
from tests.made_settings import shard_config

DAY = 86_400_000
CHECK = limits.OFFSETS_RETENTION_CHECK_MS
SUBSCRIPTION_T = bytes.fromhex("000000000001000174ffffffff")


def consumer(host: Host, metadata: bytes = SUBSCRIPTION_T, protocol_type: str = "consumer") -> Member:
    """Its session outlives any test; sync is done."""
    member = Member(
        host, names=("",), data=metadata, session=1_800_000, rebalance=1_800_000, protocol_type=protocol_type
    ).join()
    host.advance(0)
    if protocol_type == "consumer":
        settle(host, [member])
    return member


def days(host: Host, count: float, *alive: Member) -> None:
    """Time passes; members keep their sessions."""
    left = int(count * DAY)
    while left > 0:
        step = min(left, 1_000_000)
        host.advance(step)
        left -= step
        for member in alive:
            assert member.beat() == 0


def test_simple_group_expires_by_commit_time_and_vanishes():
    host = Host()
    host.ask(commit(offset=1))
    host.advance(limits.OFFSETS_RETENTION_MS - CHECK)
    host.ask(commit(offset=2, partition=1))
    host.advance(2 * CHECK)
    assert [fetch(host).offset, fetch(host, partition=1).offset] == [-1, 2]
    host.advance(limits.OFFSETS_RETENTION_MS)
    assert listed(host) == {}
    assert state(host) == "Dead"
    host.check_replicas()


def test_nothing_expires_before_its_time():
    host = Host()
    host.ask(commit(offset=1))
    host.advance(limits.OFFSETS_RETENTION_MS - 1)
    assert fetch(host).offset == 1


def test_empty_group_expires_from_when_it_became_empty():
    host = Host()
    member = consumer(host)
    host.ask(commit(member.id, 1))
    days(host, 5, member)
    host.ask(leave(member.id))
    days(host, 6)
    assert fetch(host).offset == 5, "the commit is 11 days old, the emptiness 6"
    days(host, 1.1)
    assert fetch(host).offset == -1
    assert state(host) == "Dead"
    host.check_replicas()


def test_becoming_empty_again_starts_anew():
    host = Host()
    member = consumer(host)
    host.ask(commit(member.id, 1))
    host.ask(leave(member.id))
    days(host, 6)
    member = consumer(host)
    host.ask(leave(member.id))
    days(host, 6)
    assert fetch(host).offset == 5


def test_fresh_commit_into_a_long_empty_group_is_kept():
    """Kafka would expire it with the rest; an offset younger than the retention never expires here."""
    host = Host()
    member = consumer(host)
    host.ask(commit(member.id, 1))
    host.ask(leave(member.id))
    days(host, 6.9)
    host.ask(commit(offset=9, partition=1))
    days(host, 1)
    assert [fetch(host).offset, fetch(host, partition=1).offset] == [-1, 9]
    assert state(host) == "Empty"


def test_stable_consumer_group_loses_only_what_nobody_subscribes_to():
    host = Host()
    member = consumer(host)
    host.ask(commit(member.id, 1, topic="t"))
    host.ask(commit(member.id, 1, topic="old"))
    days(host, 7.1, member)
    assert [fetch(host).offset, fetch(host, topic="old").offset] == [5, -1]
    assert state(host) == "Stable"


def test_unreadable_subscriptions_keep_everything():
    host = Host()
    member = consumer(host, b"junk")
    host.ask(commit(member.id, 1, topic="old"))
    days(host, 8, member)
    assert fetch(host, topic="old").offset == 5


def test_other_protocol_types_with_members_keep_everything():
    host = Host()
    member = consumer(host, protocol_type="connect").took()
    assert host.ask(sync(member.id, protocol_type="connect", protocol="")).error == 0
    host.ask(commit(member.id, 1, topic="old"))
    days(host, 8, member)
    assert fetch(host, topic="old").offset == 5


def test_a_rebalancing_group_loses_nothing():
    """KAFKA-13636."""
    host = Host()
    member = consumer(host)
    host.ask(commit(member.id, 1, topic="old"))
    days(host, 6.999, member)
    Member(host, names=("",), data=SUBSCRIPTION_T, session=1_800_000, rebalance=1_800_000).join()
    for _ in range(4):
        host.advance(CHECK // 2)
        assert member.beat() == 27
    assert state(host) == "PreparingRebalance"
    assert fetch(host, topic="old").offset == 5


def test_partition_with_an_open_transaction_is_kept_and_so_is_its_group():
    host = Host()
    host.ask(commit(offset=1))
    host.ask(commit(offset=2, partition=1))
    host.apply_records((encode_offset_key("g", "t", 0), encode_offset_value(3, -1, "", WALL)), producer_id=7)
    host.advance(limits.OFFSETS_RETENTION_MS + CHECK)
    assert [fetch(host).offset, fetch(host, partition=1).offset] == [1, -1]
    host.end_transaction(7, commit=True)
    assert fetch(host).offset == 3


def test_empty_group_with_only_a_pending_offset_is_not_removed():
    host = Host()
    (member,) = stable(host, 1)
    host.apply_records((encode_offset_key("g", "t", 0), encode_offset_value(3, -1, "", WALL)), producer_id=7)
    host.ask(leave(member.id))
    host.advance(CHECK)
    assert state(host) == "Empty"
    host.end_transaction(7, commit=False)
    host.advance(CHECK)
    assert state(host) == "Dead"


def test_commit_with_its_own_retention_expires_by_that():
    host = Host()
    host.ask(commit(offset=1, retention=60_000))
    host.ask(commit(offset=2, partition=1, retention=30 * DAY))
    host.advance(CHECK)
    assert fetch(host).offset == -1
    host.advance(8 * DAY)
    assert fetch(host, partition=1).offset == 2


def test_empty_group_without_offsets_goes_at_the_first_tick():
    host = Host()
    (member,) = stable(host, 1)
    host.ask(leave(member.id))
    host.advance(CHECK - host.config.initial_rebalance_delay_ms)
    assert state(host) == "Dead"
    host.check_replicas()


def test_group_with_an_id_handed_out_is_not_removed():
    host = Host()
    host.advance(CHECK - 5_000)
    given = host.ask(join(known=True)).member
    host.advance(5_000)
    ticket = host.send(join(member=given, known=True))
    host.advance(0)
    assert host.answers[ticket].error == 0


def test_retention_of_2_to_the_31_minutes_does_not_overflow():
    host = Host(shard_config(offsets_retention_ms=(2**31 - 1) * 60_000))
    host.ask(commit())
    host.advance(20 * DAY)
    assert fetch(host).offset == 5


def test_expiry_decides_the_same_after_a_replay():
    """KAFKA-8069."""
    outcomes = []
    for crash in (False, True):
        host = Host()
        member = consumer(host)
        host.ask(commit(member.id, 1))
        host.ask(leave(member.id))
        host.ask(commit(offset=3, partition=1, timestamp=1))
        if crash:
            host.crash()
        host.advance(limits.OFFSETS_RETENTION_MS - 2 * CHECK)
        before = [fetch(host, partition=p).offset for p in range(2)]
        host.advance(4 * CHECK)
        outcomes.append((before, [fetch(host, partition=p).offset for p in range(2)]))
    assert outcomes[0] == outcomes[1] == ([5, 3], [-1, -1])


def test_record_without_a_state_timestamp_counts_from_the_commit():
    host = Host()
    empty = GroupMetadataValue("consumer", 3, None, None, -1, ())
    host.apply_records(
        (encode_group_key("g"), encode_group_value(empty)),
        (encode_offset_key("g", "t", 0), encode_offset_value(3, -1, "", WALL)),
    )
    host.advance(limits.OFFSETS_RETENTION_MS - 1)
    assert fetch(host).offset == 3
    host.advance(CHECK)
    assert fetch(host).offset == -1


@pytest.mark.parametrize("jump", [8 * DAY, -8 * DAY])
def test_a_jump_of_the_wall_clock_expires_nothing(jump):
    host = Host()
    host.ask(commit())
    host.advance(CHECK // 2)
    host.wall += jump
    host.advance(CHECK)
    host.wall -= jump
    host.advance(3 * CHECK)
    assert fetch(host).offset == 5


def test_commit_in_flight_is_never_followed_by_an_expiry_tombstone():
    """KAFKA-4399."""
    host = Host()
    host.ask(commit(offset=1))
    host.advance(limits.OFFSETS_RETENTION_MS - CHECK)
    host.hold = True
    ticket = host.send(commit(offset=2))
    host.advance(2 * CHECK)
    assert len(host.in_flight) == 1
    host.commit_all()
    host.hold = False
    assert ticket in host.answers
    host.advance(CHECK)
    assert fetch(host).offset == 2


def test_commit_that_comes_while_the_tombstone_is_in_flight_wins():
    host = Host()
    host.ask(commit(offset=1))
    host.advance(limits.OFFSETS_RETENTION_MS - 1)
    host.hold = True
    host.advance(CHECK)
    assert len(host.in_flight) == 1
    host.send(commit(offset=2))
    host.commit_all()
    assert fetch(host).offset == 2


def test_dropped_tombstones_are_proposed_again_at_the_next_tick():
    host = Host()
    host.ask(commit(offset=1))
    host.advance(limits.OFFSETS_RETENTION_MS - 1)
    host.hold = True
    host.advance(CHECK)
    host.drop(Code.COORDINATOR_NOT_AVAILABLE)
    assert fetch(host).offset == 1
    host.hold = False
    host.advance(CHECK)
    assert fetch(host).offset == -1


def test_many_groups_and_offsets_go_in_slices_of_bounded_work_and_bounded_batches():
    host = Host(followers=0)
    groups = 1_200
    for n in range(groups):
        host.ask(commit(group=f"g{n}"))
    many = tuple(PartitionCommit(n, 1, -1, "") for n in range(2 * limits.GROUP_TOMBSTONES_PER_BATCH + 5))
    host.ask(
        OffsetCommit(group="big", generation=-1, member="", instance=None, topics=(TopicCommit("t", bytes(16), many),))
    )
    host.hold = True
    most = 0
    for _ in range(3):
        host.advance(limits.OFFSETS_RETENTION_MS)
        while host.in_flight:
            most = max(most, len(host.in_flight))
            assert all(len(a.records) <= limits.GROUP_TOMBSTONES_PER_BATCH for a in host.in_flight)
            host.commit()
            host.tick()
    assert host.offset_count() == 0
    assert most <= limits.GROUP_SWEEP_IN_FLIGHT_MAX


def test_follower_never_expires_anything():
    host = Host()
    host.ask(commit())
    follower = host.followers[0]
    assert follower.next_deadline_ms() is None
