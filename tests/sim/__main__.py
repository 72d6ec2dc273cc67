"""`python -m tests.sim --seeds 1000` runs many simulated clusters; `--seed 17` one, with all it found.

A failing seed prints one line that replays it. `--shrink` looks for a smaller plan that fails the same way; `--faults`
and `--crews` replay such a plan. `--progress FILE` runs many seeds in pieces and goes on where it
was ended (`progress`).
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from tests.sim.batch import JOBS, run_all
from tests.sim.plan import Plan, draw
from tests.sim.progress import run_pieces
from tests.sim.run import run
from tests.sim.shrink import shrink


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Exit code 1 when a seed fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=(__doc__ or "").splitlines()[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seeds", type=int, help="run this many seeds")
    which.add_argument("--seed", help="run one seed")
    parser.add_argument("--first", type=int, default=0, help="first seed of --seeds")
    parser.add_argument("--progress", type=Path, help="of --seeds: the file that says which have run")
    parser.add_argument("--jobs", type=int, default=JOBS, help="worker processes of --seeds")
    parser.add_argument("--traces", action="store_true", help="of --seeds: print the hash of each trace")
    parser.add_argument("--faults", help="of --seed: only these fault numbers, such as 2,5 (or none)")
    parser.add_argument("--crews", help="of --seed: only these groups, such as simple-0,group-1")
    parser.add_argument("--storm-ms", type=int, help="of --seed: how long faults and clients go on")
    parser.add_argument("--shrink", action="store_true", help="of --seed: look for a smaller plan that fails as well")
    arguments = parser.parse_args()
    if arguments.seeds is not None:
        seeds = range(arguments.first, arguments.first + arguments.seeds)
        if arguments.progress is None:
            tally = run_all(seeds, arguments.jobs, say, tell_all=arguments.traces)
        else:
            tally = run_pieces(seeds, arguments.progress, arguments.jobs, say, tell_all=arguments.traces)
        for line in tally.lines():
            say(line)
        return 1 if tally.failed else 0
    return run_one(chosen(arguments), shrinking=arguments.shrink)


def chosen(arguments: argparse.Namespace) -> Plan:
    plan = draw(arguments.seed)
    if arguments.faults is not None:
        plan = plan.only([int(number) for number in arguments.faults.split(",") if number.isdigit()])
    if arguments.crews is not None:
        plan = replace(plan, crews=tuple(crew for crew in plan.crews if crew.name in arguments.crews.split(",")))
    if arguments.storm_ms is not None:
        plan = replace(plan, storm_ms=arguments.storm_ms)
    return plan


def run_one(plan: Plan, *, shrinking: bool) -> int:
    say(f"{plan.setup}")
    for crew in plan.crews:
        say(f"{crew}")
    for fault in plan.faults:
        say(f"{fault}")
    result = run(plan, traced=True)
    for violation in result.violations:
        say(str(violation))
    say(result.line())
    if shrinking and result.failed:
        small, result = shrink(plan, say)
        numbers = ",".join(str(fault.number) for fault in small.faults) or "none"
        crews = ",".join(crew.name for crew in small.crews)
        say(result.line())
        say(f"python -m tests.sim --seed {small.seed} --faults {numbers} --crews {crews} --storm-ms {small.storm_ms}")
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
