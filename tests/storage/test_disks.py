"""One contract for the real disk, the simulated and the dry one; then what only the latter two can show."""

import errno
import os
from random import Random

import pytest
from muster_coordinator.runtime.disk import OsDisk
from muster_coordinator.runtime.dry_disk import DryDisk

from tests.sim.disk import PowerLoss, SimDisk


@pytest.fixture(params=["os", "sim", "dry"])
def disk(request, tmp_path):
    if request.param == "sim":
        return SimDisk()
    below = OsDisk(str(tmp_path / "data"))
    return below if request.param == "os" else DryDisk(below)


def put(disk, path, data):
    file = disk.open(path, create=True)
    file.pwrite(0, (data,))
    file.sync()
    file.close()


def get(disk, path):
    file = disk.open(path)
    try:
        return file.pread(0, file.size() + 1)
    finally:
        file.close()


def test_parts_are_written_back_to_back_at_a_position(disk):
    file = disk.open("a", create=True)
    assert file.pwrite(3, (b"one", bytearray(b"two"), memoryview(b"three"))) == 11
    assert file.size() == 14
    assert file.pread(0, 14) == b"\0\0\0onetwothree"
    assert file.pwrite(4, (b"XY",)) == 2
    assert file.pread(3, 5) == b"oXYtw"
    file.close()


def test_thousands_of_parts_are_written_in_order(disk):
    file = disk.open("a", create=True)
    parts = [b"%05d" % n for n in range(3_000)]
    assert file.pwrite(7, parts) == 15_000
    assert file.pread(7, 20_000) == b"".join(parts)
    file.close()


def test_reads_are_short_only_at_the_end(disk):
    put(disk, "a", b"0123456789")
    file = disk.open("a")
    assert file.pread(8, 100) == b"89"
    assert file.pread(10, 5) == b""
    assert file.pread(500, 5) == b""
    assert file.pread(2, 3) == b"234"
    file.close()


def test_truncation_shrinks_and_grows_with_zeros(disk):
    put(disk, "a", b"0123456789")
    file = disk.open("a")
    file.truncate(4)
    file.truncate(6)
    assert file.pread(0, 100) == b"0123\0\0"
    file.close()


def test_an_absent_file_is_not_made_by_opening_it(disk):
    with pytest.raises(FileNotFoundError):
        disk.open("absent")
    with pytest.raises(FileNotFoundError):
        disk.unlink("absent")
    with pytest.raises(FileNotFoundError):
        disk.rename("absent", "other")
    with pytest.raises(FileNotFoundError):
        disk.open("no-folder/file", create=True)
    assert not disk.exists("absent")


def test_folders_names_and_renames(disk):
    assert disk.listdir("x/y") == []
    disk.mkdir("x/y")
    disk.mkdir("x/y")
    put(disk, "x/y/b", b"1")
    put(disk, "x/y/a", b"2")
    assert disk.listdir("x/y") == ["a", "b"]
    assert disk.listdir("x") == ["y"]
    disk.rename("x/y/a", "x/y/b")
    disk.sync_dir("x/y")
    assert disk.listdir("x/y") == ["b"]
    assert get(disk, "x/y/b") == b"2"
    assert disk.exists("x/y")
    disk.rmtree("x")
    disk.rmtree("x")
    assert not disk.exists("x/y/b")
    assert disk.listdir("") == []


def test_an_open_file_outlives_its_name(disk):
    put(disk, "a", b"old")
    file = disk.open("a")
    disk.rename("a", "b")
    put(disk, "a", b"new")
    disk.unlink("b")
    assert file.pread(0, 9) == b"old"
    file.close()
    assert get(disk, "a") == b"new"


def test_closing_twice_is_harmless_and_there_is_space(disk):
    file = disk.open("a", create=True)
    file.close()
    file.close()
    assert disk.free_bytes() > 0


def test_the_real_disk_keeps_others_out(tmp_path):
    disk = OsDisk(str(tmp_path / "data"))
    disk.mkdir("a/b")
    put(disk, "a/b/c", b"1")
    modes = [os.stat(tmp_path / "data" / path).st_mode & 0o777 for path in ("", "a", "a/b", "a/b/c")]
    assert modes == [0o700, 0o700, 0o700, 0o600]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
def test_the_real_disk_stays_in_its_folder(tmp_path, path):
    with pytest.raises(AssertionError):
        OsDisk(str(tmp_path)).open(path)


def test_the_real_disk_finishes_short_writes(tmp_path, monkeypatch):
    calls = []

    def short(fd, parts, offset):
        calls.append(offset)
        return os.pwrite(fd, b"".join(parts)[:3], offset)

    monkeypatch.setattr("muster_coordinator.runtime.disk.os.pwritev", short)
    file = OsDisk(str(tmp_path)).open("a", create=True)
    assert file.pwrite(2, (b"abc", b"defgh")) == 8
    assert file.pread(0, 20) == b"\0\0abcdefgh"
    assert calls == [2]
    file.close()


def test_unsynced_bytes_and_names_may_vanish_and_synced_ones_never():
    fates = set()
    for seed in range(60):
        disk = SimDisk()
        put(disk, "kept", b"durable")
        disk.sync_dir("")
        put(disk, "unnamed", b"x")
        file = disk.open("kept")
        file.pwrite(0, (b"changed",))
        disk.crash(Random(seed))
        fates.add((disk.exists("unnamed"), get(disk, "kept")))
    assert {name for name, _ in fates} == {True, False}
    assert {content for _, content in fates} == {b"durable", b"changed"}


def test_a_large_write_tears_at_sectors():
    torn = 0
    for seed in range(60):
        disk = SimDisk()
        put(disk, "a", bytes(2048))
        disk.sync_dir("")
        disk.open("a").pwrite(100, (b"\1" * 1900,))
        disk.crash(Random(seed))
        content = get(disk, "a")
        cuts = [at for at in range(1, 2048) if content[at] != content[at - 1] and at not in (100, 2000)]
        assert all(at % 512 == 0 for at in cuts)
        torn += bool(cuts)
    assert torn > 5


def test_a_rename_may_be_undone_and_never_loses_both_names_once_synced():
    for seed in range(40):
        disk = SimDisk()
        put(disk, "new.tmp", b"new")
        put(disk, "file", b"old")
        disk.sync_dir("")
        disk.rename("new.tmp", "file")
        disk.crash(Random(seed))
        assert get(disk, "file") in (b"old", b"new")
        disk.rename("new.tmp" if disk.exists("new.tmp") else "file", "file2")
        disk.sync_dir("")
        disk.crash(Random(seed))
        assert disk.exists("file2")


def test_a_failed_sync_forgets_the_writes_and_the_next_one_lies():
    disk = SimDisk()
    put(disk, "a", b"old")
    disk.sync_dir("")
    file = disk.open("a")
    file.pwrite(0, (b"new",))
    disk.fail_next("sync")
    with pytest.raises(OSError, match="injected"):
        file.sync()
    file.sync()
    assert file.pread(0, 3) == b"new"
    disk.crash(Random(0))
    assert get(disk, "a") == b"old"


def test_no_space_and_power_loss():
    disk = SimDisk()
    disk.capacity_bytes = 10
    file = disk.open("a", create=True)
    file.pwrite(0, (b"12345678",))
    with pytest.raises(OSError, match="no space") as full:
        file.pwrite(8, (b"9ab",))
    assert full.value.errno == errno.ENOSPC
    assert disk.free_bytes() == 2
    disk.power_off_after(1)
    with pytest.raises(PowerLoss):
        file.pwrite(0, (b"x",))
    disk.crash(Random(0))
    with pytest.raises(AssertionError):
        file.size()


def test_a_second_name_is_the_same_file_and_outlives_the_first(disk):
    disk.mkdir("folder")
    put(disk, "folder/a", b"bytes")
    disk.mkdir("other")
    disk.link("folder/a", "other/b")
    with pytest.raises(FileExistsError):
        disk.link("folder/a", "other/b")
    disk.unlink("folder/a")
    assert get(disk, "other/b") == b"bytes"


# What only the disk that keeps its writes to itself can show.


def below_and_dry(tmp_path):
    below = OsDisk(str(tmp_path / "data"))
    below.mkdir("folder")
    put(below, "folder/a", b"aaaa")
    put(below, "b", b"bbbb")
    return below, DryDisk(below)


def test_nothing_that_is_done_to_a_dry_disk_reaches_the_one_below(tmp_path):
    below, disk = below_and_dry(tmp_path)
    before = {str(path): path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()}
    put(disk, "folder/a", b"XX")
    put(disk, "new", b"new")
    disk.rename("b", "folder/moved")
    disk.mkdir("other/deep")
    put(disk, "other/deep/c", b"c")
    disk.unlink("folder/a")
    disk.rmtree("other")
    assert disk.listdir("folder") == ["moved"]
    assert disk.listdir("") == ["folder", "new"]
    assert get(disk, "folder/moved") == b"bbbb"
    assert {str(path): path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()} == before
    assert below.listdir("folder") == ["a"]
    assert not (tmp_path / "data" / "other").exists()
    disk.close()


def test_two_handles_of_a_file_see_the_same_and_a_name_that_goes_leaves_the_file(tmp_path):
    _, disk = below_and_dry(tmp_path)
    one, other = disk.open("b"), disk.open("b")
    one.pwrite(1, (b"X",))
    assert other.pread(0, 4) == b"bXbb"
    disk.unlink("b")
    assert other.pread(0, 4) == b"bXbb"
    put(disk, "b", b"anew")
    assert (get(disk, "b"), other.pread(0, 4)) == (b"anew", b"bXbb")
    disk.close()
