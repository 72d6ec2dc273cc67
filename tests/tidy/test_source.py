"""Style rules that a reader would otherwise have to enforce: sizes, layers by room, words that must not appear."""

import ast
import statistics
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("coordinator/muster_coordinator", "operator/muster_operator", "pipeline/muster_pipeline")
PURE_ROOMS = ("records", "raft", "groups", "controller", "topics", "storage", "links", "replica", "wire", "api")
FILE_LINES_MAX = 800
FILE_LINES_MEDIAN_MAX = 250
FUNCTION_LINES_MAX = 70
BANNED_IN_PURE = {
    "asyncio", "concurrent", "datetime", "logging", "multiprocessing", "os", "random", "secrets", "select", "signal",
    "socket", "ssl", "subprocess", "threading", "time", "uuid", "uvloop", "aiohttp",
}  # fmt: skip


def sources() -> list[Path]:
    return sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))


def pure_sources() -> list[Path]:
    base = ROOT / PACKAGES[0]
    return [p for p in sources() if p.is_relative_to(base) and p.relative_to(base).parts[0] in PURE_ROOMS]


def imported_modules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module


def impure_imports(source: str) -> list[tuple[int, str]]:
    """Imports and calls in `source` that reach for time, randomness, disk, network, threads or logging."""
    tree = ast.parse(source)
    found = [(line, name) for line, name in imported_modules(tree) if name.split(".")[0] in BANNED_IN_PURE]
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"open", "print", "input"}
        ):
            found.append((node.lineno, f"{node.func.id}()"))
    return found


def test_pure_rooms_reach_for_nothing_outside_their_ports() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in pure_sources()
        for line, name in impure_imports(path.read_text())
    ]
    assert not found, "pure rooms take clocks, disks and peers as ports:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "planted",
    ["import time", "from asyncio import sleep", "import os.path", "def f():\n    import random", "open('x')"],
)
def test_the_purity_rule_fails_on_a_planted_import(planted: str) -> None:
    assert impure_imports(planted)


def test_files_stay_small() -> None:
    sizes = {p: len(p.read_text().splitlines()) for p in sources()}
    big = [f"{p.relative_to(ROOT)}: {n} lines" for p, n in sizes.items() if n > FILE_LINES_MAX]
    assert not big, "split by noun:\n" + "\n".join(big)
    assert statistics.median(n for n in sizes.values() if n > 3) <= FILE_LINES_MEDIAN_MAX


def test_other_files_stay_small_or_say_why_not() -> None:
    """Tests, benchmarks, end-to-end tests. A longer one begins with its reason: "Longer than other files, because"."""
    texts = {p: p.read_text() for folder in ("tests", "bench", "e2e") for p in (ROOT / folder).rglob("*.py")}
    assert len(texts) > 500
    big = [p for p, text in texts.items() if text.count("\n") > FILE_LINES_MAX]
    silent = [
        p for p in big if "Longer than other files, because" not in (ast.get_docstring(ast.parse(texts[p])) or "")
    ]
    assert not silent, f"split by noun, or say why not: {[str(p.relative_to(ROOT)) for p in silent]}"


def test_functions_stay_short() -> None:
    long = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {lines} lines")
    assert not long, "parents branch, leaves compute:\n" + "\n".join(long)


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(p.relative_to(ROOT)) for p in sources() if not (ast.get_docstring(ast.parse(p.read_text())) or "").strip()
    ]
    assert not silent, "modules without a docstring:\n" + "\n".join(silent)


def test_no_python_lies_directly_in_the_three_part_folders() -> None:
    """An `__init__.py` there would shadow the standard library's `operator` and break Python itself."""
    loose = [
        str(p.relative_to(ROOT)) for part in ("operator", "coordinator", "pipeline") for p in (ROOT / part).glob("*.py")
    ]
    assert not loose


def test_warnings_are_errors_and_nothing_is_loosened() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    warnings = tomllib.loads(text)["tool"]["pytest"]["ini_options"]["filterwarnings"]
    assert warnings[0] == "error"
    assert all(line.startswith("ignore:") and line.count(":") == 2 for line in warnings[1:]), "ignore one message each"
    assert "xfail_strict = true" in text


def test_no_trace_of_the_workplace() -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    words = ("/wo" + "rk/", ".li" + "brary", "sub" + "agent", "/roo" + "t/", "index-" + "url", "GOPRO" + "XY")
    found = []
    for name in files:
        path = ROOT / name
        if path.suffix in {".png", ".gz", ".jar"} or not path.is_file():
            continue
        text = path.read_text(errors="replace")
        found += [f"{name}: {word}" for word in words if word in text]
    assert not found, "\n".join(found)
