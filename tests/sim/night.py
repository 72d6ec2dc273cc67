"""`python -m tests.sim.night --hours 8`: hours of seeds that nobody has run yet, and what came of them.

Problem: what 300 seeds of every change do not reach, many thousands do, on a machine that has a night for it; and who
reads the result must see what it stands on. Mechanism: pieces of seeds until the time is over, by default those of
today's date. A seed that fails is run again with fewer faults, groups and less time (`shrink`), and kept as a file with
both commands. After each piece `reliability.json` is written anew: the commit, how many seeds and simulated hours, the
faults by kind, what was reached, and whether each mutant of the product was noticed. What it does not do: decide
whether a release is good enough.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any

from tests.mutants.catalogue import CANARY, MUTANTS
from tests.sim.batch import JOBS, Tally, run_all
from tests.sim.plan import draw
from tests.sim.run import Result
from tests.sim.shrink import shrink

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".cache" / "sim-night"
PIECE_SEEDS = 100
SEEDS_A_DAY = 1_000_000
"""More than a machine runs in a day, so nights do not share seeds."""
BEGAN = date(2026, 1, 1)
SHRUNK_MAX = 5
"""Failed seeds of a night that are made smaller, a minute each; the others are kept as they are."""
FAULT = "fault "


def first_of(day: date) -> int:
    """Where the seeds of a day begin, behind those that every change runs."""
    return SEEDS_A_DAY * max(1, (day - BEGAN).days)


class Night:
    """One night. `run` and `smaller` are the simulator's; `mutants` says of each by name how it ended."""

    def __init__(
        self,
        folder: Path,
        first: int,
        commit: str,
        *,
        run: Callable[[list[int]], Tally],
        smaller: Callable[[str], str],
        clock_s: Callable[[], float],
    ) -> None:
        self.folder = folder
        self.first = first
        self.commit = commit
        self.tally = Tally()
        self.mutants: dict[str, str] = {}
        self._run = run
        self._smaller = smaller
        self._clock_s = clock_s
        self._began_s = clock_s()
        folder.mkdir(parents=True, exist_ok=True)

    def pass_until(self, until_s: float, tell: Callable[[str], None], piece_seeds: int = PIECE_SEEDS) -> None:
        """Whole pieces, at least one."""
        seeds = count(self.first)
        while True:
            found = self._run(list(islice(seeds, piece_seeds)))
            self.tally.join(found)
            for result in found.failed:
                tell(self._keep(result))
            self.write()
            tell(f"{self.tally.seeds} seeds, {len(self.tally.failed)} failed")
            if self._clock_s() >= until_s:
                return

    def _keep(self, result: Result) -> str:
        """The file of a failed seed."""
        path = self.folder / f"seed-{result.seed}.txt"
        lines = [f"commit {self.commit}", result.line(), *map(str, result.violations)]
        if len(self.tally.failed) <= SHRUNK_MAX:
            lines.append(self._smaller(result.seed))
        path.write_text("\n".join(lines) + "\n")
        return f"kept in {path}"

    def report(self) -> dict[str, Any]:
        tally = self.tally
        marks = dict(sorted(tally.marks.items()))
        return {
            "commit": self.commit,
            "first_seed": self.first,
            "seeds": tally.seeds,
            "failed": sorted(result.seed for result in tally.failed),
            "wall_hours": round((self._clock_s() - self._began_s) / 3600, 2),
            "simulated_hours": round(tally.virtual_ms / 3_600_000, 2),
            "simulated_seconds_per_processor_second": round(tally.virtual_ms / 1000 / tally.cpu_s, 1)
            if tally.cpu_s
            else None,
            "operations": tally.operations,
            "acknowledged": tally.acknowledged,
            "faults": tally.faults,
            "seeds_with_fault": {mark[len(FAULT) :]: n for mark, n in marks.items() if mark.startswith(FAULT)},
            "seeds_that_reached": {mark: n for mark, n in marks.items() if not mark.startswith(FAULT)},
            "mutants": self.mutants,
        }

    def write(self) -> None:
        """The old report stays until the new one is whole."""
        path = self.folder / "reliability.json"
        whole = path.with_suffix(".tmp")
        whole.write_text(json.dumps(self.report(), indent=2) + "\n")
        whole.replace(path)


def smaller(seed: str) -> str:
    """The command that repeats a failed seed with less."""
    small, result = shrink(draw(seed))
    numbers = ",".join(str(fault.number) for fault in small.faults) or "none"
    crews = ",".join(crew.name for crew in small.crews)
    command = f"python -m tests.sim --seed {small.seed} --faults {numbers} --crews {crews} --storm-ms {small.storm_ms}"
    return f"{command}\n{result.line()}"


def judge_mutants(tell: Callable[[str], None]) -> dict[str, str]:
    """Of each mutant the seed that noticed it, or that none did."""
    found = {}
    for mutant in (CANARY, *MUTANTS):
        command = [sys.executable, "-m", "tests.mutants", mutant.name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        noticed = re.search(r"noticed by seed \d+", done.stdout)
        found[mutant.name] = noticed[0] if noticed is not None and done.returncode == 0 else "NOT NOTICED"
        tell(f"{mutant.name}: {found[mutant.name]}")
    return found


def commit_of_sources() -> str:
    """With a plus if something is not committed."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "unknown"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Exit code 1 when a seed failed, or a mutant was not noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.night", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=8.0, help="for how long; the last piece is finished")
    parser.add_argument("--first", type=int, help="first seed; otherwise today's")
    parser.add_argument("--jobs", type=int, default=JOBS, help="worker processes")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of reliability.json and of failed seeds")
    arguments = parser.parse_args()
    began_s = time.monotonic()
    first = first_of(datetime.now(UTC).date()) if arguments.first is None else arguments.first
    night = Night(
        arguments.folder,
        first,
        commit_of_sources(),
        run=lambda seeds: run_all(seeds, arguments.jobs, say),
        smaller=smaller,
        clock_s=time.monotonic,
    )
    night.mutants = judge_mutants(say)
    night.pass_until(began_s + arguments.hours * 3600, say)
    say(f"{arguments.folder / 'reliability.json'}")
    return 1 if night.tally.failed or "NOT NOTICED" in night.mutants.values() else 0


if __name__ == "__main__":
    sys.exit(main())
