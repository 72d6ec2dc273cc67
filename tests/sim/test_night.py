"""A night of seeds: it ends in time, keeps what failed, and says what it stands on."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from tests.sim.batch import Tally
from tests.sim.history import Violation
from tests.sim.night import SEEDS_A_DAY, SHRUNK_MAX, Night, first_of
from tests.sim.run import Result


class Clock:
    """Each piece takes a hundred seconds."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.ran: list[int] = []

    def run(self, fails: Callable[[int], bool]) -> Callable[[list[int]], Tally]:
        def piece(seeds: list[int]) -> Tally:
            self.now_s += 100
            self.ran += seeds
            tally = Tally()
            for seed in seeds:
                violations = [Violation("O1", "lost")] if fails(seed) else []
                marks = {"fault kill", "a leader changed"}
                tally.add(Result(str(seed), violations, marks, operations=5, virtual_ms=3_600, cpu_s=0.1, faults=2))
            return tally

        return piece


def night(folder: Path, clock: Clock, fails: Callable[[int], bool], shrunk: list[str] | None = None) -> Night:
    def smaller(seed: str) -> str:
        if shrunk is not None:
            shrunk.append(seed)
        return f"python -m tests.sim --seed {seed} --faults none"

    return Night(folder, 7_000, "abc", run=clock.run(fails), smaller=smaller, clock_s=lambda: clock.now_s)


def report(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "reliability.json").read_text())
    return found


def test_it_runs_whole_pieces_until_the_time_is_over(tmp_path: Path) -> None:
    clock = Clock()
    one = night(tmp_path, clock, lambda _: False)
    one.mutants = {"votes twice": "noticed by seed 3"}
    one.pass_until(clock.now_s + 250, lambda _: None, piece_seeds=10)
    assert clock.ran == list(range(7_000, 7_030))
    assert report(tmp_path) == {
        "commit": "abc",
        "first_seed": 7_000,
        "seeds": 30,
        "failed": [],
        "wall_hours": 0.08,
        "simulated_hours": 0.03,
        "simulated_seconds_per_processor_second": 36.0,
        "operations": 150,
        "acknowledged": 0,
        "faults": 60,
        "seeds_with_fault": {"kill": 30},
        "seeds_that_reached": {"a leader changed": 30},
        "mutants": {"votes twice": "noticed by seed 3"},
    }


def test_a_failed_seed_is_kept_with_the_commands_that_repeat_it_and_is_in_the_report(tmp_path: Path) -> None:
    clock, shrunk = Clock(), []
    one = night(tmp_path, clock, lambda seed: seed == 7_003, shrunk)
    one.pass_until(clock.now_s, lambda _: None, piece_seeds=10)
    kept = (tmp_path / "seed-7003.txt").read_text()
    assert "commit abc" in kept
    assert "python -m tests.sim --seed 7003 -- " in kept
    assert "python -m tests.sim --seed 7003 --faults none" in kept
    assert report(tmp_path)["failed"] == ["7003"]
    assert shrunk == ["7003"]


def test_when_everything_fails_it_goes_on_and_makes_few_of_them_smaller(tmp_path: Path) -> None:
    clock, shrunk = Clock(), []
    one = night(tmp_path, clock, lambda _: True, shrunk)
    one.pass_until(clock.now_s + 150, lambda _: None, piece_seeds=3)
    assert len(clock.ran) == 6
    assert len(list(tmp_path.glob("seed-*.txt"))) == 6
    assert len(shrunk) <= SHRUNK_MAX


def test_a_report_that_is_not_finished_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    one = night(tmp_path, clock, lambda _: False)
    one.pass_until(clock.now_s, lambda _: None, piece_seeds=1)
    before = report(tmp_path)

    def full(_path: Path, _text: str) -> int:
        raise OSError(28, "no space")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="no space"):
        one.pass_until(clock.now_s, lambda _: None, piece_seeds=1)
    assert report(tmp_path) == before


def test_no_two_days_share_seeds_and_none_those_of_every_change() -> None:
    assert first_of(date(2026, 1, 1)) >= SEEDS_A_DAY
    assert first_of(date(2026, 11, 26)) - first_of(date(2026, 11, 25)) == SEEDS_A_DAY
