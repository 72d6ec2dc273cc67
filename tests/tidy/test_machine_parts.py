"""What MUSTER_REQUIRE names fails where it is missing, all else is skipped, and one module knows."""

from pathlib import Path

import pytest

from tests import machine_parts

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "MUSTER_REQUIRE"


@pytest.mark.parametrize(
    ("said", "required"),
    [("", False), ("all", True), ("java", True), ("go, java", True), ("go,all", True), ("javac", False), ("go", False)],
)
def test_a_missing_part_fails_a_test_where_it_is_named(
    said: str, required: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, said)
    monkeypatch.setitem(machine_parts.PARTS, "java", lambda: "no JDK")
    with pytest.raises(pytest.fail.Exception if required else pytest.skip.Exception, match=r"java.*: no JDK"):
        machine_parts.require("java")


def test_a_part_that_is_there_is_no_reason_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "all")
    monkeypatch.setitem(machine_parts.PARTS, "java", lambda: None)
    machine_parts.require("java")


def test_nobody_else_reads_the_variable() -> None:
    """The ladder of machines (`e2e/node`) runs without pytest."""
    words = f'environ.get("{VARIABLE}"'
    readers = {
        str(path.relative_to(ROOT))
        for folder in ("tests", "e2e", "bench")
        for path in (ROOT / folder).rglob("*.py")
        if words in path.read_text()
    }
    assert readers == {"tests/machine_parts.py", "e2e/node/__main__.py"}
