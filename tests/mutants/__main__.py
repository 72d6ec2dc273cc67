"""`python -m tests.mutants NAME`: run a mutant's seeds until one notices it. Exit code 0: noticed.

`python -m tests.mutants NAME --sound`: the same seeds on the unbroken product; exit code 0: none of them fails.
"""

import argparse
import sys

from tests.mutants.catalogue import MUTANTS, by_name
from tests.mutants.loading import install


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("name", choices=[mutant.name for mutant in MUTANTS] + ["canary: acknowledges and forgets"])
    parser.add_argument("--sound", action="store_true", help="do not break anything: the seeds must pass")
    parser.add_argument("--seeds", type=int, help="at most this many, in the order of the mutant")
    arguments = parser.parse_args()
    mutant = by_name(arguments.name)
    if not arguments.sound:
        install(mutant)
    from tests.sim.plan import draw
    from tests.sim.run import run

    for tried, number in enumerate(mutant.order(arguments.seeds or mutant.seeds), 1):
        result = run(draw(f"mutant-{number}", kinds=mutant.kinds, topics=mutant.topics, churn=mutant.churn))
        if not result.failed:
            continue
        first = result.violations[0]
        what = str(first).strip().splitlines()[-1][:200]
        sys.stdout.write(f"{mutant.name}: noticed by seed {number}, {tried} tried: {what}\n")
        sys.stdout.flush()
        if arguments.sound:
            return 1
        if not mutant.by or any(violation.invariant in mutant.by for violation in result.violations):
            return 0
    sys.stdout.write(f"{mutant.name}: not noticed\n")
    return 0 if arguments.sound else 1


if __name__ == "__main__":
    sys.exit(main())
