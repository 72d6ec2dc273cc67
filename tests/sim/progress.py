"""How far many seeds have come, in a file, so that 20,000 can be run in pieces on a machine that has other work.

One line of JSON a piece, appended when the piece is done: its seeds and its sums. Whoever comes next with the same file
skips these seeds and gets the sums of all. A line that was cut by the end of the process counts as not run. The file
knows nothing of the sources: begin a new one when product or simulator have changed in what is to be shown.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.sim.batch import JOBS, Tally, run_all
from tests.sim.run import Result

PIECE_SEEDS = 100


def run_pieces(
    seeds: range,
    path: Path,
    jobs: int = JOBS,
    tell: Callable[[str], None] | None = None,
    *,
    tell_all: bool = False,
    piece_seeds: int = PIECE_SEEDS,
) -> Tally:
    """Run those of `seeds` that `path` does not have, and sum up what it has of `seeds` then."""
    tally, done = read_progress(path, seeds)
    if done and tell is not None:
        tell(f"{len(done)} of {len(seeds)} seeds are in {path}")
    for result in tally.failed if tell is not None else ():
        tell(result.line())
    left = [seed for seed in seeds if seed not in done]
    for start in range(0, len(left), piece_seeds):
        piece = left[start : start + piece_seeds]
        found = run_all(piece, jobs, tell, tell_all=tell_all)
        append(path, piece, found)
        tally.join(found)
        if tell is not None:
            tell(
                f"{len(done) + start + len(piece)} of {len(seeds)} seeds, {len(tally.failed)} failed, up to {piece[-1]}"
            )
    return tally


def read_progress(path: Path, seeds: range) -> tuple[Tally, set[int]]:
    """Sums of the pieces that lie within `seeds`, and their seeds."""
    tally, done = Tally(), set()
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            piece = json.loads(line)
        except json.JSONDecodeError:
            continue
        ran = set(piece["seeds"])
        if ran <= set(seeds) and not ran & done:
            done |= ran
            tally.join(_from_json(piece))
    return tally, done


def append(path: Path, seeds: list[int], tally: Tally) -> None:
    piece = {
        "seeds": seeds,
        "operations": tally.operations,
        "acknowledged": tally.acknowledged,
        "virtual_ms": tally.virtual_ms,
        "cpu_s": round(tally.cpu_s, 1),
        "faults": tally.faults,
        "marks": dict(sorted(tally.marks.items())),
        "failed": {result.seed: result.line() for result in tally.failed},
    }
    cut = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write(("\n" if cut else "") + json.dumps(piece) + "\n")


class _Failed(Result):
    """A seed that failed in an earlier piece: of it only the line is kept, and that repeats it."""

    kept = ""

    def line(self) -> str:
        return self.kept

    @property
    def failed(self) -> bool:
        return True


def _from_json(piece: dict) -> Tally:  # type: ignore[type-arg]
    tally = Tally(
        seeds=len(piece["seeds"]),
        operations=piece["operations"],
        acknowledged=piece["acknowledged"],
        virtual_ms=piece["virtual_ms"],
        cpu_s=piece["cpu_s"],
        faults=piece["faults"],
        marks=Counter(piece["marks"]),
    )
    for seed, line in piece["failed"].items():
        result = _Failed(seed)
        result.kept = line
        tally.failed.append(result)
    return tally
