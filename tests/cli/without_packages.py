"""Run every command of `muster` in an interpreter that finds none of the packages named; print name, code and stderr.

    python without_packages.py FOLDER PACKAGE...

Arguments that a command demands are made from their names. Nothing is written but into FOLDER.
"""

import contextlib
import importlib.abc
import importlib.util
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Missing(importlib.abc.MetaPathFinder):
    """Refuses the packages as the import system does where they are not installed."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = frozenset(packages)

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] in self.packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def hide(packages: Sequence[str]) -> None:
    """From imports and from `importlib.util.find_spec`, which returns None for what is not there."""
    sys.meta_path.insert(0, Missing(packages))
    real = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name.partition(".")[0] in packages else real(name, package)

    importlib.util.find_spec = find_spec


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something by itself, with the words that lead to it."""
    for name, below in getattr(command, "commands", {}).items():
        yield from leaves(below, (*words, name))
    if not hasattr(command, "commands") or command.invoke_without_command:
        yield words, command


FILES = ("config", "file")
"""Names of parameters that want a file; of all others a 1 will do."""


def demanded(command: Any, file: str) -> list[str]:
    """Values for what `command` demands."""
    words = []
    for parameter in command.params:
        if parameter.required:
            value = file if parameter.name in FILES else "1"
            option = parameter.opts[0]
            words += [option, value] if option.startswith("-") else [value]
    return words


EXTRA_WORDS = {
    ("probe",): ["http://127.0.0.1:1/readyz"],
    ("group", "migrate"): ["--all"],
    ("group", "reset-offsets"): ["--all-topics", "--to-earliest"],
    ("pipeline", "ingest"): ["--segments", "here"],
}
"""What cannot be told from the names. `probe` gets its address in place of the demanded one."""


def run(entry: Any, words: Sequence[str] | None = None) -> tuple[int, str]:
    """Exit code and what was said on standard error."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            entry(words) if words is not None else entry()
        except SystemExit as end:
            return (end.code if isinstance(end.code, int) else 0), said.getvalue()
        except BaseException as error:  # noqa: BLE001 - what would be a traceback
            return 1, f"Traceback: {error!r}\n"
    return 0, said.getvalue()


def main() -> None:
    folder, *packages = sys.argv[1:]
    os.chdir(folder)
    hide(packages)
    import typer
    from muster_coordinator.cli.command_tree import build
    from muster_coordinator.cli.main import main as muster
    from muster_operator.plugin.start import main as plugin

    file = os.path.join(folder, "file")
    with open(file, "w") as made:
        made.write("node.id=1\n")
    found = []
    for words, command in leaves(typer.main.get_command(build())):
        given = demanded(command, file) if words != ("probe",) else []
        code, said = run(muster, [*words, *given, *EXTRA_WORDS.get(words, [])])
        found.append((" ".join(("muster", *words)), code, said))
    found.append(("kubectl muster", *run(plugin)))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
