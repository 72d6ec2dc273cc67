"""Which Python `make` makes its environment of: the system's own where it will do, and nobody's choice is overruled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.base_python import choose, is_chosen, version_of

OWN = Path("/somewhere/python3")
ROOT = Path(__file__).parents[1]


def python(folder: Path, says: str, code: int = 0) -> Path:
    """A program that answers every question so."""
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n", "utf-8")
    path.chmod(0o755)
    return path


def test_the_python_of_this_environment_is_whole_or_not_taken() -> None:
    assert version_of(Path(sys.executable)) in (None, sys.version_info[:2])


@pytest.mark.parametrize(("says", "taken"), [("3 11", True), ("3 12", True), ("3 10", False), ("4 0", True)])
def test_the_systems_own_is_taken_if_it_is_no_older(tmp_path: Path, says: str, taken: bool) -> None:
    system = python(tmp_path, says)
    assert choose(OWN, (3, 11), chosen=False, system=system) == (system if taken else OWN)
    assert choose(OWN, (3, 9), chosen=False, system=system) == (system if taken else OWN), "3.10 is too old for Muster"
    assert choose(OWN, (3, 11), chosen=True, system=system) == OWN


def test_a_newer_one_of_ones_own_is_kept(tmp_path: Path) -> None:
    assert choose(OWN, (3, 13), chosen=False, system=python(tmp_path, "3 12")) == OWN


@pytest.mark.parametrize("says", ["", "3", "3 eleven", "3 11 2"])
def test_one_that_lacks_a_part_is_not_taken(tmp_path: Path, says: str) -> None:
    assert choose(OWN, (3, 11), chosen=False, system=python(tmp_path, says, 1)) == OWN


def test_where_there_is_none_it_is_ones_own(tmp_path: Path) -> None:
    assert choose(OWN, (3, 11), chosen=False, system=tmp_path / "python3") == OWN


def test_an_activated_environment_is_a_choice() -> None:
    assert is_chosen({"VIRTUAL_ENV": "/home/me/env"})
    assert is_chosen({"CONDA_PREFIX": "/opt/conda"})
    assert not is_chosen({"PATH": "/usr/bin", "VIRTUAL_ENV": ""})


def test_it_prints_one_path_of_a_python_that_runs() -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    program = [sys.executable, str(ROOT / "tests" / "base_python.py")]
    said = subprocess.run(program, capture_output=True, text=True, check=True, env=environment, cwd="/").stdout
    assert subprocess.run([said.strip(), "-c", "import venv"], check=False).returncode == 0
