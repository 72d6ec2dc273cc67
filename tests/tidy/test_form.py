"""Which form of the product the tests run on: the sources, or (`make test-compiled`) the compiled pure cores."""

import ast
import importlib
import os
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "coordinator" / "muster_coordinator"
ASSIGNORS = PACKAGE / "groups" / "assignors"
"""Not of the coordinator: the CLI's and the pipeline's."""
MADE_ONCE = PACKAGE / "wire" / "hot"
"""Codecs: their closures are made once for each version of a message."""
PATTERNS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"][
    "custom"
]["modules"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_all_tests_see_the_form_that_was_asked_for(pattern: str) -> None:
    files = [path for path in PACKAGE.glob(pattern) if path.name != "__init__.py"]
    assert files, "the pattern names nothing"
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in files]
    kinds = {Path(importlib.import_module(name).__file__ or "").suffix for name in names}
    assert kinds == ({".so"} if os.environ.get("MUSTER_FORM") == "compiled" else {".py"})


def test_no_part_of_a_compiled_room_is_left_out() -> None:
    compiled = {path for pattern in PATTERNS for path in PACKAGE.glob(pattern)}
    rooms = {PACKAGE / pattern.split("/")[0] for pattern in PATTERNS if pattern.endswith("/*.py")} - {PACKAGE / "wire"}
    there = {path for room in rooms for path in room.rglob("*.py") if ASSIGNORS not in path.parents}
    assert there > {PACKAGE / "raft" / "core.py", PACKAGE / "groups" / "core.py"}
    assert not there - compiled, "name them in pyproject.toml"


def test_no_compiled_function_makes_a_function_at_each_call() -> None:
    """In the compiled form a named function within a function and the variables of the call refer to each other. Only
    the garbage collector frees that, with all that the call held: at 500 commits a second it stopped the loop for 10 to
    40 ms every second or two. `functools.partial` of a function of the module is freed at once."""
    compiled = {path for pattern in PATTERNS for path in PACKAGE.glob(pattern) if MADE_ONCE not in path.parents}
    assert len(compiled) > 50
    functions = ast.FunctionDef, ast.AsyncFunctionDef
    found = [
        f"{path.relative_to(PACKAGE)}:{inner.lineno} {inner.name}"
        for path in sorted(compiled)
        for outer in ast.walk(ast.parse(path.read_text()))
        if isinstance(outer, functions)
        for inner in ast.walk(outer)
        if inner is not outer and isinstance(inner, functions)
    ]
    assert not found
