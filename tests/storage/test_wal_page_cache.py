"""What a start has read is durable, even when it came from a page cache that a dead process left behind.

A process that dies between write and sync, or because the sync failed, leaves its last batch in the page cache. The
next start finds it sound and builds on it (a vote is kept, an append is acknowledged); a power loss must not take it
back then. After a failed sync the kernel holds the pages for clean, so syncing again is not enough.
"""

import errno
from random import Random

import pytest
from muster_coordinator.errors import StorageFailed

from tests.sim.disk import SimDisk
from tests.storage.wal_kit import all_entries, commit, entries, open_wal, writes


def half_done(disk):
    """A WAL whose last batch was written and not synced."""
    wal = open_wal(disk)
    commit(wal, writes(1, entries(1, 4)))
    wal.stage(writes(1, entries(4, 6), hard=(3, 2, 3)))
    return wal, wal.take_job()


def killed_between_write_and_sync(disk):
    _, job = half_done(disk)

    def die(operation, path, size):
        if operation == "sync":
            raise KeyboardInterrupt

    disk.cost = die
    with pytest.raises(KeyboardInterrupt):
        job()
    disk.cost = None
    disk.restart()


def killed_by_a_failed_sync(disk):
    _, job = half_done(disk)
    disk.fail_next("sync", errno.EIO)
    with pytest.raises(StorageFailed):
        job()
    disk.restart()


@pytest.mark.parametrize("end", [killed_between_write_and_sync, killed_by_a_failed_sync])
@pytest.mark.parametrize("seed", range(20))
def test_what_a_start_found_survives_a_power_loss(end, seed):
    disk = SimDisk()
    end(disk)
    found = open_wal(disk)
    seen = all_entries(found, 1), found.groups()[1].hard_state
    disk.crash(Random(seed))
    again = open_wal(disk)
    assert (all_entries(again, 1), again.groups()[1].hard_state) == seen


@pytest.mark.parametrize("seed", range(20))
def test_batches_behind_a_failed_sync_do_not_turn_it_into_corruption(seed):
    disk = SimDisk()
    killed_by_a_failed_sync(disk)
    wal = open_wal(disk)
    last = wal.groups()[1].last_index
    commit(wal, writes(1, entries(last + 1, last + 3)))
    disk.crash(Random(seed))
    assert all_entries(open_wal(disk), 1) == list(entries(1, last + 3))
