"""The lab's folder: one benchmark at a time, and nothing left over from one that was killed."""

from pathlib import Path

import pytest
from typing_extensions import override

from bench.compare import DISK
from bench.errors import BenchError
from bench.lab import Lab
from bench.sides import Disk


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


class Logged(Disk):
    def __init__(self, *logs: Path) -> None:
        self._logs = logs

    @override
    def logs(self) -> list[Path]:
        return list(self._logs)


def test_logs_of_a_failed_run_replace_those_of_an_earlier_one_and_outlive_the_lab(tmp_path: Path) -> None:
    own, output = tmp_path / "muster-0" / "replica-1" / "replica.log", tmp_path / "muster-0" / "data.log"
    own.parent.mkdir(parents=True)
    folder = tmp_path / "lab"
    with Lab(print, folder) as lab:
        for text in ("first", "second"):
            own.write_text(text)
            output.write_text("said")
            kept = lab.keep_logs(Logged(own, output) if text == "first" else Logged(own), "replace")
        assert lab.keep_logs(Disk(), "replace") is None
    with Lab(print, folder):
        assert kept is not None
        assert {path.name: path.read_text() for path in kept.iterdir()} == {"replica-1-replica.log": "second"}


def test_latencies_are_merged_by_side_and_taken_once(tmp_path: Path) -> None:
    with Lab(print, tmp_path) as lab:
        disk = lab.side(DISK)
        lab.keep_latencies(disk, {"latency_us": {"buckets": [[1000, 2], [3000, 1]]}})
        lab.keep_latencies(disk, {"latency_us": {"buckets": [[1000, 1]]}})
        lab.keep_latencies(disk, {"latency_us": None})
        assert lab.take_latencies() == {DISK: [(1000, 3), (3000, 1)]}
        assert lab.take_latencies() == {}
