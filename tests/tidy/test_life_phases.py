"""What an object lacks in one phase of its life is no attribute of it: another type has it (`_Pull`, `FormedNode`,
`_InFlightBatch`), or who begins the phase hands it on (`JoinPhase`).

An assertion that something is not None is left where a value that was computed just now is narrowed, or a precondition
told, and says why that holds.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = {"coordinator": 19, "operator": 4, "pipeline": 1}
"""As many as there are; one less is welcome."""


def not_none(source: str) -> list[tuple[int, bool]]:
    """(line, says why) of each `assert ... is not None`."""
    return [
        (node.lineno, node.msg is not None)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assert)
        for test in ast.walk(node.test)
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot)
        if isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
    ]


@pytest.mark.parametrize("part", MOST)
def test_assertions_against_none_are_few_and_say_why(part: str) -> None:
    found = [
        (f"{path.relative_to(ROOT)}:{line}", why)
        for path in sorted((ROOT / part).rglob("*.py"))
        for line, why in not_none(path.read_text())
    ]
    assert [where for where, why in found if not why] == []
    assert 0 < len(found) <= MOST[part], [where for where, _ in found]


def test_one_that_does_not_say_why_is_found() -> None:
    source = """
def f(self):
    assert self.group is not None
    assert term is not None, "it is in the log"
    assert ready and self.offer is not None
    assert self.group is None
    assert self.group
"""
    assert not_none(source) == [(3, False), (4, True), (5, False)]
