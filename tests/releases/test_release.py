"""The kept wheel is that of its commit, and what runs it runs its code and not today's."""

import hashlib
import subprocess
import sys
import zipfile

import pytest

from tests.releases.release import SHA256, Release

ONLY_THEN = "muster_coordinator.replica.hosting"
"""Renamed since (docs/moved.md)."""
ASK = f"import importlib.util as u, muster_coordinator as m; print(u.find_spec('{ONLY_THEN}') is not None, m.__file__)"


@pytest.mark.parametrize("commit", SHA256)
def test_the_wheel_is_the_one_that_was_put_there(commit: str) -> None:
    release = Release(commit)
    assert hashlib.sha256(release.wheel.read_bytes()).hexdigest() == SHA256[commit]
    with zipfile.ZipFile(release.wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    assert all((release.folder / name).is_file() for name in names)
    assert f"{ONLY_THEN.replace('.', '/')}.py" in names


def test_its_environment_runs_its_code_and_ours_runs_ours() -> None:
    release = Release("7d8ab59")
    there, where = asked(release.environment)
    assert there == "True"
    assert where.startswith(str(release.folder))
    assert asked(None)[0] == "False"


def asked(environment: dict[str, str] | None) -> list[str]:
    command = [sys.executable, "-c", ASK]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
