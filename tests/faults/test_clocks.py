"""A process's wall clock is stepped while it runs, its monotonic clock is not."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.clocks import Clocks
from tests.machine_parts import give_up

pytestmark = pytest.mark.integration

TELL = """
import sys, time
for _ in sys.stdin:
    print(time.time_ns() // 1_000_000, time.monotonic_ns() // 1_000_000, flush=True)
"""
HOUR_MS = 3_600_000
NEAR_MS = 5_000


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS, -1_500])
def test_a_step_is_seen_by_that_process_alone_and_by_its_wall_clock_alone(tmp_path: Path, step_ms: int) -> None:
    clocks = Clocks(tmp_path / "clocks")
    if clocks.preload is None:
        give_up("cc", "no C compiler")
    with clocks.preloaded():
        process = subprocess.Popen(
            [sys.executable, "-c", TELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask() -> tuple[int, int]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"\n")
            wall, monotonic = process.stdout.readline().split()
            return int(wall), int(monotonic)

        wall, monotonic = ask()
        assert abs(wall - time.time_ns() // 1_000_000) < NEAR_MS
        clocks.step(process.pid, step_ms)
        stepped, later = ask()
        passed = later - monotonic
        assert 0 <= passed < NEAR_MS
        assert abs(stepped - wall - passed - step_ms) <= 10
        clocks.step(process.pid, 0)
        assert abs(ask()[0] - time.time_ns() // 1_000_000) < NEAR_MS
        process.stdin.close()
