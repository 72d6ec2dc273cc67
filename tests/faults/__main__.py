"""`python -m tests.faults [--faults 60] [--seed N] [--operations 20000] [--against kafka]`: faults on real processes.

Muster's run ends with 1 on a violation, a record that a producer gave up, or fewer operations than asked for. A real
Kafka's figures are printed only, and for the same plan of faults: one seed is one plan.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests import go_tools, java_tools
from tests.faults.plan import draw
from tests.faults.run import Tools, run
from tests.faults.sides import Kafka, Muster

SECONDS_PER_DAY = 86_400


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()) // SECONDS_PER_DAY, help="default: one a day")
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--against", choices=("muster", "kafka"), default="muster")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="muster-faults-") as folder:
        servers = (Kafka if options.against == "kafka" else Muster)(Path(folder) / "data")
        plan = draw(options.seed, options.faults, clocks=servers.clocks.preload is not None)
        again = f"python -m tests.faults --faults {options.faults} --seed {options.seed} --against {options.against}"
        print(f"{len(plan)} faults on {options.against}: {again}", flush=True)
        with servers:
            result = run(servers, plan, options.seed, tools(), options.operations, lambda line: print(line, flush=True))
    for found in result.found:
        print(f"  {found.rule}: {found.text}")
    print(f"{options.against}: {result}")
    if options.against == "kafka":
        return 0
    return 1 if result.found or result.failed or result.operations < options.operations else 0


def tools() -> Tools:
    """What is there; a part that MUSTER_REQUIRE names and that is missing ends the command."""
    found: list[Path | None] = []
    try:
        found.append(go_tools.built())
    except pytest.skip.Exception as missing:
        print(missing)
        found.append(None)
    try:
        java_tools.classpath(*java_tools.KAFKA_ALL)
    except pytest.skip.Exception as missing:
        print(missing)
        return Tools(found[0], java=False)
    return Tools(found[0], java=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
