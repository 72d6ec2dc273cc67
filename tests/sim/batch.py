"""Many seeds over both cores, and what they reached in sum."""

import gc
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from tests.sim.plan import draw
from tests.sim.run import Result, run

JOBS = 2
COLLECT_AFTER = 1_000_000
"""Objects made before the collector looks again: a cluster lives for a second, and most of it until its end. A worker
has 200 MiB."""


def run_seed(seed: int, *, traced: bool = False) -> Result:
    """In a worker."""
    return run(draw(seed), traced=traced)


def run_seeds(seeds: Iterable[int], jobs: int = JOBS, *, traced: bool = False) -> Iterator[Result]:
    """Results in the order of the seeds."""
    run_one = partial(run_seed, traced=traced)
    if jobs == 1:
        yield from map(run_one, seeds)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, initializer=gc.set_threshold, initargs=(COLLECT_AFTER,)) as pool:
        yield from pool.map(run_one, list(seeds), chunksize=4)


@dataclass
class Tally:
    """Sums over results."""

    seeds: int = 0
    operations: int = 0
    acknowledged: int = 0
    virtual_ms: int = 0
    cpu_s: float = 0.0
    faults: int = 0
    marks: Counter[str] = field(default_factory=Counter)
    failed: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.operations += result.operations
        self.acknowledged += result.acknowledged
        self.virtual_ms += result.virtual_ms
        self.cpu_s += result.cpu_s
        self.faults += result.faults
        self.marks.update(result.marks)
        if result.failed:
            self.failed.append(result)

    def join(self, other: "Tally") -> None:
        """Add the sums of other seeds."""
        self.seeds += other.seeds
        self.operations += other.operations
        self.acknowledged += other.acknowledged
        self.virtual_ms += other.virtual_ms
        self.cpu_s += other.cpu_s
        self.faults += other.faults
        self.marks.update(other.marks)
        self.failed += other.failed

    def lines(self) -> list[str]:
        """For people: sums, and in how many seeds each mark was reached."""
        speed = self.virtual_ms / 1000 / self.cpu_s if self.cpu_s else 0
        hours = self.virtual_ms / 3_600_000
        return [
            f"{self.seeds} seeds, {len(self.failed)} failed, {hours:.2f} simulated hours at {speed:.0f}x",
            f"{self.operations} operations, {self.faults} faults; in how many seeds what was reached:",
            *(f"  {count:6d}  {mark}" for mark, count in sorted(self.marks.items(), key=lambda m: (-m[1], m[0]))),
        ]


def run_all(
    seeds: Iterable[int], jobs: int = JOBS, tell: Callable[[str], None] | None = None, *, tell_all: bool = False
) -> Tally:
    """`tell` gets the line of every failed seed at once; `tell_all`: and the trace of every other."""
    tally = Tally()
    for result in run_seeds(seeds, jobs, traced=tell_all):
        tally.add(result)
        if tell is not None and tell_all and not result.failed:
            tell(f"seed {result.seed}: trace {result.trace}")
        elif tell is not None and result.failed:
            tell(result.line())
    return tally
