"""Many damages judged, in pieces that run beside each other and are not run again.

`judge_all(damages)` sums up outcomes by kind of file. With a progress file each piece is a line of JSON, appended when
it is done, under the digest of the disks it is about; whoever comes next with the same file goes on behind it. The
file knows nothing of the sources: begin a new one when the product has changed.
"""

import hashlib
import json
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.damage import disks
from tests.damage.judge import Broken, alone, lost, outcome, states

PIECE = 1_000
TOLERANCE = 0.05
"""By so much, in shares of its kind, may an outcome of all damages differ from the sample's."""
Outcomes = dict[str, dict[str, int]]
"""Kind of file -> outcome -> how many."""


@dataclass
class Tally:
    """Of some damages."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    majorities: int = 0
    """Damages after which all three replicas were started and everything acknowledged was asked for."""

    @classmethod
    def of(cls, tables: Iterable[Outcomes]) -> "Tally":
        """The sums of these."""
        tally = cls()
        for table in tables:
            tally.outcomes.update({(kind, what): n for kind, of in table.items() for what, n in of.items()})
        return tally

    def join(self, other: "Tally") -> None:
        self.outcomes += other.outcomes
        self.broken += other.broken
        self.majorities += other.majorities

    def table(self) -> Outcomes:
        found: Outcomes = {}
        for (kind, what), count in sorted(self.outcomes.items()):
            found.setdefault(kind, {})[what] = count
        return found


def judge(damages: Iterable[disks.Damage], every: int) -> Tally:
    """Each alone, and one in `every` beside the others."""
    kept = disks.read()
    whole = states(alone(kept[disks.DAMAGED].durable_copy())[0])
    tally = Tally()
    for number, damage in enumerate(damages):
        try:
            tally.outcomes[damage.kind, str(outcome(kept[disks.DAMAGED], damage, whole))] += 1
            if number % every == 0:
                tally.majorities += 1
                tally.broken += [f"{damage}: {missed}" for missed in lost(kept, damage)]
        except Broken as error:
            tally.broken.append(str(error))
        except Exception as error:  # noqa: BLE001 - whatever else a byte can do is a finding about that byte
            tally.broken.append(f"{damage}: {error!r}")
    return tally


def _judge_piece(work: tuple[int, list[disks.Damage], int]) -> tuple[int, Tally]:
    start, damages, every = work
    return start, judge(damages, every)


def judge_all(
    damages: list[disks.Damage], every: int, jobs: int, progress: Path | None, tell: Callable[[str], None]
) -> Tally:
    """All pieces that `progress` does not have, and the sums of all."""
    digest = hashlib.sha256(disks.DISKS.read_bytes() + f"{len(damages)} {every}".encode()).hexdigest()
    tally, done = _read(progress, digest)
    todo = [
        (start, damages[start : start + PIECE], every) for start in range(0, len(damages), PIECE) if start not in done
    ]
    if done:
        tell(f"{len(done)} pieces are in {progress}")
    for number, (start, found) in enumerate(_in_processes(todo, jobs), 1):
        tally.join(found)
        if progress is not None:
            _append(progress, digest, start, found)
        tell(f"{len(done) + number} of {len(done) + len(todo)} pieces, {len(tally.broken)} broken")
    return tally


def _in_processes(todo: list[tuple[int, list[disks.Damage], int]], jobs: int) -> Iterator[tuple[int, Tally]]:
    if jobs == 1:
        yield from map(_judge_piece, todo)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_judge_piece, todo)


def _read(progress: Path | None, digest: str) -> tuple[Tally, set[int]]:
    tally, done = Tally(), set()
    for line in progress.read_text().splitlines() if progress is not None and progress.exists() else []:
        try:
            piece = json.loads(line)
        except json.JSONDecodeError:  # cut by the end of the process: not run
            continue
        if piece["digest"] == digest and piece["start"] not in done:
            done.add(piece["start"])
            outcomes = Counter({(kind, what): count for kind, what, count in piece["outcomes"]})
            tally.join(Tally(outcomes, piece["broken"], piece["majorities"]))
    return tally, done


def _append(progress: Path, digest: str, start: int, found: Tally) -> None:
    piece = {
        "digest": digest,
        "start": start,
        "outcomes": [[kind, what, count] for (kind, what), count in sorted(found.outcomes.items())],
        "broken": found.broken,
        "majorities": found.majorities,
    }
    cut = progress.exists() and not progress.read_bytes().endswith(b"\n")
    with progress.open("a") as file:
        file.write(("\n" if cut else "") + json.dumps(piece) + "\n")


def differences(found: Outcomes, pinned: Outcomes) -> list[str]:
    """Shares that are further from the pinned ones than `TOLERANCE`."""
    told = []
    for kind in sorted({*found, *pinned}):
        here, there = found.get(kind, {}), pinned.get(kind, {})
        for what in sorted({*here, *there}):
            shares = [of.get(what, 0) / max(1, sum(of.values())) for of in (here, there)]
            if abs(shares[0] - shares[1]) > TOLERANCE:
                told.append(f"{kind}, {what}: {shares[0]:.1%}, pinned {shares[1]:.1%}")
    return told


def lines(table: Outcomes) -> list[str]:
    """For people: how many, and which share of its kind."""
    return [
        f"{kind:20} {what:36} {count:7} {count / sum(of.values()):7.1%}"
        for kind, of in table.items()
        for what, count in of.items()
    ]
