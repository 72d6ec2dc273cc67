"""Every rule broken on purpose: the random schedules, or else a test of that rule, must notice each mutant.

A mutant is one replacement in the source of one module (`mutants.txt`), made in a copy of this process
(`mutants.in_place`), or loaded beside the real package and thrown away again.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import muster_coordinator.raft
import pytest

from tests.mutants.apart import apart
from tests.mutants.in_place import changes_of, make

ROOM = Path(muster_coordinator.raft.__file__).parent
RELOADED = ("muster_coordinator.raft", "tests.raft")
SEEDS = 60


class Mutant(NamedTuple):
    """`old` becomes `new` in `module`; `by` is what must notice."""

    name: str
    module: str
    old: str
    new: str
    by: str


def read_mutants(text: str) -> list[Mutant]:
    """Blocks separated by empty lines; see the head of the file."""
    mutants = []
    for block in text.split("\n\n")[1:]:
        name, place, *lines = block.strip("\n").split("\n")
        _, module, _, _, by = place.split()
        old = "\n".join(line[1:] for line in lines if line[0] == "-")
        new = "\n".join(line[1:] for line in lines if line[0] == "+")
        mutants.append(Mutant(name, module, old, new, by))
    return mutants


MUTANTS = read_mutants((Path(__file__).parent / "mutants.txt").read_text())


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self.mutant = mutant

    def get_code(self, fullname: str):
        source = self.get_data(self.path).decode()
        assert source.count(self.mutant.old) >= 1, f"{self.mutant.name}: nothing to replace in {self.path}"
        return compile(source.replace(self.mutant.old, self.mutant.new), self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.name = f"muster_coordinator.raft.{mutant.module}"
        self.mutant = mutant

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None):
        if fullname != self.name:
            return None
        file = str(ROOM / f"{self.mutant.module}.py")
        return importlib.util.spec_from_file_location(fullname, file, loader=_Loader(fullname, file, self.mutant))


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """Inside, imports of the Raft room and of these tests see the mutant."""
    saved = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(RELOADED)}
    finder = _Finder(mutant)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(RELOADED)]:
            del sys.modules[name]
        sys.modules.update(saved)


def killed_by_schedules(members: int = 0) -> bool:
    """With `members` of six nodes, which change, if that is not 0."""
    module = importlib.import_module("tests.raft.test_random_schedules")
    for seed in range(SEEDS):
        schedule = module.Schedule(seed, 6 if members else 5 if seed % 3 == 2 else 3, members)
        try:
            schedule.run(module.STEPS)
            schedule.heal()
        except Exception:  # noqa: BLE001 - whatever breaks, the mutant was noticed
            return True
    return False


def killed_by_rules(mutant: Mutant) -> bool:
    """The tests of the mutant's own rule go first: most end with them."""
    module = importlib.import_module("tests.raft.test_rules")
    quorum = importlib.import_module("tests.raft.test_quorum")
    suspension = importlib.import_module("tests.raft.test_suspension")
    own = f"test_rule_{mutant.name[1:3]}_"
    members = importlib.import_module("tests.raft.test_members")
    tests = [
        *inspect.getmembers(members, inspect.isfunction),
        *inspect.getmembers(suspension, inspect.isfunction),
        *inspect.getmembers(module, inspect.isfunction),
        *inspect.getmembers(quorum, inspect.isfunction),
    ]
    for name, test in sorted(tests, key=lambda one: not one[0].startswith(own)):
        if name.startswith("test_") and not inspect.signature(test).parameters:
            try:
                test()
            except Exception:  # noqa: BLE001
                return True
    return False


def is_noticed(mutant: Mutant) -> bool:
    """By who must."""
    if mutant.by == "rules":
        return killed_by_rules(mutant)
    return killed_by_schedules({"schedules": 0, "changes": 3}[mutant.by])


@pytest.mark.source
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_mutant_is_noticed(mutant: Mutant) -> None:
    """Made in place where it is within functions; one that nobody notices so is imported anew."""
    changes = changes_of(f"muster_coordinator.raft.{mutant.module}", lambda text: text.replace(mutant.old, mutant.new))

    def judge() -> str:
        assert changes is not None
        make(changes)
        return "noticed" if is_noticed(mutant) else "survives"

    said = "survives" if changes is None else apart(judge)
    if said == "survives":
        with mutated(mutant):
            said = "noticed" if is_noticed(mutant) else "survives"
    assert said == "noticed", mutant.name


def test_the_unbroken_core_is_not_accused() -> None:
    none = Mutant("none", "quorum", "size // 2 + 1", "size // 2 + 1", "nobody")
    assert not killed_by_rules(none)
    with mutated(none):
        assert not killed_by_rules(none)
