"""Each event is told with the fields that its declaration has (`events.py`): docs/events.md promises them, and nothing
else compares them.

Every call that tells an event is found in the source. What the host and the core of groups add to every event of theirs
is counted as told.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import muster_coordinator
from muster_coordinator import events
from muster_coordinator.events import KINDS, EventKind

PACKAGE = Path(muster_coordinator.__file__).parent
KIND_OF = {name: kind for name, kind in vars(events).items() if isinstance(kind, EventKind)}
OF_A_GROUP = frozenset({"raft_group", "partition"})
"""Added by `RaftGroup.tell`."""
OF_A_CONSUMER_GROUP = frozenset({"consumer_group", "generation"})
"""Added by `Core.tell`, whose events then pass `RaftGroup.tell`."""
TOLD_BY_VARIABLE = {
    "AUDITED": "api/audit.py, admin/api.py",
    "WOULD_BE_DENIED": "api/standard_authorizer.py",
    "CONNECTION_FAILED": "runtime/client_arrival.py, runtime/client_connection.py",
    "DISK_LOW": "replica/maintenance/disk_space.py",
    "DISK_FULL": "replica/maintenance/disk_space.py",
    "DISK_HAS_ROOM": "replica/maintenance/disk_space.py",
}
"""Their fields are in a variable; the tests of these files assert them."""


Told = tuple[str, str, frozenset[str]]
"""Name of the kind, where it is told, fields."""


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    """Every call in the package: where, the call, the function around it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call):
                        yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node, function.name


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


@cache
def told() -> frozenset[Told]:
    """What is told with fields that stand in the call. A function that tells the kind that it is given counts as every
    call that hands it one; there is one such function, so a keyword can only mean it."""
    found: set[Told] = set()
    passed: dict[str, frozenset[str]] = {}
    everywhere = list(calls())
    for where, call, function in everywhere:
        if not call.args or not isinstance(call.args[0], ast.Name):
            continue
        kind = call.args[0].id
        if name_of(call.func) == "Event" and kind in KIND_OF and isinstance(call.args[1], ast.Dict):
            keys = [key.value for key in call.args[1].keys if isinstance(key, ast.Constant)]
            found.add((kind, where, frozenset(map(str, keys))))
        elif name_of(call.func) == "tell" and (call.keywords or kind in KIND_OF):
            of_groups = len(call.args) > 1
            assert len(call.args) == (3 if of_groups else 1), where
            given = frozenset(word.arg or "**" for word in call.keywords)
            given |= OF_A_CONSUMER_GROUP if of_groups else OF_A_GROUP
            if kind in KIND_OF:
                found.add((kind, where, given))
            else:
                passed[function] = given
    assert list(passed) == ["tell_members"]
    for where, call, _ in everywhere:
        if name_of(call.func) in passed:
            found |= {(name_of(one), where, passed[name_of(call.func)]) for one in call.args if name_of(one) in KIND_OF}
        for word in call.keywords:
            if isinstance(word.value, ast.Name) and word.value.id in KIND_OF:
                found.add((word.value.id, where, passed["tell_members"]))
    return frozenset(found)


def test_every_event_is_told_with_its_declared_fields() -> None:
    wrong = [
        f"{where}: {kind} with {sorted(given ^ frozenset(KIND_OF[kind].fields) - OF_A_GROUP)}"
        for kind, where, given in sorted(told(), key=str)
        if given - OF_A_GROUP != frozenset(KIND_OF[kind].fields) - OF_A_GROUP
    ]
    assert wrong == []


def test_every_kind_is_told_somewhere() -> None:
    found = {kind for kind, _, _ in told()}
    assert {KIND_OF[name] for name in found | TOLD_BY_VARIABLE.keys()} == set(KINDS)
    assert found.isdisjoint(TOLD_BY_VARIABLE)


def test_what_a_raft_group_tells_has_its_number_and_partition() -> None:
    for kind, where, given in told():
        if "raft_group" in given:
            assert frozenset(KIND_OF[kind].fields) >= OF_A_GROUP, where
