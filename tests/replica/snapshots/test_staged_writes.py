"""What an install has fetched is on the disk while it comes, not all at its end."""

import pytest
from muster_coordinator.replica import limits
from muster_coordinator.replica.snapshots import staging

from tests.sim.disk import SimDisk

CHUNK_BYTES = 100
SYNC_BYTES = 1_600


def unsynced_at_most(disk: SimDisk, chunks: list[int]) -> int:
    """The most that a sync would have had to write, while these chunks are staged."""
    most, written, syncs = 0, 0, disk.syncs
    for chunk in chunks:
        staging.write(disk, 7, "0.log", chunk * CHUNK_BYTES, b"v" * CHUNK_BYTES)
        written += CHUNK_BYTES
        if disk.syncs != syncs:
            written, syncs = 0, disk.syncs
        most = max(most, written)
    return most


@pytest.mark.parametrize("swapped", [False, True], ids=["in order", "each two swapped"])
def test_a_staged_file_is_synced_while_it_arrives(monkeypatch: pytest.MonkeyPatch, *, swapped: bool) -> None:
    """Chunks come in any order: several are asked for at a time."""
    monkeypatch.setattr(limits, "INSTALL_SYNC_BYTES", SYNC_BYTES)
    disk = SimDisk()
    staging.begin(disk, 7)
    chunks = list(range(100))
    if swapped:
        chunks = [at ^ 1 for at in chunks]
    before = disk.syncs
    assert unsynced_at_most(disk, chunks) <= SYNC_BYTES + CHUNK_BYTES
    assert disk.syncs - before == 100 * CHUNK_BYTES // SYNC_BYTES, "and not each chunk"


def test_a_sync_that_fails_gives_the_install_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a write that fails: what was fetched is not used again."""
    monkeypatch.setattr(limits, "INSTALL_SYNC_BYTES", CHUNK_BYTES)
    disk = SimDisk()
    staging.begin(disk, 7)
    disk.fail_next("sync", path="0.log")
    with pytest.raises(OSError, match=r"0\.log"):
        staging.write(disk, 7, "0.log", 0, b"v" * CHUNK_BYTES)
