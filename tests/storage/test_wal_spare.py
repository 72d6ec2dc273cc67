"""The WAL's next file is made ahead of need, evenly: a batch waits for a MiB of it at most, or twice its own size."""

from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.limits import KIB, MIB
from muster_coordinator.storage.limits import WAL_SPARE_STEP_BYTES
from muster_coordinator.storage.wal_file import SPARE_NAME, Spare

from tests.sim.disk import SimDisk
from tests.storage.wal_kit import FILE_BYTES as FILE_OF_KIT
from tests.storage.wal_kit import FOLDER, commit, entries, open_wal, wal_files, writes

PATH = f"{FOLDER}/{SPARE_NAME}"
FILE_BYTES = 8 * MIB


class Life:
    """A spare beside a file in use that grows batch by batch from `end`."""

    def __init__(self, *, file_bytes: int = FILE_BYTES, end: int = 0) -> None:
        self.disk = SimDisk()
        self.disk.mkdir(FOLDER)
        self.spare = Spare(self.disk, FOLDER, file_bytes)
        self.end = end

    def zeroed(self) -> int:
        return self.disk.identity(PATH)[0] if self.disk.exists(PATH) else 0

    def batch(self, size: int) -> int:
        """Returns how much was zeroed after it."""
        before = self.zeroed()
        self.end += size
        self.spare.keep_ahead(self.end, size)
        return self.zeroed() - before


def test_it_is_whole_at_half_of_the_file_and_no_batch_waits_for_more_than_a_step() -> None:
    life, size = Life(), 50 * KIB
    assert WAL_SPARE_STEP_BYTES <= FILE_BYTES // 16
    waited = []
    while life.end < FILE_BYTES // 2:
        waited.append(life.batch(size))
        assert life.zeroed() >= min(FILE_BYTES, 2 * life.end) - WAL_SPARE_STEP_BYTES
    assert life.spare.whole
    assert max(waited) < WAL_SPARE_STEP_BYTES + 2 * size
    assert life.batch(size) == 0


def test_small_batches_sync_it_once_a_step() -> None:
    life = Life()
    syncs = life.disk.syncs
    for _ in range(1_000):
        life.batch(200)
    assert life.disk.syncs == syncs
    while not life.spare.whole:
        life.batch(4 * KIB)
    assert life.disk.syncs - syncs <= FILE_BYTES // WAL_SPARE_STEP_BYTES + 1


def test_a_start_into_a_file_that_is_nearly_full_does_not_make_the_next_one_at_once() -> None:
    """The spare is begun anew at each start."""
    life = Life(end=FILE_BYTES * 3 // 4)
    size = 50 * KIB
    while life.end < FILE_BYTES * 7 // 8:
        assert life.batch(size) <= MIB
    assert life.spare.whole, "when half of what was left is used"


def test_of_a_small_file_the_steps_are_small() -> None:
    life = Life(file_bytes=4 * KIB)
    assert [life.batch(100) for _ in range(6)] == [0, 400, 0, 400, 0, 400]


@given(st.lists(st.integers(1, 3 * MIB), max_size=60), st.integers(0, 8 * MIB))
def test_whatever_the_batches_are_each_waits_for_twice_its_size_or_a_mib(sizes: list[int], end: int) -> None:
    life = Life(end=end)
    for size in sizes:
        assert life.batch(size) <= max(MIB, 2 * size)
        assert life.zeroed() <= FILE_BYTES


def test_a_full_disk_costs_what_was_made_and_it_is_begun_again_step_by_step() -> None:
    life = Life()
    while life.zeroed() < MIB:
        life.batch(50 * KIB)
    life.disk.capacity_bytes = life.zeroed()
    while life.zeroed():
        life.batch(50 * KIB)
    life.disk.capacity_bytes = None
    began_at = life.end
    while not life.spare.whole:
        assert life.batch(50 * KIB) < WAL_SPARE_STEP_BYTES + 4 * 50 * KIB
    assert life.end <= began_at + (FILE_BYTES - began_at) // 2 + 50 * KIB


def test_a_new_file_of_a_wal_needs_no_space_once_half_of_the_one_before_is_written() -> None:
    disk = SimDisk()
    wal = open_wal(disk)
    index = 1
    while wal._position < FILE_OF_KIT // 2 + 100:
        commit(wal, writes(1, entries(index, index + 1, size=60)))
        index += 1
    disk.capacity_bytes = sum(disk.identity(f"{FOLDER}/{name}")[0] for name in disk.listdir(FOLDER))
    assert disk.free_bytes() == 0
    while len(wal_files(disk)) == 1:
        commit(wal, writes(1, entries(index, index + 1, size=60)))
        index += 1
