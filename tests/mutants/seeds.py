"""The seeds of a mutant of the catalogue, one after the other, until one of them notices what is broken here."""

import sys

from tests.mutants.catalogue import Mutant
from tests.sim.plan import draw
from tests.sim.run import run


def try_seeds(mutant: Mutant, seeds: int, *, sound: bool = False) -> int:
    """0: noticed. `sound`: nothing is broken, and 0 says that nothing was noticed. It says which, in a line."""
    for tried, number in enumerate(mutant.order(seeds), 1):
        result = run(draw(f"mutant-{number}", kinds=mutant.kinds, **mutant.clients()))
        if not result.failed:
            continue
        first = result.violations[0]
        what = str(first).strip().splitlines()[-1][:200]
        sys.stdout.write(f"{mutant.name}: noticed by seed {number}, {tried} tried: {what}\n")
        sys.stdout.flush()
        if sound:
            return 1
        if not mutant.by or any(violation.invariant in mutant.by for violation in result.violations):
            return 0
    sys.stdout.write(f"{mutant.name}: not noticed\n")
    return 0 if sound else 1
