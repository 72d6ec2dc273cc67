"""The product broken on purpose is noticed, within a fixed number of seeds that the unbroken product survives."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.catalogue import CANARY, MUTANTS, Mutant

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.sim, pytest.mark.source, pytest.mark.timeout(600)]


def judge(name: str, *options: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants", name, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_mutant_is_killed_and_the_product_survives_the_same_seeds(mutant: Mutant) -> None:
    code, said = judge(mutant.name)
    assert code == 0, said
    tried = max(int(number) for number in re.findall(r"noticed by seed \d+, (\d+) tried", said))
    code, said = judge(mutant.name, "--sound", "--seeds", str(tried))
    assert code == 0, said


def test_a_harness_that_lets_the_canary_live_is_blind() -> None:
    """Commits that are acknowledged and forgotten fail the very first seed."""
    code, said = judge(CANARY.name)
    assert code == 0, said
