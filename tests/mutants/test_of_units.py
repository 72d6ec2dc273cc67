"""Each kept mutant of `of_units` is killed by the tests that are to notice it, and they pass without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.of_units import UNIT_MUTANTS, UnitMutant

ROOT = Path(__file__).parents[2]
TESTS_FAILED = 1
pytestmark = [pytest.mark.computes, pytest.mark.slow, pytest.mark.source, pytest.mark.timeout(120)]


def run(path: str, *options: str, **more: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", *options, path]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **more}, capture_output=True, text=True, check=False, timeout=100
    )
    return done.returncode, done.stdout[-3_000:]


@pytest.mark.parametrize("path", sorted({one.noticed_by for one in UNIT_MUTANTS}))
def test_the_tests_pass_on_the_product_as_it_is(path: str) -> None:
    code, said = run(path)
    assert code == 0, said


@pytest.mark.parametrize("one", UNIT_MUTANTS, ids=[one.mutant.name for one in UNIT_MUTANTS])
def test_the_mutant_is_noticed(one: UnitMutant) -> None:
    code, said = run(one.noticed_by, "-p", "tests.mutants.plugin", MUSTER_MUTANT=one.mutant.name)
    assert code == TESTS_FAILED, said
    assert "AssertionError" in said, said
