"""Every test is run by exactly one suite of `make test`, and `--suite` leaves none of them out."""

import re
import tomllib
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.suites import LOW_PRIORITY, PATIENCE_S, SPARK, be_patient, has_none_of, longest_first

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
MARKERS = ("slow", "sim", "integration", "clients", "pipeline")
"""Of which a test may have several, but not the simulator and Spark. `fuzz` is alone, `quiet` and `paced` are beside
`integration`, `seeds` beside `sim`, `computes` beside `slow`."""
SEVERAL = [frozenset(some) for size in range(len(MARKERS) + 1) for some in combinations(MARKERS, size)]
SETS = [
    *(markers for markers in SEVERAL if not markers >= {"sim", "pipeline"}),
    frozenset({"fuzz"}),
    frozenset({"sim", "seeds"}),
    *(
        frozenset({"slow", "computes", *other})
        for other in ((), ("pipeline",), ("integration",), ("clients",), ("sim",))
    ),
    frozenset({"integration", "quiet"}),
    frozenset({"integration", "quiet", "slow"}),
    frozenset({"integration", "paced"}),
    frozenset({"integration", "paced", "slow"}),
]


def recipe_of(target: str) -> tuple[list[str], list[str]]:
    """What a target of the Makefile needs, and the lines of its recipe, with the variables put in."""
    variables = dict(re.findall(r"^([A-Z_]+) := (.*)$", MAKEFILE, re.MULTILINE)) | {"PYTEST": "$(PYTEST)"}
    rule = re.search(rf"^{target}: (.*)\n((?:\t.*\n)*)", MAKEFILE, re.MULTILINE)
    assert rule is not None, target
    needed, lines = (
        re.sub(r"\$\(([A-Z_]+)\)", lambda name: variables.get(name[1], name[0]), part) for part in rule.groups()
    )
    return needed.split(), lines.splitlines()


def suites(target: str) -> list[str]:
    """The target, what it needs, and what its recipe makes, as often as it is made."""
    needed, lines = recipe_of(target)
    made = [name for line in lines if "$(MAKE)" in line for name in re.findall(r"\btest-[a-z]+\b", line)]
    return [target, *(inner for name in needed + made if name != "setup" for inner in suites(name))]


def runs() -> list[tuple[str | None, str]]:
    """(--suite, -m) of each run of pytest that `make test` makes."""
    found = []
    for suite in suites("test"):
        for line in recipe_of(suite)[1]:
            told = re.search(r'-m (?:"([^"]+)"|(\w+))', line)
            if "$(PYTEST)" not in line or "--collect-only" in line:
                continue
            assert told is not None, line
            only = re.search(r"--suite (\w+)", line)
            found.append((only and only[1], told[1] or told[2]))
    return found


def selects(expression: str, markers: frozenset[str]) -> bool:
    names = set(re.findall(r"\w+", expression)) - {"and", "or", "not"}
    return bool(eval(expression, {"__builtins__": {}}, {name: name in markers for name in names}))


@pytest.mark.parametrize("markers", SETS, ids=lambda markers: "-".join(sorted(markers)) or "none")
def test_a_test_is_run_once(markers: frozenset[str]) -> None:
    assert sum(selects(expression, markers) for _, expression in runs()) == 1


def test_applications_are_run_at_night_alone() -> None:
    alone = frozenset({"applications"})
    assert not any(selects(expression, alone) for _, expression in runs())
    (line,) = recipe_of("applications")[1]
    assert line.strip() == "$(PYTEST) tests/applications -m applications"
    assert "step make applications\n" in (ROOT / ".ci" / "nightly").read_text()
    for path in (ROOT / "tests" / "applications").glob("test_*.py"):
        assert "pytestmark = [pytest.mark.applications," in path.read_text(), path


def test_what_a_suite_selects_has_its_marker() -> None:
    suites = [(suite, expression) for suite, expression in runs() if suite is not None]
    named = {"seeds", "sim", "slow", "computes", "integration", "quiet", "paced", "clients", "fuzz", "pipeline"}
    assert {suite for suite, _ in suites} >= named
    for suite, expression in suites:
        assert not any(selects(expression, markers - {suite}) for markers in SETS), expression


def test_a_marker_stands_in_the_file_of_its_tests() -> None:
    """Neither imported from another one nor given when tests are collected."""
    elsewhere = re.compile(
        r"import .*\bpytestmark\b|\badd_marker\((?!pytest\.mark\.timeout)|\bapplymarker\("
        r"|\bmark import\b|getattr\(.*\bmark\b"
    )
    for path in (ROOT / "tests").rglob("*.py"):
        if path != Path(__file__):
            found = elsewhere.search(path.read_text())
            assert found is None, (path, found)


def test_a_file_that_names_another_marker_only_is_left_out(tmp_path: Path) -> None:
    module = tmp_path / "test_x.py"
    module.write_text("pytestmark = [pytest.mark.simple, pytest.mark.clients]\n")
    assert has_none_of("integration", module)
    assert not has_none_of("clients", module)
    (tmp_path / "test_other.py").write_text("pytestmark = pytest.mark.integration\n")
    assert not has_none_of("integration", tmp_path)


def test_a_folder_is_left_out_when_all_files_below_it_are(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / "conftest.py").write_text("import pyspark\n")
    module = below / "test_x.py"
    module.write_text("pytestmark = pytest.mark.simple\n")
    assert has_none_of("sim", tmp_path)
    (below / "test_y.py").write_text("@pytest.mark.sim\ndef test_y(): ...\n")
    assert not has_none_of("sim", tmp_path)
    assert not has_none_of("sim", below)


def test_a_file_that_is_of_spark_as_a_whole_is_imported_by_its_suite_alone(tmp_path: Path) -> None:
    module = tmp_path / "test_x.py"
    module.write_text("pytestmark = [pytest.mark.clients, pytest.mark.pipeline]\n")
    assert has_none_of("clients", module)
    assert not has_none_of(SPARK, module)
    in_part = tmp_path / "test_y.py"
    in_part.write_text("@pytest.mark.clients\ndef test_x(): ...\n@pytest.mark.pipeline\ndef test_y(): ...\n")
    assert not has_none_of("clients", in_part)
    assert not has_none_of(SPARK, in_part)
    others = [expression for suite, expression in runs() if suite != SPARK]
    assert not any(selects(expression, markers) for expression in others for markers in SETS if SPARK in markers)


def item(path: str, name: str, seconds: float | None) -> Any:
    marker = None if seconds is None else SimpleNamespace(args=(seconds,))
    return SimpleNamespace(path=Path(path), name=name, get_closest_marker={"timeout": marker}.get)


@pytest.mark.parametrize(
    ("niceness", "own_s", "left_s"),
    [
        (0, 60, 60),
        (LOW_PRIORITY - 1, 60, 60),
        (LOW_PRIORITY, 60, PATIENCE_S),
        (19, None, PATIENCE_S),
        (19, 3_600, 3_600),
    ],
)
def test_what_runs_on_the_time_that_others_leave_is_not_ended_for_its_lack(
    request: pytest.FixtureRequest, niceness: int, own_s: int | None, left_s: int
) -> None:
    def one() -> None: ...

    test = pytest.Function.from_parent(request.node.parent, name="one", callobj=one)
    test.own_markers = [] if own_s is None else [pytest.mark.timeout(own_s).mark]
    be_patient([test], niceness)
    marker = test.get_closest_marker("timeout")
    assert marker is not None
    assert marker.args == (left_s,)


def test_the_patience_ends_before_the_run_does() -> None:
    """The suites that are patient take the project's own setting. It ends the process, not the test."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    texts = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    longest_s = max(int(found) for text in texts for found in re.findall(r"\bmark\.timeout\(([\d_]+)", text))
    assert settings["faulthandler_timeout"] > longest_s > PATIENCE_S


def test_files_with_the_longest_time_outs_come_first_and_stay_together() -> None:
    given = [item("a", "1", None), item("b", "2", 60), item("c", "3", 600), item("a", "4", 300), item("b", "5", 60)]
    assert [one.name for one in longest_first(given)] == ["3", "1", "4", "2", "5"]
