"""The log start: retention by time and size, DeleteRecords, and the one command that moves it everywhere."""

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.topics.log_commands import MoveLogStart, decode_log_command, encode_log_command
from muster_coordinator.topics.machine import Refused, RetentionView

from tests.topics.batch_bytes import T0, batch
from tests.topics.leader import HOUR_MS, NOW, Leader, replay


def leader_with(records: int, **configs: str) -> Leader:
    leader = Leader({name.replace("_", "."): value for name, value in configs.items()})
    leader.produce(batch(records))
    return leader


def segments(*shapes: tuple[int, int, int]) -> tuple[RetentionView, ...]:
    """(records, bytes, age of the newest record in ms; -1 for no timestamps) one after the other."""
    views, offset = [], 0
    for records, size, age in shapes:
        views.append(RetentionView(offset, offset + records, size, -1 if age < 0 else T0 - age))
        offset += records
    return tuple(views)


def start_after(leader: Leader, views: tuple[RetentionView, ...]) -> int | None:
    data = leader.partition.retention(NOW, views, configs=leader.configs)
    if data is None:
        return None
    command = decode_log_command(data)
    assert isinstance(command, MoveLogStart)
    return command.offset


def test_time_takes_whole_segments_older_than_retention_ms() -> None:
    leader = leader_with(30, retention_ms="1000")
    assert start_after(leader, segments((10, 1, 1001), (10, 1, 1000), (10, 1, 0))) == 10


def test_time_stops_at_the_first_segment_that_stays() -> None:
    leader = leader_with(30, retention_ms="1000")
    assert start_after(leader, segments((10, 1, 0), (10, 1, 5000), (10, 1, 5000))) is None


def test_the_last_segment_may_go_too_when_it_is_shown() -> None:
    leader = leader_with(20, retention_ms="1000")
    assert start_after(leader, segments((10, 1, 5000), (10, 1, 5000))) == 20


def test_a_future_timestamp_keeps_a_segment() -> None:
    leader = leader_with(20, retention_ms="1000")
    assert start_after(leader, segments((10, 1, -HOUR_MS), (10, 1, 5000))) is None


def test_no_timestamps_no_expiry_by_time() -> None:
    leader = leader_with(20, retention_ms="1000")
    assert start_after(leader, segments((10, 1, -1), (10, 1, 5000))) is None


def test_minus_one_keeps_for_ever() -> None:
    leader = leader_with(20, retention_ms="-1")
    assert start_after(leader, segments((10, 1, 10**12), (10, 1, 0))) is None


def test_the_default_is_seven_days() -> None:
    leader = leader_with(20)
    week = 7 * 24 * HOUR_MS
    assert start_after(leader, segments((10, 1, week), (10, 1, 0))) is None
    assert start_after(leader, segments((10, 1, week + 1), (10, 1, 0))) == 10


@pytest.mark.parametrize(
    ("bound", "start"), [("300", None), ("201", None), ("200", 10), ("101", 10), ("100", 20), ("1", 20), ("0", 30)]
)
def test_size_takes_segments_while_the_rest_still_holds_retention_bytes(bound: str, start: int | None) -> None:
    leader = leader_with(30, retention_bytes=bound)
    assert start_after(leader, segments((10, 100, 0), (10, 100, 0), (10, 100, 0))) == start


def test_size_and_time_add_up() -> None:
    leader = leader_with(30, retention_bytes="100", retention_ms="1000")
    assert start_after(leader, segments((10, 100, 5000), (10, 100, 0), (10, 100, 0))) == 20


def test_what_lies_below_the_log_start_does_not_count_as_kept() -> None:
    leader = leader_with(30, retention_bytes="150")
    leader.command(encode_log_command(MoveLogStart(10)))
    views = segments((10, 100, 0), (10, 100, 0), (10, 100, 0))
    assert start_after(leader, views) is None, "200 bytes are left and one segment less would be below 150"


def test_a_segment_below_the_log_start_does_not_hold_back_those_behind_it() -> None:
    leader = leader_with(30, retention_ms="1000")
    leader.command(encode_log_command(MoveLogStart(10)))
    assert start_after(leader, segments((10, 1, -HOUR_MS), (10, 1, 5000), (10, 1, 0))) == 20


def test_a_policy_without_delete_keeps_everything() -> None:
    leader = leader_with(30, cleanup_policy="compact", retention_ms="1", retention_bytes="0")
    assert start_after(leader, segments((10, 1, 5000), (10, 1, 5000))) is None


def test_retention_never_passes_what_is_applied() -> None:
    leader = leader_with(5, retention_ms="1")
    assert start_after(leader, segments((10, 1, 5000))) == 5


def test_retention_of_nothing_is_nothing() -> None:
    assert start_after(leader_with(5), ()) is None


# DeleteRecords.


def test_delete_records_moves_the_log_start_even_into_a_batch() -> None:
    leader = leader_with(10)
    data = leader.partition.delete_records(4, configs={})
    assert isinstance(data, bytes)
    assert leader.partition.log_start_offset() == 0, "only apply moves it"
    leader.command(data)
    assert leader.partition.log_start_offset() == 4
    assert replay(leader.log).log_start_offset() == 4


def test_delete_records_minus_one_is_the_high_watermark() -> None:
    leader = leader_with(10)
    data = leader.partition.delete_records(-1, configs={})
    assert data == encode_log_command(MoveLogStart(10))


@pytest.mark.parametrize("offset", [-2, 11, 2**62])
def test_delete_records_outside_the_log_is_1(offset: int) -> None:
    refused = leader_with(10).partition.delete_records(offset, configs={})
    assert isinstance(refused, Refused)
    assert refused.code == Code.OFFSET_OUT_OF_RANGE


def test_delete_records_does_not_count_batches_in_flight() -> None:
    leader = leader_with(10)
    leader.accept(batch())
    assert isinstance(leader.partition.delete_records(11, configs={}), Refused)


def test_delete_records_below_the_log_start_changes_nothing() -> None:
    leader = leader_with(10)
    leader.command(encode_log_command(MoveLogStart(6)))
    for offset in (0, 5, 6):
        assert leader.partition.delete_records(offset, configs={}) is None


def test_delete_records_needs_policy_delete() -> None:
    refused = leader_with(10).partition.delete_records(4, configs={"cleanup.policy": "compact"})
    assert isinstance(refused, Refused)
    assert refused.code == Code.POLICY_VIOLATION


# The command.


def test_the_log_start_never_goes_back_and_never_passes_the_end() -> None:
    leader = leader_with(10)
    for offset, start in ((7, 7), (3, 7), (99, 10), (8, 10)):
        leader.command(encode_log_command(MoveLogStart(offset)))
        assert leader.partition.log_start_offset() == start


def test_a_command_takes_no_offset() -> None:
    leader = leader_with(10)
    leader.command(encode_log_command(MoveLogStart(7)))
    assert leader.produce(batch()) == 10
