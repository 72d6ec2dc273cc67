"""What is counted is read: a number that only grows, and that no metric, status or decision looks at, is not kept."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = {"coordinator": "muster_coordinator", "operator": "muster_operator", "pipeline": "muster_pipeline"}


def never_read(sources: dict[str, str]) -> Iterator[str]:
    """`file:line: name` of each attribute that is added to somewhere and looked at nowhere."""
    added: dict[str, str] = {}
    read: set[str] = set()
    for path, source in sources.items():
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
                added.setdefault(node.target.attr, f"{path}:{node.lineno}")
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                read.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                read.add(node.value)  # a column's name
    for name, where in sorted(added.items()):
        if name not in read:
            yield f"{where}: {name}"


def sources_of(part: str) -> dict[str, str]:
    folder = ROOT / part / PARTS[part]
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))}


@pytest.mark.parametrize("part", PARTS)
def test_every_counter_is_read_in_the_product(part: str) -> None:
    assert list(never_read(sources_of(part))) == []


def test_a_planted_counter_is_found_and_a_read_one_is_not() -> None:
    planted = "class A:\n    def go(self) -> None:\n        self.lost += 1\n        self.seen += 1\n"
    reader = "def show(a: A) -> int:\n    return a.seen\n"
    assert list(never_read({"a.py": planted, "b.py": reader})) == ["a.py:3: lost"]
