"""Whole restarts of coordinators, decision by decision. MUSTER_REWRITE=1 writes what was decided anew."""

import os
from pathlib import Path

import pytest

from tests.operator.plan.scenario import run_scenario

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
    assert len(FILES) >= 8


def test_a_wrong_expectation_is_noticed() -> None:
    text = "cluster replicas=1\nrun 1\n----\n   0 s  Converged\n"
    assert run_scenario(text) != text


def test_an_unknown_command_is_noticed() -> None:
    with pytest.raises(ValueError, match="explode"):
        run_scenario("explode 1\n----\n")
