"""Seeds in pieces: what has run is not run again, what failed is told again, and the sums are those of one run."""

from pathlib import Path

import pytest

from tests.sim.batch import Tally, run_all
from tests.sim.history import Violation
from tests.sim.progress import append, read_progress, run_pieces
from tests.sim.run import Result

pytestmark = pytest.mark.timeout(300)  # nine runs of a seed


def test_pieces_with_an_end_in_between_sum_up_to_one_run(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    told: list[str] = []
    run_pieces(range(2), path, 1, piece_seeds=1)
    with path.open("a") as file:
        file.write('{"seeds": [2')  # killed while it wrote
    tally = run_pieces(range(3), path, 1, told.append, tell_all=True)
    assert [line.split(":")[0] for line in told if ": trace" in line] == ["seed 2"]
    whole = run_all(range(3), 1)
    assert not [result.line() for result in (*tally.failed, *whole.failed)]
    assert (tally.seeds, tally.operations, tally.acknowledged, tally.faults) == (
        whole.seeds,
        whole.operations,
        whole.acknowledged,
        whole.faults,
    )
    assert tally.marks == whole.marks
    assert read_progress(path, range(3))[1] == {0, 1, 2}


def test_a_seed_that_failed_in_an_earlier_piece_is_told_again_with_the_command_that_repeats_it(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    tally = Tally()
    tally.add(Result("7", [Violation("O1", "lost")]))
    append(path, [7], tally)
    told: list[str] = []
    again = run_pieces(range(7, 8), path, 1, told.append)
    assert again.failed
    assert any("python -m tests.sim --seed 7" in line for line in told)


def test_pieces_of_other_seeds_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    append(path, [7, 8], Tally(seeds=2))
    assert read_progress(path, range(8))[0].seeds == 0
    assert read_progress(path, range(9))[0].seeds == 2
