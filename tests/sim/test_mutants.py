"""The product broken on purpose is noticed, within a fixed number of seeds that the unbroken product survives."""

import io
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.mutants.apart import apart
from tests.mutants.catalogue import CANARY, MUTANTS, Mutant
from tests.mutants.in_place import break_for_good, fits
from tests.mutants.seeds import try_seeds
from tests.sim.plan import draw
from tests.sim.run import run

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.sim, pytest.mark.source, pytest.mark.timeout(600)]


def judge(mutant: Mutant) -> tuple[int, str]:
    """The exit code of `python -m tests.mutants`, and what it says. In a copy of this process where that notices it: a
    process of its own has to import everything."""

    def broken() -> str:
        said = io.StringIO()
        with redirect_stdout(said):
            break_for_good(mutant)
            code = try_seeds(mutant, mutant.seeds)
        return f"{code} {said.getvalue()}"

    if fits(mutant):
        code, _, said = apart(broken).partition(" ")
        if code == "0":
            return 0, said
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants", mutant.name],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_mutant_is_killed_and_the_product_survives_the_same_seeds(mutant: Mutant) -> None:
    code, said = judge(mutant)
    assert code == 0, said
    tried = max(int(number) for number in re.findall(r"noticed by seed \d+, (\d+) tried", said))
    for number in mutant.order(tried):  # here, where nothing is broken: a process of its own is a second of imports
        plan = draw(f"mutant-{number}", kinds=mutant.kinds, **mutant.clients())
        assert run(plan).violations == [], f"the sound product fails seed {number}"


def test_a_harness_that_lets_the_canary_live_is_blind() -> None:
    """Commits that are acknowledged and forgotten fail the very first seed."""
    code, said = judge(CANARY)
    assert code == 0, said
