"""Which entries of a group one read of a WAL file takes along."""

import pytest
from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.messages import Entry
from muster_coordinator.storage.limits import WAL_READ_GAP_BYTES
from muster_coordinator.storage.wal_format import RECORD_HEADER_BYTES
from muster_coordinator.storage.wal_index import UNPLACED, GroupLog, place_of

LENGTH = 100
RECORD_BYTES = RECORD_HEADER_BYTES + LENGTH
MOST = 1 << 20


def log_of(*places: tuple[int, int]) -> GroupLog:
    """Entries from 1 on, each at (file, position)."""
    log = GroupLog(GroupNo(7))
    for file, position in places:
        log.append(1, place_of(file, position), LENGTH)
    return log


def test_entries_side_by_side_and_those_a_gap_apart_are_read_at_once() -> None:
    second = 4_096 + RECORD_BYTES
    third = second + RECORD_BYTES + WAL_READ_GAP_BYTES
    log = log_of((3, 4_096), (3, second), (3, third), (3, third + RECORD_BYTES + WAL_READ_GAP_BYTES + 1))
    assert log.near(1, 5, MOST) == [4_096, second, third], "the fourth begins a byte behind the gap"
    assert log.near(2, 5, MOST) == [second, third]
    assert log.near(1, 3, MOST) == [4_096, second], "no further than is asked for"
    assert log.near(4, 5, MOST) == [third + RECORD_BYTES + WAL_READ_GAP_BYTES + 1]


@pytest.mark.parametrize(
    "other", [(4, RECORD_BYTES), (0, 0)], ids=["in the next file", "not yet in any"]
)  # a place in no file is UNPLACED
def test_another_file_ends_a_read(other: tuple[int, int]) -> None:
    assert place_of(0, 0) == UNPLACED
    assert log_of((3, 0), (3, RECORD_BYTES), other).near(1, 4, MOST) == [0, RECORD_BYTES]


def test_what_is_in_memory_is_not_read() -> None:
    log = log_of((3, 0), (3, RECORD_BYTES), (3, 2 * RECORD_BYTES))
    log.cached[2] = Entry(1, 2, 0, b"")
    assert log.near(1, 4, MOST) == [0]


def test_a_read_has_its_size_and_the_first_entry_whatever_that_is() -> None:
    log = log_of((3, 0), (3, RECORD_BYTES), (3, 2 * RECORD_BYTES))
    assert log.near(1, 4, 1) == [0]
    assert log.near(1, 4, 2 * RECORD_BYTES) == [0, RECORD_BYTES]
    assert log.near(1, 4, 3 * RECORD_BYTES - 1) == [0, RECORD_BYTES]
    assert log.near(1, 4, 3 * RECORD_BYTES) == [0, RECORD_BYTES, 2 * RECORD_BYTES]
