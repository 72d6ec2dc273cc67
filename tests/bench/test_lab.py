"""The lab's folder: one benchmark at a time, and nothing left over from one that was killed."""

from pathlib import Path

import pytest

from bench.compare import DISK
from bench.errors import BenchError
from bench.lab import Lab


def test_a_second_benchmark_in_the_same_folder_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    with Lab(print, tmp_path), pytest.raises(BenchError, match="Another benchmark is running"):
        Lab(print, tmp_path)
    with Lab(print, tmp_path):
        pass


def test_what_a_killed_benchmark_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "muster-3" / "data").mkdir(parents=True)
    (tmp_path / "kafka-4").mkdir()
    (tmp_path / "notes").mkdir()
    with Lab(print, tmp_path):
        assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "notes"]


def test_latencies_are_merged_by_side_and_taken_once(tmp_path: Path) -> None:
    with Lab(print, tmp_path) as lab:
        disk = lab.side(DISK)
        lab.keep_latencies(disk, {"latency_us": {"buckets": [[1000, 2], [3000, 1]]}})
        lab.keep_latencies(disk, {"latency_us": {"buckets": [[1000, 1]]}})
        lab.keep_latencies(disk, {"latency_us": None})
        assert lab.take_latencies() == {DISK: [(1000, 3), (3000, 1)]}
        assert lab.take_latencies() == {}
