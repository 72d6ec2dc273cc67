"""Nothing is defined that nobody names: a function, class or constant whose name stands nowhere else is dead."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("coordinator", "operator", "pipeline")
READERS = (*PRODUCT, "tests", "bench", "e2e", "docs")
CALLED_BY_SPARK = {
    "getDefaultReadLimit", "initialOffset", "latestOffset", "prepareForTriggerAvailableNow", "reportLatestOffset",
    "streamReader",
}  # fmt: skip
CALLED_BY_CLIENTS = {
    "on_assignment", "on_partitions_assigned", "on_partitions_lost", "on_partitions_revoked", "supported_protocols",
}  # fmt: skip
CALLED_BY_HATCH = {"CompileHook", "initialize"}
WORD = re.compile(r"\w+")


def definitions(source: str) -> Iterator[str]:
    """Names of what is not handed to somebody by a decorator."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.decorator_list:
            yield node.name
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def dead(product: list[str], others: list[str]) -> set[str]:
    """Names that product sources define and that occur once in all."""
    words = Counter(word for source in (*product, *others) for word in WORD.findall(source))
    found = {name for source in product for name in definitions(source) if words[name] == 1}
    return {name for name in found if not name.startswith("__")}


def sources(folder: str) -> list[str]:
    return [path.read_text("utf-8") for path in sorted((ROOT / folder).rglob("*.py"))]


def test_every_name_is_named_somewhere() -> None:
    product = [source for folder in PRODUCT for source in sources(folder)]
    others = [source for folder in READERS if folder not in PRODUCT for source in sources(folder)]
    others += [(ROOT / "pyproject.toml").read_text("utf-8")]
    assert dead(product, others) - CALLED_BY_SPARK - CALLED_BY_CLIENTS - CALLED_BY_HATCH == set()


def test_a_planted_dead_name_is_found() -> None:
    source = "LIMIT = 3\nclass A:\n def used(self): ...\n def lost(self): ...\n @command\n def told(self): ...\n"
    assert dead([source, "A().used()\n"], ["LIMIT"]) == {"lost"}
