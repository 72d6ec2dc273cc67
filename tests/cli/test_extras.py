"""Without the packages of an extra every command answers all the same, or says in one sentence what to install.

One interpreter in which those packages cannot be found runs every command of the tree, each with the arguments that it
demands; what a real environment without them does is in `test_installed_parts`.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from muster_coordinator.cli import extras
from muster_coordinator.cli.exits import CliError, Exit
from muster_operator.extras import PACKAGES as OPERATOR_PACKAGES

PIPELINE_PACKAGES = ("pyspark", "py4j", "pyarrow", "numpy", "jinja2", "pandas")
COORDINATOR_PACKAGES = [name for some in extras.EXTRAS.values() for name in some]
EVERY_PACKAGE = sorted({*OPERATOR_PACKAGES, *PIPELINE_PACKAGES, *COORDINATOR_PACKAGES} - {"typing_extensions"})
"""But typing_extensions: Typer, which is always there, imports it too."""

PROGRAM = Path(__file__).with_name("without_packages.py")

STANDALONE = {
    "muster probe",
    "muster cluster status",
    "muster cluster balance",
    "muster cluster decommission",
    "muster cluster controller-voters",
    "muster cluster replication-factor",
    "muster cluster replace",
    "muster cluster stopped-entries",
    "muster cluster skip-entry",
    "muster user recover",
}
"""They speak HTTP with the standard library, so they answer: here, that nobody is there, or that no token is."""


pytestmark = pytest.mark.timeout(200)


@dataclass(frozen=True)
class Ended:
    """What one command did."""

    code: int
    said: str


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Every command, run where none of the packages is."""
    folder = tmp_path_factory.mktemp("bare")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), *EVERY_PACKAGE],
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {name: Ended(code, said) for name, code, said in json.loads(done.stdout)}


def test_every_command_is_there_without_any_extra(ended: dict[str, Ended]) -> None:
    assert len(ended) >= 27
    assert {
        "muster dev",
        "muster group describe",
        "muster pipeline ingest",
        "muster operator",
        "kubectl muster",
    } <= set(ended)


def test_a_command_answers_or_says_what_to_install(ended: dict[str, Ended]) -> None:
    for name, command in ended.items():
        assert "Traceback" not in command.said, (name, command.said)
        if name in STANDALONE:
            assert command.code != 0, (name, command)
            assert "pip install" not in command.said, (name, command)
            continue
        assert command.code == Exit.USAGE, (name, command)
        assert command.said.count("\n") == 1, (name, command.said)
        assert "pip install 'muster[" in command.said, (name, command.said)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("muster dev", "coordinator"), ("muster server", "coordinator"), ("muster demo", "coordinator,demo"),
        ("muster consume", "cli"), ("muster group list", "cli"), ("muster pipeline verify", "pipeline"),
        ("muster operator", "operator"), ("kubectl muster", "operator"),
    ],
)  # fmt: skip
def test_the_extra_is_the_commands_own(ended: dict[str, Ended], name: str, extra: str) -> None:
    assert ended[name].said.endswith(f"pip install 'muster[{extra}]'\n")


def test_only_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "cli", ("json", "no_such_package", "nor_this"))
    with pytest.raises(CliError, match=r"needs the packages no_such_package, nor_this: pip install 'muster\[cli\]'"):
        extras.require("it", "cli")
    monkeypatch.setitem(extras.EXTRAS, "cli", ("json",))
    extras.require("it", "cli")
