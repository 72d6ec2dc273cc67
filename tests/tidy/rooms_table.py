"""The rooms' table of docs/architecture.md beside the imports there are and the contract in pyproject.toml."""

import ast
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

CONTRACT = "Rooms of the coordinator, bottom up"
PACKAGE = "muster_coordinator"
GROUND = frozenset({"errors", "ids", "limits", "ports", "context"})
"""Everybody may use these, so no row names them."""


def rows(document: str) -> dict[str, set[str]]:
    """Room -> the rooms that its column "knows" names."""
    table = document.partition("| room | holds | knows |\n")[2].partition("\n\n")[0]
    found = {}
    for line in table.splitlines()[1:]:
        room, _, knows = (cell.strip() for cell in line.strip("|").split("|"))
        for name in re.sub("`", "", room).split():
            found[name] = set() if knows == "–" else set(re.split(r", ", knows))
    return found


def layers(pyproject: str) -> tuple[dict[str, int], set[tuple[str, str]]]:
    """Room -> height of its layer, and the (importer, imported) pairs that the contract lets pass all the same."""
    contracts = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"]
    contract = next(c for c in contracts if c["name"] == CONTRACT)
    height = {room.strip(): at for at, layer in enumerate(reversed(contract["layers"])) for room in layer.split("|")}
    pairs = [rule.split(" -> ") for rule in contract["ignore_imports"]]
    return height, {(a.split(".")[1], b.split(".")[1]) for a, b in pairs}


def imported(package: Path, room: str) -> set[str]:
    """The rooms that a room's modules import."""
    files = sorted((package / room).rglob("*.py")) or [package / f"{room}.py"]
    found: set[str] = set()
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text()))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            names = [f"{PACKAGE}.{alias.name}" for alias in node.names]
        else:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found |= {name.split(".")[1] for name in names if name.startswith(f"{PACKAGE}.")}
    return found - {room}


def wrong_rows(document: str, pyproject: str, imports: Mapping[str, set[str]]) -> list[str]:
    """What the table says otherwise than the contract and the imports."""
    height, passed = layers(pyproject)
    said = rows(document)
    found = [f"{room} has no row" for room in height if room not in said]
    for room, knows in said.items():
        if room not in height:
            found.append(f"{room} is no room of the contract")
            continue
        found += [
            f"{room} may not know {other}"
            for other in sorted(knows)
            if other not in height or (height[other] >= height[room] and (room, other) not in passed)
        ]
        if room not in GROUND:
            there = {other for other in imports[room] if other in height} - GROUND
            found += [f"{room} knows {other}, and its row does not say so" for other in sorted(there - knows)]
            found += [f"{room} imports nothing of {other}" for other in sorted(knows - there)]
    return found
