"""A seed is a run: the same trace hash in two processes with different hash seeds, and twice in one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.plan import draw
from tests.sim.run import run

ROOT = Path(__file__).parents[2]
SEEDS = 8

pytestmark = [pytest.mark.sim, pytest.mark.timeout(300)]


def traces(hash_seed: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--seeds", str(SEEDS), "--first", "500", "--jobs", "1", "--traces"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if "trace" in line]
    assert len(lines) == SEEDS, done.stdout
    return "\n".join(lines)


def test_a_seed_has_one_trace_in_two_processes() -> None:
    first = traces(1)
    assert first == traces(4_242)
    assert len({line.split()[-1] for line in first.splitlines()}) == SEEDS, "seeds differ"


def test_a_run_leaves_nothing_behind_for_the_next_one() -> None:
    plan = draw(501)
    first = run(plan, traced=True).trace
    assert first
    assert first == run(plan, traced=True).trace


def test_another_fault_is_another_trace() -> None:
    plan = next(plan for plan in map(draw, range(510, 530)) if plan.faults)
    assert run(plan, traced=True).trace != run(plan.only([]), traced=True).trace
