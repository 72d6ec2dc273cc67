"""Forgetting producers: by a command of the leader, and never one that may still retry."""

import pytest
from muster_coordinator.groups.effects import Now
from muster_coordinator.topics import limits
from muster_coordinator.topics.log_commands import ExpireProducers, decode_log_command
from muster_coordinator.topics.machine import Accepted, Duplicate

from tests.topics.batch_bytes import T0, idempotent
from tests.topics.leader import DAY_MS, HOUR_MS, NOW, Leader, later, replay


def expired(leader: Leader, now: Now) -> tuple[tuple[int, int], ...]:
    data = leader.partition.expire_producers(now)
    if data is None:
        return ()
    command = decode_log_command(data)
    assert isinstance(command, ExpireProducers)
    return command.producers


def test_a_producer_silent_for_a_day_is_forgotten_and_may_begin_anywhere() -> None:
    leader = Leader()
    leader.produce(idempotent(0))
    assert expired(leader, later(DAY_MS)) == ()
    assert expired(leader, later(DAY_MS + 1)) == ((7, 0),)
    data = leader.partition.expire_producers(later(DAY_MS + 1))
    assert data is not None
    assert leader.offer(idempotent(0)) == Duplicate(0, T0), "only apply forgets"
    leader.command(data)
    assert isinstance(leader.offer(idempotent(99)), Accepted)
    assert replay(leader.log).state_hash() == leader.partition.state_hash()


def test_a_producer_of_old_records_is_not_forgotten_while_it_writes() -> None:
    leader = Leader()
    leader.produce(idempotent(0, base_timestamp=T0 - 4000 * DAY_MS))
    assert expired(leader, later(HOUR_MS - 1)) == ()
    leader.offer(idempotent(0, base_timestamp=T0 - 4000 * DAY_MS), later(HOUR_MS - 1))
    assert expired(leader, later(HOUR_MS)) == (), "its retry was heard of"
    assert expired(leader, later(2 * HOUR_MS)) == ((7, 0),)


def test_a_new_leader_waits_before_it_forgets() -> None:
    old = Leader()
    old.produce(idempotent(0, base_timestamp=T0 - 2 * DAY_MS))
    new = replay(old.log)
    assert new.expire_producers(NOW) is None
    assert new.expire_producers(later(HOUR_MS - 1)) is None
    assert new.expire_producers(later(HOUR_MS)) is not None
    new.resign()
    assert new.expire_producers(later(2 * HOUR_MS)) is None, "leadership came back: it waits again"


def test_a_wall_clock_that_jumps_forgets_nobody_who_was_just_heard() -> None:
    leader = Leader()
    leader.produce(idempotent(0))
    assert expired(leader, Now(NOW.monotonic_ms + 1000, NOW.wall_ms + 400 * DAY_MS)) == ()


def test_a_producer_with_a_batch_in_flight_stays() -> None:
    leader = Leader()
    leader.produce(idempotent(0))
    leader.accept(idempotent(1))
    assert expired(leader, later(2 * DAY_MS)) == ()


def test_a_batch_that_overtakes_the_expiry_keeps_the_producer() -> None:
    leader = Leader()
    leader.produce(idempotent(0))
    data = leader.partition.expire_producers(later(2 * DAY_MS))
    assert data is not None
    leader.produce(idempotent(1))
    leader.command(data)
    assert leader.offer(idempotent(1)) == Duplicate(1, T0)
    assert replay(leader.log).state_hash() == leader.partition.state_hash()


def test_a_producer_inside_a_transaction_stays() -> None:
    leader = Leader()
    leader.pending.append(Accepted(idempotent(0, attributes=0x10), 99, -1))
    leader.commit_one()
    leader.partition.expire_producers(NOW)
    assert expired(leader, later(9 * DAY_MS)) == ()


def test_one_command_forgets_at_most_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PRODUCERS_EXPIRED_PER_COMMAND_MAX", 2)
    leader = Leader()
    for pid in range(5):
        leader.produce(idempotent(0, pid=pid))
    sizes = []
    for _ in range(4):
        data = leader.partition.expire_producers(later(2 * DAY_MS))
        if data is None:
            break
        sizes.append(len(expired(leader, later(2 * DAY_MS))))
        leader.command(data)
    assert sizes == [2, 2, 1]


def test_a_batch_that_never_entered_the_log_leaves_no_trace() -> None:
    leader = Leader()
    for pid in range(50):
        leader.partition.dropped(leader.accept(idempotent(0, pid=pid)).token)
    assert not leader.partition._heard_ms
