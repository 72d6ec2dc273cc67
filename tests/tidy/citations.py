"""What comments and documents cite by number, and where it should lead (docs/README.md has the list of kinds)."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_NUMBER = r"\d+(?:\.\d+)?"
_LETTERED = r"[A-Z]\d{1,2}"


def _list_of(item: str) -> str:
    """One item or several: "7", "7-9", "4, 6 and 8"."""
    return rf"({item}(?:(?:, (?:and )?| and |-| to ){item})*)"


class Kind(NamedTuple):
    """A way of citing: where it is defined, what a definition looks like there, and what a citation looks like."""

    name: str
    document: str
    definition: re.Pattern[str]
    citation: re.Pattern[str]
    below: tuple[str, ...] = ("",)
    """Path prefixes in which the words mean this."""


def _kind(name: str, document: str, definition: str, words: str, item: str, *below: str) -> Kind:
    """`words` and then one `item` or a list of them; without `item`, `words` has the group."""
    pattern = rf"{words} {_list_of(item)}" if item else words
    return Kind(name, document, re.compile(definition, re.MULTILINE), re.compile(pattern), below or ("",))


_INVARIANTS = ("invariant", "docs/invariants.md", rf"^\| ({_LETTERED}) \|")
_RAFT_RULES = ("raft rule", "docs/raft-rules.md", r"^(?:\|\W*|#+ (?:[Rr]ule )?)(\d+)\b")
_NOTES = "docs/protocol-notes.md"
KINDS = (
    _kind("decision", "docs/decisions.md", r"^\| (\d+) \|", r"\b[Dd]ecisions?", r"\d+"),
    _kind(*_INVARIANTS, r"\b[Ii]nvariants?", _LETTERED),
    _kind(*_INVARIANTS, rf'(?:_say\(|Violation\()\s*"({_LETTERED}(?:/{_LETTERED})*)"', "", "tests/sim/"),
    _kind(*_RAFT_RULES, r"\b[Rr]aft rules?", r"\d+"),
    _kind(*_RAFT_RULES, r"\b[Rr]ules?", r"\d+", "coordinator/muster_coordinator/raft/", "tests/raft/"),
    _kind("section", _NOTES, rf"^#+ ({_NUMBER}) ", r"\b[Pp]rotocol notes", _NUMBER),
    _kind("quirk", _NOTES, r"^\| (Q\d+) \|", r"\bquirks?", r"Q\d+"),
    _kind("ADR", "docs/adr", r"^0*(\d+)-", r"\bADRs?", r"\d+"),
)
ABSENT = re.compile(
    r"\b(?:protocol|data_plane|reliability|raft|sources|market|spark|style_operator|kubernetes_here|design/architecture)"
    r"\.md\b|\barchitecture section \d"
)
"""Working notes that are in no repository."""


def cited(text: str) -> Iterator[str]:
    """Each item of a list of numbers, ranges spelled out."""
    for part in re.split(r", (?:and )?| and |/", text):
        first, _, last = part.replace(" to ", "-").partition("-")
        letter = first.rstrip("0123456789.") if last else ""
        if not last or "." in first:
            yield from filter(None, (first, last))
        else:
            low, high = int(first.removeprefix(letter)), int(last.removeprefix(letter))
            yield from (f"{letter}{number}" for number in range(low, high + 1))


def joined(text: str) -> str:
    """`text` with lines of one comment or docstring joined, so that a citation may be wrapped."""
    return re.sub(r"[ \t]*\n[ \t]*(?:# |// |\* )?", " ", text)


def defined(root: Path) -> dict[Kind, set[str]]:
    """What each kind's document defines."""
    found = {}
    for kind in KINDS:
        path = root / kind.document
        text = "\n".join(sorted(p.name for p in path.iterdir())) if path.is_dir() else path.read_text()
        found[kind] = set(kind.definition.findall(text))
    return found


def dead_citations(name: str, text: str, definitions: Mapping[Kind, set[str]]) -> list[str]:
    """Citations in the file `name` that lead nowhere."""
    whole = joined(text)
    found = [f"{name}: {match} is in no repository" for match in ABSENT.findall(whole)]
    for kind, known in definitions.items():
        if not name.startswith(kind.below):
            continue
        for match in kind.citation.finditer(whole):
            gone = [item for item in cited(match[1]) if item not in known]
            found += [f"{name}: {match[0]!r}: {kind.document} has no {kind.name} {item}" for item in gone]
    return found
