"""Windows of `replace` in which the disk alone stalled do not count, and are counted."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.disk_beside import DiskBeside
from bench.errors import RunFailed
from bench.rows import replace
from bench.rows.replace import HIGH_RATE, RATE, STALL_S, Windows


def windows(monkeypatch: pytest.MonkeyPatch, folder: Path, longest_s: list[float]) -> Windows:
    """Each window takes the next longest sync of the disk; its p99 is its number, from 1 on, in ms."""
    left = iter(longest_s)
    measured = iter(range(1, 100))

    class Disk:
        def __init__(self, _: Path) -> None:
            self.longest_s = next(left)

        def __enter__(self) -> "Disk":
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def run(*_: object, **__: object) -> dict[str, Any]:
        return {"latency_us": {"p99": 1_000.0 * next(measured)}}

    monkeypatch.setattr(replace, "DiskBeside", Disk)
    monkeypatch.setattr(replace, "run_once", run)
    return Windows(SimpleNamespace(), SimpleNamespace(folder=folder))  # type: ignore[arg-type]


def test_a_window_in_which_the_disk_stalled_is_left_out_and_another_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = windows(monkeypatch, tmp_path, [STALL_S, 0.001, 0.1, 0.001, 0.001, 0.001])
    found.measure(2)
    assert found.figures("before") == {
        "p99 before": [1.0, 5.0],
        f"p99 before, {HIGH_RATE}/s": [2.0, 4.0, 6.0],
        "left out before": [1],
        "disk's longest before": [100.0],
    }
    assert RATE < HIGH_RATE


def test_a_disk_that_stalls_in_every_window_is_no_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = windows(monkeypatch, tmp_path, [1.0] * 100)
    with pytest.raises(RunFailed, match="in 12 windows"):
        found.measure(2)
    with pytest.raises(RunFailed, match="no window during"):
        found.figures("during")


def test_the_disk_is_synced_while_the_body_runs_and_nothing_stays(tmp_path: Path) -> None:
    synced, known = os.eventfd(0), os.fdatasync
    with DiskBeside(tmp_path) as disk, pytest.MonkeyPatch.context() as patch:

        def sync(descriptor: int) -> None:
            known(descriptor)
            os.eventfd_write(synced, 1)

        patch.setattr(os, "fdatasync", sync)
        os.eventfd_read(synced)
    os.close(synced)
    assert disk.longest_s > 0
    assert not list(tmp_path.iterdir())


def test_a_disk_that_was_not_measured_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="not measured"):
        _ = DiskBeside(tmp_path).longest_s
