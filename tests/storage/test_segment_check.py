"""Whatever byte of a sealed segment changes, the check from end to end says so."""

import pytest
from muster_coordinator.errors import SegmentDamaged
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.storage import limits
from muster_coordinator.storage.segment import SegmentSummary
from muster_coordinator.storage.segment_check import CheckedSegment, check_segment
from muster_coordinator.storage.segment_index import SegmentIndex, segment_name, sidecar_name

from tests.sim.disk import SimDisk

FOLDER, BASE, EPOCHS = "segments/1/t-0", 40, (3, 3, 4, 7)
NAME = f"{FOLDER}/{segment_name(BASE)}"


def put(disk: SimDisk, name: str, data: bytes) -> None:
    file = disk.open(name, create=True)
    file.truncate(0)
    file.pwrite(0, [data])


def segment(*values: int, sidecar: bool = True) -> tuple[SimDisk, bytes, SegmentSummary, SegmentIndex]:
    """Batches of two records whose values have these sizes."""
    disk, index, parts = SimDisk(), SegmentIndex(BASE), []
    disk.mkdir(FOLDER)
    for number, size in enumerate(values):
        epoch, at_ms = EPOCHS[number % 4] + 10 * (number // 4), 1_700_000_000_000 + number
        records = [(b"k", bytes(size)), (b"l", b"v")]
        parts.append(encode_batch(records, timestamp_ms=at_ms, base_offset=index.next_offset, leader_epoch=epoch))
        index.note(len(parts[-1]), index.next_offset + 2, epoch, at_ms, 0)
    put(disk, NAME, b"".join(parts))
    if sidecar:
        put(disk, f"{FOLDER}/{sidecar_name(BASE)}", index.encode())
    summary = SegmentSummary(BASE, index.next_offset, index.size, index.max_timestamp_ms)
    return disk, b"".join(parts), summary, index


def checked(disk: SimDisk, summary: SegmentSummary) -> tuple[int, CheckedSegment]:
    """(bytes accounted for, what was found)"""
    steps, total = check_segment(disk, NAME, FOLDER, summary), 0
    while True:
        try:
            total += next(steps)
        except StopIteration as stop:
            return total, stop.value


@pytest.mark.parametrize("sizes", [(10, 20, 30, 5), (3_000,) * 60, (200_000, 10, 100_000), (65_000, 600, 65_400, 1)])
@pytest.mark.parametrize("sidecar", [True, False])
def test_what_was_written_is_whole_and_every_byte_is_accounted_for(sizes: tuple[int, ...], sidecar: bool) -> None:
    disk, data, summary, index = segment(*sizes, sidecar=sidecar)
    total, found = checked(disk, summary)
    assert total == len(data) == summary.size
    assert (found.made.encode(), found.sidecar) == (index.encode(), sidecar)
    again = segment(*sizes)
    assert checked(again[0], again[2])[1].checksum == found.checksum


@pytest.mark.parametrize("sidecar", [True, False])
def test_every_flipped_byte_is_found_where_it_lies(sidecar: bool) -> None:
    disk, data, summary, index = segment(10, 20, 30, 5, sidecar=sidecar)
    unseen = []
    for at in range(len(data)):
        for bit in (0x01, 0x80):
            disk.damage(NAME, at, bytes([data[at] ^ bit]))
            try:
                checked(disk, summary)
                unseen.append(at)
            except SegmentDamaged as error:
                assert error.base == BASE
                assert NAME in str(error)
            disk.damage(NAME, at, data[at : at + 1])
    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + 12 + int.from_bytes(data[starts[-1] + 8 : starts[-1] + 12], "big"))
    epochs = {start + n for start in starts for n in range(12, 16)}
    assert not unseen if sidecar else set(unseen) <= epochs, "no CRC covers the epoch"
    assert checked(disk, summary)[1].made.encode() == index.encode()


@pytest.mark.parametrize("cut", [1, 12, 61, 100, 200])
def test_a_file_of_another_size_is_not_the_segment(cut: int) -> None:
    disk, data, summary, _ = segment(10, 20, 30, 5)
    put(disk, NAME, data[:-cut])
    with pytest.raises(SegmentDamaged, match=f"has {len(data) - cut} bytes"):
        checked(disk, summary)
    put(disk, NAME, data + bytes(cut))
    with pytest.raises(SegmentDamaged):
        checked(disk, summary)


def test_batches_of_the_same_size_from_elsewhere_are_not_the_segment() -> None:
    disk, _, summary, _ = segment(10, 20, 30, 5, sidecar=False)
    with pytest.raises(SegmentDamaged, match="ends before offset"):
        checked(disk, summary._replace(next_offset=summary.next_offset + 1))


def test_a_batch_that_says_it_is_huge_costs_no_huge_read() -> None:
    disk, data, summary, _ = segment(10, 20, 30, 5)
    disk.damage(NAME, 8, b"\x7f\xff\xff\xff")
    with pytest.raises(SegmentDamaged, match="no batch at 0"):
        checked(disk, summary)
    assert len(data) < limits.SEGMENT_CHECK_STEP_BYTES
