"""No module of the product or the benchmark imports, however far round and wherever it says so, one that imports it."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "muster_coordinator": ROOT / "coordinator",
    "muster_operator": ROOT / "operator",
    "muster_pipeline": ROOT / "pipeline",
    "bench": ROOT,
}
Graph = dict[str, set[str]]


def modules() -> dict[str, str]:
    """Dotted name -> source."""
    found = {}
    for package, root in PACKAGES.items():
        for path in sorted((root / package).rglob("*.py")):
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            found[name] = path.read_text("utf-8")
    return found


def graph(sources: dict[str, str]) -> Graph:
    """Module -> modules that it imports anywhere: also in functions, and for types alone."""
    found: Graph = {name: set() for name in sources}
    for name, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                named = [f"{node.module}.{one.name}" for one in node.names]
                targets = {one if one in sources else node.module for one in named}
            elif isinstance(node, ast.Import):
                targets = {one.name for one in node.names}
            else:
                continue
            found[name] |= (targets & sources.keys()) - {name}
    return found


def in_circles(imports: Graph) -> set[str]:
    """What is left when whatever imports nothing that is left is taken away, again and again; so is what imports it."""
    left = {name: set(targets) for name, targets in imports.items()}
    while True:
        leaves = {name for name, targets in left.items() if not targets & left.keys()}
        if not leaves:
            break
        left = {name: targets for name, targets in left.items() if name not in leaves}
    return {name for name in left if _reaches(left, name)}


def _reaches(imports: Graph, start: str) -> bool:
    """Itself, by one import or more."""
    seen: set[str] = set()
    work = list(imports[start])
    while work:
        name = work.pop()
        if name == start:
            return True
        if name not in seen:
            seen.add(name)
            work.extend(imports.get(name, ()))
    return False


def test_nothing_imports_in_circles() -> None:
    assert in_circles(graph(modules())) == set()


def test_a_planted_circle_is_found() -> None:
    sources = {
        "bench.a": "from bench import b",
        "bench.b": "def f():\n    from bench.c import x\n",
        "bench.c": "import bench.a",
        "bench.d": "import bench.a",
        "bench.e": "",
    }
    assert in_circles(graph(sources)) == {"bench.a", "bench.b", "bench.c"}
