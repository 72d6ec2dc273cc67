"""A setting's default stands in `settings.py`, once: what `node_settings` hands to a room has none of its own."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "coordinator" / "muster_coordinator"
OTHERS = {
    "storage/partition_log.py: SEGMENT_BYTES": "until its partition tells the log by what its segments end",
    "topics/settings.py: BATCH_BYTES_MAX_DEFAULT": "Kafka's default of a topic config, compared with the broker's",
}
"""Where a room uses the same number as a default for another reason."""


Trees = Mapping[str, ast.Module]


@pytest.fixture(scope="module")
def trees() -> Trees:
    return parsed({str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")})


def parsed(texts: Mapping[str, str]) -> Trees:
    return {path: ast.parse(text) for path, text in texts.items()}


def name_of(node: ast.expr) -> str:
    """The last part of a name, "" for anything else."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def handed_on(node_settings: ast.Module) -> dict[str, set[str]]:
    """Class -> the fields that are filled from the file."""
    calls = [node for node in ast.walk(node_settings) if isinstance(node, ast.Call)]
    found = {name_of(call.func): {word.arg for word in call.keywords if word.arg} for call in calls}
    return {name: fields for name, fields in found.items() if name[:1].isupper() and fields}


def with_default(trees: Trees, filled: Mapping[str, set[str]]) -> list[str]:
    """Of those fields, the ones that a room gives a default: "path: Class.field"."""
    return sorted(
        f"{path}: {found.name}.{field.target.id}"
        for path, tree in trees.items()
        for found in ast.walk(tree)
        if isinstance(found, ast.ClassDef)
        for field in found.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value is not None
        if field.target.id in filled.get(found.name, ())
    )


def defaults_of(tree: ast.Module) -> Iterator[ast.expr]:
    """Of parameters, and of fields of classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from node.args.defaults
            yield from (default for default in node.args.kw_defaults if default is not None)
        elif isinstance(node, ast.ClassDef):
            yield from (one.value for one in node.body if isinstance(one, ast.AnnAssign) and one.value is not None)


def has_keys(path: str) -> bool:
    """`settings.py`, and the parts that it inherits."""
    return path == "settings.py" or (path.endswith("_settings.py") and path != "node_settings.py" and "/" not in path)


def limits_named(trees: Trees) -> set[str]:
    """Limits that the file's keys have as a default: the third argument of `setting`."""
    files = [tree for path, tree in trees.items() if has_keys(path)]
    calls = [node for tree in files for node in ast.walk(tree) if isinstance(node, ast.Call)]
    keys = [call for call in calls if name_of(call.func) == "setting" and len(call.args) > 2]
    names = {name_of(node) for call in keys for node in ast.walk(call.args[2]) if isinstance(node, ast.expr)}
    return {name for name in names if name.isupper() and name not in ("KIB", "MIB", "GIB")}


def repeated(trees: Trees, limits: set[str]) -> list[str]:
    """Where else one of these limits is a default: "path: LIMIT"."""
    return sorted(
        {
            f"{path}: {name_of(default)}"
            for path, tree in trees.items()
            if not has_keys(path)
            for default in defaults_of(tree)
            if name_of(default) in limits
        }
    )


def unread(trees: Trees, limits: set[str]) -> list[str]:
    """Those that nothing but the settings read, not even another limit: they limit nothing, and belong there."""
    read = {
        name_of(node)
        for path, tree in trees.items()
        if not has_keys(path)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    return sorted(limits - read)


def test_no_room_repeats_a_default(trees: Trees) -> None:
    filled = handed_on(trees["node_settings.py"])
    assert {"NodeSettings", "ShardConfig", "ApiSettings", "ClientLimits", "Timing"} <= set(filled)
    assert with_default(trees, filled) == []
    limits = limits_named(trees)
    assert len(limits) > 10
    assert repeated(trees, limits) == sorted(OTHERS)


def test_a_default_that_limits_nothing_stands_in_the_settings(trees: Trees) -> None:
    assert unread(trees, limits_named(trees)) == []


def test_what_is_repeated_is_found() -> None:
    trees = parsed({
        "settings.py": "a = setting('a', p, str(limits.ONE), '')\nsetting('c', p, '3')",
        "some_settings.py": "b = setting('b', p, str(TWO // 2), '')",
        "node_settings.py": "def f(s):\n    return Room(first=s.a, second=s.b)",
        "room/config.py": "class Room:\n    first: int = 7\n    second: int\n    third: int = 3",
        "room/work.py": "def work(first: int = limits.ONE, *, other: int = FOUR): ...",
        "room/limits.py": "ONE = 1",
    })  # fmt: skip
    assert with_default(trees, handed_on(trees["node_settings.py"])) == ["room/config.py: Room.first"]
    assert limits_named(trees) == {"ONE", "TWO"}
    assert repeated(trees, {"ONE", "TWO"}) == ["room/work.py: ONE"]
    assert unread(trees, {"ONE", "TWO"}) == ["TWO"]
