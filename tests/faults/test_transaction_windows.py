"""The verdict of `transactions`: where a coordinator died is read right from logs that are made for each case."""

import struct

import pytest
from muster_coordinator.records.batch import encode_batch, stamp
from muster_coordinator.records.control import EndMarker, TransactionMarker, marker_batch

from tests.faults.transactions import End, Sent, bumps, ends, markers, split, untrue, windows

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
KEY = b"\0\0\0\x01a"


def told(state: int, *, by: int, epoch: int = 0, key: bytes = KEY, version: int = 0) -> bytes:
    """One record of the coordinator's log, written by the leader of epoch `by`."""
    value = struct.pack(">hqhib", version, 7, epoch, 20_000, state) + b"rest"
    return stamp(encode_batch([(key, value)], timestamp_ms=1), 0, by)


def sent(by: int, epoch: int = 0) -> bytes:
    return marker_batch(TransactionMarker(7, epoch, EndMarker(True, by), 0), 1)


def test_an_end_is_read_with_the_epochs_of_who_prepared_and_who_completed_it():
    log = [told(ONGOING, by=3), told(PREPARE_COMMIT, by=3), told(COMPLETE_COMMIT, by=4, version=1)]
    assert ends(iter(log)) == [End(7, 0, 3, 4, True)]
    log = [told(PREPARE_ABORT, by=3), told(PREPARE_COMMIT, by=3, key=b"\0\0\0\x01b"), told(COMPLETE_ABORT, by=3)]
    assert ends(iter(log)) == [End(7, 0, 3, 3, False)]


@pytest.mark.parametrize(
    ("epochs", "window"),
    [([[4], [4]], "no marker"), ([[3, 4], [4]], "some markers"), ([[3, 4], [3]], "all markers"), ([], "no marker")],
)
def test_the_window_is_told_by_who_sent_the_first_marker_to_each_partition(epochs: list[list[int]], window: str):
    by: Sent = {(7, 0): {}}
    for partition, epochs_there in enumerate(epochs):
        found = [epoch for _, _, epoch in markers(b"".join(sent(epoch) for epoch in epochs_there))]
        assert found == epochs_there
        by[7, 0]["t", partition] = found[0]
    assert windows([End(7, 0, 3, 4, True)], by) == {window: 1}
    assert not windows([End(7, 0, 3, 3, True)], by), "the same coordinator did all of it"
    assert not windows([End(7, 0, 3, 4, True), End(7, 0, 4, 4, True)], by), "two under one epoch"


def test_an_end_that_was_told_otherwise_than_it_stands_is_found():
    found = [End(7, 1, 3, 3, True), End(7, 2, 3, 4, False)]
    assert untrue(found, {(7, 1): True, (7, 2): False}) == []
    assert len(untrue(found, {(7, 1): False, (7, 2): True, (7, 3): True})) == 3


def test_an_epoch_that_is_raised_by_two_coordinators_in_turn_and_never_used_is_counted():
    assert bumps(iter([told(EMPTY, by=3), told(EMPTY, by=4, epoch=1)])) == 1
    assert bumps(iter([told(EMPTY, by=3), told(EMPTY, by=3, epoch=1)])) == 0
    assert bumps(iter([told(EMPTY, by=3), told(ONGOING, by=3), told(EMPTY, by=4, epoch=1)])) == 0


def test_a_cut_batch_at_the_end_is_left_out():
    data = sent(3) + sent(4)
    assert list(split(data[:-1])) == [sent(3)]
