"""A limit stands in the room that it limits; `limits.py` of the package holds what several rooms share, and no more."""

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "coordinator" / "muster_coordinator"
SHARED = "muster_coordinator.limits"


def constants(source: str) -> set[str]:
    assigned = [node for node in ast.parse(source).body if isinstance(node, ast.Assign | ast.AnnAssign)]
    return {(node.targets[0] if isinstance(node, ast.Assign) else node.target).id for node in assigned}


def of_one_room(shared: str, users: Mapping[str, str]) -> dict[str, str]:
    """Of the constants that `shared` defines: name -> the only room of `users` (path -> text) that imports it.

    Another constant of `shared` that is made of it counts as a room.
    """
    rooms = defaultdict(set)
    for node in ast.walk(ast.parse(shared)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            rooms[node.id].add("limits.py")
    for path, text in users.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module == SHARED:
                for alias in node.names:
                    rooms[alias.name].add(path.split("/")[0])
    return {name: next(iter(rooms[name]), "") for name in sorted(constants(shared)) if len(rooms[name]) < 2}


def test_a_shared_limit_is_shared() -> None:
    users = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    alone = of_one_room((PACKAGE / "limits.py").read_text(), users)
    assert not alone, "put them into the limits.py of that room"


def test_one_that_is_not_is_found() -> None:
    users = {
        "raft/a.py": f"from {SHARED} import BOTH, ONE\n",
        "raft/b.py": f"from {SHARED} import ONE\n",
        "links/a.py": f"from {SHARED} import BOTH\n",
    }
    assert of_one_room("BOTH = 1\nONE = 2\nNONE = 3\n", users) == {"NONE": "", "ONE": "raft"}


def test_no_two_rooms_give_a_limit_the_same_name() -> None:
    found: list[str] = []
    for path in PACKAGE.rglob("limits.py"):
        found += constants(path.read_text())
    assert len(found) > 150
    assert len(found) == len(set(found))
