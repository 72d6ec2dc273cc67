"""The operator uses no private name of somebody else's package, but where a module exists for just that.

Found are modules with an underscore in their path, attributes with one of anything but `self` and `cls`, and such names
in `getattr`. A private name may go in any release; the modules named here say why they need theirs, and have a test
that fails when an installed release has changed them.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPERATOR = ROOT / "operator/muster_operator"
ALLOWED = {
    "kafka/coordinators.py": {"_manager", "_find_coordinator_ids"},
    "kafka/quotas.py": {"_manager"},
    "runtime/kopf_watch.py": {"kopf._cogs.structs.references"},
}


def private(name: str) -> bool:
    """`_name`; names with underscores on both sides, as `__class__` and an enum's `_value_`, are documented ones."""
    return name.startswith("_") and not name.endswith("_")


def private_names(source: str) -> Iterator[str]:
    """Private names of others in `source`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if any(map(private, one.name.split("."))))
        elif isinstance(node, ast.ImportFrom) and node.module:
            if any(map(private, node.module.split("."))):
                yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names if private(one.name))
        elif isinstance(node, ast.Attribute) and private(node.attr):
            of = node.value
            if not (isinstance(of, ast.Name) and of.id in ("self", "cls")):
                yield node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr"):
            yield from (
                str(one.value)
                for one in node.args
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and private(one.value)
            )


def test_no_private_name_but_in_its_own_module() -> None:
    found = {}
    for path in sorted(OPERATOR.rglob("*.py")):
        names = set(private_names(path.read_text()))
        if names:
            found[str(path.relative_to(OPERATOR))] = names
    assert found == ALLOWED


@pytest.mark.parametrize(
    "planted",
    [
        "import kopf._cogs.clients", "from kopf._core import intents", "from kafka.net import _hidden",
        "def f(admin):\n    return admin._manager", "self._client._net.stop()", "getattr(x, '_net')",
        "kafka.admin._groups",
    ],
)  # fmt: skip
def test_the_rule_fails_on_a_planted_name(planted: str) -> None:
    assert list(private_names(planted))


@pytest.mark.parametrize(
    "plain", ["self._x = 1", "cls._y()", "x.__class__", "x._value_", "from __future__ import annotations"]
)
def test_own_names_are_nobody_else_s(plain: str) -> None:
    assert not list(private_names(plain))
