"""`python -m tests.damage [--damages all|N] [--jobs 2] [--progress FILE]`: what a start does with one damaged byte.

Ends with 1 when a damage did what the table does not allow, when something acknowledged is missing where a majority is
whole, or when the shares are not the pinned ones.
"""

import argparse
import json
import sys
from pathlib import Path

from tests.damage import disks
from tests.damage.pieces import differences, judge_all, lines

PINNED = Path(__file__).with_name("pinned.json")
EVERY = 63
"""One damage in so many is judged beside the other replicas. Odd, so that flips and cuts take turns."""


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.damage", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--damages", default="all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--progress", type=Path)
    options = parser.parse_args(words)
    damages = disks.every_damage(disks.read()[disks.DAMAGED])
    if options.damages != "all":
        damages = disks.sample(damages, int(options.damages))
    say(f"{len(damages)} damages")
    tally = judge_all(damages, EVERY, options.jobs, options.progress, say)
    for line in (*lines(tally.table()), *tally.broken):
        say(line)
    said = differences(tally.table(), json.loads(PINNED.read_text())["outcomes"])
    for line in said:
        say(line)
    say(f"{sum(tally.outcomes.values())} damages, {tally.majorities} beside the others, {len(tally.broken)} broken")
    return 1 if tally.broken or said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
