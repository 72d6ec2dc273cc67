"""The page on Raft's rules names files, functions, tests and mutants that exist, and leaves out no mutant of a rule."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.mutants.catalogue import MUTANTS
from tests.mutants.of_rules import RULE_MUTANTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "raft-rules.md"
SOURCES = ROOT / "coordinator" / "muster_coordinator"
TESTS = ROOT / "tests"
RULES = 33


class Row(NamedTuple):
    """One rule; the columns as they are written."""

    number: int
    rule: str
    kept: str
    tests: str
    mutants: str


def rows() -> list[Row]:
    found = []
    for line in PAGE.read_text().splitlines():
        if re.match(r"\| \d+ \|", line):
            number, *columns = (column.strip() for column in line.strip("|").split("|"))
            found.append(Row(int(number), *columns))
    return found


def quoted(column: str) -> list[str]:
    return re.findall(r"`([^`]+)`", column)


@cache
def names(path: Path) -> frozenset[str]:
    """Functions, classes and methods ("Class.method") of a file."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return frozenset(found)


def missing_in(root: Path, said: str) -> str | None:
    """What of "file:name" is not there; "rule_NN" stands for the tests whose names begin so."""
    file, _, name = said.partition(":")
    path = root / file
    if not path.is_file():
        return f"no file {file}"
    if not name:
        return None
    known = names(path)
    prefix = f"test_{name}_"
    there = name in known or (name.startswith("rule_") and any(one.startswith(prefix) for one in known))
    return None if there else f"no {name} in {file}"


def core_mutants() -> set[str]:
    blocks = (TESTS / "raft" / "mutants.txt").read_text().split("\n\n")[1:]
    return {block.strip("\n").splitlines()[0] for block in blocks}


def rule_of(mutant: str) -> int | None:
    found = re.match(r"r(\d\d) ", mutant)
    return int(found[1]) if found else None


def test_each_rule_has_one_row_in_order() -> None:
    assert [row.number for row in rows()] == list(range(1, RULES + 1))


def test_what_keeps_a_rule_and_what_tests_it_exists() -> None:
    wrong = []
    for row in rows():
        wrong += [f"{row.number}: {gone}" for said in quoted(row.kept) if (gone := missing_in(SOURCES, said))]
        wrong += [f"{row.number}: {gone}" for said in quoted(row.tests) if (gone := missing_in(TESTS, said))]
        if "open" not in quoted(row.mutants):
            wrong += [f"{row.number}: nothing named" for column in (row.kept, row.tests) if not quoted(column)]
    assert not wrong, "\n".join(wrong)


def test_each_rule_has_a_mutant_or_says_why_it_is_open() -> None:
    of_clusters = {mutant.name for mutant in MUTANTS}
    of_rules = core_mutants() | {one.mutant.name for one in RULE_MUTANTS}
    wrong = []
    for row in rows():
        said = quoted(row.mutants)
        if said == ["open"]:
            assert re.search(r"`open`: \w+ .+", row.mutants), row.number
            continue
        wrong += [f"{row.number}: no mutant {name!r}" for name in said if name not in of_clusters | of_rules]
        others = [name for name in said if rule_of(name) not in (None, row.number)]
        wrong += [f"{row.number}: {name!r} is another rule's" for name in others]
        if not said:
            wrong.append(f"{row.number}: neither a mutant nor `open`")
    assert not wrong, "\n".join(wrong)


def test_every_mutant_of_a_rule_is_on_the_page() -> None:
    told = {name for row in rows() for name in quoted(row.mutants)}
    mutants = core_mutants() | {one.mutant.name for one in RULE_MUTANTS if rule_of(one.mutant.name) is not None}
    assert mutants - told == set()


def test_what_stands_beside_the_rules_exists() -> None:
    below = PAGE.read_text().rpartition("Beside the rules")[2]
    names_of_mutants = {one.mutant.name for one in RULE_MUTANTS}
    said = quoted(below)
    assert said
    assert all(name in names_of_mutants or missing_in(TESTS, name) is None for name in said), said


def test_a_name_that_is_nowhere_is_found() -> None:
    assert missing_in(SOURCES, "raft/core.py:RaftCore.step") is None
    assert missing_in(SOURCES, "raft/core.py:RaftCore.stride") == "no RaftCore.stride in raft/core.py"
    assert missing_in(SOURCES, "raft/kern.py") == "no file raft/kern.py"
    assert missing_in(TESTS, "raft/test_rules.py:rule_01") is None
    assert missing_in(TESTS, "raft/test_rules.py:rule_34") == "no rule_34 in raft/test_rules.py"
