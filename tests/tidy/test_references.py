"""What comments and documents refer to is there; each rule is shown to fail on a planted fault."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.tidy.citations import KINDS, cited, dead_citations, defined
from tests.tidy.named_things import Names, dead_links, missing, tails
from tests.tidy.rooms_table import PACKAGE, imported, layers, wrong_rows

ROOT = Path(__file__).resolve().parents[2]
CITING = {".py", ".md", ".toml", ".txt", ".go", ".c", ".yaml", ".yml", ".properties", ".java", ".js", ".tpl", ""}
HERE = "tests/tidy/"
"""These files speak of faults that they plant."""
DECISIONS = "| 7 | a |\n| 8 | b |\n"


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def sources(tracked: list[str]) -> dict[str, str]:
    return {name: (ROOT / name).read_text() for name in tracked if name.endswith(".py")}


# -- citations by number


def test_every_citation_leads_somewhere(tracked: list[str]) -> None:
    definitions = defined(ROOT)
    assert all(definitions.values()), [kind.document for kind, known in definitions.items() if not known]
    found = [
        fault
        for name in tracked
        if Path(name).suffix in CITING and not name.startswith((HERE, "LICENSE"))
        for fault in dead_citations(name, (ROOT / name).read_text(errors="replace"), definitions)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("a.py", "# see decision 999"),
        ("a.py", "# (decisions 7, 999)"),
        ("a.py", "# wrapped (decision\n    # 999)"),
        ("a.py", '"""invariant G99"""'),
        ("a.py", '"""invariants G1-G99"""'),
        ("tests/sim/a.py", 'self._say("O1/O99", text)'),
        ("tests/sim/a.py", 'found.append(\n    Violation(\n        "G99", text))'),
        ("a.py", "# raft rule 99"),
        ("tests/raft/scenarios/a.txt", "# nothing of that (rules 1, 99)."),
        ("a.py", '"""JoinGroup (protocol notes 3.3, 3.99)"""'),
        ("a.md", "as protocol notes 99 say"),
        ("a.py", "# quirk Q99"),
        ("a.md", "ADR 999"),
        ("a.py", "# data_" + "plane.md 2.2"),
        ("a.py", "# proto" + "col.md, wherever"),
        ("a.py", "# archi" + "tecture section 2"),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(name: str, planted: str) -> None:
    assert len(dead_citations(name, planted, defined(ROOT))) >= 1


def test_sound_citations_are_no_fault() -> None:
    text = (
        "decision 4, decisions 5-8 and 20; invariants G1, G2; raft rules 7-9; protocol notes 4.1-4.3, 12.2 row 5; ADR 7"
    )
    assert not dead_citations("a.py", text, defined(ROOT))
    assert not dead_citations("operator/a.py", "rule 99 of this plan", defined(ROOT))
    assert list(cited("G7-G9, G11 and G12")) == ["G7", "G8", "G9", "G11", "G12"]


def test_a_number_that_its_document_loses_is_missed() -> None:
    decision = KINDS[0]
    definitions = {decision: set(decision.definition.findall(DECISIONS))}
    assert not dead_citations("a.py", "decisions 7 and 8", definitions)
    assert dead_citations("a.py", "decisions 7 and 9", definitions)


# -- paths and names


def test_docstrings_name_what_exists(tracked: list[str], sources: dict[str, str]) -> None:
    names, ends = Names(sources), tails(tracked)
    settings = set(re.findall(r"`([\w.]+)`", (ROOT / "docs" / "configuration.md").read_text()))
    found = [
        fault
        for name, text in sources.items()
        if not name.startswith(HERE)
        for fault in missing(name, text, tracked, ends, names, settings)
    ]
    assert not found, "\n".join(found)


PLANTED = {
    "coordinator/muster_coordinator/raft/core.py": "class Core:\n    def step(self): pass\n",
    "coordinator/muster_coordinator/limits.py": "HEARTBEAT_MS = 100\n",
    "coordinator/muster_coordinator/wire/connection.py": "class Connection: pass\n",
    "operator/muster_operator/plan/pods.py": "",
    "docs/adr/0012-repeated-heartbeats.md": "",
}


def faults_of(docstring: str, code: str = "", at: str = "coordinator/muster_coordinator/raft/log.py") -> list[str]:
    names = Names({name: text for name, text in PLANTED.items() if name.endswith(".py")} | {at: ""})
    return missing(at, f'"""{docstring}"""\n{code}', [*PLANTED], tails(PLANTED), names, {"limits.mode"})


@pytest.mark.parametrize(
    "docstring",
    [
        "see docs/gone.md",
        "see raft/gone.py, where",
        "as gone.py says",
        "docs/adr/0099",
        "`limits.GONE`",
        "`core.Core.gone`",
        "`Core.gone`",
        "`Core.gone()`",
        "`raft.core.Gone`",
        "`wire.Gone`",
    ],
)
def test_a_name_that_is_not_there_is_found(docstring: str) -> None:
    assert len(faults_of(docstring)) == 1


@pytest.mark.parametrize(
    "docstring",
    [
        "docs/adr/0012 and raft/core.py, core.py, `limits.HEARTBEAT_MS`, `core.Core.step`, `Core.step()`",
        "`wire.Connection`",
        "`asyncio.sleep`, `Log.append` and `TransactionManager.canRetry` are of others; `limits.mode` is a setting",
        "`pods.gone` means nothing to this package; `core` alone is not judged; build/*.py and <name>.py are patterns",
    ],
)
def test_what_is_there_or_not_ours_is_no_fault(docstring: str) -> None:
    assert not faults_of(docstring)


def test_what_begins_with_a_variable_of_the_file_is_not_judged() -> None:
    assert faults_of("`core.lives`")
    assert not faults_of("`core.lives`", "def f(core): return core.lives")


def test_a_class_is_judged_with_its_bases_and_not_when_one_is_foreign() -> None:
    at = "tests/a.py"
    code = "class A:\n    __slots__ = ('x',)\nclass B(A): pass\nclass C(Foreign): pass\n"
    names = Names({at: code})
    assert [names.lacks(at, dotted) for dotted in ("B.x", "B.y", "C.y")] == [False, True, False]


# -- documents


def test_links_and_files_of_documents_are_there(tracked: list[str]) -> None:
    ends = tails(tracked)
    documents = [name for name in tracked if name.endswith(".md")]
    found = [fault for name in documents for fault in dead_links(name, (ROOT / name).read_text(), ends, ROOT)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "planted", ["[a](gone.md)", "[a](gone.md#part)", "`sim/test_gone.py`", "`../e2e/test_gone.py`"]
)
def test_a_dead_link_is_found(planted: str) -> None:
    assert (
        len(dead_links("docs/README.md", f"{planted}, [b](architecture.md#rooms), https://x/y.md", {"x.py"}, ROOT)) == 1
    )


# -- the rooms' table


def test_the_rooms_table_says_what_the_contract_and_the_imports_say() -> None:
    contract = (ROOT / "pyproject.toml").read_text()
    package = ROOT / "coordinator" / PACKAGE
    imports = {room: imported(package, room) for room in layers(contract)[0]}
    found = wrong_rows((ROOT / "docs" / "architecture.md").read_text(), contract, imports)
    assert not found, "\n".join(found)


CONTRACT = """
[[tool.importlinter.contracts]]
name = "Rooms of the coordinator, bottom up"
layers = ["wire", "raft | groups", "records", "errors | ids"]
ignore_imports = ["muster_coordinator.raft.** -> muster_coordinator.groups.effects"]
"""
IMPORTS = {"wire": {"groups", "ids"}, "raft": {"groups"}, "groups": {"records", "errors"}, "records": set()}
TABLE = {"errors ids": "–", "records": "–", "groups": "records", "raft": "groups", "wire": "groups"}


def table_of(rows: dict[str, str]) -> str:
    lines = [f"| `{room}` | text | {knows} |" for room, knows in rows.items()]
    return "\n".join(["# Rooms", "", "| room | holds | knows |", "|---|---|---|", *lines, "", "after"])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"wire": "groups, records"}, "wire imports nothing of records"),
        ({"wire": "–"}, "wire knows groups, and its row does not say so"),
        ({"groups": "records, wire"}, "groups may not know wire"),
        ({"groups": "records, raft"}, "groups may not know raft"),
        ({"wire": "groups, gone"}, "wire may not know gone"),
        ({"gone": "–"}, "gone is no room of the contract"),
    ],
)
def test_a_wrong_row_is_found(change: dict[str, str], fault: str) -> None:
    assert not wrong_rows(table_of(TABLE), CONTRACT, IMPORTS)
    assert fault in wrong_rows(table_of(TABLE | change), CONTRACT, IMPORTS)


def test_a_room_without_a_row_is_found() -> None:
    rest = {room: knows for room, knows in TABLE.items() if room != "raft"}
    assert wrong_rows(table_of(rest), CONTRACT, IMPORTS) == ["raft has no row"]


def test_every_way_of_importing_counts(tmp_path: Path) -> None:
    (tmp_path / "wire").mkdir()
    lines = [f"import {PACKAGE}.raft.core", f"from {PACKAGE} import limits", f"if 1: from {PACKAGE}.groups import join"]
    (tmp_path / "wire" / "a.py").write_text("\n".join([*lines, "import os"]))
    (tmp_path / "wire" / "b.py").write_text(f"from {PACKAGE}.wire.a import f\nfrom . import a\n")
    assert imported(tmp_path, "wire") == {"raft", "limits", "groups"}
