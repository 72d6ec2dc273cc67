"""Log cleaning on a real file system without room: whatever operation meets it, the log is as it was, and the next
round, with room, ends like one that was not disturbed. Mounting a small one needs root."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from muster_coordinator.runtime.disk import OsDisk
from muster_coordinator.storage import cleaning

from tests.machine_parts import give_up
from tests.sim.disk import SimDisk
from tests.storage.log_kit import FOLDER
from tests.storage.transactional_history import Transactions

pytestmark = [pytest.mark.integration]
MIB = 1 << 20
PAGE_BYTES = 4_096


class Hopeful(OsDisk):
    """It says that there is room, as it may be a moment before somebody else takes it."""

    def free_bytes(self) -> int:
        return 1 << 40


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0 or shutil.which("mount") is None or shutil.which("umount") is None:
        give_up("tmpfs", "needs root, mount and umount")
    tried = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={4 * MIB}", "tmpfs", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
    )
    if tried.returncode:
        give_up("tmpfs", tried.stderr.strip())
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=False, capture_output=True)


def fill(folder: Path, leave_pages: int) -> None:
    """Another program takes all but so many pages."""
    with (folder / "filler").open("wb", buffering=0) as file:
        for piece in (bytes(64 * 1024), bytes(PAGE_BYTES)):
            state = os.statvfs(folder)
            while state.f_bavail * state.f_frsize - len(piece) >= leave_pages * PAGE_BYTES:
                file.write(piece)
                state = os.statvfs(folder)


def test_a_disk_that_is_full_while_it_is_cleaned_leaves_the_log_as_it_was(small: Path) -> None:
    (small / FOLDER).parent.mkdir(parents=True)
    it = Transactions(Hopeful(str(small)), SimDisk(), 12)
    it.write(60)
    before = it.batches()
    names = set(it.disk.listdir(FOLDER))
    gave_up = 0
    for leave_pages in range(6):
        fill(small, leave_pages)
        try:
            ended = it.clean()
        except OSError as error:
            assert error.errno == errno.ENOSPC
            gave_up += 1
            assert it.batches() == before
            assert set(it.disk.listdir(FOLDER)) <= {*names, "cleaned", "cleaned.next"}
            assert not [name for name in it.disk.listdir(FOLDER) if name.endswith(cleaning.SUFFIX)]
            it.reopen()
            assert it.batches() == before
        else:
            assert ended
            break
        finally:
            (small / "filler").unlink()
    assert gave_up, "it was full"
    it.clean()
    it.check()
    it.reopen()
    it.check()
    it.log.close()
