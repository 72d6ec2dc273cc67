"""The kept wheel is that of its commit, and what runs it runs its code and not today's."""

import hashlib
import subprocess
import sys
import zipfile
from importlib.metadata import version

import pytest

from tests.releases.release import KEPT, Release

ASK = "import muster_coordinator as m; from importlib.metadata import version; print(version('muster'), m.__file__)"


@pytest.mark.parametrize("commit", KEPT)
def test_the_wheel_is_the_one_that_was_put_there(commit: str) -> None:
    release = Release(commit)
    assert hashlib.sha256(release.wheel.read_bytes()).hexdigest() == KEPT[commit].sha256
    with zipfile.ZipFile(release.wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    assert all((release.folder / name).is_file() for name in names)


@pytest.mark.parametrize("commit", KEPT)
def test_its_environment_runs_its_code_and_ours_runs_ours(commit: str) -> None:
    release = Release(commit)
    said, where = asked(release.environment)
    assert said == KEPT[commit].version
    assert where.startswith(str(release.folder))
    assert asked(None)[0] == version("muster")


def test_todays_version_is_none_that_was_released() -> None:
    """By it a replica of today is told from an earlier one's, here and by the operator."""
    assert version("muster") not in {kept.version for kept in KEPT.values()}


def asked(environment: dict[str, str] | None) -> list[str]:
    command = [sys.executable, "-c", ASK]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
