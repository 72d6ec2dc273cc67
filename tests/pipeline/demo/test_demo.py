"""The demo passes, and its comparison sees a difference in each kind of fact."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.demo.answers import Facts, differences

FACTS = Facts(
    committed={("g", "t", 0): 5, ("g", "t", 1): 6},
    generations={"g": 3},
    members={"g": frozenset({("m", None, "client", "/h")})},
    assignments={("g", "m"): frozenset({("t", 0), ("t", 1)})},
    ends={("t", 0): (0, 9)},
)


@pytest.mark.parametrize(
    "change",
    [
        {"committed": {("g", "t", 0): 5, ("g", "t", 1): 7}},
        {"committed": {("g", "t", 0): 5}},
        {"committed": {**FACTS.committed, ("h", "t", 0): 0}},
        {"generations": {"g": 4}},
        {"members": {"g": frozenset()}},
        {"assignments": {("g", "m"): frozenset({("t", 0)})}},
        {"ends": {("t", 0): (0, 10)}},
    ],
)
def test_each_kind_of_difference_is_told(change: dict[str, Any]) -> None:
    assert differences(FACTS, FACTS) == []
    assert len(differences(FACTS, replace(FACTS, **change))) == 1
    assert len(differences(replace(FACTS, **change), FACTS)) == 1


@pytest.mark.pipeline
@pytest.mark.timeout(900)
def test_a_minute_of_a_cluster_is_told_as_its_coordinators_tell_it(java: None, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.pipeline.demo", "--dir", tmp_path, "--seconds", "20"]
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=850, cwd=root)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert done.stdout.count("  ok     ") == 9
    assert (tmp_path / "report.html").stat().st_size > 10_000
