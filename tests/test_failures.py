"""What is told of a failure at the end of all output, by the real hooks in a run of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import failures
from tests.failures import LAST_LINES, LINE_CHARACTERS_MAX, TOLD_MAX

ROOT = Path(__file__).resolve().parents[1]
MODULE = """
import pathlib, pytest
from tests import cluster

class Living:
    output = pathlib.Path(__file__).with_name("dev.log")
    folder = pathlib.Path(__file__).with_name("dev")

def test_right(): pass

@pytest.fixture
def living():
    it = Living()
    cluster.LIVE.add(it)
    yield it
    cluster.LIVE.discard(it)

def test_wrong(living):
    living.output.write_text("some word\\n" * 50 + "the last word\\n")
    (living.folder / "replica-0").mkdir(parents=True)
    (living.folder / "replica-0" / "server.log").write_text("of a replica\\n")
    raise AssertionError("the reason")

@pytest.fixture
def broken():
    yield
    raise OSError("at its end")

def test_closed_wrongly(broken): pass
"""


def run(folder: Path, file: Path, *, workers: int = 0, of_a_test: bool = False) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text("from tests.conftest import *\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-n", str(workers)]
    command += ["--rootdir", str(folder), str(folder)]
    environment = os.environ | {failures.FILE_VARIABLE: str(file)}
    if not of_a_test:
        del environment["PYTEST_CURRENT_TEST"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("workers", [0, 1], ids=["here", "in a worker"])
def test_failures_are_added_with_what_the_cluster_said_last(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "test_it.py").write_text(MODULE)
    file = tmp_path / "failures.log"
    file.write_text("of the run before\n")
    done = run(folder, file, workers=workers)
    assert "1 failed, 2 passed, 1 error" in done.stdout, done.stdout
    told = file.read_text()
    assert told.startswith("of the run before\n--- ")
    assert [line for line in told.splitlines() if line.startswith("--- ")] == [
        "--- test_it.py::test_wrong (call)", "--- test_it.py::test_closed_wrongly (teardown)",
    ]  # fmt: skip
    of_wrong, of_closed = told.split("--- ")[1:]
    assert "AssertionError: the reason" in of_wrong
    assert "the last word" in of_wrong
    assert "of a replica" in of_wrong
    assert of_wrong.splitlines().count("some word") == LAST_LINES - 1
    assert "OSError: at its end" in of_closed
    assert "the last word" not in of_closed, "that cluster is closed by then"


def test_a_run_without_a_failure_leaves_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "test_it.py").write_text("def test_right(): pass\n")
    assert run(folder, tmp_path / "failures.log").returncode == 0
    assert not (tmp_path / "failures.log").exists()


def test_what_a_test_lets_fail_is_not_told(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "test_it.py").write_text("def test_wrong(): assert 0\n")
    assert run(folder, tmp_path / "failures.log", of_a_test=True).returncode == 1
    assert not (tmp_path / "failures.log").exists()


def test_of_many_failures_the_first_are_told_whole_and_the_others_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    text = "x" * (2 * LINE_CHARACTERS_MAX)
    (folder / "test_it.py").write_text(
        "import pytest\n"
        f"@pytest.mark.parametrize('n', range({TOLD_MAX + 5}))\n"
        f"def test_wrong(n):\n    raise OSError('{text}')\n"
    )
    run(folder, tmp_path / "failures.log")
    lines = (tmp_path / "failures.log").read_text().splitlines()
    assert sum(line.startswith("--- ") for line in lines) == TOLD_MAX + 5
    assert sum(line.startswith("E       OSError: xxx") for line in lines) == TOLD_MAX
    assert max(map(len, lines)) == LINE_CHARACTERS_MAX
