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
    from tests.mutants.seeds import try_seeds

    return try_seeds(mutant, arguments.seeds or mutant.seeds, sound=arguments.sound)


if __name__ == "__main__":
    sys.exit(main())
