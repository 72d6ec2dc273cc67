"""The scenario files: whole exchanges between cores, letter by letter. MUSTER_REWRITE=1 writes the outputs anew."""

import os
from pathlib import Path

import pytest

from tests.raft.scenario import run_scenario

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_scenario(path: Path) -> None:
    text = path.read_text()
    got = run_scenario(text)
    if os.environ.get("MUSTER_REWRITE"):
        path.write_text(got)
    else:
        assert got == text


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 15


def test_a_wrong_expectation_is_noticed() -> None:
    text = "cluster 1\nstatus 1\n----\n1: LEADER\n"
    assert run_scenario(text) != text
