"""The import contracts hold, and would not if somebody broke them: each kind is shown to fail on a planted import."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("coordinator/muster_coordinator", "operator/muster_operator", "pipeline/muster_pipeline")

pytestmark = [pytest.mark.computes, pytest.mark.slow, pytest.mark.timeout(120)]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Import-linter over the packages in `folder`, by the project's own contracts."""
    program = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    return subprocess.run(
        [sys.executable, "-P", "-c", program, "--config", str(ROOT / "pyproject.toml"), "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package,
            tmp_path / Path(package).name,
            ignore=shutil.ignore_patterns("__pycache__"),
            dirs_exist_ok=True,
        )
    return tmp_path


def test_the_contracts_hold(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize(
    ("file", "planted", "broken"),
    [
        ("muster_coordinator/raft/core.py", "import time", "Pure cores take time"),
        ("muster_coordinator/groups/membership/join.py", "import muster_coordinator.raft.core", "Raft and groups"),
        ("muster_coordinator/groups/state/member.py", "import muster_coordinator.groups.core", "Rooms of the groups"),
        ("muster_coordinator/records/batch.py", "import muster_coordinator.replica.node", "Rooms of the coordinator"),
        ("muster_operator/__init__.py", "import muster_coordinator", "The operator imports neither"),
    ],
)
def test_a_planted_import_breaks_its_contract(copy: Path, file: str, planted: str, broken: str) -> None:
    path = copy / file
    path.write_text(path.read_text() + f"\n{planted}\n")
    done = lint(copy)
    assert done.returncode != 0
    verdict = next(line for line in done.stdout.splitlines() if line.startswith(broken))
    assert "BROKEN" in done.stdout[done.stdout.index(verdict) :].split("KEPT")[0]
