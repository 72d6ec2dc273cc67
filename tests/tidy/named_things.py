"""Paths and names in docstrings: does what they name exist?

Looked at: docstrings, and the strings under fields and constants. Judged, and nothing else, so that a finding is a
fault:

* a path that ends in `.py` or `.md`: some tracked file has it, or ends with it after a `/`;
* a path that begins with one of the repository's folders (`docs/adr/0012`): some tracked file begins so;
* a back-ticked dotted name whose first part is a class of the repository (`Node.producer_id`), or a module or
  folder beside the file or above it (`limits.HEARTBEAT_MS`; in tests also of the product): the rest is defined there,
  in a base class, or by a module of that folder.

Not judged: single words (a parameter, a module or a term), names that begin with a variable or attribute of the file
(`core.lives`), names in camelCase (Java's and Kubernetes'), settings of properties files, and what a base class from
elsewhere may define.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

_FILE = re.compile(r"(?<![\w/.*<>{}$~-])([\w-][\w.-]*(?:/[\w.-]+)*\.(?:py|md))\b(?![\w/*])")
_FOLDER = re.compile(
    r"(?<![\w/.*<>{}$~-])((?:bench|charts|coordinator|crds|docs|e2e|operator|pipeline|tests)/[\w./-]*[\w-])(?![\w/*<{])"
)
_DOTTED = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements, those in others too."""
    for node in body:
        yield node
        for inner in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from statements(getattr(node, inner, ()))


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every string that stands alone: (line, text)."""
    for node in statements(tree.body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def _targets(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "self":
            yield one.attr


def _names(body: Iterable[ast.stmt]) -> Iterator[str]:
    """What statements define, in blocks of theirs too."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (name for target in node.targets for name in _targets(target))
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            yield from _targets(node.target)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.If | ast.Try):
            yield from _names([*node.body, *node.orelse, *getattr(node, "finalbody", ())])
            yield from (name for handler in getattr(node, "handlers", ()) for name in _names(handler.body))


def _class_names(node: ast.ClassDef) -> Iterator[str]:
    """Its fields, methods, slots, and what its methods set on `self`."""
    yield from _names(node.body)
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
            yield one.attr
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value  # slots, and members of functional enumerations


PACKAGES = ("coordinator/muster_coordinator", "operator/muster_operator", "pipeline/muster_pipeline")
_COMPLETE_BASES = {"Protocol", "NamedTuple", "Exception", "object"}
_SETTING = re.compile(r"\.(?:ms|id|log|json|yaml|toml|properties)$")
_CAMEL = re.compile(r"(?:^|\.)[a-z]\w*[A-Z]")


def variables(tree: ast.AST) -> set[str]:
    """Parameters, assigned names and attributes of a file."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


class Names:
    """What the Python files of a repository define."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        """`sources`: path from the root -> text."""
        self._modules: dict[str, set[str]] = defaultdict(set)
        """Path without suffix -> what a module defines; for a folder what it contains, and what its modules define."""
        self._classes: dict[str, set[str]] = defaultdict(set)
        """All classes of one name together."""
        self._bases: dict[str, set[str]] = defaultdict(set)
        for name, text in sources.items():
            tree = ast.parse(text)
            here = set(_names(tree.body))
            path = PurePosixPath(name).with_suffix("")
            self._modules[str(path)] |= here
            self._modules[str(path.parent)] |= here
            for child, parent in zip((path, *path.parents), path.parents, strict=False):
                self._modules[str(parent)].add(child.name)
            for node in statements(tree.body):
                if isinstance(node, ast.ClassDef):
                    self._classes[node.name] |= set(_class_names(node))
                    self._bases[node.name] |= {getattr(base, "id", "") for base in node.bases}

    def _of_class(self, name: str) -> tuple[set[str], bool]:
        """(names, whether all are known: no base from elsewhere)."""
        found, known = set(self._classes[name]), True
        for base in self._bases[name] - _COMPLETE_BASES - {name}:
            more, sure = self._of_class(base) if base in self._classes else (set(), False)
            found |= more
            known &= sure
        return found, known

    def lacks(self, file: str, dotted: str) -> bool:
        """Is the first part of `dotted` ours, as seen from `file`, and the rest nowhere?"""
        first, *rest = dotted.split(".")
        if first in self._classes:
            found, known = self._of_class(first)
            return known and rest[0] not in found
        top = [p for p in PACKAGES if file.startswith(p + "/")] or [file.partition("/")[0], *PACKAGES]
        folders = [str(parent) for parent in PurePosixPath(file).parents]
        there = [place for place in (first, *(f"{f}/{first}" for f in (*folders, *top))) if place in self._modules]
        return bool(there) and not any(self._leads(place, rest) for place in there)

    def _leads(self, place: str, rest: Sequence[str]) -> bool:
        """Follow `rest` from a module or folder as far as modules and classes go."""
        name, *more = rest
        if name not in self._modules[place]:
            return False
        if more and f"{place}/{name}" in self._modules:
            return self._leads(f"{place}/{name}", more)
        if more and name in self._classes:
            found, known = self._of_class(name)
            return more[0] in found or not known
        return True


def tails(files: Iterable[str]) -> set[str]:
    """Every path and what it ends with after a `/`."""
    parts = [path.split("/") for path in files]
    return {"/".join(path[at:]) for path in parts for at in range(len(path))}


def missing(
    name: str, text: str, files: Sequence[str], ends: Collection[str], names: Names, settings: Collection[str] = ()
) -> list[str]:
    """What the docstrings of the file `name` speak of and is not there. `ends`: `tails` of the tracked `files`."""
    if not (_FILE.search(text) or _FOLDER.search(text) or _DOTTED.search(text)):
        return []
    tree = ast.parse(text)
    own: set[str] | None = None
    found = []
    for line, doc in docstrings(tree):
        for match in _FILE.finditer(doc):
            if match[1] not in ends:
                found.append(f"{name}:{line}: no file {match[1]}")
        for match in _FOLDER.finditer(doc):
            if not _FILE.fullmatch(match[1]) and not any(path.startswith(match[1]) for path in files):
                found.append(f"{name}:{line}: nothing under {match[1]}")
        for match in _DOTTED.finditer(doc):
            dotted = match[1]
            judged = (
                dotted not in ends
                and dotted not in settings
                and not _SETTING.search(dotted)
                and not _CAMEL.search(dotted)
            )
            if judged and names.lacks(name, dotted):
                own = variables(tree) if own is None else own
                if dotted.split(".")[0] not in own:
                    found.append(f"{name}:{line}: `{dotted}` is not there")
    return sorted(set(found))


def dead_links(name: str, text: str, ends: Collection[str], root: Path) -> list[str]:
    """Links of the document `name`, and files that it back-ticks, that are not there."""
    folder = (root / name).parent
    links = (match.partition("#")[0] for match in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text))
    found = [f"{name}: no {link}" for link in links if link and not (folder / link).exists()]
    ticked = (match for match in re.findall(r"`([^`\s]+)`", text))
    found += [
        f"{name}: no file {tick}"
        for tick in ticked
        if _FILE.fullmatch(tick.removeprefix("../")) and tick.removeprefix("../") not in ends
    ]
    return found
