"""Makes what `spark-submit --py-files` takes: `make pipeline-archive`.

Problem: executors on YARN, or on any cluster whose nodes are not ours, do not have this package. Mechanism: a zip of
its sources and of those modules of the coordinator that it imports (the assignors), which Spark hands to driver and
executors and Python imports as it is; beside it the script that spark-submit starts. Equal sources give equal bytes,
so that a cluster's cache of archives holds. What is not in it: packages with compiled parts (Arrow, NumPy, delta-rs),
which no Python imports from a zip. Those are in the Python of the nodes, or in an archive of an environment
(docs/pipeline.md).
"""

import argparse
import ast
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = {"muster_pipeline": ROOT / "pipeline", "muster_coordinator": ROOT / "coordinator"}
"""Package to the folder that it lies in. The first goes in whole, of the others what it imports."""
WHOLE: Final = "muster_pipeline"
ARCHIVE: Final = "muster-pipeline.zip"
SCRIPT: Final = "muster-pipeline.py"
TIME: Final = (1980, 1, 1, 0, 0, 0)
"""Of all entries: the earliest that a zip can say."""


def module_file(name: str) -> Path | None:
    """The source of a module of ours; None of anything else, such as a name within a module."""
    root = SOURCES.get(name.partition(".")[0])
    if root is None:
        return None
    path = root.joinpath(*name.split("."))
    for found in (path / "__init__.py", path.with_suffix(".py")):
        if found.is_file():
            return found
    return None


def imported(source: str) -> Iterator[str]:
    """Names that a module may import, also within functions; of `from a import b` both `a` and `a.b`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def files() -> dict[str, Path]:
    """Name in the archive to the file."""
    whole = SOURCES[WHOLE] / WHOLE
    found = {path for path in whole.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    todo = sorted(path for path in found if path.suffix == ".py")
    while todo:
        names = set(imported(todo.pop().read_text("utf-8")))
        parents = {name.rsplit(".", depth)[0] for name in names for depth in range(name.count(".") + 1)}
        for path in filter(None, map(module_file, sorted(names | parents))):
            if path not in found:
                found.add(path)
                todo.append(path)
    named = {path: next(root for root in SOURCES.values() if path.is_relative_to(root)) for path in found}
    return {path.relative_to(root).as_posix(): path for path, root in sorted(named.items())}


def make(folder: Path) -> tuple[Path, Path]:
    """Write archive and script into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    archive, script = folder / ARCHIVE, folder / SCRIPT
    with zipfile.ZipFile(archive, "w") as made:
        for name, path in sorted(files().items()):
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = 0o644 << 16
            made.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    script.write_bytes((SOURCES[WHOLE] / WHOLE / "__main__.py").read_bytes())
    return archive, script


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the two paths."""
    parser = argparse.ArgumentParser(description="The archive for spark-submit --py-files")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    for path in make(parser.parse_args(arguments).out):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
